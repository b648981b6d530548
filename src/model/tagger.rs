//! Using a model: sentences in, mentions out, computed in batches of sentences of similar length.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use serde::Serialize;
use serde_json::Value;

use crate::data::words::Segmentation;
use crate::encoder::batching::{BatchLimits, PieceBatch, PieceBatcher, plan};
use crate::encoder::tokenizer::WordTokenizer;
use crate::encoder::{EncodedSentence, EncoderConfig};
use crate::error::{Error, Result};
use crate::heads::{Detail, Diagnosis, Head, settings};
use crate::model::calibration::Calibration;
use crate::model::document::{DocumentSettings, TagQueue, Tagged, TextSentences, word_bytes};
use crate::model::folder::replace_settings;
use crate::model::recognizer::Recognizer;
use crate::process;
use crate::recipe::set::Assignment;
use crate::text::{Labels, Mention, Sentence};

/// Largest size of a prediction batch: few long sentences, or up to 64 short ones.
const LIMITS: BatchLimits = BatchLimits {
    sentences: 64,
    pieces: 4096,
    row: usize::MAX,
};

/// Number of sentences that are sorted by length together.
const SORTED_TOGETHER: usize = 2048;

/// Number of words of the longest sentence that a tagger should tag as a whole, unless it says otherwise.
const LONGEST: usize = 512;

/// Number of batches that are prepared ahead.
const AHEAD: usize = 2;

/// A trained model of any head, ready to use.
pub trait Tagger: Send + Sync {
    /// The mentions of each sentence. A failure of the device is an error.
    fn tag(&self, sentences: &[Sentence]) -> Result<Vec<Vec<Mention>>>;

    /// Splits the words of sentences into pieces, ahead of [`tag_encoded`](Self::tag_encoded). A tagger without pieces counts
    /// one for each word.
    fn encode(&self, sentences: &[Sentence]) -> Vec<EncodedSentence> {
        let of = |sentence: &Sentence| EncodedSentence {
            ids: vec![0; sentence.len()],
            starts: (0..=sentence.len()).collect(),
            left: Vec::new(),
            right: Vec::new(),
        };
        sentences.iter().map(of).collect()
    }

    /// The mentions of each sentence, which [`encode`](Self::encode) has split into pieces: the same as those of
    /// [`tag`](Self::tag).
    fn tag_encoded(
        &self,
        sentences: &[Sentence],
        _encoded: &[EncodedSentence],
    ) -> Result<Vec<Vec<Mention>>> {
        self.tag(sentences)
    }

    /// The same model with other values for settings of its head that may change after training. It shares the weights.
    fn with_settings(&self, _overrides: &[Assignment]) -> Result<Box<dyn Tagger>> {
        Err(Error::Config("this model has no settings".into()))
    }

    /// The mentions of each sentence together with everything else the head can report about them.
    fn diagnose(&self, sentences: &[Sentence]) -> Result<Diagnosis>;

    /// True when the scores of its mentions are calibrated: each is the probability that the mention is correct.
    fn is_calibrated(&self) -> bool {
        false
    }

    /// From now on, gives mentions the head's own scores, without the model's calibration.
    fn remove_calibration(&mut self) {}

    /// The entity types it knows.
    fn labels(&self) -> &Labels;

    /// True when its mentions may nest.
    fn nested(&self) -> bool;

    /// Number of neighbouring sentences on each side that it reads with each one, from `Sentence::left` and
    /// `Sentence::right`.
    fn context(&self) -> usize {
        0
    }

    /// How it splits texts into words: as its training data was.
    fn segmentation(&self) -> Segmentation {
        Segmentation::default()
    }

    /// Number of words of the longest sentence that it should tag as a whole: what is computed for a sentence may grow faster
    /// than its length.
    fn longest(&self) -> usize {
        LONGEST
    }

    /// How documents are cut for it.
    fn document_settings(&self) -> DocumentSettings {
        DocumentSettings {
            segmentation: self.segmentation(),
            context: self.context(),
            longest: self.longest(),
            nested: self.nested(),
            whole: false,
        }
    }

    /// The mentions of a text of any length. It is cut into sentences, and those into words; offsets are those of the text.
    ///
    /// ```no_run
    /// # fn main() -> nerzoo::error::Result<()> {
    /// let tagger = nerzoo::load("runs/quickstart")?;
    /// let mentions = tagger.tag_text("Marta Keller visited Lindholm.")?;
    /// assert_eq!((mentions[0].start, mentions[0].end), (0, 12));
    /// assert_eq!((mentions[0].text.as_str(), mentions[0].label.as_str()), ("Marta Keller", "PER"));
    /// # Ok(())
    /// # }
    /// ```
    fn tag_text(&self, text: &str) -> Result<Vec<TextMention>> {
        tag_document(self, text, self.document_settings())
    }
}

