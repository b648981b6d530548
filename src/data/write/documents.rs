//! Joining the sentences of a document: the text as it was before it was cut, with entities at offsets in this text.

use std::collections::HashSet;
use std::sync::Arc;

use super::annotated::Annotated;
use crate::text::{CharacterIndex, Sentence, Span};

/// A text with entities: the joined sentences of a document, or a sentence that was not cut from one.
///
/// A long text may have hundreds of thousands of entities, so they are small, and sentences are not kept.
#[derive(Debug, Clone, Default)]
pub struct Document {
    /// The name of the document.
    pub name: Option<String>,
    /// The text.
    pub text: String,
    /// The entities, sentence by sentence.
    pub entities: Vec<DocumentEntity>,
    /// The words, if they are to be written.
    pub(super) tokens: Option<Tokens>,
    /// Whether the entities are predictions.
    pub(super) is_predicted: bool,
    /// Length in bytes of the first sentence, and the number of characters of white space after it.
    pub(super) first_sentence: (usize, usize),
    /// Number of sentences, of those with context, and of those with part-of-speech tags.
    pub(super) sentences: usize,
    pub(super) with_context: usize,
    pub(super) with_pos: usize,
    /// Number of characters and words.
    characters: usize,
    words: usize,
    /// Offset of the last sentence, and of a sentence that would follow it, in the text they were cut from.
    last_offset: usize,
    next_offset: usize,
    /// The entity types.
    labels: HashSet<Arc<str>>,
}

/// An entity of a document.
#[derive(Debug, Clone, PartialEq)]
pub struct DocumentEntity {
    extent: Extent,
    /// The entity type.
    pub label: Arc<str>,
    /// The confidence of a prediction.
    pub score: Option<f32>,
    /// The words of the document that it covers, if it starts and ends at word boundaries.
    pub words: Option<Span>,
}

/// The characters of an entity.
#[derive(Debug, Clone, PartialEq)]
enum Extent {
    Continuous([(usize, usize); 1]),
    Discontinuous(Box<[(usize, usize)]>),
}

impl DocumentEntity {
    /// First character and one past the last character of each part; several parts for a discontinuous entity.
    pub fn parts(&self) -> &[(usize, usize)] {
        match &self.extent {
            Extent::Continuous(part) => part,
            Extent::Discontinuous(parts) => parts,
        }
    }

    /// First character and one past the last character; `None` for a discontinuous entity.
    pub fn span(&self) -> Option<(usize, usize)> {
        match self.parts() {
            [part] => Some(*part),
            _ => None,
        }
    }
}

/// The words of a document.
#[derive(Debug, Clone, Default)]
pub(super) struct Tokens {
    list: Vec<Token>,
    /// The texts of words that differ from the characters at their place, by the index of the word.
    other_texts: Vec<(usize, String)>,
    /// Whether the last sentence has words.
    ends_in_word: bool,
}

/// A word of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token {
    pub start: usize,
    pub end: usize,
    /// Whether white space follows.
    pub has_space: bool,
}

impl Tokens {
    /// Adds the words of a sentence whose first character is at `offset` in the document.
    fn add(&mut self, sentence: &Sentence, offset: usize) {
        // A sentence may also start with white space.
        let is_spaced = self.ends_in_word && sentence.text.starts_with(char::is_whitespace);
        if let Some(last) = self.list.last_mut() {
            last.has_space |= is_spaced;
        }
        self.ends_in_word = !sentence.is_empty();
        let text = CharacterIndex::new(&sentence.text);
        for (index, word) in sentence.words.iter().enumerate() {
            let has_space = match sentence.words.get(index + 1) {
                Some(next) => next.start > word.end,
                None => ends_in_space(sentence, word.end) || !sentence.trailing.is_empty(),
            };
            if text.slice(word.start, word.end) != word.text {
                self.other_texts.push((self.list.len(), word.text.clone()));
            }
            self.list.push(Token {
                start: offset + word.start,
                end: offset + word.end,
                has_space,
            });
        }
    }

    /// The words with their texts, which are found in the text of the document.
    pub fn iter<'a>(
        &'a self,
        text: &'a CharacterIndex<'a>,
    ) -> impl Iterator<Item = (Token, &'a str)> {
        let mut others = self.other_texts.iter().peekable();
        self.list.iter().enumerate().map(move |(index, token)| {
            let other = others.next_if(|(of, _)| *of == index);
            let text = match other {
                Some((_, text)) => text.as_str(),
                None => text.slice(token.start, token.end),
            };
            (*token, text)
        })
    }
}

/// True when a sentence has characters after its last word, which ends at `end`: they are white space.
fn ends_in_space(sentence: &Sentence, end: usize) -> bool {
    sentence.text.ends_with(char::is_whitespace) && length(&sentence.text) > end
}

