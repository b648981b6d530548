//! Tagging texts of any length: cut into sentences, tagged a few at a time, with offsets in the whole text.
//!
//! Memory is bounded by the sentences that are tagged together, not by the text: [`TextSentences`] splits one sentence
//! after the other into words, and [`TagQueue`] tags them in groups and passes them on in order.

use std::collections::VecDeque;
use std::ops::Range;

use super::long_sentence::{Merger, is_long, window_sentences, windows};
use crate::data::sentence_bounds::sentence_bounds;
use crate::data::words::{self, Segmentation};
use crate::error::Result;
use crate::text::{Mention, Sentence};

/// Most sentences, and most words, that are tagged together: enough for a full batch, few enough to stream. The memory of the
/// heads that score spans grows with the words of a batch.
const SENTENCES: usize = 512;
const WORDS: usize = 1 << 11;

/// Length in bytes of the longest sentence of a text. What is longer has no sentences, and is cut.
const LONGEST_SENTENCE: usize = 1 << 18;

/// Most words of neighbouring sentences on each side of a sentence: no encoder reads more.
const CONTEXT_WORDS: usize = 1024;

/// How texts are cut for a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DocumentSettings {
    /// How sentences are split into words.
    pub segmentation: Segmentation,
    /// Number of neighbouring sentences that the model reads with each one, on each side.
    pub context: usize,
    /// Number of words of the longest sentence that is tagged as a whole; longer ones are cut into windows.
    pub longest: usize,
    /// Whether mentions may nest.
    pub nested: bool,
    /// Whether a text is one sentence.
    pub whole: bool,
}

/// The sentences of a text, one after the other, each with its words, its context and its offset in the text.
#[derive(Debug)]
pub struct TextSentences<'a> {
    text: &'a str,
    settings: DocumentSettings,
    /// Sentences that are not yet read.
    ranges: std::vec::IntoIter<Range<usize>>,
    /// Characters before the next sentence to be read.
    characters: usize,
    /// The next sentences.
    ahead: VecDeque<Sentence>,
    /// Words of the sentences before.
    before: VecDeque<Vec<String>>,
}

impl<'a> TextSentences<'a> {
    /// The sentences of a text; none if it is empty.
    pub fn new(text: &'a str, settings: DocumentSettings) -> Self {
        let ranges = if settings.whole {
            // One range, not the bytes of the text.
            std::iter::once(0..text.len())
                .filter(|range| !range.is_empty())
                .collect()
        } else {
            sentence_bounds(text)
        };
        let ranges: Vec<_> = ranges
            .into_iter()
            .flat_map(|range| limited(text, range))
            .collect();
        Self {
            text,
            settings,
            ranges: ranges.into_iter(),
            characters: 0,
            ahead: VecDeque::new(),
            before: VecDeque::new(),
        }
    }

    fn read(&mut self) -> Option<Sentence> {
        let piece = &self.text[self.ranges.next()?];
        let visible = if self.settings.whole {
            piece
        } else {
            piece.trim_end()
        };
        let visible = if visible.is_empty() { piece } else { visible };
        let mut sentence = words::sentence(visible, self.settings.segmentation);
        sentence.trailing = piece[visible.len()..].to_string();
        sentence.offset = self.characters;
        self.characters += piece.chars().count();
        Some(sentence)
    }
}

impl Iterator for TextSentences<'_> {
    type Item = Sentence;

    fn next(&mut self) -> Option<Sentence> {
        let context = self.settings.context;
        while self.ahead.len() <= context {
            let Some(sentence) = self.read() else {
                break;
            };
            self.ahead.push_back(sentence);
        }
        let mut sentence = self.ahead.pop_front()?;
        if context == 0 {
            return Some(sentence);
        }
        sentence.left = self.before.iter().flatten().cloned().collect();
        let excess = sentence.left.len().saturating_sub(CONTEXT_WORDS);
        sentence.left.drain(..excess);
        let following = self.ahead.iter().flat_map(|next| &next.words);
        sentence.right = following
            .take(CONTEXT_WORDS)
            .map(|word| word.text.clone())
            .collect();
        let from = sentence.len().saturating_sub(CONTEXT_WORDS);
        let last = sentence.words[from..].iter().map(|word| word.text.clone());
        self.before.push_back(last.collect());
        if self.before.len() > context {
            self.before.pop_front();
        }
        Some(sentence)
    }
}

