//! The knobs of BOPN. Two presets fill what a recipe leaves out.

use serde::{Deserialize, Serialize};

pub use crate::heads::preset::Preset;
use crate::heads::preset::with_presets;

/// Which boundaries have offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Start and end.
    #[default]
    Both,
    /// Only the start.
    Start,
    /// Only the end.
    End,
    /// Neither: every cell is an entity or nothing.
    None,
}

/// Which spans beside an entity are given an offset to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Labelling {
    /// Every span whose two borders are within reach of its nearest entity.
    Nearest,
    /// Only spans that share the other border with the entity.
    Shared,
}

/// How mentions are read from the grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decoding {
    /// Centre spans only.
    Centre,
    /// Centre spans, and what offsets point to when they pass the paper's two rules.
    Rules,
    /// Centre spans, and whatever any offset points to: the most recall, the least precision.
    All,
    /// Centre spans, and what as many start offsets, or as many end offsets, point to as the largest offset is.
    Votes,
}

/// Every knob of BOPN. Where the paper and the authors' program differ, `preset` chooses and the knob overrides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct Config {
    /// `paper` or `released`: where the defaults of the knobs below come from.
    pub preset: Preset,
    /// Largest offset S, 0 to 3 in the paper; 0 leaves offsets out.
    pub offsets: usize,
    /// `both`, `start`, `end` or `none`: which boundaries have offsets.
    pub mode: Mode,
    /// Encode the types with the sentence. Otherwise the scorer has a learned vector for each.
    pub type_input: bool,
    /// Width of the BiLSTM's states, both directions together.
    pub lstm_width: usize,
    /// Dropout before the BiLSTM.
    pub lstm_dropout: f64,
    /// Width of the region embedding; 0 leaves it out.
    pub region_width: usize,
    /// A third region for cells beyond a sentence's end (released). It matters only without `mask_convolution`.
    pub padding_region: bool,
    /// Width of the embedding of the distance between the borders; 0 leaves it out (paper), 20 (released).
    pub distance_width: usize,
    /// Width inside the biaffine scorer.
    pub biaffine_width: usize,
    /// Dropout before its feed-forward layers: 0.2 (paper), 0.33 (released).
    pub biaffine_dropout: f64,
    /// Add a score from the type's vector normalised under the span (released).
    pub type_norm: bool,
    /// Number of 3-D convolutions, with dilation 1, 2, 3: three (paper), two (released); 0 leaves them out.
    pub convolutions: usize,
    /// Each offset label is convolved by itself (released), or all together (paper).
    pub depthwise: bool,
    /// Each convolution reads the one before it (released), or all read the scores (paper).
    pub chained: bool,
    /// Mix the labels of each cell before the first convolution (released).
    pub pointwise: bool,
    /// Probability of blanking a label's whole plane before the convolutions: 0.2 (released).
    pub convolution_dropout: f64,
    /// Add the scores to what the convolutions make of them (released).
    pub residual: bool,
    /// Blank cells beyond a sentence's end before each convolution, so that padding changes nothing. The authors'
    /// program does not; turn it off only to compare with it.
    pub mask_convolution: bool,
    /// `nearest` (paper) or `shared` (released): which spans beside an entity are labelled.
    pub labels: Labelling,
    /// Label the cells below the diagonal like their mirror images (released).
    pub mirror: bool,
    /// Label smoothing: 0 (paper), 0.01 (released).
    pub smoothing: f64,
    /// `rules` (paper), `votes` (released), `centre` or `all`: how mentions are read.
    pub decode: Decoding,
}

impl Config {
    /// The defaults of a preset.
    pub fn of(preset: Preset) -> Self {
        let released = preset == Preset::Released;
        Self {
            preset,
            offsets: 2,
            mode: Mode::Both,
            type_input: true,
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
        }
    }
}

impl Config {
    fn checked(self) -> Result<Self, String> {
        if self.lstm_width == 0 || !self.lstm_width.is_multiple_of(2) || self.biaffine_width == 0 {
            return Err("lstm_width is even, for two directions, and no width is 0".into());
        }
        let shares = [
            ("lstm_dropout", self.lstm_dropout),
            ("biaffine_dropout", self.biaffine_dropout),
            ("convolution_dropout", self.convolution_dropout),
            ("smoothing", self.smoothing),
        ];
        match shares.iter().find(|(_, share)| !(0.0..1.0).contains(share)) {
            Some((name, share)) => Err(format!("{name} = {share} is not in 0..1")),
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
        for wrong in ["lstm_width = 7", "smoothing = 1.0", "lstm_dropout = -0.1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
