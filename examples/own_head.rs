//! Adds a head of your own, in a program that only depends on nerzoo: a tutorial.
//!
//! ```text
//! cargo run --release --example own_head
//! ```
//!
//! A model is an encoder, which computes a state for every word, and a head, which turns word states into a loss and into
//! mentions. The head below is the simplest that works: one linear layer gives every word an entity type or "no entity",
//! and neighbouring words of the same type form a mention. With its entry in the registry it is trained, saved, loaded and
//! evaluated like the heads of the papers.
//!
//! A crate of its own needs these dependencies beside nerzoo: `burn` (the version nerzoo uses, with
//! `default-features = false`), `serde` with `derive`, and `schemars`.

use std::error::Error;

use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig, Linear, LinearConfig};
use burn::tensor::activation::softmax;
use burn::tensor::{Device, Tensor};
use nerzoo::encoder::WordStates;
use nerzoo::heads::settings::{below_one, up_to_one};
use nerzoo::heads::{Head, Losses, Preset, Settings};
use nerzoo::nn::host;
use nerzoo::nn::loss::cross_entropy;
use nerzoo::nn::rows::select_rows;
use nerzoo::recipe::Recipe;
use nerzoo::registry::{self, Entry};
use nerzoo::text::{Entity, Labels, Mention, Sentence, outermost};
use nerzoo::train::TrainOptions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

// 1. The settings: what a recipe may contain under `[head]`. `nerzoo heads` shows the doc comments to users.

// ANCHOR: settings
/// Settings of the word tagger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// Dropout on word states.
    dropout: f64,
    /// Lowest score of a mention.
    // May change after training, `predict --set head.threshold=0.5`; training ends by trying 0.0, 0.1, ... 0.9 on dev.
    #[schemars(extend("inference" = true, "tune_range" = [0.0, 0.9, 0.1]))]
    threshold: f64,
}

impl Settings for Config {
    // Heads that exist in two versions, a paper's text and its authors' program, have two presets.
    fn presets() -> &'static [Preset] {
        &[Preset::Paper]
    }

    // The defaults, in one place.
    fn of(_: Preset) -> Self {
        Self {
            dropout: 0.1,
            threshold: 0.0,
        }
    }

    // Values that make no sense are refused before anything is computed; the message starts with the setting's name.
    fn check(&self) -> nerzoo::error::Result<()> {
        below_one("dropout", self.dropout)?;
        up_to_one("threshold", self.threshold)
    }
}
// ANCHOR_END: settings

// 2. The network: a Burn module. Fields marked `skip` hold no weights.

// ANCHOR: network
/// Gives every word an entity type or none.
#[derive(Module, Debug)]
struct WordTagger {
    classifier: Linear,
    dropout: Dropout,
    #[module(skip)]
    config: Config,
    #[module(skip)]
    labels: Labels,
}

impl WordTagger {
    /// Class logits of every word: `[batch, words, 1 + types]`. Class 0 is "no entity".
    fn logits(&self, states: &WordStates) -> Tensor<3> {
        // Dropout acts in training only; Burn knows from the device whether gradients are wanted.
        self.classifier
            .forward(self.dropout.forward(states.words.clone()))
    }
}
// ANCHOR_END: network

// 3. The head: the connection between settings, network and the rest of nerzoo.

// ANCHOR: facts
impl Head for WordTagger {
    type Config = Config;

    /// The class of each word of each sentence.
    type Gold = Vec<Vec<i32>>;

    /// The class probabilities of each word of one sentence.
    type Candidates = Vec<Vec<f32>>;

    fn name() -> String {
        "word_tagger".into()
    }

    fn config(&self) -> &Config {
        &self.config
    }

    fn set_config(&mut self, config: Config) {
        self.config = config;
    }

    fn init(config: &Config, width: usize, labels: &Labels, device: &Device) -> Self {
        Self {
            classifier: LinearConfig::new(width, 1 + labels.len()).init(device),
            dropout: DropoutConfig::new(config.dropout).init(),
            config: config.clone(),
            labels: labels.clone(),
        }
    }

    /// One class per word: entities inside others cannot be expressed.
    fn nested(&self) -> bool {
        false
    }
    // ANCHOR_END: facts

