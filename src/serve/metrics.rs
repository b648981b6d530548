//! Counters of the service, in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::process;

/// Upper bounds of the histogram of times, in seconds.
const SECONDS: [f64; 12] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0,
];

/// Upper bounds of the histogram of sentences in a batch.
const SENTENCES: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 256.0];

/// Counts of values up to each bound.
#[derive(Debug, Default, Clone)]
struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: f64,
}

impl Histogram {
    fn add(&mut self, value: f64, bounds: &[f64]) {
        self.counts.resize(bounds.len(), 0);
        for (count, bound) in self.counts.iter_mut().zip(bounds) {
            *count += u64::from(value <= *bound);
        }
        self.count += 1;
        self.sum += value;
    }

    fn write(&self, out: &mut String, name: &str, labels: &str, bounds: &[f64]) {
        let comma = if labels.is_empty() { "" } else { "," };
        for (index, bound) in bounds.iter().enumerate() {
            let count = self.counts.get(index).copied().unwrap_or(0);
            line(
                out,
                &format!("{name}_bucket{{{labels}{comma}le=\"{bound}\"}}"),
                count,
            );
        }
        line(
            out,
            &format!("{name}_bucket{{{labels}{comma}le=\"+Inf\"}}"),
            self.count,
        );
        let braces = if labels.is_empty() {
            String::new()
        } else {
            format!("{{{labels}}}")
        };
        line(out, &format!("{name}_sum{braces}"), self.sum);
        line(out, &format!("{name}_count{braces}"), self.count);
    }
}

/// Counters of a model.
#[derive(Debug, Default)]
pub(super) struct ModelMetrics {
    texts: AtomicU64,
    characters: AtomicU64,
    sentences: AtomicU64,
    pieces: AtomicU64,
    failed_batches: AtomicU64,
    dropped_sentences: AtomicU64,
    batches: Mutex<(Histogram, Histogram)>,
}

impl ModelMetrics {
    pub fn add_texts(&self, texts: usize, characters: usize) {
        self.texts.fetch_add(texts as u64, Ordering::Relaxed);
        self.characters
            .fetch_add(characters as u64, Ordering::Relaxed);
    }

    pub fn start_batch(&self, sentences: usize, pieces: usize) {
        self.sentences
            .fetch_add(sentences as u64, Ordering::Relaxed);
        self.pieces.fetch_add(pieces as u64, Ordering::Relaxed);
        let mut batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        batches.0.add(sentences as f64, &SENTENCES);
    }

    pub fn end_batch(&self, seconds: f64) {
        let mut batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        batches.1.add(seconds, &SECONDS);
    }

    pub fn fail_batch(&self) {
        self.failed_batches.fetch_add(1, Ordering::Relaxed);
    }

    pub fn drop_sentences(&self, count: usize) {
        self.dropped_sentences
            .fetch_add(count as u64, Ordering::Relaxed);
    }
}

/// Counters of requests.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    /// By route and status.
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
    seconds: Mutex<Histogram>,
    pub in_flight: AtomicU64,
}

impl Metrics {
    pub fn add_request(&self, route: &'static str, status: u16, time: Duration) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry((route, status)).or_default() += 1;
        drop(requests);
        let mut seconds = self.seconds.lock().unwrap_or_else(PoisonError::into_inner);
        seconds.add(time.as_secs_f64(), &SECONDS);
    }

