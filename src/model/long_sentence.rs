//! Sentences that are too long for a head: cut into windows that overlap, tagged one by one, and merged.

use std::ops::Range;

use crate::text::{Mention, Sentence, Span, Word};

/// Largest number of words that neighbouring windows share.
const MOST_SHARED: usize = 64;

/// Characters of a window for each word that it may have. Only words that are not language have more, such as encoded data;
/// they have so many pieces that fewer fit into memory.
const CHARACTERS_PER_WORD: usize = 16;

/// Words of a sentence on each side of a window that are given as its context.
const CONTEXT: usize = 256;

/// Whether a sentence is tagged in windows.
pub fn is_long(sentence: &Sentence, longest: usize) -> bool {
    sentence.len() > longest.max(1) || characters(&sentence.words) > most_characters(longest)
}

fn most_characters(longest: usize) -> usize {
    CHARACTERS_PER_WORD.saturating_mul(longest.max(64))
}

fn characters(words: &[Word]) -> usize {
    words.iter().map(|word| word.end - word.start).sum()
}

/// Windows over the words of a sentence, of at most `longest` words each. Every word is in one, and neighbouring ones share
/// up to a quarter of their words. A window ends after punctuation or before white space if there is such a place in its
/// last quarter.
pub fn windows(words: &[Word], longest: usize) -> Vec<Range<usize>> {
    let mut windows = Vec::new();
    let mut start = 0;
    loop {
        let end = window_end(words, start, longest);
        if end >= words.len() {
            windows.push(start..words.len());
            return windows;
        }
        let quarter = (end - start) / 4;
        let end = best_end(words, end - quarter..end);
        windows.push(start..end);
        let shared = MOST_SHARED.min(quarter);
        start = (end - shared).max(start + 1);
    }
}

/// The largest end of a window that begins at `start`: it has up to `longest` words, and not too many characters.
pub(super) fn window_end(words: &[Word], start: usize, longest: usize) -> usize {
    let most = most_characters(longest);
    let (mut end, mut count) = (start, 0);
    while end < words.len() && end - start < longest.max(1) {
        count += words[end].end - words[end].start;
        if count > most && end > start {
            break;
        }
        end += 1;
    }
    end
}

/// The best place to end a window: the last of those with the highest rank.
fn best_end(words: &[Word], ends: Range<usize>) -> usize {
    (ends.start.max(1)..=ends.end)
        .max_by_key(|end| rank(words, *end))
        .unwrap_or(ends.end)
}

/// How well a window can end before a word: best after a mark that ends a sentence or clause.
pub(super) fn rank(words: &[Word], end: usize) -> u8 {
    let (last, next) = (&words[end - 1], words.get(end));
    let rank = match last.text.chars().next() {
        Some('.' | '!' | '?' | '…' | '。' | '！' | '？' | '।' | '؟' | '۔') => 3,
        Some(';' | ':' | '；' | '：' | '؛') => 2,
        Some(',' | '、' | '，' | '،' | ')' | '）' | '」' | '”' | '»') => 1,
        _ => 0,
    };
    let has_space = next.is_none_or(|next| next.start > last.end);
    2 * rank + u8::from(has_space)
}

/// The sentences of some windows. With `has_context`, they have the words around them as context.
pub fn window_sentences(
    sentence: &Sentence,
    windows: &[Range<usize>],
    has_context: bool,
) -> Vec<Sentence> {
    let texts = |words: &[Word]| {
        words
            .iter()
            .map(|word| word.text.clone())
            .collect::<Vec<String>>()
    };
    let make = |window: &Range<usize>| {
        let words = &sentence.words[window.clone()];
        let mut part = Sentence::from_words(words.iter().map(|word| word.text.as_str()));
        part.pos = sentence
            .pos
            .as_ref()
            .and_then(|tags| tags.get(window.clone()).map(<[String]>::to_vec));
        part.document = sentence.document.clone();
        if has_context {
            let (before, after) = (
                &sentence.words[..window.start],
                &sentence.words[window.end..],
            );
            part.left = if before.is_empty() {
                sentence.left.clone()
            } else {
                texts(&before[before.len().saturating_sub(CONTEXT)..])
            };
            part.right = if after.is_empty() {
                sentence.right.clone()
            } else {
                texts(&after[..after.len().min(CONTEXT)])
            };
        }
        part
    };
    windows.iter().map(make).collect()
}

