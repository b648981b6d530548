//! Writing record by record.

use std::io::Write;

use serde::Serialize;

use super::annotated::Annotated;
use super::columns::Columns;
use super::conllu::Conllu;
use super::csv::Csv;
use super::documents::Document;
use super::pubtator::Pubtator;
use super::summary::{Loss, Summary};
use super::{
    WriteOptions, doccano, gliner, label_studio, prodigy, refused, spacy, spert, text, text_jsonl,
    tokens_jsonl, w2ner, write_error,
};
use crate::data::Format;
use crate::error::Result;

/// Writes sentences or documents to a stream, as they come: [`begin`](Self::begin), any number of
/// [`record`](Self::record)s, [`finish`](Self::finish). A long document may also be given sentence by sentence, so that
/// they need not be kept: [`add`](Self::add) and [`end_record`](Self::end_record).
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
    /// The document whose sentences are being added, for formats that join them.
    document: Option<Document>,
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
            document: None,
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
        items.iter().try_for_each(|item| self.add(item))?;
        self.end_record()
    }

    /// Adds a sentence to the record. Formats for documents write it with the other sentences of its document, after the last
    /// of them; other formats at once.
    pub fn add(&mut self, item: &Annotated<'_>) -> Result<()> {
        if !self.options.joins_documents(item.is_predicted) {
            self.end_record()?;
            return self.sentence(item);
        }
        if (self.document.as_ref()).is_some_and(|open| !open.is_followed_by(item.sentence)) {
            self.end_record()?;
        }
        self.summary.sentences += 1;
        item.check(self.summary.sentences)?;
        match &mut self.document {
            Some(document) => document.add(item),
            None => {
                let with_tokens = self.options.format == Format::Prodigy;
                self.document = Some(Document::begin(item, with_tokens));
            }
        }
        Ok(())
    }

    /// Ends a record of sentences that were added: the next sentence does not belong to the same document.
    pub fn end_record(&mut self) -> Result<()> {
        match self.document.take() {
            Some(document) => self.write_document(&document),
            None => Ok(()),
        }
    }

    /// Writes `{"line": number, "error": problem}` in place of a record that could not be read. Only `tokens_jsonl` and
    /// `text_jsonl` have a place for it; returns false for other formats, where nothing is written.
    pub fn unreadable(&mut self, number: usize, problem: &str) -> Result<bool> {
        let has_place = matches!(self.options.format, Format::TokensJsonl | Format::TextJsonl);
        if has_place {
            self.end_record()?;
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
        self.end_record()?;
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

    fn write_document(&mut self, document: &Document) -> Result<()> {
        self.summary.documents += 1;
        let summary = &mut self.summary;
        match &mut self.body {
            Body::Pubtator(pubtator) => return pubtator.record(&mut self.out, document, summary),
            Body::Text => {
                summary.lose(Loss::Score, document.entities.len());
                let colour = self.options.colour;
                return text::bracketed_document(&mut self.out, document, colour, summary);
            }
            _ => {}
        }
        let characters = document.characters();
        match self.options.format {
            Format::TextJsonl => {
                let record = text_jsonl::predicted(document, &characters, summary);
                self.json(&record)
            }
            Format::Doccano => {
                let record = doccano::record(document, summary);
                self.json(&record)
            }
            Format::Prodigy => {
                let record = prodigy::record(document, &characters, summary);
                self.json(&record)
            }
            Format::Spacy => {
                let record = spacy::record(document, summary);
                self.json(&record)
            }
            _ => {
                let names = self.options.label_studio.clone();
                let record = label_studio::record(document, &characters, &names, summary);
                self.json(&record)
            }
        }
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
