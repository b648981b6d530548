//! nerzoo
#![allow(missing_docs)]
pub mod device;
pub mod encoder;
pub mod error;
pub mod text;
