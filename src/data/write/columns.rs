//! Writing column files: one word per line with its tags.

use std::collections::BTreeSet;
use std::io::Write;

use super::annotated::{Annotated, not_writable};
use super::summary::{Loss, Summary, joined_words};
use super::tags::{TagRow, as_entities, is_field, is_tag_label, tags};
use super::{WriteOptions, write_error};
use crate::data::TagScheme;
use crate::data::tags::bio;
use crate::error::{Error, Result};
use crate::text::Entity;

/// Why a sentence cannot be written in columns.
#[derive(Debug, thiserror::Error)]
enum ColumnError {
    #[error("the word `{}` cannot be written in a column; write tokens_jsonl instead", .0.escape_debug())]
    Word(String),
    #[error("`{}` contains white space or `|` and cannot be written in a column; rename it, or write tokens_jsonl instead", .0.escape_debug())]
    Label(String),
}

/// How entities are distributed over columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TagColumns {
    /// One column.
    One(TagRow),
    /// Layers of entities that do not overlap, as in GermEval.
    Layers(usize),
}

/// Writes one word per line with its tags, separated by tabs.
///
/// Flat entities without part-of-speech tags are written in the two columns that every tool reads, with `-DOCSTART-`
/// between documents. Nested entities are distributed over as many tag columns as needed, as in GermEval, and a CoNLL-U
/// Plus line `# global.columns` names the columns. In a stream, where the depth is not known in advance, all tags of a
/// word are in one column.
pub(super) struct Columns {
    scheme: TagScheme,
    columns: TagColumns,
    with_pos: bool,
    document: Option<String>,
    is_first: bool,
}

impl Columns {
    /// A writer for sentences that are not known yet.
    pub fn stream(options: &WriteOptions) -> Self {
        let row = if options.flat {
            TagRow::Flat
        } else {
            TagRow::Multi
        };
        Self {
            scheme: options.scheme,
            columns: TagColumns::One(row),
            with_pos: false,
            document: None,
            is_first: true,
        }
    }

