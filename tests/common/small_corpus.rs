//! Eight sentences on which every head is trained and checked, with settings for models of that size.

use std::path::Path;

use nerzoo::recipe::Recipe;
use nerzoo::text::Sentence;

use super::sentence;

/// A named choice of settings of a head that is tested by itself.
pub struct Variant {
    /// Its name in test names.
    pub name: &'static str,
    /// The settings as `key=value`.
    pub sets: Vec<String>,
}

fn variant(name: &'static str, sets: &[&str]) -> Variant {
    let sets = sets.iter().map(|set| set.to_string()).collect();
    Variant { name, sets }
}

/// The variants of a head.
pub fn variants(head: &str) -> Vec<Variant> {
    match head {
        "seq_ner" => vec![
            variant("softmax", &[]),
            variant("crf", &["head.decoder=crf", "head.combiner=strict"]),
            variant("bioes", &["head.tags=bioes", "head.transform=gelu"]),
        ],
        "span_ner" => vec![
            variant("boundary", &["head.representation=boundary"]),
            variant("pooling", &["head.representation=pooling"]),
            variant("hybrid", &["head.representation=hybrid"]),
        ],
        "bl_ner" => vec![variant("paper", &["head.alpha=0.3"])],
        "bopn" => bopn_variants(),
        "seq_ner+bopn" => vec![bopn(
            "released",
            "head.span",
            &["head.span.preset=released"],
        )],
        "locate_label" => locate_label_variants(),
        "seq_ner+locate_label" => vec![variant("paper", &["head.span.dropout=0.1"])],
        "diffusion_ner" => diffusion_variants(),
        "seq_ner+diffusion_ner" => {
            let sets = DIFFUSION.map(|set| set.replace("head.", "head.span."));
            let sets = sets.each_ref().map(String::as_str);
            vec![diffusion("released", "head.span", &sets)]
        }
        _ => vec![variant("default", &[])],
    }
}

fn bopn_variants() -> Vec<Variant> {
    vec![
        // The preset of the paper's text has no residual connection around the convolutions and learns slowly.
        bopn(
            "paper",
            "head",
            &[
                "head.preset=paper",
                "head.convolutions=2",
                "train.epochs=100",
                "train.head_learning_rate=1e-2",
            ],
        ),
        bopn("released", "head", &["head.preset=released"]),
        bopn(
            "rules",
            "head",
            &[
                "head.preset=released",
                "head.type_input=false",
                "head.mode=start",
                "head.decode=rules",
            ],
        ),
        bopn(
            "joint",
            "head",
            &[
                "head.type_input=false",
                "head.direct=true",
                "head.initial_out=0.99",
                "head.out_weight=0.1",
                "head.joint_weight=4",
            ],
        ),
    ]
}

/// BOPN in a size for eight sentences; `table` is where its settings are in the recipe.
fn bopn(name: &'static str, table: &str, sets: &[&str]) -> Variant {
    let small = ["lstm_width=48", "lstm_dropout=0.1", "biaffine_width=24"];
    sized(name, table, &small, sets)
}

fn locate_label_variants() -> Vec<Variant> {
    vec![
        variant("paper", &["head.dropout=0.1"]),
        // Its offsets start from half the length of a sentence, so at first every span is moved out of the sentence.
        variant(
            "released",
            &[
                "head.preset=released",
                "head.dropout=0.1",
                "train.epochs=100",
            ],
        ),
        variant(
            "features",
            &[
                "head.dropout=0.1",
                "head.filter=false",
                "encoder.features.characters=true",
                "encoder.features.lstm=true",
            ],
        ),
    ]
}

/// The preset of the authors' program, except for layers that start at a scale that suits any width.
const DIFFUSION: [&str; 6] = [
    "head.preset=released",
    "head.initial=uniform",
    "head.steps=3",
    "encoder.scratch.width=64",
    "train.learning_rate=3e-3",
    "train.epochs=150",
];

