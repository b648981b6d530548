//! Reads single tensors of a safetensors file, and a model's weights from them.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Tensor, TensorData, bf16, f16};
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};

use super::quantize::{Quantization, TRANSFORMER, kind, scale_name};
use super::recognizer::Recognizer;
use super::weights_file;
use crate::encoder::transformer::{Int8Kind, Int8Source};
use crate::error::{Error, Result};
use crate::heads::Head;
use crate::nn::fused::int8::{Int8Embedding, QuantizeError, QuantizedWeight};

/// Bytes that are read at a time.
const BUFFER: usize = 1 << 18;

/// The bits of the exponent of an f32, which are all ones in NaN and infinity.
const EXPONENT: u32 = 0x7f80_0000;

/// An open safetensors file.
pub struct WeightsReader {
    file: File,
    path: PathBuf,
    metadata: Metadata,
    /// Where the tensors start in the file.
    start: u64,
}

impl WeightsReader {
    /// Opens a file and checks its header.
    pub fn open(path: &Path) -> Result<Self> {
        let (mut file, metadata) = weights_file::open(path)?;
        let start = (file.stream_position()).map_err(|source| Error::io(path, source))?;
        Ok(Self {
            file,
            path: path.to_path_buf(),
            metadata,
            start,
        })
    }

    /// What the header says.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Fails with what is wrong with a tensor.
    fn refuse(&self, name: &str, problem: impl std::fmt::Display) -> Error {
        Error::model_folder(
            &self.path,
            format!("{name}: {problem}; do not use this file"),
        )
    }

    fn info(&self, name: &str) -> Result<TensorInfo> {
        let found = self.metadata.info(name).cloned();
        found.ok_or_else(|| self.refuse(name, "it is missing"))
    }

    /// Calls `take` with the bytes of a tensor, a part at a time. The sizes of parts but the last are multiples of 8.
    fn each_part(&mut self, info: &TensorInfo, mut take: impl FnMut(&[u8])) -> Result<()> {
        let (first, end) = info.data_offsets;
        let mut left = end - first;
        let mut buffer = vec![0u8; left.min(BUFFER)];
        let from = SeekFrom::Start(self.start + first as u64);
        let io = |source| Error::io(&self.path, source);
        self.file.seek(from).map_err(io)?;
        while left > 0 {
            let part = &mut buffer[..left.min(BUFFER)];
            self.file.read_exact(part).map_err(io)?;
            take(part);
            left -= part.len();
        }
        Ok(())
    }

    /// The values of a tensor of any float type as f32. A value that is not finite is an error.
    pub fn floats(&mut self, name: &str) -> Result<Vec<f32>> {
        let info = self.info(name)?;
        let mut values = Vec::with_capacity(info.shape.iter().product());
        let (mut is_finite, mut is_float) = (true, true);
        self.each_part(&info, |part| {
            let first = values.len();
            is_float &= extend_with_floats(&mut values, part, info.dtype);
            is_finite &= !values[first..].iter().fold(false, |found, value| {
                found | (value.to_bits() & EXPONENT == EXPONENT)
            });
        })?;
        if !is_float {
            return Err(self.refuse(name, format!("its values are of type {:?}", info.dtype)));
        }
        if !is_finite {
            return Err(Error::model_folder(
                &self.path,
                format!("{name} has a value that is not a finite number; the model is unusable"),
            ));
        }
        Ok(values)
    }

    /// The values of a tensor of type I8.
    fn integers(&mut self, name: &str) -> Result<(Vec<i8>, Vec<usize>)> {
        let info = self.info(name)?;
        if info.dtype != Dtype::I8 {
            let problem = format!("its values are of type {:?}, not I8", info.dtype);
            return Err(self.refuse(name, problem));
        }
        let mut values = Vec::with_capacity(info.shape.iter().product());
        self.each_part(&info, |part| {
            values.extend(part.iter().map(|byte| *byte as i8));
        })?;
        Ok((values, info.shape))
    }

    fn weight(&mut self, name: &str) -> Result<QuantizedWeight> {
        let (values, _) = self.integers(name)?;
        let scales = scale_name(name);
        let stored = QuantizedWeight::from_stored(values, self.floats(&scales)?);
        stored.map_err(|problem| self.refuse(&scales, problem))
    }

