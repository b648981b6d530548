//! Model folders are made under a temporary name, and get their own when they are complete.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::error::{Error, Result};

/// Prefix of temporary folders; their names are not those of models.
pub(super) const PREFIX: &str = ".nerzoo-";

/// A temporary folder beside the final one. It is removed unless it is installed.
pub(super) fn temporary(parent: &Path) -> Result<TempDir> {
    let fail = |source| Error::io(parent, source);
    let folder = tempfile::Builder::new()
        .prefix(PREFIX)
        .tempdir_in(parent)
        .map_err(fail)?;
    // Readable for those who can read the folders beside it.
    let permissions = fs::metadata(parent).map_err(fail)?.permissions();
    fs::set_permissions(folder.path(), permissions).map_err(fail)?;
    Ok(folder)
}

/// Gives a temporary folder its name. A folder that has the name is replaced; it is kept if that fails.
pub(super) fn install(folder: TempDir, target: &Path) -> Result<()> {
    replace(folder.path(), target)?;
    // Its path is gone; nothing is left to remove.
    let _ = folder.keep();
    Ok(())
}

/// Renames a folder to `target`, in whose place nothing or another folder is.
pub(super) fn replace(folder: &Path, target: &Path) -> Result<()> {
    let fail = |source| Error::io(target, source);
    let parent = target.parent().unwrap_or(Path::new("."));
    if !target.exists() {
        return fs::rename(folder, target).map_err(fail);
    }
    let old = tempfile::Builder::new()
        .prefix(PREFIX)
        .tempdir_in(parent)
        .map_err(fail)?;
    let moved = old.path().join("old");
    fs::rename(target, &moved).map_err(fail)?;
    fs::rename(folder, target).map_err(|source| {
        let _ = fs::rename(&moved, target);
        fail(source)
    })
}

/// Gives the weights the permissions of the files beside them; some writers make files for their owner only.
pub(super) fn same_permissions(folder: &Path) -> Result<()> {
    let weights = folder.join("model.safetensors");
    let fail = |source| Error::io(&weights, source);
    let about = fs::metadata(folder.join("config.json")).map_err(fail)?;
    fs::set_permissions(&weights, about.permissions()).map_err(fail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_replaced_as_a_whole() {
        let parent = tempfile::tempdir().unwrap();
        let target = parent.path().join("model");
        for content in ["one", "two"] {
            let folder = temporary(parent.path()).unwrap();
            fs::write(folder.path().join("a"), content).unwrap();
            install(folder, &target).unwrap();
            assert_eq!(fs::read_to_string(target.join("a")).unwrap(), content);
        }
        let folder = temporary(parent.path()).unwrap();
        assert!(
            folder
                .path()
                .file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with('.')
        );
        drop(folder);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
    }
}
