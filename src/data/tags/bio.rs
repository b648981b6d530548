//! Conversion between tags (`B-PER I-PER O`) and entities.

use super::scheme::TagScheme;
use crate::data::correction::{Correction, Message};
use crate::text::{Entity, Span};

/// How to handle tags that violate the scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TagMode {
    /// As common scorers do: an inside tag without a begin tag starts an entity.
    Lenient,
    /// As an error.
    Strict,
}

/// A tag that violates the scheme, or text that is not a tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagProblem {
    /// Index of the word.
    pub index: usize,
    /// Description of the problem, and a remedy.
    pub message: String,
    /// True when the text is not a tag, so that even lenient decoding fails.
    pub fatal: bool,
    /// The tag that lenient decoding reads instead, if it is another one.
    pub correction: Option<Correction>,
}

impl TagProblem {
    /// Text that is not a tag.
    pub(super) fn fatal(index: usize, message: String) -> Self {
        Self {
            index,
            message,
            fatal: true,
            correction: None,
        }
    }

    /// A tag that violates the scheme.
    pub(super) fn violation(index: usize, message: Message) -> Self {
        Self {
            index,
            message: message.text,
            fatal: false,
            correction: message.correction,
        }
    }
}

/// Text that is not a tag.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TagError {
    /// Empty text.
    #[error("the tag is empty; write `O` for a word outside every entity")]
    Empty,
    /// Text that does not start with a mark.
    #[error("`{0}` is not a tag; expected `O` or a mark and a type, such as `B-PER`")]
    NotATag(String),
    /// A mark without an entity type.
    #[error("tag `{tag}` has no type; write it as `{mark}-TYPE`")]
    NoType {
        /// The text.
        tag: String,
        /// Its mark.
        mark: char,
    },
}

/// A list of entities that one row of tags cannot represent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// An entity is empty, has no type, or ends after the last word.
    #[error("entity {}..{} `{}` does not fit a sentence of {length} words", .entity.span.start, .entity.span.end, .entity.label)]
    OutOfRange {
        /// The entity.
        entity: Entity,
        /// Number of words of the sentence.
        length: usize,
    },
    /// Two entities overlap.
    #[error("entities {}..{} and {}..{} overlap; one row of tags cannot hold both", .first.start, .first.end, .second.start, .second.end)]
    Overlap {
        /// The entity that starts first.
        first: Span,
        /// The other entity.
        second: Span,
    },
}

/// A tag other than `O`, with its mark normalised to one of `B I M E S`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag<'a> {
    /// One of `B I M E S`.
    pub mark: char,
    /// The entity type.
    pub label: &'a str,
}

impl<'a> Tag<'a> {
    /// Parses a tag; `None` for `O`.
    pub fn parse(tag: &'a str) -> Result<Option<Self>, TagError> {
        if tag == "O" {
            return Ok(None);
        }
        if tag.is_empty() {
            return Err(TagError::Empty);
        }
        let (mark, label) = match tag.split_once('-') {
            Some((mark, label)) => (mark, label),
            None => (tag, ""),
        };
        let mark = match mark {
            "B" => 'B',
            "I" => 'I',
            "M" => 'M',
            "E" | "L" => 'E',
            "S" | "U" => 'S',
            _ => return Err(TagError::NotATag(tag.to_string())),
        };
        if label.is_empty() {
            return Err(TagError::NoType {
                tag: tag.to_string(),
                mark,
            });
        }
        Ok(Some(Self { mark, label }))
    }
}

/// True for `O` and for a mark with an entity type.
pub(in crate::data) fn is_tag(tag: &str) -> bool {
    Tag::parse(tag).is_ok()
}

/// The entity type of a tag; `None` for `O` and for text that is not a tag.
pub(in crate::data) fn label_of(tag: &str) -> Option<&str> {
    Tag::parse(tag).ok().flatten().map(|tag| tag.label)
}

/// Decodes the tags of a sentence to entities, in order. In strict mode the first violation of the scheme is an error, in
/// lenient mode only text that is not a tag.
pub fn tags_to_entities(
    tags: &[&str],
    scheme: TagScheme,
    mode: TagMode,
) -> Result<Vec<Entity>, TagProblem> {
    let (entities, problems) = decode(tags, scheme);
    match problems
        .into_iter()
        .find(|problem| problem.fatal || mode == TagMode::Strict)
    {
        Some(problem) => Err(problem),
        None => Ok(entities),
    }
}

