//! SeqNER: named-entity recognition as tagging, the sequence half of Bundling Learning.
//!
//! Each word state `e_i` is scored by one linear layer, `s_i = W e_i + b`, over the 2m+1 tags of m types (0 is
//! O, 1+2k is B-k, 2+2k is I-k), or 4m+1 tags with `tags = "bioes"`. Two decoders share these emissions:
//!
//! * **softmax**: cross-entropy, mean over all real words of the batch; the best tag of each word.
//! * **CRF**: learned start, end and transition scores; loss −log p(gold), mean over sentences; Viterbi.
//!
//! Runs of tags are then combined to entities. The paper does not define how to read an I-k without a B-k or I-k before
//! it: *lenient* (our default) starts an entity there, *strict* drops it.
//!
//! The authors released no program, so there is only the preset `paper`. The dropout of the paper is applied before the
//! tagger; `word_dropout`, which zeroes whole words, is our addition and off by default. So are the tags of BIOES and
//! `transform`, a layer before the tagger that ModernBERT's taggers have.
//!
//! A tagger is flat: it learns the outermost of nested entities.

mod config;
mod decode;
mod import;
mod loss;
mod network;
mod tag_set;
mod target;

pub use config::{Combiner, Config, Decoder, Transform};
pub use decode::TagScores;
pub use network::{SeqNer, StateTransform};
pub use tag_set::{TagMark, TagSet};
pub use target::Gold;

// Parts of the head that tests compare with the reference implementation.
#[doc(hidden)]
pub use {decode::combine, target::tags};

use burn::tensor::Device;

use super::import::ImportedHead;
use super::token_classifier::TokenClassifier;
use super::{Head, Losses};
use crate::data::check::Reach;
use crate::encoder::WordStates;
use crate::encoder::shapes::BatchShape;
use crate::error::Result;
use crate::text::{Labels, Mention, Sentence};

impl Head for SeqNer {
    type Config = Config;
    type Gold = Gold;
    type Candidates = TagScores;

    fn name() -> String {
        "seq_ner".into()
    }

    fn config(&self) -> &Config {
        &self.config
    }

    fn set_config(&mut self, config: Config) {
        self.config = config;
    }

    fn init(config: &Config, width: usize, labels: &Labels, device: &Device) -> Self {
        SeqNer::new(config, width, labels, device)
    }

    fn reach(_config: &Config) -> Reach {
        Reach::flat()
    }

    fn nested(&self) -> bool {
        false
    }

    fn gold(config: &Config, labels: &Labels, sentences: &[&Sentence], _seed: u64) -> Gold {
        Gold::new(config.tags, labels, sentences)
    }

    fn takes_padding(_config: &Config) -> bool {
        true
    }

    fn pad(_config: &Config, _labels: &Labels, gold: Gold, shape: &BatchShape) -> Gold {
        gold.pad(shape.sentences)
    }

    /// Without padding, the loss selects the words; a CRF also selects transitions between them.
    fn sizes(gold: &Gold) -> Vec<usize> {
        match gold.padded_from {
            Some(_) => Vec::new(),
            None => vec![gold.tags.iter().map(Vec::len).sum()],
        }
    }

    fn loss(&self, states: &WordStates, gold: &Gold) -> Losses {
        loss::loss(self, states, gold)
    }

    fn candidates(&self, states: &WordStates) -> Vec<TagScores> {
        decode::candidates(self, states)
    }

    /// Time and memory grow with the length of a sentence only.
    fn longest_sentence(_config: &Config) -> usize {
        2048
    }

    fn mentions(&self, config: &Config, scores: &TagScores) -> Vec<Mention> {
        decode::mentions(self, config, scores)
    }

    fn from_token_classifier(classifier: &TokenClassifier) -> Result<ImportedHead<Config>> {
        import::from_classifier(classifier)
    }

    fn to_token_classifier(&self) -> Result<TokenClassifier> {
        import::to_classifier(self)
    }
}
