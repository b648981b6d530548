//! DiffusionNER: entities by denoising spans (Shen et al., 2023).
//!
//! Training adds noise to the boundaries of gold entities and learns to remove it. Prediction starts from K spans of pure
//! noise and denoises them in γ steps. With `x` the coordinates of spans, scaled to −λ..λ:
//!
//! * (4) forward: `x_t = √ᾱ_t · x₀ + √(1 − ᾱ_t) · ε`, with a random t for each sentence.
//! * (5) `x̂₀ = f(x_t, S, t)`: the network, see [`DiffusionNer::denoise`]. `H` are the transformer's states after a
//!   BiLSTM, computed once for all steps. Spans are means of their words in `H`, followed by self-attention among
//!   themselves and cross-attention to `H`; then the sinusoidal embedding of the timestep is added.
//! * Two pointers score every word as a boundary of every span, `P = sigmoid(MLP(H·W + X·W′))`; a classifier predicts the
//!   type.
//! * (6, 7) backward: `ε̂ = (x_τ − √ᾱ_τ · x̂₀) / √(1 − ᾱ_τ)`, `x_τ′ = √ᾱ_τ′ · x̂₀ + √(1 − ᾱ_τ′) · ε̂`.
//! * Loss: predictions and gold entities are matched so that the sum of probabilities is highest (the Hungarian
//!   algorithm), and the likelihood of the matched entities is maximised.
//!
//! The authors' code differs from the paper in most of these; the preset `released` follows the program, setting by
//! setting (see [`Config`]). Where the paper has `−Σ log P` of a boundary, we use the likelihood over all words of the
//! sentence, as the program does: the likelihood of the boundary word alone would be highest if every word was a
//! boundary.

mod config;
mod decode;
mod distinct;
#[doc(hidden)]
pub mod import;
mod loss;
mod matching;
mod network;
mod process;
mod rescore;
mod sample;
mod span_encoder;
mod target;

pub use config::{
    Config, Coordinates, Expansion, InitialWeights, Matching, Reduction, Rescaling, SpanFeatures,
    Start, Variance,
};
pub use decode::SpanCandidate;
pub use network::DiffusionNer;
pub use rescore::Rescorer;
pub use target::Gold;

// Parts of the head that tests compare with the reference implementation.
#[doc(hidden)]
pub use {
    decode::{candidates, choose},
    loss::loss_of_matches,
    matching::{Match, matching},
    network::{Denoised, EncodedWords, EndLayers},
    process::{Noise, NoiseSchedule, Pair, SpanGeometry},
    sample::{NoiseSource, SeededNoise, Trajectory, sample},
    span_encoder::{Pointer, SpanLayer, TwoLayers},
    target::{GoldEntity, SentenceTarget, entities, noisy, signals},
};

use std::collections::BTreeMap;

use burn::tensor::Device;

use super::{Detail, Diagnosis, Head, Imported, Losses, Overlaps, Suggestion};
use crate::data::check::Reach;
use crate::data::stats::Stats;
use crate::encoder::WordStates;
use crate::encoder::shapes::BatchShape;
use crate::error::{Error, Result};
use crate::heads::released::{ReleasedModel, ReleasedSettings};
use crate::nn::host::HostArray;
use crate::text::{Labels, Mention, Sentence};

/// Smallest suggested number of spans: with fewer, random ones miss too many entities.
const FEWEST_SPANS: usize = 30;

/// Largest suggested number of spans, the default: the time grows with it.
const MOST_SPANS: usize = 60;

impl Head for DiffusionNer {
    type Config = Config;
    type Gold = Gold;
    type Candidates = Vec<SpanCandidate>;

    fn name() -> String {
        "diffusion_ner".into()
    }

    fn config(&self) -> &Config {
        &self.config
    }

    fn set_config(&mut self, config: Config) {
        self.config = config;
    }

