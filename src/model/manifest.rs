//! `manifest.json`: the size and SHA-256 of every file of a folder.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::files::{inside, read_text, sha256, write_atomic};
use crate::hub::is_safe_path;

/// File name of the manifest.
pub const FILE: &str = "manifest.json";
/// Longest manifest that is read, in bytes.
pub const LONGEST: u64 = 1 << 20;
/// Most files in a manifest.
const MOST_FILES: usize = 100;

/// The files of a folder, as its manifest lists them. Every name stays within the folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manifest {
    files: BTreeMap<String, FileRecord>,
}

/// What a manifest says about a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileRecord {
    /// SHA-256 of the content, as lower-case hexadecimal digits.
    pub sha256: String,
    /// Length in bytes; manifests of older programs do not give it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// A record as it is written: with its size, or by an older program the hash alone.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a SHA-256, or an object with sha256 and size")]
enum Written {
    Hash(String),
    Record { sha256: String, size: Option<u64> },
}

impl Manifest {
    /// Parses a manifest; `path` is named in errors. Names that leave the folder are refused.
    pub fn parse(text: &str, path: &Path) -> Result<Self> {
        let fail = |problem: String| Error::model_folder(path, problem);
        let written: BTreeMap<String, Written> = serde_json::from_str(text)
            .map_err(|problem| fail(format!("not a manifest: {problem}")))?;
        if written.len() > MOST_FILES {
            return Err(fail(format!(
                "it lists {} files, more than the {MOST_FILES} that a manifest may have",
                written.len()
            )));
        }
        let mut files = BTreeMap::new();
        for (name, record) in written {
            if !is_safe_path(&name) || name == FILE {
                return Err(fail(format!(
                    "it names the file {name:?}, which is not one of this folder; do not use the folder"
                )));
            }
            let (sha256, size) = match record {
                Written::Hash(sha256) => (sha256, None),
                Written::Record { sha256, size } => (sha256, size),
            };
            let sha256 = sha256.to_ascii_lowercase();
            if sha256.len() != 64 || !sha256.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err(fail(format!(
                    "the hash of {name} is not a SHA-256 of 64 hexadecimal digits"
                )));
            }
            files.insert(name, FileRecord { sha256, size });
        }
        Ok(Self { files })
    }

    /// Reads the manifest of a folder.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = inside(folder, FILE)?;
        Self::parse(&read_text(&path, LONGEST)?, &path)
    }

    /// The files with what is recorded about them, sorted by name.
    pub fn files(&self) -> impl Iterator<Item = (&str, &FileRecord)> {
        (self.files.iter()).map(|(name, record)| (name.as_str(), record))
    }

    /// Fails if one of these files is not in the manifest of a folder.
    pub fn require(&self, names: &[&str], folder: &Path) -> Result<()> {
        match names.iter().find(|name| !self.files.contains_key(**name)) {
            None => Ok(()),
            Some(name) => Err(Error::model_folder(
                folder.join(FILE),
                format!(
                    "it does not list {name}, so that file cannot be checked; copy the folder again"
                ),
            )),
        }
    }

    /// Fails unless a file of the folder exists and has its size and hash.
    pub fn check(&self, folder: &Path, name: &str) -> Result<()> {
        let path = inside(folder, name)?;
        let Some(record) = self.files.get(name) else {
            return self.require(&[name], folder);
        };
        match fs::metadata(&path) {
            Ok(about) if about.is_file() => match record.size {
                Some(size) if size != about.len() => Err(Error::model_folder(
                    &path,
                    format!(
                        "it has {} bytes, but the manifest says {size}: the file is cut or was edited; copy it again",
                        about.len()
                    ),
                )),
                _ if sha256(&path)? != record.sha256 => Err(Error::model_folder(
                    &path,
                    "its sha256 differs from the manifest's: the file is damaged or was edited; copy it again",
                )),
                _ => Ok(()),
            },
            _ => Err(Error::model_folder(
                &path,
                "the manifest names this file, but it is missing; copy the folder again",
            )),
        }
    }

    fn write(&self, folder: &Path) -> Result<PathBuf> {
        let path = folder.join(FILE);
        let json =
            serde_json::to_vec_pretty(&self.files).expect("strings and numbers are plain data");
        write_atomic(&path, &json)?;
        Ok(path)
    }
}