    /// A writer for the given sentences.
    pub fn corpus(options: &WriteOptions, items: &[Annotated<'_>]) -> Self {
        let mut writer = Self::stream(options);
        writer.with_pos = items.iter().any(|item| item.sentence.pos.is_some());
        if !options.flat && !options.multi_tag {
            let depth = items.iter().map(|item| layers(item).len()).max();
            writer.columns = match depth.unwrap_or(0) {
                0 | 1 => TagColumns::One(TagRow::Flat),
                depth => TagColumns::Layers(depth),
            };
        }
        writer
    }

    /// True when a header line names the columns.
    fn is_named(&self) -> bool {
        self.with_pos || matches!(self.columns, TagColumns::Layers(_))
    }

    /// Writes the header line.
    pub fn begin(&self, out: &mut dyn Write) -> Result<()> {
        if !self.is_named() {
            return Ok(());
        }
        let mut names = vec!["ID".to_string(), "FORM".to_string()];
        names.extend(self.with_pos.then(|| "XPOS".to_string()));
        names.push("NER".to_string());
        if let TagColumns::Layers(depth) = self.columns {
            names.extend((2..=depth).map(|layer| format!("NER:{layer}")));
        }
        writeln!(out, "# global.columns = {}", names.join(" ")).map_err(write_error)
    }

    /// Writes a sentence.
    pub fn record(
        &mut self,
        out: &mut dyn Write,
        item: &Annotated<'_>,
        summary: &mut Summary,
    ) -> Result<()> {
        let sentence = item.sentence;
        summary.lose_unaligned(item);
        if sentence.is_empty() {
            summary.lose(Loss::Blank, 1);
            return Ok(());
        }
        let fail = |problem: &dyn std::fmt::Display| not_writable(summary.sentences, problem);
        self.check(item).map_err(|problem| fail(&problem))?;
        let rows = self.rows(item, summary)?;
        self.begin_document(out, sentence.document.as_deref())
            .map_err(write_error)?;
        let named = self.is_named();
        if named && is_plain_line(&sentence.text) {
            if sentence.text != joined_words(item) {
                writeln!(out, "# text = {}", sentence.text).map_err(write_error)?;
            }
            summary.lose_extras(item, &[Loss::Position, Loss::Context, Loss::Score]);
        } else {
            let losses = [Loss::Position, Loss::Context, Loss::Score, Loss::Spacing];
            summary.lose_extras(item, &losses);
        }
        if !named {
            summary.lose_extras(item, &[Loss::DocumentName, Loss::PartOfSpeech]);
        }
        for (index, word) in sentence.words.iter().enumerate() {
            let mut row: Vec<&str> = vec![&word.text];
            let id = (index + 1).to_string();
            if named {
                row.insert(0, &id);
            }
            if self.with_pos {
                row.push(sentence.pos.as_ref().map_or("_", |pos| &pos[index]));
            }
            row.extend(rows.iter().map(|tags| tags[index].as_str()));
            writeln!(out, "{}", row.join("\t")).map_err(write_error)?;
        }
        self.is_first = false;
        writeln!(out).map_err(write_error)
    }

    /// The tags of each column.
    fn rows(&self, item: &Annotated<'_>, summary: &mut Summary) -> Result<Vec<Vec<String>>> {
        let number = summary.sentences;
        let fail = |problem| not_writable(number, problem);
        let depth = match self.columns {
            TagColumns::One(row) => {
                let tags = tags(item, self.scheme, row, summary).map_err(fail)?;
                return Ok(vec![tags]);
            }
            TagColumns::Layers(depth) => depth,
        };
        let layers = layers(item);
        summary.entities += item.entities.len();
        let row = |layer: usize| {
            let entities = layers.get(layer).map_or(&[][..], Vec::as_slice);
            bio::entities_to_tags(entities, item.sentence.len(), self.scheme).map_err(fail)
        };
        (0..depth).map(row).collect::<Result<_, Error>>()
    }

    fn begin_document(&mut self, out: &mut dyn Write, name: Option<&str>) -> std::io::Result<()> {
        if name == self.document.as_deref() {
            return Ok(());
        }
        self.document = name.map(str::to_string);
        match name {
            Some(name) if self.is_named() => {
                writeln!(out, "# newdoc id = {}", name.replace(['\n', '\r'], " "))
            }
            None if self.is_named() => writeln!(out, "# newdoc"),
            _ => writeln!(out, "-DOCSTART-\tO\n"),
        }
    }

    /// Checks that a sentence can be written so that every reader understands it.
    fn check(&self, item: &Annotated<'_>) -> Result<(), ColumnError> {
        let is_word = |text: &str| {
            // At the start of a file it would be read as a byte-order mark.
            let mark = self.is_first && !self.is_named() && text.starts_with('\u{feff}');
            is_field(text) && text != "-DOCSTART-" && !mark
        };
        if let Some(word) = item.words().into_iter().find(|word| !is_word(word)) {
            return Err(ColumnError::Word(word.to_string()));
        }
        let labels: BTreeSet<&str> = item.entities.iter().map(|e| e.label).collect();
        let tags = item.sentence.pos.iter().flatten().map(String::as_str);
        let bad_label = labels.into_iter().find(|label| !is_tag_label(label));
        let bad_tag = tags.filter(|_| self.with_pos).find(|tag| !is_field(tag));
        match bad_label.or(bad_tag) {
            Some(text) => Err(ColumnError::Label(text.to_string())),
            None => Ok(()),
        }
    }
}

fn layers(item: &Annotated<'_>) -> Vec<Vec<Entity>> {
    bio::layers(&as_entities(item))
}

fn is_plain_line(text: &str) -> bool {
    text.trim() == text && !text.contains(['\n', '\r'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Format;
    use crate::data::write::write_with;
    use crate::text::{Misaligned, Sentence};

    fn written(sentence: &Sentence, options: &WriteOptions) -> Result<(String, Summary)> {
        let mut out = Vec::new();
        let sentences = std::slice::from_ref(sentence);
        let summary = write_with(&mut out, sentences, options)?;
        Ok((String::from_utf8(out).unwrap(), summary))
    }

    fn options(scheme: TagScheme) -> WriteOptions {
        WriteOptions {
            scheme,
            ..WriteOptions::of(Format::Columns)
        }
    }

    #[test]
    fn flat_entities_need_one_column_and_nested_ones_layers() {
        let mut sentence = Sentence::from_words(["New", "York", "wins"]);
        sentence.entities = vec![Entity::new(0, 2, "ORG")];
        let (text, _) = written(&sentence, &options(TagScheme::Bioes)).unwrap();
        assert_eq!(text, "New\tB-ORG\nYork\tE-ORG\nwins\tO\n\n");
        sentence.entities.push(Entity::new(1, 2, "LOC"));
        sentence.document = Some("d".to_string());
        let (text, _) = written(&sentence, &options(TagScheme::Iob2)).unwrap();
        assert_eq!(
            text,
            "# global.columns = ID FORM NER NER:2\n# newdoc id = d\n1\tNew\tB-ORG\tO\n2\tYork\tI-ORG\tB-LOC\n3\twins\tO\tO\n\n"
        );
    }

    #[test]
    fn nested_entities_in_one_column_are_joined_or_left_out() {
        let mut sentence = Sentence::from_words(["New", "York", "wins"]);
        sentence.entities = vec![Entity::new(0, 2, "ORG"), Entity::new(1, 2, "LOC")];
        let multi = WriteOptions {
            multi_tag: true,
            ..options(TagScheme::Iob2)
        };
        let (text, summary) = written(&sentence, &multi).unwrap();
        assert_eq!(text, "New\tB-ORG\nYork\tI-ORG|B-LOC\nwins\tO\n\n");
        assert!(summary.is_complete());
        let flat = WriteOptions {
            flat: true,
            ..options(TagScheme::Iob2)
        };
        let (text, summary) = written(&sentence, &flat).unwrap();
        assert_eq!(text, "New\tB-ORG\nYork\tI-ORG\nwins\tO\n\n");
        assert_eq!(summary.losses[&Loss::Nested], 1);
        let strict = WriteOptions {
            strict: true,
            ..flat
        };
        let error = written(&sentence, &strict).unwrap_err().to_string();
        assert!(error.contains("1 entity inside another"), "{error}");
    }

    #[test]
    fn sentences_that_columns_cannot_represent_are_errors() {
        for words in [
            vec!["a b"],
            vec!["a\u{b}"],
            vec!["", "x"],
            vec!["-DOCSTART-"],
        ] {
            let sentence = Sentence::from_words(words);
            let error = written(&sentence, &options(TagScheme::Iob2)).unwrap_err();
            assert!(error.to_string().starts_with("sentence 1"), "{error}");
        }
        let mut sentence = Sentence::from_words(["a"]);
        for label in ["two words", "A|B"] {
            sentence.entities = vec![Entity::new(0, 1, label)];
            assert!(written(&sentence, &options(TagScheme::Iob2)).is_err());
        }
        sentence.entities.clear();
        sentence.misaligned = vec![Misaligned {
            start: 0,
            end: 1,
            label: "X".to_string(),
        }];
        let (_, summary) = written(&sentence, &options(TagScheme::Iob2)).unwrap();
        assert_eq!(summary.left_out, 1);
        let (text, summary) = written(&Sentence::default(), &options(TagScheme::Iob2)).unwrap();
        assert_eq!((text.as_str(), summary.losses[&Loss::Blank]), ("", 1));
    }
}
