//! Parquet files, as on the Hugging Face hub.
//!
//! Every row becomes a JSON record and is read like a line of a JSON file, so all JSON formats may come as Parquet. Numbers
//! that stand for names (`ClassLabel` in the metadata that the library `datasets` writes) are replaced by the names.
//!
//! The format is that of <https://parquet.apache.org/docs/file-format/>. The reader is our own: the crate `parquet` panics on
//! about 1 % of files with one wrong bit, needs C code for Zstandard, and takes a minute to build.

mod codec;
mod column;
mod encoding;
mod features;
mod metadata;
mod rows;
mod schema;
mod thrift;

use serde_json::Value;

use super::source::compressed::Limit;
use super::source::{Collector, Source};
use super::{Format, ReadOptions, detect, read_source};
use features::Features;
use rows::Rows;

/// Why a file cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Problem {
    #[error("the Parquet data is damaged; download or write the file again")]
    Damaged,
    #[error("the Parquet file is {0}")]
    Unsupported(String),
    #[error("{0}")]
    Limit(String),
}

type Result<T> = std::result::Result<T, Problem>;

/// Most bytes of memory for each byte of the file, beyond the first 64 MiB. A tag often takes a tenth of a byte in the file.
const MAX_RATIO: u64 = 1000;

/// The memory that decoding may take, in proportion to the size of the file. A few bytes can stand for any number of values.
struct Budget {
    file: u64,
    spent: u64,
    limit: Limit,
}

impl Budget {
    /// The budget for a file of this many bytes.
    fn new(file: usize) -> Self {
        Self {
            file: file as u64,
            spent: 0,
            limit: Limit {
                ratio: MAX_RATIO,
                ..Limit::default()
            },
        }
    }

    /// Takes this many bytes from the budget, before they are allocated.
    fn spend(&mut self, bytes: usize) -> Result<()> {
        self.spent = self.spent.saturating_add(bytes as u64);
        self.limit
            .check(self.file, self.spent)
            .map_err(Problem::Limit)
    }
}

/// True when the bytes begin like a Parquet file.
pub(super) fn is_parquet(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PAR1")
}

/// Reads all rows of a file. The line numbers of problems are those of rows.
pub(super) fn read(source: &Source, options: &ReadOptions, corpus: &mut Collector) {
    if !is_parquet(source.bytes()) {
        return corpus.error(
            0,
            "not a Parquet file, which begins with `PAR1`; choose another --format",
        );
    }
    let (lines, problem) = json_lines(source.bytes(), options.labels.is_some());
    if !lines.is_empty() {
        read_lines(lines, options, corpus);
    }
    if let Some((row, problem)) = problem {
        corpus.error(row, problem.to_string());
    }
}

/// Reads rows as JSON lines, in the format that their columns suggest.
fn read_lines(lines: Vec<u8>, options: &ReadOptions, corpus: &mut Collector) {
    let columns = columns_of(&lines);
    let first = lines.split(|byte| *byte == b'\n').next();
    let first = serde_json::from_slice(first.unwrap_or_default()).ok();
    let has_words_as_rows = first.is_some_and(|row| detect::is_word(&row));
    let source = match Source::from_bytes(lines) {
        Ok(source) => source,
        Err(problem) => return corpus.error(0, problem),
    };
    match detect::detect_content("rows.jsonl".as_ref(), &source, options) {
        Ok(format) if !matches!(format, Format::Parquet | Format::DocBin | Format::Columns) => {
            let options = ReadOptions {
                format: Some(format),
                ..options.clone()
            };
            read_source(format, &source, &options, corpus);
        }
        _ if has_words_as_rows => corpus.error(
            0,
            "each row is one word; give the words of a sentence as a list, or write the table as CSV",
        ),
        _ => corpus.error(
            0,
            format!(
                "has the columns {columns}, but neither `tokens` with `ner_tags` or `entities`, nor `text` with `entities`; rename them"
            ),
        ),
    }
}

/// The columns of the first row, for a message.
fn columns_of(lines: &[u8]) -> String {
    let first = lines
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    match serde_json::from_slice(first) {
        Ok(Value::Object(row)) => {
            let names: Vec<String> = row.keys().map(|name| format!("`{name}`")).collect();
            names.join(", ")
        }
        _ => "of no row".to_string(),
    }
}

/// The rows as JSON lines, up to the first problem, with the number of the row at which it occurred. `raw` keeps the numbers
/// of names.
fn json_lines(file: &[u8], raw: bool) -> (Vec<u8>, Option<(usize, Problem)>) {
    let mut lines = Vec::new();
    let mut row = 0;
    let problem = write_lines(file, raw, &mut lines, &mut row).err();
    (lines, problem.map(|problem| (row, problem)))
}

