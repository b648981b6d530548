//! `nerzoo predict`: texts in, JSON lines out, in order.

use std::io::{BufReader, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, sync_channel};

use anyhow::{Context, Result};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::json;

use super::format::FormatArgs;
use super::predict_input::{self, Input, Text};
use super::{DeviceArgs, ModelArgs};
use crate::data::{self, Format, SentenceCutting};
use crate::model::document::{DocumentSettings, TagQueue, Tagged, TextSentences};
use crate::model::tagger::{TextMention, text_mentions};
use crate::registry;
use crate::text::{Mention, Sentence};

/// Arguments of `predict`.
#[derive(Debug, Args)]
pub struct Predict {
    /// A model folder, or the folder of an unfinished run (its best checkpoint).
    #[arg(long, short)]
    model: PathBuf,
    /// Texts, one per line, of any length; `.jsonl` with `text` or `tokens`; or a corpus file in any format, compressed or not.
    /// `-` is standard input.
    #[arg(default_value = "-")]
    file: PathBuf,
    #[command(flatten)]
    format: FormatArgs,
    /// Leave out mentions below this score. The scores of a calibrated model, as `train` makes them by default, are
    /// probabilities: of the mentions with a score of about 0.9, about 90 % are correct.
    #[arg(long, default_value_t = 0.0, value_name = "SCORE")]
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
}

/// What stands between the sentences of the input.
enum Mark {
    /// The end of a record.
    End,
    /// A record that could not be read, with its number and the reason.
    Unreadable(usize, String),
    /// No more input is there: what was written is to be passed on.
    Pause,
}

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
        let mut settings = tagger.document_settings();
        settings.whole = self.is_whole();
        settings.longest = self.longest.unwrap_or(settings.longest);
        let inputs = self.inputs(settings)?;
        let bar = self.progress_bar();
        let mut output = Output::new(BufWriter::new(std::io::stdout().lock()), self.threshold);
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
        let Output { records, bad, .. } = output;
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

    fn is_whole(&self) -> bool {
        self.whole || self.format.options().sentences == Some(SentenceCutting::Whole)
    }

    fn is_stdin(&self) -> bool {
        self.file == Path::new("-")
    }

    /// The format, if it has one text per line; `None` for files that must be read as a whole.
    fn line_format(&self) -> Option<Format> {
        let ending = data::file_extension(&self.file);
        let format = match (self.format.format, ending.as_deref()) {
            (Some(format), _) => format,
            (None, _) if self.format.has_column_options() => Format::Columns,
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
        let mut options = self.format.options();
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
            sender.send(Input::new(index + 1, Ok(Text::Sentences(record))))?;
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
        Ok(Text::Plain(text)) => {
            for sentence in TextSentences::new(&text, settings) {
                queue.push(sentence, done)?;
            }
        }
        Ok(Text::Sentences(sentences)) => {
            for sentence in sentences {
                queue.push(sentence, done)?;
            }
        }
        Err(problem) => return queue.mark(Mark::Unreadable(line, problem), done),
    }
    queue.mark(Mark::End, done)
}

/// Collects the sentences of a record and writes it at its end.
struct Output<W: Write> {
    out: W,
    threshold: f32,
    /// Number of records, and of those that could not be read.
    records: usize,
    bad: usize,
    /// The record so far.
    text: String,
    mentions: Vec<TextMention>,
}

impl<W: Write> Output<W> {
    fn new(out: W, threshold: f32) -> Self {
        Self {
            out,
            threshold,
            records: 0,
            bad: 0,
            text: String::new(),
            mentions: Vec::new(),
        }
    }

    fn add(&mut self, tagged: Tagged<Mark>) -> Result<()> {
        match tagged {
            Tagged::Sentence(sentence, mut mentions) => {
                mentions.retain(|mention| mention.score >= self.threshold);
                self.mentions.extend(text_mentions(&sentence, mentions));
                self.text += &sentence.text;
                self.text += &sentence.trailing;
            }
            Tagged::Mark(Mark::Pause) => self.out.flush()?,
            Tagged::Mark(Mark::End) => {
                self.records += 1;
                let text = std::mem::take(&mut self.text);
                let mentions = std::mem::take(&mut self.mentions);
                write_record(&mut self.out, &text, &mentions)?;
            }
            Tagged::Mark(Mark::Unreadable(line, problem)) => {
                self.records += 1;
                self.bad += 1;
                writeln!(self.out, "{}", json!({"line": line, "error": problem}))?;
            }
        }
        Ok(())
    }
}

/// Writes a record as a JSON line.
fn write_record(out: &mut impl Write, text: &str, mentions: &[TextMention]) -> Result<()> {
    #[derive(Serialize)]
    struct Entity<'a> {
        start: usize,
        end: usize,
        label: &'a str,
        score: f64,
        text: &'a str,
    }
    #[derive(Serialize)]
    struct Record<'a> {
        text: &'a str,
        entities: Vec<Entity<'a>>,
    }
    fn entity(mention: &TextMention) -> Entity<'_> {
        Entity {
            start: mention.start,
            end: mention.end,
            label: &mention.label,
            score: (f64::from(mention.score) * 1e6).round() / 1e6,
            text: &mention.text,
        }
    }
    let entities = mentions.iter().map(entity).collect();
    serde_json::to_writer(&mut *out, &Record { text, entities })?;
    writeln!(out)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::words;
    use crate::text::Entity;

    #[test]
    fn records_are_written_in_order_with_offsets_in_the_text() {
        let mut written = Vec::new();
        let mut output = Output::new(&mut written, 0.5);
        let mut sentence = words::sentence("in 北京.", Default::default());
        sentence.trailing = "\n".to_string();
        let mention = |start, end, score| Mention {
            entity: Entity::new(start, end, "LOC"),
            score,
        };
        output
            .add(Tagged::Sentence(
                sentence.clone(),
                vec![mention(1, 3, 0.75), mention(0, 1, 0.25)],
            ))
            .unwrap();
        sentence.offset = 7;
        output
            .add(Tagged::Sentence(sentence, vec![mention(1, 3, 1.0)]))
            .unwrap();
        output.add(Tagged::Mark(Mark::End)).unwrap();
        output
            .add(Tagged::Mark(Mark::Unreadable(3, "bad".into())))
            .unwrap();
        assert_eq!((output.records, output.bad), (2, 1));
        assert_eq!(
            String::from_utf8(written).unwrap(),
            "{\"text\":\"in 北京.\\nin 北京.\\n\",\"entities\":[\
             {\"start\":3,\"end\":5,\"label\":\"LOC\",\"score\":0.75,\"text\":\"北京\"},\
             {\"start\":10,\"end\":12,\"label\":\"LOC\",\"score\":1.0,\"text\":\"北京\"}]}\n\
             {\"line\":3,\"error\":\"bad\"}\n"
        );
    }
}
