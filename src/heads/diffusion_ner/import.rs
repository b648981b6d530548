//! Weights of the authors' DiffusionNER.

use std::collections::BTreeMap;

use serde_json::Value;

use super::config::{Config, Expansion, SpanFeatures, Variance};
use crate::encoder::{LayerPooling, Pooling, RowLayout};
use crate::error::Result;
use crate::heads::Overlaps;
use crate::heads::import::{Arrays, Imported, ImportedHead, problem};
use crate::heads::released::{ReleasedModel, ReleasedSettings, class_order};
use crate::heads::settings::{Preset, Settings};
use crate::nn::host::HostArray;

/// The prefixes that the encoder's parameters may have.
const ENCODERS: [&str; 3] = ["bert.", "roberta.", "albert."];
/// The prefix under which a checkpoint has the encoder a second time.
const DUPLICATES: &str = "model.";
/// The table of the noise schedule.
const SCHEDULE: &str = "alphas_cumprod";

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
    let (encoder, head) = convert(Arrays::read_except(weights, |name| name == SCHEDULE)?)?;
    Ok(Imported {
        encoder: encoder.write()?,
        head: head.write()?,
        features: None,
    })
}

/// The weights of the encoder and of the head.
fn convert(mut given: Arrays) -> Result<(Arrays, Arrays)> {
    let prefix = ENCODERS
        .iter()
        .find(|prefix| given.0.keys().any(|name| name.starts_with(**prefix)));
    let encoder = given.split(prefix.unwrap_or(&ENCODERS[0]));
    let mut head = Arrays::default();
    given.move_bilstm_layers(&mut head)?;
    for (name, array) in given.0 {
        insert(&mut head, &name, array)?;
    }
    Ok((encoder, head))
}

/// The model of a checkpoint. Sizes come from the weights; the settings give the noise, the decoding and dropout.
pub(super) fn released(
    weights: BTreeMap<String, HostArray>,
    settings: &ReleasedSettings,
) -> Result<ReleasedModel<Config>> {
    for (key, supported) in [
        ("span_renewal", Value::from(false)),
        ("step_ensemble", false.into()),
        ("wo_self_attn", false.into()),
        ("wo_cross_attn", false.into()),
        ("step_embed_type", "add".into()),
        ("sample_dist_type", "normal".into()),
        ("pos_type", "sine".into()),
    ] {
        settings.only(key, supported)?;
    }
    let mut given = Arrays::of(weights)?;
    // The encoder is there under a second name, and the schedule is no parameter.
    drop(given.split(DUPLICATES));
    given.0.remove(SCHEDULE);
    let (encoder, mut head) = convert(given)?;
    let count = |prefix: &str, end: &str| {
        let numbers =
            (0..).take_while(|number| head.0.contains_key(&format!("{prefix}{number}{end}")));
        numbers.count()
    };
    let inner = head.0.get("layers.0.inner.bias");
    let defaults = Config::of(Preset::Released);
    let flat = settings.flag("no_overlapping")?.unwrap_or(false);
    let overlaps = match (flat, settings.flag("no_partial_overlapping")?) {
        (true, _) => Overlaps::Flat,
        (false, Some(false)) => Overlaps::Any,
        (false, _) => Overlaps::Nested,
    };
    let variances = [("cosine", Variance::Cosine), ("linear", Variance::Linear)];
    let expansions = [("concat", Expansion::Random), ("repeat", Expansion::Repeat)];
    let features = [
        ("lrconcat", SpanFeatures::Ends),
        ("meanpool", SpanFeatures::Mean),
    ];
    let config = Config {
        spans: settings.count("num_proposals")?.unwrap_or(defaults.spans),
        steps: settings
            .count("sampling_timesteps")?
            .unwrap_or(defaults.steps),
        timesteps: settings.count("timesteps")?.unwrap_or(defaults.timesteps),
        scale: settings.number("scale")?.unwrap_or(defaults.scale),
        variance: settings
            .choice("beta_schedule", &variances)?
            .unwrap_or(defaults.variance),
        expansion: settings
            .choice("extand_noise_spans", &expansions)?
            .unwrap_or(defaults.expansion),
        features: settings
            .choice("soi_pooling", &features)?
            .unwrap_or(defaults.features),
        lstm_layers: count("lstm.", ".recurrent"),
        attention_layers: count("layers.", ".inner.bias"),
        feed_forward: inner.map_or(defaults.feed_forward, |inner| inner.values.len()),
        dropout: settings.number("prop_drop")?.unwrap_or(defaults.dropout),
        threshold: settings
            .number("entity_threshold")?
            .unwrap_or(defaults.threshold),
        overlaps,
        ..defaults
    };
    let (weight, bias) = (
        head.take("classifier.outer.weight")?,
        head.take("classifier.outer.bias")?,
    );
    let (labels, order) = settings.types(bias.values.len().saturating_sub(1))?;
    let order = class_order(&order);
    let weight = weight.transposed().select_rows(&order).transposed();
    head.0.insert("classifier.outer.weight".into(), weight);
    head.0
        .insert("classifier.outer.bias".into(), bias.select_rows(&order));
    let poolings = [("max", Pooling::Max), ("mean", Pooling::Mean)];
    Ok(ReleasedModel {
        head: ImportedHead {
            config,
            labels,
            weights: head.write()?,
        },
        encoder: encoder.write()?,
        features: None,
        pooling: settings
            .choice("pool_type", &poolings)?
            .unwrap_or(Pooling::Max),
        layers: LayerPooling::Last,
        context: settings.count("context")?.unwrap_or(2),
        rows: RowLayout::Separated,
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
