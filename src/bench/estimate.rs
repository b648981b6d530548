//! How long a run will take on this machine, from a few seconds of its training and prediction.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use burn::tensor::Device;

use crate::error::{Error, Result};
use crate::process::catch;
use crate::recipe::Recipe;
use crate::registry::Entry;
use crate::text::{Labels, Sentence};
use crate::train::corpus::shortened;
use crate::train::{Corpus, Trainer};

/// Training sentences that the measurement uses, taken at even distances.
const SAMPLE: usize = 1024;

/// Longer sentences are cut to this many words, so that one of them cannot take minutes or all memory.
pub const LONGEST: usize = 128;

/// Share of the time that is spent on training, the rest on prediction.
const TRAINING: f64 = 0.7;

/// Training ends early after this many passes over the sample and this many steps.
const PASSES: usize = 2;
const STEPS: usize = 20;

/// Loading an encoder may take this long before the measurement starts.
const LOADING: Duration = Duration::from_secs(60);

/// The sentences of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    /// Their number.
    pub sentences: usize,
    /// The words in all of them.
    pub words: usize,
}

impl Amount {
    /// The amount of these sentences.
    pub fn of(sentences: &[Sentence]) -> Self {
        Self {
            sentences: sentences.len(),
            words: sentences.iter().map(Sentence::len).sum(),
        }
    }
}

/// Measured speeds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speed {
    /// Words per second in training.
    pub training: f64,
    /// Words per second in prediction.
    pub prediction: f64,
    /// True if not even one training step ended in time: the real speed is lower.
    pub is_limit: bool,
    /// Sentences that were cut for the measurement, out of [`Speed::sample`]; the real speed on them is lower.
    pub cut: usize,
    /// Training sentences that were used.
    pub sample: usize,
}

impl Speed {
    /// Seconds for a run: `epochs` passes over the training sentences, each followed by a prediction of dev, and one
    /// prediction of test.
    pub fn seconds(&self, epochs: usize, train: Amount, dev: Amount, test: Amount) -> f64 {
        let training = (epochs * train.words) as f64 / self.training;
        let prediction = (epochs * dev.words + test.words) as f64 / self.prediction;
        training + prediction
    }
}

/// Trains a recipe on its own sentences for most of `time` and predicts for the rest; nothing is written. Returns after
/// about twice the time even if a single step takes longer; its thread then runs on until the program ends.
pub fn measure(
    entry: &'static Entry,
    recipe: &Recipe,
    train: &[Sentence],
    dev: &[Sentence],
    device: &Device,
    time: Duration,
) -> Result<Speed> {
    let labels = Labels::of(train);
    let (train, cut) = sample(train);
    let (dev, _) = sample(if dev.is_empty() { &train } else { dev });
    let (longest, used) = (train.iter().map(Sentence::len).max(), train.len());
    let corpus = Corpus {
        train,
        dev,
        test: Vec::new(),
        labels,
        about: None,
    };
    let mut recipe = recipe.clone();
    // Frozen epochs are faster than the others, and there are few.
    recipe.train.freeze_encoder = 0;
    recipe.train.freeze_rate = None;
    let batch_words = recipe.train.batch.min(used) * longest.unwrap_or(0);
    let device = device.clone();
    let (events, received) = channel();
    let work = move || {
        let done = catch(|| {
            let trainer = (entry.trainer)(&recipe, corpus, &device)?;
            run(trainer, &events, time)
        });
        let failed = match done {
            Ok(Ok(())) => return,
            Ok(Err(problem)) => problem,
            Err(panic) => Error::Training(panic.message),
        };
        // Nobody listens any more if the time is over.
        let _ = events.send(Event::Failed(failed));
    };
    std::thread::Builder::new()
        .name("speed".into())
        .spawn(work)
        .map_err(|problem| Error::Training(format!("cannot start a thread: {problem}")))?;
    let timings = collect(&received, time)?;
    Ok(timings.speed(batch_words, time, cut, used))
}

/// What the measuring thread reports.
enum Event {
    /// The model is loaded.
    Ready,
    /// A training step ended.
    Trained(Timing),
    /// Some sentences are tagged.
    Tagged(Timing),
    /// It cannot go on.
    Failed(Error),
}

