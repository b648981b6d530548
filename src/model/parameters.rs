//! The parameters of a model by name and shape, checked before memory is allocated for them.
//!
//! Burn allocates a parameter when it is first used, so a new model of any size costs nothing until then.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{DType, Tensor};
use safetensors::Dtype;
use safetensors::tensor::Metadata;

use super::quantize::{self, Quantization};
use super::weights_file;
use crate::error::{Error, Result};
use crate::nn::host::are_finite;

/// Names and shapes of all parameters of a model.
#[derive(Debug, Default)]
pub struct Shapes {
    path: Vec<String>,
    found: BTreeMap<String, Vec<usize>>,
}

impl ModuleVisitor for Shapes {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.into());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let shape = param.lazy_shape().to_vec();
        self.found.insert(self.path.join("."), shape);
    }
}

fn elements(shape: &[usize]) -> u128 {
    let sizes = shape.iter().map(|size| *size as u128);
    sizes.fold(1, u128::saturating_mul)
}

impl Shapes {
    /// The parameters of a model, without initialising them.
    pub fn of<M: Module>(model: &M) -> Self {
        let mut shapes = Self::default();
        model.visit(&mut shapes);
        shapes
    }

    /// Number of values of all parameters.
    pub fn count(&self) -> u128 {
        let counts = self.found.values().map(|shape| elements(shape));
        counts.fold(0, u128::saturating_add)
    }

    /// Name and shape of the parameter with the most values.
    pub fn largest(&self) -> Option<(&str, &[usize])> {
        let largest = self.found.iter().max_by_key(|(_, shape)| elements(shape));
        largest.map(|(name, shape)| (name.as_str(), shape.as_slice()))
    }

    /// The tensors of a file with these parameters.
    fn tensors(&self, quantization: Option<Quantization>) -> BTreeMap<String, ExpectedTensor> {
        let mut tensors = BTreeMap::new();
        for (name, shape) in &self.found {
            let int8 = quantize::kind(name).filter(|_| quantization.is_some());
            let kind = match (int8, shape.as_slice()) {
                (Some(int8), &[rows, columns]) => {
                    let scales = ExpectedTensor {
                        shape: vec![int8.scales([rows, columns])],
                        kind: ExpectedKind::Scales,
                    };
                    tensors.insert(quantize::scale_name(name), scales);
                    ExpectedKind::Int8
                }
                _ => ExpectedKind::Float,
            };
            let shape = shape.clone();
            tensors.insert(name.clone(), ExpectedTensor { shape, kind });
        }
        tensors
    }

    /// Fails unless a weight file has exactly these parameters, with these shapes and types, and all of its values are
    /// numbers.
    pub fn check_file(&self, path: &Path, quantization: Option<Quantization>) -> Result<()> {
        let (mut file, metadata) = weights_file::open(path)?;
        self.check_header(&metadata, path, quantization)?;
        check_values(&mut file, &metadata, path, &self.tensors(quantization))
    }

    /// Fails unless the header of a weight file has exactly these parameters, with these shapes and types.
    pub fn check_header(
        &self,
        metadata: &Metadata,
        path: &Path,
        quantization: Option<Quantization>,
    ) -> Result<()> {
        let fail = |problem: String| Error::model_folder(path, problem);
        let tensors = metadata.tensors();
        let expected = self.tensors(quantization);
        let mut problems = Vec::new();
        for (name, ExpectedTensor { shape, kind }) in &expected {
            match tensors.get(name) {
                None => problems.push(format!("{name} is missing")),
                Some(tensor) if tensor.shape != *shape => problems.push(format!(
                    "{name} has shape {:?}, but config.json needs {shape:?}",
                    tensor.shape
                )),
                Some(tensor) if !kind.allows(tensor.dtype) => problems.push(format!(
                    "{name} has values of type {:?}, but needs {}",
                    tensor.dtype,
                    kind.types()
                )),
                Some(_) => {}
            }
        }
        let unknown = tensors.keys().filter(|name| !expected.contains_key(*name));
        problems.extend(unknown.map(|name| format!("{name} is not a parameter of this model")));
        if !problems.is_empty() {
            problems.sort();
            let shown = problems.len().min(10);
            let more = match problems.len() - shown {
                0 => String::new(),
                more => format!("\n  and {more} more"),
            };
            let listed = problems[..shown].join("\n  ");
            return Err(fail(format!(
                "the weights do not fit config.json:\n  {listed}{more}"
            )));
        }
        Ok(())
    }
}

/// What a file has to hold for a parameter.
struct ExpectedTensor {
    shape: Vec<usize>,
    kind: ExpectedKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpectedKind {
    Float,
    Int8,
    /// Scales of a parameter in eight bits: not negative.
    Scales,
}

impl ExpectedKind {
    fn allows(self, kind: Dtype) -> bool {
        match self {
            Self::Float => is_float(kind),
            Self::Int8 => kind == Dtype::I8,
            Self::Scales => kind == Dtype::F32,
        }
    }

    fn types(self) -> &'static str {
        match self {
            Self::Float => {
                "F32 or another float; a quantised model has \"quantization\" in its config.json"
            }
            Self::Int8 => "I8, as \"quantization\" in config.json says",
            Self::Scales => "F32",
        }
    }
}

fn is_float(kind: Dtype) -> bool {
    burn_type(kind).is_some()
}

