//! Settings of BOPN, with one preset for the paper and one for the authors' code.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::heads::Overlaps;
use crate::heads::settings::{
    MOST_LAYERS, MOST_WIDTH, Preset, Settings, at_least_one, at_most, below_one, finite,
    not_negative,
};

/// Largest offset. The number of labels of a cell grows with it, and the weights of a convolution with its square.
const MOST_OFFSETS: usize = 100;

/// Which boundaries have offset labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Start and end.
    #[default]
    Both,
    /// Only the start.
    Start,
    /// Only the end.
    End,
    /// Neither: every cell is an entity or out of range.
    None,
}

/// Which spans near an entity get an offset label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Labelling {
    /// Every span with both boundaries within S words of those of its nearest entity.
    Nearest,
    /// Only spans that share the other boundary with the entity.
    Shared,
}

/// How mentions are decoded from the grid of labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Decoding {
    /// Centre spans only.
    Centre,
    /// Centre spans, and spans that offsets point to if they pass the two rules of the paper.
    Rules,
    /// Centre spans, and every span that any offset points to: highest recall, lowest precision.
    All,
    /// Centre spans, and spans that at least S start offsets or S end offsets point to, with S the largest offset.
    Votes,
}

/// All settings of BOPN. Where the paper and the authors' code differ, `preset` selects the defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Whether defaults follow the paper or the program released by its authors.
    pub preset: Preset,
    /// S, the largest offset, 0 to 3 in the paper; 0 for no offsets.
    pub offsets: usize,
    /// Which boundaries have offsets.
    pub mode: Mode,
    /// Encode the entity types together with the sentence; otherwise the scorer has a learned vector per type.
    pub type_input: bool,
    /// The types' alphabetical numbers in the network's order, as convolutions mix neighbours; empty for alphabetical.
    pub type_order: Vec<usize>,
    /// Width of the BiLSTM output, both directions together.
    pub lstm_width: usize,
    /// Dropout before the BiLSTM.
    pub lstm_dropout: f64,
    /// Width of the region embedding (below or above the diagonal); 0 for none.
    pub region_width: usize,
    /// A third region for cells past the end of a sentence; matters only without `mask_convolution`.
    pub padding_region: bool,
    /// Width of the embedding of the distance between start and end; 0 for none.
    pub distance_width: usize,
    /// Hidden width of the biaffine scorer.
    pub biaffine_width: usize,
    /// Dropout before the feed-forward layers of the biaffine scorer.
    pub biaffine_dropout: f64,
    /// Add a score from the type's vector normalised conditionally on the span.
    pub type_norm: bool,
    /// Number of 3-D convolutions, with dilation 1, 2, 3, ...; 0 for none.
    pub convolutions: usize,
    /// Convolve each offset label separately instead of all together.
    pub depthwise: bool,
    /// Each convolution reads the output of the one before it; otherwise all read the scores.
    pub chained: bool,
    /// Mix the labels of each cell by a linear layer before the first convolution.
    pub pointwise: bool,
    /// Probability of zeroing the whole plane of a label before the convolutions.
    pub convolution_dropout: f64,
    /// Add the input scores to the output of the convolutions.
    pub residual: bool,
    /// Zero the cells past the end of a sentence before each convolution; off only to compare with the authors' code.
    pub mask_convolution: bool,
    /// Add scores computed directly from the encoder's states of the first and last word (not in the paper).
    pub direct: bool,
    /// Initial probability of "out of range", which nearly all cells are; 0 for equal probabilities (as in the paper).
    pub initial_out: f64,
    /// Weight of the cells out of range in the loss; 1 in the paper.
    pub out_weight: f64,
    /// Weight of a second loss, one softmax over none and all types of a span, which also gives the centres; 0 in the paper.
    pub joint_weight: f64,
    /// Which spans near an entity get an offset label.
    pub labels: Labelling,
    /// Label the cells below the diagonal like their mirror images.
    pub mirror: bool,
    /// Label smoothing.
    pub smoothing: f64,
    /// How mentions are decoded from the grid of labels.
    #[schemars(extend("inference" = true, "tune" = ["centre", "rules", "votes"]))]
    pub decode: Decoding,
    /// Added to the score of "out of range" in prediction: above 0 gives fewer mentions, below 0 more.
    #[schemars(extend("inference" = true, "tune_range" = [-3.0, 3.0, 0.25]))]
    pub none_bias: f64,
    /// Of mentions with the same words, keep only the one with the most probable type.
    #[schemars(extend("inference" = true, "tune" = [false, true]))]
    pub one_type: bool,
    /// Which mentions may overlap: as in the training data (auto), none (flat), nested ones (nested) or any.
    #[schemars(extend("inference" = true, "tune" = ["nested", "any"]))]
    pub overlaps: Overlaps,
}

impl Config {
    /// Whether the types of a span are scored jointly.
    pub(super) fn has_joint_types(&self) -> bool {
        self.joint_weight > 0.0
    }

