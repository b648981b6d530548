//! The staging folder of a fetched model: filled from a source, checked against its manifest, and then named.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::archive;
use super::limits::largest_file;
use super::source::{self, Source, SourceRecord};
use super::staging;
use super::verify::{Verified, verify};
use crate::error::{Error, Result};
use crate::files::{read_text, write_atomic};
use crate::hub::{Hub, RepoId, Wanted, escaped};
use crate::model::folder::REQUIRED;
use crate::model::manifest::{self, Manifest};

/// The card, which may be edited on a hub's page.
const CARD: &str = "README.md";

/// A staging folder while it is filled.
pub(super) struct Fetching {
    folder: PathBuf,
    largest: u64,
    lock_path: PathBuf,
    /// Locked until the end, where the file system has locks.
    _lock: Option<File>,
}

impl Fetching {
    /// The staging folder of a source, which may have files of an earlier attempt. Waits for another process that fills it.
    pub(super) fn begin(parent: &Path, source: &str, largest: u64) -> Result<Self> {
        let digest = Sha256::digest(source);
        let key: String = digest
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let lock_path = parent.join(format!("{}{key}.lock", staging::PREFIX));
        let lock = crate::hub::lock(&lock_path)?;
        let folder = parent.join(format!("{}{key}", staging::PREFIX));
        fs::create_dir_all(&folder).map_err(|problem| Error::io(&folder, problem))?;
        Ok(Self {
            folder,
            largest,
            lock_path,
            _lock: lock,
        })
    }

    /// Checks what a manifest promises: that a model is complete, and that its files are not too large.
    fn check_promise(&self, manifest: &Manifest, origin: &Path) -> Result<()> {
        manifest.require(&REQUIRED, origin)?;
        let mut total = 0u64;
        for (name, record) in manifest.files() {
            let size = record.size.unwrap_or(0);
            total = total.saturating_add(size);
            self.check_size(name, size, origin)?;
        }
        self.check_size("the model", total, origin)
    }

    fn check_size(&self, name: &str, size: u64, origin: &Path) -> Result<()> {
        let limit = largest_file(name, self.largest);
        if size <= limit {
            return Ok(());
        }
        Err(Error::model_folder(
            origin,
            format!(
                "{name} is said to have {size} bytes, more than the limit of {limit}; if this is right, raise it with \
                 --max-size"
            ),
        ))
    }

    /// Downloads into the Hugging Face cache, and takes the files from there.
    pub(super) fn fill_from_hub(&self, hub: &Hub, source: &Source) -> Result<String> {
        let Source::Hub(id) = source else {
            return Err(Error::Config(format!("{source} is not a repository")));
        };
        let hub = Hub {
            largest_file: self.largest.min(hub.largest_file),
            ..hub.clone()
        };
        let only = [Wanted::required(
            &[&[manifest::FILE]],
            "this is not the repository of a nerzoo model",
        )];
        let snapshot = hub.update(id, &only).map_err(|problem| match problem {
            Error::Hub { name, .. } if hub.offline => Error::Hub {
                name,
                problem: "it is not in the cache, and downloads are off (--offline or HF_HUB_OFFLINE); run the command \
                          once without"
                    .into(),
            },
            other => other,
        })?;
        let commit = snapshot.origin.commit;
        let shown = PathBuf::from(format!("hf:{}@{commit}", id.name()));
        let text = read_text(&snapshot.folder.join(manifest::FILE), manifest::LONGEST)?;
        let manifest = Manifest::parse(&text, &shown.join(manifest::FILE))?;
        self.check_promise(&manifest, &shown)?;
        let names: Vec<[&str; 1]> = manifest.files().map(|(name, _)| [name]).collect();
        let alternatives: Vec<[&[&str]; 1]> = names.iter().map(|names| [&names[..]]).collect();
        let remedy = "the manifest names it; the repository is not complete";
        let mut wanted: Vec<Wanted<'_>> = (alternatives.iter())
            .map(|any_of| Wanted::required(&any_of[..], remedy))
            .collect();
        wanted.push(only[0]);
        let id: RepoId = (format!("{}@{commit}", id.name()).parse()).map_err(Error::Config)?;
        let snapshot = hub.snapshot(&id, &wanted)?;
        self.take(&snapshot.folder, &manifest, &text)?;
        Ok(commit)
    }

    /// Downloads the files that the manifest at an address lists.
    pub(super) fn fill_from_address(&self, hub: &Hub, address: &str) -> Result<Option<String>> {
        let shown = PathBuf::from(Source::Address(address.into()).to_string());
        let text = hub.read_text(&file_address(address, manifest::FILE))?;
        if text.len() as u64 > manifest::LONGEST {
            return Err(Error::model_folder(
                &shown,
                "its manifest.json is longer than a manifest may be",
            ));
        }
        let manifest = Manifest::parse(&text, &shown.join(manifest::FILE))?;
        self.check_promise(&manifest, &shown)?;
        for (name, record) in manifest.files() {
            let target = self.folder.join(name);
            if target.is_file() && manifest.check(&self.folder, name).is_err() {
                fs::remove_file(&target).map_err(|problem| Error::io(&target, problem))?;
            }
            let address = file_address(address, name);
            let size = match record.size {
                // The card may have been edited since.
                Some(size) if name != CARD => size,
                _ => hub.size_of(&address)?,
            };
            self.check_size(name, size, &shown)?;
            if name == CARD {
                hub.download_unchecked(&address, &target, size)?;
            } else {
                hub.download_file(&address, &target, size, &record.sha256)?;
            }
        }
        hub.report_end(&shown.display().to_string());
        self.put_manifest(&text)?;
        Ok(None)
    }