    fn embedding(&mut self, name: &str) -> Result<Int8Embedding> {
        let (values, shape) = self.integers(name)?;
        let scales = scale_name(name);
        let width = shape.last().copied().unwrap_or(0);
        let stored = Int8Embedding::from_stored(values, self.floats(&scales)?, width);
        stored.map_err(|problem| self.refuse(&scales, problem))
    }
}

impl Int8Source for WeightsReader {
    fn weight(&mut self, name: &str) -> Result<QuantizedWeight> {
        self.weight(&format!("{TRANSFORMER}{name}"))
    }

    fn embedding(&mut self, name: &str) -> Result<Int8Embedding> {
        self.embedding(&format!("{TRANSFORMER}{name}"))
    }

    fn refuse(&self, name: &str, problem: QuantizeError) -> Error {
        self.refuse(&format!("{TRANSFORMER}{name}"), problem)
    }
}

/// The values of bytes of any float type; `None` if they are of another type.
pub(super) fn to_floats(bytes: &[u8], kind: Dtype) -> Option<Vec<f32>> {
    let mut values = Vec::new();
    extend_with_floats(&mut values, bytes, kind).then_some(values)
}

/// Adds the values of bytes of any float type. Returns false if they are of another type.
fn extend_with_floats(values: &mut Vec<f32>, bytes: &[u8], kind: Dtype) -> bool {
    let pairs = bytes.chunks_exact(2);
    match kind {
        Dtype::F32 => values.extend(
            bytes
                .chunks_exact(4)
                .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])),
        ),
        Dtype::F16 => values.extend(pairs.map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32())),
        Dtype::BF16 => values.extend(pairs.map(|b| bf16::from_le_bytes([b[0], b[1]]).to_f32())),
        Dtype::F64 => {
            values.extend(bytes.chunks_exact(8).map(|b| {
                f64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]) as f32
            }))
        }
        _ => return false,
    }
    true
}

/// Loads weights into a new model for prediction. The header of the file has to fit the model, see
/// [`Shapes::check_header`](super::parameters::Shapes::check_header). Weights in eight bits are used as they are on the CPU,
/// and widened to f32 on other devices and with autodiff.
pub fn load<H: Head>(
    model: Recognizer<H>,
    mut reader: WeightsReader,
    quantization: Option<Quantization>,
) -> Result<Recognizer<H>> {
    let is_quantized = quantization.is_some();
    let keeps_int8 = is_quantized && model.encoder.transformer.supports_int8();
    let mut loader = WeightsLoader {
        reader: &mut reader,
        is_quantized,
        keeps_int8,
        path: Vec::new(),
        problem: None,
    };
    let mut model = model.map(&mut loader);
    if let Some(problem) = loader.problem {
        return Err(problem);
    }
    if keeps_int8 {
        model.encoder.transformer.set_int8(&mut reader)?;
    }
    Ok(model)
}

/// Replaces every parameter of a model by the values of a file.
struct WeightsLoader<'a> {
    reader: &'a mut WeightsReader,
    is_quantized: bool,
    /// True if parameters in eight bits are left out.
    keeps_int8: bool,
    path: Vec<String>,
    problem: Option<Error>,
}

impl WeightsLoader<'_> {
    fn read(&mut self, name: &str) -> Result<Vec<f32>> {
        match kind(name).filter(|_| self.is_quantized) {
            None => self.reader.floats(name),
            Some(Int8Kind::Linear) => Ok(self.reader.weight(name)?.widen()),
            Some(Int8Kind::Embedding) => Ok(self.reader.embedding(name)?.widen()),
        }
    }
}

