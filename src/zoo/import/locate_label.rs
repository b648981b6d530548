//! The authors' Locate and Label.

use super::{Imported, Layout, Numbers, problem};
use crate::error::Result;

/// The prefix of the encoder in the authors' Locate and Label.
const ENCODER: &str = "bert.";

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

/// The same for its token representation, which is [`WordFeatures`](crate::encoder::features::WordFeatures) here. The gates of
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
    let encoder = given.split(ENCODER);
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
