//! WebAnno TSV 3 (versions 3.0 to 3.3), the tab-separated export of WebAnno and INCEpTION.
//!
//! After a header with the layers, every sentence has its text (`#Text=`) and a row for each token: number, offsets, token,
//! and a column for each feature of a layer. An annotation of several tokens has a number, as in `PER[1]`, and several
//! annotations of a token are separated by `|`, so that entities nest and cross. Rows such as `1-3.1` are parts of a token.
//! Offsets count UTF-16 code units. See the user guide of INCEpTION, "WebAnno TSV 3.3 File format".

mod layers;
mod runs;
mod text;

use std::collections::BTreeSet;

use super::ReadOptions;
use super::source::tally::Tally;
use super::source::{Collector, Source};
use crate::text::Sentence;
use layers::{EntityColumn, Layers, cell_values};
use runs::{Runs, note};
use text::{TokenText, characters_before, sentence_of};

/// The most different values of a column that are kept to choose the column of the entities.
const MOST_VALUES: usize = 1000;

/// True for a file of this format, also of a version that cannot be read.
pub(super) fn detect(source: &Source) -> bool {
    let mut lines = source.lines().filter_map(|line| line.text.ok());
    lines
        .find(|text| !text.trim().is_empty())
        .is_some_and(|text| text.starts_with("#FORMAT=WebAnno TSV"))
}

/// Reads a WebAnno TSV file, which is one document.
pub(super) fn read(source: &Source, options: &ReadOptions, corpus: &mut Collector) {
    let lines = || source.lines().filter_map(|line| line.text.ok());
    let version = lines().find_map(|text| text.strip_prefix("#FORMAT=WebAnno TSV"));
    let version = version.unwrap_or(" 3.3").trim();
    if !version.starts_with('3') {
        let message = format!(
            "WebAnno TSV {version} cannot be read; export the document again as WebAnno TSV 3"
        );
        return corpus.error(1, message);
    }
    let layers = Layers::of(lines());
    let chosen = match &options.tag_columns {
        Some(columns) => {
            if let Some(column) = columns.iter().find(|column| **column >= layers.width) {
                let message = format!(
                    "there is no column {column} (counted from 0); rows have {} columns",
                    layers.width
                );
                return corpus.error(0, message);
            }
            Ok(columns
                .iter()
                .map(|column| EntityColumn {
                    column: *column,
                    label: None,
                })
                .collect())
        }
        None => layers.entity_columns(&values(source, layers.width)),
    };
    let columns: Vec<EntityColumn> = match chosen {
        Ok(columns) => columns,
        Err(message) => return corpus.error(0, message),
    };
    if columns.is_empty() {
        corpus.warn(
            0,
            "the file has no layer of entities; its sentences are read without entities",
        );
    }
    let mut reader = Reader {
        layers: &layers,
        columns: &columns,
        is_java: version == "3.1" || version == "3.0" || version == "3",
        corpus,
        texts: Vec::new(),
        rows: Vec::new(),
        invalid: false,
        sentences: Vec::new(),
        tokens: 0,
        runs: Runs::default(),
        tally: Tally::default(),
    };
    for line in source.lines() {
        match reader.corpus.line_text(&line) {
            Some(text) => reader.line(line.number, text),
            None => reader.invalid = true,
        }
    }
    reader.end_sentence();
    reader.finish();
}

/// The different values of each column, `*` for an annotation without one.
fn values(source: &Source, width: usize) -> Vec<BTreeSet<String>> {
    let mut values = vec![BTreeSet::new(); width];
    for line in source.lines().filter_map(|line| line.text.ok()) {
        if line.starts_with('#') {
            continue;
        }
        for (cell, known) in line.split('\t').zip(&mut values).skip(3) {
            if cell != "_" && known.len() < MOST_VALUES {
                let found = cell_values(cell).into_iter();
                known.extend(found.map(|cell| cell.value.unwrap_or("*".to_string())));
            }
        }
    }
    values
}

/// A row of a token or a part of a token.
struct Row<'a> {
    line: usize,
    fields: Vec<&'a str>,
    is_part: bool,
    begin: usize,
    end: usize,
}

