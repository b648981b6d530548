//! Writing PubTator: title and abstract on a line each, then one tab-separated line per entity,
//! with `-` as its identifier.
//!
//! The first line of a document is its title; a document of one line is split after its first sentence. Offsets count
//! characters in title and abstract joined by one character.

use std::collections::HashSet;
use std::io::Write;

use super::annotated::not_writable;
use super::documents::Document;
use super::summary::{Loss, Summary};
use super::{json_records as records, write_error};
use crate::error::Result;

/// Writes PubTator document by document.
#[derive(Default)]
pub(super) struct Pubtator {
    /// The names used so far.
    names: HashSet<String>,
    documents: usize,
}

impl Pubtator {
    /// Writes a document.
    pub fn record(
        &mut self,
        out: &mut dyn Write,
        document: &Document,
        summary: &mut Summary,
    ) -> Result<()> {
        self.documents += 1;
        let name = self.name(document, summary);
        records::count_continuous(document, summary);
        let mut entities = records::continuous(document);
        let bad = entities.find(|(_, entity)| entity.label.contains(['\t', '\n', '\r']));
        if let Some((_, entity)) = bad {
            let problem = format!(
                "the type `{}` contains a tab or a line break; rename it, or write text_jsonl instead",
                entity.label.escape_debug()
            );
            return Err(not_writable(summary.sentences, problem));
        }
        let (title, separator, text) = split(document);
        let is_line = |text: &str| !text.contains(['\n', '\r']);
        let kept = is_line(title) && is_line(text) && matches!(separator, "" | "\n" | " ");
        // Readers put one character between title and abstract, and may remove white space at the ends of a line.
        let kept = kept && text.trim_end() == text && (!separator.is_empty() || text.is_empty());
        summary.lose(Loss::Spacing, usize::from(!kept));
        let line = |text: &str| text.replace(['\n', '\r'], " ");
        writeln!(out, "{name}|t|{}", line(title)).map_err(write_error)?;
        writeln!(out, "{name}|a|{}", line(text)).map_err(write_error)?;
        let characters = document.characters();
        for ((start, end), entity) in records::continuous(document) {
            let text = characters
                .slice(start, end)
                .replace(['\n', '\r', '\t'], " ");
            // Many readers skip rows without an identifier; PubTator writes `-` for none.
            writeln!(out, "{name}\t{start}\t{end}\t{text}\t{}\t-", entity.label)
                .map_err(write_error)?;
        }
        records::lose_document_extras(document, &[Loss::Score], summary);
        writeln!(out).map_err(write_error)
    }

    /// A name that is unique in the file and has only letters, digits and `._-`.
    fn name(&mut self, document: &Document, summary: &mut Summary) -> String {
        let given = document.name.as_deref().unwrap_or_default();
        let plain: String = given
            .chars()
            .map(|c| {
                if c.is_alphanumeric() || "._-".contains(c) {
                    c
                } else {
                    '_'
                }
            })
            .collect();
        let base = if plain.is_empty() {
            self.documents.to_string()
        } else {
            plain
        };
        let (mut name, mut count) = (base.clone(), 1);
        while !self.names.insert(name.clone()) {
            count = count.max(self.documents) + 1;
            name = format!("{base}-{count}");
        }
        let changed = document.name.as_ref().is_some_and(|given| *given != name);
        summary.lose(Loss::DocumentName, usize::from(changed));
        name
    }
}

/// Title, the white space after it, and the rest of the text. The white space is one character, or none at the end.
fn split(document: &Document) -> (&str, &str, &str) {
    let text: &str = &document.text;
    let first_line = text.find('\n');
    let first_sentence = || {
        let (length, trailing) = document.first_sentence;
        (trailing == 1 && document.sentences > 1).then_some(length)
    };
    match first_line.or_else(first_sentence) {
        Some(end) => {
            let rest = &text[end..];
            let width = rest.chars().next().map_or(0, char::len_utf8);
            (&text[..end], &rest[..width], &rest[width..])
        }
        None => (text, "", ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::write::{WriteOptions, write_with};
    use crate::data::{Format, words};
    use crate::text::{Entity, Sentence};

    fn written(sentences: &[Sentence]) -> (String, Summary) {
        let mut out = Vec::new();
        let options = WriteOptions::of(Format::Pubtator);
        let summary = write_with(&mut out, sentences, &options).unwrap();
        (String::from_utf8(out).unwrap(), summary)
    }

    #[test]
    fn the_first_sentence_is_the_title() {
        let mut title = words::sentence("DCTN4 in 👍.", Default::default());
        title.entities = vec![Entity::new(0, 1, "Gene")];
        title.trailing = " ".to_string();
        title.document = Some("25763772".to_string());
        let mut text = words::sentence("Cystic fibrosis.", Default::default());
        text.offset = 12;
        text.document = title.document.clone();
        text.entities = vec![Entity::new(0, 2, "Disease")];
        let (output, summary) = written(&[title, text]);
        assert_eq!(
            output,
            "25763772|t|DCTN4 in 👍.\n25763772|a|Cystic fibrosis.\n25763772\t0\t5\tDCTN4\tGene\t-\n\
             25763772\t12\t27\tCystic fibrosis\tDisease\t-\n\n"
        );
        assert_eq!(summary.losses.len(), 0);
    }

    #[test]
    fn names_are_unique_and_line_breaks_become_spaces() {
        let mut one = words::sentence("A\nb\nc", Default::default());
        one.document = Some("a b|c".to_string());
        let two = Sentence {
            document: Some("a_b_c".to_string()),
            ..words::sentence("x", Default::default())
        };
        let three = words::sentence("y", Default::default());
        let (output, summary) = written(&[one, two, three]);
        assert_eq!(
            output,
            "a_b_c|t|A\na_b_c|a|b c\n\na_b_c-3|t|x\na_b_c-3|a|\n\n3|t|y\n3|a|\n\n"
        );
        assert_eq!(summary.losses[&Loss::DocumentName], 2);
        assert_eq!(summary.losses[&Loss::Spacing], 1);
    }
}
