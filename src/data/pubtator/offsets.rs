//! The offsets of PubTator annotations: where they are in the text, also if a file does not count as PubTator does.

use std::fmt;

use crate::data::sentences::offset_unit::OffsetUnit;
use crate::text::{CharacterIndex, slice};

/// Largest number of mentions of a document from which its way of counting is detected.
const MOST_TRIED: usize = 500;
/// Number of characters on each side in which a mention with wrong offsets is searched.
const NEAR: usize = 2000;

/// How a document counts. The default is PubTator's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counting {
    unit: OffsetUnit,
    /// Number of units between title and abstract.
    gap: usize,
    /// True when the end is the last character, not one past it.
    inclusive: bool,
}

impl Default for Counting {
    fn default() -> Self {
        Self {
            unit: OffsetUnit::Characters,
            gap: 1,
            inclusive: false,
        }
    }
}

impl fmt::Display for Counting {
    /// Completes "only if ...".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut reasons = Vec::new();
        match self.unit {
            OffsetUnit::Characters => {}
            OffsetUnit::Utf16 => reasons.push("they count UTF-16 code units".to_string()),
            OffsetUnit::Bytes => reasons.push("they count bytes".to_string()),
        }
        match self.gap {
            0 => reasons.push("the abstract begins directly after the title".to_string()),
            1 => {}
            gap => reasons.push(format!(
                "there are {gap} characters between title and abstract"
            )),
        }
        if self.inclusive {
            reasons.push("the end is the last character".to_string());
        }
        f.write_str(&reasons.join(" and "))
    }
}

/// Why an annotation does not fit the text. Completes "Disease 3..9 ...".
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum OffsetError {
    #[error(
        "is not within the {length} characters of the text; offsets count the characters of the title, one more, and those of \
         the abstract"
    )]
    OutOfRange { length: usize },
    #[error(
        "is `{actual}` in the text but `{mention}` here; correct the offsets or the mention{hint}"
    )]
    Mismatch {
        actual: String,
        mention: String,
        hint: String,
    },
}

/// The passages of a document.
pub(super) struct Passages<'a> {
    texts: Vec<&'a str>,
    /// The passages with a line break between them.
    joined: CharacterIndex<'a>,
}

impl<'a> Passages<'a> {
    /// Passages, and the same with a line break between them.
    pub fn new(texts: Vec<&'a str>, joined: &'a str) -> Self {
        Self {
            texts,
            joined: CharacterIndex::new(joined),
        }
    }

    /// The way of counting that fits most mentions `(start, end, mention)`; PubTator's own if it fits as many as another.
    pub fn detect_counting(&self, mentions: &[(usize, usize, &str)]) -> Counting {
        // Some of the mentions of a very long list show the way as well as all of them.
        let step = mentions.len().div_ceil(MOST_TRIED).max(1);
        let tried: Vec<_> = mentions.iter().step_by(step).collect();
        let fitting = |locator: &Locator| {
            let fits = |(start, end, mention): &&&(usize, usize, &str)| {
                let part = locator.characters(*start, *end);
                let actual = part.and_then(|(start, end)| self.joined.get(start, end));
                actual.is_some_and(|actual| is_mention(actual, mention))
            };
            tried.iter().filter(fits).count()
        };
        let mut best = Counting::default();
        let mut most = fitting(&self.locator(best));
        let mut countings: Vec<Counting> = Vec::new();
        for unit in [OffsetUnit::Characters, OffsetUnit::Utf16, OffsetUnit::Bytes] {
            for gap in [1, 0, 2, 3] {
                countings.extend([false, true].map(|inclusive| Counting {
                    unit,
                    gap,
                    inclusive,
                }));
            }
        }
        // The simplest explanation first: in as few respects unlike PubTator as possible, the unit before the others.
        let is_ascii = self.texts.iter().all(|text| text.is_ascii());
        countings.retain(|counting| counting.unit == OffsetUnit::Characters || !is_ascii);
        countings.sort_by_key(|counting| {
            let is_other_unit = counting.unit != OffsetUnit::Characters;
            let differences = [is_other_unit, counting.gap != 1, counting.inclusive];
            (
                differences.iter().filter(|differs| **differs).count(),
                !is_other_unit,
            )
        });
        for counting in countings {
            if most == tried.len() {
                break;
            }
            let count = fitting(&self.locator(counting));
            if count > most {
                (best, most) = (counting, count);
            }
        }
        best
    }

