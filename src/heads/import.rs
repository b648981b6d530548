//! Converting weights of other programs: reading, renaming and rearranging arrays, bytes in and bytes out.
//!
//! The names and layouts of each paper's program are in `import.rs` of its folder.

use std::collections::BTreeMap;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use crate::error::{Error, Result};
use crate::nn::host::HostArray;
use crate::text::Labels;

/// The weights of another program under our names, as the bytes of safetensors files.
#[derive(Debug, Clone)]
pub struct Imported {
    /// The encoder's weights, under Hugging Face names.
    pub encoder: Vec<u8>,
    /// The head's weights.
    pub head: Vec<u8>,
    /// The weights of [`WordFeatures`](crate::encoder::features::WordFeatures), if the program has such.
    pub features: Option<Vec<u8>>,
}

/// A head made of the weights of another program.
#[derive(Debug, Clone)]
pub struct ImportedHead<C> {
    /// Its settings.
    pub config: C,
    /// The entity types.
    pub labels: Labels,
    /// Its weights under our names, as the bytes of a safetensors file.
    pub weights: Vec<u8>,
}

/// How the layout of a parameter in another program differs from ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Not at all.
    Same,
    /// The weight of a PyTorch linear layer or 1×1 convolution: [out, in] there, [in, out] here.
    Transposed,
}

/// One row of a table of parameters: the name in the other program, our name, and the layout.
pub type Rename = (&'static str, &'static str, Layout);

/// An error about the weights to import.
pub(super) fn problem(message: String) -> Error {
    Error::Config(format!("the imported weights: {message}"))
}

/// Arrays by parameter name.
#[derive(Debug, Default)]
pub(super) struct Arrays(pub(super) BTreeMap<String, HostArray>);

impl Arrays {
    /// All arrays of a safetensors file.
    pub(super) fn read(bytes: &[u8]) -> Result<Self> {
        Self::read_except(bytes, |_| false)
    }

    /// The arrays of a safetensors file except those to skip.
    pub(super) fn read_except(bytes: &[u8], skip: impl Fn(&str) -> bool) -> Result<Self> {
        let tensors =
            SafeTensors::deserialize(bytes).map_err(|error| problem(error.to_string()))?;
        let mut arrays = BTreeMap::new();
        for (name, view) in tensors.tensors() {
            if skip(&name) {
                continue;
            }
            if view.dtype() != Dtype::F32 {
                return Err(problem(format!("{name} is not in single precision (F32)")));
            }
            let (chunks, _) = view.data().as_chunks::<4>();
            let array = HostArray {
                shape: view.shape().to_vec(),
                values: (chunks.iter())
                    .map(|bytes| f32::from_le_bytes(*bytes))
                    .collect(),
            };
            arrays.insert(name, array);
        }
        Ok(Self(arrays))
    }

    /// Weights of a checkpoint. Without a common prefix `module.`, which PyTorch adds for training on several devices. An
    /// array without values is an error.
    pub(super) fn of(weights: BTreeMap<String, HostArray>) -> Result<Self> {
        const PARALLEL: &str = "module.";
        if let Some((name, _)) = weights
            .iter()
            .find(|(_, array)| array.values.is_empty() || array.shape.is_empty())
        {
            return Err(problem(format!("{name} has no values")));
        }
        let mut all = Self(weights);
        if all.0.keys().all(|name| name.starts_with(PARALLEL)) {
            all = all.split(PARALLEL);
        }
        Ok(all)
    }

    /// The arrays as a safetensors file.
    pub(super) fn write(&self) -> Result<Vec<u8>> {
        let bytes: BTreeMap<&String, Vec<u8>> = self
            .0
            .iter()
            .map(|(name, array)| {
                let bytes = array.values.iter().flat_map(|value| value.to_le_bytes());
                (name, bytes.collect())
            })
            .collect();
        let mut views = Vec::new();
        for (name, bytes) in &bytes {
            let view = TensorView::new(Dtype::F32, self.0[*name].shape.clone(), bytes)
                .map_err(|error| problem(format!("{name}: {error}")))?;
            views.push((name.as_str(), view));
        }
        safetensors::serialize(views, None).map_err(|error| problem(error.to_string()))
    }

    /// Removes the arrays whose names start with a prefix, and returns them under their names without it.
    pub(super) fn split(&mut self, prefix: &str) -> Self {
        let (matching, others) = std::mem::take(&mut self.0)
            .into_iter()
            .partition(|(name, _)| name.starts_with(prefix));
        self.0 = others;
        let matching: BTreeMap<String, HostArray> = matching;
        Self(
            matching
                .into_iter()
                .map(|(name, array)| (name[prefix.len()..].to_string(), array))
                .collect(),
        )
    }

