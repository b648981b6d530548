//! Settings of DiffusionNER, with one preset for the paper and one for the authors' code.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::heads::Overlaps;
use crate::heads::settings::{
    MOST_LAYERS, MOST_WIDTH, Preset, Renamed, Settings, at_least_one, at_most, below_one, finite,
    not_negative, up_to_one, within,
};

/// Largest number of noisy spans. Attention between them takes memory for each pair.
const MOST_SPANS: usize = 2_000;

/// How the variance of the noise grows over the timesteps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Variance {
    /// The cosine schedule: slowly at both ends.
    #[default]
    Cosine,
    /// β grows linearly from 1e-4 to 0.02.
    Linear,
}

/// The two coordinates of a span that noise is added to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Coordinates {
    /// Its two boundaries.
    Boundaries,
    /// Its start and its width.
    Width,
}

/// The divisor that maps word indices to 0..1, and the factor that maps them back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Rescaling {
    /// Always the number of words.
    Words,
    /// The number of words N in training, but N − 1 inside the network and in sampling.
    Mixed,
}

/// How the list of noisy spans is filled up if a sentence has fewer entities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Expansion {
    /// The same entities again.
    Repeat,
    /// Random spans.
    Random,
    /// Short spans that cover the sentence evenly.
    Spread,
}

/// The spans that prediction starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// Pure noise.
    Noise,
    /// Short spans that cover the sentence evenly, taken as nearly denoised.
    Spread,
}

/// Which gold entity a prediction is trained towards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Matching {
    /// The one of the assignment with the highest sum of probabilities.
    Assignment,
    /// The one that the noisy span overlaps most, if there is one.
    Overlap,
}

/// Which words represent a noisy span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SpanFeatures {
    /// The mean of its words.
    Mean,
    /// Its first and its last word.
    Ends,
}

/// The distribution that new linear layers are drawn from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum InitialWeights {
    /// Uniform within ±1/√inputs, so that the output scale does not depend on the width.
    Uniform,
    /// Normal with standard deviation 0.02, whatever the width.
    Normal,
}

/// How the losses of spans are reduced to one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Reduction {
    /// The sum of all log-likelihoods of a sentence.
    Sum,
    /// Types: the mean over all spans. Boundaries: the mean over the matched ones.
    Mean,
}

/// All settings of DiffusionNER. Where the paper and the authors' code differ, `preset` selects the defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Whether defaults follow the paper or the program released by its authors.
    pub preset: Preset,
    /// K, the number of noisy spans per sentence.
    #[schemars(extend("inference" = true))]
    pub spans: usize,
    /// γ, the number of denoising steps in prediction.
    #[schemars(extend("inference" = true))]
    pub steps: usize,
    /// T, the number of timesteps of the forward process.
    pub timesteps: usize,
    /// How the variance of the noise grows over the timesteps.
    pub variance: Variance,
    /// λ: the coordinates of spans are scaled to −λ..λ before noise is added.
    pub scale: f64,
    /// Amount of new noise in each denoising step: 0 for none (DDIM), 1 for as much as in the forward process.
    #[schemars(extend("inference" = true))]
    pub eta: f64,
    /// Seed of the noise that prediction starts from; the same seed gives the same entities.
    #[schemars(extend("inference" = true))]
    pub seed: u64,
    /// Which two coordinates of a span noise is added to.
    pub coordinates: Coordinates,
    /// Whether word indices are divided by the number of words (words) or partly by one less (mixed).
    pub rescaling: Rescaling,
    /// How the list of noisy spans is filled up to K: with random spans, by repeating the entities, or evenly (spread).
    pub expansion: Expansion,
    /// Whether prediction starts from noise, as in the paper, or from short spans that cover the sentence (spread).
    pub start: Start,
    /// Repeat the gold entities up to K before matching; otherwise spans without an entity learn the class none.
    pub repeat_gold: bool,
    /// Number of BiLSTM layers.
    pub lstm_layers: usize,
    /// Whether a span is represented by the mean of its words or by its end words (released, except on GENIA).
    pub features: SpanFeatures,
    /// Add a vector for the index of a span in the list to queries and keys.
    pub slot_positions: bool,
    /// Layers of the span encoder (self-attention, cross-attention, feed-forward); with 0, spans are independent.
    pub attention_layers: usize,
    /// Number of attention heads; the encoder's width must be a multiple of it.
    pub heads: usize,
    /// Hidden width of the feed-forward part of the span encoder.
    pub feed_forward: usize,
    /// Two linear layers after the sinusoidal embedding of the timestep.
    pub time_layers: bool,
    /// Dropout in all parts of the head.
    pub dropout: f64,
    /// The distribution that new linear layers are drawn from (the paper does not say).
    pub initial: InitialWeights,
    /// Whether a span learns the entity assigned to its prediction, as in the paper, or the one it overlaps most (overlap).
    pub matching: Matching,
    /// Weight of the boundary probabilities in the matching.
    pub match_boundaries: f64,
    /// Weight of the type probability in the matching.
    pub match_types: f64,
    /// Weight of the boundary loss.
    pub loss_boundaries: f64,
    /// Weight of the type loss.
    pub loss_types: f64,
    /// How the losses of spans are reduced to one value.
    pub reduction: Reduction,
    /// Weight of the class none in the type loss.
    pub none_weight: f64,
    /// Weigh all spans of class none together as much as all others; `none_weight` is then ignored.
    pub balance_none: bool,
    /// Words near the boundaries of the noisy span are more probable boundaries at first (not in the paper).
    pub locality: bool,
    /// Take the type from the words between the predicted boundaries; otherwise from the noisy span, as in the paper.
    pub rescore: bool,
    /// φ: a mention needs a sum of its three probabilities (left, right and type) above this.
    #[schemars(extend("inference" = true, "score_scale" = 3.0, "tune_range" = [0.5, 2.9, 0.05]))]
    pub threshold: f64,
    /// Added to the score of the class none in prediction: above 0 gives fewer mentions, below 0 more.
    #[schemars(extend("inference" = true, "tune_range" = [-3.0, 3.0, 0.5]))]
    pub none_bias: f64,
    /// Of candidates with the same boundaries, keep only the one with the most probable type.
    #[schemars(extend("inference" = true, "tune" = [false, true]))]
    pub one_type: bool,
    /// Which mentions may overlap: as in the training data (auto), none (flat), nested ones (nested) or any.
    #[schemars(extend("inference" = true, "tune" = ["nested", "any"]))]
    pub overlaps: Overlaps,
}

