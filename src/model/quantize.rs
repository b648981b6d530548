//! Models in eight bits: what `config.json` says about them, and the conversion of their weights.
//!
//! A parameter that [`kind`] names is stored as two tensors: `NAME` with values of type I8, and `NAME_scale` with one f32
//! for each output of a linear layer or each row of an embedding table. All other parameters are floats as before.

use std::borrow::Cow;
use std::fs;
use std::path::Path;

use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensors, View};
use serde::{Deserialize, Serialize};

use super::weights_file;
use super::weights_reader::to_floats;
use crate::encoder::transformer::{Int8Kind, int8_kind};
use crate::error::{Error, Result};
use crate::nn::fused::int8::{Int8Embedding, QuantizeError, QuantizedWeight};

/// Where the parameters of the transformer are in a model.
pub(super) const TRANSFORMER: &str = "encoder.transformer.";

/// How the weights of a model folder are quantised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantization {
    /// The number type.
    pub kind: QuantizationKind,
}

/// A number type of quantised weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuantizationKind {
    /// Linear layers and embedding tables of the encoder in eight bits.
    Int8,
}

impl Quantization {
    /// Weights in eight bits.
    pub const INT8: Self = Self {
        kind: QuantizationKind::Int8,
    };
}

/// How a parameter of a model is stored in eight bits, from its name; `None` if it stays in floating point.
pub fn kind(name: &str) -> Option<Int8Kind> {
    int8_kind(name.strip_prefix(TRANSFORMER)?)
}

/// The name of the tensor with the scales of a parameter in eight bits.
pub fn scale_name(name: &str) -> String {
    format!("{name}_scale")
}

/// Writes the weights of a file with the encoder's linear layers and embedding tables in eight bits; other tensors stay as
/// they are. Fails if they are in eight bits already.
pub fn write_int8(source: &Path, target: &Path) -> Result<()> {
    let fail = |problem: String| Error::model_folder(source, problem);
    weights_file::read(source)?;
    let bytes = fs::read(source).map_err(|problem| Error::io(source, problem))?;
    let weights = SafeTensors::deserialize(&bytes).map_err(|problem| fail(problem.to_string()))?;
    let mut tensors: Vec<(String, StoredTensor)> = Vec::new();
    for (name, view) in weights.tensors() {
        let Some(kind) = kind(&name) else {
            tensors.push((name, StoredTensor::Same(view)));
            continue;
        };
        let &[_, columns] = view.shape() else {
            return Err(fail(format!("{name} is not a matrix")));
        };
        let Some(values) = to_floats(view.data(), view.dtype()) else {
            return Err(fail(format!(
                "{name} has values of type {:?}, not floats: the model is quantised already; give the model it was made from",
                view.dtype()
            )));
        };
        let (values, scales) = quantize(kind, &values, columns)
            .map_err(|problem| fail(format!("{name}: {problem}")))?;
        let scales_shape = vec![scales.len()];
        let values = values.into_iter().map(|value| value as u8).collect();
        let scales = scales.into_iter().flat_map(f32::to_le_bytes).collect();
        let scale_name = scale_name(&name);
        tensors.push((
            name,
            StoredTensor::New(Dtype::I8, view.shape().to_vec(), values),
        ));
        tensors.push((
            scale_name,
            StoredTensor::New(Dtype::F32, scales_shape, scales),
        ));
    }
    safetensors::serialize_to_file(tensors, None, target)
        .map_err(|problem| Error::model_folder(target, problem.to_string()))
}

fn quantize(
    kind: Int8Kind,
    values: &[f32],
    columns: usize,
) -> Result<(Vec<i8>, Vec<f32>), QuantizeError> {
    match kind {
        Int8Kind::Linear => QuantizedWeight::quantize(values, columns).map(|q| q.into_parts()),
        Int8Kind::Embedding => Int8Embedding::quantize(values, columns).map(|q| q.into_parts()),
    }
}

/// A tensor that is written.
enum StoredTensor<'a> {
    Same(TensorView<'a>),
    New(Dtype, Vec<usize>, Vec<u8>),
}

impl View for StoredTensor<'_> {
    fn dtype(&self) -> Dtype {
        match self {
            Self::Same(view) => view.dtype(),
            Self::New(kind, _, _) => *kind,
        }
    }

    fn shape(&self) -> &[usize] {
        match self {
            Self::Same(view) => view.shape(),
            Self::New(_, shape, _) => shape,
        }
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(match self {
            Self::Same(view) => view.data(),
            Self::New(_, _, data) => data,
        })
    }

    fn data_len(&self) -> usize {
        match self {
            Self::Same(view) => view.data().len(),
            Self::New(_, _, data) => data.len(),
        }
    }
}
