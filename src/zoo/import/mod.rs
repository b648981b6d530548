//! Models of other programs as model folders.

mod card;
mod released;
mod transformers;

use std::fs;
use std::path::Path;

pub use released::{ReleasedOptions, import_released};
pub use transformers::import_transformers;

use super::staging;
use crate::error::{Error, Result};
use crate::model::manifest;

/// Formats that people ask for and that are not supported, with the word that identifies them.
const UNSUPPORTED: [(&str, &str); 2] = [("spanmarker", "SpanMarker"), ("gliner", "GLiNER")];

/// Fails if a model belongs to a program whose models cannot be imported; `texts` are what its files say about it.
fn refuse_unsupported<'a>(path: &Path, texts: impl Iterator<Item = &'a str>) -> Result<()> {
    for text in texts {
        let plain: String = text.chars().filter(char::is_ascii_alphanumeric).collect();
        let plain = plain.to_ascii_lowercase();
        if let Some((_, name)) = UNSUPPORTED.iter().find(|(word, _)| plain.contains(word)) {
            return Err(Error::model_folder(
                path,
                format!(
                    "this is a {name} model, and importing these is not supported; supported are token classifiers of \
                     transformers (--from transformers) and checkpoints of the papers' authors (--from released)"
                ),
            ));
        }
    }
    Ok(())
}

/// Makes a folder: `write` fills a temporary one, which gets its name when it is complete. An existing folder is replaced
/// with `force`, if it is one of a model.
pub(super) fn make_folder(
    out: &Path,
    force: bool,
    write: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    let is_empty = |folder: &Path| {
        let entries = fs::read_dir(folder).map(|mut entries| entries.next().is_none());
        entries.unwrap_or(false)
    };
    if out.exists() && !is_empty(out) {
        let is_model = out.join(manifest::FILE).is_file() || out.join("config.json").is_file();
        if !is_model {
            return Err(Error::model_folder(
                out,
                "this is there already, and it is not the folder of a model; choose another --out",
            ));
        }
        if !force {
            return Err(Error::model_folder(
                out,
                "a model is there already; choose another --out, or replace it with --force",
            ));
        }
    }
    if out.file_name().is_none() {
        return Err(Error::model_folder(
            out,
            "this is not the name of a folder; choose another --out",
        ));
    }
    let parent = match out.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    fs::create_dir_all(parent).map_err(|problem| Error::io(parent, problem))?;
    let staged = staging::temporary(parent)?;
    write(staged.path())?;
    staging::install(staged, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_models_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("a/b");
        let write = |inside: &Path| -> Result<()> {
            fs::write(inside.join("config.json"), "{}")
                .map_err(|problem| Error::io(inside, problem))
        };
        make_folder(&out, false, write).unwrap();
        let problem = make_folder(&out, false, write).unwrap_err().to_string();
        assert!(problem.contains("--force"), "{problem}");
        make_folder(&out, true, write).unwrap();
        let mine = folder.path().join("mine");
        fs::create_dir(&mine).unwrap();
        make_folder(&mine, false, write).unwrap();
        let other = folder.path().join("other");
        fs::create_dir(&other).unwrap();
        fs::write(other.join("README.md"), "mine").unwrap();
        for out in [
            other.as_path(),
            &other.join("README.md"),
            Path::new("/"),
            &other.join(".."),
        ] {
            assert!(make_folder(out, true, write).is_err(), "{}", out.display());
        }
        let failing = |_: &Path| Err(Error::Config("x".into()));
        assert!(make_folder(&folder.path().join("c"), false, failing).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    }
}
