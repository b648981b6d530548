//! BOPN: the boundary offset prediction network (Tang et al., 2023).
//!
//! Every cell of a grid (type m, start i, end j) is labelled with the offset of its span from the nearest entity of its
//! type: `c:0` if it is one, `s:k` if the entity starts k words before i, `e:k` if it ends k words before j, or out of
//! range. Spans near an entity thus help to find it.
//!
//! * Types are learned vectors p_m before `[CLS]`, encoded with the sentence; a BiLSTM over types and words gives
//!   h_m and h_i.
//! * (1) v_ij = γ(h_j) ⊙ norm(h_i) + β(h_j), and v̂_ij = [v_ij; region embedding; distance embedding].
//! * (2, 3) c_mij = h′_mᵀ U v̂′_ij + W (h′_m ⊕ v̂′_ij) + b, where a prime marks the output of a feed-forward layer.
//! * (4, 5) Q_l = GELU(conv_l(C)) with dilation l = 1, 2, 3 over (m, i, j); scores = linear(Q₁ ⊕ Q₂ ⊕ Q₃).
//! * (6, 7) softmax over the offset labels, cross-entropy, mean over all cells.
//!
//! The authors' code differs from the paper in most of these; the preset `released` follows the program, setting by
//! setting (see [`Config`]). One difference is never followed: convolutions of the program read the padding of a batch, so
//! that the result of a sentence depends on the others. Here padding is set to zero before each convolution.
//!
//! No tensor of size types · words² · width is ever created: U is first multiplied with the few types, and the second
//! norm of the program is linear in the span and is folded into one product.

mod config;
mod convolution;
mod decode;
mod direct;
#[doc(hidden)]
pub mod import;
mod loss;
mod network;
mod target;

pub use config::{Config, Decoding, Labelling, Mode};
pub use decode::SentenceCells;
pub use network::Bopn;
pub use target::Gold;

// Parts of the head that tests compare with the reference implementation.
#[doc(hidden)]
pub use {
    convolution::Convolutions,
    decode::{GridCell, TypedSpan, mentions},
    direct::{DirectScores, EncoderStates},
    network::{TypeNorm, TypesAndWords},
    target::{Offset, OffsetScheme},
};

use std::collections::BTreeMap;

use burn::tensor::{Device, Tensor};

use super::{Detail, Diagnosis, Head, Imported, Losses, Overlaps};
use crate::data::check::Reach;
use crate::encoder::WordStates;
use crate::encoder::shapes::BatchShape;
use crate::error::Result;
use crate::heads::released::{ReleasedModel, ReleasedSettings};
use crate::nn::host::HostArray;
use crate::text::{Labels, Mention, Sentence};

impl Head for Bopn {
    type Config = Config;
    type Gold = Gold;
    type Candidates = SentenceCells;

    fn name() -> String {
        "bopn".into()
    }

    fn config(&self) -> &Config {
        &self.config
    }

    fn set_config(&mut self, config: Config) {
        self.config = config;
    }

    fn init(config: &Config, width: usize, labels: &Labels, device: &Device) -> Self {
        Bopn::new(config, width, labels, device)
    }

    fn prompts(config: &Config, labels: &Labels) -> usize {
        if config.type_input { labels.len() } else { 0 }
    }

    fn prompt(&self) -> Option<Tensor<2>> {
        self.type_prompt()
    }

    fn reach(config: &Config) -> Reach {
        Reach {
            overlapping: config.overlaps != Overlaps::Flat,
            several_types: !config.one_type,
            ..Reach::default()
        }
    }

    fn nested(&self) -> bool {
        self.config.overlaps != Overlaps::Flat
    }

    fn gold(config: &Config, labels: &Labels, sentences: &[&Sentence], _seed: u64) -> Gold {
        Gold::new(config, labels, sentences)
    }

    /// Not if convolutions read padding.
    fn takes_padding(config: &Config) -> bool {
        config.convolutions == 0 || config.mask_convolution
    }

    fn pad(_config: &Config, labels: &Labels, gold: Gold, shape: &BatchShape) -> Gold {
        gold.pad(labels.len(), shape)
    }

    fn loss(&self, states: &WordStates, gold: &Gold) -> Losses {
        loss::loss(self, states, gold)
    }

    fn candidates(&self, states: &WordStates) -> Vec<SentenceCells> {
        decode::grids(self, states)
    }

    fn mentions(&self, config: &Config, cells: &SentenceCells) -> Vec<Mention> {
        decode::mentions_under(self, config, cells)
    }

    fn diagnose(&self, grids: &[SentenceCells], detail: Detail) -> Diagnosis {
        decode::diagnose(self, grids, detail)
    }

    /// The grid of a sentence of this length is scored at once.
    fn longest_sentence(_config: &Config) -> usize {
        network::CELLS.isqrt()
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
