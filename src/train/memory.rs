//! Memory that training takes, estimated before the first step.
//!
//! Weights, gradients and moments are counted. Activations are measured: the model runs on the CPU on a few of the longest
//! training sentences, cut to `LONGEST` words, and the program's allocator counts what the graph keeps. From that follows
//! the memory of a whole batch, because every row of pieces takes an amount linear and one quadratic in its length.

use std::fmt;

use burn::tensor::{Device, Distribution, Tensor};
use serde_json::{Value, json};

use super::corpus::{Corpus, shortened};
use super::prepare::PreparedRun;
use crate::device;
use crate::encoder::WordStates;
use crate::encoder::batching::PieceBatch;
use crate::encoder::transformer::Execution;
use crate::error::{Error, Result};
use crate::heads::Head;
use crate::hub::Hub;
use crate::model::parameters::Shapes;
use crate::model::recognizer::Recognizer;
use crate::nn::precision::Precision;
use crate::process::{self, allocations};
use crate::recipe::Recipe;
use crate::text::Sentence;

/// Longer sentences are cut to this many words for the measurement.
const LONGEST: usize = 64;

/// Copies of a sentence that are measured at once: with few, what each thread takes for itself would have too much weight.
const COPIES: usize = 4;

/// Bytes of every weight in training: the weight, its gradient and two moments of the optimizer.
const WEIGHT_BYTES: u128 = 16;

/// Memory that the allocator of the CPU takes for each byte in use: blocks of many sizes leave gaps. As measured by
/// `benches/memory/measure.py`.
const FRAGMENTATION: f64 = 1.2;

/// Bytes of program code and buffers that the first step brings into memory on the CPU.
const RUNTIME: u64 = 5_000_000;

/// Share of the memory of a device that a batch recommended in a message takes at most.
const SHARE: f64 = 0.95;

/// Memory of the activations of one batch: those of the longest training sentences.
#[derive(Debug, Clone, PartialEq)]
pub struct ActivationMemory {
    /// Pieces of the rows of each of the longest sentences, the longest sentence first.
    rows: Vec<Vec<usize>>,
    /// Words of the longest sentence.
    words: usize,
    /// Whether rows are padded to the longest.
    is_padded: bool,
    /// Bytes that the encoder keeps for a row.
    encoder: Growth,
    /// Bytes that the encoder keeps however many rows there are.
    encoder_fixed: f64,
    /// Bytes that the head takes for a sentence at the most.
    head: Growth,
    /// Bytes that the head takes however many sentences there are.
    head_fixed: f64,
}

/// An amount for a sequence: `linear · length + square · length²`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Growth {
    linear: f64,
    square: f64,
}

impl Growth {
    /// Through the amounts of two lengths, none of them 0. Amounts that do not grow faster than the length are linear.
    fn through([short, long]: [(usize, f64); 2]) -> Self {
        let per_item = |(length, amount): (usize, f64)| amount / length.max(1) as f64;
        let distance = long.0.saturating_sub(short.0);
        let square = if distance > 0 {
            ((per_item(long) - per_item(short)) / distance as f64).max(0.0)
        } else {
            0.0
        };
        Self {
            linear: (per_item(long) - square * long.0 as f64).max(0.0),
            square,
        }
    }

    fn at(&self, length: usize) -> f64 {
        let length = length as f64;
        length * (self.linear + self.square * length)
    }
}

impl ActivationMemory {
    /// Bytes of the encoder and of the head for this many of the longest sentences.
    fn bytes(&self, sentences: usize) -> [u64; 2] {
        let rows = self.rows.iter().take(sentences).flatten().copied();
        let encoder: f64 = if self.is_padded {
            let longest = rows.clone().max().unwrap_or(0);
            rows.count() as f64 * self.encoder.at(longest)
        } else {
            rows.map(|length| self.encoder.at(length)).sum()
        };
        let count = sentences.min(self.rows.len()) as f64;
        let head = self.head_fixed + count * self.head.at(self.words);
        [(self.encoder_fixed + encoder) as u64, head as u64]
    }
}

/// An estimate of the memory of training with one format and one way of handling activations.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryEstimate {
    /// Number of values of all weights.
    pub parameters: u64,
    /// Format of the encoder's products.
    pub precision: Precision,
    /// Whether layers are computed again in the backward pass.
    pub recompute: bool,
    /// Sentences of a batch.
    pub batch: usize,
    /// Bytes that the process holds without the model; 0 on devices with memory of their own.
    pub process: u64,
    /// Copies of the gradients: two if those of several batches are summed.
    gradient_copies: u64,
    /// Whether the model is in the process's own memory, whose allocator cannot use all of it.
    is_on_heap: bool,
    /// Memory of the activations; `None` where it cannot be measured.
    activations: Option<ActivationMemory>,
}