    // ANCHOR: training
    /// Runs in the threads that prepare batches, so it makes plain data, no tensors.
    fn gold(_: &Config, labels: &Labels, sentences: &[&Sentence], _seed: u64) -> Self::Gold {
        let classes = |sentence: &&Sentence| {
            let mut classes = vec![0; sentence.len()];
            for entity in outermost(&sentence.entities) {
                let class = labels
                    .index(&entity.label)
                    .map_or(0, |label| 1 + label as i32);
                classes[entity.span.start..entity.span.end].fill(class);
            }
            classes
        };
        sentences.iter().map(classes).collect()
    }

    fn loss(&self, states: &WordStates, gold: &Self::Gold) -> Losses {
        let logits = self.logits(states);
        let [batch, words, classes] = logits.dims();
        // Shorter sentences are padded to the longest of the batch: keep the rows of real words.
        let rows = (gold.iter().enumerate())
            .flat_map(|(sentence, classes)| {
                (0..classes.len()).map(move |word| sentence * words + word)
            })
            .collect();
        let logits = select_rows(logits.reshape([batch * words, classes]), rows);
        Losses::single("words", cross_entropy(logits, &gold.concat()))
    }
    // ANCHOR_END: training

    // ANCHOR: prediction
    /// Prediction in two steps: first the network's scores as plain data ...
    fn candidates(&self, states: &WordStates) -> Vec<Vec<Vec<f32>>> {
        let logits = self.logits(states);
        let [_, words, classes] = logits.dims();
        let probabilities = host::floats(softmax(logits, 2)); // one transfer from the device for the whole batch
        let rows: Vec<Vec<f32>> = probabilities.chunks(classes).map(<[f32]>::to_vec).collect();
        (rows.chunks(words).zip(&states.lengths))
            .map(|(rows, length)| rows[..*length].to_vec())
            .collect()
    }

    /// ... then mentions under settings that may differ from those in training, so that the best can be found.
    fn mentions(&self, config: &Config, words: &Vec<Vec<f32>>) -> Vec<Mention> {
        let class = |word: usize| host::argmax(&words[word]);
        let mut mentions = Vec::new();
        let mut start = 0;
        for end in 1..=words.len() {
            if end < words.len() && class(end) == class(start) {
                continue;
            }
            let kind = class(start);
            let score = (start..end)
                .map(|word| words[word][kind])
                .fold(1.0, f32::min);
            if kind > 0 && f64::from(score) >= config.threshold {
                let entity = Entity::new(start, end, self.labels.name(kind - 1));
                mentions.push(Mention { entity, score });
            }
            start = end;
        }
        mentions
    }
    // ANCHOR_END: prediction
}

// 4. The registry: from here on, recipes and model folders may name the head.

const RECIPE: &str = r#"
[data]
corpus = "quickstart"
limit = 1000

[encoder.scratch]
vocabulary = 1200
layers = 1
width = 64
heads = 4
feed_forward = 128

[head]
name = "word_tagger"

[train]
epochs = 3
learning_rate = 3e-3
"#;

fn main() -> Result<(), Box<dyn Error>> {
    // ANCHOR: registry
    registry::add(Entry::of::<WordTagger>(
        "word_tagger",
        "One linear layer over words",
        false,
    ))?;

    // Settings are checked by name: `drop_out` would be refused, with the hint `dropout`.
    let recipe = Recipe::parse(RECIPE, "own_head.rs", &["head.dropout=0.05".into()])?;
    let (recipe, entry) = registry::resolve(recipe)?;
    // ANCHOR_END: registry

    let folder = tempfile::tempdir()?;
    let finished = (entry.train)(&TrainOptions::new(recipe, folder.path()))?;
    let test = finished
        .test
        .ok_or("the corpus quickstart has test sentences")?;
    println!("{test}");

    // The model folder is loaded like any other.
    let tagger = nerzoo::load(&folder.path().display().to_string())?;
    for mention in tagger.tag_text("Marta Keller visited Lindholm in May 1998 .")? {
        println!(
            "{} is a {} ({:.2})",
            mention.text, mention.label, mention.score
        );
    }
    Ok(())
}
