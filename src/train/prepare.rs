//! Everything a run needs, read and checked before training starts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Tensor};
use strum::VariantArray;

use super::batches::{Batcher, EncodedCorpus};
use super::corpus::Corpus;
use super::memory;
use crate::data::segmentation_choice::{self, SegmentationChoice};
use crate::device;
use crate::encoder::features::{FeatureChoice, FeatureConfig};
use crate::encoder::shapes::{BatchShapes, Ladder};
use crate::encoder::tokenizer::WordTokenizer;
use crate::encoder::transformer::Execution;
use crate::encoder::vocabulary::FeatureVocabulary;
use crate::encoder::{EncodedSentence, EncoderConfig, RowLayout, load, word_vectors};
use crate::error::{Error, Result};
use crate::files::write_atomic;
use crate::heads::{Head, Overlaps, Settings};
use crate::hub::{Hub, Origin};
use crate::model::folder::ModelConfig;
use crate::model::parameters::Shapes;
use crate::model::recognizer::Recognizer;
use crate::nn::precision::Precision;
use crate::recipe::Recipe;
use crate::text::Sentence;

/// A run that is ready to train: recipe, corpus, tokenizer and the sizes of the model.
pub struct PreparedRun<H: Head> {
    /// The recipe with every default.
    pub recipe: Recipe,
    /// The head's settings.
    pub head: H::Config,
    /// The sentences.
    pub corpus: Corpus,
    /// The tokenizer.
    pub tokenizer: Arc<WordTokenizer>,
    /// The encoder's configuration.
    pub encoder: EncoderConfig,
    /// The pretrained encoder's folder.
    pub pretrained: Option<PathBuf>,
    /// The repository and commit of the pretrained encoder, if known.
    pub encoder_origin: Option<Origin>,
    /// Vectors of the words in the features' vocabulary.
    pub vectors: Vec<f32>,
    /// How texts are split into words in prediction.
    pub segmentation: SegmentationChoice,
}