/// The mentions of a sentence from those of its windows, added in order.
///
/// A mention whose words several windows have is taken from the window in which it is farther from the edge. Of two mentions
/// from different windows that may not stand together, the one nearer to an edge is dropped.
pub struct Merger {
    windows: Vec<Range<usize>>,
    words: usize,
    nested: bool,
    next: usize,
    /// The mentions so far, with their distances from the edge of their window, and the window.
    kept: Vec<(Mention, usize, usize)>,
}

impl Merger {
    /// A merger of the windows of a sentence of `words` words. Without `nested`, mentions may not overlap; with it, they may
    /// not cross.
    pub fn new(windows: Vec<Range<usize>>, words: usize, nested: bool) -> Self {
        Self {
            windows,
            words,
            nested,
            next: 0,
            kept: Vec::new(),
        }
    }

    /// Adds the mentions of the next window.
    pub fn add(&mut self, mentions: Vec<Mention>) {
        let number = self.next;
        self.next += 1;
        let Some(window) = self.windows.get(number).cloned() else {
            return;
        };
        // Mentions of the window before, and those of them that reach into this one.
        let from = self.kept.partition_point(|(_, _, of)| of + 1 < number);
        let before = self.kept.split_off(from);
        let rivals: Vec<usize> = (0..before.len())
            .filter(|index| before[*index].0.entity.span.end > window.start)
            .collect();
        let mut dropped = vec![false; before.len()];
        let mut found = Vec::new();
        for mut mention in mentions {
            let span = mention.entity.span;
            let span = Span::new(span.start + window.start, span.end + window.start);
            mention.entity.span = span;
            let distance = self.distance(number, span);
            if self.is_better_elsewhere(number, span, distance) {
                continue;
            }
            let clashing = |index: &&usize| self.clash(span, before[**index].0.entity.span);
            let clashing: Vec<usize> = rivals.iter().filter(clashing).copied().collect();
            let is_better = |index: &usize| {
                let (other, far, _) = &before[*index];
                distance > *far || (distance == *far && mention.score > other.score)
            };
            if clashing.iter().all(is_better) {
                clashing.into_iter().for_each(|index| dropped[index] = true);
                found.push((mention, distance, number));
            }
        }
        let remaining = before.into_iter().zip(dropped);
        let remaining = remaining.filter_map(|(kept, dropped)| (!dropped).then_some(kept));
        self.kept.extend(remaining);
        self.kept.extend(found);
    }

    /// All mentions, in the order of their spans and types.
    pub fn finish(self) -> Vec<Mention> {
        let mut mentions: Vec<Mention> = self
            .kept
            .into_iter()
            .map(|(mention, _, _)| mention)
            .collect();
        mentions.sort_by(|one, other| one.entity.cmp(&other.entity));
        mentions
    }

    /// Words between a span and the edges of a window. The start and the end of the sentence are not edges.
    fn distance(&self, number: usize, span: Span) -> usize {
        let window = &self.windows[number];
        let left = if window.start == 0 {
            usize::MAX
        } else {
            span.start.saturating_sub(window.start)
        };
        let right = if window.end == self.words {
            usize::MAX
        } else {
            window.end.saturating_sub(span.end)
        };
        left.min(right)
    }

    fn is_better_elsewhere(&self, number: usize, span: Span, distance: usize) -> bool {
        let contains = |other: &usize| {
            let window = &self.windows[*other];
            window.start <= span.start && span.end <= window.end
        };
        let before = (0..number)
            .rev()
            .take_while(|other| contains(other))
            .any(|other| self.distance(other, span) >= distance);
        let after = number + 1..self.windows.len();
        before
            || after
                .take_while(|other| contains(other))
                .any(|other| self.distance(other, span) > distance)
    }

