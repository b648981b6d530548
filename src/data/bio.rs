//! Tags and entities: `B-PER I-PER O` and the spans they mean.

pub use super::scheme::Scheme;
use crate::text::Entity;

/// What to do about tags that break their scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Read them the way the usual scorers do: a stray inside tag opens an entity.
    Lenient,
    /// Refuse them.
    Strict,
}

/// A tag that breaks its scheme, or is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagProblem {
    /// Which word.
    pub index: usize,
    /// What is wrong, and what to do about it.
    pub message: String,
    /// True when there is no reading at all, not even a lenient one.
    pub fatal: bool,
}

/// A tag other than `O`, its mark normalised to one of `B I M E S`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag<'a> {
    /// One of `B I M E S`.
    pub mark: char,
    /// The type.
    pub label: &'a str,
}

impl<'a> Tag<'a> {
    /// `None` for `O`; an error message for what is no tag.
    pub fn parse(tag: &'a str) -> Result<Option<Self>, String> {
        if tag == "O" {
            return Ok(None);
        }
        if tag.is_empty() {
            return Err("the tag is empty; write `O` for a word outside every entity".to_string());
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
            _ => {
                return Err(format!(
                    "`{tag}` is not a tag; expected `O` or a mark and a type, such as `B-PER`"
                ));
            }
        };
        if label.is_empty() {
            return Err(format!(
                "tag `{tag}` has no type; write it as `{mark}-TYPE`"
            ));
        }
        Ok(Some(Self { mark, label }))
    }
}

/// True for `O` and for a mark with a type.
pub(super) fn is_tag(tag: &str) -> bool {
    Tag::parse(tag).is_ok()
}

/// The type a tag names, if it names one.
pub(super) fn label_of(tag: &str) -> Option<&str> {
    Tag::parse(tag).ok().flatten().map(|tag| tag.label)
}

/// The entities that a sentence's tags mean, in order. The first problem is the error: in strict mode any, in
/// lenient mode only what has no reading at all.
pub fn tags_to_entities(
    tags: &[&str],
    scheme: Scheme,
    mode: Mode,
) -> Result<Vec<Entity>, TagProblem> {
    let (entities, problems) = decode(tags, scheme);
    match problems
        .into_iter()
        .find(|problem| problem.fatal || mode == Mode::Strict)
    {
        Some(problem) => Err(problem),
        None => Ok(entities),
    }
}

/// The lenient reading of a sentence's tags, and everything that breaks the scheme. A word whose tag cannot be
/// read counts as outside.
pub fn decode(tags: &[&str], scheme: Scheme) -> (Vec<Entity>, Vec<TagProblem>) {
    let mut decoder = Decoder {
        scheme,
        open: None,
        entities: Vec::new(),
        problems: Vec::new(),
    };
    for (index, text) in tags.iter().enumerate() {
        match Tag::parse(text) {
            Ok(None) => decoder.close(index),
            Ok(Some(tag)) => decoder.step(index, text, tag),
            Err(message) => {
                decoder.close(index);
                decoder.problems.push(TagProblem {
                    index,
                    message,
                    fatal: true,
                });
            }
        }
    }
    decoder.close(tags.len());
    (decoder.entities, decoder.problems)
}

struct Decoder<'a> {
    scheme: Scheme,
    open: Option<(usize, &'a str)>,
    entities: Vec<Entity>,
    problems: Vec<TagProblem>,
}

impl<'a> Decoder<'a> {
    fn step(&mut self, index: usize, text: &str, tag: Tag<'a>) {
        if !self.scheme.knows(tag.mark) {
            let message = format!(
                "tag `{text}` is not one of the {} scheme; name the scheme of the file with `scheme`",
                self.scheme
            );
            self.complain(index, message);
        }
        let goes_on = self.open.is_some_and(|(_, label)| label == tag.label);
        match tag.mark {
            'B' => {
                if self.scheme == Scheme::Iob1 && !goes_on {
                    self.complain(index, format!("`{text}` follows no {} in iob1; write `I-{0}`, or set `scheme = \"iob2\"`", tag.label));
                }
                self.close(index);
                self.open = Some((index, tag.label));
            }
            'S' => {
                self.close(index);
                self.entities.push(Entity::new(index, index + 1, tag.label));
            }
            'E' => {
                if !goes_on {
                    self.complain(index, format!("`{text}` ends an entity that did not begin; read as one word, mark it `S-{}`", tag.label));
                    self.close(index);
                }
                let start = self.open.take().map_or(index, |(start, _)| start);
                self.entities.push(Entity::new(start, index + 1, tag.label));
            }
            _ if goes_on => {}
            _ => {
                if self.scheme != Scheme::Iob1 {
                    self.complain(
                        index,
                        format!(
                            "`{text}` continues no {0}; read as the start of one, mark it `B-{0}`",
                            tag.label
                        ),
                    );
                }
                self.close(index);
                self.open = Some((index, tag.label));
            }
        }
    }

    /// End the open entity before word `index`.
    fn close(&mut self, index: usize) {
        if let Some((start, label)) = self.open.take() {
            if self.scheme.marks_ends() {
                let message = format!(
                    "this {label} is not ended by `E-{label}` (or written `S-{label}`); read as ending here"
                );
                self.complain(index - 1, message);
            }
            self.entities.push(Entity::new(start, index, label));
        }
    }

    fn complain(&mut self, index: usize, message: String) {
        self.problems.push(TagProblem {
            index,
            message,
            fatal: false,
        });
    }
}