/// The mentions of a text that is cut with these settings, in the order of their sentences.
pub fn tag_document<T: Tagger + ?Sized>(
    tagger: &T,
    text: &str,
    settings: DocumentSettings,
) -> Result<Vec<TextMention>> {
    let mut all = Vec::new();
    let mut done = |tagged: Tagged<()>| -> Result<()> {
        if let Tagged::Sentence(sentence, mentions) = tagged {
            all.extend(text_mentions(&sentence, mentions));
        }
        Ok(())
    };
    let mut queue = TagQueue::new(|sentences: &[Sentence]| tagger.tag(sentences), settings);
    for sentence in TextSentences::new(text, settings) {
        queue.push(sentence, &mut done)?;
    }
    queue.flush(&mut done)?;
    Ok(all)
}

/// The mentions of a sentence with their texts, and with offsets in the document.
pub fn text_mentions(sentence: &Sentence, mentions: Vec<Mention>) -> Vec<TextMention> {
    let bytes = if mentions.is_empty() {
        Vec::new()
    } else {
        word_bytes(sentence)
    };
    (mentions.into_iter())
        .filter_map(|Mention { entity, score }| {
            let last = entity.span.end.checked_sub(1)?;
            let text = bytes.get(entity.span.start)?.start..bytes.get(last)?.end;
            let (start, end) = sentence.characters(entity.span);
            Some(TextMention {
                text: sentence.text[text].to_string(),
                label: entity.label,
                start: sentence.offset + start,
                end: sentence.offset + end,
                score,
            })
        })
        .collect()
}

/// An entity found in a text.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TextMention {
    /// Its text.
    pub text: String,
    /// Its type.
    pub label: String,
    /// Its first character in the text, counted in Unicode scalar values.
    pub start: usize,
    /// One past its last character.
    pub end: usize,
    /// The model's confidence, between 0 and 1. With a calibrated model, the probability that the mention is correct.
    pub score: f32,
}

/// A trained model with its tokenizer.
pub struct ModelTagger<H: Head> {
    model: Recognizer<H>,
    batcher: PieceBatcher,
    context: usize,
    labels: Labels,
    calibration: Option<Calibration>,
    segmentation: Segmentation,
    /// Number of words of the longest sentence that is tagged as a whole; `None` for the head's own limit.
    longest: Option<usize>,
}

impl<H: Head> ModelTagger<H> {
    /// A tagger of a model without autodiff.
    pub fn new(
        model: Recognizer<H>,
        tokenizer: Arc<WordTokenizer>,
        encoder: EncoderConfig,
        labels: Labels,
    ) -> Self {
        let prompts = (model.head.prompt()).map_or(0, |prompt| prompt.dims()[0]);
        Self {
            segmentation: Segmentation::default(),
            longest: None,
            model,
            batcher: encoder.batcher(tokenizer, prompts),
            context: encoder.context,
            labels,
            calibration: None,
        }
    }

    /// The same tagger with calibrated scores; `None` for the head's own scores.
    pub fn with_calibration(mut self, calibration: Option<Calibration>) -> Self {
        self.calibration = calibration;
        self
    }

    /// The same tagger for texts that are split into words in this way, and for sentences of up to `longest` words; `None` for
    /// the head's own limit.
    pub fn with_documents(mut self, segmentation: Segmentation, longest: Option<usize>) -> Self {
        self.segmentation = segmentation;
        self.longest = longest;
        self
    }

    /// Calibrates the scores of mentions.
    fn calibrate(&self, mentions: &mut [Vec<Mention>]) {
        if let Some(calibration) = &self.calibration {
            let sentences = mentions.iter_mut();
            sentences.for_each(|mentions| calibration.apply_to(mentions));
        }
    }

    /// The head's scores for each sentence, to choose decoding settings on.
    pub fn candidates(&self, sentences: &[Sentence]) -> Result<Vec<H::Candidates>> {
        let mut all = vec![None; sentences.len()];
        self.each_batch(sentences, |batch, pieces| {
            let states = self.model.states(pieces, false);
            for (index, found) in batch.iter().zip(self.model.head.candidates(&states)) {
                all[*index] = Some(found);
            }
        })?;
        Ok(all.into_iter().flatten().collect())
    }

    /// The mentions of each sentence under each of several settings of the head, computed with one pass.
    pub fn tag_with(
        &self,
        sentences: &[Sentence],
        settings: &[&H::Config],
    ) -> Result<Vec<Vec<Vec<Mention>>>> {
        let head = &self.model.head;
        let mut all = vec![vec![Vec::new(); sentences.len()]; settings.len()];
        self.each_batch(sentences, |batch, pieces| {
            let found = head.candidates(&self.model.states(pieces, false));
            for (index, candidates) in batch.iter().zip(found) {
                for (mentions, settings) in all.iter_mut().zip(settings) {
                    mentions[*index] = head.mentions(settings, &candidates);
                }
            }
        })?;
        Ok(all)
    }

    fn tag_batches(
        &self,
        sentences: &[Sentence],
        encoded: Option<&[EncodedSentence]>,
    ) -> Result<Vec<Vec<Mention>>> {
        let mut mentions = vec![Vec::new(); sentences.len()];
        self.each_encoded_batch(sentences, encoded, |batch, pieces| {
            for (index, found) in batch.iter().zip(self.model.decode(pieces)) {
                mentions[*index] = found;
            }
        })?;
        self.calibrate(&mut mentions);
        Ok(mentions)
    }