/// More epochs than the other heads, because denoising converges slowly and eight sentences are two batches an epoch.
/// With one prediction for each entity and none for all other spans, as in the paper's text, the sums of probabilities
/// stay below 2.5 for even longer; so entities are repeated and the threshold is 2.
fn diffusion_variants() -> Vec<Variant> {
    vec![
        diffusion(
            "paper",
            "head",
            &[
                "head.preset=paper",
                "head.repeat_gold=true",
                "head.threshold=2.0",
                "head.steps=2",
                "encoder.scratch.width=64",
                "train.learning_rate=3e-3",
                "train.epochs=120",
            ],
        ),
        diffusion("released", "head", &DIFFUSION),
    ]
}

/// DiffusionNER in a size for eight sentences; `table` is where its settings are in the recipe.
fn diffusion(name: &'static str, table: &str, sets: &[&str]) -> Variant {
    let small = ["spans=24", "heads=4", "feed_forward=64", "dropout=0.0"];
    sized(name, table, &small, sets)
}

fn sized(name: &'static str, table: &str, sizes: &[&str], sets: &[&str]) -> Variant {
    let sizes = sizes.iter().map(|set| format!("{table}.{set}"));
    let sets = sets.iter().map(|set| set.to_string());
    Variant {
        name,
        sets: sizes.chain(sets).collect(),
    }
}

/// Eight sentences of different lengths, with and without nested entities, one without any entity.
pub fn sentences() -> Vec<Sentence> {
    vec![
        sentence("Anna sings", &[(0, 1, "PER")]),
        sentence(
            "the University of Lindholm opened",
            &[(0, 4, "ORG"), (3, 4, "LOC")],
        ),
        sentence("nothing happened yesterday", &[]),
        sentence(
            "Lindholm said it would buy Orvane",
            &[(0, 1, "ORG"), (5, 6, "ORG")],
        ),
        sentence("she moved to Lindholm", &[(3, 4, "LOC")]),
        sentence(
            "the Faculty of Law of the University of Brakel met Anna Keller",
            &[(0, 9, "ORG"), (5, 9, "ORG"), (8, 9, "LOC"), (10, 12, "PER")],
        ),
        sentence(
            "Keller and Anna Brakel left Brakel in May",
            &[(0, 1, "PER"), (2, 4, "PER"), (5, 6, "LOC")],
        ),
        sentence(
            "the Anna Keller Foundation of Brakel",
            &[(0, 6, "ORG"), (1, 3, "PER"), (5, 6, "LOC")],
        ),
    ]
}

/// The recipe of a head for the eight sentences, which are written into `folder`.
pub fn recipe(head: &str, sets: &[String], folder: &Path) -> Recipe {
    let file = super::write_sentences(folder.join("eight.jsonl"), &sentences());
    super::small_recipe(head, &file, sets)
}

/// Settings without dropout, because random numbers differ between devices.
pub fn without_dropout(head: &str) -> Vec<String> {
    let one = |table: &str, head: &str| -> Vec<String> {
        let names: &[&str] = match head {
            "bopn" => &["lstm_dropout", "biaffine_dropout", "convolution_dropout"],
            _ => &["dropout"],
        };
        let names = names.iter();
        names.map(|name| format!("{table}.{name}=0.0")).collect()
    };
    match head {
        "bl_ner" => [one("head.seq", "seq_ner"), one("head.span", "span_ner")].concat(),
        _ => match head.split_once('+') {
            Some((seq, span)) => [one("head.seq", seq), one("head.span", span)].concat(),
            None => one("head", head),
        },
    }
}

/// The settings of a variant without dropout.
pub fn settings(head: &str, variant: &Variant) -> Vec<String> {
    let mut sets = [variant.sets.clone(), without_dropout(head)].concat();
    if variant
        .sets
        .iter()
        .any(|set| set.starts_with("encoder.features"))
    {
        sets.push("encoder.features.dropout=0.0".into());
        sets.push("encoder.features.lstm_dropout=0.0".into());
    }
    sets
}
