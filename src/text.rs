//! Sentences, words, spans and entities: the data types shared by all modules.
//!
//! A [`Span`] is a half-open range of word indices. Offsets into a text count characters (Unicode scalar values, as in
//! the JSON of most annotation tools), never bytes.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// A half-open range `start..end` of word indices in a sentence.
///
/// ```
/// use nerzoo::text::Span;
///
/// let outer = Span::new(0, 3);
/// let inner = Span::new(1, 2);
/// assert_eq!(outer.len(), 3);
/// assert!(outer.contains(&inner) && !inner.contains(&outer));
/// assert!(!outer.overlaps(&Span::new(3, 4)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Span {
    /// Index of the first word.
    pub start: usize,
    /// One past the index of the last word.
    pub end: usize,
}

impl Span {
    /// The span of the words `start..end`.
    pub fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// Number of words.
    pub fn len(&self) -> usize {
        self.end.saturating_sub(self.start)
    }

    /// True for a span without words. The span of an entity is never empty.
    pub fn is_empty(&self) -> bool {
        self.end <= self.start
    }

    /// True when the two spans share a word.
    pub fn overlaps(&self, other: &Span) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// True when `other` lies inside this span (equal spans contain each other).
    pub fn contains(&self, other: &Span) -> bool {
        self.start <= other.start && other.end <= self.end
    }
}

/// A word and its character offsets in the text of its sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Word {
    /// The word as it occurs in the text.
    pub text: String,
    /// Offset of the first character in the sentence's text.
    pub start: usize,
    /// One past the offset of the last character.
    pub end: usize,
}

/// A span with an entity type: a gold annotation, or a prediction without its score.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Entity {
    /// The words of the entity.
    pub span: Span,
    /// The entity type, such as `PER`.
    pub label: String,
}

impl Entity {
    /// An entity of type `label` over the words `start..end`.
    pub fn new(start: usize, end: usize, label: impl Into<String>) -> Self {
        Self {
            span: Span::new(start, end),
            label: label.into(),
        }
    }
}

/// A predicted entity with the model's confidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mention {
    /// The entity.
    pub entity: Entity,
    /// Confidence in 0..=1.
    pub score: f32,
}

/// A gold entity that does not start and end at word boundaries and therefore has no [`Span`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Misaligned {
    /// Offset of the first character.
    pub start: usize,
    /// One past the offset of the last character.
    pub end: usize,
    /// The entity type.
    pub label: String,
}

/// A gold entity of several parts, with words between them that do not belong to it. No model here finds such entities;
/// they count as missed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discontinuous {
    /// First character and one past the last character of each part, in text order.
    pub parts: Vec<(usize, usize)>,
    /// The entity type.
    pub label: String,
}

/// A sentence (or short text) with its words and annotations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sentence {
    /// The original text. For corpora that contain only words: the words joined by single spaces.
    pub text: String,
    /// The words in text order.
    pub words: Vec<Word>,
    /// Part-of-speech tag of each word, if the corpus has them.
    pub pos: Option<Vec<String>>,
    /// Name of the document the sentence belongs to, if known.
    pub document: Option<String>,
    /// Context: words of the preceding sentence(s) of the document.
    pub left: Vec<String>,
    /// Context: words of the following sentence(s) of the document.
    pub right: Vec<String>,
    /// Gold entities, which may nest and overlap.
    pub entities: Vec<Entity>,
    /// Gold entities that do not start and end at word boundaries.
    pub misaligned: Vec<Misaligned>,
    /// Gold entities of several parts.
    #[serde(default)]
    pub discontinuous: Vec<Discontinuous>,
    /// Offset of the first character of `text` in the text of the document, if the sentence was cut from one.
    #[serde(default)]
    pub offset: usize,
    /// The white space between this sentence and the next one of its document. The texts of a document's sentences, each
    /// followed by this, are the text of the document.
    #[serde(default)]
    pub trailing: String,
}

