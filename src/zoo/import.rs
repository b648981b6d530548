//! Other people's checkpoints: their parameter names and layouts to ours.

use std::collections::BTreeMap;
use std::path::Path;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use crate::error::{Error, Result};

/// A checkpoint taken apart.
#[derive(Debug, Clone)]
pub struct Imported {
    /// The encoder's weights under Hugging Face names, as safetensors.
    pub encoder: Vec<u8>,
    /// The head's weights under our names, as safetensors.
    pub head: Vec<u8>,
}

/// How a parameter of another program lies in ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Number for number.
    Same,
    /// A PyTorch linear layer, or a convolution that looks at one cell: [out, in] there, [in, out] here.
    Transposed,
}

/// The prefix of the encoder in the authors' BOPN.
const BOPN_ENCODER: &str = "bert_encoder.bert.";

/// The authors' BOPN: their names, ours, and the layout. The BiLSTM's gates are put together apart from these.
pub const BOPN: &[(&str, &str, Layout)] = &[
    ("bert_encoder.prompt", "types", Layout::Same),
    (
        "w2w.gamma_dense.weight",
        "span_norm.gamma.weight",
        Layout::Transposed,
    ),
    ("w2w.gamma", "span_norm.gamma.bias", Layout::Same),
    (
        "w2w.beta_dense.weight",
        "span_norm.beta.weight",
        Layout::Transposed,
    ),
    ("w2w.beta", "span_norm.beta.bias", Layout::Same),
    (
        "grid_encoder.region_embeddings.weight",
        "region.weight",
        Layout::Same,
    ),
    (
        "grid_encoder.distance_embeddings.weight",
        "distance.weight",
        Layout::Same,
    ),
    (
        "biaffine.left.linear.weight",
        "biaffine.left.weight",
        Layout::Transposed,
    ),
    (
        "biaffine.left.linear.bias",
        "biaffine.left.bias",
        Layout::Same,
    ),
    (
        "biaffine.right.linear.weight",
        "biaffine.right.weight",
        Layout::Transposed,
    ),
    (
        "biaffine.right.linear.bias",
        "biaffine.right.bias",
        Layout::Same,
    ),
    ("biaffine.weight", "biaffine.form", Layout::Same),
    (
        "p2w2w.gamma_dense.weight",
        "type_norm.norm.gamma.weight",
        Layout::Transposed,
    ),
    ("p2w2w.gamma", "type_norm.norm.gamma.bias", Layout::Same),
    (
        "p2w2w.beta_dense.weight",
        "type_norm.norm.beta.weight",
        Layout::Transposed,
    ),
    ("p2w2w.beta", "type_norm.norm.beta.bias", Layout::Same),
    (
        "distance.weight",
        "type_norm.output.weight",
        Layout::Transposed,
    ),
    ("distance.bias", "type_norm.output.bias", Layout::Same),
    (
        "opt.conv.base.1.weight",
        "convolutions.pointwise.weight",
        Layout::Transposed,
    ),
    (
        "opt.conv.base.1.bias",
        "convolutions.pointwise.bias",
        Layout::Same,
    ),
    (
        "opt.conv.convs.0.weight",
        "convolutions.layers.0.weight",
        Layout::Same,
    ),
    (
        "opt.conv.convs.0.bias",
        "convolutions.layers.0.bias",
        Layout::Same,
    ),
    (
        "opt.conv.convs.1.weight",
        "convolutions.layers.1.weight",
        Layout::Same,
    ),
    (
        "opt.conv.convs.1.bias",
        "convolutions.layers.1.bias",
        Layout::Same,
    ),
    (
        "opt.predictor.weight",
        "convolutions.predictor.weight",
        Layout::Transposed,
    ),
    (
        "opt.predictor.bias",
        "convolutions.predictor.bias",
        Layout::Same,
    ),
];

/// Weights of the authors' BOPN, held in memory as safetensors. A model without the convolutions is fine; a name that
/// is not known is an error.
pub fn bopn(bytes: &[u8]) -> Result<Imported> {
    let mut given = Numbers::read(bytes)?;
    let encoder = given.split(BOPN_ENCODER);
    let mut head = given.renamed(BOPN);
    given.bilstm("bert_encoder.lstm.", 0, "lstm.", &mut head)?;
    match given.0.keys().next() {
        Some(name) => Err(problem(format!("{name} is no parameter of BOPN"))),
        None => Ok(Imported {
            encoder: encoder.write()?,
            head: head.write()?,
        }),
    }
}

/// The prefix of the encoder in the authors' Locate and Label.
const LOCATE_LABEL_ENCODER: &str = "bert.";

