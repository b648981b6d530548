//! CoNLL-U and CoNLL-U Plus: words with syntax in ten columns or more, and entities in the column MISC or in one of tags.
//!
//! Reads the brackets of GUM and CorefUD (`Entity=(1-person`, see [`brackets`]) and tags
//! such as `NE=B-PER` (TüBa-D/Z, spaCy, GiNZA), `NER=B-per` (SETimes, hr500k), `name=B-PER` (NorNE, DaNE), `ner=S-PERSON`
//! (Stanza) and `NE=P_1-pf_2` (NameTag). `# text` and `SpaceAfter=No` give the text.

mod annotation;
mod brackets;
mod columns;
mod mentions;
mod words;

use std::collections::HashSet;

use super::ReadOptions;
use super::sentences::entities;
use super::source::tally::Tally;
use super::source::{Collector, Source};
use super::tags::{self, bio::TagProblem};
use crate::text::{Discontinuous, Entity};
use annotation::ConlluAnnotation;
use columns::ConlluColumns;
use mentions::{Found, Mentions, note};
use words::{Unit, Words};

pub(in crate::data) use annotation::detect;

/// Reads a CoNLL-U file.
pub(super) fn read(source: &Source, options: &ReadOptions, corpus: &mut Collector) {
    let columns = match ConlluColumns::of(source, options) {
        Ok(columns) => columns,
        Err(message) => return corpus.error(0, message),
    };
    let findings = match annotation::find(source, &columns, options) {
        Ok(findings) => findings,
        Err(message) => return corpus.error(0, message),
    };
    for note in findings.notes {
        corpus.warn(0, note);
    }
    let mut reader = Reader {
        columns: &columns,
        annotation: &findings.annotation,
        corpus,
        document: None,
        documents: 0,
        text: None,
        rows: Vec::new(),
        invalid: false,
        mentions: Mentions::default(),
        tally: Tally::default(),
    };
    for line in source.lines() {
        match reader.corpus.line_text(&line) {
            Some(text) if text.trim().is_empty() => reader.end_sentence(),
            Some(text) if text.starts_with('#') => reader.comment(text),
            Some(text) => reader.row(line.number, text),
            None => reader.invalid = true,
        }
    }
    reader.end_sentence();
    reader.end_document();
    reader.tally.report(reader.corpus);
}

struct Reader<'a, 'b> {
    columns: &'b ConlluColumns,
    annotation: &'b ConlluAnnotation,
    corpus: &'b mut Collector,
    document: Option<String>,
    documents: usize,
    /// The text of the next sentence, from a `# text = ` comment.
    text: Option<&'a str>,
    /// The rows of the current sentence with their line numbers.
    rows: Vec<(usize, Vec<&'a str>)>,
    /// A row of the current sentence is invalid.
    invalid: bool,
    mentions: Mentions<'a>,
    tally: Tally,
}

impl<'a> Reader<'a, '_> {
    fn comment(&mut self, line: &'a str) {
        let comment = line.trim_start_matches('#').trim_start();
        let value = |key: &str| {
            let rest = comment.strip_prefix(key)?.trim_start();
            rest.strip_prefix('=').map(str::trim)
        };
        if let Some(name) = value("newdoc id") {
            self.begin_document(name);
        } else if comment.trim() == "newdoc" || comment.starts_with("newdoc ") {
            self.begin_document("");
        } else if let Some(order) = annotation::field_order(line) {
            self.mentions.order = order;
        } else if let Some(text) = value("text") {
            self.text = Some(text);
        }
    }

    fn begin_document(&mut self, name: &str) {
        if !self.rows.is_empty() {
            self.end_sentence();
        }
        self.end_document();
        self.documents += 1;
        self.document = Some(match name {
            "" => format!("{}#{}", self.corpus.stem(), self.documents),
            name => name.to_string(),
        });
    }

    fn end_document(&mut self) {
        self.mentions.end_document(self.corpus);
    }

    fn row(&mut self, number: usize, line: &'a str) {
        match self.columns.fields(line) {
            Ok(row) => self.rows.push((number, row)),
            Err(count) => {
                self.corpus.error(number, format!(
                    "{count} columns where CoNLL-U has {}, separated by tabs; correct the row, or put a blank line between \
                     sentences",
                    self.columns.width
                ));
                self.invalid = true;
            }
        }
    }

