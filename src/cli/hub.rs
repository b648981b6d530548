//! Downloads of models on the command line: `--offline`, and a progress bar.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use burn::train::Interrupter;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use crate::hub::{Hub, OnProgress, Progress};

/// Time between lines of progress where standard error is not a terminal.
const EVERY: Duration = Duration::from_secs(10);

/// Where models are found by name.
#[derive(Debug, Args)]
pub(super) struct HubArgs {
    /// Download nothing: use only models on this machine. HF_HUB_OFFLINE=1 does the same.
    #[arg(long)]
    offline: bool,
}

impl HubArgs {
    /// The hub of the environment, with a progress bar. Downloads stop when the interrupter says so.
    pub(super) fn hub(&self, interrupter: Option<&Interrupter>) -> Hub {
        self.hub_with("downloading", interrupter)
    }

    /// The same for uploads.
    pub(super) fn uploading_hub(&self) -> Hub {
        self.hub_with("uploading", None)
    }

    fn hub_with(&self, verb: &'static str, interrupter: Option<&Interrupter>) -> Hub {
        let interrupter = interrupter.cloned();
        let shown = Mutex::new(Shown {
            verb,
            bar: None,
            last: None,
        });
        let hub = Hub::from_env().with_progress(OnProgress::new(move |progress| {
            if let Ok(mut shown) = shown.lock() {
                shown.update(progress);
            }
            match &interrupter {
                Some(interrupter) if interrupter.should_stop() => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }));
        if self.offline { hub.offline() } else { hub }
    }
}

/// The progress of one download or upload as it is shown.
struct Shown {
    verb: &'static str,
    bar: Option<ProgressBar>,
    last: Option<Instant>,
}

impl Shown {
    fn update(&mut self, progress: Progress<'_>) {
        if !std::io::stderr().is_terminal() {
            return self.print(progress);
        }
        let bar = self.bar.get_or_insert_with(|| new_bar(progress.source));
        bar.set_length(progress.total);
        bar.set_position(progress.done);
        bar.set_message(progress.file.to_string());
        if progress.file.is_empty() {
            bar.finish_and_clear();
            self.bar = None;
        }
    }

    fn print(&mut self, progress: Progress<'_>) {
        let is_due = self.last.is_none_or(|last| last.elapsed() >= EVERY);
        if (is_due || progress.file.is_empty()) && progress.total > 0 {
            self.last = Some(Instant::now());
            let megabytes = |bytes: u64| bytes as f64 / 1e6;
            eprintln!(
                "{} {}: {:.1} of {:.1} MB",
                self.verb,
                progress.source,
                megabytes(progress.done),
                megabytes(progress.total)
            );
        }
    }
}

fn new_bar(source: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(
        "{prefix}  {bar:30} {decimal_bytes}/{decimal_total_bytes}  {decimal_bytes_per_sec}  {eta} left  {msg}",
    );
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(0)
        .with_style(style)
        .with_prefix(source.to_string())
}