impl Sentence {
    /// A sentence without annotations from a list of words. Its text is the words joined by single spaces.
    ///
    /// ```
    /// use nerzoo::text::{Sentence, Span};
    ///
    /// let sentence = Sentence::from_words(["Ada", "Lovelace", "wrote"]);
    /// assert_eq!(sentence.text, "Ada Lovelace wrote");
    /// assert_eq!(sentence.surface(Span::new(0, 2)), "Ada Lovelace");
    /// assert_eq!(sentence.characters(Span::new(1, 2)), (4, 12));
    /// assert_eq!(sentence.span_of(4, 12), Some(Span::new(1, 2)));
    /// ```
    pub fn from_words<S: Into<String>>(words: impl IntoIterator<Item = S>) -> Self {
        let mut sentence = Self::default();
        let mut characters = 0;
        for (index, text) in words.into_iter().enumerate() {
            let text = text.into();
            if index > 0 {
                sentence.text.push(' ');
                characters += 1;
            }
            sentence.text.push_str(&text);
            let end = characters + text.chars().count();
            sentence.words.push(Word {
                text,
                start: characters,
                end,
            });
            characters = end;
        }
        sentence
    }

    /// Number of words.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// True when the sentence has no words.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Number of gold entities, including those that no span of words can equal.
    pub fn entity_count(&self) -> usize {
        self.entities.len() + self.misaligned.len() + self.discontinuous.len()
    }

    /// The types of the gold entities that no span of words can equal, so that no model finds them: those that do not start
    /// and end at word boundaries, and those of several parts.
    pub fn unreachable_labels(&self) -> impl Iterator<Item = &str> {
        let misaligned = self.misaligned.iter().map(|entity| entity.label.as_str());
        misaligned.chain(
            self.discontinuous
                .iter()
                .map(|entity| entity.label.as_str()),
        )
    }

    /// Character offsets `(start, end)` of a span, `end` exclusive; `(0, 0)` for a span that is empty or out of range.
    pub fn characters(&self, span: Span) -> (usize, usize) {
        if span.is_empty() || span.end > self.words.len() {
            return (0, 0);
        }
        (self.words[span.start].start, self.words[span.end - 1].end)
    }

    /// The text of a span, from its first word to its last.
    pub fn surface(&self, span: Span) -> &str {
        let (start, end) = self.characters(span);
        slice(&self.text, start, end)
    }

    /// The span that covers exactly the characters `start..end`; `None` when they do not start and end at word boundaries.
    pub fn span_of(&self, start: usize, end: usize) -> Option<Span> {
        let first = self.words.binary_search_by_key(&start, |word| word.start);
        let last = self.words.binary_search_by_key(&end, |word| word.end);
        match (first, last) {
            (Ok(first), Ok(last)) if first <= last => Some(Span::new(first, last + 1)),
            _ => None,
        }
    }
}

/// The characters `start..end` of a text; empty when out of range.
pub fn slice(text: &str, start: usize, end: usize) -> &str {
    let mut boundaries = text
        .char_indices()
        .map(|(byte, _)| byte)
        .chain([text.len()]);
    let Some(from) = boundaries.by_ref().nth(start) else {
        return "";
    };
    match end.checked_sub(start) {
        None | Some(0) => "",
        Some(length) => boundaries.nth(length - 1).map_or("", |to| &text[from..to]),
    }
}

/// Finds characters of a long text by their offsets: [`slice()`] reads the text from its start on every call.
#[derive(Debug, Clone)]
pub struct CharacterIndex<'a> {
    text: &'a str,
    /// Offsets of every character whose offset is a multiple of [`Self::STEP`], in bytes and in UTF-16 code units; empty for
    /// ASCII, where all counts agree.
    marks: Vec<(usize, usize)>,
    characters: usize,
}

impl<'a> CharacterIndex<'a> {
    const STEP: usize = 64;

