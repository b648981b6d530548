//! One training step and one validation step as Burn's learner calls them, and the metrics computed from them.

use std::sync::Arc;

use burn::optim::{GradientsAccumulator, GradientsParams};
use burn::tensor::{ExecutionError, Tensor, TensorReadError};
use burn::train::metric::state::{FormatOptions, NumericMetricState};
use burn::train::metric::{
    Adaptor, Metric, MetricAttributes, MetricMetadata, MetricName, Numeric, NumericAttributes,
    NumericEntry, SerializedEntry,
};
use burn::train::{InferenceStep, ItemLazy, TrainOutput, TrainStep};

use super::batches::Batch;
use super::tune::{ScoredSentence, count};
use crate::eval::Counts;
use crate::heads::{Count, Detail, Head, add_counts};
use crate::model::recognizer::Recognizer;
use crate::nn::host;
use crate::text::{Entity, Mention};

/// The result of a training or validation step.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// The loss, once it has been read from the device.
    pub loss: f64,
    /// The loss while it is on the device.
    pub unread: Option<Tensor<1>>,
    /// The batch's number in its epoch.
    pub batch: usize,
    /// Sentences of the batch.
    pub sentences: usize,
    /// Strict counts against the gold entities; validation only.
    pub counts: Counts,
    /// Name and strict counts of a bundle's other head; validation only.
    pub other: Option<(String, Counts)>,
    /// What else the head reports; validation only.
    pub diagnostics: Vec<Count>,
}

impl ItemLazy for Outcome {
    fn sync(mut self) -> Result<Self, ExecutionError> {
        if let Some(loss) = self.unread.take() {
            self.loss = host::floats(loss)[0] as f64;
        }
        Ok(self)
    }
}

/// Sums over the batches of a validation.
#[derive(Debug, Default)]
pub(super) struct ValidationSums {
    /// Loss, summed over sentences.
    pub loss: f64,
    /// Strict counts.
    pub counts: Counts,
    /// Name and strict counts of a bundle's other head.
    pub other: Option<(String, Counts)>,
    /// What else the head reports.
    pub diagnostics: Vec<Count>,
}

impl ValidationSums {
    /// Adds a batch.
    pub fn add(&mut self, outcome: &Outcome) {
        self.loss += outcome.loss * outcome.sentences as f64;
        self.counts += outcome.counts;
        if let Some((name, counts)) = outcome.other.clone() {
            self.other.get_or_insert((name, Counts::default())).1 += counts;
        }
        add_counts(&mut self.diagnostics, outcome.diagnostics.clone());
    }
}

impl<H: Head> TrainStep for Recognizer<H> {
    type Input = Batch<H::Gold>;
    type Output = Outcome;

    fn step(&self, batch: Batch<H::Gold>) -> TrainOutput<Outcome> {
        let (loss, grads) = loss_and_gradients(self, &batch);
        let item = Outcome {
            unread: Some(loss.inner()),
            batch: batch.number,
            sentences: batch.sentences.len(),
            ..Outcome::default()
        };
        TrainOutput { grads, item }
    }
}

/// The loss of a batch, and the gradients of the scaled loss.
fn loss_and_gradients<H: Head>(
    model: &Recognizer<H>,
    batch: &Batch<H::Gold>,
) -> (Tensor<1>, GradientsParams) {
    let backward = |loss: &Tensor<1>| match batch.loss_scale {
        1.0 => loss.backward(),
        scale => (loss.clone() * scale).backward(),
    };
    let encoder = &model.encoder;
    if batch.frozen || !encoder.transformer.recomputes_by_operations() {
        let loss = (model.loss(&batch.pieces, &batch.gold, batch.frozen)).total;
        let gradients = GradientsParams::from_grads(backward(&loss), model);
        return (loss, gradients);
    }
    let prompt = model.head.prompt();
    let (states, recomputation) = encoder.forward_recomputed(&batch.pieces, prompt, batch.seed);
    let loss = model.head.loss(&states, &batch.gold).total;
    drop(states);
    let mut gradients = backward(&loss);
    let mut sum = GradientsAccumulator::new();
    recomputation.backward(&mut gradients, |part| {
        sum.accumulate(model, GradientsParams::from_grads(part, model));
    });
    sum.accumulate(model, GradientsParams::from_grads(gradients, model));
    (loss, sum.grads())
}

impl<H: Head> InferenceStep for Recognizer<H> {
    type Input = Batch<H::Gold>;
    type Output = Outcome;

    fn step(&self, batch: Batch<H::Gold>) -> Outcome {
        validate(self, batch).0
    }
}