/// The authors' Locate and Label, its head: their names (and spelling), ours, and the layout.
pub const LOCATE_LABEL: &[(&str, &str, Layout)] = &[
    (
        "binary_classfier.0.weight",
        "filter.inner.weight",
        Layout::Transposed,
    ),
    ("binary_classfier.0.bias", "filter.inner.bias", Layout::Same),
    (
        "binary_classfier.2.weight",
        "filter.outer.weight",
        Layout::Transposed,
    ),
    ("binary_classfier.2.bias", "filter.outer.bias", Layout::Same),
    (
        "offset_regressier1.0.weight",
        "regressor.inner.weight",
        Layout::Transposed,
    ),
    (
        "offset_regressier1.0.bias",
        "regressor.inner.bias",
        Layout::Same,
    ),
    (
        "offset_regressier1.2.weight",
        "regressor.outer.weight",
        Layout::Transposed,
    ),
    (
        "offset_regressier1.2.bias",
        "regressor.outer.bias",
        Layout::Same,
    ),
    (
        "entity_classifier.0.weight",
        "classifier.inner.weight",
        Layout::Transposed,
    ),
    (
        "entity_classifier.0.bias",
        "classifier.inner.bias",
        Layout::Same,
    ),
    (
        "entity_classifier.2.weight",
        "classifier.outer.weight",
        Layout::Transposed,
    ),
    (
        "entity_classifier.2.bias",
        "classifier.outer.bias",
        Layout::Same,
    ),
];

/// The same for its token representation, which is [`Features`](crate::encoder::features::Features) here. The gates of
/// its two BiLSTMs are put together apart from these.
pub const LOCATE_LABEL_FEATURES: &[(&str, &str, Layout)] = &[
    ("pos_embedding.weight", "pos.weight", Layout::Same),
    ("wordvec_embedding.weight", "word_vectors", Layout::Same),
    (
        "char_embedding.weight",
        "characters.embedding.weight",
        Layout::Same,
    ),
    (
        "reduce_dimension.weight",
        "projection.weight",
        Layout::Transposed,
    ),
    ("reduce_dimension.bias", "projection.bias", Layout::Same),
];

/// Weights of the authors' Locate and Label, held in memory as safetensors: encoder and head, and the features' weights
/// as safetensors under our names. Features and stages that the model was trained without may be missing; a name that
/// is not known is an error.
pub fn locate_label(bytes: &[u8]) -> Result<(Imported, Vec<u8>)> {
    let mut given = Numbers::read(bytes)?;
    let encoder = given.split(LOCATE_LABEL_ENCODER);
    let head = given.renamed(LOCATE_LABEL);
    let mut features = given.renamed(LOCATE_LABEL_FEATURES);
    if given.0.contains_key("char_lstm.weight_ih_l0") {
        given.bilstm("char_lstm.", 0, "characters.lstm.", &mut features)?;
    }
    for layer in 0.. {
        if !given.0.contains_key(&format!("lstm.weight_ih_l{layer}")) {
            break;
        }
        given.bilstm("lstm.", layer, &format!("lstm.{layer}."), &mut features)?;
    }
    match given.0.keys().next() {
        Some(name) => Err(problem(format!(
            "{name} is no parameter of Locate and Label"
        ))),
        None => {
            let imported = Imported {
                encoder: encoder.write()?,
                head: head.write()?,
            };
            Ok((imported, features.write()?))
        }
    }
}

/// The prefix of the encoder in the authors' DiffusionNER.
const DIFFUSION_ENCODER: &str = "bert.";

/// The authors' DiffusionNER: their names and ours. Weights of linear layers are transposed, everything else is the
/// same. Numbers of layers stand for `#`; gates of the BiLSTM and the inputs of attention are put together apart.
pub const DIFFUSION_NER: &[(&str, &str)] = &[
    ("affine_start", "ends.start"),
    ("affine_end", "ends.end"),
    ("downlinear", "ends.join"),
    ("pos_embeddings.1", "slots.inner"),
    ("pos_embeddings.3", "slots.outer"),
    ("time_mlp.1", "time.inner"),
    ("time_mlp.3", "time.outer"),
    (
        "left_boundary_predictor.token_embedding_linear.0",
        "left.words",
    ),
    (
        "left_boundary_predictor.entity_embedding_linear.0",
        "left.spans",
    ),
    ("left_boundary_predictor.boundary_predictor", "left.output"),
    (
        "right_boundary_predictor.token_embedding_linear.0",
        "right.words",
    ),
    (
        "right_boundary_predictor.entity_embedding_linear.0",
        "right.spans",
    ),
    (
        "right_boundary_predictor.boundary_predictor",
        "right.output",
    ),
    ("entity_classifier.classifier.0", "classifier.inner"),
    ("entity_classifier.classifier.2", "classifier.outer"),
    (
        "spanattention.layers.#.self_attn.out_proj",
        "layers.#.self_attention.output",
    ),
    (
        "spanattention.layers.#.cross_attn.out_proj",
        "layers.#.cross_attention.output",
    ),
    ("spanattention.layers.#.linear1", "layers.#.inner"),
    ("spanattention.layers.#.linear2", "layers.#.outer"),
    ("spanattention.layers.#.norm1", "layers.#.cross_norm"),
    ("spanattention.layers.#.norm2", "layers.#.self_norm"),
    ("spanattention.layers.#.norm3", "layers.#.feed_norm"),
];

