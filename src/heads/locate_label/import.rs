//! Weights of the authors' Locate and Label.

use crate::error::Result;
use crate::heads::import::{Arrays, Imported, Layout, Rename};

/// The prefix of the encoder's parameters.
const ENCODER: &str = "bert.";

/// The head's parameters; the spelling is the authors'.
pub const PARAMETERS: &[Rename] = &[
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

/// Parameters of the token representation, which is [`WordFeatures`](crate::encoder::features::WordFeatures) here, except those
/// of its two BiLSTMs, which are rearranged.
pub const FEATURES: &[Rename] = &[
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

/// Imports weights of the authors' Locate and Label. Features and stages may be missing; an unknown name is an error.
pub(super) fn import(weights: &[u8]) -> Result<Imported> {
    let mut given = Arrays::read(weights)?;
    let encoder = given.split(ENCODER);
    let head = given.renamed(PARAMETERS);
    let mut features = given.renamed(FEATURES);
    if given.0.contains_key("char_lstm.weight_ih_l0") {
        given.move_bilstm("char_lstm.", 0, "characters.lstm.", &mut features)?;
    }
    given.move_bilstm_layers(&mut features)?;
    given.expect_empty("Locate and Label")?;
    Ok(Imported {
        encoder: encoder.write()?,
        head: head.write()?,
        features: Some(features.write()?),
    })
}
