//! From texts to tagged texts: cut and tokenised on threads for blocking work, tagged in batches with the texts of others,
//! put together again.

use std::future::Future;
use std::sync::Arc;

use tokio::task::spawn_blocking;

use super::App;
use super::failure::Failure;
use super::models::ServedModel;
use super::queue::Submission;
use super::request::{TagFailure, TaggedPart, Ticket};
use crate::data::input_text::InputText;
use crate::data::write::{Annotated, PredictedDocument};
use crate::model::cut::{CutText, cut};
use crate::model::tagger::Tagger;
use crate::text::Sentence;

/// The model, settings and threshold of a request.
#[derive(Clone)]
pub(super) struct Choice {
    pub model: Arc<ServedModel>,
    pub tagger: Arc<dyn Tagger>,
    pub threshold: f32,
}

/// A text with the mentions of its sentences.
pub(super) struct TaggedText(pub Vec<TaggedPart>);

impl TaggedText {
    /// Its sentences and mentions, to be written. An empty text has one sentence without words.
    pub fn annotated(&self) -> Vec<Annotated<'_>> {
        let parts = self.0.iter();
        parts
            .map(|(sentence, mentions)| Annotated::predicted(sentence, mentions))
            .collect()
    }

    /// Its record, as `predict` prints it.
    pub fn document(&self) -> Result<PredictedDocument<'static>, Failure> {
        PredictedDocument::of(&self.annotated()).map_err(|error| Failure::internal(&error.chain()))
    }
}

/// Texts that wait in the queue.
pub(super) struct Submitted {
    plans: Vec<CutText>,
    ticket: Ticket,
    threshold: f32,
}

impl App {
    /// Tags texts, and makes an answer of them on a thread for blocking work. Refused if the queue is full.
    pub async fn tag<T: Send + 'static>(
        &self,
        choice: Choice,
        texts: Vec<InputText>,
        answer: impl FnOnce(Vec<TaggedText>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        self.within_timeout(async {
            self.check_room(&choice.model)?;
            let (plans, submission) = self.prepare(&choice, texts).await?;
            let ticket =
                (choice.model.queue.submit(submission)).map_err(|_| self.full(&choice.model))?;
            let threshold = choice.threshold;
            let submitted = Submitted {
                plans,
                ticket,
                threshold,
            };
            submitted.finish(answer).await
        })
        .await
    }

    /// Puts texts into the queue, and waits for room if there is none.
    pub async fn submit_when_free(
        &self,
        choice: &Choice,
        texts: Vec<InputText>,
    ) -> Result<Submitted, Failure> {
        let (plans, submission) = self.prepare(choice, texts).await?;
        let ticket = choice.model.queue.submit_when_free(submission).await;
        let threshold = choice.threshold;
        Ok(Submitted {
            plans,
            ticket,
            threshold,
        })
    }

    /// Fails after the time for a request.
    pub async fn within_timeout<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let limit = self.limits.timeout;
        let result = tokio::time::timeout(limit, work).await;
        result.unwrap_or_else(|_| Err(Failure::too_slow(limit)))
    }

    fn check_room(&self, model: &ServedModel) -> Result<(), Failure> {
        if model.queue.is_full() {
            return Err(self.full(model));
        }
        Ok(())
    }

    fn full(&self, model: &ServedModel) -> Failure {
        let limit = self.limits.queue;
        let message = format!(
            "the queue is full: {limit} word pieces wait already (--queue); try again later"
        );
        Failure::busy(message, model.queue.seconds_left())
    }

    /// Cuts texts into sentences and windows, and these into pieces.
    async fn prepare(
        &self,
        choice: &Choice,
        texts: Vec<InputText>,
    ) -> Result<(Vec<CutText>, Submission), Failure> {
        let characters = texts.iter().map(characters).sum();
        choice.model.metrics.add_texts(texts.len(), characters);
        let permit = self.preparing.clone().acquire_owned().await;
        let tagger = choice.tagger.clone();
        let work = move || {
            let _permit = permit;
            let settings = tagger.document_settings();
            let mut sentences: Vec<Sentence> = Vec::new();
            let texts = texts.into_iter();
            let plans = texts
                .map(|text| cut(text, settings, &mut sentences))
                .collect();
            let encoded = tagger.encode(&sentences);
            let submission = Submission {
                tagger,
                sentences,
                encoded,
            };
            (plans, submission)
        };
        blocking(work).await
    }
}

impl Submitted {
    /// Waits for the mentions, and makes an answer of them on a thread for blocking work.
    pub async fn finish<T: Send + 'static>(
        self,
        answer: impl FnOnce(Vec<TaggedText>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let Self {
            plans,
            ticket,
            threshold,
        } = self;
        let parts = ticket.answer().await.map_err(|failure| match failure {
            TagFailure::Tagger(problem) => Failure::internal(&problem),
            TagFailure::Ended => Failure::too_late(),
        })?;
        let work = move || {
            let mut parts = parts.into_iter();
            let join = |plan: CutText| {
                let mut sentences = plan.join(&mut parts);
                for (_, mentions) in &mut sentences {
                    mentions.retain(|mention| mention.score >= threshold);
                }
                TaggedText(sentences)
            };
            answer(plans.into_iter().map(join).collect())
        };
        blocking(work).await?
    }
}

/// Number of characters of a text, or of its words.
pub(super) fn characters(text: &InputText) -> usize {
    match text {
        InputText::Plain(text) => text.chars().count(),
        InputText::Sentences(sentences) => sentences
            .iter()
            .map(|sentence| sentence.text.chars().count())
            .sum(),
    }
}

/// Runs work that takes time, away from the threads that serve connections.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    let result = spawn_blocking(|| crate::process::catch(work)).await;
    match result {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(panic)) => Err(Failure::internal(&panic)),
        Err(problem) => Err(Failure::internal(&problem)),
    }
}