/// Fails if a value is NaN or infinite. The values come next in the file.
fn check_values(
    file: &mut File,
    metadata: &Metadata,
    path: &Path,
    expected: &BTreeMap<String, ExpectedTensor>,
) -> Result<()> {
    let io = |source| Error::io(path, source);
    let mut tensors: Vec<_> = metadata.tensors().into_iter().collect();
    tensors.sort_by_key(|(_, tensor)| tensor.data_offsets);
    let mut buffer = vec![0u8; 1 << 18];
    for (name, tensor) in tensors {
        let is_scale = (expected.get(&name)).is_some_and(|one| one.kind == ExpectedKind::Scales);
        let mut left = tensor.data_offsets.1 - tensor.data_offsets.0;
        while left > 0 {
            let count = left.min(buffer.len());
            file.read_exact(&mut buffer[..count]).map_err(io)?;
            if burn_type(tensor.dtype).is_some_and(|kind| !are_finite(&buffer[..count], kind)) {
                return Err(Error::model_folder(
                    path,
                    format!(
                        "{name} has a value that is not a finite number; the model is unusable"
                    ),
                ));
            }
            if is_scale && has_negative(&buffer[..count]) {
                return Err(Error::model_folder(
                    path,
                    format!("{name} has a negative scale; do not use this file"),
                ));
            }
            left -= count;
        }
    }
    Ok(())
}

/// Whether an f32 is below zero.
fn has_negative(bytes: &[u8]) -> bool {
    let values = bytes.chunks_exact(4);
    let mut values = values.map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    values.any(|value| value < 0.0)
}

/// The type of Burn for a type of safetensors that holds floats.
fn burn_type(kind: Dtype) -> Option<DType> {
    match kind {
        Dtype::F32 => Some(DType::F32),
        Dtype::F16 => Some(DType::F16),
        Dtype::BF16 => Some(DType::BF16),
        Dtype::F64 => Some(DType::F64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::nn::{Linear, LinearConfig};
    use burn::tensor::Device;
    use safetensors::tensor::TensorView;

    fn model(inputs: usize, outputs: usize) -> Linear {
        LinearConfig::new(inputs, outputs).init(&Device::flex())
    }

    fn write(path: &Path, tensors: &[(&str, &[usize], Dtype, Vec<u8>)]) {
        let views = tensors.iter().map(|(name, shape, kind, bytes)| {
            (
                *name,
                TensorView::new(*kind, shape.to_vec(), bytes).unwrap(),
            )
        });
        std::fs::write(path, safetensors::serialize(views, None).unwrap()).unwrap();
    }

    fn floats(values: &[f32]) -> Vec<u8> {
        values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect()
    }

    #[test]
    fn huge_models_are_counted_without_being_allocated() {
        let shapes = Shapes::of(&model(1 << 30, 1 << 30));
        assert_eq!(shapes.count(), (1 << 60) + (1 << 30));
        let largest = shapes.largest().unwrap();
        assert_eq!(largest, ("weight", &[1 << 30, 1 << 30][..]));
    }

    #[test]
    fn files_that_do_not_fit_are_explained() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        let shapes = Shapes::of(&model(2, 1));
        let refused = |what: &str| {
            let problem = shapes.check_file(&path, None).unwrap_err().to_string();
            assert!(problem.contains(what), "{what}: {problem}");
        };
        refused("cannot access");
        let weight = ("weight", &[2, 1][..], Dtype::F32, floats(&[1.0, 2.0]));
        let bias = ("bias", &[1][..], Dtype::F32, floats(&[0.5]));
        write(&path, &[weight.clone(), bias.clone()]);
        shapes.check_file(&path, None).unwrap();
        write(&path, std::slice::from_ref(&weight));
        refused("bias is missing");
        write(
            &path,
            &[
                weight.clone(),
                bias.clone(),
                ("more", &[1], Dtype::F32, floats(&[1.0])),
            ],
        );
        refused("more is not a parameter");
        write(
            &path,
            &[
                ("weight", &[1, 2], Dtype::F32, floats(&[1.0, 2.0])),
                bias.clone(),
            ],
        );
        refused("weight has shape [1, 2]");
        write(
            &path,
            &[
                ("weight", &[2, 1], Dtype::I32, floats(&[1.0, 2.0])),
                bias.clone(),
            ],
        );
        refused("type I32");
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            write(
                &path,
                &[weight.clone(), ("bias", &[1], Dtype::F32, floats(&[bad]))],
            );
            refused("bias has a value that is not a finite number");
        }
        let half = |bits: u16| bits.to_le_bytes().to_vec();
        write(
            &path,
            &[weight.clone(), ("bias", &[1], Dtype::F16, half(0x7e00))],
        );
        refused("not a finite number");
        write(
            &path,
            &[weight.clone(), ("bias", &[1], Dtype::F16, half(0x3c00))],
        );
        shapes.check_file(&path, None).unwrap();

        write(&path, &[weight, bias]);
        let good = std::fs::read(&path).unwrap();
        for length in 0..good.len() {
            std::fs::write(&path, &good[..length]).unwrap();
            assert!(shapes.check_file(&path, None).is_err(), "{length} bytes");
        }
        let mut claim = good.clone();
        claim[..8].copy_from_slice(&10_000_000_000u64.to_le_bytes());
        std::fs::write(&path, &claim).unwrap();
        refused("claims 10000000000 bytes");
        std::fs::write(&path, [good, vec![0]].concat()).unwrap();
        refused("there are 13");
    }
}
