//! Texts whose words and entities are given by offsets: the words of the file are kept.

use std::collections::HashSet;

use super::annotated_text::{self, TextEntity};
use super::{entities, split_trailing};
use crate::data::source::Collector;
use crate::data::{ReadOptions, SentenceCutting};
use crate::text::{CharacterIndex, Sentence, Word};

/// A text with its words and entities.
#[derive(Debug, Default)]
pub(in crate::data) struct WordText<'a> {
    /// The text.
    pub text: &'a str,
    /// First character and one past the last character of each word, and its part-of-speech tag.
    pub words: Vec<(usize, usize, Option<&'a str>)>,
    /// First characters of the sentences, if the file gives them.
    pub sentences: Vec<usize>,
    /// Name of the document.
    pub document: Option<String>,
    /// The line of the file at which it starts.
    pub line: usize,
    /// The entities, with offsets in the text.
    pub entities: Vec<TextEntity>,
}

/// Adds the sentences of a text to the corpus. Words that are white space are left out. An error in the words or entities
/// is returned, and nothing is added.
pub(in crate::data) fn push(
    text: WordText<'_>,
    options: &ReadOptions,
    corpus: &mut Collector,
) -> Result<(), String> {
    let index = CharacterIndex::new(text.text);
    let mut words = Vec::with_capacity(text.words.len());
    let mut end_before = 0;
    for (number, (start, end, pos)) in text.words.iter().enumerate() {
        let word = index
            .get(*start, *end)
            .filter(|_| start < end && *start >= end_before);
        let Some(word) = word else {
            return Err(format!(
                "word {number} is {start}..{end}, which is not after the word before it in a text of {} characters; correct the offsets",
                index.characters()
            ));
        };
        end_before = *end;
        if !word.trim().is_empty() {
            words.push((*start, *end, word, *pos));
        }
    }
    let mut entities = Vec::new();
    let mut seen = HashSet::new();
    for mut entity in text.entities {
        entity.parts.sort_unstable();
        let label = &entity.label;
        if let Err(problem) = entities::check_parts(&entity.parts, index.characters()) {
            let ranges = entities::ranges(&entity.parts);
            return Err(format!("{label} {ranges} {problem}"));
        }
        if seen.insert((entity.parts.clone(), label.clone())) {
            entities.push(entity);
        } else {
            corpus.warn(
                entity.line,
                entities::given_twice(label, entities::ranges(&entity.parts)),
            );
        }
    }
    let mut cuts = text.sentences;
    if options.sentences == Some(SentenceCutting::Whole) {
        cuts.clear();
    }
    let extents = words
        .iter()
        .map(|(start, end, ..)| (*start, *end))
        .collect();
    let cuts = usable(cuts, extents, &entities, index.characters());
    let bounds = cuts.iter().zip(cuts.iter().skip(1));
    let (mut next_word, mut next_entity) = (0, 0);
    entities.sort_by_key(|entity| entity.parts.first().copied());
    for (from, to) in bounds {
        let whole = index.slice(*from, *to);
        let (kept, trailing) = split_trailing(whole, *to == index.characters());
        let mut sentence = Sentence {
            text: kept.to_string(),
            trailing: trailing.to_string(),
            offset: *from,
            document: text.document.clone(),
            ..Sentence::default()
        };
        let mut tags = Vec::new();
        while let Some((start, end, word, pos)) = words.get(next_word).filter(|word| word.0 < *to) {
            sentence.words.push(Word {
                text: word.to_string(),
                start: start - from,
                end: end - from,
            });
            tags.push(pos.unwrap_or_default().to_string());
            next_word += 1;
        }
        sentence.pos = tags.iter().any(|tag| !tag.is_empty()).then_some(tags);
        while let Some(entity) = entities
            .get(next_entity)
            .filter(|entity| entity.parts[0].0 < *to)
        {
            add(&mut sentence, entity, *from, &index, corpus);
            next_entity += 1;
        }
        if cuts.len() == 2 {
            // The file gives no sentences.
            annotated_text::push_document(sentence, text.line, options, corpus);
        } else if !sentence.words.is_empty() {
            corpus.push(text.line, sentence);
        }
    }
    Ok(())
}