struct Reader<'a, 'b> {
    layers: &'b Layers,
    columns: &'b [EntityColumn],
    /// True when texts have the escapes of Java.
    is_java: bool,
    corpus: &'b mut Collector,
    texts: Vec<&'a str>,
    rows: Vec<Row<'a>>,
    invalid: bool,
    /// The sentences with their lines; `None` for one with an error.
    sentences: Vec<(usize, Option<Sentence>)>,
    /// Number of tokens of the document so far.
    tokens: usize,
    runs: Runs,
    tally: Tally,
}

impl<'a> Reader<'a, '_> {
    fn line(&mut self, number: usize, line: &'a str) {
        if line.trim().is_empty() {
            return self.end_sentence();
        }
        if let Some(text) = line.strip_prefix("#Text=") {
            if !self.rows.is_empty() {
                self.end_sentence();
            }
            return self.texts.push(text);
        }
        if line.starts_with('#') {
            return;
        }
        match self.parse(number, line) {
            Ok(row) => self.rows.push(row),
            Err(message) => {
                self.corpus.error(number, message);
                self.invalid = true;
            }
        }
    }

    fn parse(&self, line: usize, text: &'a str) -> Result<Row<'a>, String> {
        let mut fields: Vec<&str> = text.split('\t').collect();
        if fields.len() == self.layers.width + 1 && fields.last() == Some(&"") {
            fields.pop();
        }
        if fields.len() != self.layers.width {
            return Err(format!(
                "{} columns where the header gives {}, separated by tabs; correct the row",
                fields.len(),
                self.layers.width
            ));
        }
        let pair = |text: &str| {
            let (first, second) = text.split_once('-')?;
            Some((first.parse::<usize>().ok()?, second.parse::<usize>().ok()?))
        };
        let (id, is_part) = match fields[0].split_once('.') {
            Some((token, part)) => (token, part.parse::<usize>().is_ok()),
            None => (fields[0], false),
        };
        let (Some(_), Some((begin, end))) = (pair(id), pair(fields[1])) else {
            return Err(format!(
                "expected the number of a token and its offsets, such as `1-2<tab>4-8`, not `{}` and `{}`",
                fields[0], fields[1]
            ));
        };
        if is_part && self.rows.is_empty() {
            return Err("a part of a token without the token above it; add its row".to_string());
        }
        if begin > end {
            return Err(format!("the token ends before it begins: {}", fields[1]));
        }
        Ok(Row {
            line,
            fields,
            is_part,
            begin,
            end,
        })
    }

    fn end_sentence(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        let texts = std::mem::take(&mut self.texts);
        let invalid = std::mem::take(&mut self.invalid);
        let Some(first) = rows.first().map(|row| row.line) else {
            return;
        };
        let tokens: Vec<TokenText> = (rows.iter())
            .filter(|row| !row.is_part)
            .map(|row| TokenText {
                begin: row.begin,
                end: row.end,
                text: row.fields[2],
            })
            .collect();
        if tokens.iter().any(|token| token.text.is_empty()) {
            self.corpus.error(
                first,
                "the sentence has an empty token; export the document again",
            );
            return self.sentences.push((first, None));
        }
        let (mut sentence, fits) = sentence_of(&texts, &tokens, self.is_java);
        if !fits && !texts.is_empty() {
            self.tally.add(first, note::OTHER_OFFSETS);
        }
        sentence.document = Some(self.corpus.stem());
        sentence.pos = self.part_of_speech(&rows);
        self.annotations(&rows, &sentence);
        self.tokens += tokens.len();
        self.sentences.push((first, (!invalid).then_some(sentence)));
    }

    fn part_of_speech(&self, rows: &[Row]) -> Option<Vec<String>> {
        let column = self.layers.part_of_speech()?;
        let tags = rows.iter().filter(|row| !row.is_part).map(|row| {
            let mut values = cell_values(row.fields[column]).into_iter();
            values.next().and_then(|value| value.value)
        });
        tags.collect()
    }

    /// Collects the annotations of a sentence.
    fn annotations(&mut self, rows: &[Row], sentence: &Sentence) {
        let number = self.sentences.len();
        let mut tokens = 0;
        let mut parent = (0, 0);
        for row in rows {
            if !row.is_part {
                parent = (tokens, row.begin);
                tokens += 1;
            }
            let token = self.tokens + parent.0;
            let word = &sentence.words[parent.0];
            let (start, end) = if row.is_part {
                let inside = |offset: usize| {
                    word.start + characters_before(&word.text, offset.saturating_sub(parent.1))
                };
                (inside(row.begin), inside(row.end))
            } else {
                (word.start, word.end)
            };
            if start >= end {
                continue;
            }
            for EntityColumn { column, label } in self.columns {
                for cell in cell_values(row.fields[*column]) {
                    let Some(label) = label.clone().or(cell.value) else {
                        self.tally.add(row.line, note::NO_TYPE);
                        continue;
                    };
                    let segment = (number, start, end);
                    self.runs
                        .add((*column, cell.id), label, row.line, segment, token);
                }
            }
        }
    }

    /// Adds the annotations to the sentences, and the sentences to the corpus.
    fn finish(mut self) {
        if self.runs.is_empty() && !self.columns.is_empty() {
            let message = "the layer of the entities has no annotations; name another column with tag_columns if they are there";
            self.corpus.warn(0, message);
        }
        self.runs
            .finish(&mut self.sentences, &mut self.tally, self.corpus);
        self.tally.report(self.corpus);
        for (line, sentence) in self.sentences {
            if let Some(mut sentence) = sentence {
                sentence.entities.sort();
                self.corpus.push(line, sentence);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::testing::{fixture, found, scan_content};
    use crate::data::{Format, Problem, Severity, detect_format, scan};

    fn with(content: &str, options: ReadOptions) -> (Vec<Sentence>, Vec<Problem>) {
        scan_content("file.tsv", content, &options)
    }

    /// INCEpTION 33, WebAnno TSV 3.3: nested, part of a token, without value, over two sentences, emoji.
    #[test]
    fn an_export_of_inception_is_read() {
        let path = fixture("webanno/inception.tsv");
        assert_eq!(detect_format(&path).unwrap(), Format::Webanno);
        let (sentences, problems) = scan(&path, &ReadOptions::default()).unwrap();
        assert_eq!(sentences.len(), 3);
        assert_eq!(
            sentences[0].text,
            "Maria leads the University of Lindholm 😊 ."
        );
        assert_eq!(sentences[0].document.as_deref(), Some("inception"));
        assert_eq!(sentences[0].pos.as_ref().unwrap()[6], "SYM");
        assert_eq!(
            found(&sentences[0]),
            [
                ("Maria", "PER"),
                ("the University of Lindholm", "ORG"),
                ("Lindholm", "LOC")
            ]
        );
        assert_eq!(sentences[1].text, "The Maria-Keller-Haus\nis a\\b .");
        assert_eq!(found(&sentences[1]), [("Maria-Keller-Haus", "LOC")]);
        let part = &sentences[1].misaligned[0];
        assert_eq!(
            (part.start, part.end, part.label.as_str()),
            (4, 16, "PER_x")
        );
        assert!(sentences[2].entities.is_empty());
        let lines: Vec<usize> = problems.iter().map(|p| p.location.line).collect();
        assert_eq!(lines, [15, 22, 24], "{problems:?}");
        assert!(problems.iter().all(|p| p.severity == Severity::Warning));
    }

    const HEADER: &str =
        "#FORMAT=WebAnno TSV 3.2\n#T_SP=webanno.custom.Span|value|identifier\n\n\n";

    /// As programs write it that do not follow the format: offsets and numbers begin again in every sentence.
    #[test]
    fn offsets_and_numbers_may_begin_again() {
        let text = format!(
            "{HEADER}#Text=See Nikola Tesla\n1-1\t0-3\tSee\t_\t_\n1-2\t4-10\tNikola\tPER[1]\tQ9[1]\n1-3\t11-16\tTesla\tPER[1]\tQ9[1]\n\n\
             #Text=He saw Ada King\n2-1\t0-2\tHe\t_\t_\n2-2\t3-6\tsaw\t_\t_\n2-3\t7-10\tAda\tPER[1]\t*[1]\n2-4\t11-15\tKing\tPER[1]\t*[1]\n"
        );
        let (sentences, problems) = with(&text, ReadOptions::default());
        assert_eq!(problems, []);
        assert_eq!(found(&sentences[0]), [("Nikola Tesla", "PER")]);
        assert_eq!(found(&sentences[1]), [("Ada King", "PER")]);
        let (again, problems) = with(&text.replace('\n', "\r\n"), ReadOptions::default());
        assert_eq!((again, problems), (sentences, vec![]));
        // Without a text, or with another one, the tokens give it.
        let (sentences, problems) = with(
            &text.replace("#Text=See Nikola", "#Text=Zee  Nikola"),
            ReadOptions::default(),
        );
        assert_eq!(sentences[0].text, "See Nikola Tesla");
        assert_eq!(problems.len(), 1);
    }

    #[test]
    fn crossing_entities_and_characters_as_offsets_are_read() {
        let text = format!(
            "{HEADER}#Text=👍 a b שלום\n1-1\t7-8\t👍\tX[1]\t_\n1-2\t9-10\ta\tX[1]|X[2]\t_\n1-3\t11-12\tb\tX[2]\t_\n1-4\t13-17\tשלום\tX\t_\n"
        );
        let (sentences, problems) = with(&text, ReadOptions::default());
        assert_eq!(problems, []);
        assert_eq!(
            found(&sentences[0]),
            [("👍 a", "X"), ("a b", "X"), ("שלום", "X")]
        );
    }

    #[test]
    fn the_layer_can_be_chosen() {
        let text = "#FORMAT=WebAnno TSV 3.3\n#T_SP=webanno.custom.A|x\n#T_SP=webanno.custom.B|y\n\n\n#Text=a\n1-1\t0-1\ta\tone\ttwo\t\n";
        let (sentences, problems) = with(text, ReadOptions::default());
        assert!(sentences.is_empty());
        assert!(
            problems[0].message.contains("3 webanno.custom.A|x"),
            "{problems:?}"
        );
        let options = ReadOptions {
            tag_columns: Some(vec![4]),
            ..ReadOptions::default()
        };
        let (sentences, problems) = with(text, options.clone());
        assert_eq!(problems, []);
        assert_eq!(found(&sentences[0]), [("a", "two")]);
        let both = ReadOptions {
            tag_columns: Some(vec![3, 4]),
            ..options.clone()
        };
        assert_eq!(found(&with(text, both).0[0]), [("a", "one"), ("a", "two")]);
        let none = ReadOptions {
            tag_columns: Some(vec![9]),
            ..options
        };
        assert_eq!(with(text, none).1[0].severity, Severity::Error);
    }

    #[test]
    fn broken_rows_and_other_versions_are_errors() {
        for row in [
            "1-1\t0-1\ta",
            "x\t0-1\ta\t_\t_",
            "1-1\t0\ta\t_\t_",
            "1-1\t2-1\ta\t_\t_",
            "1-1.1\t0-1\ta\t_\t_",
            "1-1\t0-1\t\t_\t_",
        ] {
            let (sentences, problems) = with(
                &format!("{HEADER}{row}\n\n2-1\t0-1\ta\tX\t_\n"),
                ReadOptions::default(),
            );
            assert_eq!(sentences.len(), 1, "{row}");
            assert_eq!(problems.len(), 1, "{row}: {problems:?}");
            assert_eq!(
                (problems[0].severity, problems[0].location.line),
                (Severity::Error, 5),
                "{row}"
            );
        }
        let (_, problems) = with("#FORMAT=WebAnno TSV 2.0\n", ReadOptions::default());
        assert!(problems[0].message.contains("TSV 3"));
        let (sentences, problems) = with(
            "#FORMAT=WebAnno TSV 3.1\n\n\n#Text=\\u0041\n1-1\t0-1\tA\t\n",
            ReadOptions::default(),
        );
        assert_eq!(sentences[0].text, "A");
        assert!(problems[0].message.contains("no layer"));
    }
}
