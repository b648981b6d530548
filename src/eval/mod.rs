//! How good the found entities are: strict scores, for everything together and for its parts.
//!
//! Strict means that an entity counts as found only when both its span and its type are right. Scores are
//! micro-averaged: entities are counted over the whole corpus before anything is divided.

pub mod analysis;
mod counts;
pub mod evidence;
pub mod predictions;
mod report;
pub mod threshold;

pub use counts::{Counts, Split};
pub use report::{LENGTHS, Report};
