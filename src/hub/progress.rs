//! Reports of downloads.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

/// How far a download is.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// The repository or address.
    pub source: &'a str,
    /// The file that is being read; empty when all are there.
    pub file: &'a str,
    /// Bytes of all files that are there, those of earlier attempts included.
    pub done: u64,
    /// Bytes of all files.
    pub total: u64,
}

/// Something that is called during a download; [`ControlFlow::Break`] stops it. What was read so far is kept, and the next
/// attempt goes on from there.
#[derive(Clone)]
pub struct OnProgress(Arc<Callback>);

type Callback = dyn Fn(Progress<'_>) -> ControlFlow<()> + Send + Sync;

impl OnProgress {
    /// Calls `report` several times a second while files are read.
    pub fn new(report: impl Fn(Progress<'_>) -> ControlFlow<()> + Send + Sync + 'static) -> Self {
        Self(Arc::new(report))
    }

    #[cfg_attr(not(feature = "hub"), allow(dead_code))]
    pub(super) fn report(&self, progress: Progress<'_>) -> ControlFlow<()> {
        (self.0)(progress)
    }
}

impl Default for OnProgress {
    /// Reports nothing.
    fn default() -> Self {
        Self::new(|_| ControlFlow::Continue(()))
    }
}

impl fmt::Debug for OnProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnProgress")
    }
}
