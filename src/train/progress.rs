//! Progress as text, one line every few seconds, for pipes and log files.

use std::time::{Duration, Instant};

use burn::train::logger::{EvaluationProgressLogger, TrainingProgressLogger};
use burn::train::metric::MetricDefinition;
use burn::train::renderer::{
    EvaluationName, MetricState, MetricsRenderer, MetricsRendererEvaluation,
    MetricsRendererTraining,
};

use super::state::RunState;

/// Prints the progress of a run to standard output.
#[derive(Debug)]
pub struct Reporter {
    silent: bool,
    every: Duration,
    last: Instant,
    batches: Vec<usize>,
    sentences_since: usize,
}

impl Reporter {
    /// A reporter for a run; `batches` is the number of batches of each epoch. A silent one prints nothing.
    pub fn new(silent: bool, seconds: f64, batches: Vec<usize>) -> Self {
        Self {
            silent,
            every: Duration::from_secs_f64(seconds.max(0.0)),
            last: Instant::now(),
            batches,
            sentences_since: 0,
        }
    }

    /// Reports a batch, at most one line every few seconds.
    pub fn step(&mut self, state: &RunState, sentences: usize, rate: f64) {
        self.sentences_since += sentences;
        let elapsed = self.last.elapsed();
        if self.silent || elapsed < self.every {
            return;
        }
        let done = self.batches[..state.epoch - 1].iter().sum::<usize>() + state.batch;
        let left = self.batches.iter().sum::<usize>().saturating_sub(done);
        let eta = state.seconds / done.max(1) as f64 * left as f64;
        let f1 = match state.curves.best().and_then(|best| best.dev_f1) {
            Some(f1) => format!("  best dev F1 {:.2}", 100.0 * f1),
            None => String::new(),
        };
        println!(
            "epoch {}/{}  batch {}/{}  loss {:.4}{f1}  {:.1} sentences/s  rate {rate:.2e}  ETA {}",
            state.epoch,
            self.batches.len(),
            state.batch,
            self.batches[state.epoch - 1],
            state.mean_loss(),
            self.sentences_since as f64 / elapsed.as_secs_f64().max(1e-9),
            clock(eta),
        );
        self.last = Instant::now();
        self.sentences_since = 0;
    }

    /// Reports the end of an epoch.
    pub fn epoch(&mut self, state: &RunState) {
        let Some(point) = state.curves.points.last().filter(|_| !self.silent) else {
            return;
        };
        let dev = match (
            point.dev_loss,
            point.dev_precision,
            point.dev_recall,
            point.dev_f1,
        ) {
            (Some(loss), Some(precision), Some(recall), Some(f1)) => format!(
                "  dev loss {loss:.4}  P {:.2}  R {:.2}  F1 {:.2}{}",
                100.0 * precision,
                100.0 * recall,
                100.0 * f1,
                if state.best_step == point.step {
                    "  (best)"
                } else {
                    ""
                }
            ),
            _ => "  (no dev sentences)".into(),
        };
        let other = match &state.other {
            Some((name, f1)) => format!("  ({name} F1 {:.2})", 100.0 * f1),
            None => String::new(),
        };
        println!(
            "epoch {}/{} done in {}  train loss {:.4}{dev}{other}",
            point.epoch,
            self.batches.len(),
            clock(point.seconds),
            point.train_loss,
        );
        self.last = Instant::now();
        self.sentences_since = 0;
    }
}

/// Seconds as `1h02m`, `3m07s` or `12s`.
pub fn clock(seconds: f64) -> String {
    let seconds = seconds.max(0.0).round() as u64;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

/// A renderer for Burn that shows nothing; [`Reporter`] prints progress instead.
pub struct NoRenderer;

impl MetricsRendererTraining for NoRenderer {
    fn update_train(&mut self, _: MetricState) {}
    fn update_valid(&mut self, _: MetricState) {}
}

impl MetricsRendererEvaluation for NoRenderer {
    fn update_test(&mut self, _: EvaluationName, _: MetricState) {}
}

impl TrainingProgressLogger for NoRenderer {
    fn start(&mut self, _: usize, _: usize, _: Option<usize>, _: Option<&str>) {}
    fn update_epoch(&mut self, _: usize) {}
    fn start_split(&mut self, _: &str, _: usize) {}
    fn update_split(&mut self, _: usize) {}
    fn end_split(&mut self) {}
    fn end(&mut self) {}
    fn log_event_training(&mut self, _: String) {}
}

impl EvaluationProgressLogger for NoRenderer {
    fn start_global_progress(&mut self, _: usize) {}
    fn start_test(&mut self, _: &str, _: usize) {}
    fn update_test_progress(&mut self, _: usize) {}
    fn end_test(&mut self) {}
    fn end_global_progress(&mut self) {}
    fn log_event_evaluation(&mut self, _: String) {}
}

impl MetricsRenderer for NoRenderer {
    fn manual_close(&mut self) {}
    fn register_metric(&mut self, _: MetricDefinition) {}
}

#[cfg(test)]
mod tests {
    use super::clock;

    #[test]
    fn clocks_read_well() {
        assert_eq!([9.6, 187.0, 3720.0].map(clock), ["10s", "3m07s", "1h02m"]);
    }
}
