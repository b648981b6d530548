//! The part after the encoder of a tagger of the transformers library, `...ForTokenClassification`: what a tagging head is
//! imported from and exported to.

use crate::nn::activation::Activation;
use crate::nn::host::HostArray;

/// The layers after the encoder: dropout and one linear layer, in some families with a hidden layer before.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenClassifier {
    /// The names of the tags in the order of their numbers.
    pub tags: Vec<String>,
    /// `[tags, width]`.
    pub weight: HostArray,
    /// `[tags]`.
    pub bias: HostArray,
    /// The hidden layer, if there is one.
    pub hidden: Option<HiddenLayer>,
    /// Dropout in training.
    pub dropout: f64,
}

/// A linear layer of the encoder's width, an activation and a layer norm.
#[derive(Debug, Clone, PartialEq)]
pub struct HiddenLayer {
    /// `[width, width]`, outputs first.
    pub weight: HostArray,
    /// `[width]`.
    pub bias: HostArray,
    /// The activation.
    pub activation: Activation,
    /// `[width]`.
    pub norm_weight: HostArray,
    /// `[width]`.
    pub norm_bias: HostArray,
    /// Epsilon of the layer norm.
    pub norm_epsilon: f64,
}

impl TokenClassifier {
    /// Width of the encoder's states.
    pub fn width(&self) -> usize {
        self.weight.shape.get(1).copied().unwrap_or(0)
    }

    /// Fails, with the reason, unless all shapes fit each other.
    pub fn check(&self) -> Result<(), String> {
        let (tags, width) = (self.tags.len(), self.width());
        let mut all = vec![
            ("classifier.weight", &self.weight, vec![tags, width]),
            ("classifier.bias", &self.bias, vec![tags]),
        ];
        if let Some(hidden) = &self.hidden {
            all.extend([
                ("head.dense.weight", &hidden.weight, vec![width, width]),
                ("head.dense.bias", &hidden.bias, vec![width]),
                ("head.norm.weight", &hidden.norm_weight, vec![width]),
                ("head.norm.bias", &hidden.norm_bias, vec![width]),
            ]);
        }
        for (name, array, shape) in all {
            if array.shape != shape {
                return Err(format!(
                    "{name} has shape {:?}, but {tags} tags and a width of {width} need {shape:?}",
                    array.shape
                ));
            }
        }
        Ok(())
    }
}
