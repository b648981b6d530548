//! Given sentences, of which the long ones are cut: into windows to tag them, or into pieces to train and choose settings on.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use super::long_sentence::{Merger, is_long, rank, window_end, window_sentences, windows};
use crate::text::{Entity, Mention, Sentence};

/// Sentences of any length as sentences that are short enough to be tagged as a whole: the windows of the long ones, and the
/// others as they are.
pub struct Parts<'a> {
    sentences: Cow<'a, [Sentence]>,
    /// The windows and the number of words of each long sentence, by its index.
    cut: BTreeMap<usize, (Vec<Range<usize>>, usize)>,
}

impl<'a> Parts<'a> {
    /// Cuts the sentences of more than `longest` words. With `has_context`, windows have the words around them as context.
    pub fn new(sentences: &'a [Sentence], longest: usize, has_context: bool) -> Self {
        let long = sentences.iter().enumerate();
        let cut: BTreeMap<usize, (Vec<Range<usize>>, usize)> = long
            .filter(|(_, sentence)| is_long(sentence, longest))
            .map(|(index, one)| (index, (windows(&one.words, longest), one.len())))
            .collect();
        if cut.is_empty() {
            return Self {
                sentences: Cow::Borrowed(sentences),
                cut,
            };
        }
        let mut parts = Vec::new();
        for (index, sentence) in sentences.iter().enumerate() {
            match cut.get(&index) {
                Some((windows, _)) => {
                    parts.extend(window_sentences(sentence, windows, has_context))
                }
                None => parts.push(sentence.clone()),
            }
        }
        Self {
            sentences: Cow::Owned(parts),
            cut,
        }
    }

    /// The parts, in order.
    pub fn sentences(&self) -> &[Sentence] {
        &self.sentences
    }

    /// The mentions of the sentences from those of the parts. `nested` as in [`Merger::new`].
    pub fn merge(&self, mentions: Vec<Vec<Mention>>, nested: bool) -> Vec<Vec<Mention>> {
        if self.cut.is_empty() {
            return mentions;
        }
        let mut mentions = mentions.into_iter();
        let mut merged = Vec::new();
        while mentions.len() > 0 {
            match self.cut.get(&merged.len()) {
                Some((windows, words)) => {
                    let mut merger = Merger::new(windows.clone(), *words, nested);
                    let parts = mentions.by_ref().take(windows.len());
                    parts.for_each(|mentions| merger.add(mentions));
                    merged.push(merger.finish());
                }
                None => merged.extend(mentions.next()),
            }
        }
        merged
    }
}

/// Sentences with gold entities, the long ones cut into pieces of about `longest` words that do not overlap. No entity is
/// cut: a piece may be longer instead.
pub fn gold_pieces(
    sentences: &[Sentence],
    longest: usize,
    has_context: bool,
) -> Cow<'_, [Sentence]> {
    if !sentences.iter().any(|sentence| is_long(sentence, longest)) {
        return Cow::Borrowed(sentences);
    }
    let mut pieces = Vec::new();
    for sentence in sentences {
        if !is_long(sentence, longest) {
            pieces.push(sentence.clone());
            continue;
        }
        let ranges = ranges_between_entities(sentence, longest);
        let parts = window_sentences(sentence, &ranges, has_context);
        for (mut part, range) in parts.into_iter().zip(&ranges) {
            let inside = sentence
                .entities
                .iter()
                .filter(|entity| range.contains(&entity.span.start));
            part.entities = inside
                .map(|Entity { span, label }| {
                    Entity::new(
                        span.start - range.start,
                        span.end - range.start,
                        label.as_str(),
                    )
                })
                .collect();
            pieces.push(part);
        }
    }
    Cow::Owned(pieces)
}