impl ModuleMapper for WeightsLoader<'_> {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.into());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let name = self.path.join(".");
        if self.problem.is_some() || self.keeps_int8 && kind(&name).is_some() {
            return param;
        }
        let shape = param.lazy_shape();
        match self.read(&name) {
            Ok(values) if values.len() == shape.num_elements() => {
                let values = TensorData::new(values, shape);
                let tensor = Tensor::from_data(values, &param.lazy_device());
                Param::initialized(param.id, tensor)
            }
            Ok(_) => {
                self.problem = Some(self.reader.refuse(&name, "it has another shape"));
                param
            }
            Err(problem) => {
                self.problem = Some(problem);
                param
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use safetensors::tensor::TensorView;

    fn reader(folder: &Path, tensors: &[(&str, Dtype, Vec<usize>, Vec<u8>)]) -> WeightsReader {
        let path = folder.join("model.safetensors");
        let views = (tensors.iter())
            .map(|(name, kind, shape, data)| (name, TensorView::new(*kind, shape.clone(), data)))
            .map(|(name, view)| (name, view.unwrap()));
        safetensors::serialize_to_file(views, None, &path).unwrap();
        WeightsReader::open(&path).unwrap()
    }

    fn bytes<const N: usize>(values: impl IntoIterator<Item = [u8; N]>) -> Vec<u8> {
        values.into_iter().flatten().collect()
    }

    #[test]
    fn floats_of_any_type_are_read_and_must_be_finite() {
        let folder = tempfile::tempdir().unwrap();
        // More than is read at a time.
        let many: Vec<f32> = (0..BUFFER / 3).map(|n| n as f32 * 0.5 - 7.0).collect();
        let values = [1.5, -2.0, 0.25];
        let mut broken = many.clone();
        broken[BUFFER / 4 + 1] = f32::NEG_INFINITY;
        let all32 = |values: &[f32]| bytes(values.iter().map(|value| value.to_le_bytes()));
        let of = |kind: Dtype| match kind {
            Dtype::F16 => bytes(values.map(|value| f16::from_f64(value).to_le_bytes())),
            Dtype::BF16 => bytes(values.map(|value| bf16::from_f64(value).to_le_bytes())),
            _ => bytes(values.map(f64::to_le_bytes)),
        };
        let mut reader = reader(
            folder.path(),
            &[
                ("many", Dtype::F32, vec![many.len()], all32(&many)),
                ("broken", Dtype::F32, vec![broken.len()], all32(&broken)),
                ("f16", Dtype::F16, vec![3], of(Dtype::F16)),
                ("bf16", Dtype::BF16, vec![3], of(Dtype::BF16)),
                ("f64", Dtype::F64, vec![3], of(Dtype::F64)),
                ("huge", Dtype::F64, vec![1], bytes([1e300f64.to_le_bytes()])),
                ("empty", Dtype::F32, vec![0], Vec::new()),
                ("whole", Dtype::I64, vec![1], vec![0; 8]),
            ],
        );
        assert_eq!(reader.floats("many").unwrap(), many);
        for kind in ["f16", "bf16", "f64"] {
            assert_eq!(reader.floats(kind).unwrap(), [1.5, -2.0, 0.25], "{kind}");
        }
        assert!(reader.floats("empty").unwrap().is_empty());
        for (name, part) in [
            ("broken", "not a finite number"),
            ("huge", "not a finite number"),
            ("whole", "type I64"),
            ("none", "missing"),
        ] {
            let problem = reader.floats(name).unwrap_err().to_string();
            assert!(
                problem.contains(part) && problem.contains(name),
                "{problem}"
            );
        }
    }

    #[test]
    fn matrices_in_eight_bits_are_read_with_their_scales() {
        let folder = tempfile::tempdir().unwrap();
        let values = vec![127, 0x81, 0, 1, 2, 3]; // 0x81 is -127
        let scales = |values: &[f32]| bytes(values.iter().map(|value| value.to_le_bytes()));
        let mut reader = reader(
            folder.path(),
            &[
                ("a", Dtype::I8, vec![2, 3], values.clone()),
                ("a_scale", Dtype::F32, vec![3], scales(&[1.0, 0.5, 0.0])),
                ("b", Dtype::I8, vec![2, 3], values),
                ("b_scale", Dtype::F32, vec![2], scales(&[1.0, -1.0])),
            ],
        );
        let weight = reader.weight("a").unwrap();
        assert_eq!(weight.widen(), [127.0, -63.5, 0.0, 1.0, 1.0, 0.0]);
        let problem = reader.embedding("b").unwrap_err().to_string();
        assert!(problem.contains("b_scale: scale 1 is -1"), "{problem}");
        assert!(
            reader
                .weight("a_scale")
                .unwrap_err()
                .to_string()
                .contains("not I8")
        );
    }
}
