//! The authors' DiffusionNER.

use super::{Imported, Numbers, problem};
use crate::error::Result;

/// The prefix of the encoder in the authors' DiffusionNER.
const ENCODER: &str = "bert.";

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
    let encoder = given.split(ENCODER);
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
