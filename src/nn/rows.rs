//! Picking rows of a table.

use burn::tensor::Tensor;

use super::fused;
use crate::encoder::indices;

/// Rows at places: [rows, width] to [places, width].
pub fn pick(table: Tensor<2>, places: Vec<usize>) -> Tensor<2> {
    let device = table.device();
    match fused::runs_on(&device) {
        true => fused::embedding::look_up(table, places),
        false => table.select(0, indices(&places, &device)),
    }
}
