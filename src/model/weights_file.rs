//! A safetensors file of weights: its header, read without the tensors, and the same weights in fewer bits.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use burn::tensor::f16;
use safetensors::tensor::{Dtype, Metadata, TensorView};
use safetensors::{SafeTensors, View};

use crate::error::{Error, Result};
use crate::files::open_regular;

/// Longest header that is read, in bytes. That of a large encoder has less than a megabyte.
const LONGEST_HEADER: u64 = 64 << 20;

/// What the header of a safetensors file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightsInfo {
    /// Number of tensors.
    pub tensors: usize,
    /// Number of values in all tensors.
    pub values: u64,
    /// The number type of most values, such as `f32` or `f16`.
    pub precision: String,
}

/// Opens a file and reads its header, which is checked: its length, and that the tensors fill the rest of the file exactly.
/// Nothing is allocated for a length that the file does not have. The values come next in the file.
pub fn open(path: &Path) -> Result<(File, Metadata)> {
    let fail =
        |problem: String| Error::model_folder(path, format!("{problem}; do not use this file"));
    let io = |source| Error::io(path, source);
    let mut file = open_regular(path)?;
    let length = file.metadata().map_err(io)?.len();
    let mut start = [0; 8];
    if length < 8 {
        return Err(fail(format!(
            "{length} bytes are too few for a safetensors file"
        )));
    }
    file.read_exact(&mut start).map_err(io)?;
    let claimed = u64::from_le_bytes(start);
    if claimed > LONGEST_HEADER || claimed > length - 8 {
        return Err(fail(format!(
            "its header claims {claimed} bytes, but the file has {length} and a header at most {LONGEST_HEADER}"
        )));
    }
    let mut header = Vec::new();
    (file.by_ref().take(claimed).read_to_end(&mut header)).map_err(io)?;
    let metadata: Metadata = serde_json::from_slice(&header)
        .map_err(|problem| fail(format!("not a safetensors header: {problem}")))?;
    let described = metadata.data_len() as u64;
    if described != length - 8 - claimed {
        return Err(fail(format!(
            "its tensors need {described} bytes, but there are {}",
            length - 8 - claimed
        )));
    }
    Ok((file, metadata))
}

/// Reads what the header says.
pub fn read(path: &Path) -> Result<WeightsInfo> {
    let (_, metadata) = open(path)?;
    let mut values: BTreeMap<String, u64> = BTreeMap::new();
    let tensors = metadata.tensors();
    for tensor in tensors.values() {
        let count: u64 = tensor.shape.iter().map(|size| *size as u64).product();
        *values
            .entry(format!("{:?}", tensor.dtype).to_lowercase())
            .or_default() += count;
    }
    let most = values.iter().max_by_key(|(_, count)| **count);
    Ok(WeightsInfo {
        tensors: tensors.len(),
        values: values.values().sum(),
        precision: most.map_or_else(|| "none".into(), |(name, _)| name.clone()),
    })
}

/// Writes the weights of a file with all 32-bit floats as 16-bit ones; other tensors stay as they are.
pub fn write_half(source: &Path, target: &Path) -> Result<()> {
    let fail = |problem: String| Error::model_folder(source, problem);
    read(source)?;
    let bytes = fs::read(source).map_err(|problem| Error::io(source, problem))?;
    let weights = SafeTensors::deserialize(&bytes).map_err(|problem| fail(problem.to_string()))?;
    let mut tensors = Vec::new();
    for (name, view) in weights.tensors() {
        if view.dtype() == Dtype::I8 {
            return Err(fail(format!(
                "{name} is in eight bits already, which are fewer; publish it without --half"
            )));
        }
        let floats = view.data().chunks_exact(4).map(float);
        if view.dtype() == Dtype::F32
            && let Some(value) = floats
                .clone()
                .find(|value| value.is_finite() && f16::from_f32(*value).is_infinite())
        {
            return Err(fail(format!(
                "{name} has the value {value}, too large for half precision; publish it without --half"
            )));
        }
        tensors.push((name, HalfView(view)));
    }
    safetensors::serialize_to_file(tensors, None, target)
        .map_err(|problem| Error::model_folder(target, problem.to_string()))
}

