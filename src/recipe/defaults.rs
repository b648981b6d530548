//! Settings for new recipes, from a table of measured results: `model-zoo/defaults.toml`, compiled into the program.
//!
//! Rows of the table apply to a head, a size of corpus and an encoder. [`for_corpus`] combines all that do; the registry adds
//! what the head itself suggests for a corpus (`registry::Entry::defaults`).

use std::sync::OnceLock;

use serde::Deserialize;
use serde_json::Value;
use toml::Table;

use super::set::Assignment;
use super::{Recipe, TrainConfig};
use crate::data::stats::Stats;
use crate::encoder::load;
use crate::error::{Error, Result};
use crate::heads::Suggestion;
use crate::hub::Hub;

const TABLE: &str = include_str!("../../model-zoo/defaults.toml");

/// Most epochs that [`Row::min_steps`] leads to.
const MOST_EPOCHS: usize = 100;

/// Words of a sentence of the usual length.
const USUAL_WORDS: usize = 30;

/// Width of a pretrained encoder about which nothing is known: that of BERT-base.
const USUAL_WIDTH: usize = 768;

/// One row of the table: settings, and what they are for.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Where the row applies.
    #[serde(rename = "for", default)]
    pub condition: Condition,
    /// The reason in one sentence, a comment in the recipe.
    pub why: String,
    /// Settings of `[train]`.
    #[serde(default)]
    pub train: Table,
    /// Settings of `[head]`; only in rows with a head.
    #[serde(default)]
    pub head: Table,
    /// Raises `epochs`, and `patience` in proportion, until a run has this many optimizer steps.
    pub min_steps: Option<usize>,
    /// The runs behind the row.
    #[serde(default)]
    pub measured: Vec<Measured>,
}

impl Row {
    /// The settings of `[head]` with dotted keys, such as `span.longest`.
    pub fn head_settings(&self) -> Vec<(String, &toml::Value)> {
        let mut settings = Vec::new();
        dotted(&self.head, "", &mut settings);
        settings
    }
}

fn dotted<'a>(table: &'a Table, prefix: &str, settings: &mut Vec<(String, &'a toml::Value)>) {
    for (key, value) in table {
        let name = format!("{prefix}{key}");
        match value {
            toml::Value::Table(inner) => dotted(inner, &format!("{name}."), settings),
            value => settings.push((name, value)),
        }
    }
}

/// The condition of a row. A part that is missing always holds.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Condition {
    /// The head, or a part of a bundle.
    pub head: Option<String>,
    /// Whether the encoder is pretrained.
    pub encoder: Option<EncoderOrigin>,
    /// Hidden size of a pretrained encoder.
    pub encoder_width: Option<Range>,
    /// Number of training sentences.
    pub sentences: Option<Range>,
    /// Mean number of words per sentence.
    pub words: Option<Range>,
}

/// Where the weights of an encoder come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EncoderOrigin {
    /// It is trained from scratch.
    Scratch,
    /// It is pretrained.
    Pretrained,
}

/// A range of numbers, open where a limit is missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Range {
    /// The smallest number in the range.
    pub from: Option<f64>,
    /// The smallest number above the range.
    pub below: Option<f64>,
}

impl Range {
    fn contains(&self, number: f64) -> bool {
        self.from.is_none_or(|from| number >= from) && self.below.is_none_or(|below| number < below)
    }
}

/// The result of a run with the settings of a row.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// The corpus.
    pub corpus: String,
    /// Number of training sentences.
    pub sentences: usize,
    /// Name of the encoder, or "scratch".
    pub encoder: String,
    /// F1 on test, in percent.
    pub f1: f64,
    /// F1 on dev, in percent.
    pub dev_f1: Option<f64>,
    /// The command that repeats it.
    pub command: String,
}

/// The size of a run's encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EncoderSize {
    /// Trained from scratch.
    Scratch,
    /// Pretrained, with this hidden size.
    Pretrained {
        /// Width of its word states.
        width: usize,
    },
}

