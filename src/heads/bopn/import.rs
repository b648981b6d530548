//! Weights of the authors' BOPN.

use std::collections::BTreeMap;

use super::config::{Config, Decoding, Mode};
use crate::encoder::{LayerPooling, Pooling, RowLayout};
use crate::error::Result;
use crate::heads::import::{Arrays, Imported, ImportedHead, Layout, Rename, problem};
use crate::heads::released::{ReleasedModel, ReleasedSettings};
use crate::heads::settings::{Preset, Settings};
use crate::nn::host::HostArray;

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
    let (encoder, head) = convert(Arrays::read(weights)?)?;
    Ok(Imported {
        encoder: encoder.write()?,
        head: head.write()?,
        features: None,
    })
}

/// The weights of the encoder and of the head.
fn convert(mut given: Arrays) -> Result<(Arrays, Arrays)> {
    let encoder = given.split(ENCODER);
    let mut head = given.renamed(PARAMETERS);
    given.move_bilstm("bert_encoder.lstm.", 0, "lstm.", &mut head)?;
    given.expect_empty("BOPN")?;
    Ok((encoder, head))
}

/// The model of a checkpoint. Sizes come from the weights; the settings give the offsets, the decoding and dropout.
pub(super) fn released(
    weights: BTreeMap<String, HostArray>,
    settings: &ReleasedSettings,
) -> Result<ReleasedModel<Config>> {
    let (encoder, head) = convert(Arrays::of(weights)?)?;
    let size = |name: &str, dimension: usize| {
        let array = head.0.get(name);
        array
            .and_then(|array| array.shape.get(dimension))
            .copied()
            .unwrap_or(0)
    };
    let modes = [
        ("both", Mode::Both),
        ("start", Mode::Start),
        ("end", Mode::End),
        ("none", Mode::None),
    ];
    let mode = settings
        .choice("offset_mode", &modes)?
        .unwrap_or(Mode::Both);
    // The labels are out of range, the centre, and one for each offset of each boundary.
    let classes = size("type_norm.output.bias", 0);
    let per_offset = match mode {
        Mode::Both => 4,
        Mode::Start | Mode::End => 2,
        Mode::None => 0,
    };
    let found = classes.saturating_sub(2).checked_div(per_offset);
    let offsets = settings.count("window_size")?.or(found).unwrap_or(0);
    if offsets
        .checked_mul(per_offset)
        .and_then(|labels| labels.checked_add(2))
        != Some(classes)
    {
        return Err(problem(format!(
            "it has {classes} labels of cells, which window_size = {offsets} and this offset_mode do not give"
        )));
    }
    let (labels, order) = settings.types(size("types", 0))?;
    let mut type_order = vec![0; order.len()];
    for (number, index) in order.into_iter().enumerate() {
        type_order[index] = number;
    }
    let defaults = Config::of(Preset::Released);
    let config = Config {
        type_order,
        offsets,
        mode,
        lstm_width: size("span_norm.gamma.bias", 0),
        lstm_dropout: settings
            .number("emb_dropout")?
            .unwrap_or(defaults.lstm_dropout),
        region_width: size("region.weight", 1),
        distance_width: size("distance.weight", 1),
        biaffine_width: size("biaffine.left.bias", 0),
        biaffine_dropout: settings
            .number("out_dropout")?
            .unwrap_or(defaults.biaffine_dropout),
        convolutions: usize::from(size("convolutions.predictor.bias", 0) > 0)
            * defaults.convolutions,
        smoothing: settings
            .number("loss_epsilon")?
            .unwrap_or(defaults.smoothing),
        // Theirs reads cells past the end of short sentences of a batch.
        mask_convolution: false,
        decode: match settings.flag("parse_offset")? {
            Some(false) => Decoding::Centre,
            _ => Decoding::Votes,
        },
        ..defaults
    };
    Ok(ReleasedModel {
        head: ImportedHead {
            config,
            labels,
            weights: head.write()?,
        },
        encoder: encoder.write()?,
        features: None,
        pooling: Pooling::Mean,
        layers: LayerPooling::Last,
        context: 0,
        rows: RowLayout::Standard,
    })
}