/// A range of at most [`LONGEST_SENTENCE`] bytes, or several, cut at white space where there is some.
fn limited(text: &str, mut range: Range<usize>) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    while range.len() > LONGEST_SENTENCE {
        let mut end = range.start + LONGEST_SENTENCE;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        // White space is searched for in the last 1,024 bytes or so; a sentence without any is not cut within a letter.
        let mut near = end - 1024;
        while !text.is_char_boundary(near) {
            near += 1;
        }
        let space = text[near..end]
            .char_indices()
            .rfind(|(_, one)| one.is_whitespace());
        let end = space.map_or(end, |(byte, one)| near + byte + one.len_utf8());
        parts.push(range.start..end);
        range.start = end;
    }
    parts.push(range);
    parts
}

/// A sentence with its mentions, or a mark: what comes out of a [`TagQueue`], in the order it was put in.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // passed on one by one, not stored
pub enum Tagged<E> {
    /// A sentence and its mentions.
    Sentence(Sentence, Vec<Mention>),
    /// A mark, such as the end of a document.
    Mark(E),
}

/// Sentences and marks that wait to be tagged together. `tag` finds the mentions of sentences.
pub struct TagQueue<F, E> {
    tag: F,
    settings: DocumentSettings,
    waiting: Vec<Waiting<E>>,
    sentences: Vec<Sentence>,
    words: usize,
}

enum Waiting<E> {
    /// The next of the sentences.
    Sentence,
    Mark(E),
}

impl<F: FnMut(&[Sentence]) -> Result<Vec<Vec<Mention>>>, E> TagQueue<F, E> {
    /// An empty queue.
    pub fn new(tag: F, settings: DocumentSettings) -> Self {
        Self {
            tag,
            settings,
            waiting: Vec::new(),
            sentences: Vec::new(),
            words: 0,
        }
    }

    /// Adds a sentence, and tags the waiting ones if they are enough.
    pub fn push<R>(
        &mut self,
        sentence: Sentence,
        done: &mut impl FnMut(Tagged<E>) -> std::result::Result<(), R>,
    ) -> std::result::Result<(), R>
    where
        R: From<crate::error::Error>,
    {
        if is_long(&sentence, self.settings.longest) {
            self.flush(done)?;
            let mentions = self.tag_long(&sentence)?;
            return done(Tagged::Sentence(sentence, mentions));
        }
        self.words += sentence.len();
        self.sentences.push(sentence);
        self.waiting.push(Waiting::Sentence);
        if self.sentences.len() >= SENTENCES || self.words >= WORDS {
            self.flush(done)?;
        }
        Ok(())
    }

    /// Adds a mark, which is passed on after all that was added before it.
    pub fn mark<R>(
        &mut self,
        mark: E,
        done: &mut impl FnMut(Tagged<E>) -> std::result::Result<(), R>,
    ) -> std::result::Result<(), R>
    where
        R: From<crate::error::Error>,
    {
        self.waiting.push(Waiting::Mark(mark));
        if self.sentences.is_empty() {
            self.flush(done)?;
        }
        Ok(())
    }

