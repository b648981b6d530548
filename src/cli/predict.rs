//! `nerzoo predict`: texts in, mentions out, in order.

use std::io::{BufReader, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, sync_channel};

use anyhow::{Context, Result};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use super::format::ReadArgs;
use super::hub::HubArgs;
use super::predict_input::{self, Input};
use super::predict_output::{Mark, OutputArgs};
use super::{DeviceArgs, ModelArgs};
use crate::data::input_text::InputText;
use crate::data::{self, Format, ReadOptions, SentenceCutting};
use crate::model::document::{DocumentSettings, TagQueue, Tagged, TextSentences};
use crate::registry;
use crate::text::{Mention, Sentence};
use crate::zoo::Zoo;

/// Arguments of `predict`.
#[derive(Debug, Args)]
pub struct Predict {
    /// A model: a folder, the folder of an unfinished run (its best checkpoint), a name that `nerzoo zoo list` shows,
    /// hf:OWNER/NAME, or an http(s) address [default: the default model of the zoo].
    #[arg(long, short)]
    model: Option<String>,
    /// Texts, one per line, of any length; `.jsonl` with `text` or `tokens`; or a corpus file in any format, compressed or not.
    /// `-` is standard input.
    #[arg(default_value = "-")]
    file: PathBuf,
    /// The input's format, if it is not detected: text, text_jsonl, tokens_jsonl, columns or any other that can be read.
    #[arg(long, value_name = "FORMAT")]
    input_format: Option<Format>,
    #[command(flatten)]
    reading: ReadArgs,
    #[command(flatten)]
    output: OutputArgs,
    /// Leave out mentions below this score. The scores of a calibrated model, as `train` makes them by default, are
    /// probabilities: of the mentions with a score of about 0.9, about 90 % are correct.
    #[arg(long, default_value_t = 0.0, value_name = "SCORE", value_parser = score)]
    threshold: f32,
    /// Take every text as one sentence, like `--sentences whole`. By default it is cut into sentences, and no mention crosses the end of one.
    #[arg(long)]
    whole: bool,
    /// Tag sentences of up to N words as a whole; longer ones are cut into windows that overlap. By default it depends on
    /// what the head computes for a sentence.
    #[arg(long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    longest: Option<usize>,
    #[command(flatten)]
    settings: ModelArgs,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    hub: HubArgs,
}

/// A score on the command line.
fn score(text: &str) -> Result<f32, String> {
    match text.parse() {
        Ok(score) if (0.0..=1.0).contains(&score) => Ok(score),
        _ => Err("expected a number from 0 to 1".into()),
    }
}

