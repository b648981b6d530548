//! The tensors of weight files: safetensors, also distributed over several files, and state dicts of PyTorch.
//!
//! Nothing in a file is executed, and sizes are checked before values are read.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use burn::store::burn_pack::{Error as PackError, Tensor as PackTensor};
use burn::store::{ModuleStore, SafetensorsStore};
use burn::tensor::TensorData;
use serde_json::Value;

use super::load::LARGEST_CONFIG;
use crate::error::{Error, Result};
use crate::files::{open_regular, read_text};
use crate::nn::host::{HostArray, are_finite};

/// How many times the bytes of a file its tensors may have together: names that share their values count each.
const MOST_SHARING: u128 = 4;

/// Name of the list of files over which weights are distributed.
pub(super) const INDEX: &str = "model.safetensors.index.json";

/// All floating-point tensors of a file of PyTorch or of safetensors. Nothing in the file is executed.
pub fn file_weights(path: &Path) -> Result<BTreeMap<String, HostArray>> {
    host_arrays(file_tensors(path)?, |_| true, path)
}

/// The tensors of a folder, and the file that errors are about. Values are read later.
pub(super) fn folder_tensors(folder: &Path) -> Result<(Vec<PackTensor>, PathBuf)> {
    let safetensors = folder.join("model.safetensors");
    let pytorch = folder.join("pytorch_model.bin");
    let index = folder.join(INDEX);
    if safetensors.is_file() {
        let mut store = SafetensorsStore::from_file(&safetensors);
        Ok((read(&mut store, &safetensors)?, safetensors))
    } else if index.is_file() {
        let mut tensors = Vec::new();
        for file in distributed(&index)? {
            let path = folder.join(file);
            open_regular(&path)?;
            tensors.extend(read(&mut SafetensorsStore::from_file(&path), &path)?);
        }
        Ok((tensors, index))
    } else if pytorch.is_file() {
        Ok((pytorch_tensors(&pytorch)?, pytorch))
    } else {
        Err(Error::encoder(
            folder,
            "this folder has neither model.safetensors nor pytorch_model.bin; download one of them from the model's page",
        ))
    }
}

/// The tensors of a file of PyTorch or of safetensors, told apart by their first bytes. Values are read later.
fn file_tensors(path: &Path) -> Result<Vec<PackTensor>> {
    let mut start = [0; 9];
    let count = open_regular(path)?.read(&mut start);
    let count = count.map_err(|problem| Error::io(path, problem))?;
    // A header of safetensors is JSON behind its length.
    if count == start.len() && start[8] == b'{' {
        read(&mut SafetensorsStore::from_file(path), path)
    } else {
        pytorch_tensors(path)
    }
}

/// The values of tensors by name, as single-precision floats. Integers are no weights and are left out.
pub(super) fn host_arrays(
    tensors: Vec<PackTensor>,
    is_wanted: impl Fn(&str) -> bool,
    path: &Path,
) -> Result<BTreeMap<String, HostArray>> {
    let fail = |name: &str, problem: String| Error::encoder(path, format!("{name}: {problem}"));
    let mut arrays = BTreeMap::new();
    let is_weight = |tensor: &PackTensor| tensor.dtype.is_float() && is_wanted(&tensor.name);
    for tensor in tensors.into_iter().filter(is_weight) {
        let (name, dtype, shape, _, bytes) =
            (tensor.into_parts()).map_err(|problem| Error::encoder(path, problem.to_string()))?;
        let shape = shape.to_vec();
        let elements = shape
            .iter()
            .try_fold(1_usize, |all, size| all.checked_mul(*size));
        if elements.and_then(|count| count.checked_mul(dtype.size())) != Some(bytes.len()) {
            return Err(fail(
                &name,
                "its values do not fit its shape; do not use this file".into(),
            ));
        }
        let values = TensorData::from_bytes(bytes, shape.clone(), dtype);
        let values = values.convert::<f32>().try_into_vec();
        let values = values.map_err(|problem| fail(&name, format!("{problem:?}")))?;
        arrays.insert(name, HostArray { shape, values });
    }
    Ok(arrays)
}

/// The files that an index lists, which are beside it.
fn distributed(index: &Path) -> Result<BTreeSet<String>> {
    let text = read_text(index, LARGEST_CONFIG)?;
    let json: Value = serde_json::from_str(&text)
        .map_err(|problem| Error::encoder(index, format!("not JSON: {problem}")))?;
    let files: Option<BTreeSet<String>> = json["weight_map"].as_object().and_then(|map| {
        let names = map.values().map(|file| file.as_str().map(String::from));
        names.collect()
    });
    let is_name = |file: &String| !file.contains(['/', '\\', ':']) && file != "..";
    match files {
        Some(files) if !files.is_empty() && files.iter().all(is_name) => Ok(files),
        _ => Err(Error::encoder(
            index,
            "`weight_map` does not map tensors to files beside it; download the file again",
        )),
    }
}

