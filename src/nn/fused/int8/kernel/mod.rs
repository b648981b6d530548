//! Products of quantised rows and packed weights, for several instruction sets.
//!
//! All kernels compute the same integer sums exactly, and the same floating-point operations on them in the same order, so
//! results are equal to the last bit on every CPU.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod plain;

use super::QuantizedRows;
use super::packed::{BlockOrder, Columns, PackedWeight};

/// Rows of a tile, the part of the output that is computed at once. Its columns are those of a panel.
const TILE_ROWS: usize = 6;

/// An instruction set for which there is a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isa {
    /// AVX-512 with its integer dot product (VNNI).
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni,
    /// AVX2 with the integer dot product of CPUs without AVX-512 (AVX-VNNI).
    #[cfg(target_arch = "x86_64")]
    AvxVnni,
    /// AVX2: products of 16-bit integers. The product of eight-bit ones (`vpmaddubsw`) would saturate.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// Loops that the compiler vectorises, on any CPU.
    Plain,
}

impl Isa {
    /// All instruction sets, from the fastest to the slowest.
    const ALL: &[Self] = &[
        #[cfg(target_arch = "x86_64")]
        Self::Avx512Vnni,
        #[cfg(target_arch = "x86_64")]
        Self::AvxVnni,
        #[cfg(target_arch = "x86_64")]
        Self::Avx2,
        Self::Plain,
    ];

    /// Those of this CPU, from the fastest to the slowest.
    pub fn available() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(|isa| isa.is_available())
    }

    /// The fastest of this CPU.
    pub fn best() -> Self {
        Self::available().next().unwrap_or(Self::Plain)
    }

    /// Whether this CPU has it.
    pub fn is_available(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512vnni")
            }
            #[cfg(target_arch = "x86_64")]
            Self::AvxVnni => {
                is_x86_feature_detected!("avx2") && is_x86_feature_detected!("avxvnni")
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2"),
            Self::Plain => true,
        }
    }

    /// The order of blocks, and the number of columns in a panel.
    pub(super) fn layout(self) -> (BlockOrder, usize) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni => (BlockOrder::Quads, avx512::COLUMNS),
            #[cfg(target_arch = "x86_64")]
            Self::AvxVnni => (BlockOrder::Quads, avx2::COLUMNS),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => (BlockOrder::Pairs, avx2::COLUMNS),
            Self::Plain => (BlockOrder::Rows, plain::COLUMNS),
        }
    }
}

/// What is done with each output of a linear layer before it is stored.
///
/// Implementations should be marked `#[inline(always)]`, call nothing that is not and have no branches, so that the
/// compiler vectorises the loop over them.
pub trait Epilogue: Sync {
    /// The value to store, from the layer's output, bias included, and the value stored there before.
    fn store(&self, output: f32, before: f32) -> f32;
}

/// `rows · weight + bias` through an epilogue into `output`, on the calling thread.
///
/// # Panics
/// If the sizes of rows, weight and output do not fit.
pub fn multiply(
    rows: &QuantizedRows,
    weight: &PackedWeight,
    epilogue: &impl Epilogue,
    output: &mut [f32],
) {
    assert_eq!(rows.width(), weight.inputs());
    assert_eq!(output.len(), rows.count() * weight.outputs());
    match weight.isa() {
        // SAFETY: `PackedWeight::new` checks that this CPU has the instruction set.
        #[cfg(target_arch = "x86_64")]
        #[allow(unsafe_code)]
        Isa::Avx512Vnni => unsafe { avx512::multiply(rows, weight, epilogue, output) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        #[allow(unsafe_code)]
        Isa::AvxVnni => unsafe { avx2::multiply_vnni(rows, weight, epilogue, output) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        #[allow(unsafe_code)]
        Isa::Avx2 => unsafe { avx2::multiply(rows, weight, epilogue, output) },
        Isa::Plain => plain::multiply(rows, weight, epilogue, output),
    }
}

/// Turns the integer sums of a tile into outputs, and stores those that are not padding.
///
/// ```text
/// output[row, n] = (sums[row, n] - zero_point[row] · Σ_k value[k, n]) · (scale[row] · scale[n]) + bias[n]
/// ```
#[inline(always)]
fn finish_tile<const N: usize>(
    sums: &[[i32; N]],
    first_row: usize,
    rows: &QuantizedRows,
    columns: &Columns<'_, N>,
    epilogue: &impl Epilogue,
    (output, width): (&mut [f32], usize),
) {
    for (row, sums) in (first_row..).zip(sums) {
        let (scale, zero_point) = rows.params(row);
        let mut values = [0f32; N];
        for column in 0..N {
            // The difference is in the range of i32, though its parts may not be: see `MAX_INPUTS`.
            let shift = zero_point.wrapping_mul(columns.sums[column]);
            let exact = sums[column].wrapping_sub(shift) as f32;
            values[column] = exact * (scale * columns.scales[column]) + columns.bias[column];
        }
        let output = &mut output[row * width + columns.first..][..columns.count];
        if let Ok(output) = <&mut [f32; N]>::try_from(&mut *output) {
            for column in 0..N {
                output[column] = epilogue.store(values[column], output[column]);
            }
        } else {
            for (output, value) in output.iter_mut().zip(values) {
                *output = epilogue.store(value, *output);
            }
        }
    }
}

/// Defines `multiply` for an instruction set from its kernel of a tile: `$tile::<R>(rows, panel, sums)` writes the sums of
/// `R` rows, up to six, and the columns of a panel.
macro_rules! define_multiply {
    ($(#[$attribute:meta])* $name:ident, $values:ty, $tile:ident, $columns:expr) => {
        $(#[$attribute])*
        fn $name<E: Epilogue>(
            rows: &QuantizedRows,
            values: &[[$values; 4]],
            weight: &PackedWeight,
            epilogue: &E,
            output: &mut [f32],
        ) {
            let steps = weight.steps();
            let mut sums = [[0i32; $columns]; TILE_ROWS];
            for (index, panel) in weight.panels().enumerate() {
                let columns = weight.columns::<{ $columns }>(index);
                for (tile, values) in values.chunks(TILE_ROWS * steps).enumerate() {
                    let count = values.len() / steps;
                    match count {
                        1 => $tile::<1>(values, panel, &mut sums),
                        2 => $tile::<2>(values, panel, &mut sums),
                        3 => $tile::<3>(values, panel, &mut sums),
                        4 => $tile::<4>(values, panel, &mut sums),
                        5 => $tile::<5>(values, panel, &mut sums),
                        _ => $tile::<TILE_ROWS>(values, panel, &mut sums),
                    }
                    finish_tile(
                        &sums[..count],
                        tile * TILE_ROWS,
                        rows,
                        &columns,
                        epilogue,
                        (&mut *output, weight.outputs()),
                    );
                }
            }
        }
    };
}

use define_multiply;

/// The values of rows as 16-bit integers.
fn widen(rows: &QuantizedRows) -> Vec<[i16; 4]> {
    let quads = rows.quads().iter();
    quads.map(|quad| quad.map(i16::from)).collect()
}
