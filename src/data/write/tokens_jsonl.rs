//! Writing `tokens_jsonl`: words with spans of words, or with one tag per word as on the Hugging Face hub.

use serde_json::json;

use super::WriteOptions;
use super::annotated::{Annotated, not_writable};
use super::json_records::{self as records, Record};
use super::summary::{Loss, Summary, joined_words};
use super::tags::{TagRow, is_tag_label, tags};
use crate::data::words::align;
use crate::error::Result;
use crate::text::Sentence;

/// A sentence with `tokens` and entities as spans of words. The text is written where it differs from the words joined by
/// spaces, and the offsets of the words where the text has more than words and white space. Entities that do not match word boundaries are written under `misaligned`, and those of several parts under
/// `discontinuous`, both with offsets in characters.
pub(super) fn record(
    item: &Annotated<'_>,
    options: &WriteOptions,
    summary: &mut Summary,
) -> Result<Record> {
    let sentence = item.sentence;
    let mut record = Record::new();
    records::document(&mut record, "doc", item);
    let words = item.words();
    let in_characters = !item.misaligned().is_empty() || !item.discontinuous().is_empty();
    let is_joined = sentence.text == joined_words(item)
        && Sentence::from_words(words.iter().copied()).words == sentence.words;
    record.insert("tokens".into(), json!(words));
    if (in_characters && !options.tags) || !is_joined {
        record.insert("text".into(), json!(sentence.text));
        let aligned = align(&sentence.text, &words);
        if aligned.is_none_or(|found| found.words != sentence.words) {
            record.insert("word_starts".into(), json!(starts(sentence)));
        }
    }
    records::part_of_speech(&mut record, item);
    if options.tags {
        ner_tags(&mut record, item, options, summary)?;
        summary.lose_unaligned(item);
        summary.lose_extras(item, &[Loss::Position, Loss::Context, Loss::Score]);
        return Ok(record);
    }
    record.insert("entities".into(), records::word_spans(item, summary));
    if !item.misaligned().is_empty() {
        let list = item.misaligned().iter();
        let list = list.map(|e| json!({"start": e.start, "end": e.end, "type": e.label}));
        record.insert("misaligned".into(), list.collect());
    }
    summary.entities += item.misaligned().len() + item.discontinuous().len();
    records::context(&mut record, item);
    records::position(&mut record, item);
    Ok(record)
}

/// The offset of the first character of each word, as one string: no reader can take it for tags or spans.
fn starts(sentence: &Sentence) -> String {
    let starts = sentence.words.iter().map(|word| word.start.to_string());
    starts.collect::<Vec<_>>().join(" ")
}

/// Adds `ner_tags`, one string per word.
fn ner_tags(
    record: &mut Record,
    item: &Annotated<'_>,
    options: &WriteOptions,
    summary: &mut Summary,
) -> Result<()> {
    let number = summary.sentences;
    if let Some(entity) = item.entities.iter().find(|e| !is_tag_label(e.label)) {
        let problem = format!(
            "the type `{}` contains white space or `|`, which a tag cannot hold; rename it, or write spans instead",
            entity.label.escape_debug()
        );
        return Err(not_writable(number, problem));
    }
    let row = if options.multi_tag {
        TagRow::Multi
    } else {
        TagRow::Flat
    };
    let tags = tags(item, options.scheme, row, summary);
    let tags = tags.map_err(|problem| not_writable(number, problem))?;
    record.insert("ner_tags".into(), json!(tags));
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::data::write::{Annotated, WriteOptions, predictions, write_with};
    use crate::data::{Format, ReadOptions, TagScheme, scan};
    use crate::text::{Discontinuous, Entity, Mention, Sentence, Word, slice};

    #[test]
    fn everything_has_a_key() {
        let mut sentence = crate::data::words::sentence("a, b", Default::default());
        sentence.entities = vec![Entity::new(0, 3, "A")];
        sentence.discontinuous = vec![Discontinuous {
            parts: vec![(0, 1), (3, 4)],
            label: "D".to_string(),
        }];
        sentence.offset = 7;
        sentence.trailing = "\n".to_string();
        let mut out = Vec::new();
        let options = WriteOptions::of(Format::TokensJsonl);
        let summary = write_with(&mut out, &[sentence.clone()], &options).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "{\"tokens\":[\"a\",\",\",\"b\"],\"text\":\"a, b\",\"entities\":[{\"start\":0,\"end\":3,\"type\":\"A\"}],\
             \"discontinuous\":[{\"parts\":[[0,1],[3,4]],\"type\":\"D\"}],\"offset\":7,\"trailing\":\"\\n\"}\n"
        );
        assert_eq!((summary.entities, summary.left_out), (2, 0));
        let tags = WriteOptions {
            tags: true,
            ..options
        };
        let mut out = Vec::new();
        let summary = write_with(&mut out, &[sentence], &tags).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "{\"tokens\":[\"a\",\",\",\"b\"],\"text\":\"a, b\",\"ner_tags\":[\"B-A\",\"I-A\",\"I-A\"]}\n"
        );
        assert_eq!(summary.left_out, 1);
    }

    /// Found by fuzzing: annotation tools export words that leave out a part of the text.
    #[test]
    fn texts_with_more_than_the_words_are_kept() {
        let sentence = |text: &str, starts: &[(usize, usize)]| {
            let word = |(start, end): &(usize, usize)| Word {
                text: slice(text, *start, *end).to_string(),
                start: *start,
                end: *end,
            };
            Sentence {
                text: text.to_string(),
                words: starts.iter().map(word).collect(),
                entities: vec![Entity::new(0, 1, "A")],
                ..Sentence::default()
            }
        };
        let sentences = [
            sentence("Maria sings.", &[(0, 5), (11, 12)]),
            sentence(
                "University of\u{feff} Lindholm",
                &[(0, 10), (11, 13), (14, 22), (22, 23)],
            ),
            sentence("a 😊0.", &[(0, 1), (2, 3), (4, 5)]),
            sentence("x a a", &[(4, 5)]),
        ];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.jsonl");
        let mut out = Vec::new();
        let options = WriteOptions::of(Format::TokensJsonl);
        write_with(&mut out, &sentences, &options).unwrap();
        std::fs::write(&path, &out).unwrap();
        let (found, problems) = scan(&path, &ReadOptions::of(Format::TokensJsonl)).unwrap();
        assert_eq!((found, problems), (sentences.to_vec(), Vec::new()));
    }

    #[test]
    fn predictions_have_scores_and_replace_gold_entities() {
        let mut sentence = Sentence::from_words(["Ada"]);
        sentence.entities = vec![Entity::new(0, 1, "GOLD")];
        let mention = Mention {
            entity: Entity::new(0, 1, "PER"),
            score: 0.5,
        };
        let mut out = Vec::new();
        let documents = [Annotated::predicted(
            &sentence,
            std::slice::from_ref(&mention),
        )];
        predictions(&mut out, Format::TokensJsonl, TagScheme::Iob2, &documents).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "{\"tokens\":[\"Ada\"],\"entities\":[{\"start\":0,\"end\":1,\"type\":\"PER\",\"score\":0.5}]}\n"
        );
    }
}