/// Decodes the tags of a sentence leniently and lists all violations of the scheme. Text that is not a tag counts as `O`.
pub fn decode(tags: &[&str], scheme: TagScheme) -> (Vec<Entity>, Vec<TagProblem>) {
    let mut decoder = TagDecoder {
        tags,
        scheme,
        open: None,
        entities: Vec::new(),
        problems: Vec::new(),
    };
    for (index, text) in tags.iter().enumerate() {
        match Tag::parse(text) {
            Ok(None) => decoder.close(index),
            Ok(Some(tag)) => decoder.step(index, text, tag),
            Err(error) => {
                decoder.close(index);
                let problem = TagProblem::fatal(index, error.to_string());
                decoder.problems.push(problem);
            }
        }
    }
    decoder.close(tags.len());
    (decoder.entities, decoder.problems)
}

struct TagDecoder<'a> {
    tags: &'a [&'a str],
    scheme: TagScheme,
    /// First word and type of the entity that has begun and not ended.
    open: Option<(usize, &'a str)>,
    entities: Vec<Entity>,
    problems: Vec<TagProblem>,
}

impl<'a> TagDecoder<'a> {
    /// Processes the tag of word `index`, written as `text`.
    fn step(&mut self, index: usize, text: &str, tag: Tag<'a>) {
        if !self.scheme.has_mark(tag.mark) {
            self.report(index, wrong_mark(text, self.scheme));
        }
        let continues = self.open.is_some_and(|(_, label)| label == tag.label);
        match tag.mark {
            'B' => {
                if self.scheme == TagScheme::Iob1 && !continues {
                    self.report(index, stray_begin(text, tag.label));
                }
                self.close(index);
                self.open = Some((index, tag.label));
            }
            'S' => {
                self.close(index);
                self.entities.push(Entity::new(index, index + 1, tag.label));
            }
            'E' => {
                if !continues {
                    self.report(index, stray_end(text, tag.label));
                    self.close(index);
                }
                let start = self.open.take().map_or(index, |(start, _)| start);
                self.entities.push(Entity::new(start, index + 1, tag.label));
            }
            _ if continues => {}
            _ => {
                if self.scheme != TagScheme::Iob1 {
                    self.report(index, stray_inside(text, tag.label));
                }
                self.close(index);
                self.open = Some((index, tag.label));
            }
        }
    }

    /// Ends the open entity before word `index`.
    fn close(&mut self, index: usize) {
        if let Some((start, label)) = self.open.take() {
            if self.scheme.marks_ends() {
                let last = index - 1;
                self.report(last, missing_end(self.tags[last], label, start == last));
            }
            self.entities.push(Entity::new(start, index, label));
        }
    }

    fn report(&mut self, index: usize, message: Message) {
        self.problems.push(TagProblem::violation(index, message));
    }
}

/// The message about a tag that was read as another one.
fn corrected(text: String, before: &str, after: Option<String>) -> Message {
    let before = before.to_string();
    Message::corrected(text, Correction::Tag { before, after })
}

/// The message about a tag whose mark the scheme does not have.
pub(super) fn wrong_mark(tag: &str, scheme: TagScheme) -> Message {
    let text = format!(
        "tag `{tag}` does not belong to the {scheme} scheme; set the scheme of the file with `scheme`"
    );
    corrected(text, tag, None)
}

/// The message about a begin tag after which iob1 does not need one.
fn stray_begin(tag: &str, label: &str) -> Message {
    let text = format!(
        "`{tag}` does not follow a {label} as iob1 requires; write `I-{label}`, or set `scheme = \"iob2\"`"
    );
    corrected(text, tag, Some(format!("I-{label}")))
}

/// The message about an end tag without a begin tag.
pub(super) fn stray_end(tag: &str, label: &str) -> Message {
    let after = format!("S-{label}");
    let text = format!(
        "`{tag}` ends an entity that has not begun; read as an entity of one word, write it as `{after}`"
    );
    corrected(text, tag, Some(after))
}

/// The message about an inside tag without a begin tag.
pub(super) fn stray_inside(tag: &str, label: &str) -> Message {
    let after = format!("B-{label}");
    let text = format!(
        "`{tag}` does not continue a {label}; read as the start of one, write it as `{after}`"
    );
    corrected(text, tag, Some(after))
}

/// The message about an entity whose last word, or only word, has this tag instead of an end tag.
pub(super) fn missing_end(tag: &str, label: &str, is_single: bool) -> Message {
    let text = format!(
        "this {label} has no `E-{label}` at its end (`S-{label}` for a single word); read as ending here"
    );
    let mark = if is_single { 'S' } else { 'E' };
    corrected(text, tag, Some(format!("{mark}-{label}")))
}

