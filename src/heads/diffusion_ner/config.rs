//! The knobs of DiffusionNER. Two presets fill what a recipe leaves out.

use serde::{Deserialize, Serialize};

pub use crate::heads::preset::Preset;
use crate::heads::preset::with_presets;

/// How the noise grows over the timesteps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Variance {
    /// Slowly at both ends.
    #[default]
    Cosine,
    /// β on a line from 1e-4 to 0.02.
    Linear,
}

/// Which two numbers a span is while noise is added to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Coordinates {
    /// Its two boundaries.
    Boundaries,
    /// Its start and its width.
    Width,
}

/// What word numbers are divided by, and multiplied by when spans become words again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rescaling {
    /// The number of words, always.
    Words,
    /// The number of words N in training, but N − 1 inside the network and in sampling.
    Mixed,
}

/// What fills the noisy spans up to their number when a sentence has fewer entities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Expansion {
    /// The same entities again.
    Repeat,
    /// Random spans.
    Random,
}

/// What a noisy span is described by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Features {
    /// The mean of its words.
    Mean,
    /// Its first and its last word.
    Ends,
}

/// How fresh linear layers are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Initial {
    /// Evenly within one over the root of the inputs, so that layers of any width pass on signals of one size.
    Even,
    /// Normally with deviation 0.02, whatever the width.
    Normal,
}

/// How the losses of spans become one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reduction {
    /// All log-likelihoods of a sentence are summed.
    Sum,
    /// Types: mean over all spans. Boundaries: mean over the matched ones.
    Mean,
}

/// Which mentions may stand together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Output {
    /// All.
    All,
    /// Those that do not cross a better one.
    Nested,
    /// Those that do not overlap a better one.
    Flat,
}

/// Every knob of DiffusionNER. Where the paper and the authors' program differ, `preset` chooses and the knob
/// overrides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct Config {
    /// `paper` or `released`: where the defaults of the knobs below come from.
    pub preset: Preset,
    /// K, the noisy spans of a sentence. A trained model can be asked with any other number.
    pub spans: usize,
    /// γ, the denoising steps of prediction. A trained model can be asked with any other number.
    pub steps: usize,
    /// T, the timesteps of the forward process.
    pub timesteps: usize,
    /// `cosine` or `linear`: how noise grows.
    pub variance: Variance,
    /// λ: spans live in −λ..λ while noise is added.
    pub scale: f64,
    /// Fresh noise in each denoising step: none is 0 (paper), as much as the forward process had is 1 (released).
    pub eta: f64,
    /// The noise that prediction starts from; the same seed finds the same entities.
    pub seed: u64,
    /// `boundaries` (paper) or `width` (released: start and width).
    pub coordinates: Coordinates,
    /// `words` (paper) or `mixed` (released): what word numbers are divided by.
    pub rescaling: Rescaling,
    /// `random` or `repeat`: what fills the noisy spans up to K.
    pub expansion: Expansion,
    /// Repeat the gold entities up to K before the matching, so that every span has one (released). Otherwise those
    /// without one learn that they are none (paper).
    pub repeat_gold: bool,
    /// Layers of the BiLSTM.
    pub lstm_layers: usize,
    /// `mean` (paper) or `ends` (released, but for GENIA).
    pub features: Features,
    /// A vector for the place in the list of spans, added to queries and keys (released).
    pub slot_positions: bool,
    /// Layers of the span encoder, each with self-attention, cross-attention and a feed-forward part: 1 (paper), 2
    /// (released). With 0, spans know neither each other nor the sentence around them.
    pub attention_layers: usize,
    /// Attention heads; the encoder's width is a multiple of it.
    pub heads: usize,
    /// Width inside the span encoder's feed-forward part.
    pub feed_forward: usize,
    /// Two layers over the sinusoid of the timestep (released).
    pub time_layers: bool,
    /// Dropout throughout.
    pub dropout: f64,
    /// `even` (paper: it does not say) or `normal` (released): how fresh layers are drawn.
    pub initial: Initial,
    /// Weight of the boundaries' probabilities in the matching.
    pub match_boundaries: f64,
    /// Weight of the type's probability in the matching.
    pub match_types: f64,
    /// Weight of the boundaries' loss.
    pub loss_boundaries: f64,
    /// Weight of the types' loss.
    pub loss_types: f64,
    /// `sum` (paper) or `mean` (released): how the losses of spans become one.
    pub reduction: Reduction,
    /// Weight of spans that are none in the types' loss.
    pub none_weight: f64,
    /// Let all spans that are none weigh as much as all that are something (released); `none_weight` is not used then.
    pub balance_none: bool,
    /// φ: a mention needs more than this as the sum of its three probabilities, left, right and type.
    pub threshold: f64,
    /// Of candidates with the same boundaries keep only the one with the most probable type (paper).
    pub one_type: bool,
    /// `all` (paper), `nested` (released) or `flat`: which mentions may stand together.
    pub output: Output,
}

