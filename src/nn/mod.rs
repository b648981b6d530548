//! Layers more than one paper uses.

pub mod crf;
pub mod host;
pub mod loss;
pub mod spans;