impl EncoderSize {
    /// The size of an encoder given by folder or name, `None` for one from scratch. The width is that in its `config.json`
    /// if it is on this machine, otherwise the usual one for such a name.
    pub fn of(pretrained: Option<&str>) -> Self {
        let Some(name) = pretrained else {
            return Self::Scratch;
        };
        let config = load::find(name, &Hub::from_env().offline())
            .and_then(|found| load::config(&found.folder));
        let width = match config {
            Ok(config) => config.width,
            Err(_) => width_by_name(name),
        };
        Self::Pretrained { width }
    }
}

/// The usual hidden size of encoders with such a name.
fn width_by_name(name: &str) -> usize {
    let name = name.to_lowercase();
    let widths = [
        ("large", 1024),
        ("base", USUAL_WIDTH),
        ("minilm", 384),
        ("small", 512),
        ("mini", 256),
        ("tiny", 128),
    ];
    let found = widths.iter().find(|(part, _)| name.contains(part));
    found.map_or(USUAL_WIDTH, |(_, width)| *width)
}

/// Settings for a head on a corpus, each with its reason.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Defaults {
    /// Settings of `[train]`. Those of one row of the table follow each other and have the same reason.
    pub train: Vec<Suggestion>,
    /// Settings of `[head]`, dotted for a part of a bundle.
    pub head: Vec<Suggestion>,
    /// Results with these settings, the corpora of the most similar size first.
    pub measured: Vec<Measured>,
}

impl Defaults {
    /// Writes the settings into a recipe.
    pub fn apply(&self, recipe: &mut Recipe) -> Result<()> {
        let invalid = |problem: String| Error::Config(format!("default settings: {problem}"));
        let mut train =
            Table::try_from(&recipe.train).map_err(|problem| invalid(problem.to_string()))?;
        for (table, list) in [(&mut train, &self.train), (&mut recipe.head, &self.head)] {
            for suggestion in list {
                let value = toml::Value::try_from(&suggestion.value);
                let assignment = Assignment {
                    key: suggestion.setting.clone(),
                    value: value.map_err(|problem| invalid(problem.to_string()))?,
                };
                assignment.apply(table)?;
            }
        }
        recipe.train = TrainConfig::deserialize(toml::Value::Table(train))
            .map_err(|problem| invalid(format!("[train] {problem}")))?;
        Ok(())
    }

    /// Sets a value, in place of an earlier one for the same setting.
    fn set(list: &mut Vec<Suggestion>, setting: String, value: Value, reason: &str) {
        list.retain(|known| known.setting != setting);
        list.push(Suggestion {
            setting,
            value,
            reason: reason.into(),
        });
    }

    fn number(&self, setting: &str) -> Option<usize> {
        let found = self.train.iter().find(|known| known.setting == setting)?;
        found.value.as_u64().map(|number| number as usize)
    }

    /// Raises the epochs until there are this many steps.
    fn raise_epochs(&mut self, min_steps: usize, sentences: usize) {
        let (Some(epochs), Some(batch)) = (self.number("epochs"), self.number("batch")) else {
            return;
        };
        let per_epoch = sentences.div_ceil(batch.max(1)).max(1);
        let raised = min_steps.div_ceil(per_epoch).min(MOST_EPOCHS);
        if epochs >= raised {
            return;
        }
        for suggestion in &mut self.train {
            if suggestion.setting == "epochs" {
                suggestion.value = raised.into();
            }
            if let ("patience", Some(patience)) =
                (suggestion.setting.as_str(), suggestion.value.as_u64())
            {
                suggestion.value = (patience as usize * raised).div_ceil(epochs.max(1)).into();
            }
        }
    }
}

/// The rows of the table.
pub fn rows() -> &'static [Row] {
    static ROWS: OnceLock<Vec<Row>> = OnceLock::new();
    ROWS.get_or_init(|| parse(TABLE).expect("the table is checked by a test"))
}

