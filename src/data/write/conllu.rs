//! Writing CoNLL-U with entities as brackets in `Entity=` of the last column.
//!
//! The brackets are those of CorefUD 1.0 and GUM: `(e1-PER` opens an entity, `e1)` closes it, `(e1-PER)` does both on one
//! word. `# global.Entity = eid-etype` names the fields; predictions have a score before the type. The type is the last
//! field, so that it may contain `-`. Parts of a discontinuous entity are numbered: `(e1[1/2]-PER)`.

use std::cmp::Reverse;
use std::io::Write;

use super::annotated::{Annotated, not_writable, rounded};
use super::summary::{Loss, Summary};
use super::write_error;
use crate::error::Result;
use crate::text::{Sentence, Span};

/// Writes CoNLL-U sentence by sentence.
#[derive(Default)]
pub(super) struct Conllu {
    /// The document of the last sentence; `None` before the first one.
    document: Option<Option<String>>,
    /// The number of entities so far, which are their names.
    entities: usize,
    /// Whether the line `# global.Entity` is written.
    has_header: bool,
}

impl Conllu {
    /// Writes a sentence.
    pub fn record(
        &mut self,
        out: &mut dyn Write,
        item: &Annotated<'_>,
        summary: &mut Summary,
    ) -> Result<()> {
        let sentence = item.sentence;
        summary.lose(Loss::Misaligned, item.misaligned().len());
        if sentence.is_empty() {
            summary.lose(Loss::Discontinuous, item.discontinuous().len());
            summary.lose(Loss::Blank, 1);
            return Ok(());
        }
        check(item).map_err(|problem| not_writable(summary.sentences, problem))?;
        self.begin_document(out, item).map_err(write_error)?;
        writeln!(out, "# sent_id = {}", summary.sentences).map_err(write_error)?;
        // A line holds no line breaks, and readers remove white space at its ends.
        let text = sentence.text.trim().replace(['\n', '\r'], " ");
        let changed = text != sentence.text;
        writeln!(out, "# text = {text}").map_err(write_error)?;
        summary.lose(Loss::Spacing, usize::from(changed));
        summary.lose_extras(item, &[Loss::Position, Loss::Context]);
        let brackets = self.brackets(item, summary);
        for (index, word) in sentence.words.iter().enumerate() {
            let pos = sentence.pos.as_ref().map_or("_", |pos| pos[index].as_str());
            let mut misc = Vec::new();
            if !brackets[index].is_empty() {
                misc.push(format!("Entity={}", brackets[index]));
            }
            misc.extend(space_after(sentence, index));
            if misc.is_empty() {
                misc.push("_".to_string());
            }
            writeln!(
                out,
                "{}\t{}\t_\t_\t{pos}\t_\t_\t_\t_\t{}",
                index + 1,
                word.text,
                misc.join("|")
            )
            .map_err(write_error)?;
        }
        writeln!(out).map_err(write_error)
    }

    fn begin_document(&mut self, out: &mut dyn Write, item: &Annotated<'_>) -> std::io::Result<()> {
        let name = &item.sentence.document;
        let is_new = self.document.as_ref() != Some(name);
        if is_new && (name.is_some() || self.document.is_some()) {
            match name {
                Some(name) => writeln!(out, "# newdoc id = {}", name.replace(['\n', '\r'], " "))?,
                None => writeln!(out, "# newdoc")?,
            }
        }
        if !std::mem::replace(&mut self.has_header, true) {
            let score = if item.is_predicted { "-score" } else { "" };
            writeln!(out, "# global.Entity = eid{score}-etype")?;
        }
        self.document = Some(name.clone());
        Ok(())
    }

    /// The brackets of each word.
    fn brackets(&mut self, item: &Annotated<'_>, summary: &mut Summary) -> Vec<String> {
        // Words, name and fields of every part of every entity.
        let mut parts: Vec<(Span, String, String)> = Vec::new();
        for entity in &item.entities {
            self.entities += 1;
            let mut fields = String::new();
            if item.is_predicted {
                let score = entity.score.map(|score| rounded(score).to_string());
                fields += &format!("-{}", score.unwrap_or_default());
            }
            fields += &format!("-{}", entity.label);
            parts.push((entity.span, format!("e{}", self.entities), fields));
        }
        summary.entities += item.entities.len();
        for entity in item.discontinuous() {
            let Some(spans) = item.word_parts(entity) else {
                summary.lose(Loss::Discontinuous, 1);
                continue;
            };
            self.entities += 1;
            summary.entities += 1;
            let (count, fields) = (spans.len(), format!("-{}", entity.label));
            for (index, span) in spans.into_iter().enumerate() {
                let name = format!("e{}[{}/{count}]", self.entities, index + 1);
                parts.push((span, name, fields.clone()));
            }
        }
        // Outer entities open first and close last.
        let mut brackets = vec![WordBrackets::default(); item.sentence.len()];
        parts.sort_by_key(|(span, ..)| (span.start, Reverse(span.end)));
        for (span, name, fields) in &parts {
            let word = &mut brackets[span.start];
            word.open += &format!("({name}{fields}");
            if span.len() == 1 {
                word.open.push(')');
            } else {
                word.goes_on = true;
            }
        }
        parts.sort_by_key(|(span, ..)| (Reverse(span.start), span.end));
        for (span, name, _) in parts.iter().filter(|(span, ..)| span.len() > 1) {
            brackets[span.end - 1].close += &format!("{name})");
        }
        brackets.into_iter().map(WordBrackets::joined).collect()
    }
}