    /// Downloads an archive and unpacks it.
    pub(super) fn fill_from_archive_at(&self, hub: &Hub, address: &str) -> Result<Option<String>> {
        let shown = PathBuf::from(Source::Address(address.into()).to_string());
        let size = hub.size_of(address)?;
        self.check_size("the archive", size, &shown)?;
        let target = self.folder.with_extension("archive");
        hub.download_unchecked(address, &target, size)?;
        hub.report_end(&shown.display().to_string());
        let result = self.fill_from_archive(&target);
        // A damaged one is not used again.
        let _ = fs::remove_file(&target);
        result
    }

    pub(super) fn fill_from_archive(&self, archive: &Path) -> Result<Option<String>> {
        self.clear()?;
        let unpacked = archive::unpack(archive, &self.folder, self.largest).and_then(|()| {
            let manifest = Manifest::read(&self.folder)?;
            self.check_promise(&manifest, &self.folder)?;
            self.remove_others(&manifest)
        });
        if unpacked.is_err() {
            self.clear()?;
        }
        unpacked.map(|()| None)
    }

    /// Copies the files of a model folder of this machine.
    pub(super) fn fill_from_folder(&self, folder: &Path) -> Result<Option<String>> {
        let text = read_text(&folder.join(manifest::FILE), manifest::LONGEST)?;
        let manifest = Manifest::parse(&text, &folder.join(manifest::FILE))?;
        self.check_promise(&manifest, folder)?;
        verify(folder)?;
        self.take(folder, &manifest, &text)?;
        Ok(None)
    }

    /// Takes the listed files of a folder: weights as another name of the same file where possible, others as copies.
    fn take(&self, folder: &Path, manifest: &Manifest, text: &str) -> Result<()> {
        self.clear()?;
        for (name, _) in manifest.files() {
            let (from, to) = (folder.join(name), self.folder.join(name));
            let size = fs::metadata(&from)
                .map_err(|problem| Error::io(&from, problem))?
                .len();
            self.check_size(name, size, folder)?;
            if name != CARD {
                manifest.check(folder, name)?;
            }
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent).map_err(|problem| Error::io(parent, problem))?;
            }
            let is_in_cache = crate::hub::repository_folder(folder).is_some();
            let real = from
                .canonicalize()
                .map_err(|problem| Error::io(&from, problem))?;
            if !(is_in_cache && name.ends_with(".safetensors") && fs::hard_link(&real, &to).is_ok())
            {
                fs::copy(&real, &to).map_err(|problem| Error::io(&to, problem))?;
            }
        }
        self.put_manifest(text)
    }

    fn put_manifest(&self, text: &str) -> Result<()> {
        write_atomic(&self.folder.join(manifest::FILE), text.as_bytes())
    }

    /// Removes what the manifest does not list, such as files of an archive.
    fn remove_others(&self, manifest: &Manifest) -> Result<()> {
        let fail = |problem| Error::io(&self.folder, problem);
        for entry in self.folder.read_dir().map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let name = entry.file_name();
            let is_listed = manifest
                .files()
                .any(|(file, _)| name.to_str() == Some(file));
            if !is_listed && name != manifest::FILE && entry.path().is_file() {
                fs::remove_file(entry.path()).map_err(fail)?;
            }
        }
        Ok(())
    }

    /// Empties the staging folder.
    fn clear(&self) -> Result<()> {
        let fail = |problem| Error::io(&self.folder, problem);
        fs::remove_dir_all(&self.folder).map_err(fail)?;
        fs::create_dir(&self.folder).map_err(fail)
    }

    /// Checks everything and gives the folder its name. A folder that is not right is removed.
    pub(super) fn finish(self, record: &SourceRecord, target: &Path) -> Result<Verified> {
        let verified = verify(&self.folder).inspect_err(|_| {
            let _ = fs::remove_dir_all(&self.folder);
        })?;
        if verified.card_is_edited {
            tracing::warn!(
                "{}: the model card was edited since the model was written",
                record.source
            );
        }
        let json = serde_json::to_vec_pretty(record).expect("strings are plain data");
        write_atomic(&self.folder.join(source::FILE), &json)?;
        staging::replace(&self.folder, target)?;
        Ok(verified)
    }
}

impl Drop for Fetching {
    fn drop(&mut self) {
        // Kept only with parts of a download.
        let _ = fs::remove_dir(&self.folder);
        let _ = fs::remove_file(&self.lock_path);
    }
}

/// The address of a file in the folder that an address names; a query stays.
fn file_address(address: &str, file: &str) -> String {
    let address = address.split('#').next().unwrap_or_default();
    let (path, query) = match address.split_once('?') {
        Some((path, query)) => (path, format!("?{query}")),
        None => (address, String::new()),
    };
    let folder = path
        .trim_end_matches("/manifest.json")
        .trim_end_matches('/');
    format!("{folder}/{}{query}", escaped(file, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_an_address() {
        for (address, expected) in [
            ("https://h/m", "https://h/m/a"),
            ("https://h/m/", "https://h/m/a"),
            ("https://h/m/manifest.json", "https://h/m/a"),
            ("https://h/m?x=1#y", "https://h/m/a?x=1"),
        ] {
            assert_eq!(file_address(address, "a"), expected);
        }
    }
}
