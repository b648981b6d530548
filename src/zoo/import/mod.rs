//! Other people's checkpoints: their parameter names and layouts to ours.

mod bopn;
mod diffusion_ner;
mod locate_label;
mod numbers;

pub use bopn::{BOPN, bopn};
pub use diffusion_ner::{DIFFUSION_NER, diffusion_name, diffusion_ner};
pub use locate_label::{LOCATE_LABEL, LOCATE_LABEL_FEATURES, locate_label};

use std::path::Path;

use numbers::Numbers;

use crate::error::Error;

/// A checkpoint taken apart.
#[derive(Debug, Clone)]
pub struct Imported {
    /// The encoder's weights under Hugging Face names, as safetensors.
    pub encoder: Vec<u8>,
    /// The head's weights under our names, as safetensors.
    pub head: Vec<u8>,
}

/// How a parameter of another program lies in ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Number for number.
    Same,
    /// A PyTorch linear layer, or a convolution that looks at one cell: [out, in] there, [in, out] here.
    Transposed,
}

fn problem(message: String) -> Error {
    Error::model_folder(Path::new("the imported weights"), message)
}
