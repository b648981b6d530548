//! Words one a line with their tags beside them.

use std::collections::BTreeSet;
use std::io::Write;

use super::{Summary, failed, joined, refused};
use crate::data::bio::{self, Scheme};
use crate::error::Result;
use crate::text::Sentence;

/// One word a line with its tags, separated by tabs.
///
/// Flat entities without parts of speech give the plain two columns that every tool reads, `-DOCSTART-` between
/// documents. Nested entities are dealt onto as many tag columns as they need, in the manner of GermEval, and a
/// CoNLL-U Plus line `# global.columns` says what the columns hold.
pub fn columns(out: &mut impl Write, sentences: &[Sentence], scheme: Scheme) -> Result<Summary> {
    let layered: Vec<_> = sentences.iter().map(|s| bio::layers(&s.entities)).collect();
    let depth = layered.iter().map(Vec::len).max().unwrap_or(0).max(1);
    let with_pos = sentences.iter().any(|sentence| sentence.pos.is_some());
    let named = depth > 1 || with_pos;
    if named {
        header(out, depth, with_pos)?;
    }
    let mut previous: Option<&str> = None;
    for (index, sentence) in sentences.iter().enumerate() {
        writable(index, sentence, named).map_err(|problem| refused(index, &problem))?;
        if sentence.document.as_deref() != previous {
            previous = sentence.document.as_deref();
            begin_document(out, previous, named).map_err(failed)?;
        }
        if named && is_plain_line(&sentence.text) && sentence.text != joined(sentence) {
            writeln!(out, "# text = {}", sentence.text).map_err(failed)?;
        }
        let mut rows = Vec::with_capacity(depth);
        for layer in 0..depth {
            let entities = layered[index].get(layer).map_or(&[][..], Vec::as_slice);
            let tags = bio::entities_to_tags(entities, sentence.len(), scheme);
            rows.push(tags.map_err(|problem| refused(index, &problem))?);
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
            writeln!(out, "{}", row.join("\t")).map_err(failed)?;
        }
        writeln!(out).map_err(failed)?;
    }
    Ok(Summary::of(sentences, false))
}

fn header(out: &mut impl Write, depth: usize, with_pos: bool) -> Result<()> {
    let mut names = vec!["ID".to_string(), "FORM".to_string()];
    names.extend(with_pos.then(|| "XPOS".to_string()));
    names.push("NER".to_string());
    names.extend((2..=depth).map(|layer| format!("NER:{layer}")));
    writeln!(out, "# global.columns = {}", names.join(" ")).map_err(failed)
}

fn begin_document(out: &mut impl Write, name: Option<&str>, named: bool) -> std::io::Result<()> {
    match name {
        Some(name) if named => writeln!(out, "# newdoc id = {}", name.replace(['\n', '\r'], " ")),
        None if named => writeln!(out, "# newdoc"),
        _ => writeln!(out, "-DOCSTART-\tO\n"),
    }
}

/// Whether columns can say this sentence so that every reader understands it.
fn writable(index: usize, sentence: &Sentence, named: bool) -> Result<(), String> {
    if sentence.is_empty() {
        return Err(
            "has no words, which columns cannot say; leave it out, or write tokens_jsonl"
                .to_string(),
        );
    }
    if sentence
        .pos
        .as_ref()
        .is_some_and(|pos| pos.len() != sentence.len())
    {
        return Err("does not have one part of speech for each word".to_string());
    }
    let is_field =
        |text: &str| !text.is_empty() && !text.contains([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
    let is_word = |text: &str| {
        // At the start of a file this would be taken for a byte-order mark.
        let mark = index == 0 && !named && text.starts_with('\u{feff}');
        is_field(text) && text != "-DOCSTART-" && !mark
    };
    if let Some(word) = sentence.words.iter().find(|word| !is_word(&word.text)) {
        return Err(format!(
            "the word `{}` cannot stand in a column; write tokens_jsonl instead",
            word.text.escape_debug()
        ));
    }
    let labels: BTreeSet<&str> = sentence.entities.iter().map(|e| e.label.as_str()).collect();
    let tags = sentence.pos.iter().flatten().map(String::as_str);
    match labels.into_iter().chain(tags).find(|text| !is_field(text)) {
        Some(text) => Err(format!(
            "`{}` has white space and cannot stand in a column; rename it, or write tokens_jsonl",
            text.escape_debug()
        )),
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
    fn flat_columns_are_plain_and_nested_ones_layered() {
        let mut sentence = Sentence::from_words(["New", "York", "wins"]);
        sentence.entities = vec![Entity::new(0, 2, "ORG")];
        let mut written = Vec::new();
        columns(&mut written, &[sentence.clone()], Scheme::Bioes).unwrap();
        assert_eq!(
            String::from_utf8(written).unwrap(),
            "New\tB-ORG\nYork\tE-ORG\nwins\tO\n\n"
        );
        sentence.entities.push(Entity::new(1, 2, "LOC"));
        sentence.document = Some("d".to_string());
        let mut written = Vec::new();
        columns(&mut written, &[sentence], Scheme::Iob2).unwrap();
        assert_eq!(
            String::from_utf8(written).unwrap(),
            "# global.columns = ID FORM NER NER:2\n# newdoc id = d\n1\tNew\tB-ORG\tO\n2\tYork\tI-ORG\tB-LOC\n3\twins\tO\tO\n\n"
        );
    }

    #[test]
    fn what_columns_cannot_say_is_refused() {
        for words in [
            vec!["a b"],
            vec!["a\u{b}"],
            vec!["", "x"],
            vec![],
            vec!["-DOCSTART-"],
        ] {
            let sentence = Sentence::from_words(words);
            let error = columns(&mut Vec::new(), &[sentence], Scheme::Iob2).unwrap_err();
            assert!(error.to_string().starts_with("sentence 1"), "{error}");
        }
        let mut sentence = Sentence::from_words(["a"]);
        sentence.entities = vec![Entity::new(0, 1, "two words")];
        assert!(columns(&mut Vec::new(), &[sentence.clone()], Scheme::Iob2).is_err());
        sentence.entities.clear();
        sentence.misaligned = vec![Misaligned {
            start: 0,
            end: 1,
            label: "X".to_string(),
        }];
        let summary = columns(&mut Vec::new(), &[sentence], Scheme::Iob2).unwrap();
        assert_eq!(summary.left_out, 1);
    }
}
