//! Eight sentences on which every head of the zoo is tried, with knobs for a model of that size.

use std::path::Path;

use nerzoo::recipe::Recipe;
use nerzoo::text::Sentence;

use super::sentence;

/// Knobs of each head that deserve a run of their own.
pub fn variants(head: &str) -> Vec<Vec<String>> {
    let sets = |list: &[&str]| list.iter().map(|set| set.to_string()).collect();
    match head {
        "seq_ner" => vec![
            sets(&[]),
            sets(&["head.decoder=crf", "head.combiner=strict"]),
        ],
        "span_ner" => ["boundary", "pooling", "hybrid"]
            .map(|kind| vec![format!("head.representation={kind}")])
            .to_vec(),
        "bl_ner" => vec![sets(&["head.alpha=0.3"])],
        "bopn" => vec![
            // As the text has it, without a way round the convolutions, it learns slowly.
            bopn(
                "head",
                &[
                    "head.preset=paper",
                    "head.convolutions=2",
                    "train.epochs=100",
                    "train.head_learning_rate=1e-2",
                ],
            ),
            bopn("head", &["head.preset=released"]),
            bopn(
                "head",
                &[
                    "head.preset=released",
                    "head.type_input=false",
                    "head.mode=start",
                    "head.decode=rules",
                ],
            ),
        ],
        "seq_ner+bopn" => vec![bopn("head.span", &["head.span.preset=released"])],
        "locate_label" => vec![
            sets(&["head.dropout=0.1"]),
            // Its offsets start from half a sentence's length: at first every span is moved out of it.
            sets(&[
                "head.preset=released",
                "head.dropout=0.1",
                "train.epochs=100",
            ]),
            sets(&[
                "head.dropout=0.1",
                "head.filter=false",
                "encoder.features.characters=true",
                "encoder.features.lstm=true",
            ]),
        ],
        "seq_ner+locate_label" => vec![sets(&["head.span.dropout=0.1"])],
        // Its own budget: denoising converges slowly, and eight sentences are two batches an epoch. As the text has
        // it, with one prediction for each entity and none for all others, sums stay under 2.5 for longer still; so
        // entities are repeated, and 2 is enough.
        "diffusion_ner" => vec![
            diffusion(
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
            diffusion("head", &DIFFUSION),
        ],
        "seq_ner+diffusion_ner" => {
            let sets = DIFFUSION.map(|set| set.replace("head.", "head.span."));
            vec![diffusion("head.span", &sets.each_ref().map(String::as_str))]
        }
        _ => vec![sets(&[])],
    }
}

/// DiffusionNER in a size for eight sentences.
fn diffusion(table: &str, sets: &[&str]) -> Vec<String> {
    let small = ["spans=24", "heads=4", "feed_forward=64", "dropout=0.0"];
    let small = small.iter().map(|set| format!("{table}.{set}"));
    small
        .chain(sets.iter().map(|set| set.to_string()))
        .collect()
}

/// The authors' program, but for layers that start at a size for any width.
const DIFFUSION: [&str; 6] = [
    "head.preset=released",
    "head.initial=uniform",
    "head.steps=3",
    "encoder.scratch.width=64",
    "train.learning_rate=3e-3",
    "train.epochs=150",
];

/// BOPN in a size for eight sentences.
fn bopn(table: &str, sets: &[&str]) -> Vec<String> {
    let small = ["lstm_width=48", "lstm_dropout=0.1", "biaffine_width=24"];
    let small = small.iter().map(|set| format!("{table}.{set}"));
    small
        .chain(sets.iter().map(|set| set.to_string()))
        .collect()
}

/// Eight sentences of different lengths, nested and not, one without entities.
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

/// A head's recipe over the eight.
pub fn recipe(head: &str, sets: &[String], folder: &Path) -> Recipe {
    let file = super::file(folder.join("eight.jsonl"), &sentences());
    super::small(head, &file, sets)
}