fn parse(text: &str) -> std::result::Result<Vec<Row>, toml::de::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Whole {
        default: Vec<Row>,
    }
    toml::from_str(text).map(|whole: Whole| whole.default)
}

/// The settings of the table for a head, training sentences and an encoder. `names` are the names of the head; that of a
/// bundle with a plus sign, such as `seq_ner+bopn`, also names its parts.
pub fn for_corpus(names: &[&str], corpus: &Stats, encoder: EncoderSize) -> Defaults {
    combine(rows(), names, corpus, encoder)
}

fn combine(rows: &[Row], names: &[&str], corpus: &Stats, encoder: EncoderSize) -> Defaults {
    let holds = |row: &&Row| row.condition.holds(corpus, encoder);
    let scoped = |row| Some((Scope::of(row, names)?, row));
    let mut matching: Vec<(Scope, &Row)> = rows.iter().filter(holds).filter_map(scoped).collect();
    matching.sort_by_key(|(scope, _)| *scope);
    let mut defaults = Defaults::default();
    let mut min_steps = None;
    for (scope, row) in &matching {
        // The loss of a bundle is mostly that of its span model, whose training settings it has.
        if *scope != Scope::SeqPart {
            for (setting, value) in &row.train {
                Defaults::set(&mut defaults.train, setting.clone(), json(value), &row.why);
            }
            min_steps = row.min_steps.or(min_steps);
        }
        for (setting, value) in row.head_settings() {
            let setting = format!("{}{setting}", scope.prefix());
            Defaults::set(&mut defaults.head, setting, json(value), &row.why);
        }
        if !row.measured.is_empty() && matches!(scope, Scope::AllHeads | Scope::Own) {
            defaults.measured = row.measured.clone();
        }
    }
    let size = corpus.sentences.max(1) as f64;
    let difference = |one: &Measured| (one.sentences.max(1) as f64 / size).ln().abs();
    (defaults.measured).sort_by(|a, b| difference(a).total_cmp(&difference(b)));
    if let Some(min_steps) = min_steps {
        // A long sentence teaches as much as several of the usual length.
        let sentences = corpus.sentences.max(corpus.words / USUAL_WORDS);
        defaults.raise_epochs(min_steps, sentences);
    }
    defaults
}

fn json(value: &toml::Value) -> Value {
    serde_json::to_value(value).unwrap_or(Value::Null)
}

impl Condition {
    /// True if the corpus and the encoder are as the condition says; the head is not looked at.
    fn holds(&self, corpus: &Stats, encoder: EncoderSize) -> bool {
        let (origin, width) = match encoder {
            EncoderSize::Scratch => (EncoderOrigin::Scratch, None),
            EncoderSize::Pretrained { width } => (EncoderOrigin::Pretrained, Some(width)),
        };
        let within = |range: Option<Range>, number: f64| range.is_none_or(|r| r.contains(number));
        self.encoder.is_none_or(|wanted| wanted == origin)
            && self
                .encoder_width
                .is_none_or(|range| width.is_some_and(|width| range.contains(width as f64)))
            && within(self.sentences, corpus.sentences as f64)
            && within(self.words, corpus.sentence_lengths.mean)
    }
}

/// How the head of a row relates to the wanted one, in ascending priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    /// The row is for all heads.
    AllHeads,
    /// It is for the tagger of the wanted bundle.
    SeqPart,
    /// It is for the span model of the wanted bundle.
    SpanPart,
    /// It is for the wanted head.
    Own,
}

impl Scope {
    /// The scope of a row for the head with these names; none if it is for another head.
    fn of(row: &Row, names: &[&str]) -> Option<Self> {
        let Some(head) = row.condition.head.as_deref() else {
            return Some(Self::AllHeads);
        };
        if names.contains(&head) {
            return Some(Self::Own);
        }
        let (seq, span) = names.iter().find_map(|name| name.split_once('+'))?;
        if head == span {
            Some(Self::SpanPart)
        } else if head == seq {
            Some(Self::SeqPart)
        } else {
            None
        }
    }

