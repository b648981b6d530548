//! Comma-, semicolon- or tab-separated values with a header.
//!
//! Three forms are read. A word in each line, with the number of its sentence in every line or only in the first
//! (`Sentence #,Word,POS,Tag`, the form of Kaggle's copies of the Groningen Meaning Bank; `sentence_id,words,labels` of
//! Simple Transformers). A sentence in each line, with lists of words and tags as pandas writes them, or with words and tags
//! separated by spaces. A text in each line, with a list of spans (Label Studio's CSV export, and dictionaries of spaCy).

mod cells;
mod columns;
pub(super) mod names;
mod python_literal;
mod rows;
mod table;

use std::collections::HashSet;

use super::ReadOptions;
use super::source::{Collector, Source};
use cells::Spans;
use columns::{CsvColumns, RecordIs, unknown};
use rows::Row;
use table::{Record, Table};

/// Largest number of words of a file without sentences; longer files are refused.
const LONGEST: usize = 500;

/// True for a file whose header names a column of words or texts and a column of tags.
pub(super) fn detect(source: &Source) -> bool {
    let Ok(text) = source.text() else {
        // Perhaps in another encoding; the reader will say so.
        let lossy = source.lossy();
        return CsvColumns::of(&lossy, &ReadOptions::default())
            .is_ok_and(|columns| columns.has_header);
    };
    CsvColumns::of(text, &ReadOptions::default()).is_ok_and(|columns| {
        columns.has_header && Table::new(text, columns.separator).nth(1).is_some()
    })
}

/// True for a file of words and tags without a header. A single record or a header alone is enough only if the file is named
/// as one of this format.
pub(super) fn detect_without_header(source: &Source, is_named: bool) -> bool {
    let text = source.lossy();
    let columns = CsvColumns::of(&text, &ReadOptions::default());
    columns.is_ok_and(|columns| {
        let has_rows = || Table::new(&text, columns.separator).nth(1).is_some();
        is_named || (!columns.has_header && has_rows())
    })
}

/// Why the columns of a file are not understood.
pub(super) fn describe(source: &Source) -> String {
    unknown(&source.lossy())
}

/// Reads a table.
pub(super) fn read(source: &Source, options: &ReadOptions, corpus: &mut Collector) {
    let text = match source.text() {
        Ok(text) => text,
        Err((line, column)) => return corpus.bad_encoding(line, column),
    };
    if text.trim().is_empty() {
        return corpus.warn(0, "the file has no records");
    }
    let columns = match CsvColumns::of(text, options) {
        Ok(columns) => columns,
        Err(message) => return corpus.error(1, message),
    };
    let mut records = Vec::new();
    let (mut is_header, mut is_cut) = (columns.has_header, false);
    for record in Table::new(text, columns.separator) {
        match record {
            Ok(record) if is_header && !record.fields.is_empty() => is_header = false,
            Ok(record) => records.push(record),
            Err(quote) => {
                is_cut = true;
                corpus.error(
                    quote.line,
                    "a quote is opened here and never closed, so the rest of the file cannot be read; close it, or write it as \
                     `\"\"\"\"` if it is a word",
                );
            }
        }
    }
    let mut reader = Reader {
        columns: &columns,
        options,
        is_cut,
        corpus,
    };
    match columns.record {
        RecordIs::Word => reader.words(records),
        RecordIs::Sentence => reader.sentences(&records),
        RecordIs::Text => reader.texts(&records),
    }
}

/// A field without the spaces around it. Other white space, such as a no-break space, can be a word.
fn trimmed(field: &str) -> &str {
    field.trim_matches(|character: char| character.is_ascii_whitespace())
}

struct Reader<'b> {
    columns: &'b CsvColumns,
    options: &'b ReadOptions,
    /// The end of the file cannot be read.
    is_cut: bool,
    corpus: &'b mut Collector,
}