/// The float of four bytes.
fn float(bytes: &[u8]) -> f32 {
    f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// A tensor that is written with 16-bit floats if it has 32-bit ones.
struct HalfView<'a>(TensorView<'a>);

impl View for HalfView<'_> {
    fn dtype(&self) -> Dtype {
        match self.0.dtype() {
            Dtype::F32 => Dtype::F16,
            other => other,
        }
    }

    fn shape(&self) -> &[usize] {
        self.0.shape()
    }

    fn data(&self) -> Cow<'_, [u8]> {
        let data = self.0.data();
        if self.0.dtype() != Dtype::F32 {
            return Cow::Borrowed(data);
        }
        let halves = data
            .chunks_exact(4)
            .map(|bytes| f16::from_f32(float(bytes)));
        Cow::Owned(halves.flat_map(f16::to_le_bytes).collect())
    }

    fn data_len(&self) -> usize {
        let length = self.0.data().len();
        if self.0.dtype() == Dtype::F32 {
            length / 2
        } else {
            length
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_in_half_the_bits() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
        let values = [1.0f32, -2.5, 1e-3, 65504.0];
        let data: Vec<u8> = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        let view = |data| TensorView::new(Dtype::F32, vec![2, 2], data).unwrap();
        let whole = TensorView::new(Dtype::I64, vec![1], &data[..8]).unwrap();
        fs::write(
            &one,
            safetensors::serialize([("a", view(&data)), ("n", whole)], None).unwrap(),
        )
        .unwrap();
        write_half(&one, &two).unwrap();
        assert_eq!(read(&two).unwrap().precision, "f16");
        let bytes = fs::read(&two).unwrap();
        let found = SafeTensors::deserialize(&bytes).unwrap();
        let halves = found.tensor("a").unwrap();
        let halves = halves
            .data()
            .chunks_exact(2)
            .map(|pair| f16::from_le_bytes([pair[0], pair[1]]).to_f32());
        for (half, value) in halves.zip(values) {
            assert!((half - value).abs() <= 1e-3 * value.abs(), "{half} {value}");
        }
        assert_eq!(found.tensor("n").unwrap().data(), &data[..8]);
        let large: Vec<u8> = [1.0f32, 2.0, 3.0, 1e6]
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        fs::write(
            &one,
            safetensors::serialize([("a", view(&large))], None).unwrap(),
        )
        .unwrap();
        let problem = write_half(&one, &two).unwrap_err().to_string();
        assert!(problem.contains("a has the value 1000000"), "{problem}");
    }

    fn problem(bytes: &[u8]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        std::fs::write(&path, bytes).unwrap();
        read(&path).unwrap_err().to_string()
    }

    #[test]
    fn headers_are_read_and_false_claims_refused() {
        let data = [0u8; 24];
        let tensors = [
            (
                "a",
                TensorView::new(Dtype::F32, vec![2, 2], &data[..16]).unwrap(),
            ),
            (
                "b",
                TensorView::new(Dtype::F16, vec![4], &data[..8]).unwrap(),
            ),
        ];
        let bytes = safetensors::serialize(tensors, None).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        std::fs::write(&path, &bytes).unwrap();
        let info = read(&path).unwrap();
        assert_eq!((info.tensors, info.values), (2, 8));
        let mut huge = bytes.clone();
        huge[..8].copy_from_slice(&10_000_000_000u64.to_le_bytes());
        assert!(problem(&huge).contains("claims 10000000000 bytes"));
        huge[..8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(problem(&huge).contains("claims"));
        assert!(
            problem(&bytes[..bytes.len() - 1])
                .contains("its tensors need 24 bytes, but there are 23")
        );
        assert!(problem(&[bytes.as_slice(), b"x"].concat()).contains("there are 25"));
        assert!(problem(b"1234").contains("too few"));
        let header =
            br#"{"a":{"dtype":"F32","shape":[4611686018427387904,8],"data_offsets":[0,0]}}"#;
        let mut overflow = (header.len() as u64).to_le_bytes().to_vec();
        overflow.extend(header);
        assert!(problem(&overflow).contains("not a safetensors header"));
    }
}
