//! nerzoo
pub mod cli;
pub mod data;
pub mod device;
pub mod encoder;
pub mod error;
pub mod eval;
pub mod heads;
pub mod nn;
pub mod predict;
pub mod process;
pub mod recognizer;
pub mod text;
pub mod train;
pub mod zoo;