impl MemoryEstimate {
    /// Bytes of the weights.
    pub fn weights(&self) -> u64 {
        4 * self.parameters
    }

    /// Bytes of the gradients.
    pub fn gradients(&self) -> u64 {
        self.gradient_copies * self.weights()
    }

    /// Bytes of the optimizer's moments.
    pub fn optimizer(&self) -> u64 {
        2 * self.weights()
    }

    /// Bytes of the activations of a batch of the longest sentences, if known.
    pub fn activations(&self) -> Option<u64> {
        Some(self.activations.as_ref()?.bytes(self.batch).iter().sum())
    }

    /// Pieces of the longest row, if known.
    pub fn longest_row(&self) -> Option<usize> {
        let rows = &self.activations.as_ref()?.rows;
        rows.first()?.iter().copied().max()
    }

    /// Bytes of everything at the most.
    pub fn total(&self) -> u64 {
        self.total_of(self.batch)
    }

    /// Bytes of the model and its activations at the most. The head's activations are gone when the gradients of the encoder
    /// are computed.
    pub fn model(&self) -> u64 {
        self.model_of(self.batch)
    }

    fn model_of(&self, batch: usize) -> u64 {
        let activations = self.activations.as_ref();
        let [encoder, head] = activations.map_or([0, 0], |known| known.bytes(batch));
        let summed = self.gradients() - self.weights();
        let changing = encoder + self.weights().max(head);
        self.weights() + self.optimizer() + summed + changing
    }

    fn total_of(&self, batch: usize) -> u64 {
        let model = self.model_of(batch);
        if self.is_on_heap {
            self.process + RUNTIME + (FRAGMENTATION * model as f64) as u64
        } else {
            self.process + model
        }
    }

    /// As JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "parameters": self.parameters,
            "precision": self.precision,
            "recompute": self.recompute,
            "batch": self.batch,
            "process_bytes": self.process,
            "weight_bytes": self.weights(),
            "gradient_bytes": self.gradients(),
            "optimizer_bytes": self.optimizer(),
            "activation_bytes": self.activations(),
            "total_bytes": self.total(),
        })
    }

    /// The largest batch of the corpus's sentences that takes at most this many bytes; `None` if not even one sentence does.
    pub fn largest_batch(&self, bytes: u64) -> Option<usize> {
        let fits = |batch: &usize| self.total_of(*batch) <= bytes;
        let most = self
            .activations
            .as_ref()
            .map_or(1, |known| known.rows.len());
        let (mut low, mut high) = (0, most.max(1));
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if fits(&middle) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        Some(low).filter(|batch| *batch > 0)
    }
}

impl fmt::Display for MemoryEstimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "weights {}, gradients {}, optimizer {}",
            megabytes(self.weights()),
            megabytes(self.gradients()),
            megabytes(self.optimizer())
        )?;
        if let (Some(bytes), Some(longest)) = (self.activations(), self.longest_row()) {
            let (batch, bytes) = (self.batch, megabytes(bytes));
            write!(
                f,
                ", activations {bytes} ({batch} sentences of up to {longest} pieces)"
            )?;
        }
        if self.process > 0 {
            write!(f, ", program and corpus {}", megabytes(self.process))?;
        }
        Ok(())
    }
}

