//! DiffusionNER: entities by denoising spans (Shen et al., 2023).
//!
//! Training puts noise on the boundaries of gold entities and learns to take it off again. Prediction starts from K
//! spans of pure noise and denoises them in γ steps. With `x` the signals of spans in −λ..λ:
//!
//! * (4) forward: `x_t = √ᾱ_t · x₀ + √(1 − ᾱ_t) · ε`, t drawn for each sentence.
//! * (5) `x̂₀ = f(x_t, S, t)`: the network, see [`DiffusionNer::denoise`]. `H` are the transformer's states after a
//!   BiLSTM, made once for all steps. Spans are means of their words in `H`, go through self-attention among
//!   themselves and cross-attention to `H`, and the timestep's sinusoid is added.
//! * Two pointers score every word as a boundary of every span, `P = sigmoid(MLP(H·W + X·W′))`; a classifier gives the
//!   type.
//! * (6, 7) backward: `ε̂ = (x_τ − √ᾱ_τ · x̂₀) / √(1 − ᾱ_τ)`, `x_τ′ = √ᾱ_τ′ · x̂₀ + √(1 − ᾱ_τ′) · ε̂`.
//! * Loss: predictions and gold are matched at the highest sum of probabilities (the Hungarian method), and the
//!   likelihood of what each is matched with is maximised.
//!
//! The authors' program differs from their text in most of these; the preset `released` follows it, knob by knob (see
//! [`Config`]). Where the text says `−Σ log P` of a boundary, we take the likelihood of all words of the sentence, as
//! the program does: of the boundary's own word alone it would be highest when every word is a boundary.

mod config;
mod decode;
pub mod import;
mod loss;
mod matching;
mod network;
mod process;
mod sample;
mod span_encoder;
mod target;

pub use config::{
    Config, Coordinates, Expansion, Features, Initial, Output, Reduction, Rescaling, Variance,
};
pub use decode::{Candidate, candidates, choose};
pub use loss::of_matches;
pub use matching::{Match, matching};
pub use network::{Denoised, DiffusionNer, Encoded, Ends};
pub use process::{Geometry, Noise, Pair, Schedule};
pub use sample::{Seeded, Source, Trajectory, sample};
pub use span_encoder::{Pointer, SpanLayer, TwoLayers};
pub use target::{Gold, GoldEntity, Target, entities, noisy, signals};

use burn::tensor::Device;

use super::{Detail, Diagnosis, Head, Imported, Losses};
use crate::encoder::WordStates;
use crate::error::{Error, Result};
use crate::text::{Labels, Mention, Sentence};

impl Head for DiffusionNer {
    type Config = Config;
    type Gold = Gold;

    fn name() -> String {
        "diffusion_ner".into()
    }

    fn fits(config: &Config, width: usize) -> Result<()> {
        let heads = config.heads;
        if width.is_multiple_of(2) && width.is_multiple_of(heads) && width >= 4 {
            Ok(())
        } else {
            Err(Error::Config(format!(
                "the encoder's width {width} has to be even and a multiple of [head] heads = {heads}"
            )))
        }
    }

    fn init(config: &Config, width: usize, labels: &Labels, device: &Device) -> Self {
        DiffusionNer::new(config, width, labels, device)
    }

    fn nested(&self) -> bool {
        self.config.output != Output::Flat
    }

    fn gold(config: &Config, labels: &Labels, sentences: &[&Sentence], seed: u64) -> Gold {
        Gold::new(config, labels, sentences, seed)
    }

    fn loss(&self, states: &WordStates, gold: &Gold) -> Losses {
        loss::loss(self, states, gold)
    }

    fn decode(&self, states: &WordStates) -> Vec<Vec<Mention>> {
        decode::diagnose(self, states).mentions
    }

    fn diagnose(&self, states: &WordStates, _: Detail) -> Diagnosis {
        decode::diagnose(self, states)
    }

    fn import(weights: &[u8]) -> Result<Imported> {
        import::import(weights)
    }
}
