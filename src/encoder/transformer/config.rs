//! Sizes of a transformer, and its creation with random weights.

use burn::module::Initializer;
use burn::nn::conv::Conv1dConfig;
use burn::nn::{DropoutConfig, EmbeddingConfig, LayerNormConfig, LinearConfig, PaddingConfig1d};
use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use super::convolution::Convolution;
use super::layer::EncoderLayer;
use super::layout::{DebertaConvolution, DebertaLayout, Layout, ModernbertLayout};
use super::relative::DisentangledAttention;
use super::rotary_attention::RotaryAttention;
use super::{Execution, Transformer};
pub use crate::nn::activation::Activation;

/// Family of a pretrained encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EncoderFamily {
    /// BERT and models with its layout.
    Bert,
    /// RoBERTa: positions start after the padding id.
    Roberta,
    /// ELECTRA: embeddings may be narrower than the layers.
    Electra,
    /// DistilBERT: no token types, other parameter names.
    DistilBert,
    /// ALBERT: layers share weights.
    Albert,
    /// MPNet: relative positions as a bias of the attention; positions start after the padding id.
    Mpnet,
    /// DeBERTa, versions 2 and 3: disentangled attention.
    Deberta,
    /// ModernBERT: rotary positions and local attention.
    Modernbert,
}

/// Sizes of a transformer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransformerConfig {
    /// Family of the encoder.
    pub family: EncoderFamily,
    /// Number of rows of the word-piece embedding.
    pub vocabulary: usize,
    /// Width of the embeddings; a projection follows when it differs from `width`, and in ALBERT.
    pub embedding_width: usize,
    /// Width of the layers.
    pub width: usize,
    /// Number of layers; those that share weights count as several.
    pub layers: usize,
    /// Number of attention heads.
    pub heads: usize,
    /// Width of the feed-forward sub-layer.
    pub feed_forward: usize,
    /// Number of rows of the position embedding; without one, the largest number of pieces in a window.
    pub positions: usize,
    /// Number of rows of the token-type embedding; 0 for none.
    pub token_types: usize,
    /// Id of the padding piece.
    pub padding: usize,
    /// Epsilon of the layer norms.
    pub norm_epsilon: f64,
    /// Dropout after embeddings and sub-layers.
    pub dropout: f64,
    /// Dropout on attention weights.
    pub attention_dropout: f64,
    /// Activation of the feed-forward sub-layer.
    pub activation: Activation,
    /// The structure of the layers.
    #[serde(default, skip_serializing_if = "Layout::is_bert")]
    pub layout: Layout,
}

impl TransformerConfig {
    /// Row of the position embedding for a window's first piece.
    fn first_position(&self) -> usize {
        match self.family {
            EncoderFamily::Roberta | EncoderFamily::Mpnet => self.padding + 1,
            _ => 0,
        }
    }

    /// The layer that makes each hidden state from the one before, as an index of the transformer's layers. Families that
    /// share weights use a layer several times.
    pub fn order(&self) -> Vec<usize> {
        match &self.layout {
            Layout::Albert(layout) => layout.order(self.layers),
            _ => (0..self.layers).collect(),
        }
    }

    /// Number of layers with weights of their own.
    fn distinct_layers(&self) -> usize {
        match &self.layout {
            Layout::Albert(layout) => layout.distinct_layers(),
            _ => self.layers,
        }
    }

    /// Whether a projection follows the embeddings; ALBERT has one even between equal widths.
    fn has_projection(&self) -> bool {
        self.embedding_width != self.width || matches!(self.layout, Layout::Albert(_))
    }

    /// Largest number of pieces in a window, special ones included.
    pub fn window(&self) -> usize {
        self.positions.saturating_sub(self.first_position())
    }

    /// Rows and columns of the table of relative positions.
    fn relative_table(&self) -> Option<[usize; 2]> {
        match &self.layout {
            Layout::Mpnet(layout) => Some([layout.buckets, self.heads]),
            Layout::Deberta(layout) if layout.relative => Some([2 * layout.span(), self.width]),
            _ => None,
        }
    }

    /// Sets the probability of dropout everywhere.
    pub fn set_dropout(&mut self, probability: f64) {
        self.dropout = probability;
        self.attention_dropout = probability;
        if let Layout::Modernbert(layout) = &mut self.layout {
            layout.feed_forward_dropout = probability;
        }
    }