/// Words and the seconds they took.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Timing {
    words: usize,
    seconds: f64,
}

/// All timings of a measurement.
#[derive(Debug, Clone, Default)]
struct Timings {
    trained: Vec<Timing>,
    tagged: Vec<Timing>,
}

fn run(mut trainer: Box<dyn Trainer>, events: &Sender<Event>, time: Duration) -> Result<()> {
    // A receiver that is gone has given up waiting.
    let report = |event| events.send(event).is_ok();
    if !report(Event::Ready) {
        return Ok(());
    }
    let start = Instant::now();
    // Small corpora need no more time than a few passes.
    let enough = PASSES * Amount::of(&trainer.corpus().train).words;
    let mut steps = 0;
    let mut trained = 0;
    while start.elapsed() < time.mul_f64(TRAINING) && (trained < enough || steps < STEPS) {
        let step = Instant::now();
        let words = trainer.step()?.words;
        trained += words;
        steps += 1;
        let seconds = step.elapsed().as_secs_f64();
        if !report(Event::Trained(Timing { words, seconds })) {
            return Ok(());
        }
    }
    let tagger = trainer.tagger();
    let mut rest: &[Sentence] = &trainer.corpus().dev;
    let mut count = 8;
    while !rest.is_empty() && start.elapsed() < time {
        let (some, others) = rest.split_at(count.min(rest.len()));
        let step = Instant::now();
        tagger.tag(some)?;
        let (words, seconds) = (Amount::of(some).words, step.elapsed().as_secs_f64());
        if !report(Event::Tagged(Timing { words, seconds })) {
            return Ok(());
        }
        rest = others;
        count = 64;
    }
    Ok(())
}

/// Receives timings until the measurement ends or takes twice as long as it should.
fn collect(received: &Receiver<Event>, time: Duration) -> Result<Timings> {
    let mut timings = Timings::default();
    let mut deadline = Instant::now() + LOADING;
    let mut is_ready = false;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match received.recv_timeout(left) {
            Ok(Event::Ready) => {
                is_ready = true;
                deadline = Instant::now() + 2 * time;
            }
            Ok(Event::Trained(timing)) => timings.trained.push(timing),
            Ok(Event::Tagged(timing)) => timings.tagged.push(timing),
            Ok(Event::Failed(problem)) => return Err(problem),
            Err(_) if is_ready => return Ok(timings),
            Err(_) => {
                return Err(Error::Training(format!(
                    "loading the model took more than {} seconds",
                    LOADING.as_secs()
                )));
            }
        }
    }
}

impl Timings {
    /// The speeds. If not one step ended, the speed is below that of a batch of `batch_words` in twice the time.
    fn speed(&self, batch_words: usize, time: Duration, cut: usize, sample: usize) -> Speed {
        let limit = batch_words.max(1) as f64 / (2.0 * time.as_secs_f64()).max(1e-9);
        let training = words_per_second(&self.trained);
        let speed = training.unwrap_or(limit);
        Speed {
            training: speed,
            // Prediction is the faster one.
            prediction: words_per_second(&self.tagged).unwrap_or(speed),
            is_limit: training.is_none(),
            cut,
            sample,
        }
    }
}

/// The mean speed, without up to three first steps, which are slower.
fn words_per_second(timings: &[Timing]) -> Option<f64> {
    let counted = &timings[(timings.len() / 4).min(3)..];
    let words: usize = counted.iter().map(|timing| timing.words).sum();
    let seconds: f64 = counted.iter().map(|timing| timing.seconds).sum();
    (words > 0).then(|| words as f64 / seconds.max(1e-9))
}

