//! Linear layers and embedding tables in eight bits, for prediction on the CPU.
//!
//! Weights are quantised once, per output and symmetrically; rows of activations when they are computed, each with its own
//! scale and zero point. Sums are exact in 32 bits and floating-point operations the same on all CPUs, so results depend
//! neither on the instruction set nor on the number of threads.
//!
//! - [`QuantizedWeight`] and [`Int8Embedding`] are what a model folder stores: i8 values and f32 scales. Other devices
//!   [`widen`](QuantizedWeight::widen) them to f32.
//! - [`Int8Linear`] is a weight packed for this CPU, with its bias.
//! - [`QuantizedRows`] are activations, which several layers can share.
//! - An [`Epilogue`] is applied to each output before it is stored: [`Replace`], [`Gelu`], [`AddTo`] and others.
//!
//! # Why a kernel of our own
//! Measured on an AMD EPYC of family 25 (Zen 4) with one thread, in billions of multiplications per second of CPU time, for
//! 64 to 2,000 rows and the layers of MiniLM and of a base-sized BERT: `gemm` in f32 41 to 53, `gemmkit` 128 to 150,
//! `rten-gemm` 137 to 195, this one 163 to 226 with AVX-512 VNNI (the instruction's limit is 224 at 3.5 GHz) and 69 to 83
//! with AVX2. The libraries return the sums, which need another pass over memory to become f32; with quantised rows in and
//! f32 out, `rten-gemm` takes 1.11 to 1.44 times as long. And on AVX2 its products saturate, so results would differ between
//! CPUs.
//!
//! # How a transformer layer uses it
//! A post-norm layer (BERT) in prediction, over packed rows. All steps but the attention are independent for each row, and
//! the attention for each sequence, so one task of the thread pool computes the whole layer for a group of sequences of
//! about 48 rows, with buffers of its own that stay in the second-level cache:
//!
//! ```text
//! quantized = QuantizedRows(x)                            once, for q, k and v
//! q, k, v = forward_quantized(quantized, Replace)         three layers, or one of 3 · width outputs
//! c = attention(q, k, v)                                  f32, per sequence and head
//! x = x + c·Wo + bo                                       QuantizedRows(c), then AddTo in place
//! y = LayerNorm₁(x)                                       f32
//! a = gelu(y·W₁ + b₁)                                     QuantizedRows(y), then Gelu
//! y = y + a·W₂ + b₂                                       QuantizedRows(a), then AddTo in place
//! z = LayerNorm₂(y)
//! ```
//!
//! A pre-norm layer quantises the normed rows and adds to those before the norm. A gated feed-forward network (ModernBERT)
//! applies W₁ in two halves: the gate with [`Gelu`], then the other half with an epilogue that multiplies `before` by the
//! output.
//!
//! GELU in the epilogue takes 9 to 12 % off the time of its layer (480 rows), compared with a pass of its own, and the
//! residual 1 to 7 %. In blocks of 48 rows the linear layers of MiniLM-L6 (six layers, width 384) take 27.7 ms of CPU time
//! for 480 rows, of which the quantisation of rows and GELU are 1.4 ms each; layer by layer over all rows 29 to 31 ms; in
//! f32 about 100 ms. ONNX Runtime 1.31 takes 43 ms for its whole int8 network on the same machine, with 16 sequences of 30
//! pieces.
//!
//! # Why rows are asymmetric
//! Relative error of the outputs of a layer of 384 inputs, root mean square, asymmetric and symmetric: 0.98 and 1.01 %
//! for Gaussian rows, 0.90 and 1.25 % after GELU, 2.1 and 3.3 % with two columns 20 times as large, 2.5 and 4.7 % with
//! one column at 100; weights alone are 0.7 %. In a MiniLM trained on 400 sentences of GENIA the logits are off by
//! 2.4 and 3.4 %, and by 7.1 % with one scale for a whole batch as in ONNX Runtime.
//!
//! Norms, softmax and the small layers of heads stay in f32.

mod embedding;
mod epilogue;
mod kernel;
mod linear;
mod packed;
mod quantize;

pub use embedding::Int8Embedding;
pub use epilogue::{AddTo, Gelu, GeluTanh, Multiply, Relu, Replace, Tanh};
pub use kernel::Epilogue;
pub use linear::Int8Linear;
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
