//! Weights in eight bits: which parameters they are, and how a transformer uses them on the CPU.
//!
//! Linear layers and the large embedding tables are stored in eight bits. Norms, biases, token types, relative positions, the
//! projection of narrow embeddings and the convolution stay in f32: they are small.

use std::sync::Arc;

use burn::module::Param;
use burn::nn::Linear;
use burn::tensor::Tensor;

use super::Transformer;
use super::layer::EncoderLayer;
use super::relative::{DisentangledAttention, PositionProjections, RelativePositions};
use crate::error::Result;
use crate::nn::fused;
use crate::nn::fused::int8::{Int8Embedding, Int8Linear, QuantizeError, QuantizedWeight};
use crate::nn::fused::transformer::Int8Layer;
use crate::nn::host::floats;

/// How a parameter in eight bits is scaled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Int8Kind {
    /// The matrix of a linear layer, `[inputs, outputs]`: one scale for each output.
    Linear,
    /// An embedding table, `[rows, width]`: one scale for each row.
    Embedding,
}

impl Int8Kind {
    /// Number of scales of a parameter of this shape.
    pub fn scales(self, shape: [usize; 2]) -> usize {
        match self {
            Self::Linear => shape[1],
            Self::Embedding => shape[0],
        }
    }
}

/// Linear layers of a transformer layer that are stored in eight bits.
const LINEAR: &[&str] = &[
    "query",
    "key",
    "value",
    "attention_output",
    "feed_forward_inner",
    "feed_forward_gate",
    "feed_forward_outer",
    "disentangled.key",
    "disentangled.query",
];

/// How a parameter of a transformer is stored in an int8 model, from its name, such as `layers.0.query.weight`; `None` if it
/// stays in floating point.
pub fn int8_kind(name: &str) -> Option<Int8Kind> {
    let name = name.strip_suffix(".weight")?;
    if matches!(name, "word_embeddings" | "position_embeddings") {
        return Some(Int8Kind::Embedding);
    }
    let (number, part) = name.strip_prefix("layers.")?.split_once('.')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && LINEAR.contains(&part)).then_some(Int8Kind::Linear)
}

/// Where the weights of an int8 model come from. Names are those of the transformer's parameters.
pub trait Int8Source {
    /// The matrix of a linear layer.
    fn weight(&mut self, name: &str) -> Result<QuantizedWeight>;

    /// An embedding table.
    fn embedding(&mut self, name: &str) -> Result<Int8Embedding>;

    /// The error of a parameter that cannot be used.
    fn refuse(&self, name: &str, problem: QuantizeError) -> crate::error::Error;
}

/// Embedding tables in eight bits.
#[derive(Debug)]
pub(super) struct Int8Embeddings {
    words: Int8Embedding,
    positions: Option<Int8Embedding>,
}

/// The linear layers of an encoder layer in eight bits.
#[derive(Debug)]
pub(super) struct Int8EncoderLayer {
    pub(super) layers: Int8Layer,
    /// Projections of relative positions, where they are not those of the content.
    position_key: Option<Int8Linear>,
    position_query: Option<Int8Linear>,
}

impl Transformer {
    /// Whether it can compute with weights in eight bits: on the CPU, without autodiff.
    pub fn supports_int8(&self) -> bool {
        let device = self.device();
        !device.is_autodiff() && self.has_kernels() && fused::runs_on(&device)
    }

    /// Whether its weights are in eight bits.
    pub fn is_int8(&self) -> bool {
        self.int8.is_some()
    }

    /// Takes weights in eight bits in place of those that [`int8_kind`] names, for which no memory is allocated. Its other
    /// parameters have to be loaded before. Only for a transformer that [supports](Self::supports_int8) it.
    pub fn set_int8(&mut self, source: &mut impl Int8Source) -> Result<()> {
        let table = &mut self.word_embeddings.weight;
        let words = source.embedding("word_embeddings.weight")?;
        *table = without_value(table);
        let positions = match &mut self.position_embeddings {
            Some(table) => {
                table.weight = without_value(&table.weight);
                Some(source.embedding("position_embeddings.weight")?)
            }
            None => None,
        };
        self.int8 = Some(Arc::new(Int8Embeddings { words, positions }));
        for (index, layer) in self.layers.iter_mut().enumerate() {
            layer.set_int8(index, source)?;
        }
        Ok(())
    }
}

