//! Word features that can be joined with the transformer's states: a frozen word vector, an embedding of the part of
//! speech, and a BiLSTM over the characters; with an optional BiLSTM over the words after them. The output is as wide as
//! the transformer's states, so features work with every head.

use burn::module::{Initializer, Module, Param};
use burn::nn::{Dropout, DropoutConfig, Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::tensor::{Device, Int, Tensor, TensorData};
use serde::{Deserialize, Serialize};

use super::vocabulary::{CHARACTERS, FeatureBatch, FeatureVocabulary};
use crate::error::{Error, Result};
use crate::nn::bilstm::BiLstm;
use crate::nn::rows::select_rows;

/// Largest width of an embedding, and largest number of layers.
const MOST_WIDTH: usize = 65_536;
const MOST_LAYERS: usize = 100;

/// Input of the BiLSTM over the words.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum LstmInput {
    /// The transformer's states and the features.
    #[default]
    All,
    /// The features only; the transformer's states are joined with the BiLSTM's output.
    Features,
}

/// `[encoder.features]` of a recipe: which word features to use. All are off by default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FeatureChoice {
    /// Frozen word vectors in the GloVe text format: a file, a folder, or a name to look up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub word_vectors: Option<String>,
    /// Embed each word's part of speech, if the corpus has it.
    pub pos: bool,
    /// Width of the part-of-speech embedding.
    pub pos_width: usize,
    /// Part-of-speech tags that occur less often in training are treated as unknown.
    pub pos_at_least: usize,
    /// Run a BiLSTM over each word's characters and take the mean of its states.
    pub characters: bool,
    /// Width of the character BiLSTM's states, both directions together; character embeddings are half as wide.
    pub character_width: usize,
    /// Dropout on word vectors and on part-of-speech and character embeddings.
    pub dropout: f64,
    /// Run a BiLSTM over the words. Without it a linear layer combines states and features.
    pub lstm: bool,
    /// Number of layers of the BiLSTM over the words.
    pub lstm_layers: usize,
    /// Input of the BiLSTM over the words: `all` (states and features) or `features`.
    pub lstm_over: LstmInput,
    /// Dropout between the layers of the BiLSTM over the words.
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
            lstm_over: LstmInput::All,
            lstm_dropout: 0.0,
        }
    }
}

impl FeatureChoice {
    /// Whether any feature is on.
    pub fn any(&self) -> bool {
        self.word_vectors.is_some() || self.pos || self.characters || self.lstm
    }

    /// Returns an error if a setting is out of range.
    pub fn check(&self) -> Result<()> {
        let fail = |problem: &str| Err(Error::Config(format!("[encoder.features] {problem}")));
        for dropout in [self.dropout, self.lstm_dropout] {
            if !(0.0..1.0).contains(&dropout) {
                return fail("dropout and lstm_dropout have to be at least 0 and less than 1");
            }
        }
        if self.characters && (self.character_width == 0 || !self.character_width.is_multiple_of(2))
        {
            return fail(
                "character_width has to be an even number greater than 0: half of it for each direction",
            );
        }
        for (name, value, most) in [
            ("pos_width", self.pos_width, MOST_WIDTH),
            ("character_width", self.character_width, MOST_WIDTH),
            ("lstm_layers", self.lstm_layers, MOST_LAYERS),
        ] {
            if value > most {
                return fail(&format!("{name} = {value} must be at most {most}"));
            }
        }
        if (self.pos && self.pos_width == 0) || (self.lstm && self.lstm_layers == 0) {
            return fail("pos_width and lstm_layers have to be at least 1");
        }
        if self.lstm_over == LstmInput::Features && !self.lstm {
            return fail("lstm_over = \"features\" needs lstm = true");
        }
        Ok(())
    }
}