/// Encodes entities as the tags of a sentence of `length` words. Fails for entities that overlap, are empty or out of
/// range, because one row of tags cannot represent them.
pub fn entities_to_tags(
    entities: &[Entity],
    length: usize,
    scheme: TagScheme,
) -> Result<Vec<String>, EncodeError> {
    let mut sorted: Vec<&Entity> = entities.iter().collect();
    sorted.sort();
    let mut tags = vec![String::from("O"); length];
    let mut previous: Option<&Entity> = None;
    for entity in sorted {
        let (span, label) = (entity.span, &entity.label);
        if span.is_empty() || span.end > length || label.is_empty() {
            let entity = entity.clone();
            return Err(EncodeError::OutOfRange { entity, length });
        }
        if let Some(other) = previous.filter(|other| other.span.end > span.start) {
            return Err(EncodeError::Overlap {
                first: other.span,
                second: span,
            });
        }
        let touches =
            previous.is_some_and(|other| other.span.end == span.start && other.label == *label);
        for (offset, tag) in tags[span.start..span.end].iter_mut().enumerate() {
            let mark = mark(scheme, offset == 0, offset + 1 == span.len(), touches);
            *tag = format!("{mark}-{label}");
        }
        previous = Some(entity);
    }
    Ok(tags)
}

/// The mark of a word of an entity. `first` and `last` tell whether it is the entity's first or last word; `touches`,
/// whether an entity of the same type ends directly before this one.
fn mark(scheme: TagScheme, first: bool, last: bool, touches: bool) -> char {
    match (scheme, first, last) {
        (TagScheme::Iob1, true, _) if touches => 'B',
        (TagScheme::Iob1, ..) => 'I',
        (TagScheme::Iob2, true, _) => 'B',
        (TagScheme::Iob2, false, _) => 'I',
        (TagScheme::Bioes | TagScheme::Bmes, true, true) => 'S',
        (TagScheme::Bioes | TagScheme::Bmes, true, false) => 'B',
        (TagScheme::Bioes | TagScheme::Bmes, false, true) => 'E',
        (TagScheme::Bioes, false, false) => 'I',
        (TagScheme::Bmes, false, false) => 'M',
    }
}