    fn end_sentence(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        let text = self.text.take();
        let mut valid = !std::mem::take(&mut self.invalid);
        let Some((first, _)) = rows.first() else {
            return;
        };
        let words = match Words::of(&rows, self.columns, self.key()) {
            Ok(words) => words,
            Err((line, message)) => return self.corpus.error(line, message),
        };
        let mut found = Vec::new();
        match self.annotation {
            ConlluAnnotation::None => {}
            ConlluAnnotation::Brackets(_) => {
                let (mentions, tally) = (&mut self.mentions, &mut self.tally);
                valid &= mentions.sentence(&words.units, &mut found, tally, self.corpus);
            }
            ConlluAnnotation::Tags(_, style, scheme) => {
                let units: Vec<&Unit> = words
                    .units
                    .iter()
                    .filter(|unit| unit.start < unit.end)
                    .collect();
                let cells: Vec<&str> = units.iter().map(|unit| unit.value.unwrap_or("O")).collect();
                let (entities, problems) = style.decode(&cells, *scheme);
                valid &= self.tags(&units, entities, problems, &mut found);
            }
            ConlluAnnotation::Columns(style, scheme) => {
                let units: Vec<&Unit> = words
                    .units
                    .iter()
                    .filter(|unit| unit.start < unit.end)
                    .collect();
                for column in &self.columns.tags {
                    let cells: Vec<&str> =
                        units.iter().map(|unit| rows[unit.row].1[*column]).collect();
                    let (entities, problems) = style.decode(&cells, *scheme);
                    valid &= self.tags(&units, entities, problems, &mut found);
                }
            }
        }
        let (mut sentence, is_given) = words.sentence(text);
        if text.is_some() && !is_given {
            self.tally.add(*first, note::OTHER_TEXT);
        }
        sentence.document = self.document.clone();
        let mut seen: HashSet<Entity> = HashSet::new();
        for Found { parts, label, line } in found {
            let spans: Vec<(usize, usize)> = (parts.iter())
                .map(|(start, end)| (words.word[*start], words.word[*end - 1] + 1))
                .collect();
            if parts.iter().any(|part| words.cuts_token(*part)) {
                self.tally.add(line, note::WIDENED);
            }
            let [(start, end)] = spans[..] else {
                let parts = (spans.iter())
                    .map(|(start, end)| {
                        (sentence.words[*start].start, sentence.words[*end - 1].end)
                    })
                    .collect();
                sentence.discontinuous.push(Discontinuous { parts, label });
                continue;
            };
            let entity = Entity::new(start, end, label);
            if seen.insert(entity.clone()) {
                sentence.entities.push(entity);
            } else {
                let text = format!("`{}`", sentence.surface(entity.span));
                self.corpus
                    .warn(line, entities::given_twice(&entity.label, text));
            }
        }
        sentence.entities.sort();
        if valid {
            self.corpus.push(*first, sentence);
        }
    }