impl Config {
    /// The defaults of a preset.
    pub fn of(preset: Preset) -> Self {
        let released = preset == Preset::Released;
        Self {
            preset,
            spans: 60,
            steps: 5,
            timesteps: 1000,
            variance: Variance::Cosine,
            scale: 1.0,
            eta: if released { 1.0 } else { 0.0 },
            seed: 0,
            coordinates: match preset {
                Preset::Paper => Coordinates::Boundaries,
                Preset::Released => Coordinates::Width,
            },
            rescaling: match preset {
                Preset::Paper => Rescaling::Words,
                Preset::Released => Rescaling::Mixed,
            },
            expansion: Expansion::Random,
            repeat_gold: released,
            lstm_layers: 2,
            features: match preset {
                Preset::Paper => Features::Mean,
                Preset::Released => Features::Ends,
            },
            slot_positions: released,
            attention_layers: if released { 2 } else { 1 },
            heads: 8,
            feed_forward: 1024,
            time_layers: released,
            dropout: 0.1,
            initial: match preset {
                Preset::Paper => Initial::Even,
                Preset::Released => Initial::Normal,
            },
            match_boundaries: 1.0,
            match_types: 1.0,
            loss_boundaries: 1.0,
            loss_types: 1.0,
            reduction: match preset {
                Preset::Paper => Reduction::Sum,
                Preset::Released => Reduction::Mean,
            },
            none_weight: 1.0,
            balance_none: released,
            threshold: 2.5,
            one_type: !released,
            output: match preset {
                Preset::Paper => Output::All,
                Preset::Released => Output::Nested,
            },
        }
    }

    fn checked(self) -> Result<Self, String> {
        let counts = [
            ("spans", self.spans),
            ("steps", self.steps),
            ("timesteps", self.timesteps),
            ("heads", self.heads),
            ("feed_forward", self.feed_forward),
        ];
        if let Some((name, _)) = counts.iter().find(|(_, count)| *count == 0) {
            return Err(format!("{name} must be at least 1"));
        }
        if self.steps > self.timesteps {
            return Err(format!(
                "steps = {} is more than timesteps = {}",
                self.steps, self.timesteps
            ));
        }
        if self.timesteps < 21 && self.variance == Variance::Linear {
            return Err("variance = \"linear\" needs timesteps = 21 or more".into());
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return Err(format!("dropout = {} is not in 0..1", self.dropout));
        }
        if !(0.0..=1.0).contains(&self.eta) {
            return Err(format!("eta = {} is not between 0 and 1", self.eta));
        }
        if !(self.scale > 0.0 && self.scale.is_finite()) {
            return Err(format!("scale = {} is not above 0", self.scale));
        }
        let weights = [
            ("match_boundaries", self.match_boundaries),
            ("match_types", self.match_types),
            ("loss_boundaries", self.loss_boundaries),
            ("loss_types", self.loss_types),
            ("none_weight", self.none_weight),
        ];
        match weights.iter().find(|(_, w)| !(0.0..1e6).contains(w)) {
            Some((name, weight)) => Err(format!("{name} = {weight} is no weight from 0 up")),
            None if !(0.0..=3.0).contains(&self.threshold) => Err(format!(
                "threshold = {} is compared with the sum of three probabilities: it lies between 0 and 3",
                self.threshold
            )),
            None => Ok(self),
        }
    }
}

with_presets!(Config);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preset_fills_what_is_not_given() {
        let read = |text: &str| toml::from_str::<Config>(text);
        assert_eq!(read("").unwrap(), Config::of(Preset::Paper));
        let released = read("preset = \"released\"\nspans = 20\nfeatures = \"mean\"").unwrap();
        let expected = Config {
            spans: 20,
            features: Features::Mean,
            ..Config::of(Preset::Released)
        };
        assert_eq!(released, expected);
        let written = toml::to_string(&released).unwrap();
        assert_eq!(read(&written).unwrap(), released);
        let problem = read("span = 1").unwrap_err().to_string();
        assert!(problem.contains("unknown field `span`"), "{problem}");
        for wrong in [
            "spans = 0",
            "steps = 1001",
            "threshold = 3.5",
            "eta = -0.1",
            "scale = 0.0",
            "preset = \"other\"",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
