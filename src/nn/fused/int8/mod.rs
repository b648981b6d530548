//! Linear layers and embedding tables in eight bits, for prediction on the CPU.

mod embedding;
mod kernel;
mod linear;
mod packed;
mod quantize;

pub use embedding::Int8Embedding;
pub use kernel::Epilogue;
pub use linear::{AddTo, Gelu, Int8Linear, Replace};
pub use quantize::{MAX_INPUTS, QuantizedRows, QuantizedWeight};

/// A matrix or table that cannot be quantised, or stored values that do not form one. The message names the place within the
/// tensor; who reads a file adds its name and the tensor's.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum QuantizeError {
    /// The matrix is empty or does not consist of whole rows.
    #[error("{values} values are not a matrix of {columns} columns")]
    Size {
        /// Number of values.
        values: usize,
        /// Number of columns.
        columns: usize,
    },
    /// The sums of a layer would not fit into an i32.
    #[error("a layer of {0} inputs is too large for int8: at most {MAX_INPUTS}")]
    TooManyInputs(usize),
    /// A value is NaN or infinite.
    #[error("the value in row {row}, column {column} is not finite")]
    NotFinite {
        /// Row from 0.
        row: usize,
        /// Column from 0.
        column: usize,
    },
    /// A stored scale is negative or not finite.
    #[error("scale {index} is {scale}: scales are finite and not negative")]
    Scale {
        /// Index from 0.
        index: usize,
        /// Its value.
        scale: f32,
    },
    /// There are more or fewer scales than rows.
    #[error("{found} scales for {expected} rows")]
    Scales {
        /// Number of scales.
        found: usize,
        /// Number of rows.
        expected: usize,
    },
    /// The bias is of another size than the outputs.
    #[error("a bias of {found} values for {outputs} outputs")]
    Bias {
        /// Number of values.
        found: usize,
        /// Number of outputs.
        outputs: usize,
    },
}

impl QuantizeError {
    fn not_finite(index: usize, columns: usize) -> Self {
        Self::NotFinite {
            row: index / columns,
            column: index % columns,
        }
    }
}