    /// All counters; of each model its name, its counters and the pieces that wait.
    pub fn text<'a>(
        &self,
        models: impl Iterator<Item = (&'a str, &'a Arc<ModelMetrics>, usize)>,
    ) -> String {
        let mut out = String::new();
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        head(
            &mut out,
            "nerzoo_requests_total",
            "counter",
            "Answered requests by route and status.",
        );
        for ((route, status), count) in requests.iter() {
            let name = format!("nerzoo_requests_total{{route=\"{route}\",status=\"{status}\"}}");
            line(&mut out, &name, count);
        }
        drop(requests);
        head(
            &mut out,
            "nerzoo_requests_in_flight",
            "gauge",
            "Requests that are being answered.",
        );
        line(
            &mut out,
            "nerzoo_requests_in_flight",
            self.in_flight.load(Ordering::Relaxed),
        );
        head(
            &mut out,
            "nerzoo_request_seconds",
            "histogram",
            "Time from a request's head to the head of its answer.",
        );
        let seconds = self.seconds.lock().unwrap_or_else(PoisonError::into_inner);
        seconds.write(&mut out, "nerzoo_request_seconds", "", &SECONDS);
        drop(seconds);
        let models: Vec<(String, &Arc<ModelMetrics>, usize)> = models
            .map(|(name, metrics, waiting)| {
                (format!("model=\"{}\"", label_value(name)), metrics, waiting)
            })
            .collect();
        type Counter = fn(&ModelMetrics) -> &AtomicU64;
        let counters: [(&str, &str, Counter); 6] = [
            ("nerzoo_texts_total", "Texts that were taken.", |m| &m.texts),
            (
                "nerzoo_characters_total",
                "Characters of these texts.",
                |m| &m.characters,
            ),
            (
                "nerzoo_sentences_total",
                "Sentences and windows that were tagged.",
                |m| &m.sentences,
            ),
            (
                "nerzoo_pieces_total",
                "Word pieces that were tagged.",
                |m| &m.pieces,
            ),
            (
                "nerzoo_failed_batches_total",
                "Batches in which the tagger failed.",
                |m| &m.failed_batches,
            ),
            (
                "nerzoo_dropped_sentences_total",
                "Sentences that were not tagged because their client was gone.",
                |m| &m.dropped_sentences,
            ),
        ];
        for (name, help, counter) in counters {
            head(&mut out, name, "counter", help);
            for (label, metrics, _) in &models {
                let value = counter(metrics).load(Ordering::Relaxed);
                line(&mut out, &format!("{name}{{{label}}}"), value);
            }
        }
        head(
            &mut out,
            "nerzoo_queue_pieces",
            "gauge",
            "Word pieces that wait to be tagged.",
        );
        for (label, _, waiting) in &models {
            line(
                &mut out,
                &format!("nerzoo_queue_pieces{{{label}}}"),
                waiting,
            );
        }
        for (name, help, bounds, is_time) in [
            (
                "nerzoo_batch_sentences",
                "Sentences of a batch.",
                &SENTENCES[..],
                false,
            ),
            (
                "nerzoo_batch_seconds",
                "Time to tag a batch.",
                &SECONDS[..],
                true,
            ),
        ] {
            head(&mut out, name, "histogram", help);
            for (label, metrics, _) in &models {
                let batches = (metrics.batches.lock()).unwrap_or_else(PoisonError::into_inner);
                let histogram = if is_time { &batches.1 } else { &batches.0 };
                histogram.write(&mut out, name, label, bounds);
            }
        }
        if let Some(seconds) = process::cpu_seconds() {
            head(
                &mut out,
                "process_cpu_seconds_total",
                "counter",
                "CPU time of the process.",
            );
            line(&mut out, "process_cpu_seconds_total", seconds);
        }
        out
    }
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(out: &mut String, name: &str, value: impl std::fmt::Display) {
    let _ = writeln!(out, "{name} {value}");
}

/// A label's value with the escapes of the format.
fn label_value(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_every_counter() {
        let metrics = Metrics::default();
        metrics.add_request("/v1/tag", 200, Duration::from_millis(3));
        let model = Arc::new(ModelMetrics::default());
        model.add_texts(2, 30);
        model.start_batch(3, 40);
        model.end_batch(0.02);
        let text = metrics.text([("a\"b\\c\n", &model, 7)].into_iter());
        for part in [
            "nerzoo_requests_total{route=\"/v1/tag\",status=\"200\"} 1\n",
            "nerzoo_request_seconds_bucket{le=\"0.0025\"} 0\n",
            "nerzoo_request_seconds_bucket{le=\"0.005\"} 1\n",
            "nerzoo_request_seconds_count 1\n",
            "nerzoo_texts_total{model=\"a\\\"b\\\\c\\n\"} 2\n",
            "nerzoo_queue_pieces{model=\"a\\\"b\\\\c\\n\"} 7\n",
            "nerzoo_batch_sentences_bucket{model=\"a\\\"b\\\\c\\n\",le=\"4\"} 1\n",
            "nerzoo_batch_seconds_sum{model=\"a\\\"b\\\\c\\n\"} 0.02\n",
        ] {
            assert!(text.contains(part), "no {part:?} in\n{text}");
        }
        let is_valid = |line: &str| line.starts_with("# ") || line.rsplit_once(' ').is_some();
        assert!(text.lines().all(is_valid));
    }
}
