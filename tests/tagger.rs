//! A device failure while tagging is an error, not a panic of the caller.

#![cfg(feature = "train")] // the helpers train

mod common;

use std::error::Error;
use std::sync::Arc;

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};
use nerzoo::data::words::Segmentation;
use nerzoo::encoder::tokenizer::WordTokenizer;
use nerzoo::encoder::{EncoderConfig, LayerPooling, Pooling, RowLayout, ScratchConfig, WordStates};
use nerzoo::error::Result;
use nerzoo::heads::{Head, Losses, Preset, Settings};
use nerzoo::model::recognizer::Recognizer;
use nerzoo::model::tagger::{ModelTagger, Tagger};
use nerzoo::text::{Labels, Mention, Sentence};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A head that panics like a device without memory when a batch has a sentence of more than `limit` words.
#[derive(Module, Debug)]
struct Failing {
    weight: Param<Tensor<1>>,
    #[module(skip)]
    config: Limit,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Limit {
    /// The longest sentence that does not fail.
    limit: usize,
}

impl Settings for Limit {
    fn presets() -> &'static [Preset] {
        &[Preset::Paper]
    }

    fn of(_: Preset) -> Self {
        Self { limit: 3 }
    }

    fn check(&self) -> Result<()> {
        Ok(())
    }
}

impl Head for Failing {
    type Config = Limit;
    type Gold = ();
    type Candidates = ();

    fn name() -> String {
        "failing".into()
    }

    fn config(&self) -> &Limit {
        &self.config
    }

    fn set_config(&mut self, config: Limit) {
        self.config = config;
    }

    fn init(config: &Limit, width: usize, _: &Labels, device: &Device) -> Self {
        Self {
            weight: Param::from_tensor(Tensor::zeros([width], device)),
            config: config.clone(),
        }
    }

    fn nested(&self) -> bool {
        false
    }

    fn gold(_: &Limit, _: &Labels, _: &[&Sentence], _: u64) {}

    fn loss(&self, _: &WordStates, _: &()) -> Losses {
        Losses::single("none", self.weight.val().sum())
    }

    fn candidates(&self, states: &WordStates) -> Vec<()> {
        let longest = states.lengths.iter().max();
        assert!(longest <= Some(&self.config.limit), "out of memory");
        vec![(); states.lengths.len()]
    }

    fn mentions(&self, _: &Limit, _: &()) -> Vec<Mention> {
        Vec::new()
    }
}

fn tagger() -> ModelTagger<Failing> {
    let device = Device::flex();
    let sentences = [Sentence::from_words(["Anna", "sings"])];
    let pieces = WordTokenizer::train(&sentences, 40, true).unwrap();
    let scratch = ScratchConfig {
        layers: 1,
        width: 8,
        heads: 2,
        feed_forward: 8,
        ..ScratchConfig::default()
    };
    let encoder = EncoderConfig {
        transformer: scratch.transformer(pieces.vocabulary_size()),
        pooling: Pooling::Max,
        layers: LayerPooling::Last,
        overlap: 0,
        context: 0,
        rows: RowLayout::Standard,
        features: None,
    };
    let labels = Labels::new(["PER"]);
    let model = Recognizer {
        encoder: encoder.init(&device),
        head: Failing::init(&Limit::of(Preset::Paper), 8, &labels, &device),
    };
    ModelTagger::new(model, Arc::new(pieces), encoder, labels)
}

/// Sentences of two words, and one of four words in the middle.
fn sentences(count: usize) -> Vec<Sentence> {
    let mut sentences = vec![Sentence::from_words(["Anna", "sings"]); count];
    sentences[count / 2] = Sentence::from_words(["Anna", "sings", "and", "sings"]);
    sentences
}

/// The error and all its causes.
fn causes(problem: &dyn Error) -> String {
    let mut text = problem.to_string();
    let mut source = problem.source();
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    text
}

#[test]
fn a_panic_while_tagging_is_an_error() {
    let tagger = tagger();
    // One batch, and more batches than are prepared ahead.
    for count in [1, 64 * 8] {
        let sentences = sentences(count);
        let problem = causes(&tagger.tag(&sentences).unwrap_err());
        assert!(problem.contains("out of memory"), "{problem}");
        assert!(problem.contains("device"), "{problem}");
        let problem = causes(&tagger.diagnose(&sentences).unwrap_err());
        assert!(problem.contains("out of memory"), "{problem}");
    }
    let problem = tagger
        .tag_text("Anna sings and sings and sings")
        .unwrap_err();
    assert!(causes(&problem).contains("out of memory"));
}

#[test]
fn a_long_sentence_is_tagged_in_windows() {
    let text = "Anna sings and ".repeat(3000);
    assert!(tagger().tag_text(&text).is_err());
    let tagger = tagger().with_documents(Segmentation::default(), Some(3));
    assert_eq!(tagger.longest(), 3);
    assert!(tagger.tag_text(&text).unwrap().is_empty());
    assert!(tagger.tag_text("").unwrap().is_empty());
}

#[test]
fn given_sentences_are_tagged_in_windows_too() {
    let words = (0..5000).map(|word| format!("w{}", word % 7));
    let mut sentences = vec![Sentence::from_words(["Anna", "sings"]); 3];
    sentences[1] = Sentence::from_words(words);
    assert!(tagger().tag(&sentences).is_err());
    let mut tagger = tagger();
    tagger.set_longest(3);
    assert_eq!(tagger.tag(&sentences).unwrap(), vec![Vec::new(); 3]);
    let encoded = tagger.encode(&sentences);
    let found = tagger.tag_encoded(&sentences, &encoded).unwrap();
    assert_eq!(found, vec![Vec::new(); 3]);
    assert_eq!(tagger.diagnose(&sentences).unwrap().mentions.len(), 3);
    let settings = [&Limit { limit: 3 }, &Limit { limit: 2 }];
    let with = tagger.tag_with(&sentences, &settings).unwrap();
    assert_eq!(with, vec![vec![Vec::<Mention>::new(); 3]; 2]);
}

#[test]
fn a_tagger_can_be_used_after_a_failure() {
    let tagger = tagger();
    assert!(tagger.tag(&sentences(3)).is_err());
    let short = [Sentence::from_words(["Anna", "sings"])];
    assert_eq!(tagger.tag(&short).unwrap(), [Vec::new()]);
}

#[test]
fn threads_that_share_a_tagger_fail_by_themselves() {
    let tagger = tagger();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let tagger = &tagger;
            scope.spawn(move || {
                for _ in 0..20 {
                    let fails = thread % 2 == 0;
                    let sentences = if fails {
                        sentences(200)
                    } else {
                        vec![Sentence::from_words(["Anna"]); 200]
                    };
                    assert_eq!(tagger.tag(&sentences).is_err(), fails);
                }
            });
        }
    });
}
