//! A line on the terminal while something takes long.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A text with the elapsed time on standard error, if that is a terminal. It disappears in the end.
pub struct Spinner(ProgressBar);

impl Spinner {
    /// Shows the text.
    pub fn start(text: &str) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let style = ProgressStyle::with_template("{spinner} {msg}  {elapsed}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_spinner());
        let bar = ProgressBar::new_spinner()
            .with_style(style)
            .with_message(text.to_string());
        bar.enable_steady_tick(Duration::from_millis(100));
        Self(bar)
    }

    /// Shows another text.
    pub fn set(&self, text: &str) {
        self.0.set_message(text.to_string());
    }

    /// Removes the line.
    pub fn stop(self) {}
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
