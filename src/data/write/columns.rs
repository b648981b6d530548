//! Writing column files: one word per line with its tags.

use std::collections::BTreeSet;
use std::io::Write;

use super::{Summary, joined_words, not_writable, write_error};
use crate::data::TagScheme;
use crate::data::bio;
use crate::error::Result;
use crate::text::Sentence;

/// Why a sentence cannot be written in columns.
#[derive(Debug, thiserror::Error)]
enum ColumnError {
    #[error(
        "it has no words, which columns cannot represent; remove it, or write tokens_jsonl instead"
    )]
    NoWords,
    #[error("it does not have one part-of-speech tag for each word")]
    PartOfSpeechCount,
    #[error("the word `{}` cannot be written in a column; write tokens_jsonl instead", .0.escape_debug())]
    Word(String),
    #[error("`{}` contains white space and cannot be written in a column; rename it, or write tokens_jsonl instead", .0.escape_debug())]
    Label(String),
}

/// Writes one word per line with its tags, separated by tabs.
///
/// Flat entities without part-of-speech tags are written in the two columns that every tool reads, with `-DOCSTART-`
/// between documents. Nested entities are distributed over as many tag columns as needed, as in GermEval, and a CoNLL-U
/// Plus line `# global.columns` names the columns.
pub fn columns(out: &mut impl Write, sentences: &[Sentence], scheme: TagScheme) -> Result<Summary> {
    let layered: Vec<_> = sentences.iter().map(|s| bio::layers(&s.entities)).collect();
    let depth = layered.iter().map(Vec::len).max().unwrap_or(0).max(1);
    let with_pos = sentences.iter().any(|sentence| sentence.pos.is_some());
    let named = depth > 1 || with_pos;
    if named {
        header(out, depth, with_pos)?;
    }
    let mut previous: Option<&str> = None;
    for (index, sentence) in sentences.iter().enumerate() {
        check(index, sentence, named).map_err(|problem| not_writable(index, problem))?;
        if sentence.document.as_deref() != previous {
            previous = sentence.document.as_deref();
            begin_document(out, previous, named).map_err(write_error)?;
        }
        if named && is_plain_line(&sentence.text) && sentence.text != joined_words(sentence) {
            writeln!(out, "# text = {}", sentence.text).map_err(write_error)?;
        }
        let mut rows = Vec::with_capacity(depth);
        for layer in 0..depth {
            let entities = layered[index].get(layer).map_or(&[][..], Vec::as_slice);
            let tags = bio::entities_to_tags(entities, sentence.len(), scheme);
            rows.push(tags.map_err(|problem| not_writable(index, problem))?);
        }
        for (word_index, word) in sentence.words.iter().enumerate() {
            let mut row: Vec<&str> = vec![&word.text];
            let id = (word_index + 1).to_string();
            if named {
                row.insert(0, &id);
            }
            if with_pos {
                row.push(sentence.pos.as_ref().map_or("_", |pos| &pos[word_index]));
            }
            row.extend(rows.iter().map(|tags| tags[word_index].as_str()));
            writeln!(out, "{}", row.join("\t")).map_err(write_error)?;
        }
        writeln!(out).map_err(write_error)?;
    }
    Ok(Summary::of(sentences, false))
}

fn header(out: &mut impl Write, depth: usize, with_pos: bool) -> Result<()> {
    let mut names = vec!["ID".to_string(), "FORM".to_string()];
    names.extend(with_pos.then(|| "XPOS".to_string()));
    names.push("NER".to_string());
    names.extend((2..=depth).map(|layer| format!("NER:{layer}")));
    writeln!(out, "# global.columns = {}", names.join(" ")).map_err(write_error)
}

fn begin_document(out: &mut impl Write, name: Option<&str>, named: bool) -> std::io::Result<()> {
    match name {
        Some(name) if named => writeln!(out, "# newdoc id = {}", name.replace(['\n', '\r'], " ")),
        None if named => writeln!(out, "# newdoc"),
        _ => writeln!(out, "-DOCSTART-\tO\n"),
    }
}

/// Checks that a sentence can be written so that every reader understands it.
fn check(index: usize, sentence: &Sentence, named: bool) -> Result<(), ColumnError> {
    if sentence.is_empty() {
        return Err(ColumnError::NoWords);
    }
    if sentence
        .pos
        .as_ref()
        .is_some_and(|pos| pos.len() != sentence.len())
    {
        return Err(ColumnError::PartOfSpeechCount);
    }
    let is_field =
        |text: &str| !text.is_empty() && !text.contains([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
    let is_word = |text: &str| {
        // At the start of a file it would be read as a byte-order mark.
        let mark = index == 0 && !named && text.starts_with('\u{feff}');
        is_field(text) && text != "-DOCSTART-" && !mark
    };
    if let Some(word) = sentence.words.iter().find(|word| !is_word(&word.text)) {
        return Err(ColumnError::Word(word.text.clone()));
    }
    let labels: BTreeSet<&str> = sentence.entities.iter().map(|e| e.label.as_str()).collect();
    let tags = sentence.pos.iter().flatten().map(String::as_str);
    match labels.into_iter().chain(tags).find(|text| !is_field(text)) {
        Some(text) => Err(ColumnError::Label(text.to_string())),
        None => Ok(()),
    }
}

fn is_plain_line(text: &str) -> bool {
    text.trim() == text && !text.contains(['\n', '\r'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{Entity, Misaligned};

    #[test]
    fn flat_entities_need_one_column_and_nested_ones_layers() {
        let mut sentence = Sentence::from_words(["New", "York", "wins"]);
        sentence.entities = vec![Entity::new(0, 2, "ORG")];
        let mut written = Vec::new();
        columns(&mut written, &[sentence.clone()], TagScheme::Bioes).unwrap();
        assert_eq!(
            String::from_utf8(written).unwrap(),
            "New\tB-ORG\nYork\tE-ORG\nwins\tO\n\n"
        );
        sentence.entities.push(Entity::new(1, 2, "LOC"));
        sentence.document = Some("d".to_string());
        let mut written = Vec::new();
        columns(&mut written, &[sentence], TagScheme::Iob2).unwrap();
        assert_eq!(
            String::from_utf8(written).unwrap(),
            "# global.columns = ID FORM NER NER:2\n# newdoc id = d\n1\tNew\tB-ORG\tO\n2\tYork\tI-ORG\tB-LOC\n3\twins\tO\tO\n\n"
        );
    }

    #[test]
    fn sentences_that_columns_cannot_represent_are_errors() {
        for words in [
            vec!["a b"],
            vec!["a\u{b}"],
            vec!["", "x"],
            vec![],
            vec!["-DOCSTART-"],
        ] {
            let sentence = Sentence::from_words(words);
            let error = columns(&mut Vec::new(), &[sentence], TagScheme::Iob2).unwrap_err();
            assert!(error.to_string().starts_with("sentence 1"), "{error}");
        }
        let mut sentence = Sentence::from_words(["a"]);
        sentence.entities = vec![Entity::new(0, 1, "two words")];
        assert!(columns(&mut Vec::new(), &[sentence.clone()], TagScheme::Iob2).is_err());
        sentence.entities.clear();
        sentence.misaligned = vec![Misaligned {
            start: 0,
            end: 1,
            label: "X".to_string(),
        }];
        let summary = columns(&mut Vec::new(), &[sentence], TagScheme::Iob2).unwrap();
        assert_eq!(summary.left_out, 1);
    }
}