/// Weights of the authors' DiffusionNER, held in memory as safetensors. A name that is not known is an error; tables
/// of the schedule are no weights and are left out.
pub fn diffusion_ner(bytes: &[u8]) -> Result<Imported> {
    let mut given = Numbers::read_but(bytes, |name| name == "alphas_cumprod")?;
    let encoder = given.split(DIFFUSION_ENCODER);
    let mut head = Numbers::default();
    let mut layer = 0;
    while given.0.contains_key(&format!("lstm.weight_ih_l{layer}")) {
        given.bilstm("lstm.", layer, &format!("lstm.{layer}."), &mut head)?;
        layer += 1;
    }
    for name in given.0.keys().cloned().collect::<Vec<_>>() {
        let array = given.take(&name)?;
        let (stem, kind) = name.rsplit_once('.').unwrap_or((&name, ""));
        if let Some(from) = stem
            .strip_prefix("spanattention.")
            .filter(|_| kind.starts_with("in_proj"))
        {
            let to = from
                .replace("self_attn", "self_attention")
                .replace("cross_attn", "cross_attention");
            head.attention_inputs(array, &to, kind == "in_proj_weight");
            continue;
        }
        let Some(ours) = diffusion_name(stem) else {
            return Err(problem(format!("{name} is no parameter of DiffusionNER")));
        };
        let is_norm = ours.ends_with("_norm");
        let (end, array) = match (kind, is_norm) {
            ("weight", true) => ("gamma", array),
            ("bias", true) => ("beta", array),
            ("weight", false) => ("weight", array.transposed()),
            _ => (kind, array),
        };
        head.0.insert(format!("{ours}.{end}"), array);
    }
    Ok(Imported {
        encoder: encoder.write()?,
        head: head.write()?,
    })
}

/// Our name of one of the authors' layers of DiffusionNER.
pub fn diffusion_name(theirs: &str) -> Option<String> {
    let after = theirs.strip_prefix("spanattention.layers.").unwrap_or("");
    let number: String = after.chars().take_while(char::is_ascii_digit).collect();
    let pattern = theirs.replacen(&format!("layers.{number}."), "layers.#.", 1);
    let found = DIFFUSION_NER.iter().find(|(name, _)| *name == pattern);
    found.map(|(_, ours)| ours.replace('#', &number))
}

fn problem(message: String) -> Error {
    Error::bundle(Path::new("the imported weights"), message)
}

/// Numbers in rows.
#[derive(Debug, Clone)]
struct Array {
    shape: Vec<usize>,
    values: Vec<f32>,
}

impl Array {
    /// [rows, columns, 1, ...] as [columns, rows].
    fn transposed(self) -> Self {
        let (rows, columns) = (self.shape[0], self.shape.get(1).copied().unwrap_or(1));
        let values = (0..rows * columns)
            .map(|index| self.values[(index % rows) * columns + index / rows])
            .collect();
        Self {
            shape: vec![columns, rows],
            values,
        }
    }
}

/// Arrays by name.
#[derive(Debug, Default)]
struct Numbers(BTreeMap<String, Array>);

impl Numbers {
    fn read(bytes: &[u8]) -> Result<Self> {
        Self::read_but(bytes, |_| false)
    }

    /// Everything but what is told to be left out.
    fn read_but(bytes: &[u8], left_out: impl Fn(&str) -> bool) -> Result<Self> {
        let tensors =
            SafeTensors::deserialize(bytes).map_err(|found| problem(found.to_string()))?;
        let mut arrays = BTreeMap::new();
        for (name, view) in tensors.tensors() {
            if left_out(&name) {
                continue;
            }
            if view.dtype() != Dtype::F32 {
                return Err(problem(format!("{name} is not in single precision")));
            }
            let (numbers, _) = view.data().as_chunks::<4>();
            let array = Array {
                shape: view.shape().to_vec(),
                values: numbers
                    .iter()
                    .map(|four| f32::from_le_bytes(*four))
                    .collect(),
            };
            arrays.insert(name, array);
        }
        Ok(Self(arrays))
    }

