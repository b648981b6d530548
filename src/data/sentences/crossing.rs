//! Entities that cross the end of a sentence: counted, and reported in one warning a file.

use crate::data::source::Collector;
use crate::error::Location;

/// Entities that cross the end of a sentence.
#[derive(Debug, Default)]
pub(in crate::data) struct CrossingEntities {
    /// Number of entities that cross a blank line, and of those that cross another end of a sentence.
    counts: [usize; 2],
    /// The first of each kind: where it is, and its type and text.
    examples: [Vec<(Location, String)>; 2],
}

/// Number of crossing entities of each kind that are listed.
const LISTED: usize = 3;

/// Number of characters of a crossing entity that are examined.
const EXAMINED: usize = 2000;

impl Collector {
    /// Notes an entity that crosses the end of a sentence.
    pub(super) fn note_crossing(&mut self, line: usize, label: &str, text: &str) {
        // The start of an entity that is longer than any should be.
        let text: String = text.chars().take(EXAMINED).collect();
        let breaks = text.replace("\r\n", "\n");
        let is_blank = breaks.lines().any(|line| line.trim().is_empty());
        let kind = usize::from(!is_blank);
        let location = self.line_location(line);
        let crossing = &mut self.crossing;
        crossing.counts[kind] += 1;
        if crossing.examples[kind].len() < LISTED {
            let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let short: String = text.chars().take(80).collect();
            let dots = if short.len() < text.len() { "…" } else { "" };
            crossing.examples[kind].push((location, format!("{label} `{short}{dots}`")));
        }
    }
}

/// Reports the entities that cross the end of a sentence: one warning for those that cross a blank line, one for the others.
pub(in crate::data) fn report_crossing(corpus: &mut Collector) {
    let crossing = std::mem::take(&mut corpus.crossing);
    let whats = ["a blank line", "the end of a sentence"];
    for ((count, examples), what) in crossing.counts.iter().zip(crossing.examples).zip(whats) {
        let Some((first, _)) = examples.first().cloned() else {
            continue;
        };
        let more = count - examples.len();
        let mut list: Vec<String> = (examples.into_iter())
            .map(|(location, text)| format!("{text} ({location})"))
            .collect();
        if more > 0 {
            list.push(format!("{more} more"));
        }
        let entities = if *count == 1 {
            "entity crosses"
        } else {
            "entities cross"
        };
        corpus.warn_at(first, format!(
            "{count} {entities} {what}, where the text would be cut; it is not cut there, check the offsets: {}",
            list.join(", ")
        ));
    }
}