    fn fits(config: &Config, width: usize) -> Result<()> {
        let heads = config.heads;
        if width.is_multiple_of(2) && width.is_multiple_of(heads) && width >= 4 {
            Ok(())
        } else {
            Err(Error::Config(format!(
                "the encoder's width {width} must be even and a multiple of [head] heads = {heads}"
            )))
        }
    }

    fn init(config: &Config, width: usize, labels: &Labels, device: &Device) -> Self {
        DiffusionNer::new(config, width, labels, device)
    }

    fn reach(config: &Config) -> Reach {
        Reach {
            overlapping: config.overlaps != Overlaps::Flat,
            several_types: !config.one_type,
            most: Some(config.spans),
            ..Reach::default()
        }
    }

    fn nested(&self) -> bool {
        self.config.overlaps != Overlaps::Flat
    }

    fn gold(config: &Config, labels: &Labels, sentences: &[&Sentence], seed: u64) -> Gold {
        Gold::new(config, labels, sentences, seed)
    }

    fn takes_padding(_config: &Config) -> bool {
        true
    }

    fn pad(_config: &Config, _labels: &Labels, gold: Gold, shape: &BatchShape) -> Gold {
        gold.pad(shape.sentences)
    }

    fn loss(&self, states: &WordStates, gold: &Gold) -> Losses {
        loss::loss(self, states, gold)
    }

    fn candidates(&self, states: &WordStates) -> Vec<Vec<SpanCandidate>> {
        decode::denoised(self, states)
    }

    fn mentions(&self, config: &Config, candidates: &Vec<SpanCandidate>) -> Vec<Mention> {
        decode::mentions(self, config, candidates)
    }

    fn diagnose(&self, candidates: &[Vec<SpanCandidate>], _: Detail) -> Diagnosis {
        decode::diagnose(self, candidates)
    }

    /// A sentence has at most as many mentions as there are noisy spans, so long ones are cut where they might have more.
    fn longest_sentence(config: &Config) -> usize {
        config.spans.saturating_mul(4).clamp(64, 512)
    }

    /// The number of noisy spans: twice the entities of nearly all sentences, and no fewer than any sentence has.
    fn suggest(corpus: &Stats) -> Vec<Suggestion> {
        let (usual, most) = (
            corpus.entities_covering(99.0),
            corpus.entities_covering(100.0),
        );
        if most == 0 {
            return Vec::new();
        }
        let spans = (2 * usual).max(most).clamp(FEWEST_SPANS, MOST_SPANS);
        let beyond = if most > spans {
            format!("; of more than {spans} entities in a sentence the others cannot be found")
        } else {
            String::new()
        };
        vec![Suggestion {
            setting: "spans".into(),
            value: spans.into(),
            reason: format!(
                "99 % of the sentences with entities have at most {usual}, the others up to {most}; more spans cost time\
                 {beyond}."
            ),
        }]
    }

    fn import(weights: &[u8]) -> Result<Imported> {
        import::import(weights)
    }

    fn from_released(
        weights: BTreeMap<String, HostArray>,
        settings: &ReleasedSettings,
    ) -> Result<ReleasedModel<Config>> {
        import::released(weights, settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_suggested_number_of_spans_suffices_for_every_sentence() {
        let suggested = |counts: &[(usize, usize)]| {
            let corpus = Stats {
                entities_per_sentence: BTreeMap::from_iter(counts.iter().copied()),
                ..Stats::default()
            };
            let mut suggested = DiffusionNer::suggest(&corpus);
            suggested.pop().map(|one| (one.value, one.reason))
        };
        let value = |counts| suggested(counts).unwrap().0;
        assert_eq!(value(&[(0, 50), (1, 100), (3, 10)]), 30);
        assert_eq!(value(&[(2, 50), (21, 50)]), 42);
        assert_eq!(value(&[(2, 999), (47, 1)]), 47);
        assert_eq!(value(&[(20, 10), (90, 10)]), 60);
        assert_eq!(suggested(&[(0, 10)]), None);
        let reason = suggested(&[(2, 999), (90, 1)]).unwrap().1;
        assert!(reason.contains("of more than 60 entities"), "{reason}");
    }
}