    /// Reads a text once.
    pub fn new(text: &'a str) -> Self {
        let mut index = Self {
            text,
            marks: Vec::new(),
            characters: text.len(),
        };
        if text.is_ascii() {
            return index;
        }
        index.characters = 0;
        let mut units = 0;
        for (byte, character) in text.char_indices() {
            if index.characters.is_multiple_of(Self::STEP) {
                index.marks.push((byte, units));
            }
            index.characters += 1;
            units += character.len_utf16();
        }
        index
    }

    /// Number of characters.
    pub fn characters(&self) -> usize {
        self.characters
    }

    /// Byte offset of a character; the length of the text for offsets past its end.
    pub fn byte(&self, character: usize) -> usize {
        if self.characters == self.text.len() {
            return character.min(self.characters);
        }
        let Some((from, _)) = self.marks.get(character / Self::STEP).copied() else {
            return self.text.len();
        };
        let mut near = self.text[from..].char_indices();
        let found = near.nth(character % Self::STEP);
        found.map_or(self.text.len(), |(byte, _)| from + byte)
    }

    /// The characters `start..end`; `None` when out of range.
    pub fn get(&self, start: usize, end: usize) -> Option<&'a str> {
        let is_range = start <= end && end <= self.characters;
        is_range.then(|| &self.text[self.byte(start)..self.byte(end)])
    }

    /// The characters `start..end`; empty when out of range.
    ///
    /// ```
    /// use nerzoo::text::CharacterIndex;
    ///
    /// let index = CharacterIndex::new("in 北京 today");
    /// assert_eq!(index.slice(3, 5), "北京");
    /// assert_eq!(index.slice(3, 99), "");
    /// ```
    pub fn slice(&self, start: usize, end: usize) -> &'a str {
        self.get(start, end).unwrap_or_default()
    }

    /// The character that begins at a byte; `None` inside a character and past the end of the text.
    pub fn character_at_byte(&self, byte: usize) -> Option<usize> {
        if self.characters == self.text.len() {
            return (byte <= self.characters).then_some(byte);
        }
        let first = self
            .marks
            .partition_point(|mark| mark.0 <= byte)
            .checked_sub(1)?;
        let before = self.text.get(self.marks[first].0..byte)?;
        Some(first * Self::STEP + before.chars().count())
    }

    /// The character that begins at a UTF-16 code unit; `None` inside a character and past the end of the text.
    pub fn character_at_utf16(&self, unit: usize) -> Option<usize> {
        if self.characters == self.text.len() {
            return (unit <= self.characters).then_some(unit);
        }
        let first = self
            .marks
            .partition_point(|mark| mark.1 <= unit)
            .checked_sub(1)?;
        let (from, mut found) = self.marks[first];
        let mut character = first * Self::STEP;
        let mut rest = self.text[from..].chars();
        while found < unit {
            found += rest.next()?.len_utf16();
            character += 1;
        }
        (found == unit).then_some(character)
    }
}

/// Reduces nested entities to a flat list: keeps the entities that no other entity contains.
///
/// Of several types on the same span the alphabetically first is kept, and of two entities that overlap without
/// containing each other the one that starts first. The result is sorted and free of overlaps.
///
/// ```
/// use nerzoo::text::{Entity, outermost};
///
/// // "University of Oxford" contains "Oxford".
/// let entities = [Entity::new(2, 3, "LOC"), Entity::new(0, 3, "ORG")];
/// assert_eq!(outermost(&entities), [Entity::new(0, 3, "ORG")]);
/// ```
pub fn outermost(entities: &[Entity]) -> Vec<Entity> {
    let mut sorted: Vec<&Entity> = entities.iter().collect();
    sorted.sort_by_key(|entity| {
        let span = entity.span;
        (span.start, std::cmp::Reverse(span.end), &entity.label)
    });
    let mut kept: Vec<Entity> = Vec::new();
    for entity in sorted {
        if kept
            .last()
            .is_none_or(|last| !last.span.overlaps(&entity.span))
        {
            kept.push(entity.clone());
        }
    }
    kept
}

