//! A run's parts, read and sized before anything is trained.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Tensor};

use super::batches::{Batcher, Prepared};
use super::corpus::Corpus;
use crate::encoder::features::{FeatureChoice, FeatureConfig};
use crate::encoder::pieces::{EncodedSentence, WordTokenizer};
use crate::encoder::vocabulary::Vocabulary;
use crate::encoder::{EncoderConfig, load, vectors};
use crate::error::{Error, Result};
use crate::files::write_atomic;
use crate::heads::Head;
use crate::model::folder;
use crate::model::recognizer::Recognizer;
use crate::recipe::Recipe;
use crate::text::Sentence;

/// A run's parts, once everything is read.
pub struct Run<H: Head> {
    /// The recipe with every default.
    pub recipe: Recipe,
    /// The head's knobs.
    pub head: H::Config,
    /// The sentences.
    pub corpus: Corpus,
    /// The tokenizer.
    pub pieces: Arc<WordTokenizer>,
    /// The encoder's sizes.
    pub encoder: EncoderConfig,
    /// The pretrained encoder's folder.
    pub pretrained: Option<PathBuf>,
    /// Vectors of the words in the features' vocabulary.
    pub vectors: Vec<f32>,
}

impl<H: Head> Run<H> {
    /// Finds the encoder, or sizes a fresh one.
    pub fn prepare(recipe: Recipe, head: H::Config, corpus: Corpus) -> Result<Self> {
        let choice = &recipe.encoder;
        let (pieces, transformer, pretrained) = match &choice.pretrained {
            Some(name) => {
                let folder = load::find(name)?;
                let mut config = load::config(&folder)?;
                if let Some(dropout) = choice.dropout {
                    config.dropout = dropout;
                    config.attention_dropout = dropout;
                }
                (WordTokenizer::from_folder(&folder)?, config, Some(folder))
            }
            None => {
                let scratch = choice.scratch.clone().unwrap_or_default();
                let pieces =
                    WordTokenizer::train(&corpus.train, scratch.vocabulary, scratch.lowercase)?;
                let config = scratch.transformer(pieces.vocabulary());
                (pieces, config, None)
            }
        };
        if transformer.heads == 0 || !transformer.width.is_multiple_of(transformer.heads) {
            return Err(Error::Config(format!(
                "the encoder's width {} is not a multiple of its {} attention heads",
                transformer.width, transformer.heads
            )));
        }
        if transformer.window() < 3 || transformer.width == 0 || transformer.layers == 0 {
            return Err(Error::Config(
                "the encoder needs at least one layer, a width, and room for three pieces".into(),
            ));
        }
        if pieces.vocabulary() > transformer.vocabulary {
            return Err(Error::Config(format!(
                "the tokenizer knows {} pieces, but the encoder has embeddings for {} only; they do not belong together",
                pieces.vocabulary(),
                transformer.vocabulary
            )));
        }
        H::fits(&head, transformer.width)?;
        let prompts = H::prompts(&head, &corpus.labels);
        if prompts > 0 && transformer.embedding_width != transformer.width {
            return Err(Error::Config(format!(
                "{} encodes vectors of its own with each sentence, which needs an encoder whose embeddings ({}) are as wide as its layers ({})",
                H::name(),
                transformer.embedding_width,
                transformer.width
            )));
        }
        // The first and the last piece, and one of a word between them.
        if transformer.window() < prompts + 3 {
            return Err(Error::Config(format!(
                "the encoder takes {} pieces; {prompts} vectors of the head {} leave no room for a word",
                transformer.window(),
                H::name()
            )));
        }
        let (features, vectors) = features(&choice.features, &corpus.train)?;
        if let Some(features) = &features {
            features.check(transformer.width)?;
        }
        let encoder = EncoderConfig {
            transformer,
            pooling: choice.pooling,
            layers: choice.layers,
            overlap: choice.overlap,
            context: choice.context,
            features,
        };
        Ok(Self {
            recipe,
            head,
            corpus,
            pieces: Arc::new(pieces),
            encoder,
            pretrained,
            vectors,
        })
    }

    /// What evaluate needs of a run that is not finished.
    pub fn write_description(&self, out: &Path) -> Result<()> {
        let path = out.join("config.json");
        let json = serde_json::to_string_pretty(&self.config()).expect("a config is plain data");
        write_atomic(&path, json.as_bytes())?;
        self.pieces.save(&out.join("tokenizer.json"))
    }

