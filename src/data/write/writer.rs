//! Writing record by record.

use std::io::Write;

use serde::Serialize;
use serde_json::Value;

use super::annotated::Annotated;
use super::columns::Columns;
use super::conllu::Conllu;
use super::csv::Csv;
use super::documents::{Document, runs};
use super::pubtator::Pubtator;
use super::summary::{Loss, Summary};
use super::{
    WriteOptions, doccano, gliner, label_studio, prodigy, refused, spacy, spert, text, text_jsonl,
    tokens_jsonl, w2ner, write_error,
};
use crate::data::Format;
use crate::error::Result;

/// Writes sentences or documents to a stream, as they come: [`begin`](Self::begin), any number of
/// [`record`](Self::record)s, [`finish`](Self::finish).
///
/// ```
/// use nerzoo::data::Format;
/// use nerzoo::data::write::{Annotated, WriteOptions, Writer};
/// use nerzoo::text::{Entity, Mention, Sentence};
///
/// # fn main() -> nerzoo::error::Result<()> {
/// let sentence = Sentence::from_words(["Ada", "wrote"]);
/// let mentions = [Mention { entity: Entity::new(0, 1, "PER"), score: 0.93 }];
/// let mut writer = Writer::begin(Vec::new(), WriteOptions::of(Format::PlainText))?;
/// writer.record(&[Annotated::predicted(&sentence, &mentions)])?;
/// let (out, summary) = writer.finish()?;
/// assert_eq!(out, b"[Ada]PER wrote\n");
/// assert_eq!(summary.entities, 1);
/// # Ok(())
/// # }
/// ```
pub struct Writer<W: Write> {
    out: W,
    options: WriteOptions,
    body: Body,
    /// Number of JSON records so far.
    records: usize,
    summary: Summary,
}

/// The state of a format.
enum Body {
    Columns(Columns),
    Csv(Csv),
    Conllu(Conllu),
    Pubtator(Pubtator),
    /// A JSON format: one record per line, or a list.
    Json {
        is_list: bool,
    },
    Text,
}

impl<W: Write> Writer<W> {
    /// Writes what comes before the first record. Column files have all tags of a word in one column, because the depth
    /// of the nesting is not known. Fails for formats that cannot be written to a stream.
    pub fn begin(out: W, options: WriteOptions) -> Result<Self> {
        Self::start(out, options, None)
    }