    /// Whether two mentions may not stand together.
    fn clash(&self, one: Span, other: Span) -> bool {
        one.overlaps(&other) && !(self.nested && (one.contains(&other) || other.contains(&one)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Entity;
    use proptest::prelude::*;

    fn mention(start: usize, end: usize, score: f32) -> Mention {
        Mention {
            entity: Entity::new(start, end, "X"),
            score,
        }
    }

    fn spans(mentions: &[Mention]) -> Vec<(usize, usize)> {
        mentions
            .iter()
            .map(|one| (one.entity.span.start, one.entity.span.end))
            .collect()
    }

    #[test]
    fn windows_end_at_good_places() {
        let mut words = vec!["a"; 100];
        words[17] = ",";
        words[35] = ".";
        let sentence = Sentence::from_words(words);
        let found = windows(&sentence.words, 20);
        assert_eq!(found[0], 0..18);
        assert_eq!(found[1], 13..33);
        assert_eq!(found[2].start, 28);
        assert_eq!(windows(&sentence.words, 100), vec![0..100; 1]);
        assert_eq!(windows(&[], 5), vec![0..0; 1]);
        assert_eq!(windows(&sentence.words[..3], 1), [0..1, 1..2, 2..3]);
        let long = Sentence::from_words(["x".repeat(5000), "y".repeat(5000), "z".to_string()]);
        assert!(is_long(&long, 256));
        assert_eq!(windows(&long.words, 256), [0..1, 1..2, 2..3]);
    }

    #[test]
    fn a_mention_is_taken_from_the_window_with_more_context() {
        let all = vec![0..20, 15..35, 30..50];
        let mut merger = Merger::new(all.clone(), 50, true);
        // In words of the sentence: 2..4; 16..17, nearer the edge of the second window; 18..20.
        merger.add(vec![
            mention(2, 4, 0.9),
            mention(16, 17, 0.9),
            mention(18, 20, 0.9),
        ]);
        // 16..17; 18..19, farther from its edge; 33..34 and 20..22.
        merger.add(vec![
            mention(1, 2, 0.5),
            mention(3, 4, 0.8),
            mention(18, 19, 0.7),
            mention(5, 7, 0.7),
        ]);
        merger.add(vec![mention(3, 4, 0.6), mention(19, 20, 0.6)]);
        let merged = merger.finish();
        assert_eq!(
            spans(&merged),
            [(2, 4), (16, 17), (18, 19), (20, 22), (33, 34), (49, 50)]
        );
        assert_eq!((merged[1].score, merged[4].score), (0.9, 0.6));
    }

    #[test]
    fn mentions_of_a_flat_model_do_not_overlap() {
        // Mentions of one window are the head's own choice.
        let mut merger = Merger::new(vec![0..20, 10..30], 30, false);
        merger.add(vec![]);
        merger.add(vec![mention(8, 13, 0.9), mention(10, 12, 0.9)]);
        assert_eq!(spans(&merger.finish()), [(18, 23), (20, 22)]);
        let mut merger = Merger::new(vec![0..20, 10..30], 30, false);
        merger.add(vec![mention(11, 15, 0.9)]);
        merger.add(vec![mention(4, 9, 0.9)]); // 14..19, nearer to the edge
        assert_eq!(spans(&merger.finish()), [(11, 15)]);
        let mut merger = Merger::new(vec![0..20, 10..30], 30, true);
        merger.add(vec![mention(12, 18, 0.9)]); // two words from the edge
        merger.add(vec![mention(6, 12, 0.1)]); // 16..22, six
        assert_eq!(spans(&merger.finish()), [(16, 22)]);
    }

    proptest! {
        #[test]
        fn windows_cover_all_words(
            lengths in prop::collection::vec((1..4usize, 0..2usize), 0..200),
            longest in 1..50usize,
        ) {
            let mut end = 0;
            let words: Vec<Word> = lengths.into_iter().map(|(size, gap)| {
                let start = end + gap;
                end = start + size;
                Word { text: "x".repeat(size), start, end }
            }).collect();
            let found = windows(&words, longest);
            prop_assert_eq!(found[0].start, 0);
            prop_assert_eq!(found.last().unwrap().end, words.len());
            for pair in found.windows(2) {
                prop_assert!(pair[0].start < pair[1].start && pair[1].start <= pair[0].end && pair[0].end < pair[1].end);
            }
            prop_assert!(found.iter().all(|window| window.len() <= longest));
            // Every span of up to an eighth of a window has exactly one window that it is taken from.
            let merger = Merger::new(found.clone(), words.len(), true);
            for start in 0..words.len().saturating_sub(2) {
                let span = Span::new(start, start + 2);
                let owners = (0..found.len()).filter(|number| {
                    let window = &found[*number];
                    window.start <= span.start && span.end <= window.end
                        && !merger.is_better_elsewhere(*number, span, merger.distance(*number, span))
                });
                prop_assert!(owners.count() <= 1);
            }
        }
    }
}
