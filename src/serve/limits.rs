//! Limits of the service.

use std::time::Duration;

/// What the service accepts, and how it forms batches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request's body; of a stream, of one line.
    pub body: usize,
    /// Texts of a request that is not a stream.
    pub texts: usize,
    /// Characters of all texts of a request; of a stream, of one text.
    pub characters: usize,
    /// Word pieces of a model that may wait. A request is refused when as many wait already.
    pub queue: usize,
    /// Word pieces that are tagged together.
    pub batch: usize,
    /// How long the first sentence of a batch waits for others.
    pub wait: Duration,
    /// Time for a request, from its first byte to its answer; for a stream, for each part of it.
    pub timeout: Duration,
    /// Connections at the same time; further ones wait.
    pub connections: usize,
    /// Bytes of all bodies that are held at the same time; a stream counts for one of the longest.
    pub memory: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 8 << 20,
            texts: 1024,
            characters: 1_000_000,
            queue: 1 << 17,
            batch: 4096,
            wait: Duration::from_millis(5),
            timeout: Duration::from_secs(60),
            connections: 512,
            memory: 512 << 20,
        }
    }
}

/// The largest whole number that a request may give a setting of a head: steps, spans and the like decide how long a text
/// takes.
pub(super) const LARGEST_SETTING: i64 = 1000;
