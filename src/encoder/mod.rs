//! From a sentence to one state a word: pretrained or fresh transformers, word pieces, pooling, long texts.

pub mod batch;
mod encoded;
pub mod features;
pub mod load;
pub mod pieces;
pub mod transformer;
pub mod vectors;
pub mod vocabulary;
pub mod window;

use burn::module::Module;
use burn::tensor::{Bool, Device, Tensor, TensorData};
use serde::{Deserialize, Serialize};

use batch::PieceBatch;
use features::{FeatureConfig, Features};
use transformer::{Activation, Family, PieceStates, Transformer, TransformerConfig};
use vocabulary::Lookup;

use crate::nn::rows::select_rows;

/// How the states of a word's pieces become the word's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pooling {
    /// The first piece's.
    First,
    /// Their mean.
    Mean,
    /// Their element-wise maximum.
    #[default]
    Max,
}

/// Which layers a piece's state is read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layers {
    /// The last one.
    #[default]
    Last,
    /// The mean of the last four.
    MeanOfLastFour,
}

/// Sizes of an encoder trained from scratch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scratch {
    /// Pieces in the WordPiece vocabulary trained on the corpus.
    pub vocabulary: usize,
    /// Lower-case everything before splitting into pieces.
    pub lowercase: bool,
    /// Transformer layers.
    pub layers: usize,
    /// Width of the states.
    pub width: usize,
    /// Attention heads.
    pub heads: usize,
    /// Width inside the feed-forward part.
    pub feed_forward: usize,
    /// Longest window in pieces.
    pub positions: usize,
    /// Dropout inside the transformer.
    pub dropout: f64,
}

impl Default for Scratch {
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

impl Scratch {
    /// The transformer these sizes describe, once the vocabulary is known.
    pub fn transformer(&self, vocabulary: usize) -> TransformerConfig {
        TransformerConfig {
            family: Family::Bert,
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
        }
    }
}

/// Everything that fixes an encoder's arithmetic; saved with the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EncoderConfig {
    /// Sizes of the transformer.
    pub transformer: TransformerConfig,
    /// Pieces to word.
    pub pooling: Pooling,
    /// Layers read.
    pub layers: Layers,
    /// Pieces that neighbouring windows of a long sentence share.
    pub overlap: usize,
    /// Sentences read with each one, on each side.
    #[serde(default)]
    pub context: usize,
    /// What a word's state holds besides the transformer's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<FeatureConfig>,
}

impl EncoderConfig {
    /// An encoder with fresh weights.
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

    /// What batches look their words up in.
    pub fn lookup(&self) -> Option<Lookup> {
        let features = self.features.as_ref()?;
        Some(Lookup::new(
            &features.vocabulary,
            features.character_width > 0,
        ))
    }
}

/// Words in, states out.
#[derive(Module, Debug)]
pub struct Encoder {
    /// The transformer under it.
    pub transformer: Transformer,
    /// What is joined with its states.
    pub features: Option<Features>,
    #[module(skip)]
    pooling: Pooling,
    #[module(skip)]
    layers: Layers,
}

/// What a head sees of a batch.
#[derive(Debug, Clone)]
pub struct WordStates {
    /// One state a word: [batch, words, width]. Padding words hold something finite but meaningless.
    pub words: Tensor<3>,
    /// The state of each sentence's first special piece: [batch, width].
    pub sentence: Tensor<2>,
    /// The states of the head's own vectors, encoded with each sentence: [batch, prompts, width]. A sentence of
    /// several windows has those of its first.
    pub prompts: Option<Tensor<3>>,
    /// Real words of each sentence.
    pub lengths: Vec<usize>,
}

impl WordStates {
    /// True on real words: [batch, words].
    pub fn mask(&self) -> Tensor<2, Bool> {
        let [batch, words, _] = self.words.dims();
        let mask: Vec<bool> = self
            .lengths
            .iter()
            .flat_map(|length| (0..words).map(move |word| word < *length))
            .collect();
        Tensor::from_data(TensorData::new(mask, [batch, words]), &self.words.device())
    }
}