    /// Creates a transformer with random weights.
    pub fn init(&self, device: &Device) -> Transformer {
        if let Layout::Modernbert(layout) = &self.layout {
            return self.init_pre_norm(layout, device);
        }
        let normal = Initializer::Normal {
            mean: 0.0,
            std: 0.02,
        };
        let table = |rows, width| {
            EmbeddingConfig::new(rows, width)
                .with_initializer(normal.clone())
                .init(device)
        };
        let embedding = |rows| table(rows, self.embedding_width);
        let linear = |from, to| {
            LinearConfig::new(from, to)
                .with_initializer(normal.clone())
                .init(device)
        };
        let norm = |width| {
            LayerNormConfig::new(width)
                .with_epsilon(self.norm_epsilon)
                .init(device)
        };
        let deberta = match &self.layout {
            Layout::Deberta(layout) => Some(layout),
            _ => None,
        };
        let disentangled = |layout: &DebertaLayout| {
            let own = |is_used: bool| {
                (is_used && !layout.shared_key).then(|| linear(self.width, self.width))
            };
            DisentangledAttention {
                key: own(layout.content_to_position),
                query: own(layout.position_to_content),
                content_to_position: layout.content_to_position,
                position_to_content: layout.position_to_content,
            }
        };
        let convolution = |layout: &DebertaConvolution| Convolution {
            convolution: Conv1dConfig::new(self.width, self.width, layout.kernel)
                .with_groups(layout.groups)
                .with_padding(PaddingConfig1d::Same)
                .init(device),
            norm: norm(self.width),
            dropout: DropoutConfig::new(self.dropout).init(),
            activation: layout.activation,
        };
        let layer = || EncoderLayer {
            query: linear(self.width, self.width),
            key: linear(self.width, self.width),
            value: linear(self.width, self.width),
            attention_output: linear(self.width, self.width),
            attention_norm: Some(norm(self.width)),
            feed_forward_inner: linear(self.width, self.feed_forward),
            feed_forward_gate: None,
            feed_forward_outer: linear(self.feed_forward, self.width),
            feed_forward_norm: norm(self.width),
            disentangled: (deberta.filter(|layout| layout.relative)).map(disentangled),
            dropout: DropoutConfig::new(self.dropout).init(),
            attention_dropout: DropoutConfig::new(self.attention_dropout).init(),
            heads: self.heads,
            score_terms: deberta.map_or(1, DebertaLayout::score_terms),
            activation: self.activation,
            norm_epsilon: self.norm_epsilon as f32,
            rotary: None,
            int8: None,
        };
        Transformer {
            word_embeddings: embedding(self.vocabulary),
            position_embeddings: (self.layout.has_position_embedding())
                .then(|| embedding(self.positions)),
            token_type_embeddings: (self.token_types > 0).then(|| embedding(self.token_types)),
            embedding_norm: norm(match deberta {
                Some(_) => self.width,
                None => self.embedding_width,
            }),
            projection: self.has_projection().then(|| {
                LinearConfig::new(self.embedding_width, self.width)
                    .with_initializer(normal.clone())
                    .with_bias(deberta.is_none())
                    .init(device)
            }),
            relative_embeddings: self
                .relative_table()
                .map(|[rows, width]| table(rows, width)),
            relative_norm: (deberta.is_some_and(|layout| layout.normalised))
                .then(|| norm(self.width)),
            convolution: deberta.and_then(|layout| layout.convolution.as_ref().map(convolution)),
            dropout: DropoutConfig::new(self.dropout).init(),
            layers: (0..self.distinct_layers()).map(|_| layer()).collect(),
            final_norm: None,
            order: self.order(),
            layout: self.layout.clone(),
            first_position: self.first_position(),
            norm_epsilon: self.norm_epsilon as f32,
            int8: None,
            execution: Execution::default(),
        }
    }

    /// Creates a transformer of ModernBERT's layout with random weights.
    fn init_pre_norm(&self, layout: &ModernbertLayout, device: &Device) -> Transformer {
        let normal = |std| Initializer::Normal { mean: 0.0, std };
        // The last projection of each sub-layer adds to the residual; its variance grows with the number of layers.
        let (std, last) = (0.02, 0.02 / (2.0 * self.layers.max(1) as f64).sqrt());
        let linear = |from, to, std, bias| {
            let config = LinearConfig::new(from, to).with_initializer(normal(std));
            config.with_bias(bias).init(device)
        };
        let norm = || {
            LayerNormConfig::new(self.width)
                .with_epsilon(self.norm_epsilon)
                .with_bias(layout.norm_bias)
                .init(device)
        };
        let (width, inner) = (self.width, self.feed_forward);
        let attention = |std| linear(width, width, std, layout.attention_bias);
        let layer = |index: usize| EncoderLayer {
            query: attention(std),
            key: attention(std),
            value: attention(std),
            attention_output: attention(last),
            // The embeddings are normalised.
            attention_norm: (index > 0).then(norm),
            feed_forward_inner: linear(width, inner, std, layout.feed_forward_bias),
            feed_forward_gate: Some(linear(width, inner, std, layout.feed_forward_bias)),
            feed_forward_outer: linear(inner, width, last, layout.feed_forward_bias),
            feed_forward_norm: norm(),
            disentangled: None,
            dropout: DropoutConfig::new(layout.feed_forward_dropout).init(),
            attention_dropout: DropoutConfig::new(self.attention_dropout).init(),
            heads: self.heads,
            score_terms: 1,
            activation: self.activation,
            norm_epsilon: self.norm_epsilon as f32,
            rotary: Some(layout.attention(index)),
            int8: None,
        };
        Transformer {
            word_embeddings: EmbeddingConfig::new(self.vocabulary, width)
                .with_initializer(normal(std))
                .init(device),
            position_embeddings: None,
            token_type_embeddings: None,
            embedding_norm: norm(),
            projection: None,
            relative_embeddings: None,
            relative_norm: None,
            convolution: None,
            dropout: DropoutConfig::new(self.dropout).init(),
            layers: (0..self.layers).map(layer).collect(),
            final_norm: Some(norm()),
            order: self.order(),
            layout: self.layout.clone(),
            first_position: 0,
            norm_epsilon: self.norm_epsilon as f32,
            int8: None,
            execution: Execution::default(),
        }
    }
}

impl ModernbertLayout {
    /// Positions and reach of the attention of a layer.
    fn attention(&self, layer: usize) -> RotaryAttention {
        if self.is_global.get(layer).copied().unwrap_or(true) {
            RotaryAttention {
                theta: self.global_theta,
                reach: None,
            }
        } else {
            RotaryAttention {
                theta: self.local_theta,
                reach: Some(self.local_window / 2),
            }
        }
    }
}