    /// The translation of offsets of the file to characters of the joined passages.
    pub fn locator(&self, counting: Counting) -> Locator {
        let mut locator = Locator {
            counting,
            length: self.joined.characters(),
            starts: Vec::new(),
            ends: Vec::new(),
        };
        if counting.unit == OffsetUnit::Characters && counting.gap == 1 {
            return locator;
        }
        let mut characters = 0;
        for text in &self.texts {
            for character in text.chars() {
                let units = match counting.unit {
                    OffsetUnit::Characters => 1,
                    OffsetUnit::Utf16 => character.len_utf16(),
                    OffsetUnit::Bytes => character.len_utf8(),
                };
                locator.starts.push(Some(characters));
                locator
                    .starts
                    .resize(locator.starts.len() + units - 1, None);
                characters += 1;
                locator.ends.resize(locator.starts.len(), None);
                locator.ends.push(Some(characters));
            }
            characters += 1;
            let next = locator.starts.len() + counting.gap;
            locator.starts.resize(next, None);
        }
        locator
    }

    /// The characters of an annotation in the joined passages.
    pub fn locate(
        &self,
        start: usize,
        end: usize,
        mention: &str,
        locator: &Locator,
    ) -> Result<(usize, usize), OffsetError> {
        let part = locator.characters(start, end);
        let found = part.and_then(|part| Some((part, self.joined.get(part.0, part.1)?)));
        match found {
            None | Some((_, "")) => Err(OffsetError::OutOfRange {
                length: self.joined.characters(),
            }),
            Some((part, actual)) if is_mention(actual, mention) => Ok(part),
            Some((part, actual)) => Err(OffsetError::Mismatch {
                actual: shorten(actual),
                mention: shorten(mention),
                hint: self.hint(part.0, mention),
            }),
        }
    }

    /// A hint where the mention is near a character; empty if it is not.
    fn hint(&self, near: usize, mention: &str) -> String {
        let first = near.saturating_sub(NEAR);
        let last = (near + NEAR + mention.len()).min(self.joined.characters());
        let window = self.joined.slice(first, last);
        if mention.is_empty() {
            return String::new();
        }
        let places = window
            .match_indices(mention)
            .map(|(byte, _)| first + window[..byte].chars().count());
        match places.take(100).min_by_key(|place| place.abs_diff(near)) {
            Some(start) => {
                let end = start + mention.chars().count();
                format!("; the nearest `{}` is {start}..{end}", shorten(mention))
            }
            None => String::new(),
        }
    }
}

/// Translates offsets of a file to characters of the text.
pub(super) struct Locator {
    counting: Counting,
    /// Number of characters of the text.
    length: usize,
    /// For each offset the character that begins there; empty if offsets are characters of the text.
    starts: Vec<Option<usize>>,
    /// For each offset the number of characters before it, if a character ends there.
    ends: Vec<Option<usize>>,
}

impl Locator {
    /// The characters between two offsets; `None` when there are none.
    fn characters(&self, start: usize, end: usize) -> Option<(usize, usize)> {
        let end = end.checked_add(usize::from(self.counting.inclusive))?;
        let (start, end) = if self.starts.is_empty() {
            (start, end)
        } else {
            let start = self.starts.get(start).copied().flatten()?;
            (start, self.ends.get(end).copied().flatten()?)
        };
        (start < end && end <= self.length).then_some((start, end))
    }
}

/// True when the mention is the text, apart from upper and lower case and the length of white space.
fn is_mention(actual: &str, mention: &str) -> bool {
    actual == mention || {
        let words = |text: &str| {
            text.to_lowercase()
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
        };
        let is_trimmed = actual.trim() == actual;
        is_trimmed
            && actual.chars().count() == mention.chars().count()
            && words(actual) == words(mention)
    }
}

/// A text for a message, not too long.
fn shorten(text: &str) -> String {
    match slice(text, 0, 60) {
        "" => text.to_string(),
        start => format!("{start}…"),
    }
}
