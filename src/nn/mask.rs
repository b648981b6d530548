//! Masks that tell real positions from padding, built from the lengths of the sequences of a batch.
//!
//! Throughout, a position is real when its index is below its sequence's length.

use burn::tensor::{Bool, Device, Tensor, TensorData};

/// Added to the attention score of a padding position before the softmax: low enough for its weight to vanish, high
/// enough to stay finite.
pub const MASKED: f32 = -1e9;

/// Whether any sequence is shorter than `positions`.
pub fn has_padding(lengths: &[usize], positions: usize) -> bool {
    lengths.iter().any(|length| *length != positions)
}

/// True on real positions, false on padding.
///
/// # Shapes
/// - output: `[batch, positions]`
pub fn bool_mask(lengths: &[usize], positions: usize, device: &Device) -> Tensor<2, Bool> {
    let mask = by_position(lengths, positions, true, false);
    Tensor::from_data(TensorData::new(mask, [lengths.len(), positions]), device)
}

/// 1 on real positions, 0 on padding.
///
/// # Shapes
/// - output: `[batch, positions]`
pub fn float_mask(lengths: &[usize], positions: usize, device: &Device) -> Tensor<2> {
    let mask = by_position(lengths, positions, 1f32, 0.0);
    Tensor::<1>::from_floats(mask.as_slice(), device).reshape([lengths.len(), positions])
}

/// 0 on real positions, [`MASKED`] on padding, to be added to attention scores `[batch, heads, queries, positions]`.
/// `None` when there is no padding.
///
/// # Shapes
/// - output: `[batch, 1, 1, positions]`
pub fn attention_bias(lengths: &[usize], positions: usize, device: &Device) -> Option<Tensor<4>> {
    if !has_padding(lengths, positions) {
        return None;
    }
    let bias = by_position(lengths, positions, 0f32, MASKED);
    let shape = [lengths.len(), 1, 1, positions];
    Some(Tensor::<1>::from_floats(bias.as_slice(), device).reshape(shape))
}

/// One value per position of each sequence, sequence by sequence.
fn by_position<T: Copy>(lengths: &[usize], positions: usize, real: T, padding: T) -> Vec<T> {
    let value = |length: usize, position: usize| if position < length { real } else { padding };
    lengths
        .iter()
        .flat_map(|length| (0..positions).map(move |position| value(*length, position)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::host::floats;

    #[test]
    fn masks_follow_the_lengths() {
        let device = Device::flex();
        let lengths = [3, 0, 1];
        let expected = [1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0];
        assert_eq!(floats(float_mask(&lengths, 3, &device)), expected);
        assert_eq!(floats(bool_mask(&lengths, 3, &device).float()), expected);
        let bias = attention_bias(&lengths, 3, &device).unwrap();
        assert_eq!(bias.dims(), [3, 1, 1, 3]);
        assert_eq!(floats(bias), expected.map(|real| (1.0 - real) * MASKED));
    }

    #[test]
    fn there_is_no_bias_without_padding() {
        assert!(attention_bias(&[2, 2], 2, &Device::flex()).is_none());
        assert!(!has_padding(&[2, 2], 2));
        assert!(has_padding(&[2, 1], 2));
    }
}