    /// Tags all that wait.
    pub fn flush<R>(
        &mut self,
        done: &mut impl FnMut(Tagged<E>) -> std::result::Result<(), R>,
    ) -> std::result::Result<(), R>
    where
        R: From<crate::error::Error>,
    {
        self.words = 0;
        let sentences = std::mem::take(&mut self.sentences);
        let mentions = if sentences.is_empty() {
            Vec::new()
        } else {
            (self.tag)(&sentences)?
        };
        let mut tagged = sentences.into_iter().zip(mentions);
        for waiting in self.waiting.drain(..) {
            match waiting {
                Waiting::Mark(mark) => done(Tagged::Mark(mark))?,
                Waiting::Sentence => {
                    if let Some((sentence, mentions)) = tagged.next() {
                        done(Tagged::Sentence(sentence, mentions))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The mentions of a sentence that is tagged in windows.
    fn tag_long(&mut self, sentence: &Sentence) -> Result<Vec<Mention>> {
        let all = windows(&sentence.words, self.settings.longest);
        let mut merger = Merger::new(all.clone(), sentence.len(), self.settings.nested);
        let together = (WORDS / self.settings.longest.max(1)).clamp(1, SENTENCES);
        for some in all.chunks(together) {
            let parts = window_sentences(sentence, some, self.settings.context > 0);
            for mentions in (self.tag)(&parts)? {
                merger.add(mentions);
            }
        }
        Ok(merger.finish())
    }
}

/// Byte offsets of the words of a sentence in its text.
pub fn word_bytes(sentence: &Sentence) -> Vec<Range<usize>> {
    let mut bytes = sentence
        .text
        .char_indices()
        .map(|(byte, _)| byte)
        .chain([sentence.text.len()]);
    let mut next = 0;
    let mut at = 0;
    let mut byte_of = |character: usize| {
        if character >= next {
            at = bytes.nth(character - next).unwrap_or(sentence.text.len());
            next = character + 1;
        }
        at
    };
    sentence
        .words
        .iter()
        .map(|word| byte_of(word.start)..byte_of(word.end))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::text::{Entity, Span, slice};
    use proptest::prelude::*;

    fn settings() -> DocumentSettings {
        DocumentSettings {
            segmentation: Segmentation::default(),
            context: 0,
            longest: 40,
            nested: false,
            whole: false,
        }
    }

    /// Finds the words that start with a capital.
    fn capitals(sentences: &[Sentence]) -> Result<Vec<Vec<Mention>>> {
        assert!(sentences.iter().map(Sentence::len).sum::<usize>() <= 2 * WORDS);
        let of = |sentence: &Sentence| {
            let words = sentence.words.iter().enumerate();
            words
                .filter(|(_, word)| word.text.starts_with(char::is_uppercase))
                .map(|(number, _)| Mention {
                    entity: Entity::new(number, number + 1, "X"),
                    score: 0.5,
                })
                .collect()
        };
        Ok(sentences.iter().map(of).collect())
    }

    /// Character offsets of the mentions of a text.
    fn tagged(text: &str, settings: DocumentSettings) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        let mut joined = String::new();
        let mut done = |tagged: Tagged<()>| {
            if let Tagged::Sentence(sentence, mentions) = tagged {
                for mention in mentions {
                    let (start, end) = sentence.characters(mention.entity.span);
                    found.push((sentence.offset + start, sentence.offset + end));
                }
                joined += &sentence.text;
                joined += &sentence.trailing;
            }
            Ok::<(), Error>(())
        };
        let mut queue = TagQueue::new(capitals, settings);
        for sentence in TextSentences::new(text, settings) {
            queue.push(sentence, &mut done).unwrap();
        }
        queue.flush(&mut done).unwrap();
        assert_eq!(joined, text);
        found
    }

    #[test]
    fn offsets_are_those_of_the_whole_text() {
        let text = "  Anna 👩‍🔬 met Bo.\n\nThen 北京: Cé lia. ".repeat(300);
        let expected: Vec<(usize, usize)> = words::split(&text)
            .into_iter()
            .filter(|word| word.text.starts_with(char::is_uppercase))
            .map(|word| (word.start, word.end))
            .collect();
        assert_eq!(expected.len(), 1200);
        for whole in [false, true] {
            for longest in [1, 3, 40, 100_000] {
                let settings = DocumentSettings {
                    whole,
                    longest,
                    ..settings()
                };
                assert_eq!(tagged(&text, settings), expected, "{whole} {longest}");
            }
        }
        assert!(tagged("", settings()).is_empty() && tagged(" \n ", settings()).is_empty());
    }

    #[test]
    fn marks_come_out_in_order() {
        let mut out = Vec::new();
        let mut done = |tagged: Tagged<usize>| {
            out.push(match tagged {
                Tagged::Sentence(sentence, mentions) => {
                    format!("{}:{}", sentence.text, mentions.len())
                }
                Tagged::Mark(number) => number.to_string(),
            });
            Ok::<(), Error>(())
        };
        let mut queue = TagQueue::new(capitals, settings());
        queue.mark(0, &mut done).unwrap();
        queue.push(Sentence::from_words(["A"]), &mut done).unwrap();
        queue.mark(1, &mut done).unwrap();
        queue
            .push(Sentence::from_words((0..100).map(|_| "b")), &mut done)
            .unwrap();
        queue.push(Sentence::from_words(["c"]), &mut done).unwrap();
        queue.mark(2, &mut done).unwrap();
        queue.flush(&mut done).unwrap();
        let long = format!("{}:0", ["b"; 100].join(" "));
        assert_eq!(out, ["0", "A:1", "1", &long, "c:0", "2"]);
    }

    #[test]
    fn neighbours_are_the_context() {
        let settings = DocumentSettings {
            context: 2,
            ..settings()
        };
        let sentences: Vec<Sentence> =
            TextSentences::new("One. Two. Three. Four.", settings).collect();
        let sides: Vec<(String, String)> = sentences
            .iter()
            .map(|one| (one.left.concat(), one.right.concat()))
            .collect();
        assert_eq!(sides[0], (String::new(), "Two.Three.".to_string()));
        assert_eq!(sides[2], ("One.Two.".to_string(), "Four.".to_string()));
        assert_eq!(sides[3].1, "");
        let mut linked = sentences.clone();
        for one in &mut linked {
            (one.left, one.right) = (Vec::new(), Vec::new());
            one.document = Some("d".to_string());
        }
        crate::data::link_context(&mut linked, 2);
        for (one, other) in linked.iter().zip(&sentences) {
            assert_eq!((&one.left, &one.right), (&other.left, &other.right));
        }
    }

    #[test]
    fn a_text_without_sentences_is_cut_at_white_space() {
        let text = "wörd ".repeat(500_000);
        let settings = DocumentSettings {
            longest: 512,
            ..settings()
        };
        let sentences: Vec<Sentence> = TextSentences::new(&text, settings).collect();
        assert_eq!(sentences.len(), text.len().div_ceil(LONGEST_SENTENCE));
        assert!(
            sentences
                .iter()
                .all(|one| one.words.iter().all(|word| word.text == "wörd"))
        );
        let one = "é".repeat(1_000_000);
        assert_eq!(
            TextSentences::new(&one, settings)
                .map(|one| one.text.len())
                .sum::<usize>(),
            one.len()
        );
    }

    proptest! {
        #[test]
        fn mentions_of_any_text_have_their_surfaces(text in "(\\PC{0,6}|[A-Z][a-z]{0,3}|[.!?。] ?|\n){0,60}", longest in 1..20usize, whole: bool) {
            for (start, end) in tagged(&text, DocumentSettings { longest, whole, ..settings() }) {
                prop_assert!(slice(&text, start, end).starts_with(char::is_uppercase));
            }
        }

        #[test]
        fn bytes_of_words_are_their_texts(text in any::<String>()) {
            let sentence = words::sentence(&text, Segmentation::default());
            let bytes = word_bytes(&sentence);
            prop_assert_eq!(bytes.len(), sentence.len());
            for (number, range) in bytes.into_iter().enumerate() {
                prop_assert_eq!(&sentence.text[range], sentence.surface(Span::new(number, number + 1)));
            }
        }
    }
}
