//! The output of `nerzoo predict`: tagged sentences in any format that can be written, record by record.

use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use tempfile::NamedTempFile;

use crate::data::write::{
    Annotated, BratWriter, HtmlWriter, LabelStudioNames, Summary, WriteOptions, Writer,
};
use crate::data::{Format, TagScheme};
use crate::error::Error;
use crate::model::document::Tagged;
use crate::text::{Mention, Sentence, Span};

/// Where and how predictions are written.
#[derive(Debug, Args)]
pub struct OutputArgs {
    /// The output format: jsonl (a line per text, with character offsets and scores), text (brackets, for reading), conll or
    /// columns, brat (a folder, with --out), tokens_jsonl, label_studio, prodigy, doccano, conllu, csv, spert, w2ner, gliner,
    /// spacy or pubtator.
    #[arg(long, default_value = "jsonl", value_name = "FORMAT", value_parser = output_format)]
    format: Format,
    /// Write to this file, or for brat into this folder, instead of standard output.
    #[arg(long, value_name = "PATH", group = "destination")]
    out: Option<PathBuf>,
    /// Write a page to this file that shows every text with its mentions underlined, instead of any other output.
    #[arg(
        long,
        value_name = "FILE",
        group = "destination",
        conflicts_with = "format"
    )]
    html: Option<PathBuf>,
    /// Overwrite existing files.
    #[arg(long, requires = "destination")]
    force: bool,
    /// Formats with tags: the tagging scheme to write: iob1, iob2, bioes or bmes.
    #[arg(long, default_value = "iob2", value_name = "SCHEME")]
    into_scheme: TagScheme,
    /// Columns: write one tag per word, and leave out mentions inside others. By default a word has all its tags, such as
    /// I-ORG|B-LOC.
    #[arg(long)]
    flat: bool,
    /// Label_studio: the name of the Labels tag in the labelling configuration.
    #[arg(long, default_value = "label", value_name = "NAME")]
    from_name: String,
    /// Label_studio: the name of the Text tag in the labelling configuration.
    #[arg(long, default_value = "text", value_name = "NAME")]
    to_name: String,
}

/// A format by its name, or by a name people know it by.
fn output_format(name: &str) -> std::result::Result<Format, Error> {
    match name {
        "jsonl" => Ok(Format::TextJsonl),
        "conll" => Ok(Format::Columns),
        name => name.parse(),
    }
}

/// What stands between the sentences of the input.
pub enum Mark {
    /// The end of a record.
    End,
    /// A record that could not be read, with its number and the reason.
    Unreadable(usize, String),
    /// No more input is there: what was written is to be passed on.
    Pause,
}

/// A stream of records, or a folder of files.
enum Target {
    Stream(Writer<Box<dyn Write>>),
    Folder(BratWriter),
    Page(HtmlWriter<Box<dyn Write>>),
}

/// Collects the sentences of a record and writes it at its end.
pub struct Output {
    target: Target,
    /// A file that gets its name at the end.
    file: Option<(NamedTempFile, PathBuf)>,
    format: Format,
    threshold: f32,
    /// The sentences of the record so far.
    record: Vec<(Sentence, Vec<Mention>)>,
    /// Number of records, and of those that could not be read.
    pub records: usize,
    pub bad: usize,
}