fn write_lines(file: &[u8], raw: bool, lines: &mut Vec<u8>, row: &mut usize) -> Result<()> {
    let footer = metadata::read(file)?;
    if footer.columns.is_empty() {
        return Err(Problem::Unsupported(
            "without columns of text or numbers".to_string(),
        ));
    }
    let features = Features::of(&footer.metadata);
    let mut budget = Budget::new(file.len());
    for group in &footer.row_groups {
        let mut rows = Rows::new(file, &footer, group, &mut budget)?;
        while let Some(mut value) = rows.next_row()? {
            *row += 1;
            if !raw {
                features.name(&mut value);
            }
            features::transpose(&mut value);
            let length = lines.len();
            // Writing to a vector cannot fail.
            serde_json::to_writer(&mut *lines, &value).map_err(|_| Problem::Damaged)?;
            lines.push(b'\n');
            budget.spend(lines.len() - length)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Severity, scan};
    use proptest::prelude::*;
    use serde_json::json;
    use std::path::{Path, PathBuf};

    fn folder() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/formats/parquet")
    }

    fn rows(name: &str) -> Vec<Value> {
        parse(&std::fs::read(folder().join(name)).unwrap())
    }

    fn parse(file: &[u8]) -> Vec<Value> {
        let (lines, problem) = json_lines(file, false);
        assert_eq!(problem, None);
        let lines = lines
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty());
        lines
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect()
    }

    /// The rows of most fixtures.
    fn expected() -> Vec<Value> {
        vec![
            json!({"tokens": ["Maria", "Keller", "lives", "in", "Lindholm", "."], "ner_tags": ["B-PER", "I-PER", "O", "O", "B-LOC", "O"]}),
            json!({"tokens": ["Zoë", "👩‍🔬", "北京"], "ner_tags": ["B-PER", "O", "B-LOC"]}),
        ]
    }

    #[test]
    fn names_come_from_the_metadata() {
        let file = std::fs::read(folder().join("class_label.parquet")).unwrap();
        // The same metadata is in Arrow's schema.
        let key = file
            .windows(11)
            .position(|window| window == b"huggingface")
            .unwrap();
        let mut without = file.clone();
        without[key] = b'x';
        for file in [&file, &without] {
            let rows = parse(file);
            assert_eq!(rows.len(), 3);
            for (row, expected) in rows.iter().zip(expected()) {
                assert_eq!(
                    (&row["tokens"], &row["ner_tags"]),
                    (&expected["tokens"], &expected["ner_tags"])
                );
            }
            assert_eq!(rows[2], json!({"id": "2", "tokens": [], "ner_tags": []}));
        }
        let (lines, _) = json_lines(&file, true);
        assert!(String::from_utf8(lines).unwrap().contains("[1,2,0,0,3,0]"));
    }

    #[test]
    fn codecs_and_encodings() {
        let mut files = 0;
        for entry in std::fs::read_dir(folder().join("variants")).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert_eq!(rows(&format!("variants/{name}")), expected(), "{name}");
            files += 1;
        }
        assert!(files > 5);
    }

    #[test]
    fn texts_with_spans() {
        for name in ["spans.parquet", "struct_of_lists.parquet"] {
            let (sentences, problems) =
                scan(&folder().join(name), &ReadOptions::default()).unwrap();
            assert!(problems.is_empty(), "{problems:?}");
            let labels = |index: usize| {
                let sentence: &crate::text::Sentence = &sentences[index];
                let entities = sentence.entities.iter();
                entities
                    .map(|e| (sentence.surface(e.span), e.label.as_str()))
                    .collect::<Vec<_>>()
            };
            assert_eq!(labels(0), [("Maria Keller", "PER"), ("Lindholm", "LOC")]);
            assert_eq!(labels(1), [("北京", "LOC")]);
            assert!(labels(2).is_empty());
        }
    }

    #[test]
    fn nulls_and_nesting_keep_their_shape() {
        let rows = rows("nested.parquet");
        let expected: Vec<Value> = serde_json::from_str(include_str!(
            "../../../tests/fixtures/formats/parquet/nested.json"
        ))
        .unwrap();
        assert_eq!(rows, expected);
    }

    #[test]
    fn many_row_groups_and_pages() {
        let rows = rows("pages.parquet");
        assert_eq!(rows.len(), 1000);
        for (index, row) in rows.iter().enumerate() {
            let tokens: Vec<String> = (0..index % 7)
                .map(|token| format!("w{}", index * token))
                .collect();
            assert_eq!(row["tokens"], json!(tokens));
            assert_eq!(row["number"], json!(index as i64 * 1_000_003 - 500));
            assert_eq!(row["flag"], json!(index % 3 == 0));
        }
    }

    #[test]
    fn what_cannot_be_read_has_a_reason() {
        let file = std::fs::read(folder().join("class_label.parquet")).unwrap();
        let cut = &file[..file.len() - 30];
        let brotli = std::fs::read(folder().join("brotli.parquet")).unwrap();
        let other = std::fs::read(folder().join("other_columns.parquet")).unwrap();
        for (bytes, part) in [
            (cut, "damaged"),
            (b"PAR1".as_slice(), "damaged"),
            (b"{}", "begins with `PAR1`"),
            (&brotli, "Brotli"),
            (&other, "has the columns `question`, `answer`"),
        ] {
            let source = Source::from_bytes(bytes.to_vec()).unwrap();
            let mut corpus = Collector::new(Path::new("a.parquet"));
            read(&source, &ReadOptions::default(), &mut corpus);
            let problem = &corpus.problems[0];
            assert!(
                problem.severity == Severity::Error && problem.message.contains(part),
                "{problem}"
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn damaged_files_are_errors(
            name in prop::sample::select(vec![
                "class_label.parquet", "nested.parquet", "spans.parquet", "variants/zstd_v2.parquet",
                "variants/delta.parquet", "variants/lz4.parquet", "variants/gzip.parquet",
            ]),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            cut in prop::option::of(any::<prop::sample::Index>()),
        ) {
            let mut file = std::fs::read(folder().join(name)).unwrap();
            for (index, byte) in changes {
                let index = index.index(file.len());
                file[index] = byte;
            }
            if let Some(cut) = cut {
                file.drain(4..4 + cut.index(file.len() - 4));
            }
            let (lines, _) = json_lines(&file, false);
            // The budget holds.
            prop_assert!(lines.len() < 65 << 20);
        }
    }
}