impl Reader<'_> {
    fn check_width(&mut self, record: &Record) -> bool {
        let fits = record.fields.len() == self.columns.width;
        if !fits {
            self.corpus.error(record.line, format!(
                "{} columns where the header has {}; quote fields that contain the separator `{}`",
                record.fields.len(),
                self.columns.width,
                self.columns.separator.escape_default()
            ));
        }
        fits
    }

    fn field<'r>(&self, record: &'r Record, column: Option<usize>) -> Option<&'r str> {
        column
            .and_then(|column| record.fields.get(column))
            .map(|field| trimmed(field))
    }

    /// The name of the document of a record.
    fn document(&self, record: &Record) -> Option<String> {
        let name = self.field(record, self.columns.document)?;
        (!name.is_empty()).then(|| name.to_string())
    }

    /// Reads a word in each record.
    fn words(&mut self, records: Vec<Record>) {
        let columns = self.columns;
        let mut rows: Vec<Row> = Vec::new();
        let mut current: Option<(String, Option<String>)> = None;
        let mut seen: HashSet<(String, Option<String>)> = HashSet::new();
        let (mut is_new, mut repeated, mut blanks) = (true, None, false);
        for record in &records {
            if record.fields.is_empty() {
                (is_new, blanks) = (true, true);
                continue;
            }
            let fits = self.check_width(record);
            let sentence = self.field(record, columns.sentence).unwrap_or_default();
            let document = self.document(record);
            let known = current.as_ref();
            let is_other = !sentence.is_empty() && known.is_none_or(|known| known.0 != sentence);
            let is_other_document =
                document.is_some() && known.is_some_and(|known| known.1 != document);
            if is_new || is_other || is_other_document {
                let key = (sentence.to_string(), document.clone());
                if !sentence.is_empty() && !seen.insert(key.clone()) && repeated.is_none() {
                    repeated = Some((record.line, sentence.to_string()));
                }
                current = Some(key);
                rows.push(Row {
                    line: record.line,
                    lines: Vec::new(),
                    words: Vec::new(),
                    tags: vec![Vec::new(); columns.tags.len()],
                    pos: columns.pos.map(|_| Vec::new()),
                    text: None,
                    document,
                    invalid: false,
                });
                is_new = false;
            }
            let Some(row) = rows.last_mut() else {
                continue;
            };
            let word = self.field(record, columns.word).unwrap_or_default();
            if !fits {
                row.invalid = true;
                continue;
            }
            if word.is_empty() {
                let message = "the word is empty; delete the line, or put a word in it";
                self.corpus.error(record.line, message);
                row.invalid = true;
                continue;
            }
            row.lines.push(record.line);
            row.words.push(word.to_string());
            for (tags, column) in row.tags.iter_mut().zip(&columns.tags) {
                tags.push(trimmed(&record.fields[*column]).to_string());
            }
            if let (Some(pos), Some(column)) = (&mut row.pos, columns.pos) {
                pos.push(trimmed(&record.fields[column]).to_string());
            }
        }
        if let Some(row) = rows.last_mut().filter(|_| self.is_cut) {
            row.invalid = true;
        }
        if columns.sentence.is_none() && !blanks {
            let count: usize = rows.iter().map(|row| row.words.len()).sum();
            let message = format!(
                "the {count} words are not separated into sentences; add a column `sentence_id`, or blank lines between \
                 sentences"
            );
            if count > LONGEST {
                return self.corpus.error(0, message);
            }
            self.corpus
                .warn(0, format!("{message}. Read as one sentence"));
        }
        if let Some((line, sentence)) = repeated {
            self.corpus.warn(line, format!(
                "sentence `{sentence}` occurs again after another; read as a sentence of its own, so sort the file if it is not"
            ));
        }
        rows::push(rows, self.options, self.corpus);
    }

    /// Reads a list of words, or a text, and a list of tags in each record.
    fn sentences(&mut self, records: &[Record]) {
        let columns = self.columns;
        let mut rows = Vec::new();
        for record in records.iter().filter(|record| !record.fields.is_empty()) {
            if !self.check_width(record) {
                continue;
            }
            match self.sentence(record) {
                Ok(row) if row.words.is_empty() => self
                    .corpus
                    .warn(record.line, "the sentence has no words; skipped"),
                Ok(row) => rows.push(Row {
                    document: self.document(record),
                    pos: self
                        .field(record, columns.pos)
                        .and_then(|cell| cells::strings(cell).ok())
                        .filter(|tags| tags.len() == row.words.len()),
                    ..row
                }),
                Err(message) => self.corpus.error(record.line, message),
            }
        }
        rows::push(rows, self.options, self.corpus);
    }

    fn sentence(&self, record: &Record) -> Result<Row, String> {
        let columns = self.columns;
        let mut tags = Vec::new();
        for column in &columns.tags {
            let list = cells::strings(&record.fields[*column]);
            tags.push(list.map_err(|error| format!("the cell of the tags {error}"))?);
        }
        let count = tags.first().map_or(0, Vec::len);
        let text = self.field(record, columns.text);
        let words = match (self.field(record, columns.word), text) {
            (Some(words), _) => {
                cells::strings(words).map_err(|error| format!("the cell of the words {error}"))?
            }
            (None, text) => cells::words(text.unwrap_or_default(), count, self.options),
        };
        if let Some(list) = tags.iter().find(|list| list.len() != words.len()) {
            return Err(format!(
                "{} words but {} tags; give every word a tag (words of a text are separated by spaces)",
                words.len(),
                list.len()
            ));
        }
        if words.iter().any(|word| word.is_empty()) {
            return Err("a word is empty; delete the line, or put a word in it".to_string());
        }
        Ok(Row {
            line: record.line,
            lines: vec![record.line; words.len()],
            words,
            tags,
            pos: None,
            text: text.map(str::to_string),
            document: None,
            invalid: false,
        })
    }

    /// Reads a text and a list of spans in each record.
    fn texts(&mut self, records: &[Record]) {
        let columns = self.columns;
        let mut spans = Spans::default();
        for record in records.iter().filter(|record| !record.fields.is_empty()) {
            if !self.check_width(record) {
                continue;
            }
            let Some(text) = columns
                .text
                .or(columns.word)
                .map(|column| record.fields[column].as_ref())
            else {
                continue;
            };
            let document = self.document(record);
            let cells: Vec<&str> = columns
                .tags
                .iter()
                .map(|tag| record.fields[*tag].as_ref())
                .collect();
            spans.push(
                record.line,
                text,
                document,
                &cells,
                self.options,
                self.corpus,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::testing::{self, found, scan_content, whole};
    use crate::data::{Format, Problem, Severity, detect_format, scan};
    use crate::text::Sentence;

    fn fixture(name: &str) -> (Vec<Sentence>, Vec<Problem>) {
        let path = testing::fixture("csv").join(name);
        assert_eq!(detect_format(&path).unwrap(), Format::Csv);
        scan(&path, &whole()).unwrap()
    }

    fn with(content: impl AsRef<[u8]>, options: ReadOptions) -> (Vec<Sentence>, Vec<Problem>) {
        scan_content("file.csv", content, &options)
    }

    /// `ner_dataset.csv` of Kaggle's "Annotated Corpus for Named Entity Recognition".
    #[test]
    fn a_word_in_each_line() {
        let (sentences, problems) = fixture("kaggle.csv");
        assert_eq!(problems, []);
        assert_eq!(sentences.len(), 2);
        assert_eq!(
            sentences[0].text,
            "Thousands of demonstrators marched through New York \" ,"
        );
        assert_eq!(found(&sentences[0]), [("New York", "geo")]);
        assert_eq!(sentences[0].pos.as_ref().unwrap()[7..], ["``", ","]);
        assert_eq!(
            found(&sentences[1]),
            [("Iran", "geo"), ("president", "per")]
        );
    }

    #[test]
    fn the_sentence_may_be_in_each_line_or_between_blank_ones() {
        for text in [
            "sentence_id,words,labels\n0,Ada,B-PER\n0,King,I-PER\n1,sang,O\n1,Rio,B-LOC\n",
            ",sentence_idx,pos,word,tag\n1,5,N,Ada,B-PER\n2,5,N,King,I-PER\n3,6,V,sang,O\n4,6,N,Rio,B-LOC\n",
            "\u{feff}Token;NER\r\nAda;B-PER\r\nKing;I-PER\r\n\r\nsang;O\r\nRio;B-LOC\r\n",
            "doc_id\tsent_id\ttoken\tiob\nx\t1\tAda\tB-PER\nx\t1\tKing\tI-PER\ny\t1\tsang\tO\ny\t1\tRio\tB-LOC\n",
            "Ada,B-PER\nKing,I-PER\n\nsang,O\nRio,B-LOC\n",
            "id,sentence,word,tag\n1,Ada King,Ada,B-PER\n2,Ada King,King,I-PER\n3,sang Rio,sang,O\n4,sang Rio,Rio,B-LOC\n",
        ] {
            let (sentences, problems) = with(text, ReadOptions::default());
            assert_eq!(problems, [], "{text}");
            assert_eq!(sentences.len(), 2, "{text}");
            assert_eq!(found(&sentences[0]), [("Ada King", "PER")], "{text}");
            assert_eq!(found(&sentences[1]), [("Rio", "LOC")], "{text}");
        }
    }

    /// Lists as pandas 2.2 writes them with `to_csv`, of Python lists and of NumPy arrays.
    #[test]
    fn a_sentence_in_each_line() {
        let (sentences, problems) = fixture("pandas.csv");
        assert_eq!(found(&sentences[0]), [("EU", "ORG"), ("Germany's", "MISC")]);
        assert_eq!(found(&sentences[1]), [("Peter Blackburn", "PER")]);
        assert_eq!((problems.len(), problems[0].location.line), (1, 4));
        assert_eq!(problems[0].severity, Severity::Warning);
        let (sentences, problems) = fixture("sentences.csv");
        assert_eq!(problems, []);
        assert_eq!(found(&sentences[0]), [("EU", "ORG"), ("German", "MISC")]);
        assert_eq!(found(&sentences[1]), [("Zoë;", "PER"), ("北京", "LOC")]);
        let kaggle = "Sentence #,Sentence,POS,Tag\nSentence: 1,Ada sang .,\"['N', 'V', '.']\",\"['B-per', 'O', 'O']\"\n\
                      Sentence: 2,Rio.,\"['N', '.']\",\"['B-geo', 'O']\"\n";
        let (sentences, problems) = with(kaggle, ReadOptions::default());
        assert_eq!(problems, []);
        assert_eq!(found(&sentences[0]), [("Ada", "per")]);
        assert_eq!(sentences[0].pos.as_ref().unwrap(), &["N", "V", "."]);
        assert_eq!(
            (sentences[1].text.as_str(), found(&sentences[1])),
            ("Rio.", vec![("Rio", "geo")])
        );
    }

    /// The CSV export of Label Studio 1.12, and dictionaries as for spaCy 2.
    #[test]
    fn a_text_with_spans_in_each_line() {
        let (sentences, problems) = fixture("label_studio.csv");
        assert_eq!(problems, []);
        assert_eq!(sentences.len(), 2);
        let mut entities = found(&sentences[0]);
        entities.sort();
        assert_eq!(
            entities,
            [
                ("University", "FAC"),
                ("University", "ORG"),
                ("University of Lindholm", "ORG")
            ]
        );
        assert_eq!(sentences[1].text, "Nothing\nhere");
        for cell in [
            "[[0, 3, \"\"PER\"\"]]",
            "{'entities': [(0, 3, 'PER')]}",
            "[('PER', 0, 3)]",
            "[{'start': '0', 'end': 3, 'type': 'PER'}]",
        ] {
            let text = format!("text,entities\nAda sang,\"{cell}\"\n");
            let (sentences, problems) = with(&text, whole());
            assert_eq!(problems, [], "{cell}");
            assert_eq!(found(&sentences[0]), [("Ada", "PER")], "{cell}");
        }
    }

    #[test]
    fn numbers_need_names() {
        let text = "tokens,ner_tags\n\"['Ada', 'King', 'sang']\",[1 2 0]\n";
        let (sentences, problems) = with(text, ReadOptions::default());
        assert!(sentences.is_empty());
        assert!(problems[0].message.contains("--labels"), "{problems:?}");
        let labels = ["O", "B-PER", "I-PER"].map(String::from).to_vec();
        let options = ReadOptions {
            labels: Some(labels),
            ..ReadOptions::default()
        };
        let (sentences, problems) = with(text, options);
        assert_eq!(problems, []);
        assert_eq!(found(&sentences[0]), [("Ada King", "PER")]);
    }

    #[test]
    fn options_choose_the_columns() {
        let text = "a,b,c\nAda,x,B-PER\nsang,y,O\n\nRio,z,B-LOC\n";
        let options = ReadOptions {
            word_column: Some(1),
            tag_columns: Some(vec![2]),
            pos_column: Some(0),
            ..ReadOptions::default()
        };
        let (sentences, problems) = with(text, options);
        assert_eq!(problems, []);
        assert_eq!(found(&sentences[0]), [("x", "PER")]);
        assert_eq!(sentences[1].pos.as_ref().unwrap(), &["Rio"]);
    }

    #[test]
    fn broken_records_are_errors_with_their_line() {
        for (text, line, part) in [
            ("sentence_id,word,tag\n1,a,O\n1,b\n", 3, "2 columns"),
            ("sentence_id,word,tag\n1,a,O\n1,,O\n", 3, "empty"),
            (
                "sentence_id,word,tag\n1,a,B-X\n1,b,C-X\n1,c,O\n",
                3,
                "not a tag",
            ),
            ("sentence_id,word,tag\n1,a,O\n1,\"b,O\n1,c,O\n", 3, "quote"),
            (
                "tokens,tags\n\"['a', 'b']\",\"['O']\"\n",
                2,
                "2 words but 1 tags",
            ),
            (
                "tokens,tags\n\"['a' ... 'b']\",\"['O', 'O']\"\n",
                2,
                "shortened",
            ),
            ("text,entities\nAda,\"[[0, 3]]\"\n", 2, "[start, end, type]"),
            (
                "text,entities\nAda,\"[{'start': 0, 'end': 3, 'label': 'X', 'text': 'Eda'}]\"\n",
                2,
                "`Ada` in the text",
            ),
            ("text,entities\nAda,\"{'foo': 1}\"\n", 2, "keys foo"),
        ] {
            let (sentences, problems) = with(text, whole());
            assert!(sentences.is_empty(), "{text}: {sentences:?}");
            assert_eq!(problems.len(), 1, "{text}: {problems:?}");
            assert_eq!(
                (problems[0].severity, problems[0].location.line),
                (Severity::Error, line),
                "{text}: {problems:?}"
            );
            assert!(problems[0].message.contains(part), "{problems:?}");
        }
        let (_, problems) = with(
            b"Sentence #,Word,Tag\nSentence: 1,Zo\xeb,O\n,x,O\n",
            whole(),
        );
        assert_eq!(
            (
                problems.len(),
                problems[0].location.line,
                problems[0].location.column
            ),
            (1, 2, 15)
        );
        assert!(problems[0].message.contains("iconv"));
    }

    #[test]
    fn a_file_without_sentences_is_refused_if_it_is_long() {
        let long = format!("word,tag\n{}", "a,O\n".repeat(600));
        let (sentences, problems) = with(&long, ReadOptions::default());
        assert!(sentences.is_empty());
        assert!(problems[0].message.contains("sentence_id"), "{problems:?}");
        let (sentences, problems) = with("word,tag\na,O\nb,B-X\n", ReadOptions::default());
        assert_eq!((sentences.len(), problems.len()), (1, 1));
        let (_, problems) = with(
            "sentence_id,word,tag\n1,a,O\n2,b,O\n2,c,O\n1,d,O\n",
            ReadOptions::default(),
        );
        assert!(problems[0].message.contains("occurs again"), "{problems:?}");
    }

    #[test]
    fn other_files_are_not_taken_for_tables() {
        let folder = tempfile::tempdir().unwrap();
        for (name, content, format) in [
            (
                "a.txt",
                "Words, tags and labels.\nJust a text.\n",
                Some(Format::PlainText),
            ),
            ("b.tsv", "EU\tB-ORG\nsaid\tO\n", Some(Format::Columns)),
            ("c.csv", "a,b\n1,2\n", None),
            (
                "d.txt",
                "word\ttag\nEU\tB-ORG\n\nsaid\tO\n",
                Some(Format::Csv),
            ),
            ("e.csv", "EU,B-ORG\nsaid,O\n", Some(Format::Csv)),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            let detected = detect_format(&path);
            if let Err(error) = &detected {
                assert!(error.to_string().contains("`a`, `b`"), "{error}");
            }
            assert_eq!(detected.ok(), format, "{name}");
        }
    }
}