/// Writes the manifest of the files of a folder (not of its sub-folders), and flushes everything to disk.
pub fn write(folder: &Path) -> Result<()> {
    let fail = |source| Error::io(folder, source);
    let mut manifest = Manifest::default();
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
            let size = fs::metadata(&path).map_err(fail)?.len();
            let record = FileRecord {
                sha256: sha256(&path)?,
                size: Some(size),
            };
            manifest.files.insert(name, record);
        }
    }
    manifest.write(folder).map(|_| ())
}

/// Removes files from the manifest, so that they may be missing.
pub fn leave_out(folder: &Path, files: &[String]) -> Result<()> {
    let mut manifest = Manifest::read(folder)?;
    manifest.files.retain(|name, _| !files.contains(name));
    manifest.write(folder).map(|_| ())
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
    verify_files(folder, &Manifest::read(folder)?)
}

/// Like [`verify`], for a manifest that was read. An edited model card is only a warning: it does not change the model.
pub fn verify_files(folder: &Path, manifest: &Manifest) -> Result<()> {
    for (name, _) in manifest.files() {
        match manifest.check(folder, name) {
            Err(_) if name == "README.md" && folder.join(name).is_file() => {
                tracing::warn!(
                    "{} was edited since the model was written",
                    folder.join(name).display()
                );
            }
            result => result?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        let found = Manifest::parse(text, Path::new("m/manifest.json"));
        found.unwrap_err().to_string()
    }

    #[test]
    fn names_outside_the_folder_are_refused() {
        let hash = "0".repeat(64);
        for name in [
            "../a",
            "/etc/passwd",
            "a/../b",
            "C:/a",
            "a\\\\b",
            "..",
            "",
            "manifest.json",
            "a/",
            "//a",
            "./a",
            "a\\u0000b",
        ] {
            let problem = problem(&format!("{{\"{name}\": \"{hash}\"}}"));
            assert!(
                problem.contains("not one of this folder"),
                "{name}: {problem}"
            );
            assert!(problem.starts_with("m/manifest.json"), "{problem}");
        }
        for (text, expected) in [
            ("{\"a\": \"xyz\"}", "64 hexadecimal digits"),
            ("{\"a\": 1}", "a SHA-256"),
            ("[]", "not a manifest"),
            ("{", "not a manifest"),
            (
                "{\"a\": {\"sha256\": \"0\", \"size\": -1}}",
                "not a manifest",
            ),
        ] {
            assert!(
                problem(text).contains(expected),
                "{text}: {}",
                problem(text)
            );
        }
        let many: Vec<String> = (0..200).map(|n| format!("\"f{n}\": \"{hash}\"")).collect();
        assert!(problem(&format!("{{{}}}", many.join(","))).contains("200 files"));
    }

    #[test]
    fn sizes_and_hashes_are_checked_and_old_manifests_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::write(path.join("a"), "abc").unwrap();
        fs::write(path.join("README.md"), "card").unwrap();
        write(path).unwrap();
        let manifest = Manifest::read(path).unwrap();
        assert!(manifest.files().all(|(_, record)| record.size.is_some()));
        verify(path).unwrap();
        // Without sizes, as an older program wrote it.
        let hashes: BTreeMap<&str, &str> = (manifest.files())
            .map(|(name, record)| (name, record.sha256.as_str()))
            .collect();
        fs::write(path.join(FILE), serde_json::to_string(&hashes).unwrap()).unwrap();
        verify(path).unwrap();
        fs::write(path.join("README.md"), "edited").unwrap();
        verify(path).unwrap();
        fs::write(path.join("a"), "abd").unwrap();
        assert!(verify(path).unwrap_err().to_string().contains("sha256"));
        write(path).unwrap();
        fs::write(path.join("a"), "abcd").unwrap();
        let problem = verify(path).unwrap_err().to_string();
        assert!(
            problem.contains("4 bytes") && problem.contains("says 3"),
            "{problem}"
        );
        fs::remove_file(path.join("a")).unwrap();
        assert!(verify(path).unwrap_err().to_string().contains("missing"));
        let problem = Manifest::read(path).unwrap().require(&["b"], path);
        assert!(problem.unwrap_err().to_string().contains("does not list b"));
    }
}