impl Predict {
    /// Tags everything; fails when a line could not be read.
    pub fn run(self) -> Result<ExitCode> {
        let device = self.device.device()?;
        let zoo = Zoo::with_hub(self.hub.hub(None));
        let model = match &self.model {
            Some(name) => zoo.find(name)?,
            None => zoo.default_model()?,
        };
        let mut tagger = registry::load(&model, &device, &self.settings.overrides()?)?;
        if let Some(longest) = self.longest {
            tagger.set_longest(longest);
        }
        if self.threshold > 0.0 && !tagger.is_calibrated() {
            tracing::info!(
                "--threshold {}: the scores of this model are not calibrated, or not for these settings, so they need \
                 not be probabilities",
                self.threshold
            );
        }
        let mut settings = tagger.document_settings();
        settings.whole = self.is_whole();
        let inputs = self.inputs(settings)?;
        let bar = self.progress_bar();
        if self.is_stdin() && std::io::stdin().is_terminal() {
            eprintln!("reading texts from the terminal, one per line; Ctrl-D ends the input");
        }
        let mut output = self.output.open(&model, self.threshold)?;
        let mut queue = TagQueue::new(|sentences: &[Sentence]| tagger.tag(sentences), settings);
        let mut done = |tagged: Tagged<Mark>| output.add(tagged);
        let mut next = inputs.recv().ok();
        while let Some(input) = next {
            let line = input.line;
            queue_input(input, settings, &mut queue, &mut done)?;
            bar.set_position(line as u64);
            // What is there already is tagged together; nothing waits for input that has not arrived.
            next = match inputs.try_recv() {
                Ok(input) => Some(input),
                Err(_) => {
                    queue.mark(Mark::Pause, &mut done)?;
                    queue.flush(&mut done)?;
                    inputs.recv().ok()
                }
            };
        }
        bar.finish_and_clear();
        let (records, bad) = (output.records, output.bad);
        let summary = output.finish()?;
        if summary.left_out > 0 {
            summary
                .notes()
                .iter()
                .for_each(|note| tracing::warn!("{note}"));
        }
        if bad > 0 {
            eprintln!("{bad} of {records} lines could not be read; their output lines say why");
            return Ok(ExitCode::FAILURE);
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The input as a stream. Texts and JSON lines are read as they arrive; other formats are read as a whole.
    fn inputs(&self, settings: DocumentSettings) -> Result<Receiver<Input>> {
        let Some(format) = self.line_format() else {
            return self.whole_file(settings);
        };
        let reader = data::open_stream(&self.file)?;
        Ok(predict_input::stream(reader, format != Format::PlainText))
    }

    fn reading_options(&self) -> ReadOptions {
        self.reading.options(self.input_format)
    }

    fn is_whole(&self) -> bool {
        self.whole || self.reading_options().sentences == Some(SentenceCutting::Whole)
    }

    fn is_stdin(&self) -> bool {
        self.file == Path::new("-")
    }

    /// The format, if it has one text per line; `None` for files that must be read as a whole.
    fn line_format(&self) -> Option<Format> {
        let ending = data::file_extension(&self.file);
        let format = match (self.input_format, ending.as_deref()) {
            (Some(format), _) => format,
            (None, _) if self.reading.has_column_options() => Format::Columns,
            (None, Some("jsonl" | "ndjson")) => Format::TextJsonl,
            (None, Some("txt")) => Format::PlainText,
            (None, _) if data::is_stream(&self.file) => Format::PlainText,
            (None, _) => data::detect_format(&self.file).unwrap_or(Format::PlainText),
        };
        let has_lines = matches!(
            format,
            Format::PlainText | Format::TextJsonl | Format::TokensJsonl
        );
        has_lines.then_some(format)
    }

    /// The records of a corpus file: sentences, or documents of several.
    fn whole_file(&self, settings: DocumentSettings) -> Result<Receiver<Input>> {
        let mut options = self.reading_options();
        options.segmentation = options.segmentation.or(Some(settings.segmentation));
        if self.is_whole() {
            options.sentences = Some(SentenceCutting::Whole);
        }
        let mut sentences = data::read(&self.file, &options).context("reading the input")?;
        data::link_context(&mut sentences, settings.context);
        let mut records: Vec<Vec<Sentence>> = Vec::new();
        for sentence in sentences {
            match records.last_mut() {
                // Sentences that were cut from the same text.
                Some(record) if sentence.offset > 0 && record[0].document == sentence.document => {
                    record.push(sentence)
                }
                _ => records.push(vec![sentence]),
            }
        }
        let (sender, receiver) = sync_channel(records.len().max(1));
        for (index, record) in records.into_iter().enumerate() {
            sender.send(Input::new(index + 1, Ok(InputText::Sentences(record))))?;
        }
        Ok(receiver)
    }

    /// A progress bar on standard error for files; the end of a pipe or of terminal input is unknown.
    fn progress_bar(&self) -> ProgressBar {
        if self.is_stdin() || !std::io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let file = std::fs::File::open(&self.file).map(BufReader::new);
        let lines = file.map_or(0, predict_input::count_lines);
        let style =
            ProgressStyle::with_template("{bar:40} {pos}/{len} texts  {per_sec}  {eta} left")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
        ProgressBar::new(lines).with_style(style)
    }
}

/// Puts the sentences of an input record and its end into the queue.
fn queue_input<F>(
    input: Input,
    settings: DocumentSettings,
    queue: &mut TagQueue<F, Mark>,
    done: &mut impl FnMut(Tagged<Mark>) -> Result<()>,
) -> Result<()>
where
    F: FnMut(&[Sentence]) -> crate::error::Result<Vec<Vec<Mention>>>,
{
    let Input { line, text, .. } = input;
    match text {
        Ok(InputText::Plain(text)) => {
            for sentence in TextSentences::new(&text, settings) {
                queue.push(sentence, done)?;
            }
        }
        Ok(InputText::Sentences(sentences)) => {
            for sentence in sentences {
                queue.push(sentence, done)?;
            }
        }
        Err(problem) => return queue.mark(Mark::Unreadable(line, problem), done),
    }
    queue.mark(Mark::End, done)
}
