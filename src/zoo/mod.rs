//! Trained models by name.

use std::path::{Path, PathBuf};

use crate::device;
use crate::error::{Error, Result};
use crate::model::tagger::Tagger;
use crate::registry;

/// Folder of published models, relative to the current folder.
const PUBLISHED: &str = "model-zoo/models";

/// The folder of a model: a path, or the name of a published model.
pub fn find(name: &str) -> Result<PathBuf> {
    let path = PathBuf::from(name);
    if path.exists() {
        return Ok(path);
    }
    let published = Path::new(PUBLISHED).join(name);
    if !name.contains(['/', '\\']) && published.is_dir() {
        return Ok(published);
    }
    Err(Error::model_folder(
        path,
        format!("no such folder, and no model of this name in {PUBLISHED}"),
    ))
}

/// Loads a model by path or name onto the best device of this machine.
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