/// The gold annotations of sentences as documents: sentences that were cut from a text are joined again.
///
/// ```
/// use nerzoo::data::write::documents::documents;
/// use nerzoo::text::Sentence;
///
/// let mut first = Sentence::from_words(["Hello"]);
/// first.trailing = "\n\n".to_string();
/// let mut second = Sentence::from_words(["world"]);
/// second.offset = 7;
/// assert_eq!(documents(&[first, second])[0].text, "Hello\n\nworld");
/// ```
pub fn documents(sentences: &[Sentence]) -> Vec<Document> {
    let mut documents: Vec<Document> = Vec::new();
    for sentence in sentences {
        let item = Annotated::gold(sentence);
        match documents.last_mut() {
            Some(document) if document.is_followed_by(sentence) => document.add(&item),
            _ => documents.push(Document::begin(&item, false)),
        }
    }
    documents
}

fn length(text: &str) -> usize {
    text.chars().count()
}

impl Document {
    /// The document of a first sentence. Its words are kept only on demand.
    pub(super) fn begin(item: &Annotated<'_>, with_tokens: bool) -> Self {
        let sentence = item.sentence;
        let mut document = Self {
            name: sentence.document.clone(),
            tokens: with_tokens.then(Tokens::default),
            first_sentence: (sentence.text.len(), length(&sentence.trailing)),
            ..Self::default()
        };
        document.add(item);
        document
    }