/// Distributes entities over as few layers as possible so that no two entities of a layer overlap; outer entities come
/// first.
pub fn layers(entities: &[Entity]) -> Vec<Vec<Entity>> {
    let mut sorted: Vec<&Entity> = entities.iter().collect();
    sorted.sort_by_key(|entity| {
        (
            entity.span.start,
            std::cmp::Reverse(entity.span.end),
            &entity.label,
        )
    });
    let mut layers: Vec<Vec<Entity>> = Vec::new();
    for entity in sorted {
        let free = layers.iter_mut().find(|layer| {
            layer
                .last()
                .is_none_or(|last| last.span.end <= entity.span.start)
        });
        match free {
            Some(layer) => layer.push(entity.clone()),
            None => layers.push(vec![entity.clone()]),
        }
    }
    layers
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use strum::IntoEnumIterator;

    fn read(tags: &str, scheme: TagScheme, mode: TagMode) -> Result<Vec<Entity>, TagProblem> {
        let tags: Vec<&str> = tags.split(' ').collect();
        tags_to_entities(&tags, scheme, mode)
    }

    #[test]
    fn every_violation_names_the_tag_that_is_read_instead() {
        for (tags, scheme, expected) in [
            ("O I-A I-A", TagScheme::Iob2, [("I-A", "B-A")].as_slice()),
            (
                "B-A I-A O B-B",
                TagScheme::Iob1,
                &[("B-A", "I-A"), ("B-B", "I-B")],
            ),
            ("E-A O", TagScheme::Bioes, &[("E-A", "S-A")]),
            (
                "B-A O B-B I-B O",
                TagScheme::Bioes,
                &[("B-A", "S-A"), ("I-B", "E-B")],
            ),
            ("B-A E-A S-B O", TagScheme::Bioes, &[]),
        ] {
            let (_, problems) = decode(&tags.split(' ').collect::<Vec<_>>(), scheme);
            let found: Vec<_> = problems
                .into_iter()
                .map(|problem| problem.correction)
                .collect();
            let expected: Vec<_> = (expected.iter())
                .map(|(before, after)| {
                    let (before, after) = (before.to_string(), Some(after.to_string()));
                    Some(Correction::Tag { before, after })
                })
                .collect();
            assert_eq!(found, expected, "{tags}");
        }
    }

    #[test]
    fn every_scheme_is_decoded_and_detected() {
        let expected = [
            Entity::new(0, 3, "PER"),
            Entity::new(3, 4, "PER"),
            Entity::new(5, 6, "ORG-x"),
        ];
        for (tags, scheme) in [
            ("I-PER I-PER I-PER B-PER O I-ORG-x", TagScheme::Iob1),
            ("B-PER I-PER I-PER B-PER O B-ORG-x", TagScheme::Iob2),
            ("B-PER I-PER E-PER S-PER O S-ORG-x", TagScheme::Bioes),
            ("B-PER I-PER L-PER U-PER O U-ORG-x", TagScheme::Bioes),
            ("B-PER M-PER E-PER S-PER O S-ORG-x", TagScheme::Bmes),
        ] {
            assert_eq!(
                read(tags, scheme, TagMode::Strict).unwrap(),
                expected,
                "{tags}"
            );
            assert_eq!(TagScheme::detect([tags.split(' ')]), scheme, "{tags}");
        }
    }

    #[test]
    fn lenient_mode_starts_entities_at_stray_tags() {
        for (tags, scheme, index) in [
            ("O I-PER I-PER O", TagScheme::Iob2, 1),
            ("B-LOC I-PER I-PER O", TagScheme::Iob2, 1),
            ("O E-PER O O", TagScheme::Bioes, 1),
            ("O B-PER I-PER O", TagScheme::Bioes, 2),
        ] {
            let problem = read(tags, scheme, TagMode::Strict).unwrap_err();
            assert_eq!((problem.index, problem.fatal), (index, false), "{tags}");
            let entities = read(tags, scheme, TagMode::Lenient).unwrap();
            assert_eq!(entities.last().unwrap().span.start, 1, "{tags}");
        }
    }

    #[test]
    fn text_that_is_not_a_tag_is_an_error() {
        for tag in ["PER", "B", "B-", "X-PER", "o", ""] {
            let problem = read(tag, TagScheme::Iob2, TagMode::Lenient).unwrap_err();
            assert!(problem.fatal, "{tag}");
        }
    }

    #[test]
    fn overlapping_entities_need_layers() {
        let nested = [Entity::new(0, 3, "A"), Entity::new(1, 2, "B")];
        assert!(entities_to_tags(&nested, 3, TagScheme::Iob2).is_err());
        assert!(entities_to_tags(&[Entity::new(2, 4, "A")], 3, TagScheme::Iob2).is_err());
        assert_eq!(layers(&nested).len(), 2);
        assert!(layers(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn tags_round_trip(
            parts in prop::collection::vec((1..4usize, 0..3usize, prop::sample::select(vec!["A", "B-c", "人"])), 0..8),
            which in 0..4usize,
        ) {
            let scheme = TagScheme::iter().nth(which).unwrap();
            let (mut entities, mut at) = (Vec::new(), 0);
            for (length, gap, label) in parts {
                entities.push(Entity::new(at + gap, at + gap + length, label));
                at += gap + length;
            }
            let tags = entities_to_tags(&entities, at + 1, scheme).unwrap();
            let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
            prop_assert_eq!(&tags_to_entities(&tags, scheme, TagMode::Strict).unwrap(), &entities);
            let detected = TagScheme::detect([tags.iter().copied()]);
            prop_assert_eq!(&tags_to_entities(&tags, detected, TagMode::Strict).unwrap(), &entities);
        }

        #[test]
        fn lenient_decoding_never_panics(tags in prop::collection::vec("[BIMESLUO]-?[AB]?", 0..12), which in 0..4usize) {
            let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
            let (entities, _) = decode(&tags, TagScheme::iter().nth(which).unwrap());
            prop_assert!(entities.iter().all(|entity| !entity.span.is_empty() && entity.span.end <= tags.len()));
        }

        #[test]
        fn layers_are_flat_and_complete(spans in prop::collection::vec((0..8usize, 1..5usize), 0..10)) {
            let mut entities: Vec<Entity> = spans.into_iter().map(|(start, length)| Entity::new(start, start + length, "A")).collect();
            entities.sort();
            entities.dedup();
            let layers = layers(&entities);
            let mut all: Vec<Entity> = layers.iter().flatten().cloned().collect();
            all.sort();
            prop_assert_eq!(all, entities);
            for layer in &layers {
                prop_assert!(entities_to_tags(layer, 12, TagScheme::Iob2).is_ok());
            }
        }
    }
}