    /// The number of the type that the network has at an index, of this many.
    pub(super) fn type_at(&self, index: usize, types: usize) -> usize {
        match self.type_order.get(index) {
            Some(number) if self.type_order.len() == types => *number,
            _ => index,
        }
    }

    /// The index at which the network has a type, of this many.
    pub(super) fn index_of(&self, number: usize, types: usize) -> usize {
        let mut order = self.type_order.iter();
        let found = order.position(|other| *other == number);
        found
            .filter(|_| self.type_order.len() == types)
            .unwrap_or(number)
    }
}

impl Settings for Config {
    fn presets() -> &'static [Preset] {
        &[Preset::Paper, Preset::Released]
    }

    fn of(preset: Preset) -> Self {
        let released = preset == Preset::Released;
        Self {
            preset,
            offsets: 2,
            mode: Mode::Both,
            type_input: true,
            type_order: Vec::new(),
            lstm_width: 256,
            lstm_dropout: 0.5,
            region_width: 20,
            padding_region: released,
            distance_width: if released { 20 } else { 0 },
            biaffine_width: 150,
            biaffine_dropout: if released { 0.33 } else { 0.2 },
            type_norm: released,
            convolutions: if released { 2 } else { 3 },
            depthwise: released,
            chained: released,
            pointwise: released,
            convolution_dropout: if released { 0.2 } else { 0.0 },
            residual: released,
            mask_convolution: true,
            direct: false,
            initial_out: 0.0,
            out_weight: 1.0,
            joint_weight: 0.0,
            labels: match preset {
                Preset::Paper => Labelling::Nearest,
                Preset::Released => Labelling::Shared,
            },
            mirror: released,
            smoothing: if released { 0.01 } else { 0.0 },
            decode: match preset {
                Preset::Paper => Decoding::Rules,
                Preset::Released => Decoding::Votes,
            },
            none_bias: 0.0,
            one_type: false,
            overlaps: Overlaps::Any,
        }
    }

    fn check(&self) -> Result<()> {
        at_least_one("lstm_width", self.lstm_width)?;
        if !self.lstm_width.is_multiple_of(2) {
            return Err(Error::Config(format!(
                "lstm_width = {} must be even: half of it for each direction",
                self.lstm_width
            )));
        }
        let mut numbers = self.type_order.clone();
        numbers.sort_unstable();
        if numbers
            .iter()
            .zip(0..)
            .any(|(number, index)| *number != index)
        {
            return Err(Error::Config(format!(
                "type_order must have each number from 0 to {} once",
                numbers.len() - 1
            )));
        }
        at_least_one("biaffine_width", self.biaffine_width)?;
        at_most("offsets", self.offsets, MOST_OFFSETS)?;
        at_most("convolutions", self.convolutions, MOST_LAYERS)?;
        at_most("lstm_width", self.lstm_width, MOST_WIDTH)?;
        at_most("region_width", self.region_width, MOST_WIDTH)?;
        at_most("distance_width", self.distance_width, MOST_WIDTH)?;
        at_most("biaffine_width", self.biaffine_width, MOST_WIDTH)?;
        below_one("lstm_dropout", self.lstm_dropout)?;
        below_one("biaffine_dropout", self.biaffine_dropout)?;
        below_one("convolution_dropout", self.convolution_dropout)?;
        finite("none_bias", self.none_bias)?;
        below_one("initial_out", self.initial_out)?;
        not_negative("out_weight", self.out_weight)?;
        not_negative("joint_weight", self.joint_weight)?;
        below_one("smoothing", self.smoothing)
    }

    fn resolve_overlaps(&mut self, corpus: Overlaps) {
        self.overlaps = self.overlaps.or(corpus);
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
        let released = read("preset = \"released\"\noffsets = 1\nresidual = false").unwrap();
        assert_eq!(
            released,
            Config {
                offsets: 1,
                residual: false,
                ..Config::of(Preset::Released)
            }
        );
        let written = toml::to_string(&released).unwrap();
        assert_eq!(read(&written).unwrap(), released);
        let problem = read("offset = 1").unwrap_err().to_string();
        assert!(problem.contains("unknown field `offset`"), "{problem}");
        assert!(read("preset = \"other\"").is_err());
        for wrong in [
            "lstm_width = 7",
            "smoothing = 1.0",
            "lstm_dropout = -0.1",
            "type_order = [0, 2]",
            "type_order = [0, 0]",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn types_have_an_order_of_their_own() {
        let config = Config {
            type_order: vec![2, 0, 1],
            ..Config::of(Preset::Released)
        };
        config.check().unwrap();
        for index in 0..3 {
            assert_eq!(config.index_of(config.type_at(index, 3), 3), index);
            // An order of another number of types is not used.
            assert_eq!(
                (config.type_at(index, 4), config.index_of(index, 4)),
                (index, index)
            );
        }
        assert_eq!(config.type_at(0, 3), 2);
    }
}
