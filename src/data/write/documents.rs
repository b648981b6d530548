//! Joining the sentences of a document: the text as it was before it was cut, with entities at offsets in this text.

use std::borrow::Cow;
use std::ops::Range;

use super::annotated::Annotated;
use crate::text::{CharacterIndex, Sentence, Span};

/// A text with entities: the joined sentences of a document, or a sentence that was not cut from one.
#[derive(Debug, Clone)]
pub struct Document<'a> {
    /// The name of the document.
    pub name: Option<&'a str>,
    /// The text.
    pub text: Cow<'a, str>,
    /// The entities, sentence by sentence.
    pub entities: Vec<DocumentEntity<'a>>,
    /// The sentences, each with the offset of its first character and the index of its first word.
    pub(super) sentences: Vec<(usize, usize, &'a Sentence)>,
    /// Whether the entities are predictions.
    pub(super) is_predicted: bool,
}

/// An entity of a document.
#[derive(Debug, Clone, PartialEq)]
pub struct DocumentEntity<'a> {
    /// First character and one past the last character of each part; several parts for a discontinuous entity.
    pub parts: Vec<(usize, usize)>,
    /// The entity type.
    pub label: &'a str,
    /// The confidence of a prediction.
    pub score: Option<f32>,
    /// The words of the document that it covers, if it starts and ends at word boundaries.
    pub words: Option<Span>,
    /// The text of each part.
    pub texts: Vec<&'a str>,
}

impl DocumentEntity<'_> {
    /// First character and one past the last character; `None` for a discontinuous entity.
    pub fn span(&self) -> Option<(usize, usize)> {
        match self.parts[..] {
            [part] => Some(part),
            _ => None,
        }
    }
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
pub fn documents(sentences: &[Sentence]) -> Vec<Document<'_>> {
    let items: Vec<Annotated<'_>> = sentences.iter().map(Annotated::gold).collect();
    runs(&items)
        .into_iter()
        .map(|run| Document::join(&items[run]))
        .collect()
}

/// Index ranges of the sentences that follow one another in the text of one document.
pub(super) fn runs(items: &[Annotated<'_>]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        match runs.last_mut() {
            Some(run) if follows(items[index - 1].sentence, item.sentence) => run.end = index + 1,
            _ => runs.push(index..index + 1),
        }
    }
    runs
}

/// True when `second` comes directly after `first` in the text of their document.
fn follows(first: &Sentence, second: &Sentence) -> bool {
    first.document == second.document
        && second.offset > first.offset
        && second.offset == first.offset + length(&first.text) + length(&first.trailing)
}

fn length(text: &str) -> usize {
    text.chars().count()
}

impl<'a> Document<'a> {
    /// Joins sentences that follow one another in the text of a document.
    pub(super) fn join(items: &[Annotated<'a>]) -> Self {
        let mut document = Self {
            name: None,
            text: Cow::Borrowed(""),
            entities: Vec::new(),
            sentences: Vec::with_capacity(items.len()),
            is_predicted: items.iter().any(|item| item.is_predicted),
        };
        let (mut offset, mut words) = (0, 0);
        for item in items {
            let sentence = item.sentence;
            document.name = sentence.document.as_deref();
            document.entities.extend(entities(item, offset, words));
            document.sentences.push((offset, words, sentence));
            if items.len() == 1 && sentence.trailing.is_empty() {
                document.text = Cow::Borrowed(&sentence.text);
            } else {
                document.text += sentence.text.as_str();
                document.text += sentence.trailing.as_str();
            }
            offset += length(&sentence.text) + length(&sentence.trailing);
            words += sentence.len();
        }
        document
    }
}

/// The entities of a sentence whose first character is at `offset` in the document and whose first word has the index
/// `first_word`.
fn entities<'a>(item: &Annotated<'a>, offset: usize, first_word: usize) -> Vec<DocumentEntity<'a>> {
    let sentence = item.sentence;
    let text = CharacterIndex::new(&sentence.text);
    let make = |parts: &[(usize, usize)], label: &'a str, score, words: Option<Span>| {
        let texts = parts.iter().map(|(start, end)| text.slice(*start, *end));
        DocumentEntity {
            texts: texts.collect(),
            parts: (parts.iter())
                .map(|(start, end)| (start + offset, end + offset))
                .collect(),
            label,
            score,
            words: words.map(|span| Span::new(span.start + first_word, span.end + first_word)),
        }
    };
    let aligned = item.entities.iter().map(|entity| {
        let part = sentence.characters(entity.span);
        make(&[part], entity.label, entity.score, Some(entity.span))
    });
    let misaligned = item.misaligned().iter().map(|entity| {
        let part = (entity.start, entity.end);
        make(&[part], &entity.label, None, None)
    });
    let discontinuous =
        (item.discontinuous().iter()).map(|entity| make(&entity.parts, &entity.label, None, None));
    aligned.chain(misaligned).chain(discontinuous).collect()
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
                prop_assert_eq!(slice(&text, start, end), entity.texts[0]);
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
        let found: Vec<_> = (joined.entities.iter())
            .map(|e| (e.parts.clone(), e.label, e.texts.clone()))
            .collect();
        assert_eq!(
            found,
            [
                (vec![(7, 9)], "LOC", vec!["北京"]),
                (vec![(10, 11)], "X", vec!["a"]),
                (vec![(5, 6), (10, 12)], "Y", vec!["👍", "ab"]),
            ]
        );
        assert_eq!(joined.entities[0].words, Some(Span::new(3, 5)));
        let mention = Mention {
            entity: Entity::new(0, 1, "M"),
            score: 0.5,
        };
        let items = [
            Annotated::gold(&sentences[0]),
            Annotated::predicted(&sentences[1], std::slice::from_ref(&mention)),
        ];
        let joined = Document::join(&items);
        assert_eq!(joined.entities.len(), 1);
        assert_eq!(joined.entities[0].score, Some(0.5));
    }
}