    /// Calls `call` with the indices of a batch's sentences and the batch, for one batch after the other. A background
    /// thread prepares the next batches meanwhile.
    fn each_batch(
        &self,
        sentences: &[Sentence],
        call: impl FnMut(&[usize], &PieceBatch),
    ) -> Result<()> {
        self.each_encoded_batch(sentences, None, call)
    }

    /// Like [`each_batch`](Self::each_batch), for sentences that may be split into pieces already.
    fn each_encoded_batch(
        &self,
        sentences: &[Sentence],
        encoded: Option<&[EncodedSentence]>,
        mut call: impl FnMut(&[usize], &PieceBatch),
    ) -> Result<()> {
        let batcher = &self.batcher;
        let (sender, receiver) = sync_channel(AHEAD);
        // Burn panics when a device is out of memory or lost.
        let result = process::catch(|| {
            std::thread::scope(|scope| {
                let preparation = scope.spawn(move || {
                    process::catch(|| prepare(batcher, sentences, encoded, &sender))
                });
                for (indices, batch) in receiver {
                    call(&indices, &batch);
                }
                // The thread itself does not panic.
                preparation.join().unwrap_or(Ok(()))
            })
        });
        let result = result.and_then(|prepared| prepared);
        result.map_err(|panic| Error::DeviceFailed {
            context: "tagging failed; if the device ran out of memory, use another device or shorter texts".into(),
            source: panic.into(),
        })
    }
}

/// Prepares batches of sentences of similar length until all are sent or the receiver is gone.
fn prepare(
    batcher: &PieceBatcher,
    sentences: &[Sentence],
    encoded: Option<&[EncodedSentence]>,
    sender: &SyncSender<(Vec<usize>, PieceBatch)>,
) {
    for (number, part) in sentences.chunks(SORTED_TOGETHER).enumerate() {
        let first = number * SORTED_TOGETHER;
        let encoded = match encoded {
            Some(all) => Cow::Borrowed(&all[first..first + part.len()]),
            None => Cow::Owned(batcher.encode(part)),
        };
        for indices in plan(&encoded, &LIMITS) {
            let batch = batcher.make_batch(part, &encoded, &indices);
            let indices: Vec<usize> = indices.iter().map(|i| first + i).collect();
            if sender.send((indices, batch)).is_err() {
                return;
            }
        }
    }
}

impl<H: Head> Tagger for ModelTagger<H> {
    fn tag(&self, sentences: &[Sentence]) -> Result<Vec<Vec<Mention>>> {
        self.tag_batches(sentences, None)
    }

    fn encode(&self, sentences: &[Sentence]) -> Vec<EncodedSentence> {
        self.batcher.encode(sentences)
    }

    fn tag_encoded(
        &self,
        sentences: &[Sentence],
        encoded: &[EncodedSentence],
    ) -> Result<Vec<Vec<Mention>>> {
        if sentences.len() != encoded.len() {
            return self.tag(sentences);
        }
        self.tag_batches(sentences, Some(encoded))
    }

    fn with_settings(&self, overrides: &[Assignment]) -> Result<Box<dyn Tagger>> {
        let mut config = serde_json::to_value(self.model.head.config())
            .map_err(|problem| Error::Config(format!("settings of {}: {problem}", H::name())))?;
        let known = settings::describe::<H::Config>();
        let changes_scores = replace_settings(&H::name(), &mut config, overrides, &known)?;
        let Value::Object(config) = config else {
            return Err(Error::Config(format!("{} has no settings", H::name())));
        };
        let mut model = self.model.clone();
        model.head.set_config(settings::read(config)?);
        Ok(Box::new(Self {
            model,
            batcher: self.batcher.clone(),
            context: self.context,
            labels: self.labels.clone(),
            calibration: self.calibration.clone().filter(|_| !changes_scores),
            segmentation: self.segmentation,
            longest: self.longest,
        }))
    }

    fn diagnose(&self, sentences: &[Sentence]) -> Result<Diagnosis> {
        let mut all = Diagnosis::empty(sentences.len());
        self.each_batch(sentences, |batch, pieces| {
            let head = &self.model.head;
            let candidates = head.candidates(&self.model.states(pieces, false));
            all.insert(batch, head.diagnose(&candidates, Detail::Full));
        })?;
        self.calibrate(&mut all.mentions);
        Ok(all)
    }

    fn is_calibrated(&self) -> bool {
        self.calibration.is_some()
    }

    fn remove_calibration(&mut self) {
        self.calibration = None;
    }

    fn labels(&self) -> &Labels {
        &self.labels
    }

    fn nested(&self) -> bool {
        self.model.head.nested()
    }

    fn context(&self) -> usize {
        self.context
    }

    fn segmentation(&self) -> Segmentation {
        self.segmentation
    }

    fn longest(&self) -> usize {
        let of_head = || H::longest_sentence(self.model.head.config());
        self.longest.unwrap_or_else(of_head)
    }
}