impl Settings for Config {
    fn presets() -> &'static [Preset] {
        &[Preset::Paper, Preset::Released]
    }

    fn of(preset: Preset) -> Self {
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
            start: Start::Noise,
            repeat_gold: released,
            lstm_layers: 2,
            features: match preset {
                Preset::Paper => SpanFeatures::Mean,
                Preset::Released => SpanFeatures::Ends,
            },
            slot_positions: released,
            attention_layers: if released { 2 } else { 1 },
            heads: 8,
            feed_forward: 1024,
            time_layers: released,
            dropout: 0.1,
            initial: match preset {
                Preset::Paper => InitialWeights::Uniform,
                Preset::Released => InitialWeights::Normal,
            },
            matching: Matching::Assignment,
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
            locality: false,
            rescore: false,
            threshold: 2.5,
            none_bias: 0.0,
            one_type: !released,
            overlaps: match preset {
                Preset::Paper => Overlaps::Any,
                Preset::Released => Overlaps::Nested,
            },
        }
    }

    fn check(&self) -> Result<()> {
        at_least_one("spans", self.spans)?;
        at_least_one("steps", self.steps)?;
        at_least_one("timesteps", self.timesteps)?;
        at_least_one("heads", self.heads)?;
        at_least_one("feed_forward", self.feed_forward)?;
        at_most("spans", self.spans, MOST_SPANS)?;
        at_most("lstm_layers", self.lstm_layers, MOST_LAYERS)?;
        at_most("attention_layers", self.attention_layers, MOST_LAYERS)?;
        at_most("feed_forward", self.feed_forward, MOST_WIDTH)?;
        if self.steps > self.timesteps {
            return Err(Error::Config(format!(
                "steps = {} must be at most timesteps = {}",
                self.steps, self.timesteps
            )));
        }
        if self.timesteps < 21 && self.variance == Variance::Linear {
            return Err(Error::Config(
                "variance = \"linear\" needs timesteps = 21 or more".into(),
            ));
        }
        below_one("dropout", self.dropout)?;
        up_to_one("eta", self.eta)?;
        let is_positive = self.scale > 0.0 && self.scale.is_finite();
        within("scale", self.scale, is_positive, "above 0")?;
        finite("none_bias", self.none_bias)?;
        not_negative("match_boundaries", self.match_boundaries)?;
        not_negative("match_types", self.match_types)?;
        not_negative("loss_boundaries", self.loss_boundaries)?;
        not_negative("loss_types", self.loss_types)?;
        not_negative("none_weight", self.none_weight)?;
        within(
            "threshold",
            self.threshold,
            (0.0..=3.0).contains(&self.threshold),
            "between 0 and 3, as it is compared with the sum of three probabilities",
        )
    }

    fn resolve_overlaps(&mut self, corpus: Overlaps) {
        self.overlaps = self.overlaps.or(corpus);
    }

    fn renamed() -> &'static [Renamed] {
        &[
            Renamed::Value {
                key: "initial",
                old: "even",
                new: "uniform",
            },
            Renamed::Key {
                old: "output",
                new: "overlaps",
            },
            Renamed::Value {
                key: "overlaps",
                old: "all",
                new: "any",
            },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heads::settings;

    #[test]
    fn missing_settings_come_from_the_preset() {
        let read = |text: &str| settings::read::<Config>(toml::from_str(text).unwrap());
        assert_eq!(read("").unwrap(), Config::of(Preset::Paper));
        let released = read("preset = \"released\"\nspans = 20\nfeatures = \"mean\"").unwrap();
        let expected = Config {
            spans: 20,
            features: SpanFeatures::Mean,
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

    #[test]
    fn the_old_name_of_uniform_is_still_read() {
        let read = |text: &str| settings::read::<Config>(toml::from_str(text).unwrap()).unwrap();
        let found = read("preset = \"released\"\ninitial = \"even\"");
        assert_eq!(found.initial, InitialWeights::Uniform);
        let written = toml::to_string(&found).unwrap();
        assert!(written.contains("initial = \"uniform\""), "{written}");
    }
}