/// True when the entity shares a word with another entity of the list: it contains it, is contained in it, or overlaps it
/// partly.
///
/// ```
/// use nerzoo::text::{Entity, is_nested};
///
/// let entities = [Entity::new(0, 3, "ORG"), Entity::new(2, 3, "LOC"), Entity::new(4, 5, "PER")];
/// assert!(is_nested(&entities[0], &entities) && is_nested(&entities[1], &entities));
/// assert!(!is_nested(&entities[2], &entities));
/// ```
pub fn is_nested(entity: &Entity, all: &[Entity]) -> bool {
    all.iter()
        .any(|other| other != entity && other.span.overlaps(&entity.span))
}

/// A text without control characters, for terminals: each is replaced by its escape, such as `\u{1b}`. Names of labels, words
/// of a corpus and messages about them could otherwise move the cursor or change colours. Line ends and tabs stay.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if is_hidden(letter) {
            shown.extend(letter.escape_unicode());
        } else {
            shown.push(letter);
        }
    }
    Cow::Owned(shown)
}

/// Whether a terminal would obey a character: a control character other than a line end or a tab, or one that changes the
/// direction of the text around it.
pub fn is_hidden(letter: char) -> bool {
    let directs = matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (letter.is_control() && letter != '\n' && letter != '\t') || directs
}

/// Largest number of entity types of a model.
const MOST_LABELS: usize = 10_000;
/// Largest number of bytes of an entity type's name in a model.
const LONGEST_LABEL: usize = 1_000;

/// The entity types of a corpus in alphabetical order. A type's index is its class index in a model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Labels {
    names: Vec<String>,
}