impl OutputArgs {
    /// Opens the output for predictions of the model in a folder. Mentions with a score below `threshold` are left out.
    pub fn open(&self, model: &Path, threshold: f32) -> Result<Output> {
        let name = (model.file_name()).map_or_else(
            || "nerzoo".into(),
            |name| name.to_string_lossy().into_owned(),
        );
        let options = WriteOptions {
            scheme: self.into_scheme,
            flat: self.flat,
            colour: self.out.is_none() && has_colours(),
            label_studio: LabelStudioNames {
                from_name: self.from_name.clone(),
                to_name: self.to_name.clone(),
                model_version: name.clone(),
            },
            ..WriteOptions::of(self.format)
        };
        let (target, file) = match (self.out.as_ref().or(self.html.as_ref()), self.format) {
            (Some(path), Format::Brat) => {
                let writer = BratWriter::begin(path, self.force, options)?;
                (Target::Folder(writer), None)
            }
            (None, Format::Brat) => {
                bail!("brat is a folder of files; name it with --out")
            }
            (Some(path), _) => {
                if path.exists() && !self.force {
                    bail!(
                        "{} exists; choose another name, or overwrite it with --force",
                        path.display()
                    );
                }
                let (file, stream) = open_beside(path).map_err(|source| Error::io(path, source))?;
                let stream: Box<dyn Write> = Box::new(BufWriter::new(stream));
                let target = if self.html.is_some() {
                    let title = format!("Entities found by {name}");
                    Target::Page(HtmlWriter::begin(stream, &title)?)
                } else {
                    Target::Stream(Writer::begin(stream, options)?)
                };
                (target, Some((file, path.clone())))
            }
            (None, _) => {
                let stream: Box<dyn Write> = Box::new(BufWriter::new(std::io::stdout()));
                (Target::Stream(Writer::begin(stream, options)?), None)
            }
        };
        Ok(Output {
            target,
            file,
            format: self.format,
            threshold,
            record: Vec::new(),
            records: 0,
            bad: 0,
        })
    }
}

/// Whether standard output is a terminal that shows colours.
fn has_colours() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    std::io::stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb
}

/// Removes the words that no mention begins or ends with, and the context. The words of a long document take several times the
/// memory of its text, and formats for documents need offsets only.
fn keep_boundaries(sentence: &mut Sentence, mentions: &mut [Mention]) {
    let spans = mentions.iter().map(|mention| mention.entity.span);
    let mut kept: Vec<usize> = spans.flat_map(|span| [span.start, span.end - 1]).collect();
    kept.sort_unstable();
    kept.dedup();
    let index = |word: usize| kept.partition_point(|other| *other < word);
    for mention in mentions {
        let span = &mut mention.entity.span;
        *span = Span::new(index(span.start), index(span.end - 1) + 1);
    }
    sentence.words = kept
        .iter()
        .map(|word| sentence.words[*word].clone())
        .collect();
    sentence.pos = None;
    sentence.left = Vec::new();
    sentence.right = Vec::new();
}

/// A temporary file in the folder of a path, and a handle to write to it.
fn open_beside(path: &Path) -> std::io::Result<(NamedTempFile, File)> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let file = tempfile::Builder::new()
        .suffix(".partial")
        .tempfile_in(folder)?;
    let stream = file.reopen()?;
    Ok((file, stream))
}

impl Output {
    /// Takes the next sentence, or what stands between two of them.
    pub fn add(&mut self, tagged: Tagged<Mark>) -> Result<()> {
        match tagged {
            Tagged::Sentence(mut sentence, mut mentions) => {
                mentions.retain(|mention| mention.score >= self.threshold);
                if self.is_sentence_format() {
                    return self.write(&[(sentence, mentions)]);
                }
                if self.format != Format::Prodigy {
                    keep_boundaries(&mut sentence, &mut mentions);
                }
                self.record.push((sentence, mentions));
            }
            Tagged::Mark(Mark::Pause) => {
                if let Target::Stream(writer) = &mut self.target {
                    writer.flush()?;
                }
            }
            Tagged::Mark(Mark::End) => {
                self.records += 1;
                let mut record = std::mem::take(&mut self.record);
                if record.is_empty() && !self.is_sentence_format() {
                    // An empty text has a record too.
                    record.push((Sentence::default(), Vec::new()));
                }
                self.write(&record)?;
            }
            Tagged::Mark(Mark::Unreadable(line, problem)) => {
                self.records += 1;
                self.bad += 1;
                let is_written = match &mut self.target {
                    Target::Stream(writer) => writer.unreadable(line, &problem)?,
                    Target::Folder(_) => false,
                    Target::Page(writer) => writer.unreadable(line, &problem).map(|()| true)?,
                };
                if !is_written {
                    eprintln!("line {line}: {problem}");
                }
            }
        }
        Ok(())
    }