    /// The key of MISC that has the annotation.
    fn key(&self) -> Option<&'static str> {
        match self.annotation {
            ConlluAnnotation::Brackets(key) | ConlluAnnotation::Tags(key, ..) => Some(key),
            ConlluAnnotation::Columns(..) | ConlluAnnotation::None => None,
        }
    }

    /// Adds the entities of decoded tags, whose spans count units; false when one of the cells was not a tag.
    fn tags(
        &mut self,
        units: &[&Unit],
        entities: Vec<Entity>,
        problems: Vec<TagProblem>,
        found: &mut Vec<Found>,
    ) -> bool {
        let valid = tags::report(problems, |unit| units[unit].line, self.corpus);
        found.extend(entities.into_iter().map(|Entity { span, label }| Found {
            parts: vec![(units[span.start].start, units[span.end - 1].end)],
            label,
            line: units[span.start].line,
        }));
        valid
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::testing::{self, found, scan_content};
    use crate::data::{Format, Problem, Severity, detect_format, scan};
    use crate::text::Sentence;

    fn fixture(name: &str) -> (Vec<Sentence>, Vec<Problem>) {
        let path = testing::fixture("conllu").join(name);
        scan(&path, &ReadOptions::of(Format::Conllu)).unwrap()
    }

    fn with(content: impl AsRef<[u8]>) -> (Vec<Sentence>, Vec<Problem>) {
        scan_content("file.conllu", content, &ReadOptions::of(Format::Conllu))
    }

    /// Rows with word and MISC, such as `Ada Entity=(1-person)`; lines that start with `#` are comments.
    fn rows(lines: &str) -> String {
        let mut number = 0;
        let mut text = String::new();
        for line in lines.lines() {
            if line.is_empty() {
                number = 0;
                text += "\n";
            } else if line.starts_with('#') {
                text += &format!("{line}\n");
            } else {
                number += 1;
                let (form, misc) = line.split_once(' ').unwrap_or((line, "_"));
                text += &format!("{number}\t{form}\t_\tX\t_\t_\t0\tdep\t_\t{misc}\n");
            }
        }
        text
    }

    /// UD_English-GUM 2.13: multiword tokens, nested, discontinuous and zero mentions.
    #[test]
    fn gum_brackets_are_read() {
        let (sentences, problems) = fixture("gum.conllu");
        assert_eq!(
            sentences[0].text,
            "The mayor of Lindholm doesn't like the old bridge (1890)."
        );
        assert_eq!(sentences[0].document.as_deref(), Some("TINY_news_bridge"));
        assert_eq!(
            found(&sentences[0]),
            [
                ("The mayor of Lindholm", "person"),
                ("Lindholm", "place"),
                ("the old bridge", "object"),
                ("1890", "time")
            ]
        );
        assert_eq!(sentences[0].len(), 14);
        assert_eq!(sentences[0].pos.as_ref().unwrap()[4..6], ["AUX", "PART"]);
        assert_eq!(found(&sentences[1]), [("It", "object"), ("he", "person")]);
        let apart = &sentences[1].discontinuous[0];
        assert_eq!((apart.label.as_str(), apart.parts.len()), ("event", 2));
        let (start, end) = apart.parts[1];
        assert_eq!(crate::text::slice(&sentences[1].text, start, end), "repair");
        let messages: Vec<&str> = problems.iter().map(|p| p.message.as_str()).collect();
        assert_eq!(problems.len(), 2, "{messages:?}");
        assert!(
            messages
                .iter()
                .any(|message| message.contains("discontinuous"))
        );
        assert!(
            messages
                .iter()
                .any(|message| message.contains("empty nodes"))
        );
        assert!(problems.iter().all(|p| p.severity == Severity::Warning));
    }

    /// Tags as in UD treebanks of German; `am` is one word of the text, so the entity that begins inside it is extended.
    #[test]
    fn tags_in_misc_are_read() {
        let (sentences, problems) = fixture("ne.conllu");
        assert_eq!(sentences[0].text, "Am Rhein, in Köln.");
        assert_eq!(found(&sentences[0]), [("Am Rhein", "LOC"), ("Köln", "LOC")]);
        assert_eq!(sentences[0].pos.as_ref().unwrap()[0], "ADP+DET");
        assert_eq!(sentences[0].document.as_deref(), Some("ne#1"));
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].message.contains("multiword token"));
        for misc in [
            ["name=B-PER", "name=I-PER", "name=O"],
            ["NER=B-PER", "NER=I-PER", "_"],
            ["start_char=0|ner=B-PER", "ner=E-PER", "ner=O"],
            ["NE=PER_B", "NE=PER_I", "_"],
            ["NE=PER_1", "NE=PER_1", "NE=_"],
            ["NamedEntity=PER", "NamedEntity=PER", "_"],
        ] {
            let text = format!("Ada {}\nLovelace {}\nsang {}\n", misc[0], misc[1], misc[2]);
            let (sentences, _) = with(rows(&text));
            assert_eq!(found(&sentences[0]), [("Ada Lovelace", "PER")], "{misc:?}");
        }
    }

    #[test]
    fn conllu_plus_has_tag_columns() {
        let (sentences, problems) = fixture("plus.conllup");
        assert_eq!(problems, []);
        assert_eq!(sentences[0].text, "北京👍.");
        assert_eq!(found(&sentences[0]), [("北京", "LOC")]);
    }

    #[test]
    fn other_field_orders_are_understood() {
        for text in [
            "# global.Entity = eid-etype-head-other\na Entity=(e1-person-1-\nb Entity=(e2-place-1-)e1)\n",
            "# global.Entity = entity-GRP-infstat\na Entity=(person-1-new\nb Entity=(place-2-new)1)\n",
            "# global.Entity = etype-identity\na Entity=(person\nb Entity=(place-B)person)\n",
            "a Entity=(person-1\nb Entity=(place-2)person-1)\n",
            "a Entity=(person\nb Entity=(place)person)\n",
        ] {
            let (sentences, problems) = with(rows(text));
            assert_eq!(problems, [], "{text}");
            assert_eq!(
                found(&sentences[0]),
                [("a b", "person"), ("b", "place")],
                "{text}"
            );
        }
    }

    #[test]
    fn what_cannot_be_kept_is_said_once() {
        let text = "# global.Entity = eid-etype\n# text = not these words\na Entity=(e1-person\nb Entity=(e2-place\n\n\
                    c Entity=e1)\nd Entity=e2)\n\ne Entity=(e3-)\nf Entity=(e4-x)(e5-x)\n";
        let (sentences, problems) = with(rows(text));
        assert_eq!(sentences.len(), 3);
        assert_eq!(found(&sentences[2]), [("f", "x")]);
        let messages: Vec<&str> = problems.iter().map(|p| p.message.as_str()).collect();
        for part in [
            "2 mentions reach",
            "1 mentions have no entity type",
            "`# text` of 1",
            "given twice",
        ] {
            assert!(
                messages.iter().any(|message| message.contains(part)),
                "{messages:?}"
            );
        }
        assert!(problems.iter().all(|p| p.severity == Severity::Warning));
    }

    #[test]
    fn broken_rows_are_errors_with_their_line() {
        let head = "1\ta\t_\tX\t_\t_\t0\tdep\t_\tEntity=(1-x)\n\n";
        for (text, line) in [
            ("1\ta\t_\n", 3),
            ("1\ta\t_\tX\t_\t_\t0\tdep\t_\tEntity=(1-x\n", 3),
            ("1\ta\t_\tX\t_\t_\t0\tdep\t_\tEntity=1)\n", 3),
            ("1\ta\t_\tX\t_\t_\t0\tdep\t_\tEntity=x\n", 3),
            ("x\ta\t_\tX\t_\t_\t0\tdep\t_\t_\n", 3),
            (
                "1-2\ta\t_\tX\t_\t_\t0\tdep\t_\t_\n1\ta\t_\tX\t_\t_\t0\tdep\t_\t_\n",
                3,
            ),
            ("1\t\t_\tX\t_\t_\t0\tdep\t_\t_\n", 3),
        ] {
            let (_, problems) = with(format!("{head}{text}"));
            assert_eq!(problems.len(), 1, "{text}: {problems:?}");
            assert_eq!(
                (problems[0].severity, problems[0].location.line),
                (Severity::Error, line),
                "{text}"
            );
        }
    }

    #[test]
    fn a_file_without_entities_says_so() {
        let (sentences, problems) = with(rows("a SpaceAfter=No\nb\n"));
        assert_eq!(sentences[0].text, "ab");
        assert_eq!(problems[0].severity, Severity::Warning);
        assert!(problems[0].message.contains("no entities"));
        for misc in ["MyEntity=x", "Entity=(e1)"] {
            let (sentences, problems) = with(rows(&format!("a {misc}\n")));
            assert!(sentences.is_empty());
            assert_eq!(problems[0].severity, Severity::Error);
            assert!(problems[0].message.contains("NER="), "{problems:?}");
        }
    }

    #[test]
    fn the_format_is_detected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.conllu");
        for (text, format) in [
            (rows("a Entity=(1-x)\nb\n"), Format::Conllu),
            (rows("a\nb\n").replace('\n', "\r\n"), Format::Conllu),
            (rows("a O\nb B-X\n"), Format::Columns),
            (
                "# global.columns = ID FORM MISC\n1\ta\tNE=B-X\n".to_string(),
                Format::Conllu,
            ),
            (
                "# global.columns = ID FORM NER\n1\ta\tB-X\n".to_string(),
                Format::Columns,
            ),
            (
                "# global.columns = ID FORM NER MISC\n1\ta\tB-X\t_\n2\tb\tO\tSpaceAfter=No\n"
                    .to_string(),
                Format::Conllu,
            ),
        ] {
            std::fs::write(&path, &text).unwrap();
            assert_eq!(detect_format(&path).unwrap(), format, "{text}");
        }
    }
}