/// Ranges of about `longest` words that cover a sentence and end where no entity is.
fn ranges_between_entities(sentence: &Sentence, longest: usize) -> Vec<Range<usize>> {
    let words = &sentence.words;
    // How many entities have words on both sides of each boundary: changes of the number first, then their sums.
    let mut across = vec![0_isize; words.len() + 1];
    for Entity { span, .. } in &sentence.entities {
        if span.len() > 1 && span.end <= words.len() {
            across[span.start + 1] += 1;
            across[span.end] -= 1;
        }
    }
    let mut sum = 0;
    for change in &mut across {
        sum += *change;
        *change = sum;
    }
    let is_free = |end: &usize| across[*end] == 0;
    let mut ranges = Vec::new();
    let mut start = 0;
    while start < words.len() {
        let most = window_end(words, start, longest);
        let end = if most == words.len() {
            most
        } else {
            let good = (most - (most - start) / 4..=most).filter(is_free);
            let best = good.max_by_key(|end| rank(words, *end));
            best.or_else(|| (start + 1..=most).rev().find(is_free))
                .or_else(|| (most + 1..=words.len()).find(is_free))
                .unwrap_or(words.len())
        };
        ranges.push(start..end);
        start = end;
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parts_of_long_sentences_are_merged_to_the_sentences() {
        let text = |count: usize| Sentence::from_words((0..count).map(|word| format!("w{word}")));
        let sentences = [text(3), text(90), text(10), text(0), text(41)];
        let parts = Parts::new(&sentences, 10, true);
        assert!(parts.sentences().iter().all(|part| part.len() <= 10));
        assert!(parts.sentences().len() > 14 && parts.sentences()[1].right.len() > 10);
        // Every word is a mention, and so is every pair of words.
        let words = |sentence: &Sentence| -> Vec<Mention> {
            let length = sentence.len();
            let spans = (0..length).flat_map(|at| [(at, at + 1), (at, at + 2)]);
            (spans.filter(|(_, end)| *end <= length))
                .map(|(start, end)| Mention {
                    entity: Entity::new(start, end, &sentence.words[start].text),
                    score: 0.5,
                })
                .collect()
        };
        let merged = parts.merge(parts.sentences().iter().map(words).collect(), true);
        assert_eq!(merged.len(), sentences.len());
        for (mentions, sentence) in merged.iter().zip(&sentences) {
            let spans = |mentions: &[Mention]| -> Vec<Entity> {
                let singles = mentions.iter().filter(|one| one.entity.span.len() == 1);
                singles.map(|one| one.entity.clone()).collect()
            };
            assert_eq!(spans(mentions), spans(&words(sentence)));
        }
        let short = &sentences[..1];
        assert!(matches!(
            Parts::new(short, 10, true).sentences,
            Cow::Borrowed(_)
        ));
    }

    proptest! {
        #[test]
        fn pieces_have_all_words_and_cut_no_entity(
            words in prop::collection::vec("[a-z]{1,3}|[.,;]", 0..120),
            spans in prop::collection::vec((0..120usize, 1..30usize), 0..8),
            longest in 1..30usize,
        ) {
            let mut sentence = Sentence::from_words(words);
            let length = sentence.len();
            for (start, size) in spans {
                if start + size <= length {
                    sentence.entities.push(Entity::new(start, start + size, "A"));
                }
            }
            let sentences = [sentence.clone()];
            let pieces = gold_pieces(&sentences, longest, false);
            let words: Vec<&str> = pieces.iter().flat_map(|piece| &piece.words).map(|word| word.text.as_str()).collect();
            prop_assert_eq!(words, sentence.words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>());
            let mut first = 0;
            let mut found = Vec::new();
            for piece in pieces.iter() {
                // Only an entity makes a piece longer.
                let within = piece.entities.iter().any(|entity| entity.span.len() > 1);
                prop_assert!(piece.len() <= longest || within);
                for entity in &piece.entities {
                    prop_assert!(entity.span.end <= piece.len());
                    found.push(Entity::new(entity.span.start + first, entity.span.end + first, "A"));
                }
                first += piece.len();
            }
            found.sort();
            sentence.entities.sort();
            prop_assert_eq!(found, sentence.entities);
        }
    }
}
