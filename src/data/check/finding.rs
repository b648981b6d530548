//! What a check finds beyond invalid records: likely mistakes, each with examples and a remedy.

use std::collections::BTreeMap;
use std::fmt;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::SHOWN;
use crate::error::Location;
use crate::text::visible;

/// Examples kept of each kind of finding; the count goes on.
const MOST_EXAMPLES: usize = 1000;
/// Longest text of an example, in characters.
const LONGEST_EXAMPLE: usize = 80;

/// The kind of a finding. Its name in JSON is the variant's name in snake case.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, strum::Display, strum::EnumIter,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum FindingKind {
    /// A file without any entity.
    NoEntities,
    /// Types that differ only in case, separators or one letter.
    SimilarLabels,
    /// A type that looks like a tag, such as `B-PER`.
    TagAsLabel,
    /// More types than a corpus usually has.
    ManyTypes,
    /// Types with very few entities.
    RareType,
    /// Types that the first file does not have.
    MissingType,
    /// Most sentences have no entities.
    FewAnnotations,
    /// Entities with punctuation at their edges.
    EdgePunctuation,
    /// Entities with white space at their edges.
    EdgeSpace,
    /// The same words with different annotations.
    Inconsistent,
    /// Sentences of two files that differ in a few words, in case or in numbers only.
    NearDuplicate,
    /// Very long sentences.
    LongSentence,
    /// Very long words.
    LongWord,
    /// Words with white space inside.
    SpaceInWord,
    /// Control characters.
    ControlCharacter,
    /// Characters that are not visible, such as zero-width spaces.
    InvisibleCharacter,
    /// U+FFFD, which stands for bytes that could not be decoded.
    ReplacementCharacter,
    /// Text that was decoded with the wrong encoding, such as `Ã©` for `é`.
    Mojibake,
    /// Characters without a meaning of their own (private use, unassigned).
    PrivateUse,
}

impl FindingKind {
    /// What was found, as a plural that a count follows.
    fn description(self) -> &'static str {
        match self {
            Self::NoEntities => "files without entities",
            Self::SimilarLabels => {
                "groups of types that differ only in case, separators or one letter"
            }
            Self::TagAsLabel => "types that look like tags",
            Self::ManyTypes => "unusually many types",
            Self::RareType => "types with very few entities",
            Self::MissingType => "types that do not occur in the first file",
            Self::FewAnnotations => "many sentences without entities",
            Self::EdgePunctuation => "entities that start or end with punctuation",
            Self::EdgeSpace => "entities that start or end with white space",
            Self::Inconsistent => "word sequences that are annotated in different ways",
            Self::NearDuplicate => "sentences that are nearly the same in two files",
            Self::LongSentence => "sentences of more than 200 words",
            Self::LongWord => "words of more than 80 characters",
            Self::SpaceInWord => "words that contain white space",
            Self::ControlCharacter => "texts with control characters",
            Self::InvisibleCharacter => "texts with invisible characters",
            Self::ReplacementCharacter => {
                "texts with U+FFFD, which stands for bytes that could not be decoded"
            }
            Self::Mojibake => "texts that look as if they were decoded with the wrong encoding",
            Self::PrivateUse => "texts with characters of the private-use area",
        }
    }

    /// What to do about it.
    fn remedy(self) -> &'static str {
        match self {
            Self::NoEntities => "if the file is annotated, choose --format or --tag-column",
            Self::SimilarLabels => {
                "if they mean the same, give them one name; --fix unifies case and separators"
            }
            Self::TagAsLabel => {
                "the tags were not understood as such; set --scheme or --tag-column, or rename the types"
            }
            Self::ManyTypes => {
                "if this is not meant, the wrong column or key was read; set --tag-column or --format"
            }
            Self::RareType => {
                "annotate more of them, or merge or leave out the types; few examples are hardly learned"
            }
            Self::MissingType => {
                "if the first file is for training, these types cannot be found; split the corpus again with `data split`"
            }
            Self::FewAnnotations => {
                "if they were not annotated, remove them: a model learns from them that there is nothing to find"
            }
            Self::EdgePunctuation => "move the boundaries to the words; --fix does",
            Self::EdgeSpace => "move the boundaries to the words; --fix does",
            Self::Inconsistent => {
                "look at the rarer reading of each; the most one-sided are likely mistakes"
            }
            Self::NearDuplicate => {
                "keep such sentences in one split, or scores on the other will be too good"
            }
            Self::LongSentence => {
                "check that sentences are separated; set data.longest to leave them out of training"
            }
            Self::LongWord => "check that words are separated by spaces",
            Self::SpaceInWord => "split them into words, or check the separator of columns",
            Self::ControlCharacter => "remove them from the text",
            Self::InvisibleCharacter => {
                "remove them; words with and without them look the same but are not"
            }
            Self::ReplacementCharacter => "convert the file again from its original encoding",
            Self::Mojibake => {
                "decode the original file as UTF-8 instead of Latin-1 or Windows-1252"
            }
            Self::PrivateUse => "replace them; they come from fonts of the original document",
        }
    }

    /// True when `--fix` mends it, at least in part.
    pub fn is_fixable(self) -> bool {
        matches!(
            self,
            Self::SimilarLabels | Self::EdgePunctuation | Self::EdgeSpace
        )
    }
}

