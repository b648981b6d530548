//! From the states of pieces to the states of words.

use burn::tensor::{IndexingUpdateOp, Tensor};
use serde::{Deserialize, Serialize};

use super::batching::PieceBatch;
use super::transformer::PieceStates;
use crate::nn::rows::{index_tensor, select_rows};
use crate::nn::spans::{BatchSpan, SpanMaxima};

/// How the states of a word's pieces become the word's state.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Pooling {
    /// State of the first piece.
    First,
    /// Mean over the pieces.
    Mean,
    /// Element-wise maximum over the pieces.
    #[default]
    Max,
}

/// Which layers of the transformer a piece's state is taken from.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum LayerPooling {
    /// The last layer.
    #[default]
    Last,
    /// The mean of the last four layers.
    MeanOfLastFour,
}

impl LayerPooling {
    /// Number of layers that are averaged, counted from the last.
    pub(super) fn count(self) -> usize {
        match self {
            Self::Last => 1,
            Self::MeanOfLastFour => 4,
        }
    }
}

impl Pooling {
    /// Pools the states of each word's pieces.
    ///
    /// Most words have one piece, whose state is selected. Words of several pieces are pooled together, appended to the
    /// states of the pieces, and selected from there.
    ///
    /// # Shapes
    /// - output: `[batch · words, width]`
    pub(super) fn pool(self, pieces: &PieceStates, batch: &PieceBatch) -> Tensor<2> {
        let states = pieces.states.clone();
        let first: Vec<usize> = (batch.first_piece.iter())
            .map(|index| pieces.index(*index))
            .collect();
        let longest = batch.longest_word();
        if let Some(shape) = &batch.shape {
            return self.pool_shaped(states, &first, batch, longest.max(shape.longest_word));
        }
        if self == Self::First || longest == 1 {
            return select_rows(states, first);
        }
        let [total, width] = states.dims();
        let mut split = Vec::new(); // rows of all pieces of split words; short words repeat their last piece
        let mut weights = Vec::new();
        let mut source = first.clone();
        for (word, count) in batch.piece_count.iter().copied().enumerate() {
            if count == 1 {
                continue;
            }
            source[word] = total + split.len() / longest;
            for piece in 0..longest {
                split.push(first[word] + piece.min(count - 1));
                weights.push(if piece < count {
                    1.0 / count as f32
                } else {
                    0.0
                });
            }
        }
        let words = split.len() / longest;
        let split = select_rows(states.clone(), split).reshape([words, longest, width]);
        let pooled: Tensor<3> = if self == Self::Max {
            split.max_dim(1)
        } else {
            let weights = Tensor::<1>::from_floats(weights.as_slice(), &split.device());
            (split * weights.reshape([words, longest, 1])).sum_dim(1)
        };
        let all = Tensor::cat(vec![states, pooled.reshape([words, width])], 0);
        select_rows(all, source)
    }

    /// The same with operations whose shapes do not depend on which words have several pieces, if none has more than
    /// `longest`.
    fn pool_shaped(
        self,
        states: Tensor<2>,
        first: &[usize],
        batch: &PieceBatch,
        longest: usize,
    ) -> Tensor<2> {
        let [total, width] = states.dims();
        let words = first.iter().zip(&batch.piece_count);
        match self {
            Self::First => select_rows(states, first.to_vec()),
            Self::Max => {
                // A word is a span of pieces.
                let spans: Vec<BatchSpan> = words
                    .map(|(first, count)| BatchSpan {
                        sentence: 0,
                        start: *first,
                        end: first + count,
                    })
                    .collect();
                SpanMaxima::new(states.unsqueeze(), longest).max_pool(&spans)
            }
            Self::Mean => {
                let device = states.device();
                // The word that each piece is added to, and its share in it.
                let (mut owners, mut shares) = (vec![0; total], vec![0f32; total]);
                for (word, (first, count)) in words.enumerate() {
                    if batch.lengths[word / batch.words] > word % batch.words {
                        owners[*first..first + count].fill(word);
                        shares[*first..first + count].fill(1.0 / *count as f32);
                    }
                }
                let shares = Tensor::<1>::from_floats(shares.as_slice(), &device);
                Tensor::<2>::zeros([first.len(), width], &device).select_assign(
                    0,
                    index_tensor(&owners, &device),
                    states * shares.reshape([total, 1]),
                    IndexingUpdateOp::Add,
                )
            }
        }
    }
}