#[cfg(feature = "train")]
fn pytorch_tensors(path: &Path) -> Result<Vec<PackTensor>> {
    // By default this store renumbers lists without gaps, so a missing layer would be replaced by the next one.
    let mut store = burn::store::PytorchStore::from_file(path).map_indices_contiguous(false);
    read(&mut store, path)
}

/// Without the feature `train`, the reader of PyTorch's files is not compiled: model folders hold safetensors.
#[cfg(not(feature = "train"))]
fn pytorch_tensors(path: &Path) -> Result<Vec<PackTensor>> {
    Err(Error::encoder(
        path,
        "files of PyTorch are read only by builds with the Cargo feature `train`; convert it to model.safetensors, or build \
         with the feature",
    ))
}

/// All tensors of a file.
pub(super) fn read<S: ModuleStore>(store: &mut S, path: &Path) -> Result<Vec<PackTensor>>
where
    S::Error: std::fmt::Display,
{
    let tensors = store.get_all_tensors();
    let tensors = tensors.map_err(|problem| Error::encoder(path, problem.to_string()))?;
    let tensors: Vec<PackTensor> = tensors.values().cloned().collect();
    check_sizes(&tensors, path)?;
    Ok(tensors.into_iter().map(finite).collect())
}

/// The tensor, whose values fail to load if one of them is NaN or infinite.
fn finite(tensor: PackTensor) -> PackTensor {
    let (name, dtype, shape) = (tensor.name.clone(), tensor.dtype, tensor.shape.clone());
    let (id, size) = (tensor.param_id, tensor.byte_len());
    PackTensor::deferred(name.clone(), dtype, shape, id, size, move || {
        let bytes = tensor.to_bytes()?;
        if are_finite(&bytes, dtype) {
            Ok(bytes)
        } else {
            Err(PackError::ValidationError(format!(
                "{name} has a value that is not a finite number; the weights are unusable"
            )))
        }
    })
}

/// Fails if a tensor claims more bytes than its file has. A file of PyTorch can say of a few bytes that they are a tensor of any
/// size. Values are read later.
fn check_sizes(tensors: &[PackTensor], path: &Path) -> Result<()> {
    let Ok(file) = path.metadata() else {
        return Ok(()); // weights in memory
    };
    let mut total = 0_u128;
    for tensor in tensors {
        let sizes = tensor.shape.iter().map(|size| *size as u128);
        let bytes = sizes.fold(tensor.dtype.size() as u128, u128::saturating_mul);
        total = total.saturating_add(bytes);
        if bytes > u128::from(file.len()) {
            return Err(Error::encoder(
                path,
                format!(
                    "{} claims {bytes} bytes, but the file has {}; do not use it",
                    tensor.name,
                    file.len()
                ),
            ));
        }
    }
    // Names may share their values, but not without limit.
    if total > u128::from(file.len()) * MOST_SHARING {
        return Err(Error::encoder(
            path,
            format!(
                "its tensors claim {total} bytes, more than {MOST_SHARING} times the {} of the file; do not use it",
                file.len()
            ),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_lists_files_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(INDEX);
        let listed = |weight_map: Value| {
            let index =
                serde_json::json!({"metadata": {"total_size": 8}, "weight_map": weight_map});
            std::fs::write(&path, index.to_string()).unwrap();
            distributed(&path)
        };
        let two = serde_json::json!({"a": "model-2.safetensors", "b": "model-1.safetensors", "c": "model-2.safetensors"});
        let files: Vec<String> = listed(two).unwrap().into_iter().collect();
        assert_eq!(files, ["model-1.safetensors", "model-2.safetensors"]);
        for bad in [
            serde_json::json!({"a": "../model.safetensors"}),
            serde_json::json!({"a": "/etc/passwd"}),
            serde_json::json!({"a": "c:\\x"}),
            serde_json::json!({"a": ".."}),
            serde_json::json!({"a": 1}),
            serde_json::json!({}),
            serde_json::json!(null),
        ] {
            let problem = listed(bad).unwrap_err().to_string();
            assert!(problem.contains("weight_map"), "{problem}");
        }
    }
}
