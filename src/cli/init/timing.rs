//! How long the new recipe will take to train on this machine.

use std::time::Duration;

use anyhow::Result;

use super::Parts;
use crate::bench::estimate::{self, Amount, Speed};
use crate::cli::DeviceArgs;
use crate::device;
use crate::recipe::Recipe;
use crate::registry::Entry;

/// Time of the measurement.
const TIME: Duration = Duration::from_secs(10);

/// A part of the time that is worth mentioning.
const LARGE_SHARE: f64 = 0.3;

/// Measures the speed and says how long the recipe takes, as in "about 14 minutes for 12 epochs ...". None, with a warning,
/// if it cannot be measured.
pub fn describe(
    device: &DeviceArgs,
    entry: &'static Entry,
    recipe: &Recipe,
    parts: &Parts,
) -> Result<Option<String>> {
    let chosen = device.device()?;
    eprintln!(
        "measuring the speed of training for about {} seconds (--no-timing leaves this out) ...",
        TIME.as_secs()
    );
    let machine = if chosen == device::cpu() {
        let threads = rayon::current_num_threads();
        format!(
            "cpu, {threads} thread{}",
            if threads == 1 { "" } else { "s" }
        )
    } else {
        device.device.clone()
    };
    match estimate::measure(entry, recipe, &parts.train, &parts.dev, &chosen, TIME) {
        Ok(speed) => Ok(Some(text(&speed, &Run::of(recipe, parts), &machine))),
        Err(problem) => {
            tracing::warn!("how long training takes could not be measured: {problem}");
            Ok(None)
        }
    }
}

/// The amount of work of a run.
struct Run {
    epochs: usize,
    patience: usize,
    train: Amount,
    dev: Amount,
    test: Amount,
}

impl Run {
    fn of(recipe: &Recipe, parts: &Parts) -> Self {
        let (mut train, mut dev) = (Amount::of(&parts.train), Amount::of(&parts.dev));
        let held = parts.held_out();
        if held > 0 {
            let words = train.words * held / train.sentences.max(1);
            dev = Amount {
                sentences: held,
                words,
            };
            train.sentences -= held;
            train.words -= words;
        }
        Self {
            epochs: recipe.train.epochs,
            patience: recipe.train.patience,
            train,
            dev,
            test: Amount::of(&parts.test),
        }
    }
}

fn text(speed: &Speed, run: &Run, machine: &str) -> String {
    let seconds = speed.seconds(run.epochs, run.train, run.dev, run.test);
    let per_second = |words: f64| {
        let mean = run.train.words as f64 / run.train.sentences.max(1) as f64;
        words / mean.max(1e-9)
    };
    let bound = if speed.is_limit { "more than" } else { "about" };
    let mut text = format!(
        "{bound} {} for {} epochs on this machine ({machine}): ",
        duration(seconds),
        run.epochs
    );
    if speed.is_limit {
        text += "the first step did not end within the measurement";
        return text;
    }
    text += &format!(
        "{} sentences/s in training",
        rate(per_second(speed.training))
    );
    let of_dev = (run.epochs * run.dev.words) as f64 / speed.prediction;
    if of_dev > LARGE_SHARE * seconds {
        text += &format!(
            "; scoring dev takes {:.0} % of it",
            100.0 * of_dev / seconds
        );
    }
    if run.patience > 0 {
        text += "; less if it stops early";
    }
    if speed.cut > 0 {
        text += &format!(
            "; {:.0} % of the sentences are longer than {} words and were cut for this measurement, so it may take longer",
            (100.0 * speed.cut as f64 / speed.sample.max(1) as f64).ceil(),
            estimate::LONGEST
        );
    }
    text
}

/// A speed with two or three digits.
fn rate(speed: f64) -> String {
    if speed < 10.0 {
        format!("{speed:.1}")
    } else {
        format!("{speed:.0}")
    }
}

/// A duration in words, rounded as an estimate deserves.
fn duration(seconds: f64) -> String {
    let (number, unit) = match seconds {
        s if s < 5.0 => return "5 seconds".into(),
        s if s < 100.0 => (((s / 5.0).round() * 5.0), "seconds"),
        s if s < 100.0 * 60.0 => ((s / 60.0).round(), "minutes"),
        s if s < 48.0 * 3600.0 => (((s / 1800.0).round() / 2.0), "hours"),
        s => ((s / 43_200.0).round() / 2.0, "days"),
    };
    format!("{number} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(sentences: usize) -> Amount {
        Amount {
            sentences,
            words: 20 * sentences,
        }
    }

    #[test]
    fn durations_are_rounded() {
        for (seconds, expected) in [
            (0.1, "5 seconds"),
            (42.0, "40 seconds"),
            (99.0, "100 seconds"),
            (110.0, "2 minutes"),
            (840.0, "14 minutes"),
            (5400.0, "90 minutes"),
            (9000.0, "2.5 hours"),
            (7.0 * 3600.0, "7 hours"),
            (3.0 * 86_400.0, "3 days"),
        ] {
            assert_eq!(duration(seconds), expected);
        }
    }

    #[test]
    fn the_estimate_names_epochs_machine_and_speed() {
        let mut speed = Speed {
            training: 620.0,
            prediction: 6200.0,
            is_limit: false,
            cut: 0,
            sample: 100,
        };
        let mut run = Run {
            epochs: 12,
            patience: 4,
            train: amount(1500),
            dev: amount(0),
            test: amount(0),
        };
        // 12 · 1500 / 31 = 581 seconds.
        assert_eq!(
            text(&speed, &run, "cpu, 2 threads"),
            "about 10 minutes for 12 epochs on this machine (cpu, 2 threads): 31 sentences/s in training; less if it stops \
             early"
        );
        run.dev = amount(15_000);
        run.patience = 0;
        speed.cut = 1;
        assert_eq!(
            text(&speed, &run, "cuda"),
            "about 19 minutes for 12 epochs on this machine (cuda): 31 sentences/s in training; scoring dev takes 50 % of it; \
             1 % of the sentences are longer than 128 words and were cut for this measurement, so it may take longer"
        );
        speed.is_limit = true;
        let limit = text(&speed, &run, "cpu, 1 thread");
        assert!(
            limit.starts_with("more than 19 minutes for 12 epochs"),
            "{limit}"
        );
    }

    #[test]
    fn held_out_sentences_are_not_trained_on() {
        let text = "[data]\ncorpus = \"quickstart\"\n[head]\nname = \"x\"\n[train]\nepochs = 7\npatience = 2\n";
        let recipe = Recipe::parse(text, "r.toml", &[]).unwrap();
        let parts = Parts {
            train: vec![crate::text::Sentence::from_words(["a", "b"]); 100],
            dev: Vec::new(),
            test: Vec::new(),
        };
        let run = Run::of(&recipe, &parts);
        assert_eq!((run.epochs, run.patience), (7, 2));
        assert_eq!((run.train.sentences, run.train.words), (90, 180));
        assert_eq!((run.dev.sentences, run.dev.words), (10, 20));
    }
}