impl Encoder {
    /// One state a piece: [rows, pieces, width]. Padding repeats its row's first.
    pub fn piece_states(&self, batch: &PieceBatch) -> Tensor<3> {
        let pieces = self.prompted_states(batch, None);
        let places: Vec<usize> = (0..batch.ids.len())
            .map(|place| (place / batch.width, place % batch.width))
            .map(|(row, column)| {
                if column < batch.row_lengths[row] {
                    pieces.piece(row, column)
                } else {
                    pieces.piece(row, 0)
                }
            })
            .collect();
        let width = pieces.states.dims()[1];
        select_rows(pieces.states, places).reshape([batch.row_lengths.len(), batch.width, width])
    }

    fn prompted_states(&self, batch: &PieceBatch, prompt: Option<Tensor<2>>) -> PieceStates {
        let average = match self.layers {
            Layers::Last => 1,
            Layers::MeanOfLastFour => 4,
        };
        self.transformer
            .forward(&batch.ids, &batch.row_lengths, prompt, average)
    }

    /// One state a word.
    pub fn forward(&self, batch: &PieceBatch) -> WordStates {
        self.forward_with(batch, None)
    }

    /// One state a word, with a head's own vectors ([prompts, embedding width]) encoded before each row.
    pub fn forward_with(&self, batch: &PieceBatch, prompt: Option<Tensor<2>>) -> WordStates {
        self.with_features(self.transformed(batch, prompt), batch)
    }

    /// The transformer's states with the features of the words, when the encoder has them.
    pub fn with_features(&self, states: WordStates, batch: &PieceBatch) -> WordStates {
        let Some(features) = &self.features else {
            return states;
        };
        let known = batch.features.as_ref();
        let known = known.expect("a batch for an encoder with features has them");
        WordStates {
            words: features.forward(states.words, known, &states.lengths),
            ..states
        }
    }

    /// What the transformer alone says of each word.
    pub fn transformed(&self, batch: &PieceBatch, prompt: Option<Tensor<2>>) -> WordStates {
        let count = prompt.as_ref().map_or(0, |prompt| prompt.dims()[0]);
        let pieces = self.prompted_states(batch, prompt);
        let width = pieces.states.dims()[1];
        let rows = &batch.sentence_rows;
        let select = |places: Vec<usize>| select_rows(pieces.states.clone(), places);
        let prompts = (count > 0).then(|| {
            let each = rows.iter();
            let places = each.flat_map(|row| (0..count).map(|index| pieces.prompt(*row, index)));
            select(places.collect()).reshape([rows.len(), count, width])
        });
        WordStates {
            sentence: select(rows.iter().map(|row| pieces.piece(*row, 0)).collect()),
            words: self
                .pool(&pieces, batch)
                .reshape([batch.len(), batch.words, width]),
            prompts,
            lengths: batch.lengths.clone(),
        }
    }

    /// States of pieces to [batch · words, width]. Most words are one piece and only looked up; the others
    /// are pooled apart, appended, and looked up there.
    fn pool(&self, pieces: &PieceStates, batch: &PieceBatch) -> Tensor<2> {
        let states = pieces.states.clone();
        let firsts: Vec<usize> = (batch.first_piece.iter())
            .map(|place| pieces.piece(place / batch.width, place % batch.width))
            .collect();
        let longest = batch.piece_count.iter().copied().max().unwrap_or(1);
        if self.pooling == Pooling::First || longest == 1 {
            return select_rows(states, firsts);
        }
        let [total, width] = states.dims();
        let mut split = Vec::new(); // places of all pieces of split words, short ones repeating their last
        let mut weights = Vec::new();
        let mut source = firsts.clone();
        for (word, count) in batch.piece_count.iter().copied().enumerate() {
            if count == 1 {
                continue;
            }
            source[word] = total + split.len() / longest;
            for piece in 0..longest {
                split.push(firsts[word] + piece.min(count - 1));
                weights.push(if piece < count {
                    1.0 / count as f32
                } else {
                    0.0
                });
            }
        }
        let words = split.len() / longest;
        let pieces = select_rows(states.clone(), split).reshape([words, longest, width]);
        let pooled: Tensor<3> = match self.pooling {
            Pooling::Max => pieces.max_dim(1),
            _ => {
                let weights = Tensor::<1>::from_floats(weights.as_slice(), &pieces.device());
                (pieces * weights.reshape([words, longest, 1])).sum_dim(1)
            }
        };
        let all = Tensor::cat(vec![states, pooled.reshape([words, width])], 0);
        select_rows(all, source)
    }
}
