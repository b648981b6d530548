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

use super::weights_file;
use crate::error::{Error, Result};
use crate::nn::host::are_finite;
use crate::process;

/// Copies of every weight in training: the weight, its gradient and two moments of the optimizer.
const TRAINING_COPIES: u128 = 4;

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

    /// Fails if the machine has less memory than training needs for the parameters alone.
    pub fn check_training(&self) -> Result<()> {
        let needed = self.count().saturating_mul(4 * TRAINING_COPIES);
        match process::machine_memory() {
            Some(memory) if needed > u128::from(memory) => Err(self.too_large(needed, memory)),
            _ => Ok(()),
        }
    }

    fn too_large(&self, needed: u128, memory: u64) -> Error {
        let gigabytes = |bytes: u128| bytes as f64 / 1e9;
        let largest = self.found.iter().max_by_key(|(_, shape)| elements(shape));
        let largest = largest.map_or(String::new(), |(name, shape)| {
            format!(" The largest is {name} with shape {shape:?}.")
        });
        Error::Config(format!(
            "the model has {} parameters, and training needs {:.1} GB for them, their gradients and the optimizer; this machine \
             has {:.1} GB of memory.{largest} Choose a smaller encoder, or smaller sizes in [encoder.scratch] and [head]",
            self.count(),
            gigabytes(needed),
            gigabytes(u128::from(memory)),
        ))
    }

    /// Fails unless a weight file has exactly these parameters, with these shapes, and all of its values are numbers.
    pub fn check_file(&self, path: &Path) -> Result<()> {
        let fail = |problem: String| Error::model_folder(path, problem);
        let (mut file, metadata) = weights_file::open(path)?;
        let tensors = metadata.tensors();
        let mut problems = Vec::new();
        for (name, shape) in &self.found {
            match tensors.get(name) {
                None => problems.push(format!("{name} is missing")),
                Some(tensor) if tensor.shape != *shape => problems.push(format!(
                    "{name} has shape {:?}, but config.json needs {shape:?}",
                    tensor.shape
                )),
                Some(tensor) if !is_float(tensor.dtype) => {
                    problems.push(format!("{name} has values of type {:?}", tensor.dtype));
                }
                Some(_) => {}
            }
        }
        let unknown = tensors
            .keys()
            .filter(|name| !self.found.contains_key(*name));
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
        check_values(&mut file, &metadata, path)
    }
}

fn is_float(kind: Dtype) -> bool {
    burn_type(kind).is_some()
}

/// Fails if a value is NaN or infinite. The values come next in the file.
fn check_values(file: &mut File, metadata: &Metadata, path: &Path) -> Result<()> {
    let io = |source| Error::io(path, source);
    let mut tensors: Vec<_> = metadata.tensors().into_iter().collect();
    tensors.sort_by_key(|(_, tensor)| tensor.data_offsets);
    let mut buffer = vec![0u8; 1 << 18];
    for (name, tensor) in tensors {
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
            left -= count;
        }
    }
    Ok(())
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
    fn huge_models_are_refused_without_being_allocated() {
        let shapes = Shapes::of(&model(1 << 30, 1 << 30));
        assert_eq!(shapes.count(), (1 << 60) + (1 << 30));
        let problem = shapes.check_training().unwrap_err().to_string();
        assert!(
            problem.contains("weight") && problem.contains("GB"),
            "{problem}"
        );
        Shapes::of(&model(10, 10)).check_training().unwrap();
    }

    #[test]
    fn files_that_do_not_fit_are_explained() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        let shapes = Shapes::of(&model(2, 1));
        let refused = |what: &str| {
            let problem = shapes.check_file(&path).unwrap_err().to_string();
            assert!(problem.contains(what), "{what}: {problem}");
        };
        refused("cannot access");
        let weight = ("weight", &[2, 1][..], Dtype::F32, floats(&[1.0, 2.0]));
        let bias = ("bias", &[1][..], Dtype::F32, floats(&[0.5]));
        write(&path, &[weight.clone(), bias.clone()]);
        shapes.check_file(&path).unwrap();
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
        shapes.check_file(&path).unwrap();

        write(&path, &[weight, bias]);
        let good = std::fs::read(&path).unwrap();
        for length in 0..good.len() {
            std::fs::write(&path, &good[..length]).unwrap();
            assert!(shapes.check_file(&path).is_err(), "{length} bytes");
        }
        let mut claim = good.clone();
        claim[..8].copy_from_slice(&10_000_000_000u64.to_le_bytes());
        std::fs::write(&path, &claim).unwrap();
        refused("claims 10000000000 bytes");
        std::fs::write(&path, [good, vec![0]].concat()).unwrap();
        refused("there are 13");
    }
}