impl EncoderLayer {
    fn set_int8(&mut self, index: usize, source: &mut impl Int8Source) -> Result<()> {
        let mut take = |linear: &mut Linear, part: &str| {
            quantized(linear, &format!("layers.{index}.{part}"), source)
        };
        let layers = Int8Layer {
            query: take(&mut self.query, "query")?,
            key: take(&mut self.key, "key")?,
            value: take(&mut self.value, "value")?,
            output: take(&mut self.attention_output, "attention_output")?,
            inner: take(&mut self.feed_forward_inner, "feed_forward_inner")?,
            gate: (self.feed_forward_gate.as_mut())
                .map(|linear| take(linear, "feed_forward_gate"))
                .transpose()?,
            outer: take(&mut self.feed_forward_outer, "feed_forward_outer")?,
        };
        let disentangled = self.disentangled.as_mut();
        let (key, query) = disentangled.map_or((None, None), |attention| {
            (attention.key.as_mut(), attention.query.as_mut())
        });
        let position_key = key.map(|linear| take(linear, "disentangled.key"));
        let position_query = query.map(|linear| take(linear, "disentangled.query"));
        self.int8 = Some(Arc::new(Int8EncoderLayer {
            layers,
            position_key: position_key.transpose()?,
            position_query: position_query.transpose()?,
        }));
        Ok(())
    }
}

/// A linear layer in eight bits with the bias of one in f32, whose matrix is given up.
fn quantized(linear: &mut Linear, name: &str, source: &mut impl Int8Source) -> Result<Int8Linear> {
    let name = format!("{name}.weight");
    let weight = source.weight(&name)?;
    let bias = match &linear.bias {
        Some(bias) => floats(bias.val()),
        None => vec![0.0; weight.outputs()],
    };
    linear.weight = without_value(&linear.weight);
    Int8Linear::new(&weight, &bias).map_err(|problem| source.refuse(&name, problem))
}

/// A parameter of the same shape and device that has no value. Nothing asks for the value of one whose weights are in eight
/// bits: the methods that would are those of the other path.
fn without_value(param: &Param<Tensor<2>>) -> Param<Tensor<2>> {
    Param::uninitialized(
        param.id,
        |_, _| unreachable!("weights in eight bits have no value in f32"),
        param.lazy_device(),
        false,
        param.lazy_shape(),
    )
}

impl Int8Embeddings {
    /// The embeddings of word pieces.
    ///
    /// # Shapes
    /// - output: `[ids, width]`
    pub(super) fn words(&self, ids: &[usize], transformer: &Transformer) -> Tensor<2> {
        self.words.select(ids, &transformer.device())
    }

    /// The first rows of the position embedding, if there is one.
    ///
    /// # Shapes
    /// - output: `[count, width]`
    pub(super) fn positions(&self, count: usize, transformer: &Transformer) -> Option<Tensor<2>> {
        let rows: Vec<usize> = (0..count).collect();
        let positions = self.positions.as_ref()?;
        Some(positions.select(&rows, &transformer.device()))
    }
}

impl Int8EncoderLayer {
    /// Projects relative positions for the terms of disentangled attention.
    pub(super) fn project_positions(
        &self,
        attention: &DisentangledAttention,
        positions: &RelativePositions,
    ) -> PositionProjections {
        let project = |has: bool, own: &Option<Int8Linear>, content: &Int8Linear| {
            let linear = own.as_ref().unwrap_or(content);
            has.then(|| linear.forward_tensor(positions.table.clone()))
        };
        let content = &self.layers;
        PositionProjections {
            keys: project(
                attention.content_to_position,
                &self.position_key,
                &content.key,
            ),
            queries: project(
                attention.position_to_content,
                &self.position_query,
                &content.query,
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_matrices_of_layers_and_large_tables_are_in_eight_bits() {
        let linear = Some(Int8Kind::Linear);
        assert_eq!(int8_kind("layers.11.query.weight"), linear);
        assert_eq!(int8_kind("layers.0.disentangled.key.weight"), linear);
        let table = Some(Int8Kind::Embedding);
        assert_eq!(int8_kind("word_embeddings.weight"), table);
        for name in [
            "layers.0.query.bias",
            "layers.0.attention_norm.gamma",
            "layers..query.weight",
            "layers.x.query.weight",
            "layers.0.0.query.weight",
            "layers.query.weight",
            "token_type_embeddings.weight",
            "relative_embeddings.weight",
            "projection.weight",
            "convolution.convolution.weight",
            "",
        ] {
            assert_eq!(int8_kind(name), None, "{name}");
        }
        assert_eq!(Int8Kind::Linear.scales([2, 3]), 3);
        assert_eq!(Int8Kind::Embedding.scales([2, 3]), 2);
    }
}
