//! Weights of the authors' BOPN.

use crate::error::Result;
use crate::heads::import::{Arrays, Imported, Layout, Rename};

/// The prefix of the encoder's parameters.
const ENCODER: &str = "bert_encoder.bert.";

/// The head's parameters except those of the BiLSTM, which are rearranged.
pub const PARAMETERS: &[Rename] = &[
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

/// Imports weights of the authors' BOPN. The convolutions may be missing; an unknown name is an error.
pub(super) fn import(weights: &[u8]) -> Result<Imported> {
    let mut given = Arrays::read(weights)?;
    let encoder = given.split(ENCODER);
    let mut head = given.renamed(PARAMETERS);
    given.move_bilstm("bert_encoder.lstm.", 0, "lstm.", &mut head)?;
    given.expect_empty("BOPN")?;
    Ok(Imported {
        encoder: encoder.write()?,
        head: head.write()?,
        features: None,
    })
}
