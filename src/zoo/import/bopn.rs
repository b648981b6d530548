//! The authors' BOPN.

use super::{Imported, Layout, Numbers, problem};
use crate::error::Result;

/// The prefix of the encoder in the authors' BOPN.
const ENCODER: &str = "bert_encoder.bert.";

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
    let encoder = given.split(ENCODER);
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