/// Up to [`SAMPLE`] sentences at even distances, and how many of them are cut to [`LONGEST`] words.
fn sample(sentences: &[Sentence]) -> (Vec<Sentence>, usize) {
    let count = sentences.len().min(SAMPLE);
    let chosen = (0..count).map(|index| &sentences[index * sentences.len() / count]);
    let mut cut = 0;
    let chosen = chosen.map(|sentence| {
        if sentence.len() <= LONGEST {
            return sentence.clone();
        }
        cut += 1;
        shortened(sentence, LONGEST)
    });
    (chosen.collect(), cut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Entity;
    use crate::{device, registry};

    fn timings(list: &[(usize, f64)]) -> Vec<Timing> {
        list.iter()
            .map(|(words, seconds)| Timing {
                words: *words,
                seconds: *seconds,
            })
            .collect()
    }

    #[test]
    fn a_run_takes_training_and_prediction() {
        let speed = Speed {
            training: 100.0,
            prediction: 1000.0,
            is_limit: false,
            cut: 0,
            sample: 10,
        };
        let amount = |words| Amount {
            sentences: words / 10,
            words,
        };
        // 3 · (50 + 2) + 1.
        assert_eq!(
            speed.seconds(3, amount(5000), amount(2000), amount(1000)),
            157.0
        );
    }

    #[test]
    fn the_first_steps_do_not_count() {
        assert_eq!(words_per_second(&timings(&[])), None);
        assert_eq!(words_per_second(&timings(&[(30, 3.0)])), Some(10.0));
        let four = [(30, 9.0), (30, 3.0), (60, 3.0), (30, 3.0)];
        assert_eq!(words_per_second(&timings(&four)), Some(120.0 / 9.0));
    }

    #[test]
    fn a_step_that_does_not_end_gives_a_limit() {
        let second = Duration::from_secs(1);
        let speed = Timings::default().speed(40, second, 0, 5);
        assert!(speed.is_limit);
        assert_eq!((speed.training, speed.prediction), (20.0, 20.0));
        // A thread that reports nothing after loading is not waited for.
        let (events, received) = channel();
        events.send(Event::Ready).unwrap();
        let start = Instant::now();
        let time = Duration::from_millis(20);
        assert!(collect(&received, time).unwrap().trained.is_empty());
        assert!(start.elapsed() >= 2 * time);
        drop(events);
    }

    #[test]
    fn long_sentences_are_cut_and_many_are_thinned_out() {
        let mut long = Sentence::from_words(std::iter::repeat_n("w", 500));
        long.entities = vec![Entity::new(1, 2, "A"), Entity::new(127, 129, "A")];
        let (chosen, cut) = sample(&[long, Sentence::from_words(["a"])]);
        assert_eq!((chosen.len(), cut), (2, 1));
        assert_eq!((chosen[0].len(), chosen[0].entities.len()), (128, 1));
        let many: Vec<Sentence> = (0..4096)
            .map(|number| Sentence::from_words([number.to_string()]))
            .collect();
        let (chosen, cut) = sample(&many);
        assert_eq!((chosen.len(), cut), (1024, 0));
        assert_eq!(
            (chosen[0].text.as_str(), chosen[1].text.as_str()),
            ("0", "4")
        );
    }

    #[test]
    fn a_small_model_is_measured() {
        let text = "[data]\ncorpus = \"quickstart\"\n[head]\nname = \"seq_ner\"\n[train]\nbatch = 2\n\
                    [encoder.scratch]\nvocabulary = 60\nlayers = 1\nwidth = 16\nheads = 2\nfeed_forward = 16\n";
        let recipe = Recipe::parse(text, "r.toml", &[]).unwrap();
        let mut sentence = Sentence::from_words(["Anna", "sings"]);
        sentence.entities = vec![Entity::new(0, 1, "PER")];
        let train = vec![sentence; 20];
        let entry = registry::find("seq_ner").unwrap();
        let time = Duration::from_millis(200);
        let measure = |recipe: &Recipe| measure(entry, recipe, &train, &[], &device::cpu(), time);
        let speed = measure(&recipe).unwrap();
        assert!(!speed.is_limit);
        assert!(speed.training > 0.0 && speed.prediction > 0.0);
        assert_eq!((speed.cut, speed.sample), (0, 20));
        let mut wrong = recipe.clone();
        wrong.encoder.scratch.as_mut().unwrap().heads = 3;
        let problem = measure(&wrong).unwrap_err().to_string();
        assert!(problem.contains("attention heads"), "{problem}");
    }
}
