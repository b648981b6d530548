//! `nerzoo predict`: texts in, JSON lines out, in order.

use std::io::{BufRead, BufReader, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, sync_channel};

use anyhow::{Context, Result};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use super::format::FormatArgs;
use super::{DeviceArgs, ModelArgs};
use crate::data::{self, Format, words};
use crate::model::tagger::Tagger;
use crate::registry;
use crate::text::{Mention, Sentence};

/// Lines tagged together; enough to sort by length, few enough to stream.
const CHUNK: usize = 512;

/// Arguments of `predict`.
#[derive(Debug, Args)]
pub struct Predict {
    /// A model folder, or the folder of an unfinished run (its best checkpoint).
    #[arg(long, short)]
    model: PathBuf,
    /// Texts, one per line; `.jsonl` with `text` or `tokens`; or a file in another format, compressed or not. `-` is standard
    /// input.
    #[arg(default_value = "-")]
    file: PathBuf,
    #[command(flatten)]
    format: FormatArgs,
    /// Leave out mentions below this score. The scores of a calibrated model, as `train` makes them by default, are
    /// probabilities: of the mentions with a score of about 0.9, about 90 % are correct.
    #[arg(long, default_value_t = 0.0, value_name = "SCORE")]
    threshold: f32,
    #[command(flatten)]
    settings: ModelArgs,
    #[command(flatten)]
    device: DeviceArgs,
}

/// One line of input: a sentence, or why it could not be read.
type Item = std::result::Result<Sentence, String>;

impl Predict {
    /// Tags everything; fails when a line could not be read.
    pub fn run(self) -> Result<ExitCode> {
        let device = self.device.device()?;
        let tagger = registry::load(&self.model, &device, &self.settings.overrides()?)?;
        if self.threshold > 0.0 && !tagger.is_calibrated() {
            tracing::info!(
                "--threshold {}: the scores of this model are not calibrated, or not for these settings, so they need \
                 not be probabilities",
                self.threshold
            );
        }
        let items = self.items(tagger.context())?;
        let bar = self.progress_bar();
        let mut out = BufWriter::new(std::io::stdout().lock());
        let (mut number, mut bad) = (0, 0);
        while let Ok(first) = items.recv() {
            let mut chunk = vec![first];
            // Takes the lines that are there already, without waiting for a full chunk.
            chunk.extend(items.try_iter().take(CHUNK - 1));
            bad += self.tag_chunk(tagger.as_ref(), chunk, &mut number, &mut out)?;
            out.flush()?;
            bar.set_position(number as u64);
        }
        bar.finish_and_clear();
        if bad > 0 {
            eprintln!("{bad} of {number} lines could not be read; their output lines say why");
            return Ok(ExitCode::FAILURE);
        }
        Ok(ExitCode::SUCCESS)
    }

    fn tag_chunk(
        &self,
        tagger: &dyn Tagger,
        chunk: Vec<Item>,
        number: &mut usize,
        out: &mut impl Write,
    ) -> Result<usize> {
        let sentences: Vec<Sentence> = chunk
            .iter()
            .filter_map(|item| item.as_ref().ok().cloned())
            .collect();
        let mut found = tagger.tag(&sentences)?.into_iter();
        let mut bad = 0;
        for item in chunk {
            *number += 1;
            let line = match item {
                Ok(sentence) => self.line(&sentence, &found.next().unwrap_or_default()),
                Err(problem) => {
                    bad += 1;
                    json!({"line": *number, "error": problem})
                }
            };
            writeln!(out, "{line}")?;
        }
        Ok(bad)
    }

    fn line(&self, sentence: &Sentence, mentions: &[Mention]) -> Value {
        let entities: Vec<Value> = mentions
            .iter()
            .filter(|mention| mention.score >= self.threshold)
            .map(|mention| {
                let span = mention.entity.span;
                let (start, end) = sentence.characters(span);
                json!({
                    "start": start,
                    "end": end,
                    "label": mention.entity.label,
                    "score": (mention.score as f64 * 1e6).round() / 1e6,
                    "text": sentence.surface(span),
                })
            })
            .collect();
        json!({"text": sentence.text, "entities": entities})
    }

