//! Layers and losses that more than one head or encoder uses, and fused CPU kernels for the hot ones.

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
pub mod precision;
pub mod rotary;
pub mod rows;
pub mod spans;
