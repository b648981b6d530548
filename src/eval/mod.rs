//! How good the found entities are: strict scores, for everything together and for its parts.
//!
//! Strict means that an entity counts as found only when both its span and its type are right. Scores are
//! micro-averaged: entities are counted over the whole corpus before anything is divided.

pub mod analysis;
mod counts;
pub mod predictions;
pub mod readings;
mod report;
pub mod threshold;

pub use counts::{Counts, Split};
pub use report::{LENGTHS, Report};

use crate::error::Result;
use crate::model::tagger::Tagger;
use crate::text::Sentence;

/// Tags the sentences and scores the mentions against the sentences' gold entities.
///
/// Misaligned gold entities, which no span of words can equal, count as missed.
pub fn evaluate(tagger: &dyn Tagger, sentences: &[Sentence]) -> Result<Report> {
    let mentions = tagger.tag(sentences)?;
    let mut report = Report::of(
        sentences
            .iter()
            .map(|sentence| sentence.entities.as_slice())
            .zip(mentions.iter().map(Vec::as_slice)),
    );
    for entity in sentences.iter().flat_map(|sentence| &sentence.misaligned) {
        report.add_unreachable(&entity.label, 1);
    }
    Ok(report)
}
