//! nerzoo
pub mod cli;
pub mod data;
pub mod device;
pub mod encoder;
pub mod error;
pub mod eval;
pub mod heads;
pub mod memory;
pub mod nn;
pub mod predict;
pub mod recognizer;
pub mod text;
pub mod train;
pub mod zoo;