    /// Removes the arrays listed in a table, and returns them under our names and in our layout.
    pub(super) fn renamed(&mut self, table: &[Rename]) -> Self {
        let mut found = Self::default();
        for (theirs, ours, layout) in table {
            if let Some(array) = self.0.remove(*theirs) {
                let array = match layout {
                    Layout::Same => array,
                    Layout::Transposed => array.transposed(),
                };
                found.0.insert(ours.to_string(), array);
            }
        }
        found
    }

    /// Inserts the query, key and value projections that PyTorch's attention keeps in one array.
    pub(super) fn insert_attention_inputs(&mut self, array: HostArray, to: &str, is_weight: bool) {
        let third = array.values.len() / 3;
        let end = if is_weight { "weight" } else { "bias" };
        for (name, values) in ["query", "key", "value"]
            .iter()
            .zip(array.values.chunks(third.max(1)))
        {
            let mut shape = array.shape.clone();
            shape[0] /= 3;
            let part = HostArray {
                shape,
                values: values.to_vec(),
            };
            let part = if is_weight { part.transposed() } else { part };
            self.0.insert(format!("{to}.{name}.{end}"), part);
        }
    }

    /// Removes and returns an array that must be there.
    pub(super) fn take(&mut self, name: &str) -> Result<HostArray> {
        self.0
            .remove(name)
            .ok_or_else(|| problem(format!("{name} is missing")))
    }

    /// Moves a layer of a PyTorch BiLSTM to `into`: both directions in one array, the two biases added.
    pub(super) fn move_bilstm(
        &mut self,
        from: &str,
        layer: usize,
        to: &str,
        into: &mut Self,
    ) -> Result<()> {
        let (input, recurrent, bias) = self.lstm_direction(from, layer, "")?;
        let (input_back, recurrent_back, bias_back) =
            self.lstm_direction(from, layer, "_reverse")?;
        let gates = bias.len();
        let rows = input
            .values
            .chunks(gates)
            .zip(input_back.values.chunks(gates));
        into.0.insert(
            format!("{to}input.weight"),
            HostArray {
                shape: vec![input.shape[0], 2 * gates],
                values: rows
                    .flat_map(|(forward, back)| [forward, back].concat())
                    .collect(),
            },
        );
        into.0.insert(
            format!("{to}input.bias"),
            HostArray {
                shape: vec![2 * gates],
                values: [bias, bias_back].concat(),
            },
        );
        into.0.insert(
            format!("{to}recurrent"),
            HostArray {
                shape: vec![2, recurrent.shape[0], gates],
                values: [recurrent.values, recurrent_back.values].concat(),
            },
        );
        Ok(())
    }

    /// Moves layers 0, 1, ... of a PyTorch BiLSTM, as many as there are.
    pub(super) fn move_bilstm_layers(&mut self, into: &mut Self) -> Result<()> {
        let mut layer = 0;
        while self.0.contains_key(&format!("lstm.weight_ih_l{layer}")) {
            self.move_bilstm("lstm.", layer, &format!("lstm.{layer}."), into)?;
            layer += 1;
        }
        Ok(())
    }

    /// Input weights, recurrent weights and the sum of the two biases of one direction.
    fn lstm_direction(
        &mut self,
        from: &str,
        layer: usize,
        end: &str,
    ) -> Result<(HostArray, HostArray, Vec<f32>)> {
        let mut take = |name: &str| self.take(&format!("{from}{name}_l{layer}{end}"));
        let input = take("weight_ih")?.transposed();
        let recurrent = take("weight_hh")?.transposed();
        let (bias, second) = (take("bias_ih")?, take("bias_hh")?);
        let bias = bias.values.iter().zip(second.values);
        Ok((
            input,
            recurrent,
            bias.map(|(one, other)| one + other).collect(),
        ))
    }

    /// Fails if any array is left over, because its name is not known.
    pub(super) fn expect_empty(&self, paper: &str) -> Result<()> {
        match self.0.keys().next() {
            Some(name) => Err(problem(format!("{name} is not a parameter of {paper}"))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_of_parallel_training_lose_their_prefix() {
        let array = |shape: &[usize]| HostArray::zeros(shape);
        let map = |names: &[&str]| {
            names
                .iter()
                .map(|name| (name.to_string(), array(&[1])))
                .collect()
        };
        let names = |arrays: Arrays| arrays.0.into_keys().collect::<Vec<_>>();
        assert_eq!(
            names(Arrays::of(map(&["module.a", "module.b"])).unwrap()),
            ["a", "b"]
        );
        assert_eq!(
            names(Arrays::of(map(&["a", "module.b"])).unwrap()),
            ["a", "module.b"]
        );
        for shape in [vec![], vec![0], vec![2, 0]] {
            let array = HostArray {
                values: vec![0.0; shape.iter().product()],
                shape,
            };
            assert!(Arrays::of(BTreeMap::from([("a".into(), array)])).is_err());
        }
    }
}