    /// Like [`begin`](Self::begin), for sentences that are all known.
    pub(super) fn begin_corpus(
        out: W,
        options: WriteOptions,
        items: &[Annotated<'_>],
    ) -> Result<Self> {
        Self::start(out, options, Some(items))
    }

    fn start(out: W, options: WriteOptions, items: Option<&[Annotated<'_>]>) -> Result<Self> {
        let body = match options.format {
            Format::Columns => Body::Columns(match items {
                Some(items) => Columns::corpus(&options, items),
                None => Columns::stream(&options),
            }),
            Format::Csv => {
                let has_pos = |item: &Annotated<'_>| item.sentence.pos.is_some();
                let with_pos = items.is_some_and(|items| items.iter().any(has_pos));
                Body::Csv(Csv::new(&options, with_pos))
            }
            Format::Conllu => Body::Conllu(Conllu::default()),
            Format::Pubtator => Body::Pubtator(Pubtator::default()),
            Format::PlainText => Body::Text,
            Format::TokensJsonl | Format::TextJsonl | Format::Doccano | Format::Prodigy => {
                Body::Json { is_list: false }
            }
            Format::Spert
            | Format::W2ner
            | Format::Gliner
            | Format::Spacy
            | Format::LabelStudio => Body::Json { is_list: true },
            Format::Brat | Format::DocBin | Format::Webanno | Format::Bioc | Format::Parquet => {
                return Err(refused(options.format));
            }
        };
        let mut writer = Self {
            out,
            options,
            body,
            records: 0,
            summary: Summary::default(),
        };
        match &writer.body {
            Body::Columns(columns) => columns.begin(&mut writer.out)?,
            Body::Csv(csv) => csv.begin(&mut writer.out)?,
            Body::Json { is_list: true } => write!(writer.out, "[").map_err(write_error)?,
            _ => {}
        }
        Ok(writer)
    }

    /// Writes sentences. Those that were cut from a document must be in one call, in order: formats for documents join
    /// them. One call may have the sentences of several documents.
    pub fn record(&mut self, items: &[Annotated<'_>]) -> Result<()> {
        let is_predicted = items.iter().any(|item| item.is_predicted);
        if self.options.joins_documents(is_predicted) {
            for run in runs(items) {
                self.document(&items[run])?;
            }
        } else {
            for item in items {
                self.sentence(item)?;
            }
        }
        Ok(())
    }

    /// Writes `{"line": number, "error": problem}` in place of a record that could not be read. Only `tokens_jsonl` and
    /// `text_jsonl` have a place for it; returns false for other formats, where nothing is written.
    pub fn unreadable(&mut self, number: usize, problem: &str) -> Result<bool> {
        let has_place = matches!(self.options.format, Format::TokensJsonl | Format::TextJsonl);
        if has_place {
            self.json(&serde_json::json!({"line": number, "error": problem}))?;
        }
        Ok(has_place)
    }

    /// Whether predictions for the sentences of a document are joined to one record.
    pub fn joins_predictions(&self) -> bool {
        self.options.joins_documents(true)
    }

    /// Passes everything written so far on to the stream's destination.
    pub fn flush(&mut self) -> Result<()> {
        self.out.flush().map_err(write_error)
    }

    /// Writes what comes after the last record, and returns the stream and the counts. With
    /// [`strict`](WriteOptions::strict), fails if an entity was left out.
    pub fn finish(mut self) -> Result<(W, Summary)> {
        if let Body::Json { is_list: true } = self.body {
            writeln!(self.out, "\n]").map_err(write_error)?;
        }
        self.flush()?;
        self.summary.check_strict(&self.options)?;
        Ok((self.out, self.summary))
    }

    fn sentence(&mut self, item: &Annotated<'_>) -> Result<()> {
        self.summary.sentences += 1;
        item.check(self.summary.sentences)?;
        let summary = &mut self.summary;
        let record = match &mut self.body {
            Body::Columns(columns) => return columns.record(&mut self.out, item, summary),
            Body::Csv(csv) => return csv.record(&mut self.out, item, summary),
            Body::Conllu(conllu) => return conllu.record(&mut self.out, item, summary),
            Body::Text => return text::plain(&mut self.out, item, summary),
            Body::Pubtator(_) | Body::Json { .. } => match self.options.format {
                Format::TextJsonl => text_jsonl::record(item, summary),
                Format::Spert => spert::record(item, summary),
                Format::W2ner => w2ner::record(item, summary),
                Format::Gliner => gliner::record(item, summary),
                _ => tokens_jsonl::record(item, &self.options, summary)?,
            },
        };
        self.json(&record)
    }

    fn document(&mut self, items: &[Annotated<'_>]) -> Result<()> {
        for item in items {
            self.summary.sentences += 1;
            item.check(self.summary.sentences)?;
        }
        self.summary.documents += 1;
        let document = Document::join(items);
        let summary = &mut self.summary;
        let record: Value = match &mut self.body {
            Body::Pubtator(pubtator) => return pubtator.record(&mut self.out, &document, summary),
            Body::Text => {
                summary.lose(Loss::Score, document.entities.len());
                let colour = self.options.colour;
                return text::bracketed_document(&mut self.out, &document, colour, summary);
            }
            _ if self.options.format == Format::TextJsonl => {
                let record = text_jsonl::predicted(&document, summary);
                return self.json(&record);
            }
            _ => match self.options.format {
                Format::Doccano => doccano::record(&document, summary).into(),
                Format::Prodigy => prodigy::record(&document, summary).into(),
                Format::Spacy => spacy::record(&document, summary),
                _ => label_studio::record(&document, &self.options.label_studio, summary).into(),
            },
        };
        self.json(&record)
    }

    fn json(&mut self, record: &impl Serialize) -> Result<()> {
        let is_list = matches!(self.body, Body::Json { is_list: true });
        if is_list {
            let separator = if self.records > 0 { ",\n" } else { "\n" };
            write!(self.out, "{separator}").map_err(write_error)?;
        }
        self.records += 1;
        serde_json::to_writer(&mut self.out, record).map_err(|error| write_error(error.into()))?;
        if is_list {
            return Ok(());
        }
        writeln!(self.out).map_err(write_error)
    }
}
