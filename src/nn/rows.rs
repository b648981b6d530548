//! Selection of rows by index.

use burn::tensor::{Device, Int, Tensor};

use super::fused;

/// The rows of a table with these indices; an index may occur any number of times.
///
/// # Shapes
/// - table: `[rows, width]`
/// - output: `[indices, width]`
pub fn select_rows(table: Tensor<2>, indices: Vec<usize>) -> Tensor<2> {
    let device = table.device();
    if fused::runs_on(&device) {
        fused::embedding::look_up(table, indices)
    } else {
        table.select(0, index_tensor(&indices, &device))
    }
}

/// Indices as an integer tensor.
pub(crate) fn index_tensor(indices: &[usize], device: &Device) -> Tensor<1, Int> {
    let indices: Vec<i32> = indices.iter().map(|index| *index as i32).collect();
    Tensor::from_ints(indices.as_slice(), device)
}