impl Labels {
    /// The given types, sorted and without duplicates.
    pub fn new<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        let names: BTreeSet<String> = names.into_iter().map(Into::into).collect();
        Self {
            names: names.into_iter().collect(),
        }
    }

    /// All types that occur as gold entities of the sentences.
    pub fn of<'a>(sentences: impl IntoIterator<Item = &'a Sentence>) -> Self {
        Self::new(
            sentences
                .into_iter()
                .flat_map(|sentence| &sentence.entities)
                .map(|entity| entity.label.clone()),
        )
    }

    /// Fails, with the reason, unless the types are sorted, different from each other and of sensible number and length.
    /// Lists that were made by this program always are.
    pub fn check(&self) -> Result<(), String> {
        if self.names.is_empty() {
            return Err("there are no labels".into());
        }
        if self.names.len() > MOST_LABELS {
            let count = self.names.len();
            return Err(format!("{count} labels are more than {MOST_LABELS}"));
        }
        let too_long = |name: &&String| name.is_empty() || name.len() > LONGEST_LABEL;
        if let Some(name) = self.names.iter().find(too_long) {
            let length = name.len();
            return Err(format!(
                "a label has {length} bytes; labels have between 1 and {LONGEST_LABEL}"
            ));
        }
        match self.names.windows(2).find(|pair| pair[0] >= pair[1]) {
            Some(pair) => Err(format!(
                "the labels {:?} and {:?} are equal or not in alphabetical order",
                pair[0], pair[1]
            )),
            None => Ok(()),
        }
    }

    /// Number of types.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// True when there are no types.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The index of a type; `None` for an unknown type.
    pub fn index(&self, name: &str) -> Option<usize> {
        self.names
            .binary_search_by(|known| known.as_str().cmp(name))
            .ok()
    }

    /// The type with this index.
    pub fn name(&self, index: usize) -> &str {
        &self.names[index]
    }

    /// All types in index order.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_visible() {
        assert!(matches!(
            visible("Zoë 北京\n\ta"),
            Cow::Borrowed("Zoë 北京\n\ta")
        ));
        assert_eq!(
            visible("\x1b[31mPER\u{9b}\r\u{202e}x"),
            r"\u{1b}[31mPER\u{9b}\u{d}\u{202e}x"
        );
    }

    #[test]
    fn labels_of_model_folders_are_checked() {
        let labels = |json: &str| serde_json::from_str::<Labels>(json).unwrap().check();
        labels(r#"["A", "B"]"#).unwrap();
        for bad in [r#"["B", "A"]"#, r#"["A", "A"]"#, r#"["", "A"]"#] {
            labels(bad).unwrap_err();
        }
        labels(&format!("[{:?}]", "x".repeat(1001))).unwrap_err();
        let many: Vec<String> = (0..10_001).map(|number| format!("{number:06}")).collect();
        labels(&serde_json::to_string(&many).unwrap()).unwrap_err();
    }

    #[test]
    fn character_offsets_match_the_words() {
        let sentence = Sentence::from_words(["Zoë", "👩‍🔬", "نص", "北京"]);
        for (index, word) in sentence.words.iter().enumerate() {
            assert_eq!(sentence.surface(Span::new(index, index + 1)), word.text);
        }
        assert_eq!(sentence.surface(Span::new(1, 3)), "👩‍🔬 نص");
        let (start, end) = sentence.characters(Span::new(1, 3));
        assert_eq!(sentence.span_of(start, end), Some(Span::new(1, 3)));
        assert_eq!(sentence.span_of(start + 1, end), None);
    }

    #[test]
    fn slices_out_of_range_are_empty() {
        assert_eq!(slice("abc", 1, 3), "bc");
        assert_eq!(slice("abc", 2, 9), "");
        assert_eq!(slice("abc", 3, 3), "");
        assert_eq!(slice("abc", 2, 1), "");
    }

    #[test]
    fn an_index_slices_like_the_function() {
        let text = "aé北👩‍🔬 ".repeat(50);
        let index = CharacterIndex::new(&text);
        let count = text.chars().count();
        assert_eq!(index.characters(), count);
        for (start, end) in [
            (0, 1),
            (62, 66),
            (63, 64),
            (64, 128),
            (0, count),
            (5, 5),
            (9, 3),
            (2, count + 1),
        ] {
            assert_eq!(
                index.slice(start, end),
                slice(&text, start, end),
                "{start}..{end}"
            );
        }
        assert_eq!(CharacterIndex::new("").slice(0, 1), "");
    }

    #[test]
    fn offsets_in_bytes_and_utf16_code_units_are_converted() {
        for text in ["plain".repeat(40), "aé北👩‍🔬 ".repeat(50), String::new()] {
            let index = CharacterIndex::new(&text);
            let characters = |at: &dyn Fn(usize) -> Option<usize>| {
                (0..text.len() + 9).filter_map(at).collect::<Vec<_>>()
            };
            let all: Vec<usize> = (0..=text.chars().count()).collect();
            assert_eq!(characters(&|byte| index.character_at_byte(byte)), all);
            assert_eq!(characters(&|unit| index.character_at_utf16(unit)), all);
            for character in all {
                let byte = index.byte(character);
                let units = text[..byte].encode_utf16().count();
                assert_eq!(index.character_at_byte(byte), Some(character));
                assert_eq!(index.character_at_utf16(units), Some(character));
            }
        }
    }

    #[test]
    fn outermost_is_flat() {
        let entities = [
            Entity::new(1, 2, "LOC"),
            Entity::new(0, 3, "ORG"),
            Entity::new(2, 5, "ORG"),
            Entity::new(6, 7, "PER"),
        ];
        assert_eq!(
            outermost(&entities),
            [Entity::new(0, 3, "ORG"), Entity::new(6, 7, "PER")]
        );
        assert!(is_nested(&entities[0], &entities));
        assert!(!is_nested(&entities[3], &entities));
    }
}
