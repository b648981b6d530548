//! Settings of an encoder, as saved in a model's `config.json`.

use std::sync::Arc;

use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use super::Encoder;
use super::batching::{PieceBatcher, RowLayout};
use super::features::FeatureConfig;
use super::pooling::{LayerPooling, Pooling};
use super::tokenizer::WordTokenizer;
use super::transformer::{Activation, EncoderFamily, Layout, TransformerConfig};
use super::vocabulary::FeatureLookup;

/// Sizes of an encoder trained from scratch: `[encoder.scratch]` of a recipe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ScratchConfig {
    /// Size of the WordPiece vocabulary trained on the corpus.
    pub vocabulary: usize,
    /// Lower-case all words before splitting them into pieces.
    pub lowercase: bool,
    /// Number of transformer layers.
    pub layers: usize,
    /// Width of the hidden states.
    pub width: usize,
    /// Number of attention heads.
    pub heads: usize,
    /// Width of the feed-forward sub-layer.
    pub feed_forward: usize,
    /// Largest number of pieces in a window.
    pub positions: usize,
    /// Dropout inside the transformer.
    pub dropout: f64,
}

impl Default for ScratchConfig {
    fn default() -> Self {
        Self {
            vocabulary: 4000,
            lowercase: false,
            layers: 2,
            width: 128,
            heads: 4,
            feed_forward: 256,
            positions: 256,
            dropout: 0.1,
        }
    }
}

impl ScratchConfig {
    /// The transformer of these sizes, for a vocabulary of `vocabulary` pieces.
    pub fn transformer(&self, vocabulary: usize) -> TransformerConfig {
        TransformerConfig {
            family: EncoderFamily::Bert,
            vocabulary,
            embedding_width: self.width,
            width: self.width,
            layers: self.layers,
            heads: self.heads,
            feed_forward: self.feed_forward,
            positions: self.positions,
            token_types: 0,
            padding: 0,
            norm_epsilon: 1e-12,
            dropout: self.dropout,
            attention_dropout: self.dropout,
            activation: Activation::Gelu,
            layout: Layout::Bert,
        }
    }
}

/// All settings of an encoder that its computation depends on; saved with the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EncoderConfig {
    /// Sizes of the transformer.
    pub transformer: TransformerConfig,
    /// How the states of a word's pieces become the word's state.
    pub pooling: Pooling,
    /// Which layers a piece's state is taken from.
    pub layers: LayerPooling,
    /// Number of pieces that neighbouring windows of a long sentence share.
    pub overlap: usize,
    /// Number of neighbouring sentences read with each one, on each side.
    #[serde(default)]
    pub context: usize,
    /// Where the special pieces of a row are.
    #[serde(default, skip_serializing_if = "RowLayout::is_standard")]
    pub rows: RowLayout,
    /// Word features that are joined with the transformer's states.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<FeatureConfig>,
}

/// Largest number of neighbouring sentences that can be read with each one, on each side.
pub const MOST_CONTEXT: usize = 1_000;

/// Largest overlap of windows, in pieces.
pub const MOST_OVERLAP: usize = 1_000_000;

impl EncoderConfig {
    /// Fails, with the reason, if a setting is out of range.
    pub fn check(&self) -> Result<(), String> {
        self.transformer
            .check()
            .map_err(|problem| problem.to_string())?;
        if self.context > MOST_CONTEXT {
            return Err(format!(
                "context = {} must be at most {MOST_CONTEXT}",
                self.context
            ));
        }
        if self.overlap > MOST_OVERLAP {
            return Err(format!(
                "overlap = {} must be at most {MOST_OVERLAP}",
                self.overlap
            ));
        }
        match &self.features {
            Some(features) => (features.check(self.width())).map_err(|problem| problem.to_string()),
            None => Ok(()),
        }
    }

    /// Creates an encoder with random weights.
    pub fn init(&self, device: &Device) -> Encoder {
        let width = self.transformer.width;
        Encoder {
            transformer: self.transformer.init(device),
            features: (self.features.as_ref()).map(|features| features.init(width, device)),
            pooling: self.pooling,
            layers: self.layers,
        }
    }

    /// Width of a word's state.
    pub fn width(&self) -> usize {
        self.transformer.width
    }

    /// Creates the batcher for this encoder; `prompts` is the number of vectors that the head puts before each row.
    pub fn batcher(&self, tokenizer: Arc<WordTokenizer>, prompts: usize) -> PieceBatcher {
        PieceBatcher {
            tokenizer,
            features: self.feature_lookup().map(Arc::new),
            window: self.transformer.window().saturating_sub(prompts),
            overlap: self.overlap,
            has_context: self.context > 0,
            layout: self.rows,
        }
    }

    /// The table in which batches look up word features; none if the encoder has no features.
    pub fn feature_lookup(&self) -> Option<FeatureLookup> {
        let features = self.features.as_ref()?;
        Some(FeatureLookup::new(
            &features.vocabulary,
            features.character_width > 0,
        ))
    }
}
