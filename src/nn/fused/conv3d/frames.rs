//! Where planes, frames, runs and neighbours lie.

use super::runs::LANES;
use super::{Conv3d, REACH};

impl Conv3d {
    /// Columns of a frame.
    pub(super) fn stride(&self) -> usize {
        self.words + 2 * self.dilation[2]
    }

    /// The run that covers a plane.
    pub(super) fn run(&self) -> usize {
        (self.words * self.stride()).next_multiple_of(LANES)
    }

    /// Where a plane's first cell stands in its frame.
    pub(super) fn corner(&self) -> usize {
        self.dilation[1] * self.stride() + self.dilation[2]
    }

    /// Numbers of a frame: a run from the last neighbour ends within it.
    pub(super) fn frame(&self) -> usize {
        2 * self.corner() + self.run()
    }

    /// Numbers of a plane.
    pub(super) fn plane(&self) -> usize {
        self.words * self.words
    }

    /// Numbers of a sentence.
    pub(super) fn sentence(&self) -> usize {
        self.channels * self.planes * self.plane()
    }

    /// The planes that a plane hears: which third of the kernel, and which plane.
    pub(super) fn neighbours(&self, plane: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..REACH).filter_map(move |third| {
            let other = (plane + third * self.dilation[0]).checked_sub(self.dilation[0])?;
            (other < self.planes).then_some((third, other))
        })
    }

    /// How far before a cell the run of each of its neighbours in a plane begins.
    pub(super) fn steps(&self) -> [usize; REACH * REACH] {
        let [_, down, right] = self.dilation;
        std::array::from_fn(|cell| cell / REACH * down * self.stride() + cell % REACH * right)
    }

    /// A sentence's planes in frames; of each the first `length` rows and columns.
    pub(super) fn framed(&self, planes: &[f32], length: usize) -> Vec<f32> {
        let (frame, stride) = (self.frame(), self.stride());
        let mut frames = vec![0f32; self.channels * self.planes * frame];
        let pairs = planes
            .chunks_exact(self.plane())
            .zip(frames.chunks_exact_mut(frame));
        for (plane, frame) in pairs {
            let rows = plane.chunks_exact(self.words).take(length);
            for (row, into) in rows.zip(frame[self.corner()..].chunks_mut(stride)) {
                into[..length].copy_from_slice(&row[..length]);
            }
        }
        frames
    }

    /// No gradient for what was not read.
    pub(super) fn blank(&self, planes: &mut [f32], length: usize) {
        if length == self.words {
            return;
        }
        for plane in planes.chunks_exact_mut(self.plane()) {
            for (index, row) in plane.chunks_exact_mut(self.words).enumerate() {
                row[if index < length { length } else { 0 }..].fill(0.0);
            }
        }
    }
}