/// Sizes and vocabularies of a model's word features; saved with the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeatureConfig {
    /// Words and tags that have a vector.
    pub vocabulary: FeatureVocabulary,
    /// Width of the word vectors; 0 without them.
    pub vector_width: usize,
    /// Width of the part-of-speech embedding; 0 without it.
    pub pos_width: usize,
    /// Width of the character BiLSTM's states; 0 without it.
    pub character_width: usize,
    /// Dropout on word vectors and on part-of-speech and character embeddings.
    pub dropout: f64,
    /// Number of layers of the BiLSTM over the words; 0 without it.
    pub lstm_layers: usize,
    /// Input of the BiLSTM over the words.
    pub lstm_over: LstmInput,
    /// Dropout between the layers of the BiLSTM over the words.
    pub lstm_dropout: f64,
}

impl FeatureConfig {
    /// Width of all features together.
    fn width(&self) -> usize {
        self.vector_width + self.pos_width + self.character_width
    }

    /// Returns an error if the features cannot be joined with a transformer of this width.
    pub fn check(&self, width: usize) -> Result<()> {
        for (name, value, most) in [
            ("vector_width", self.vector_width, MOST_WIDTH),
            ("pos_width", self.pos_width, MOST_WIDTH),
            ("character_width", self.character_width, MOST_WIDTH),
            ("lstm_layers", self.lstm_layers, MOST_LAYERS),
        ] {
            if value > most {
                return Err(Error::Config(format!(
                    "{name} = {value} must be at most {most}"
                )));
            }
        }
        if self.lstm_over == LstmInput::Features && self.width() == 0 {
            return Err(Error::Config(
                "[encoder.features] lstm_over = \"features\" needs a feature: word_vectors, pos (with a corpus that has \
                 parts of speech) or characters"
                    .into(),
            ));
        }
        if self.lstm_layers > 0 && !width.is_multiple_of(2) {
            return Err(Error::Config(format!(
                "[encoder.features] lstm needs an encoder of even width, half for each direction; this one's is {width}"
            )));
        }
        Ok(())
    }

    /// Creates the layers with random weights, for a transformer of this width.
    pub fn init(&self, width: usize, device: &Device) -> WordFeatures {
        let joined = width + self.width();
        // Width of the first layer's input, and of each direction.
        let (first, hidden) = match self.lstm_over {
            LstmInput::All => (joined, width / 2),
            LstmInput::Features => (self.width(), self.width()),
        };
        let lstm = (0..self.lstm_layers)
            .map(|layer| {
                let input = if layer == 0 { first } else { 2 * hidden };
                BiLstm::new(input, hidden, device)
            })
            .collect();
        let projected = match (self.lstm_layers, self.lstm_over) {
            (0, _) => Some(joined),
            (_, LstmInput::All) => None,
            (_, LstmInput::Features) => Some(width + 2 * hidden),
        };
        let uniform = Initializer::Uniform { min: 0.0, max: 1.0 };
        let rows = 1 + self.vocabulary.words.len();
        WordFeatures {
            word_vectors: (self.vector_width > 0).then(|| {
                let table: Param<Tensor<2>> = uniform.init([rows, self.vector_width], device);
                table.set_require_grad(false)
            }),
            pos: (self.pos_width > 0).then(|| {
                EmbeddingConfig::new(1 + self.vocabulary.tags.len(), self.pos_width).init(device)
            }),
            characters: (self.character_width > 0)
                .then(|| CharacterLstm::new(self.character_width / 2, device)),
            lstm,
            projection: projected.map(|input| LinearConfig::new(input, width).init(device)),
            dropout: DropoutConfig::new(self.dropout).init(),
            lstm_dropout: DropoutConfig::new(self.lstm_dropout).init(),
            over: self.lstm_over,
        }
    }
}

