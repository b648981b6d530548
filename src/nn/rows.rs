//! Picking rows of a table.

use burn::tensor::{Device, Int, Tensor};

use super::fused;

/// Rows at places: [rows, width] to [places, width].
pub fn select_rows(table: Tensor<2>, places: Vec<usize>) -> Tensor<2> {
    let device = table.device();
    if fused::runs_on(&device) {
        fused::embedding::look_up(table, places)
    } else {
        table.select(0, indices(&places, &device))
    }
}

/// Row numbers as an integer tensor.
pub(crate) fn indices(rows: &[usize], device: &Device) -> Tensor<1, Int> {
    let rows: Vec<i32> = rows.iter().map(|row| *row as i32).collect();
    Tensor::from_ints(rows.as_slice(), device)
}
