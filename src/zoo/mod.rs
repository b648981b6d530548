//! Trained models by name: published ones, fetched ones, and those of a hub or another server.
//!
//! ```text
//! name ─▶ a folder ─▶ model-zoo/models/NAME ─▶ the cache ─▶ hf:owner/name[@revision] ─▶ http(s)://…
//! ```

#[cfg(feature = "hub")]
mod archive;
#[cfg(feature = "train")]
mod draft;
#[cfg(feature = "train")]
pub mod export;
#[cfg(feature = "hub")]
mod fetching;
#[cfg(feature = "hub")]
mod hub_index;
#[cfg(feature = "train")]
pub mod import;
pub mod index;
#[cfg(feature = "hub")]
pub mod limits;
mod names;
mod places;
#[cfg(feature = "train")]
pub mod publish;
#[cfg(feature = "hub")]
pub mod pull;
#[cfg(feature = "hub")]
pub mod push;
#[cfg(feature = "train")]
pub mod quantize;
pub mod results;
#[cfg(feature = "train")]
pub mod score;
pub mod source;
#[cfg(any(feature = "hub", feature = "train"))]
#[cfg_attr(not(all(feature = "hub", feature = "train")), allow(dead_code))]
mod staging;
pub mod summary;
pub mod verify;

pub use names::{Listed, Place, Zoo};
pub use places::{CACHE_VARIABLE, NAME_RULE, ZOO_VARIABLE, is_model_name};

use std::path::PathBuf;

use crate::device;
use crate::error::Result;
use crate::model::tagger::Tagger;
use crate::registry;

/// The folder of a model: a path, the name of a published or fetched model, or where it is fetched from. See [`Zoo::find`].
pub fn find(name: &str) -> Result<PathBuf> {
    Zoo::from_env().find(name)
}

/// Loads a model by path, name or address onto the best device of this machine. See [`Zoo::find`].
///
/// ```no_run
/// # fn main() -> nerzoo::error::Result<()> {
/// let tagger = nerzoo::load("runs/quickstart")?;
/// for mention in tagger.tag_text("Marta Keller visited Lindholm.")? {
///     println!("{} is a {} ({:.2})", mention.text, mention.label, mention.score);
/// }
/// # Ok(())
/// # }
/// ```
pub fn load(name: &str) -> Result<Box<dyn Tagger>> {
    registry::load(&find(name)?, &device::parse("auto")?, &[])
}