    fn write(&self) -> Result<Vec<u8>> {
        let bytes: BTreeMap<&String, Vec<u8>> = self
            .0
            .iter()
            .map(|(name, array)| {
                let bytes = array.values.iter().flat_map(|value| value.to_le_bytes());
                (name, bytes.collect())
            })
            .collect();
        let mut views = Vec::new();
        for (name, bytes) in &bytes {
            let view = TensorView::new(Dtype::F32, self.0[*name].shape.clone(), bytes)
                .map_err(|found| problem(format!("{name}: {found}")))?;
            views.push((name.as_str(), view));
        }
        safetensors::serialize(views, None).map_err(|found| problem(found.to_string()))
    }

    /// Takes out what stands under a prefix, without it.
    fn split(&mut self, prefix: &str) -> Self {
        let (under, others) = std::mem::take(&mut self.0)
            .into_iter()
            .partition(|(name, _)| name.starts_with(prefix));
        self.0 = others;
        let under: BTreeMap<String, Array> = under;
        Self(
            under
                .into_iter()
                .map(|(name, array)| (name[prefix.len()..].to_string(), array))
                .collect(),
        )
    }

    /// Takes out what a list knows, under our names and in our layout.
    fn renamed(&mut self, list: &[(&str, &str, Layout)]) -> Self {
        let mut found = Self::default();
        for (theirs, ours, layout) in list {
            if let Some(array) = self.0.remove(*theirs) {
                let array = match layout {
                    Layout::Same => array,
                    Layout::Transposed => array.transposed(),
                };
                found.0.insert(ours.to_string(), array);
            }
        }
        found
    }

    /// PyTorch's three inputs of attention in one array, taken apart.
    fn attention_inputs(&mut self, array: Array, to: &str, is_weight: bool) {
        let third = array.values.len() / 3;
        let end = if is_weight { "weight" } else { "bias" };
        for (name, values) in ["query", "key", "value"]
            .iter()
            .zip(array.values.chunks(third.max(1)))
        {
            let mut shape = array.shape.clone();
            shape[0] /= 3;
            let part = Array {
                shape,
                values: values.to_vec(),
            };
            let part = if is_weight { part.transposed() } else { part };
            self.0.insert(format!("{to}.{name}.{end}"), part);
        }
    }

    fn take(&mut self, name: &str) -> Result<Array> {
        self.0
            .remove(name)
            .ok_or_else(|| problem(format!("{name} is missing")))
    }

    /// A layer of PyTorch's BiLSTM to ours: both directions in one, its two biases added up.
    fn bilstm(&mut self, from: &str, layer: usize, to: &str, into: &mut Self) -> Result<()> {
        let mut directions = Vec::new();
        for end in ["", "_reverse"] {
            let input = self
                .take(&format!("{from}weight_ih_l{layer}{end}"))?
                .transposed();
            let recurrent = self
                .take(&format!("{from}weight_hh_l{layer}{end}"))?
                .transposed();
            let bias = self.take(&format!("{from}bias_ih_l{layer}{end}"))?;
            let second = self.take(&format!("{from}bias_hh_l{layer}{end}"))?;
            let bias: Vec<f32> = bias
                .values
                .iter()
                .zip(second.values)
                .map(|(one, other)| one + other)
                .collect();
            directions.push((input, recurrent, bias));
        }
        let [
            (input, recurrent, bias),
            (input_back, recurrent_back, bias_back),
        ] = directions
            .try_into()
            .expect("two directions were pushed above");
        let gates = bias.len();
        let rows = input
            .values
            .chunks(gates)
            .zip(input_back.values.chunks(gates));
        into.0.insert(
            format!("{to}input.weight"),
            Array {
                shape: vec![input.shape[0], 2 * gates],
                values: rows
                    .flat_map(|(one, other)| [one, other].concat())
                    .collect(),
            },
        );
        into.0.insert(
            format!("{to}input.bias"),
            Array {
                shape: vec![2 * gates],
                values: [bias, bias_back].concat(),
            },
        );
        into.0.insert(
            format!("{to}recurrent"),
            Array {
                shape: vec![2, recurrent.shape[0], gates],
                values: [recurrent.values, recurrent_back.values].concat(),
            },
        );
        Ok(())
    }
}