/// Layers that join word features with the transformer's states.
#[derive(Module, Debug)]
pub struct WordFeatures {
    /// Frozen word vectors: `[1 + words, vector width]`. Row 0 is for words without a vector.
    pub word_vectors: Option<Param<Tensor<2>>>,
    /// Part-of-speech embedding: `[1 + tags, pos width]`. Row 0 is for unknown tags.
    pub pos: Option<Embedding>,
    /// BiLSTM over the characters of a word.
    pub characters: Option<CharacterLstm>,
    /// Layers of the BiLSTM over the words of a sentence.
    pub lstm: Vec<BiLstm>,
    /// Projection to the transformer's width, if the BiLSTM's output has another width.
    pub projection: Option<Linear>,
    dropout: Dropout,
    lstm_dropout: Dropout,
    #[module(skip)]
    over: LstmInput,
}

impl WordFeatures {
    /// Sets the vectors of the vocabulary's words, `[words · vector width]`; row 0 stays as it is.
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

    /// The transformer's states joined with part of speech, word vector and characters, in this order.
    ///
    /// # Shapes
    /// - words: `[batch, words, width]`
    /// - output: `[batch, words, width + features]`
    pub fn joined(&self, words: Tensor<3>, batch: &FeatureBatch) -> Tensor<3> {
        let mut parts = vec![words.clone()];
        parts.extend(self.parts(words.dims(), batch, &words.device()));
        Tensor::cat(parts, 2)
    }

    /// Joins the transformer's states with the features and runs the BiLSTM or the projection. `lengths` holds the
    /// number of words of each sentence.
    ///
    /// # Shapes
    /// - words, output: `[batch, words, width]`
    pub fn forward(&self, words: Tensor<3>, batch: &FeatureBatch, lengths: &[usize]) -> Tensor<3> {
        let joined = match self.over {
            LstmInput::All => self.run_lstm(self.joined(words, batch), lengths),
            LstmInput::Features => {
                let parts = self.parts(words.dims(), batch, &words.device());
                let features = self.run_lstm(Tensor::cat(parts, 2), lengths);
                Tensor::cat(vec![words, features], 2)
            }
        };
        match &self.projection {
            Some(projection) => projection.forward(joined),
            None => joined,
        }
    }

    /// Runs the layers of the BiLSTM over the words.
    fn run_lstm(&self, mut input: Tensor<3>, lengths: &[usize]) -> Tensor<3> {
        for (index, layer) in self.lstm.iter().enumerate() {
            if index > 0 {
                input = self.lstm_dropout.forward(input);
            }
            input = layer.forward(input, lengths);
        }
        input
    }

    /// The features of each word, each `[batch, words, width of the feature]`.
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

/// A BiLSTM over the characters of a word; its states are averaged.
#[derive(Module, Debug)]
pub struct CharacterLstm {
    /// Character embedding: `[characters, width]`.
    pub embedding: Embedding,
    /// The BiLSTM.
    pub lstm: BiLstm,
}

impl CharacterLstm {
    fn new(width: usize, device: &Device) -> Self {
        Self {
            embedding: EmbeddingConfig::new(CHARACTERS, width).init(device),
            lstm: BiLstm::new(width, width, device),
        }
    }

    /// Mean state over the characters of each distinct word of a batch.
    ///
    /// # Shapes
    /// - output: `[distinct, 2 · width]`
    fn forward(&self, batch: &FeatureBatch, dropout: &Dropout, device: &Device) -> Tensor<2> {
        let counts = &batch.character_counts;
        let distinct = counts.len();
        let longest = batch.characters.len() / distinct;
        let width = self.embedding.weight.dims()[1];
        let letters = Tensor::<1, Int>::from_ints(batch.characters.as_slice(), device);
        let rows = self.embedding.weight.val().select(0, letters);
        let rows = dropout.forward(rows).reshape([distinct, longest, width]);
        let states = self.lstm.forward(rows, counts); // 0 past the end of a word
        let scales: Vec<f32> = counts.iter().map(|count| 1.0 / *count as f32).collect();
        let scales = Tensor::<1>::from_floats(scales.as_slice(), device).reshape([distinct, 1]);
        states.sum_dim(1).reshape([distinct, 2 * width]) * scales
    }
}