/// A number of bytes in MB or, from 10 GB on, in GB.
pub fn megabytes(bytes: u64) -> String {
    match bytes {
        0..10_000_000_000 => format!("{:.0} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// Fails if training needs more memory than the device has.
pub fn check(estimate: &MemoryEstimate, device: &Device) -> Result<()> {
    match device::memory(device) {
        Some(memory) if estimate.total() > memory => {
            Err(too_large(estimate, memory, &device::name_of(device)))
        }
        _ => Ok(()),
    }
}

fn too_large(estimate: &MemoryEstimate, memory: u64, name: &str) -> Error {
    let batch = estimate.batch;
    let remedy = match estimate.largest_batch((SHARE * memory as f64) as u64) {
        Some(fitting) if fitting < batch => format!(
            "train.batch = {fitting} would fit (train.accumulate keeps the number of sentences per step)"
        ),
        _ => "not even one sentence at a time would fit: choose a smaller encoder, or smaller sizes in [encoder.scratch] and \
              [head]"
            .into(),
    };
    let recompute = if estimate.recompute {
        ""
    } else {
        "; train.recompute = true needs less memory for activations"
    };
    Error::Config(format!(
        "training needs about {} and the device {name} has {}: {estimate}. With train.batch = {batch} it does not fit; \
         {remedy}{recompute}. --force trains all the same",
        megabytes(estimate.total()),
        megabytes(memory)
    ))
}

/// Fails if a device has less memory than training needs for the weights alone.
pub(super) fn check_weights(shapes: &Shapes, device: &Device) -> Result<()> {
    let count = shapes.count();
    let needed = u64::try_from(count.saturating_mul(WEIGHT_BYTES)).unwrap_or(u64::MAX);
    let Some(memory) = device::memory(device).filter(|memory| needed > *memory) else {
        return Ok(());
    };
    let largest = shapes
        .largest()
        .map(|(name, shape)| format!(" The largest is {name} with shape {shape:?}."));
    Err(Error::Config(format!(
        "the model has {count} parameters, and training needs {} for them, their gradients and the optimizer; the device {} has \
         {}.{} Choose a smaller encoder, or smaller sizes in [encoder.scratch] and [head]",
        megabytes(needed),
        device::name_of(device),
        megabytes(memory),
        largest.unwrap_or_default()
    )))
}

/// Estimates for a recipe on these sentences: for each format and with and without recomputation.
pub fn estimates<H: Head>(
    recipe: &Recipe,
    corpus: Corpus,
    device: &Device,
) -> Result<Vec<MemoryEstimate>> {
    let process = process_memory(device);
    let head = recipe.head_config()?;
    let run = PreparedRun::<H>::new(recipe.clone(), head, corpus, &Hub::from_env())?;
    let model = run.model(device, true)?;
    let measurement = run.measurement(&model);
    let mut all = Vec::new();
    for precision in [Precision::F32, Precision::Bf16, Precision::F16] {
        for recompute in [false, true] {
            let execution = Execution {
                precision,
                recompute,
                without_kernels: false,
            };
            all.push(run.estimate_with(&measurement, device, execution, process));
        }
    }
    Ok(all)
}

/// Bytes that the process holds now and that count for a device: its own memory is that of the CPU.
pub(super) fn process_memory(device: &Device) -> u64 {
    if *device == device::cpu() {
        process::resident_memory().unwrap_or(0)
    } else {
        0
    }
}

impl<H: Head> PreparedRun<H> {
    /// The memory of training a model on a device. The model itself is on the CPU with autodiff. `process` is what the process
    /// held before.
    pub(super) fn estimate(
        &self,
        model: &Recognizer<H>,
        device: &Device,
        process: u64,
    ) -> MemoryEstimate {
        let execution = model.encoder.transformer.execution;
        self.estimate_with(&self.measurement(model), device, execution, process)
    }

    fn estimate_with(
        &self,
        measurement: &Measurement<H>,
        device: &Device,
        execution: Execution,
        process: u64,
    ) -> MemoryEstimate {
        let train = &self.recipe.train;
        let count = Shapes::of(measurement.model).count();
        let execution = Execution {
            without_kernels: *device != device::cpu(),
            ..execution
        };
        let activations = measurement.activations(execution);
        let batch = match (train.tokens_per_batch, &activations) {
            (0, _) | (_, None) => train.batch,
            (tokens, Some(measured)) => {
                let longest = measured.rows.first().map_or(1, |rows| rows.iter().sum());
                (tokens / longest.max(1)).max(1)
            }
        };
        MemoryEstimate {
            parameters: u64::try_from(count).unwrap_or(u64::MAX / 64),
            precision: execution.precision,
            recompute: execution.recompute,
            batch,
            process,
            gradient_copies: if train.accumulate > 1 { 2 } else { 1 },
            is_on_heap: !execution.without_kernels,
            activations,
        }
    }

    /// Measures the head on the longest sentence. Without a counting allocator or words nothing is measured.
    fn measurement<'a>(&self, model: &'a Recognizer<H>) -> Measurement<'a, H> {
        Measurement {
            model,
            sample: allocations::is_installed()
                .then(|| self.sample(model))
                .flatten(),
        }
    }

    fn sample(&self, model: &Recognizer<H>) -> Option<Sample> {
        let sentences = &self.corpus.train;
        let batcher = self.batcher(sentences, 1);
        let (encoded, batcher) = (batcher.corpus.encoded, batcher.pieces);
        let mut order: Vec<usize> = (0..sentences.len()).collect();
        order.sort_by_key(|index| std::cmp::Reverse(encoded[*index].pieces()));
        let prompts = model_prompts(model);
        let rows = order.iter().map(|index| {
            let batch = batcher.make_batch(sentences, &encoded, &[*index]);
            let lengths = batch.rows.lengths.into_iter();
            lengths.map(|length| prompts + length).collect()
        });
        let rows: Vec<Vec<usize>> = rows.collect();
        let longest = &sentences[*order.first()?];
        let words = sentences.iter().map(Sentence::len).max()?;
        let long = longest.len().min(LONGEST);
        if long == 0 {
            return None;
        }
        let samples = [long.div_ceil(2), long].map(|words| shortened(longest, words));
        let parts = batcher.encode(&samples);
        let batches = [(0, COPIES), (0, 2 * COPIES), (1, COPIES)];
        let batches =
            batches.map(|(index, count)| batcher.make_batch(&samples, &parts, &vec![index; count]));
        // The first call allocates what is kept for all others.
        self.head_bytes(model, &samples[0], 2 * COPIES);
        let [(_, short_each), (fixed, long_each)] = samples.each_ref().map(|sample| {
            let copies = [COPIES, 2 * COPIES];
            fixed_and_each(copies.map(|count| self.head_bytes(model, sample, count)))
        });
        let [short, long] = samples.each_ref().map(Sentence::len);
        Some(Sample {
            rows,
            words,
            batches,
            head: Growth::through([(short, short_each), (long, long_each)]),
            head_fixed: fixed,
        })
    }

    /// Bytes that the head takes at the most for some copies of a sentence, with its backward pass.
    fn head_bytes(&self, model: &Recognizer<H>, sentence: &Sentence, count: usize) -> u64 {
        let device = model.device();
        let (width, words) = (self.encoder.width(), sentence.len().max(1));
        let prompts = H::prompts(&self.head, &self.corpus.labels);
        let random = |shape: [usize; 3]| {
            Tensor::<3>::random(shape, Distribution::Default, &device).require_grad()
        };
        let states = WordStates {
            words: random([count, words, width]),
            sentence: random([1, count, width]).squeeze_dim(0),
            prompts: (prompts > 0).then(|| random([count, prompts, width])),
            lengths: vec![sentence.len(); count],
        };
        let sentences = vec![sentence; count];
        let gold = H::gold(&self.head, &self.corpus.labels, &sentences, 0);
        let work = || drop(model.head.loss(&states, &gold).total.backward());
        let (_, allocated) = allocations::count(work);
        allocated.unwrap_or_default().peak
    }
}

/// What is measured once for all estimates of a model.
struct Measurement<'a, H: Head> {
    model: &'a Recognizer<H>,
    sample: Option<Sample>,
}

