//! Memory layout of planes, padded planes and taps; drawn in the documentation of the [module](super).

use super::inner_loops::LANES;
use super::{Conv3dGelu, KERNEL_SIZE, TAPS};

impl Conv3dGelu {
    /// Columns of a padded plane.
    pub(super) fn row_stride(&self) -> usize {
        self.words + 2 * self.dilation[2]
    }

    /// Values of a padded output plane, rounded up to whole vectors.
    pub(super) fn padded_output_len(&self) -> usize {
        (self.words * self.row_stride()).next_multiple_of(LANES)
    }

    /// Index of cell (0, 0) in a padded plane.
    pub(super) fn origin(&self) -> usize {
        self.dilation[1] * self.row_stride() + self.dilation[2]
    }

    /// Values of a padded plane: a padded output plane fits in behind the last tap offset, which is twice the origin.
    pub(super) fn padded_plane_len(&self) -> usize {
        2 * self.origin() + self.padded_output_len()
    }

    /// Cells of a plane.
    pub(super) fn plane_len(&self) -> usize {
        self.words * self.words
    }

    /// Values of one channel of a sentence.
    pub(super) fn channel_len(&self) -> usize {
        self.planes * self.plane_len()
    }

    /// Values of a sentence.
    pub(super) fn sentence_len(&self) -> usize {
        self.channels * self.channel_len()
    }

    /// The input planes that an output plane depends on, as pairs of kernel plane and input plane. Planes outside the
    /// grid are left out.
    pub(super) fn input_planes(&self, plane: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..KERNEL_SIZE).filter_map(move |kernel_plane| {
            let input = (plane + kernel_plane * self.dilation[0]).checked_sub(self.dilation[0])?;
            (input < self.planes).then_some((kernel_plane, input))
        })
    }

    /// Distance from an output cell's index in the padded output plane to each of its taps' index in the padded plane.
    pub(super) fn tap_offsets(&self) -> [usize; TAPS] {
        let [_, rows, columns] = self.dilation;
        std::array::from_fn(|tap| {
            tap / KERNEL_SIZE * rows * self.row_stride() + tap % KERNEL_SIZE * columns
        })
    }

    /// A sentence's planes as padded planes. Of each plane the first `length` rows and columns are copied; all else is
    /// 0.
    pub(super) fn pad(&self, planes: &[f32], length: usize) -> Vec<f32> {
        let (padded_len, stride) = (self.padded_plane_len(), self.row_stride());
        let mut padded_planes = vec![0f32; self.channels * self.planes * padded_len];
        let pairs = planes
            .chunks_exact(self.plane_len())
            .zip(padded_planes.chunks_exact_mut(padded_len));
        for (plane, padded) in pairs {
            let rows = plane.chunks_exact(self.words).take(length);
            for (row, padded_row) in rows.zip(padded[self.origin()..].chunks_mut(stride)) {
                padded_row[..length].copy_from_slice(&row[..length]);
            }
        }
        padded_planes
    }

    /// Sets the cells at and after row or column `length` to 0: the input there was masked and has no gradient.
    pub(super) fn mask_planes(&self, planes: &mut [f32], length: usize) {
        if length == self.words {
            return;
        }
        for plane in planes.chunks_exact_mut(self.plane_len()) {
            for (index, row) in plane.chunks_exact_mut(self.words).enumerate() {
                row[if index < length { length } else { 0 }..].fill(0.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_the_one_drawn() {
        let layer = Conv3dGelu {
            channels: 1,
            depthwise: false,
            planes: 1,
            words: 3,
            dilation: [1, 2, 2],
            lengths: None,
        };
        assert_eq!(layer.row_stride(), 7);
        assert_eq!(layer.origin(), 16);
        assert_eq!(layer.tap_offsets(), [0, 2, 4, 14, 16, 18, 28, 30, 32]);
        let cells = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];
        let padded = layer.pad(&cells, 3);
        assert_eq!(padded.len(), 32 + LANES);
        assert_eq!(padded[14..21], [0.0, 0.0, 1.0, 2.0, 3.0, 0.0, 0.0]);
        assert_eq!(padded[21..28], [0.0, 0.0, 4.0, 5.0, 6.0, 0.0, 0.0]);
        // The taps of output cell (1, 0), which has index 7.
        let taps = layer.tap_offsets().map(|offset| padded[7 + offset]);
        assert_eq!(taps, [0.0, 0.0, 0.0, 0.0, 4.0, 6.0, 0.0, 0.0, 0.0]);
        let masked = layer.pad(&cells, 2);
        assert_eq!(masked[21..28], [0.0, 0.0, 4.0, 5.0, 0.0, 0.0, 0.0]);
        assert!(masked[28..].iter().all(|value| *value == 0.0));
    }

    #[test]
    fn planes_outside_the_grid_are_skipped() {
        let layer = Conv3dGelu {
            channels: 1,
            depthwise: false,
            planes: 4,
            words: 1,
            dilation: [2, 1, 1],
            lengths: None,
        };
        let input_planes = |plane| layer.input_planes(plane).collect::<Vec<_>>();
        assert_eq!(input_planes(0), [(1, 0), (2, 2)]);
        assert_eq!(input_planes(3), [(0, 1), (1, 3)]);
    }
}
