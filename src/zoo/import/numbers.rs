//! Weights as plain arrays, to be put together anew.

use std::collections::BTreeMap;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use super::{Layout, problem};
use crate::error::Result;

/// Numbers in rows.
#[derive(Debug, Clone)]
pub(super) struct Array {
    pub(super) shape: Vec<usize>,
    pub(super) values: Vec<f32>,
}

impl Array {
    /// [rows, columns, 1, ...] as [columns, rows].
    pub(super) fn transposed(self) -> Self {
        let (rows, columns) = (self.shape[0], self.shape.get(1).copied().unwrap_or(1));
        let values = (0..rows * columns)
            .map(|index| self.values[(index % rows) * columns + index / rows])
            .collect();
        Self {
            shape: vec![columns, rows],
            values,
        }
    }
}

/// Arrays by name.
#[derive(Debug, Default)]
pub(super) struct Numbers(pub(super) BTreeMap<String, Array>);

impl Numbers {
    pub(super) fn read(bytes: &[u8]) -> Result<Self> {
        Self::read_but(bytes, |_| false)
    }

    /// Everything but what is told to be left out.
    pub(super) fn read_but(bytes: &[u8], left_out: impl Fn(&str) -> bool) -> Result<Self> {
        let tensors =
            SafeTensors::deserialize(bytes).map_err(|found| problem(found.to_string()))?;
        let mut arrays = BTreeMap::new();
        for (name, view) in tensors.tensors() {
            if left_out(&name) {
                continue;
            }
            if view.dtype() != Dtype::F32 {
                return Err(problem(format!("{name} is not in single precision")));
            }
            let (numbers, _) = view.data().as_chunks::<4>();
            let array = Array {
                shape: view.shape().to_vec(),
                values: numbers
                    .iter()
                    .map(|four| f32::from_le_bytes(*four))
                    .collect(),
            };
            arrays.insert(name, array);
        }
        Ok(Self(arrays))
    }

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
                .map_err(|found| problem(format!("{name}: {found}")))?;
            views.push((name.as_str(), view));
        }
        safetensors::serialize(views, None).map_err(|found| problem(found.to_string()))
    }

    /// Takes out what stands under a prefix, without it.
    pub(super) fn split(&mut self, prefix: &str) -> Self {
        let (under, others) = std::mem::take(&mut self.0)
            .into_iter()
            .partition(|(name, _)| name.starts_with(prefix));
        self.0 = others;
        let under: BTreeMap<String, Array> = under;
        Self(
            under
                .into_iter()
                .map(|(name, array)| (name[prefix.len()..].to_string(), array))
                .collect(),
        )
    }

    /// Takes out what a list knows, under our names and in our layout.
    pub(super) fn renamed(&mut self, list: &[(&str, &str, Layout)]) -> Self {
        let mut found = Self::default();
        for (theirs, ours, layout) in list {
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

    /// PyTorch's three inputs of attention in one array, taken apart.
    pub(super) fn attention_inputs(&mut self, array: Array, to: &str, is_weight: bool) {
        let third = array.values.len() / 3;
        let end = if is_weight { "weight" } else { "bias" };
        for (name, values) in ["query", "key", "value"]
            .iter()
            .zip(array.values.chunks(third.max(1)))
        {
            let mut shape = array.shape.clone();
            shape[0] /= 3;
            let part = Array {
                shape,
                values: values.to_vec(),
            };
            let part = if is_weight { part.transposed() } else { part };
            self.0.insert(format!("{to}.{name}.{end}"), part);
        }
    }

    pub(super) fn take(&mut self, name: &str) -> Result<Array> {
        self.0
            .remove(name)
            .ok_or_else(|| problem(format!("{name} is missing")))
    }

    /// A layer of PyTorch's BiLSTM to ours: both directions in one, its two biases added up.
    pub(super) fn bilstm(
        &mut self,
        from: &str,
        layer: usize,
        to: &str,
        into: &mut Self,
    ) -> Result<()> {
        let mut directions = Vec::new();
        for end in ["", "_reverse"] {
            let input = self
                .take(&format!("{from}weight_ih_l{layer}{end}"))?
                .transposed();
            let recurrent = self
                .take(&format!("{from}weight_hh_l{layer}{end}"))?
                .transposed();
            let bias = self.take(&format!("{from}bias_ih_l{layer}{end}"))?;
            let second = self.take(&format!("{from}bias_hh_l{layer}{end}"))?;
            let bias: Vec<f32> = bias
                .values
                .iter()
                .zip(second.values)
                .map(|(one, other)| one + other)
                .collect();
            directions.push((input, recurrent, bias));
        }
        let [
            (input, recurrent, bias),
            (input_back, recurrent_back, bias_back),
        ] = directions
            .try_into()
            .expect("two directions were pushed above");
        let gates = bias.len();
        let rows = input
            .values
            .chunks(gates)
            .zip(input_back.values.chunks(gates));
        into.0.insert(
            format!("{to}input.weight"),
            Array {
                shape: vec![input.shape[0], 2 * gates],
                values: rows
                    .flat_map(|(one, other)| [one, other].concat())
                    .collect(),
            },
        );
        into.0.insert(
            format!("{to}input.bias"),
            Array {
                shape: vec![2 * gates],
                values: [bias, bias_back].concat(),
            },
        );
        into.0.insert(
            format!("{to}recurrent"),
            Array {
                shape: vec![2, recurrent.shape[0], gates],
                values: [recurrent.values, recurrent_back.values].concat(),
            },
        );
        Ok(())
    }
}