/// The longest sentences of the training data.
struct Sample {
    rows: Vec<Vec<usize>>,
    words: usize,
    /// Copies of the longest sentence: [`COPIES`] of its first half, twice as many, and [`COPIES`] of as much of it as is
    /// measured.
    batches: [PieceBatch; 3],
    head: Growth,
    head_fixed: f64,
}

impl<H: Head> Measurement<'_, H> {
    /// Measures the encoder.
    fn activations(&self, execution: Execution) -> Option<ActivationMemory> {
        let sample = self.sample.as_ref()?;
        let mut model = self.model.clone();
        model.encoder.transformer.execution = execution;
        let prompts = model_prompts(&model);
        let pieces = |batch: &PieceBatch| {
            batch.rows.ids.len() / COPIES + batch.rows.len() / COPIES * prompts
        };
        let [short, twice, long] = &sample.batches;
        encoder_bytes(&model, twice); // allocates what is kept for all others
        let [once, double, longer] = [short, twice, long].map(|batch| encoder_bytes(&model, batch));
        let (fixed, each) = fixed_and_each([once, double]);
        let longer = (longer as f64 - fixed).max(0.0) / COPIES as f64;
        let encoder = [(pieces(short), each), (pieces(long), longer)];
        Some(ActivationMemory {
            rows: sample.rows.clone(),
            words: sample.words,
            is_padded: !model.encoder.transformer.uses_kernels(),
            encoder: Growth::through(encoder),
            encoder_fixed: fixed,
            head: sample.head,
            head_fixed: sample.head_fixed,
        })
    }
}

