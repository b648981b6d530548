//! What a word's state can hold besides the transformer's: a frozen word vector, an embedding of its part of speech, and
//! its characters read by a BiLSTM; a BiLSTM over all of it comes last. Any head can have any of these; the state is as
//! wide as the transformer's in every case.

use burn::module::{Initializer, Module, Param};
use burn::nn::{Dropout, DropoutConfig, Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::tensor::{Device, Int, Tensor, TensorData};
use serde::{Deserialize, Serialize};

use super::vocabulary::{CHARACTERS, FeatureBatch, Vocabulary};
use crate::error::{Error, Result};
use crate::nn::bilstm::BiLstm;
use crate::nn::rows::select_rows;

/// What the last BiLSTM reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Over {
    /// The transformer's states and the features.
    #[default]
    All,
    /// The features only; the transformer's states are joined with what comes out.
    Features,
}

/// `[encoder.features]` of a recipe. All are off by default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FeatureChoice {
    /// Frozen word vectors in the GloVe text format: a file, a folder or a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub word_vectors: Option<String>,
    /// Embed each word's part of speech, when the corpus has it.
    pub pos: bool,
    /// Width of that embedding.
    pub pos_width: usize,
    /// Tags that occur less often in training are unknown ones.
    pub pos_at_least: usize,
    /// Read each word's characters with a BiLSTM; their mean counts.
    pub characters: bool,
    /// Width of what it makes of them, both directions together; a character's embedding has half of it.
    pub character_width: usize,
    /// Dropout on word vectors and on the embeddings of tags and characters.
    pub dropout: f64,
    /// A BiLSTM over the words. Without it a linear layer brings states and features together.
    pub lstm: bool,
    /// Its layers.
    pub lstm_layers: usize,
    /// `all` or `features`: what it reads.
    pub lstm_over: Over,
    /// Dropout between its layers.
    pub lstm_dropout: f64,
}

impl Default for FeatureChoice {
    fn default() -> Self {
        Self {
            word_vectors: None,
            pos: false,
            pos_width: 50,
            pos_at_least: 1,
            characters: false,
            character_width: 50,
            dropout: 0.0,
            lstm: false,
            lstm_layers: 1,
            lstm_over: Over::All,
            lstm_dropout: 0.0,
        }
    }
}

impl FeatureChoice {
    /// True when any is wanted.
    pub fn any(&self) -> bool {
        self.word_vectors.is_some() || self.pos || self.characters || self.lstm
    }

    /// Says what is wrong with the knobs.
    pub fn check(&self) -> Result<()> {
        let fail = |problem: &str| Err(Error::Config(format!("[encoder.features] {problem}")));
        for dropout in [self.dropout, self.lstm_dropout] {
            if !(0.0..1.0).contains(&dropout) {
                return fail("dropout and lstm_dropout lie from 0 to below 1");
            }
        }
        if self.characters && (self.character_width == 0 || !self.character_width.is_multiple_of(2))
        {
            return fail("character_width is even, for two directions, and not 0");
        }
        if (self.pos && self.pos_width == 0) || (self.lstm && self.lstm_layers == 0) {
            return fail("pos_width and lstm_layers are at least 1");
        }
        if self.lstm_over == Over::Features && !self.lstm {
            return fail("lstm_over = \"features\" needs lstm = true");
        }
        Ok(())
    }
}

/// Everything that fixes the features of a model; saved with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeatureConfig {
    /// What is known by name.
    pub vocabulary: Vocabulary,
    /// Width of the word vectors; 0 without them.
    pub vector_width: usize,
    /// Width of the part of speech; 0 without it.
    pub pos_width: usize,
    /// Width of the characters; 0 without them.
    pub character_width: usize,
    /// Dropout on the three.
    pub dropout: f64,
    /// Layers of the BiLSTM; 0 without it.
    pub lstm_layers: usize,
    /// What it reads.
    pub lstm_over: Over,
    /// Dropout between its layers.
    pub lstm_dropout: f64,
}

