//! Weights of the authors' DiffusionNER.

use crate::error::Result;
use crate::heads::import::{Arrays, Imported, problem};
use crate::nn::host::HostArray;

/// The prefix of the encoder's parameters.
const ENCODER: &str = "bert.";

/// The layers' names in the authors' code and here; `#` stands for an index. Weights of linear layers are transposed.
/// The BiLSTM and the inputs of attention are rearranged and not listed.
const LAYERS: &[(&str, &str)] = &[
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

/// Imports weights of the authors' DiffusionNER. The table of the noise schedule is skipped, as it is not a parameter; an
/// unknown name is an error.
pub(super) fn import(weights: &[u8]) -> Result<Imported> {
    let mut given = Arrays::read_except(weights, |name| name == "alphas_cumprod")?;
    let encoder = given.split(ENCODER);
    let mut head = Arrays::default();
    given.move_bilstm_layers(&mut head)?;
    for (name, array) in given.0 {
        insert(&mut head, &name, array)?;
    }
    Ok(Imported {
        encoder: encoder.write()?,
        head: head.write()?,
        features: None,
    })
}

/// Inserts one of the authors' parameters under our name and in our layout.
fn insert(head: &mut Arrays, name: &str, array: HostArray) -> Result<()> {
    let (stem, kind) = name.rsplit_once('.').unwrap_or((name, ""));
    if let Some(layer) = stem
        .strip_prefix("spanattention.")
        .filter(|_| kind.starts_with("in_proj"))
    {
        let to = layer
            .replace("self_attn", "self_attention")
            .replace("cross_attn", "cross_attention");
        head.insert_attention_inputs(array, &to, kind == "in_proj_weight");
        return Ok(());
    }
    let Some(ours) = layer_name(stem) else {
        return Err(problem(format!(
            "{name} is not a parameter of DiffusionNER"
        )));
    };
    let is_norm = ours.ends_with("_norm");
    let (end, array) = match (kind, is_norm) {
        ("weight", true) => ("gamma", array),
        ("bias", true) => ("beta", array),
        ("weight", false) => ("weight", array.transposed()),
        _ => (kind, array),
    };
    head.0.insert(format!("{ours}.{end}"), array);
    Ok(())
}

/// Our name of one of the authors' layers; nothing if it is not known.
pub fn layer_name(theirs: &str) -> Option<String> {
    let after = theirs.strip_prefix("spanattention.layers.").unwrap_or("");
    let number: String = after.chars().take_while(char::is_ascii_digit).collect();
    let pattern = theirs.replacen(&format!("layers.{number}."), "layers.#.", 1);
    let found = LAYERS.iter().find(|(name, _)| *name == pattern);
    found.map(|(_, ours)| ours.replace('#', &number))
}
