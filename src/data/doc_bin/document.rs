//! One document of a DocBin: tokens with spaces, entities, and where its sentences start.

use std::collections::HashSet;

use crate::text::{Entity, Sentence, Word};

/// A token: its text and whether a space follows.
pub(super) struct Token<'a> {
    pub text: &'a str,
    pub space: bool,
    pub pos: Option<&'a str>,
    pub starts_sentence: bool,
}

impl Token<'_> {
    /// spaCy has tokens for white space, which are no words here.
    fn is_word(&self) -> bool {
        !self.text.trim().is_empty()
    }
}

/// First token, one past the last token, and type.
pub(super) type TokenSpan<'a> = (usize, usize, &'a str);

/// A document.
#[derive(Default)]
pub(super) struct Document<'a> {
    pub name: String,
    pub tokens: Vec<Token<'a>>,
    pub entities: Vec<TokenSpan<'a>>,
    /// Whether it is known for a token after the first that a sentence starts or does not start there.
    pub has_starts: bool,
}

/// The sentences of a document, and what was lost or changed.
#[derive(Default)]
pub(super) struct Cut {
    pub sentences: Vec<Sentence>,
    /// Starts of sentences within an entity, where the document was not cut.
    pub joined: usize,
    /// Entities that consist of white space.
    pub blank: usize,
}

impl Document<'_> {
    /// The sentences. Joined with [`Sentence::trailing`], they are the text of the document.
    pub fn sentences(&self, whole: bool) -> Cut {
        let mut cut = Cut::default();
        let starts = self.starts(whole, &mut cut.joined);
        let entities = self.word_entities(&mut cut.blank);
        let mut entities = entities.into_iter().peekable();
        // Index of the first word of the sentence and number of characters before it.
        let (mut first_word, mut offset, mut position) = (0, 0, 0);
        let mut sentence = Sentence::default();
        let mut spaces = String::new();
        for (token, is_start) in self.tokens.iter().zip(starts) {
            if is_start && !sentence.words.is_empty() && token.is_word() {
                let words = sentence.words.len();
                sentence.trailing = std::mem::take(&mut spaces);
                self.finish(&mut sentence, offset, first_word, &mut entities);
                cut.sentences.push(std::mem::take(&mut sentence));
                first_word += words;
                offset = position;
            }
            let length = token.text.chars().count();
            if token.is_word() {
                sentence.text.push_str(&std::mem::take(&mut spaces));
                sentence.text.push_str(token.text);
                sentence.words.push(Word {
                    text: token.text.to_string(),
                    start: position - offset,
                    end: position - offset + length,
                });
                if let Some(pos) = token.pos {
                    sentence.pos.get_or_insert_default().push(pos.to_string());
                }
            } else {
                spaces.push_str(token.text);
            }
            position += length + usize::from(token.space);
            if token.space {
                spaces.push(' ');
            }
        }
        if !sentence.words.is_empty() {
            sentence.trailing = spaces;
            self.finish(&mut sentence, offset, first_word, &mut entities);
            cut.sentences.push(sentence);
        }
        cut
    }

    fn finish(
        &self,
        sentence: &mut Sentence,
        offset: usize,
        first_word: usize,
        entities: &mut std::iter::Peekable<impl Iterator<Item = Entity>>,
    ) {
        let end = first_word + sentence.words.len();
        while let Some(entity) = entities.next_if(|entity| entity.span.start < end) {
            let span = entity.span;
            let entity = Entity::new(span.start - first_word, span.end - first_word, entity.label);
            sentence.entities.push(entity);
        }
        if sentence
            .pos
            .as_ref()
            .is_some_and(|pos| pos.len() != sentence.words.len())
        {
            sentence.pos = None;
        }
        sentence.document = Some(self.name.clone());
        sentence.offset = offset;
    }

    /// Whether a sentence starts at each token. The mark of a token of white space counts for the next word.
    fn starts(&self, whole: bool, joined: &mut usize) -> Vec<bool> {
        let mut change = vec![0isize; self.tokens.len() + 1];
        for (start, end, _) in &self.entities {
            change[start + 1] += 1;
            change[*end] -= 1;
        }
        let mut depth = 0;
        let mut pending = false;
        let start = |(token, change): (&Token, isize)| {
            depth += change;
            pending |= token.starts_sentence && !whole;
            if !token.is_word() {
                return false;
            }
            let wanted = std::mem::take(&mut pending);
            *joined += usize::from(wanted && depth > 0);
            wanted && depth == 0
        };
        self.tokens.iter().zip(change).map(start).collect()
    }

    /// The entities as spans of words, in order and without repetition.
    fn word_entities(&self, blank: &mut usize) -> Vec<Entity> {
        let mut words_before = Vec::with_capacity(self.tokens.len() + 1);
        let mut words = 0;
        for token in &self.tokens {
            words_before.push(words);
            words += usize::from(token.is_word());
        }
        words_before.push(words);
        let mut seen = HashSet::new();
        let mut entities = Vec::new();
        for span in &self.entities {
            if !seen.insert(span) {
                continue;
            }
            let (start, end) = (words_before[span.0], words_before[span.1]);
            if start < end {
                entities.push(Entity::new(start, end, span.2));
            } else {
                *blank += 1;
            }
        }
        entities.sort_by_key(|entity| entity.span);
        // White space at the ends of a span may have been the only difference of two.
        entities.dedup();
        entities
    }
}