    /// The prefix of a setting of the row's head.
    fn prefix(self) -> &'static str {
        match self {
            Self::AllHeads | Self::Own => "",
            Self::SeqPart => "seq.",
            Self::SpanPart => "span.",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::stats::SentenceLengths;

    const SMALL: &str = r#"
        [[default]]
        for = { encoder = "pretrained", sentences = { below = 2000 } }
        why = "Few sentences."
        train = { epochs = 10, patience = 4, batch = 10, learning_rate = 1e-4 }
        min_steps = 100

        [[default]]
        for = { head = "b", words = { from = 60 } }
        why = "Long sentences."
        train = { batch = 5 }
        head = { preset = "released" }

        [[default]]
        for = { head = "a", encoder_width = { from = 500, below = 800 } }
        why = "A tagger."
        train = { learning_rate = 5e-5 }
        head = { decoder = "crf" }
        measured = [
            { corpus = "x", sentences = 100000, encoder = "base", f1 = 70.5, command = "train x" },
            { corpus = "y", sentences = 1000, encoder = "base", f1 = 60, dev_f1 = 61.5, command = "train y" },
        ]

        [[default]]
        for = { head = "d" }
        why = "A bundle's own row."
        head = { alpha = 0.5, span.preset = "paper" }

        [[default]]
        why = "For all."
        train = { learning_rate = 2e-4 }
    "#;

    const BASE: EncoderSize = EncoderSize::Pretrained { width: 768 };

    fn corpus(sentences: usize, words: f64) -> Stats {
        Stats {
            sentences,
            words: (sentences as f64 * words) as usize,
            sentence_lengths: SentenceLengths {
                mean: words,
                ..SentenceLengths::default()
            },
            ..Stats::default()
        }
    }

    /// The settings as `key=value`, sorted.
    fn listed(list: &[Suggestion]) -> String {
        let mut all: Vec<String> = list
            .iter()
            .map(|one| format!("{}={}", one.setting, one.value))
            .collect();
        all.sort();
        all.join(" ")
    }

    fn combined(names: &[&str], corpus: &Stats, encoder: EncoderSize) -> (String, String) {
        let defaults = combine(&parse(SMALL).unwrap(), names, corpus, encoder);
        (listed(&defaults.train), listed(&defaults.head))
    }

    #[test]
    fn rows_apply_by_size_and_encoder() {
        let train =
            |sentences, words, encoder| combined(&["c"], &corpus(sentences, words), encoder).0;
        assert_eq!(
            train(1999, 20.0, BASE),
            "batch=10 epochs=10 learning_rate=0.0002 patience=4"
        );
        assert_eq!(train(2000, 20.0, BASE), "learning_rate=0.0002");
        assert_eq!(
            train(10, 20.0, EncoderSize::Scratch),
            "learning_rate=0.0002"
        );
    }

    #[test]
    fn rows_of_a_head_come_after_those_for_all() {
        let (train, head) = combined(&["a"], &corpus(5000, 20.0), BASE);
        assert_eq!(
            (train.as_str(), head.as_str()),
            ("learning_rate=0.00005", "decoder=\"crf\"")
        );
        // Without a known width, a row with one does not apply.
        let (train, head) = combined(&["a"], &corpus(5000, 20.0), EncoderSize::Scratch);
        assert_eq!(
            (train.as_str(), head.as_str()),
            ("learning_rate=0.0002", "")
        );
    }

    #[test]
    fn a_bundle_has_the_rows_of_its_parts() {
        let (train, head) = combined(&["ab", "a+b"], &corpus(5000, 60.0), BASE);
        assert_eq!(train, "batch=5 learning_rate=0.0002");
        assert_eq!(head, "seq.decoder=\"crf\" span.preset=\"released\"");
    }

    #[test]
    fn a_row_of_a_bundle_has_settings_of_its_parts() {
        let (_, head) = combined(&["d", "a+b"], &corpus(5000, 60.0), EncoderSize::Scratch);
        assert_eq!(head, "alpha=0.5 span.preset=\"paper\"");
    }

    #[test]
    fn few_sentences_get_more_epochs() {
        let train = |sentences| combined(&["c"], &corpus(sentences, 20.0), BASE).0;
        // 20 steps an epoch: five epochs would be enough.
        assert!(train(200).starts_with("batch=10 epochs=10 "));
        assert_eq!(
            train(40),
            "batch=10 epochs=25 learning_rate=0.0002 patience=10"
        );
        // At most a hundred.
        assert!(train(1).contains("epochs=100 "));
        assert!(train(1).contains("patience=40"));
        // Forty sentences of 600 words are as good as eight hundred.
        let long = combined(&["c"], &corpus(40, 600.0), BASE).0;
        assert!(long.contains("epochs=10 "), "{long}");
    }

    #[test]
    fn results_of_a_similar_size_come_first() {
        let rows = parse(SMALL).unwrap();
        let corpora = |sentences| {
            let found = combine(&rows, &["a"], &corpus(sentences, 20.0), BASE).measured;
            found.into_iter().map(|one| one.corpus).collect::<Vec<_>>()
        };
        assert_eq!(corpora(2000), ["y", "x"]);
        assert_eq!(corpora(80_000), ["x", "y"]);
    }

    #[test]
    fn settings_are_written_into_a_recipe() {
        let text =
            "[data]\ncorpus = \"quickstart\"\n[head]\nname = \"seq_ner+bopn\"\n[train]\nseed = 7\n";
        let mut recipe = Recipe::parse(text, "r.toml", &[]).unwrap();
        let rows = parse(SMALL).unwrap();
        let defaults = combine(&rows, &["a+b"], &corpus(1000, 70.0), BASE);
        defaults.apply(&mut recipe).unwrap();
        let train = &recipe.train;
        assert_eq!((train.seed, train.epochs, train.batch), (7, 10, 5));
        assert_eq!(recipe.head["name"].as_str(), Some("seq_ner+bopn"));
        assert_eq!(recipe.head["span"]["preset"].as_str(), Some("released"));
        let wrong = Defaults {
            train: vec![Suggestion {
                setting: "epoch".into(),
                value: 3.into(),
                reason: String::new(),
            }],
            ..Defaults::default()
        };
        let problem = wrong.apply(&mut recipe).unwrap_err().to_string();
        assert!(
            problem.contains("[train]") && problem.contains("epoch"),
            "{problem}"
        );
    }

    #[test]
    fn the_table_covers_every_size_and_encoder() {
        let encoders = [128, 384, 768, 1024, 4096].map(|width| EncoderSize::Pretrained { width });
        for encoder in encoders.into_iter().chain([EncoderSize::Scratch]) {
            for sentences in [1, 100, 1999, 2000, 9999, 10_000, 1_000_000] {
                for words in [1.0, 20.0, 59.9, 60.0, 500.0] {
                    let defaults = for_corpus(&["new"], &corpus(sentences, words), encoder);
                    let settings: Vec<&str> = (defaults.train.iter())
                        .map(|one| one.setting.as_str())
                        .collect();
                    for needed in ["learning_rate", "batch", "epochs", "patience"] {
                        assert!(
                            settings.contains(&needed),
                            "{encoder:?} {sentences} {words}"
                        );
                    }
                    let has_rate = settings.contains(&"head_learning_rate");
                    assert_eq!(has_rate, encoder != EncoderSize::Scratch);
                    assert!(defaults.head.is_empty(), "settings of no head");
                }
            }
        }
    }

    #[test]
    fn widths_are_known_by_name() {
        let width = |name| EncoderSize::of(Some(name));
        for (name, expected) in [
            ("no/such/bert-large-cased", 1024),
            ("no/such/roberta-base", 768),
            ("no/such/all-MiniLM-L6-v2-x", 384),
            ("no/such/thing", 768),
        ] {
            assert_eq!(width(name), EncoderSize::Pretrained { width: expected });
        }
        assert_eq!(EncoderSize::of(None), EncoderSize::Scratch);
    }
}