/// The cuts at which no entity and no word is cut, with 0 first and the length last. `extents` are those of the words.
fn usable(
    mut cuts: Vec<usize>,
    mut extents: Vec<(usize, usize)>,
    entities: &[TextEntity],
    length: usize,
) -> Vec<usize> {
    cuts.sort_unstable();
    cuts.dedup();
    let extent = |entity: &TextEntity| {
        let start = entity.parts.iter().map(|part| part.0).min().unwrap_or(0);
        (
            start,
            entity.parts.iter().map(|part| part.1).max().unwrap_or(0),
        )
    };
    extents.extend(entities.iter().map(extent));
    extents.sort_unstable();
    let (mut next, mut reach) = (0, 0);
    let mut kept = vec![0];
    for cut in cuts {
        while let Some((_, end)) = extents.get(next).filter(|(start, _)| *start < cut) {
            reach = reach.max(*end);
            next += 1;
        }
        if cut > 0 && cut < length && cut >= reach {
            kept.push(cut);
        }
    }
    kept.push(length);
    kept
}

fn add(
    sentence: &mut Sentence,
    entity: &TextEntity,
    from: usize,
    index: &CharacterIndex<'_>,
    corpus: &mut Collector,
) {
    let parts = (entity.parts.iter()).map(|(start, end)| (start - from, end - from));
    if !entities::add(sentence, parts.collect(), entity.label.clone()) {
        let (start, end) = entity.parts[0];
        let text = index.slice(start, end);
        let message = entities::not_at_word_boundaries(&entity.label, (start, end), text);
        corpus.warn(entity.line, message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Entity;
    use std::path::Path;

    fn entity(start: usize, end: usize, label: &str) -> TextEntity {
        TextEntity {
            parts: vec![(start, end)],
            label: label.to_string(),
            line: 1,
        }
    }

    fn sentences(text: WordText<'_>) -> (Vec<Sentence>, usize) {
        let mut corpus = Collector::new(Path::new("x"));
        push(text, &ReadOptions::default(), &mut corpus).unwrap();
        (corpus.sentences, corpus.problems.len())
    }

    #[test]
    fn words_and_sentences_of_the_file_are_kept() {
        let text = "Zoë ran.  \n北京 won";
        let words = vec![
            (0, 3, Some("N")),
            (4, 7, None),
            (7, 8, None),
            (8, 11, None),
            (11, 13, None),
            (14, 17, None),
        ];
        let make = |entities| WordText {
            text,
            words: words.clone(),
            sentences: vec![0, 11],
            entities,
            ..WordText::default()
        };
        let (found, problems) = sentences(make(vec![
            entity(11, 13, "LOC"),
            entity(0, 3, "PER"),
            entity(0, 2, "X"),
        ]));
        assert_eq!(problems, 1);
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].text.as_str(), found[0].trailing.as_str()),
            ("Zoë ran.", "  \n")
        );
        assert_eq!((found[0].len(), found[0].misaligned.len()), (3, 1));
        assert_eq!(
            (found[1].offset, &found[1].entities[..]),
            (11, &[Entity::new(0, 1, "LOC")][..])
        );
        let joined: String = found
            .iter()
            .flat_map(|part| [part.text.clone(), part.trailing.clone()])
            .collect();
        assert_eq!(joined, text);
        let (found, _) = sentences(make(vec![entity(4, 13, "X")]));
        assert_eq!((found.len(), found[0].entities.len()), (1, 1));
    }

    #[test]
    fn words_out_of_order_are_an_error() {
        for words in [
            vec![(2, 3, None), (0, 1, None)],
            vec![(0, 9, None)],
            vec![(1, 1, None)],
            vec![(0, 2, None), (1, 3, None)],
        ] {
            let text = WordText {
                text: "abc",
                words,
                ..WordText::default()
            };
            let mut corpus = Collector::new(Path::new("x"));
            assert!(push(text, &ReadOptions::default(), &mut corpus).is_err());
        }
    }
}