impl FeatureConfig {
    /// Width of all features together.
    fn width(&self) -> usize {
        self.vector_width + self.pos_width + self.character_width
    }

    /// Says what no model can have, given the transformer's width.
    pub fn check(&self, width: usize) -> Result<()> {
        if self.lstm_over == Over::Features && self.width() == 0 {
            return Err(Error::Config(
                "[encoder.features] lstm_over = \"features\" needs word_vectors, pos (and a corpus that has it) or \
                 characters"
                    .into(),
            ));
        }
        if self.lstm_layers > 0 && !width.is_multiple_of(2) {
            return Err(Error::Config(format!(
                "[encoder.features] lstm halves the encoder's width, which is {width}: it has to be even"
            )));
        }
        Ok(())
    }

    /// Features with fresh weights, for states of the transformer's width.
    pub fn init(&self, width: usize, device: &Device) -> Features {
        let joined = width + self.width();
        // Each direction of the BiLSTM, and what its first layer reads.
        let (first, hidden) = match self.lstm_over {
            Over::All => (joined, width / 2),
            Over::Features => (self.width(), self.width()),
        };
        let lstm = (0..self.lstm_layers)
            .map(|layer| {
                let input = if layer == 0 { first } else { 2 * hidden };
                BiLstm::new(input, hidden, device)
            })
            .collect();
        let projected = match (self.lstm_layers, self.lstm_over) {
            (0, _) => Some(joined),
            (_, Over::All) => None,
            (_, Over::Features) => Some(width + 2 * hidden),
        };
        let even = Initializer::Uniform { min: 0.0, max: 1.0 };
        let rows = 1 + self.vocabulary.words.len();
        Features {
            word_vectors: (self.vector_width > 0).then(|| {
                let table: Param<Tensor<2>> = even.init([rows, self.vector_width], device);
                table.set_require_grad(false)
            }),
            pos: (self.pos_width > 0).then(|| {
                EmbeddingConfig::new(1 + self.vocabulary.tags.len(), self.pos_width).init(device)
            }),
            characters: (self.character_width > 0)
                .then(|| Characters::new(self.character_width / 2, device)),
            lstm,
            projection: projected.map(|input| LinearConfig::new(input, width).init(device)),
            dropout: DropoutConfig::new(self.dropout).init(),
            lstm_dropout: DropoutConfig::new(self.lstm_dropout).init(),
            over: self.lstm_over,
        }
    }
}

/// The layers of the features.
#[derive(Module, Debug)]
pub struct Features {
    /// A vector for each known word, the first for all others: [1 + words, vector width]. It is never trained.
    pub word_vectors: Option<Param<Tensor<2>>>,
    /// One row a tag, the first for unknown ones.
    pub pos: Option<Embedding>,
    /// Characters to a vector for their word.
    pub characters: Option<Characters>,
    /// Over the words of a sentence.
    pub lstm: Vec<BiLstm>,
    /// Back to the transformer's width where the BiLSTM does not do it.
    pub projection: Option<Linear>,
    dropout: Dropout,
    lstm_dropout: Dropout,
    #[module(skip)]
    over: Over,
}

impl Features {
    /// Puts vectors of the vocabulary's words into the table; the first row, for all others, stays.
    pub fn set_vectors(&mut self, vectors: &[f32]) {
        if let Some(table) = self.word_vectors.take() {
            let [rows, width] = table.dims();
            let shape = [rows - 1, width];
            let data = TensorData::new(vectors.to_vec(), shape);
            let first = table.val().detach().narrow(0, 0, 1);
            let rest = Tensor::<2>::from_data(data, &first.device());
            let whole = Param::initialized(table.id, Tensor::cat(vec![first, rest], 0));
            self.word_vectors = Some(whole.set_require_grad(false));
        }
    }

