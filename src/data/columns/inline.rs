//! Sentences with the tag after each word on one line: `Maria|B-PER sings|O` (spaCy's `.iob`, WikiNER), `Maria/PERSON`
//! (Stanford NER) or `Maria###B-PER` (AllenNLP).

use super::layout::Sample;
use crate::data::source::Source;
use crate::data::tags::style::TagStyle;

/// The separators of words and tags, the least likely in a text first.
const SEPARATORS: [&str; 4] = ["###", "|", "/", "\\"];
/// The most fields of a word: the word, its part of speech and chunk, and its tag.
const MOST_FIELDS: usize = 4;

/// How the words of a line are separated from their tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::data) struct Inline {
    separator: &'static str,
    /// Number of fields of each word.
    width: usize,
}

impl Inline {
    /// The fields of each word of a line. The word itself may contain the separator.
    pub fn rows<'a>(&self, line: &'a str) -> impl Iterator<Item = Vec<&'a str>> + use<'a> {
        let Self { separator, width } = *self;
        line.split_whitespace().map(move |item| {
            let mut fields: Vec<&str> = item.rsplitn(width, separator).collect();
            fields.reverse();
            fields
        })
    }
}

/// Detects the separator of a file and returns the fields of all words. Every word must have a tag, some of them `O`.
pub(super) fn detect(source: &Source) -> Option<(Inline, Sample<'_>)> {
    let lines = || {
        source
            .lines()
            .filter_map(|line| line.text.ok())
            .filter(|line| !line.trim().is_empty() && !line.starts_with("-DOCSTART-"))
    };
    SEPARATORS.into_iter().find_map(|separator| {
        let mut width = MOST_FIELDS;
        for item in lines().flat_map(str::split_whitespace) {
            width = width.min(item.matches(separator).count() + 1);
            if width < 2 {
                return None;
            }
        }
        let inline = Inline { separator, width };
        let sample: Sample = lines().map(|line| inline.rows(line).collect()).collect();
        let tags = || {
            sample
                .iter()
                .flatten()
                .filter_map(|row| row.last().copied())
        };
        let outside = tags().filter(|tag| *tag == "O").count();
        let is_tagged = match TagStyle::detect(tags(), None) {
            Ok(TagStyle::Marked(_)) => tags().count() > outside,
            Ok(TagStyle::Plain | TagStyle::Bare | TagStyle::Variant | TagStyle::Suffixed) => true,
            _ => false,
        };
        let has_words = sample.iter().flatten().all(|row| !row[0].is_empty());
        (is_tagged && outside > 0 && has_words).then_some((inline, sample))
    })
}
