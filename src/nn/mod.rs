//! Layers more than one paper uses.

pub mod activation;
pub mod assignment;
pub mod attention;
pub mod biaffine;
pub mod bilstm;
pub mod conditional_norm;
pub mod crf;
pub mod fused;
pub mod host;
pub mod loss;
pub mod mask;
pub mod rows;
pub mod spans;