    /// The input as a stream. Texts and JSON lines are read as they arrive; other formats are read as a whole, and only
    /// those give a sentence the `context` sentences around it.
    fn items(&self, context: usize) -> Result<Receiver<Item>> {
        let is_json = match self.line_format()? {
            Some(format) => format != Format::PlainText,
            None => return self.whole_file(context),
        };
        let parse: fn(&str) -> Item = if is_json {
            parse_json
        } else {
            |line| Ok(words::sentence(line, Default::default()))
        };
        let input = data::open_stream(&self.file)?;
        let (sender, receiver) = sync_channel(2 * CHUNK);
        std::thread::spawn(move || {
            let mut reader = BufReader::new(input);
            let mut line = Vec::new();
            let mut is_first = true;
            loop {
                line.clear();
                let item = match reader.read_until(b'\n', &mut line) {
                    Ok(0) => return,
                    Ok(_) => match std::str::from_utf8(&line) {
                        Ok(text) => {
                            let text = text.trim_end_matches(['\n', '\r']);
                            // A byte-order mark is not part of the first text.
                            let text = if is_first {
                                text.trim_start_matches('\u{feff}')
                            } else {
                                text
                            };
                            is_first = false;
                            if is_json && text.trim().is_empty() {
                                continue;
                            }
                            parse(text)
                        }
                        Err(problem) => {
                            Err(format!("not UTF-8 after byte {}", problem.valid_up_to()))
                        }
                    },
                    Err(problem) => {
                        let _ = sender.send(Err(format!("cannot be read: {problem}")));
                        return;
                    }
                };
                if sender.send(item).is_err() {
                    return;
                }
            }
        });
        Ok(receiver)
    }

    fn is_stdin(&self) -> bool {
        self.file == Path::new("-")
    }

    /// The format, if it has one text per line; `None` for files that must be read as a whole.
    fn line_format(&self) -> Result<Option<Format>> {
        let ending = data::file_extension(&self.file);
        let format = match (self.format.format, ending.as_deref()) {
            (Some(format), _) => format,
            (None, _) if self.format.has_column_options() => Format::Columns,
            (None, Some("jsonl" | "ndjson")) => Format::TextJsonl,
            (None, Some("txt")) => Format::PlainText,
            (None, _) if data::is_stream(&self.file) => Format::PlainText,
            (None, _) => data::detect_format(&self.file).unwrap_or(Format::PlainText),
        };
        Ok(match format {
            Format::PlainText | Format::TextJsonl | Format::TokensJsonl => Some(format),
            _ => None,
        })
    }

    fn whole_file(&self, context: usize) -> Result<Receiver<Item>> {
        let options = self.format.options();
        let mut sentences = data::read(&self.file, &options).context("reading the input")?;
        data::link_context(&mut sentences, context);
        let (sender, receiver) = sync_channel(sentences.len().max(1));
        for sentence in sentences {
            sender.send(Ok(sentence))?;
        }
        Ok(receiver)
    }

    /// A progress bar on standard error for files; the end of a pipe or of terminal input is unknown.
    fn progress_bar(&self) -> ProgressBar {
        if self.is_stdin() || !std::io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let file = std::fs::File::open(&self.file).map(BufReader::new);
        let lines = file.map_or(0, |reader| reader.split(b'\n').count());
        let style =
            ProgressStyle::with_template("{bar:40} {pos}/{len} texts  {per_sec}  {eta} left")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
        ProgressBar::new(lines as u64).with_style(style)
    }
}

/// `{"text": ...}`, or `{"tokens": [...]}`.
fn parse_json(line: &str) -> Item {
    let value: Value =
        serde_json::from_str(line).map_err(|problem| format!("not JSON: {problem}"))?;
    let text = value["text"].as_str();
    let Some(tokens) = value["tokens"].as_array() else {
        let text = text.ok_or("needs a `text` (a string) or `tokens` (a list of strings)")?;
        return Ok(words::sentence(text, Default::default()));
    };
    let tokens: Option<Vec<&str>> = tokens.iter().map(Value::as_str).collect();
    let tokens = tokens.ok_or("`tokens` has an element that is not a string")?;
    // Given both, the words are the tokens, and the offsets count in the text.
    match text {
        Some(text) => words::align(text, &tokens)
            .ok_or("the `tokens` do not stand in the `text` in this order".into()),
        None => Ok(Sentence::from_words(tokens)),
    }
}
