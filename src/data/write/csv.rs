//! Writing comma-separated values in the form of the Kaggle corpus "Annotated Corpus for Named Entity Recognition": the
//! columns `Sentence #`, `Word`, `POS` and `Tag`; the first row of a sentence names it.

use std::borrow::Cow;
use std::io::Write;

use super::annotated::{Annotated, not_writable};
use super::summary::{Loss, Summary};
use super::tags::{TagRow, is_tag_label, tags};
use super::{WriteOptions, write_error};
use crate::data::TagScheme;
use crate::error::Result;

/// Writes one word per row, with fields quoted where necessary.
pub(super) struct Csv {
    scheme: TagScheme,
    row: TagRow,
    with_pos: bool,
}

impl Csv {
    /// A writer for sentences with or without part-of-speech tags.
    pub fn new(options: &WriteOptions, with_pos: bool) -> Self {
        let row = if options.multi_tag {
            TagRow::Multi
        } else {
            TagRow::Flat
        };
        Self {
            scheme: options.scheme,
            row,
            with_pos,
        }
    }

    /// Writes the header.
    pub fn begin(&self, out: &mut dyn Write) -> Result<()> {
        let pos = if self.with_pos { "POS," } else { "" };
        writeln!(out, "Sentence #,Word,{pos}Tag").map_err(write_error)
    }

    /// Writes a sentence.
    pub fn record(
        &mut self,
        out: &mut dyn Write,
        item: &Annotated<'_>,
        summary: &mut Summary,
    ) -> Result<()> {
        let sentence = item.sentence;
        let number = summary.sentences;
        summary.lose_unaligned(item);
        if sentence.is_empty() {
            summary.lose(Loss::Blank, 1);
            return Ok(());
        }
        if let Some(entity) = item.entities.iter().find(|e| !is_tag_label(e.label)) {
            let problem = format!(
                "the type `{}` contains white space or `|`, which a tag cannot hold; rename it, or write text_jsonl instead",
                entity.label.escape_debug()
            );
            return Err(not_writable(number, problem));
        }
        let losses = [
            Loss::DocumentName,
            Loss::Spacing,
            Loss::Position,
            Loss::Context,
            Loss::Score,
        ];
        summary.lose_extras(item, &losses);
        if !self.with_pos {
            summary.lose_extras(item, &[Loss::PartOfSpeech]);
        }
        let tags = tags(item, self.scheme, self.row, summary);
        let tags = tags.map_err(|problem| not_writable(number, problem))?;
        for (index, (word, tag)) in sentence.words.iter().zip(&tags).enumerate() {
            if index == 0 {
                write!(out, "Sentence: {number}").map_err(write_error)?;
            }
            write!(out, ",{}", field(&word.text)).map_err(write_error)?;
            if self.with_pos {
                let pos = sentence.pos.as_ref().map_or("", |pos| pos[index].as_str());
                write!(out, ",{}", field(pos)).map_err(write_error)?;
            }
            writeln!(out, ",{}", field(tag)).map_err(write_error)?;
        }
        Ok(())
    }
}

/// A field, in quotes where necessary (RFC 4180).
fn field(text: &str) -> Cow<'_, str> {
    if text.contains([',', '"', '\n', '\r', '\t', ';']) || text.trim() != text {
        Cow::Owned(format!("\"{}\"", text.replace('"', "\"\"")))
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Format;
    use crate::data::write::write_with;
    use crate::text::{Entity, Sentence};

    #[test]
    fn fields_are_quoted() {
        let mut first = Sentence::from_words(["Ada", ",", "\"x\"", "y"]);
        first.entities = vec![Entity::new(0, 3, "PER"), Entity::new(2, 3, "B")];
        first.pos = Some(vec!["NNP".into(), ",".into(), "X".into(), "X".into()]);
        let second = Sentence::from_words(["z"]);
        let mut out = Vec::new();
        let sentences = [first, second];
        let summary = write_with(&mut out, &sentences, &WriteOptions::of(Format::Csv)).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "Sentence #,Word,POS,Tag\nSentence: 1,Ada,NNP,B-PER\n,\",\",\",\",I-PER\n,\"\"\"x\"\"\",X,I-PER\n,y,X,O\n\
             Sentence: 2,z,,O\n"
        );
        assert_eq!(summary.losses[&Loss::Nested], 1);
        assert_eq!(summary.notes(), ["left out: 1 entity inside another"]);
    }
}