/// The fixed part of an amount, and the part for each copy, from the amounts of [`COPIES`] and twice as many copies.
fn fixed_and_each([once, double]: [u64; 2]) -> (f64, f64) {
    let each = double.saturating_sub(once) as f64 / COPIES as f64;
    ((once as f64 - each * COPIES as f64).max(0.0), each)
}

fn model_prompts<H: Head>(model: &Recognizer<H>) -> usize {
    model.head.prompt().map_or(0, |prompt| prompt.dims()[0])
}

/// Bytes that the encoder keeps for the backward pass of a batch.
fn encoder_bytes<H: Head>(model: &Recognizer<H>, batch: &PieceBatch) -> u64 {
    let (encoder, prompt) = (&model.encoder, model.head.prompt());
    let loss = |states: &WordStates| {
        let loss = states.words.clone().sum() + states.sentence.clone().sum();
        match states.prompts.clone() {
            Some(prompts) => loss + prompts.sum(),
            None => loss,
        }
    };
    // The graph is passed through in the end: Burn would keep one whose backward pass never runs.
    let allocated = if encoder.transformer.recomputes_by_operations() {
        let ((states, recomputation), allocated) =
            allocations::count(|| encoder.forward_recomputed(batch, prompt, 0));
        let mut gradients = loss(&states).backward();
        recomputation.backward(&mut gradients, drop);
        allocated
    } else {
        let (states, allocated) = allocations::count(|| encoder.forward_with(batch, prompt));
        drop(loss(&states).backward());
        allocated
    };
    allocated.unwrap_or_default().held
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::nn::LinearConfig;

    fn estimate(batch: usize) -> MemoryEstimate {
        MemoryEstimate {
            parameters: 1_000_000,
            precision: Precision::F32,
            recompute: false,
            batch,
            process: 50_000_000,
            gradient_copies: 1,
            is_on_heap: false,
            activations: Some(ActivationMemory {
                rows: vec![vec![100]; 64],
                words: 10,
                is_padded: true,
                encoder: Growth {
                    linear: 10_000.0,
                    square: 0.0,
                },
                encoder_fixed: 0.0,
                head: Growth {
                    linear: 0.0,
                    square: 0.0,
                },
                head_fixed: 0.0,
            }),
        }
    }

    #[test]
    fn growth_goes_through_both_amounts() {
        let amount = |length: usize| (length, (3 * length + 2 * length * length) as f64);
        let growth = Growth::through([amount(10), amount(20)]);
        assert_eq!((growth.linear, growth.square), (3.0, 2.0));
        assert_eq!(growth.at(5), 65.0);
        let constant = Growth::through([(7, 70.0), (7, 70.0)]);
        assert_eq!(constant.at(3), 30.0);
        let slower = Growth::through([(10, 100.0), (20, 150.0)]);
        assert_eq!((slower.square, slower.at(20)), (0.0, 150.0));
    }

    #[test]
    fn the_largest_batch_that_fits_is_named() {
        // 16 MB for the weights, 50 MB of the process, 1 MB for each sentence.
        let estimate = estimate(16);
        assert_eq!(estimate.total(), 82_000_000);
        assert_eq!(estimate.largest_batch(82_000_000), Some(16));
        assert_eq!(estimate.largest_batch(81_999_999), Some(15));
        assert_eq!(estimate.largest_batch(67_000_000), Some(1));
        assert_eq!(estimate.largest_batch(66_999_999), None);
        assert_eq!(estimate.largest_batch(u64::MAX), Some(64));
        let problem = too_large(&estimate, 80_000_000, "cpu").to_string();
        for part in [
            "82 MB",
            "cpu has 80 MB",
            "train.batch = 10 ",
            "train.recompute",
            "--force",
        ] {
            assert!(problem.contains(part), "{part}: {problem}");
        }
        let problem = too_large(&estimate, 60_000_000, "cpu").to_string();
        assert!(problem.contains("smaller encoder"), "{problem}");
    }

    #[test]
    fn weights_that_cannot_fit_are_refused_without_being_allocated() {
        let model = |size: usize| LinearConfig::new(size, size).init(&device::cpu());
        let problem = check_weights(&Shapes::of(&model(1 << 30)), &device::cpu());
        let problem = problem.unwrap_err().to_string();
        for part in ["weight with shape", "GB", "smaller encoder"] {
            assert!(problem.contains(part), "{part}: {problem}");
        }
        check_weights(&Shapes::of(&model(10)), &device::cpu()).unwrap();
    }
}