impl<H: Head> PreparedRun<H> {
    /// Finds the pretrained encoder, if need be on the hub, or describes a new one, and checks that everything fits together.
    pub fn new(recipe: Recipe, mut head: H::Config, corpus: Corpus, hub: &Hub) -> Result<Self> {
        head.resolve_overlaps(Overlaps::of_corpus(&corpus.train));
        let choice = &recipe.encoder;
        let (pieces, transformer, found) = match &choice.pretrained {
            Some(name) => {
                let found = load::find(name, hub)?;
                if let Some(origin) = &found.origin {
                    tracing::info!(
                        "encoder {}, commit {}, from {}",
                        origin.repository,
                        origin.commit,
                        found.folder.display()
                    );
                }
                let mut config = load::config(&found.folder)?;
                if let Some(dropout) = choice.dropout {
                    config.set_dropout(dropout);
                }
                let pieces = WordTokenizer::from_folder(&found.folder)?;
                (pieces, config, Some(found))
            }
            None => {
                let scratch = choice.scratch.clone().unwrap_or_default();
                let pieces =
                    WordTokenizer::train(&corpus.train, scratch.vocabulary, scratch.lowercase)?;
                let config = scratch.transformer(pieces.vocabulary_size());
                (pieces, config, None)
            }
        };
        let sizes = transformer.check();
        sizes.map_err(|problem| Error::Config(format!("[encoder] {problem}")))?;
        pieces.check_fits(&transformer).map_err(Error::Config)?;
        H::fits(&head, transformer.width)?;
        let prompts = H::prompts(&head, &corpus.labels);
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
            rows: RowLayout::Standard,
            features,
        };
        let segmentation =
            segmentation_choice::choose(&corpus.train, recipe.data.options.segmentation);
        Ok(Self {
            segmentation,
            recipe,
            head,
            corpus,
            tokenizer: Arc::new(pieces),
            encoder,
            encoder_origin: found.as_ref().and_then(|found| found.origin.clone()),
            pretrained: found.map(|found| found.folder),
            vectors,
        })
    }

    /// Writes `config.json` and `tokenizer.json`, with which a checkpoint of the run can be evaluated.
    pub fn write_description(&self, out: &Path) -> Result<()> {
        let path = out.join("config.json");
        let json =
            serde_json::to_string_pretty(&self.config(&self.head)).expect("a config is plain data");
        write_atomic(&path, json.as_bytes())?;
        self.tokenizer.save(&out.join("tokenizer.json"))
    }

    /// The `config.json` of a model with these settings of the head.
    pub fn config(&self, head: &H::Config) -> ModelConfig {
        ModelConfig {
            encoder_origin: self.encoder_origin.clone(),
            segmentation: self.segmentation.segmentation,
            longest: self.recipe.predict.longest,
            ..ModelConfig::new::<H>(head, &self.corpus.labels, &self.encoder)
        }
    }

    /// Makes batches of these sentences.
    pub fn batcher(&self, sentences: &[Sentence], batch: usize) -> Batcher<H> {
        let prompts = H::prompts(&self.head, &self.corpus.labels);
        let batcher = self.encoder.batcher(self.tokenizer.clone(), prompts);
        let has_context = batcher.has_context;
        let encoded = batcher.encode(sentences);
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
            corpus: EncodedCorpus {
                sentences: sentences.to_vec(),
                encoded,
            },
            pieces: batcher,
            head: self.head.clone(),
            labels: self.corpus.labels.clone(),
            batch,
            bucket: self.recipe.train.bucket,
            tokens: self.recipe.train.tokens_per_batch,
            seed: self.recipe.train.seed,
            freeze_encoder: self.recipe.train.freeze_encoder,
            ladder: None,
        }
    }

    /// Makes batches of the training sentences for a device: padded to a ladder of sizes where the recipe says so.
    pub fn training_batcher(&self, batch: usize, device: &Device) -> Batcher<H> {
        let mut batcher = self.batcher(&self.corpus.train, batch);
        let is_padded = match self.recipe.train.shapes {
            BatchShapes::Exact => false,
            BatchShapes::Ladder => true,
            BatchShapes::Auto => device::compiles_kernels(device),
        };
        if is_padded && H::takes_padding(&self.head) {
            batcher.ladder = Some(Ladder::fit(&batcher.corpus.encoded, batcher.pieces.window));
        } else if is_padded {
            tracing::warn!(
                "train.shapes: with these settings the head {} cannot be trained on padded batches; their sizes follow the \
                 sentences, and a GPU compiles kernels for each",
                H::name()
            );
        }
        batcher
    }

    /// Makes batches of other sentences, padded to the ladder of the training sentences if they have one.
    pub fn batcher_like(
        &self,
        training: &Batcher<H>,
        sentences: &[Sentence],
        batch: usize,
    ) -> Batcher<H> {
        let mut batcher = self.batcher(sentences, batch);
        batcher.ladder = training.ladder.clone();
        if let Some(ladder) = &mut batcher.ladder {
            ladder.cover(&batcher.corpus.encoded);
        }
        batcher
    }

    /// The model before the first step, on the CPU with autodiff, so that its weights are the same on every device. Fails
    /// if the weights do not fit into the memory of the `device` to train on, unless that is `forced`.
    pub fn model(&self, device: &Device, forced: bool) -> Result<Recognizer<H>> {
        let host = device::cpu().autodiff();
        host.seed(self.recipe.train.seed);
        let mut model = Recognizer::<H>::new(&self.encoder, &self.head, &self.corpus.labels, &host);
        if !forced {
            memory::check_weights(&Shapes::of(&model), device)?;
        }
        if let Some(folder) = &self.pretrained {
            load::weights(&mut model.encoder.transformer, folder)?;
        }
        if let Some(features) = &mut model.encoder.features {
            features.set_vectors(&self.vectors);
        }
        model.encoder.transformer.execution = Execution {
            precision: self.recipe.train.precision,
            recompute: self.recipe.train.recompute,
            without_kernels: false,
        };
        // Burn initialises a weight on first use, on the device where it is then.
        model.visit(&mut Initialise);
        Ok(model)
    }
}

/// Fails if a device cannot compute in the format of `train.precision`.
pub(super) fn check_precision(precision: Precision, devices: &[Device]) -> Result<()> {
    let Some(device) = devices
        .iter()
        .find(|device| !precision.is_supported(device))
    else {
        return Ok(());
    };
    let others = Precision::VARIANTS.iter();
    let others: Vec<String> = (others.filter(|other| other.is_supported(device)))
        .map(|other| format!("\"{other}\""))
        .collect();
    Err(Error::Config(format!(
        "train.precision = \"{precision}\": the device {} cannot compute in it; use {}",
        device::name_of(device),
        others.join(" or ")
    )))
}

/// Initialises every parameter it visits.
struct Initialise;

impl ModuleVisitor for Initialise {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        param.val();
    }
}

/// The word features of a recipe, and the pretrained vectors of the words that occur.
fn features(
    choice: &FeatureChoice,
    sentences: &[Sentence],
) -> Result<(Option<FeatureConfig>, Vec<f32>)> {
    if !choice.any() {
        return Ok((None, Vec::new()));
    }
    let mut config = FeatureConfig {
        vocabulary: FeatureVocabulary::default(),
        vector_width: 0,
        pos_width: 0,
        character_width: usize::from(choice.characters) * choice.character_width,
        dropout: choice.dropout,
        lstm_layers: usize::from(choice.lstm) * choice.lstm_layers,
        lstm_over: choice.lstm_over,
        lstm_dropout: choice.lstm_dropout,
    };
    if choice.pos {
        config.vocabulary.tags = FeatureVocabulary::tags(sentences, choice.pos_at_least);
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
        let found = word_vectors::read(&word_vectors::find(name)?, &words)?;
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