/// A place where something was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// File and line; the file is empty where none applies.
    pub location: Location,
    /// What is there.
    pub text: String,
}

impl Example {
    /// An example without a place of its own.
    pub(super) fn general(text: String) -> Self {
        Self {
            location: Location::file(""),
            text,
        }
    }
}

impl fmt::Display for Example {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.location.file.as_os_str().is_empty() {
            f.write_str(&visible(&self.text))
        } else {
            write!(f, "{}: {}", self.location, visible(&self.text))
        }
    }
}

impl Serialize for Example {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Example", 3)?;
        let file = Some(&self.location.file).filter(|file| !file.as_os_str().is_empty());
        fields.serialize_field("file", &file)?;
        fields.serialize_field("line", &self.location.line)?;
        fields.serialize_field("text", &self.text)?;
        fields.end()
    }
}

/// Something that is likely a mistake, with its examples.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// What kind of mistake.
    pub kind: FindingKind,
    /// How often it occurs.
    pub count: usize,
    /// What was found.
    pub message: String,
    /// What to do about it.
    pub remedy: &'static str,
    /// True when `--fix` mends it, at least in part.
    pub fixable: bool,
    /// Where it occurs: the first 1000.
    pub examples: Vec<Example>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (message, remedy) = (visible(&self.message), visible(self.remedy));
        write!(f, "{}: {message}; {remedy}", self.kind)?;
        for example in self.examples.iter().take(SHOWN) {
            write!(f, "\n    {example}")?;
        }
        match self.count.saturating_sub(SHOWN) {
            0 => Ok(()),
            more if !self.examples.is_empty() => write!(f, "\n    and {more} more"),
            _ => Ok(()),
        }
    }
}

/// The findings so far, by kind.
#[derive(Debug, Default)]
pub(super) struct Findings {
    kinds: BTreeMap<FindingKind, (usize, Vec<Example>)>,
}

impl Findings {
    /// Adds an occurrence at a place.
    pub fn add(&mut self, kind: FindingKind, location: impl FnOnce() -> Location, text: &str) {
        let (count, examples) = self.kinds.entry(kind).or_default();
        *count += 1;
        if examples.len() < MOST_EXAMPLES {
            examples.push(Example {
                location: location(),
                text: excerpt(text, LONGEST_EXAMPLE),
            });
        }
    }

    /// Adds an occurrence without a place.
    pub fn add_general(&mut self, kind: FindingKind, text: String) {
        let (count, examples) = self.kinds.entry(kind).or_default();
        *count += 1;
        examples.push(Example::general(text));
    }

    /// Adds a number of occurrences with some examples.
    pub fn add_many(&mut self, kind: FindingKind, count: usize, examples: Vec<Example>) {
        if count > 0 {
            self.kinds.insert(kind, (count, examples));
        }
    }

    /// All findings, by kind.
    pub fn into_list(self) -> Vec<Finding> {
        let finding = |(kind, (count, examples)): (FindingKind, (usize, Vec<Example>))| Finding {
            kind,
            count,
            message: format!("{}: {count}", kind.description()),
            remedy: kind.remedy(),
            fixable: kind.is_fixable(),
            examples,
        };
        self.kinds.into_iter().map(finding).collect()
    }
}

/// The text up to a number of characters, on one line, with control characters made visible.
pub(super) fn excerpt(text: &str, limit: usize) -> String {
    let mut excerpt = String::new();
    for (index, character) in text.chars().enumerate() {
        if index == limit {
            excerpt.push('…');
            break;
        }
        if character.is_control() {
            excerpt.extend(character.escape_default());
        } else {
            excerpt.push(character);
        }
    }
    excerpt
}

#[cfg(test)]
mod tests {
    use super::*;
    use strum::IntoEnumIterator;

    #[test]
    fn every_kind_has_a_description_and_a_remedy() {
        for kind in FindingKind::iter() {
            let mut findings = Findings::default();
            for line in 1..=5 {
                findings.add(kind, || Location::line("a.txt", line), "x\u{1}y");
            }
            let list = findings.into_list();
            let text = list[0].to_string();
            assert!(
                text.starts_with(&format!("{kind}: ")) && text.contains(": 5; "),
                "{text}"
            );
            assert!(
                text.contains("; ") && text.ends_with("and 2 more"),
                "{text}"
            );
            assert!(
                text.contains("a.txt:3: x\\u{1}y") && !text.contains("a.txt:4"),
                "{text}"
            );
            let json = serde_json::to_value(&list).unwrap();
            assert_eq!(json[0]["examples"][4]["line"], 5);
            assert_eq!(json[0]["kind"], kind.to_string());
        }
    }

    #[test]
    fn long_examples_are_cut_and_their_number_is_limited() {
        assert_eq!(excerpt("äöü👩‍🔬", 2), "äö…");
        let mut findings = Findings::default();
        for line in 0..1500 {
            findings.add(FindingKind::LongWord, || Location::line("a", line), "w");
        }
        let list = findings.into_list();
        assert_eq!(
            (list[0].count, list[0].examples.len()),
            (1500, MOST_EXAMPLES)
        );
    }
}
