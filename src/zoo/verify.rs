//! Checks of a model folder: its manifest, all hashes, and that nothing lies outside of it.

use std::path::Path;

use super::source;
use crate::error::{Error, Result};
use crate::model::folder::REQUIRED;
use crate::model::manifest::{self, Manifest};
use crate::model::weights_file::{self, WeightsInfo};
use crate::registry;

/// A model folder whose files are what its manifest says.
#[derive(Debug)]
pub struct Verified {
    /// What the manifest lists.
    pub manifest: Manifest,
    /// Bytes of these files.
    pub bytes: u64,
    /// The weights.
    pub weights: WeightsInfo,
    /// True if the model card is not the one that was written with the model.
    pub card_is_edited: bool,
    /// Files beside them that the manifest does not list.
    pub others: Vec<String>,
}

/// Checks every file of a model folder against its manifest: sizes, hashes, no path or link that leaves the folder, a
/// complete description and a header of the weights that fits their length. An edited model card is reported, but no error.
pub fn verify(folder: &Path) -> Result<Verified> {
    if !folder.join(manifest::FILE).is_file() {
        return Err(Error::model_folder(
            folder,
            "no manifest.json here: this is not the folder of a finished model",
        ));
    }
    let manifest = Manifest::read(folder)?;
    manifest.require(&REQUIRED, folder)?;
    let mut bytes = 0;
    let mut card_is_edited = false;
    for (name, _) in manifest.files() {
        stays_inside(folder, name)?;
        match manifest.check(folder, name) {
            Err(_) if name == "README.md" && folder.join(name).is_file() => card_is_edited = true,
            result => result?,
        }
        bytes += folder.join(name).metadata().map_or(0, |about| about.len());
    }
    registry::check_weights(folder)?;
    let weights = weights_file::read(&folder.join("model.safetensors"))?;
    let mut others: Vec<String> = (folder.read_dir().into_iter().flatten().flatten())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| {
            ![manifest::FILE, source::FILE].contains(&name.as_str())
                && !manifest.files().any(|(listed, _)| listed == name)
        })
        .collect();
    others.sort();
    Ok(Verified {
        manifest,
        bytes,
        weights,
        card_is_edited,
        others,
    })
}

/// Fails if a file is reached through a link that leaves its folder. Only in the Hugging Face cache are the files of a
/// commit links to contents of the same repository.
fn stays_inside(folder: &Path, name: &str) -> Result<()> {
    let path = folder.join(name);
    if !path.exists() {
        return Ok(()); // reported as missing
    }
    let real = |path: &Path| {
        path.canonicalize()
            .map_err(|source| Error::io(path, source))
    };
    let (inside, target) = (real(folder)?, real(&path)?);
    let repository = crate::hub::repository_folder(&inside);
    if target.starts_with(&inside) || repository.is_some_and(|blobs| target.starts_with(blobs)) {
        return Ok(());
    }
    Err(Error::model_folder(
        &path,
        "it is a link to a file outside of the model's folder; replace it by the file itself",
    ))
}
