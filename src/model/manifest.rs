//! `manifest.json`: the SHA-256 of every file of a folder.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;

use crate::error::{Error, Result};
use crate::files::{sha256, write_atomic};

/// File name of the manifest.
pub const FILE: &str = "manifest.json";

/// Writes the manifest of the files of a folder (not of its sub-folders), and flushes everything to disk.
pub fn write(folder: &Path) -> Result<()> {
    let fail = |source| Error::io(folder, source);
    let mut hashes = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        if let Some(name) = name
            && path.is_file()
            && name != FILE
        {
            flush(&path)?;
            hashes.insert(name, sha256(&path)?);
        }
    }
    let path = folder.join(FILE);
    let json = serde_json::to_vec_pretty(&hashes).expect("strings are plain data");
    fs::write(&path, json).map_err(|source| Error::io(&path, source))?;
    flush(&path)
}

/// Removes files from the manifest, so that they may be missing.
pub fn leave_out(folder: &Path, files: &[String]) -> Result<()> {
    let mut hashes = read(folder)?;
    hashes.retain(|name, _| !files.contains(name));
    let json = serde_json::to_vec_pretty(&hashes).expect("strings are plain data");
    write_atomic(&folder.join(FILE), &json)
}

/// The SHA-256 of each file in the manifest.
fn read(folder: &Path) -> Result<BTreeMap<String, String>> {
    let path = folder.join(FILE);
    let text = fs::read_to_string(&path).map_err(|source| Error::io(&path, source))?;
    serde_json::from_str(&text)
        .map_err(|problem| Error::model_folder(&path, format!("not a manifest: {problem}")))
}

/// Waits until a file is on disk. Some systems require it to be open for writing.
fn flush(path: &Path) -> Result<()> {
    File::options()
        .write(true)
        .open(path)
        .and_then(|file| file.sync_all())
        .map_err(|source| Error::io(path, source))
}

/// Fails unless every file in the manifest exists and has its hash.
pub fn verify(folder: &Path) -> Result<()> {
    for (name, expected) in read(folder)? {
        let file = folder.join(&name);
        if !file.is_file() {
            return Err(Error::model_folder(
                &file,
                "the manifest names this file, but it is missing; copy the folder again",
            ));
        }
        if sha256(&file)? != expected {
            if name == "README.md" {
                tracing::warn!("{} was edited since the model was written", file.display());
                continue; // an edited card does not change the model
            }
            return Err(Error::model_folder(
                &file,
                "its sha256 differs from the manifest's: the file is damaged or was edited; copy it again",
            ));
        }
    }
    Ok(())
}