    /// What the BiLSTM reads, or the linear layer: the transformer's states, then part of speech, word vector and
    /// characters: [batch, words, width + features].
    pub fn joined(&self, words: Tensor<3>, batch: &FeatureBatch) -> Tensor<3> {
        let mut parts = vec![words.clone()];
        parts.extend(self.parts(words.dims(), batch, &words.device()));
        Tensor::cat(parts, 2)
    }

    /// The states of the words, as wide as they came: [batch, words, width].
    pub fn forward(&self, words: Tensor<3>, batch: &FeatureBatch, lengths: &[usize]) -> Tensor<3> {
        let joined = match self.over {
            Over::All => self.read(self.joined(words, batch), lengths),
            Over::Features => {
                let parts = self.parts(words.dims(), batch, &words.device());
                let features = self.read(Tensor::cat(parts, 2), lengths);
                Tensor::cat(vec![words, features], 2)
            }
        };
        match &self.projection {
            Some(projection) => projection.forward(joined),
            None => joined,
        }
    }

    fn read(&self, mut input: Tensor<3>, lengths: &[usize]) -> Tensor<3> {
        for (index, layer) in self.lstm.iter().enumerate() {
            if index > 0 {
                input = self.lstm_dropout.forward(input);
            }
            input = layer.forward(input, lengths);
        }
        input
    }

    fn parts(
        &self,
        [sentences, words, _]: [usize; 3],
        batch: &FeatureBatch,
        device: &Device,
    ) -> Vec<Tensor<3>> {
        let mut parts = Vec::new();
        let shaped = |rows: Tensor<2>| {
            let width = rows.dims()[1];
            rows.reshape([sentences, words, width])
        };
        if let Some(table) = &self.pos {
            let tags = Tensor::<1, Int>::from_ints(batch.tags.as_slice(), device);
            let rows = table.weight.val().select(0, tags);
            parts.push(shaped(self.dropout.forward(rows)));
        }
        if let Some(table) = &self.word_vectors {
            let vectors = Tensor::<1, Int>::from_ints(batch.vectors.as_slice(), device);
            let rows = table.val().detach().select(0, vectors);
            parts.push(shaped(self.dropout.forward(rows)));
        }
        if let Some(characters) = &self.characters {
            let rows = characters.forward(batch, &self.dropout, device);
            parts.push(shaped(select_rows(rows, batch.spellings.clone())));
        }
        parts
    }
}

/// Characters to words.
#[derive(Module, Debug)]
pub struct Characters {
    /// One row a character.
    pub embedding: Embedding,
    /// Over the characters of a word.
    pub lstm: BiLstm,
}

impl Characters {
    fn new(width: usize, device: &Device) -> Self {
        Self {
            embedding: EmbeddingConfig::new(CHARACTERS, width).init(device),
            lstm: BiLstm::new(width, width, device),
        }
    }

    /// A vector for each distinct word of a batch, the mean over its characters: [distinct, 2 · width]. A word that
    /// occurs often is read once.
    fn forward(&self, batch: &FeatureBatch, dropout: &Dropout, device: &Device) -> Tensor<2> {
        let counts = &batch.character_counts;
        let distinct = counts.len();
        let longest = batch.characters.len() / distinct;
        let width = self.embedding.weight.dims()[1];
        let letters = Tensor::<1, Int>::from_ints(batch.characters.as_slice(), device);
        let rows = self.embedding.weight.val().select(0, letters);
        let rows = dropout.forward(rows).reshape([distinct, longest, width]);
        let states = self.lstm.forward(rows, counts); // 0 past a word's end
        let shares: Vec<f32> = counts.iter().map(|count| 1.0 / *count as f32).collect();
        let shares = Tensor::<1>::from_floats(shares.as_slice(), device).reshape([distinct, 1]);
        states.sum_dim(1).reshape([distinct, 2 * width]) * shares
    }
}