/// The tags of a sentence of `length` words. Entities that overlap, are empty or out of range are refused: one
/// row of tags cannot say them.
pub fn entities_to_tags(
    entities: &[Entity],
    length: usize,
    scheme: Scheme,
) -> Result<Vec<String>, String> {
    let mut sorted: Vec<&Entity> = entities.iter().collect();
    sorted.sort();
    let mut tags = vec![String::from("O"); length];
    let mut previous: Option<&Entity> = None;
    for entity in sorted {
        let (span, label) = (entity.span, &entity.label);
        if span.is_empty() || span.end > length || label.is_empty() {
            return Err(format!(
                "entity {}..{} `{label}` does not fit a sentence of {length} words",
                span.start, span.end
            ));
        }
        if let Some(other) = previous.filter(|other| other.span.end > span.start) {
            return Err(format!(
                "entities {}..{} and {}..{} overlap; one row of tags cannot hold both",
                other.span.start, other.span.end, span.start, span.end
            ));
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

/// The mark of a word in its entity; `touches` says that an entity of the same type ends just before it.
fn mark(scheme: Scheme, first: bool, last: bool, touches: bool) -> char {
    match (scheme, first, last) {
        (Scheme::Iob1, true, _) if touches => 'B',
        (Scheme::Iob1, ..) => 'I',
        (Scheme::Iob2, true, _) => 'B',
        (Scheme::Iob2, false, _) => 'I',
        (Scheme::Bioes | Scheme::Bmes, true, true) => 'S',
        (Scheme::Bioes | Scheme::Bmes, true, false) => 'B',
        (Scheme::Bioes | Scheme::Bmes, false, true) => 'E',
        (Scheme::Bioes, false, false) => 'I',
        (Scheme::Bmes, false, false) => 'M',
    }
}

/// Deal entities onto as few rows as they need so that each row is flat, outer entities first.
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

    fn read(tags: &str, scheme: Scheme, mode: Mode) -> Result<Vec<Entity>, TagProblem> {
        let tags: Vec<&str> = tags.split(' ').collect();
        tags_to_entities(&tags, scheme, mode)
    }

    #[test]
    fn every_scheme_reads_its_own() {
        let expected = [
            Entity::new(0, 3, "PER"),
            Entity::new(3, 4, "PER"),
            Entity::new(5, 6, "ORG-x"),
        ];
        for (tags, scheme) in [
            ("I-PER I-PER I-PER B-PER O I-ORG-x", Scheme::Iob1),
            ("B-PER I-PER I-PER B-PER O B-ORG-x", Scheme::Iob2),
            ("B-PER I-PER E-PER S-PER O S-ORG-x", Scheme::Bioes),
            ("B-PER I-PER L-PER U-PER O U-ORG-x", Scheme::Bioes),
            ("B-PER M-PER E-PER S-PER O S-ORG-x", Scheme::Bmes),
        ] {
            assert_eq!(
                read(tags, scheme, Mode::Strict).unwrap(),
                expected,
                "{tags}"
            );
            assert_eq!(Scheme::detect([tags.split(' ')]), scheme, "{tags}");
        }
    }

    #[test]
    fn stray_tags_open_entities_when_lenient() {
        for (tags, scheme, index) in [
            ("O I-PER I-PER O", Scheme::Iob2, 1),
            ("B-LOC I-PER I-PER O", Scheme::Iob2, 1),
            ("O E-PER O O", Scheme::Bioes, 1),
            ("O B-PER I-PER O", Scheme::Bioes, 2),
        ] {
            let problem = read(tags, scheme, Mode::Strict).unwrap_err();
            assert_eq!((problem.index, problem.fatal), (index, false), "{tags}");
            let entities = read(tags, scheme, Mode::Lenient).unwrap();
            assert_eq!(entities.last().unwrap().span.start, 1, "{tags}");
        }
    }

    #[test]
    fn what_is_no_tag_is_refused() {
        for tag in ["PER", "B", "B-", "X-PER", "o", ""] {
            let problem = read(tag, Scheme::Iob2, Mode::Lenient).unwrap_err();
            assert!(problem.fatal, "{tag}");
        }
    }

    #[test]
    fn a_row_cannot_hold_what_overlaps() {
        let nested = [Entity::new(0, 3, "A"), Entity::new(1, 2, "B")];
        assert!(entities_to_tags(&nested, 3, Scheme::Iob2).is_err());
        assert!(entities_to_tags(&[Entity::new(2, 4, "A")], 3, Scheme::Iob2).is_err());
        assert_eq!(layers(&nested).len(), 2);
        assert!(layers(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn tags_round_trip(
            parts in prop::collection::vec((1..4usize, 0..3usize, prop::sample::select(vec!["A", "B-c", "人"])), 0..8),
            which in 0..4usize,
        ) {
            let scheme = Scheme::ALL[which];
            let (mut entities, mut at) = (Vec::new(), 0);
            for (length, gap, label) in parts {
                entities.push(Entity::new(at + gap, at + gap + length, label));
                at += gap + length;
            }
            let tags = entities_to_tags(&entities, at + 1, scheme).unwrap();
            let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
            prop_assert_eq!(&tags_to_entities(&tags, scheme, Mode::Strict).unwrap(), &entities);
            let detected = Scheme::detect([tags.iter().copied()]);
            prop_assert_eq!(&tags_to_entities(&tags, detected, Mode::Strict).unwrap(), &entities);
        }

        #[test]
        fn lenient_reading_never_panics(tags in prop::collection::vec("[BIMESLUO]-?[AB]?", 0..12), which in 0..4usize) {
            let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
            let (entities, _) = decode(&tags, Scheme::ALL[which]);
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
                prop_assert!(entities_to_tags(layer, 12, Scheme::Iob2).is_ok());
            }
        }
    }
}