/// Loss and scores of a dev batch, and what decoding settings can be chosen on.
pub(super) fn validate<H: Head>(
    model: &Recognizer<H>,
    batch: Batch<H::Gold>,
) -> (Outcome, Vec<ScoredSentence<H::Candidates>>) {
    let states = model.states(&batch.pieces, false);
    let loss = model.head.loss(&states, &batch.gold).total;
    let mut candidates = model.head.candidates(&states);
    // Without the sentences that pad the batch.
    candidates.truncate(batch.sentences.len());
    let found = model.head.diagnose(&candidates, Detail::Summary);
    // At this level of detail only a bundle has evidence: its other head.
    let other = found.evidence.into_iter().next().map(|other| {
        let counts = sum(&batch.entities, other.mentions, other.nested);
        (other.name, counts)
    });
    let outcome = Outcome {
        loss: host::floats(loss)[0] as f64,
        unread: None,
        batch: batch.number,
        sentences: batch.sentences.len(),
        counts: sum(&batch.entities, found.mentions, model.head.nested()),
        other,
        diagnostics: found.counts,
    };
    let scored = (batch
        .sentences
        .into_iter()
        .zip(candidates)
        .zip(batch.entities))
    .map(|((index, candidates), entities)| ScoredSentence {
        index,
        candidates,
        entities,
    })
    .collect();
    (outcome, scored)
}

/// Strict counts of a batch.
fn sum(gold: &[Vec<Entity>], mentions: Vec<Vec<Mention>>, nested: bool) -> Counts {
    (gold.iter().zip(mentions))
        .map(|(gold, mentions)| count(gold, mentions, nested))
        .sum()
}

/// Mean loss over sentences.
#[derive(Clone)]
pub struct Loss {
    name: MetricName,
    state: NumericMetricState,
}

impl Default for Loss {
    fn default() -> Self {
        Self {
            name: Arc::new("Loss".into()),
            state: NumericMetricState::default(),
        }
    }
}

impl Adaptor<Outcome> for Outcome {
    fn adapt(&self) -> Outcome {
        self.clone()
    }
}

impl Metric for Loss {
    type Input = Outcome;

    fn name(&self) -> MetricName {
        self.name.clone()
    }

    fn attributes(&self) -> MetricAttributes {
        NumericAttributes {
            unit: None,
            higher_is_better: false,
        }
        .into()
    }

    fn update(
        &mut self,
        item: &Outcome,
        _: &MetricMetadata,
    ) -> Result<SerializedEntry, TensorReadError> {
        self.state.update(item.loss, item.sentences);
        Ok(self
            .state
            .compute_update(FormatOptions::new(self.name()).precision(4)))
    }

    fn compute(&mut self) -> Result<SerializedEntry, TensorReadError> {
        Ok(self
            .state
            .compute_final(FormatOptions::new(self.name()).precision(4)))
    }

    fn clear(&mut self) {
        self.state.reset();
    }
}

impl Numeric for Loss {
    fn value(&self) -> Option<NumericEntry> {
        Some(self.state.current_value())
    }

    fn running_value(&self) -> Option<NumericEntry> {
        Some(self.state.running_value())
    }

    fn final_value(&self) -> NumericEntry {
        self.state.final_value()
    }
}

/// Strict micro F1 over spans, in percent, of everything seen so far in the epoch.
#[derive(Clone)]
pub struct SpanF1 {
    name: MetricName,
    counts: Counts,
}

impl Default for SpanF1 {
    fn default() -> Self {
        Self {
            name: Arc::new("F1".into()),
            counts: Counts::default(),
        }
    }
}

impl SpanF1 {
    fn percent(&self) -> f64 {
        100.0 * self.counts.f1()
    }

    fn entry(&self) -> SerializedEntry {
        let percent = self.percent();
        SerializedEntry::new(format!("F1 {percent:.2} %"), percent.to_string())
    }
}

impl Metric for SpanF1 {
    type Input = Outcome;

    fn name(&self) -> MetricName {
        self.name.clone()
    }

    fn attributes(&self) -> MetricAttributes {
        NumericAttributes {
            unit: Some("%".into()),
            higher_is_better: true,
        }
        .into()
    }

    fn update(
        &mut self,
        item: &Outcome,
        _: &MetricMetadata,
    ) -> Result<SerializedEntry, TensorReadError> {
        self.counts += item.counts;
        Ok(self.entry())
    }

    fn compute(&mut self) -> Result<SerializedEntry, TensorReadError> {
        Ok(self.entry())
    }

    fn clear(&mut self) {
        self.counts = Counts::default();
    }
}

impl Numeric for SpanF1 {
    fn value(&self) -> Option<NumericEntry> {
        Some(NumericEntry::Value(self.percent()))
    }

    fn running_value(&self) -> Option<NumericEntry> {
        self.value()
    }

    fn final_value(&self) -> NumericEntry {
        NumericEntry::Final(self.percent())
    }
}