    /// Joins the sentences of a text, in order.
    pub(super) fn join(items: &[Annotated<'_>]) -> Self {
        let Some((first, others)) = items.split_first() else {
            return Self::default();
        };
        let mut document = Self::begin(first, false);
        others.iter().for_each(|item| document.add(item));
        document
    }

    /// True when a sentence comes directly after the last one in the text of their document.
    pub(super) fn is_followed_by(&self, sentence: &Sentence) -> bool {
        self.name == sentence.document
            && sentence.offset > self.last_offset
            && sentence.offset == self.next_offset
    }

    /// Adds the next sentence.
    pub(super) fn add(&mut self, item: &Annotated<'_>) {
        let sentence = item.sentence;
        self.is_predicted |= item.is_predicted;
        self.sentences += 1;
        self.with_context += usize::from(!sentence.left.is_empty() || !sentence.right.is_empty());
        self.with_pos += usize::from(sentence.pos.is_some());
        self.add_entities(item);
        if let Some(tokens) = &mut self.tokens {
            tokens.add(sentence, self.characters);
        }
        self.text += &sentence.text;
        self.text += &sentence.trailing;
        let added = length(&sentence.text) + length(&sentence.trailing);
        self.characters += added;
        self.words += sentence.len();
        self.last_offset = sentence.offset;
        self.next_offset = sentence.offset + added;
    }

    fn add_entities(&mut self, item: &Annotated<'_>) {
        let sentence = item.sentence;
        for entity in &item.entities {
            let part = sentence.characters(entity.span);
            let Span { start, end } = entity.span;
            let words = Span::new(start + self.words, end + self.words);
            self.add_entity(&[part], entity.label, entity.score, Some(words));
        }
        for entity in item.misaligned() {
            self.add_entity(&[(entity.start, entity.end)], &entity.label, None, None);
        }
        for entity in item.discontinuous() {
            self.add_entity(&entity.parts, &entity.label, None, None);
        }
    }

    /// Adds an entity whose parts have offsets in the sentence.
    fn add_entity(
        &mut self,
        parts: &[(usize, usize)],
        label: &str,
        score: Option<f32>,
        words: Option<Span>,
    ) {
        let shifted =
            |(start, end): &(usize, usize)| (start + self.characters, end + self.characters);
        let extent = match parts {
            [part] => Extent::Continuous([shifted(part)]),
            _ => Extent::Discontinuous(parts.iter().map(shifted).collect()),
        };
        let label = self.labels.get(label).cloned().unwrap_or_else(|| {
            let label: Arc<str> = label.into();
            self.labels.insert(label.clone());
            label
        });
        self.entities.push(DocumentEntity {
            extent,
            label,
            score,
            words,
        });
    }

    /// The text, with its characters found by their offsets.
    pub fn characters(&self) -> CharacterIndex<'_> {
        CharacterIndex::new(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::words;
    use crate::text::{Discontinuous, Entity, Mention, Misaligned, slice};
    use proptest::prelude::*;

    /// Cuts a text into sentences at the given numbers of characters; white space at the end of a piece is its `trailing`.
    fn cut(text: &str, sizes: &[usize], name: Option<&str>) -> Vec<Sentence> {
        let characters: Vec<char> = text.chars().collect();
        let (mut start, mut sentences) = (0, Vec::new());
        let ends = sizes.iter().scan(0, |at, size| {
            *at += size;
            Some((*at).min(characters.len()))
        });
        for end in ends.chain([characters.len()]) {
            let piece: String = characters[start..end].iter().collect();
            if piece.is_empty() {
                continue;
            }
            let kept = piece.trim_end();
            let mut sentence = words::sentence(kept, Default::default());
            sentence.trailing = piece[kept.len()..].to_string();
            sentence.offset = start;
            sentence.document = name.map(str::to_string);
            sentences.push(sentence);
            start = end;
        }
        sentences
    }

    proptest! {
        #[test]
        fn joined_sentences_give_the_text_back(
            text in "(\\PC|[ \\n\\r\\t👩‍🔬e\u{301}北שa.]){1,40}",
            sizes in prop::collection::vec(1..12usize, 0..6),
            named in any::<bool>(),
        ) {
            let mut sentences = cut(&text, &sizes, named.then_some("d"));
            for sentence in &mut sentences {
                if !sentence.is_empty() {
                    let last = sentence.len() - 1;
                    sentence.entities = vec![Entity::new(0, last + 1, "A"), Entity::new(last, last + 1, "B")];
                }
            }
            let joined = documents(&sentences);
            prop_assert_eq!(joined.len(), 1);
            prop_assert_eq!(&joined[0].text, &text);
            for entity in &joined[0].entities {
                let (start, end) = entity.span().unwrap();
                let surface = slice(&text, start, end);
                prop_assert!(!surface.is_empty() && joined[0].characters().slice(start, end) == surface);
            }
        }
    }

    #[test]
    fn sentences_that_do_not_follow_one_another_stay_apart() {
        let mut sentences = cut("One. Two. Three.", &[5, 5], Some("a"));
        let texts = |sentences: &[Sentence]| -> Vec<String> {
            let joined = documents(sentences);
            joined.iter().map(|d| d.text.to_string()).collect()
        };
        assert_eq!(texts(&sentences), ["One. Two. Three."]);
        sentences[2].document = Some("b".to_string());
        assert_eq!(texts(&sentences), ["One. Two. ", "Three."]);
        sentences.remove(1);
        sentences[1].document = Some("a".to_string());
        assert_eq!(texts(&sentences), ["One. ", "Three."]);
        let plain = [Sentence::from_words(["a"]), Sentence::from_words(["b"])];
        assert_eq!(texts(&plain), ["a", "b"]);
        assert!(texts(&[]).is_empty());
    }

    #[test]
    fn entities_of_long_documents_are_small() {
        assert!(size_of::<DocumentEntity>() <= 80);
        let mut sentences = cut("Ada and Bo", &[], None);
        sentences[0].entities = vec![Entity::new(0, 1, "PER"), Entity::new(2, 3, "PER")];
        let joined = &documents(&sentences)[0];
        assert!(Arc::ptr_eq(
            &joined.entities[0].label,
            &joined.entities[1].label
        ));
    }

    #[test]
    fn entities_of_every_kind_are_shifted() {
        let mut sentences = cut("Zoë. 👍 北京 ab", &[5], None);
        let second = &mut sentences[1];
        second.entities = vec![Entity::new(1, 3, "LOC")];
        second.misaligned = vec![Misaligned {
            start: 5,
            end: 6,
            label: "X".to_string(),
        }];
        second.discontinuous = vec![Discontinuous {
            parts: vec![(0, 1), (5, 7)],
            label: "Y".to_string(),
        }];
        let joined = &documents(&sentences)[0];
        let characters = joined.characters();
        let texts = |entity: &DocumentEntity| -> Vec<&str> {
            let parts = entity.parts().iter();
            parts
                .map(|(start, end)| characters.slice(*start, *end))
                .collect()
        };
        let found: Vec<_> = (joined.entities.iter())
            .map(|e| (e.parts(), &*e.label, texts(e)))
            .collect();
        assert_eq!(
            found,
            [
                (&[(7, 9)][..], "LOC", vec!["北京"]),
                (&[(10, 11)], "X", vec!["a"]),
                (&[(5, 6), (10, 12)], "Y", vec!["👍", "ab"]),
            ]
        );
        assert_eq!(joined.entities[0].words, Some(Span::new(3, 5)));
        let mention = Mention {
            entity: Entity::new(0, 1, "M"),
            score: 0.5,
        };
        let mut joined = Document::begin(&Annotated::gold(&sentences[0]), false);
        assert!(joined.is_followed_by(&sentences[1]));
        joined.add(&Annotated::predicted(
            &sentences[1],
            std::slice::from_ref(&mention),
        ));
        assert_eq!(joined.entities.len(), 1);
        assert_eq!(joined.entities[0].score, Some(0.5));
    }
}