    /// The model's description.
    pub fn config(&self) -> folder::Config {
        folder::Config::new::<H>(&self.head, &self.corpus.labels, &self.encoder)
    }

    /// What batches of these sentences are made with.
    pub fn batcher(&self, sentences: &[Sentence], batch: usize) -> Batcher<H> {
        let has_context = self.encoder.context > 0;
        let encoded = self.pieces.encode_with(sentences, has_context);
        if has_context && !encoded.iter().any(|one| one.pieces() > one.ids.len()) {
            tracing::warn!(
                "encoder.context = {}, but no sentence here has a neighbour: the corpus names no documents",
                self.encoder.context
            );
        }
        let limit = self.encoder.transformer.window() - 2;
        let crowded = |one: &&EncodedSentence| has_context && one.pieces() > limit;
        let crowded = encoded.iter().filter(crowded).count();
        if crowded > 0 {
            tracing::info!(
                "around {crowded} sentences not all neighbours fit into {limit} pieces; their outermost words are left out"
            );
        }
        let cut = encoded
            .iter()
            .flat_map(EncodedSentence::counts)
            .filter(|count| *count > limit)
            .count();
        if cut > 0 {
            tracing::warn!(
                "{cut} words have more than {limit} pieces each; only the first {limit} are read"
            );
        }
        Batcher {
            corpus: Prepared {
                sentences: sentences.to_vec(),
                encoded,
            },
            pieces: self.pieces.clone(),
            lookup: self.encoder.lookup().map(Arc::new),
            window: self.encoder.transformer.window() - H::prompts(&self.head, &self.corpus.labels),
            overlap: self.encoder.overlap,
            head: self.head.clone(),
            labels: self.corpus.labels.clone(),
            batch,
            bucket: self.recipe.train.bucket,
            tokens: self.recipe.train.tokens_per_batch,
            seed: self.recipe.train.seed,
            freeze_encoder: self.recipe.train.freeze_encoder,
        }
    }

    /// The model as it is before the first step. Its weights are drawn on the processor, so they are the same on every
    /// device.
    pub fn model(&self, device: &Device) -> Result<Recognizer<H>> {
        let host = Device::flex().autodiff();
        host.seed(self.recipe.train.seed);
        let mut model = Recognizer::<H>::new(&self.encoder, &self.head, &self.corpus.labels, &host);
        if let Some(folder) = &self.pretrained {
            load::weights(&mut model.encoder.transformer, folder)?;
        }
        if let Some(features) = &mut model.encoder.features {
            features.set_vectors(&self.vectors);
        }
        // Burn draws a weight when it is first looked at, on the device where it is then.
        model.visit(&mut Draw);
        Ok(model.fork(device))
    }
}

struct Draw;

impl ModuleVisitor for Draw {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        param.val();
    }
}

/// The features that a recipe asks for and these sentences allow, and the vectors of the vocabulary's words.
fn features(
    choice: &FeatureChoice,
    sentences: &[Sentence],
) -> Result<(Option<FeatureConfig>, Vec<f32>)> {
    if !choice.any() {
        return Ok((None, Vec::new()));
    }
    let mut config = FeatureConfig {
        vocabulary: Vocabulary::default(),
        vector_width: 0,
        pos_width: 0,
        character_width: usize::from(choice.characters) * choice.character_width,
        dropout: choice.dropout,
        lstm_layers: usize::from(choice.lstm) * choice.lstm_layers,
        lstm_over: choice.lstm_over,
        lstm_dropout: choice.lstm_dropout,
    };
    if choice.pos {
        config.vocabulary.tags = Vocabulary::tags(sentences, choice.pos_at_least);
        if config.vocabulary.tags.is_empty() {
            tracing::warn!(
                "encoder.features.pos: the training sentences have no parts of speech; the feature is off"
            )
        } else {
            config.pos_width = choice.pos_width
        }
    }
    let mut values = Vec::new();
    if let Some(name) = &choice.word_vectors {
        let words: BTreeSet<String> = sentences
            .iter()
            .flat_map(|sentence| &sentence.words)
            .map(|word| word.text.to_lowercase())
            .collect();
        let found = vectors::read(&vectors::find(name)?, &words)?;
        tracing::info!(
            "{} of {} distinct training words have a vector",
            found.words.len(),
            words.len()
        );
        config.vector_width = found.width;
        config.vocabulary.words = found.words;
        values = found.values;
    }
    Ok((Some(config), values))
}