/// The brackets of a word.
#[derive(Clone, Default)]
struct WordBrackets {
    /// Entities that start here, also those that end here.
    open: String,
    /// Entities that start before and end here.
    close: String,
    /// Whether an entity starts here and ends later.
    goes_on: bool,
}

impl WordBrackets {
    fn joined(self) -> String {
        if self.goes_on {
            // `(e2-PERe1)` would be read as one bracket.
            self.close + &self.open
        } else {
            self.open + &self.close
        }
    }
}

/// The attribute for the white space after a word: none for a single space, and none at the end of a sentence.
fn space_after(sentence: &Sentence, index: usize) -> Option<String> {
    let word = &sentence.words[index];
    let next = sentence.words.get(index + 1)?;
    (next.start == word.end).then(|| "SpaceAfter=No".to_string())
}

/// Checks that words, types and part-of-speech tags fit their columns. Words may contain spaces.
fn check(item: &Annotated<'_>) -> Result<(), String> {
    let fits = |text: &str| text.trim() == text && !text.contains(['\t', '\n', '\r']);
    if let Some(word) = item.words().into_iter().find(|word| !fits(word)) {
        return Err(format!(
            "the word `{}` cannot be written in CoNLL-U; write tokens_jsonl instead",
            word.escape_debug()
        ));
    }
    let is_label = |label: &str| {
        label.trim() == label && !label.contains(|c: char| c.is_control() || "()[]|".contains(c))
    };
    let labels = item.entities.iter().map(|entity| entity.label);
    let mut labels = labels.chain(item.discontinuous().iter().map(|e| e.label.as_str()));
    if let Some(label) = labels.find(|label| !is_label(label)) {
        return Err(format!(
            "the type `{}` contains brackets, `|` or a control character, or has white space at its ends; rename it, or write \
             tokens_jsonl instead",
            label.escape_debug()
        ));
    }
    let mut pos = item.sentence.pos.iter().flatten();
    match pos.find(|tag| tag.is_empty() || tag.contains(char::is_whitespace)) {
        Some(tag) => Err(format!(
            "the part-of-speech tag `{}` is empty or contains white space; correct it, or write tokens_jsonl instead",
            tag.escape_debug()
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::write::{WriteOptions, predictions, write_with};
    use crate::data::{Format, TagScheme};
    use crate::text::{Discontinuous, Entity, Mention};

    #[test]
    fn brackets_nest_and_cross() {
        let mut sentence = crate::data::words::sentence("a b-c.", Default::default());
        sentence.document = Some("d".to_string());
        sentence.entities = vec![
            Entity::new(0, 4, "A-1"),
            Entity::new(0, 1, "B"),
            Entity::new(1, 5, "C"),
            Entity::new(3, 4, "D"),
        ];
        sentence.discontinuous = vec![Discontinuous {
            parts: vec![(0, 1), (4, 5)],
            label: "E".to_string(),
        }];
        let mut out = Vec::new();
        let options = WriteOptions::of(Format::Conllu);
        let summary = write_with(&mut out, &[sentence], &options).unwrap();
        let lines = [
            "# newdoc id = d",
            "# global.Entity = eid-etype",
            "# sent_id = 1",
            "# text = a b-c.",
            "1\ta\t_\t_\t_\t_\t_\t_\t_\tEntity=(e1-A-1(e2-B)(e5[1/2]-E)",
            "2\tb\t_\t_\t_\t_\t_\t_\t_\tEntity=(e3-C|SpaceAfter=No",
            "3\t-\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No",
            "4\tc\t_\t_\t_\t_\t_\t_\t_\tEntity=(e4-D)(e5[2/2]-E)e1)|SpaceAfter=No",
            "5\t.\t_\t_\t_\t_\t_\t_\t_\tEntity=e3)",
            "",
            "",
        ];
        assert_eq!(String::from_utf8(out).unwrap(), lines.join("\n"));
        assert_eq!(summary.entities, 5);
    }

    #[test]
    fn predictions_have_scores() {
        let sentence = Sentence::from_words(["Ada", "_"]);
        let mention = Mention {
            entity: Entity::new(0, 1, "PER"),
            score: 0.93,
        };
        let mut out = Vec::new();
        let documents = [Annotated::predicted(
            &sentence,
            std::slice::from_ref(&mention),
        )];
        predictions(&mut out, Format::Conllu, TagScheme::Iob2, &documents).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("# global.Entity = eid-score-etype"), "{text}");
        assert!(text.contains("Entity=(e1-0.93-PER)\n"), "{text}");
    }

    #[test]
    fn words_with_tabs_are_refused() {
        let options = WriteOptions::of(Format::Conllu);
        for word in ["a\tb", " a", "a\n"] {
            let sentence = Sentence::from_words([word]);
            assert!(write_with(&mut Vec::new(), &[sentence], &options).is_err());
        }
        let mut sentence = Sentence::from_words(["a b", "c"]);
        assert!(write_with(&mut Vec::new(), &[sentence.clone()], &options).is_ok());
        for (label, is_fine) in [("work of art", true), ("a|b", false), ("a(b", false)] {
            sentence.entities = vec![Entity::new(0, 1, label)];
            let result = write_with(&mut Vec::new(), &[sentence.clone()], &options);
            assert_eq!(result.is_ok(), is_fine, "{label}");
        }
    }
}