    /// Whether a sentence is written as soon as it is tagged, because the format does not join the sentences of a document.
    fn is_sentence_format(&self) -> bool {
        match &self.target {
            Target::Stream(writer) => !writer.joins_predictions(),
            Target::Folder(_) | Target::Page(_) => false,
        }
    }

    fn write(&mut self, record: &[(Sentence, Vec<Mention>)]) -> Result<()> {
        let items: Vec<Annotated<'_>> = (record.iter())
            .map(|(sentence, mentions)| Annotated::predicted(sentence, mentions))
            .collect();
        match &mut self.target {
            Target::Stream(writer) => writer.record(&items)?,
            Target::Folder(writer) => writer.record(&items)?,
            Target::Page(writer) => writer.record(&items)?,
        }
        Ok(())
    }

    /// Ends the output and gives a file its name. Returns what was written and left out.
    pub fn finish(self) -> Result<Summary> {
        let summary = match self.target {
            Target::Stream(writer) => writer.finish()?.1,
            Target::Folder(writer) => writer.finish()?,
            Target::Page(writer) => writer.finish()?.1,
        };
        if let Some((file, path)) = self.file {
            let persisted = file.persist(&path);
            persisted.map_err(|problem| Error::io(&path, problem.error))?;
        }
        Ok(summary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::words;
    use crate::text::Entity;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        output: OutputArgs,
    }

    fn arguments(parts: &[&str]) -> OutputArgs {
        Line::parse_from(["x"].iter().chain(parts)).output
    }

    #[test]
    fn a_page_has_every_record() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.html");
        let given = arguments(&["--html", path.to_str().unwrap()]);
        let mut output = given.open(Path::new("runs/<m>"), 0.5).unwrap();
        let sentence = words::sentence("in <Bern>.", Default::default());
        let mentions = vec![Mention {
            entity: Entity::new(1, 4, "LOC"),
            score: 0.75,
        }];
        output.add(Tagged::Sentence(sentence, mentions)).unwrap();
        output.add(Tagged::Mark(Mark::End)).unwrap();
        output
            .add(Tagged::Mark(Mark::Unreadable(2, "bad <line>".into())))
            .unwrap();
        output.add(Tagged::Mark(Mark::End)).unwrap();
        assert_eq!((output.records, output.bad), (3, 1));
        output.finish().unwrap();
        let page = std::fs::read_to_string(&path).unwrap();
        for part in [
            "found by &lt;m&gt;",
            "&lt;Bern&gt;",
            "score 0.7500",
            "bad &lt;line&gt;",
            "No entities.",
        ] {
            assert!(page.contains(part), "no {part} in {page}");
        }
        assert!(given.open(Path::new("m"), 0.5).is_err(), "overwrote a file");
        assert!(Line::try_parse_from(["x", "--html", "a", "--out", "b"]).is_err());
        assert!(Line::try_parse_from(["x", "--force"]).is_err());
    }

    #[test]
    fn records_are_written_in_order_with_offsets_in_the_text() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        let mut output = arguments(&["--out", path.to_str().unwrap()])
            .open(Path::new("runs/m"), 0.5)
            .unwrap();
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
        output.finish().unwrap();
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "{\"text\":\"in 北京.\\nin 北京.\\n\",\"entities\":[\
             {\"start\":3,\"end\":5,\"label\":\"LOC\",\"score\":0.75,\"text\":\"北京\"},\
             {\"start\":10,\"end\":12,\"label\":\"LOC\",\"score\":1.0,\"text\":\"北京\"}]}\n\
             {\"line\":3,\"error\":\"bad\"}\n"
        );
    }
}
