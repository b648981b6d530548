//! Download of one file: resumed where an earlier attempt ended, and checked before it gets its name.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha1::{Digest, Sha1};

use super::fault::Fault;
use super::http::{Answer, Client};
use super::repo_id::is_hexadecimal;
use crate::error::{Error, Result};

/// An attempt that read so much counts as a success of the connection: the number of failures starts again.
const ENOUGH: u64 = 8 << 20;
/// Pause between two looks at a lock.
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// The expected hash of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hash {
    /// SHA-256 of the content, in hexadecimal digits.
    Sha256(String),
    /// SHA-1 of the content as git computes it, in hexadecimal digits.
    GitSha1(String),
}

impl Hash {
    /// The hash that an ETag of a hub is.
    pub fn of_etag(etag: &str) -> Option<Self> {
        if is_hexadecimal(etag, 64) {
            Some(Self::Sha256(etag.into()))
        } else if is_hexadecimal(etag, 40) {
            Some(Self::GitSha1(etag.into()))
        } else {
            None
        }
    }

    fn text(&self) -> &str {
        match self {
            Self::Sha256(text) | Self::GitSha1(text) => text,
        }
    }

    /// The same hash of a file's content.
    fn compute(&self, path: &Path) -> Result<String> {
        match self {
            Self::Sha256(_) => crate::files::sha256(path),
            Self::GitSha1(_) => git_sha1(path).map_err(|source| Error::io(path, source)),
        }
    }
}

/// SHA-1 of a file as a git blob: of `blob LENGTH`, a zero byte and the content.
fn git_sha1(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha1::new();
    hasher.update(format!("blob {}\0", file.metadata()?.len()));
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => hasher.update(&buffer[..count]),
        }
    }
    let digest = hasher.finalize();
    Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A file to download.
pub struct Download<'a> {
    /// Its address.
    pub address: &'a str,
    /// Its name for messages.
    pub file: &'a str,
    /// Where it goes.
    pub target: &'a Path,
    /// Its length in bytes.
    pub size: u64,
    /// Its hash.
    pub hash: Option<Hash>,
}

impl Download<'_> {
    /// Where the content is until it is complete and checked.
    fn partial(&self) -> PathBuf {
        let mut name = self.target.as_os_str().to_owned();
        name.push(".incomplete");
        PathBuf::from(name)
    }

    /// True if the file is there in full length.
    pub fn is_there(&self) -> bool {
        fs::metadata(self.target).is_ok_and(|about| about.is_file() && about.len() == self.size)
    }

    /// Bytes that are still to be read.
    pub fn missing(&self) -> u64 {
        if self.is_there() {
            return 0;
        }
        let there = fs::metadata(self.partial()).map_or(0, |about| about.len());
        self.size.saturating_sub(there)
    }

    /// Downloads the file unless it is there. `report` gets the bytes that are there, and can stop the download.
    pub fn run(
        &self,
        client: &Client,
        lock: &Path,
        report: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<(), Fault> {
        if self.is_there() {
            return Ok(());
        }
        for path in [self.target, lock] {
            super::cache::create_parent(path).map_err(Fault::File)?;
        }
        let _lock = take_lock(lock, report)?;
        // Another process may have written it meanwhile.
        if self.is_there() {
            return Ok(());
        }
        let partial = self.partial();
        let mut was_resumed = self.transfer_all(client, &partial, report)?;
        while let Some(found) = self.wrong_hash(&partial).map_err(Fault::File)? {
            remove(&partial)?;
            if !was_resumed {
                return Err(Fault::WrongHash {
                    host: client.host(),
                    file: self.file.into(),
                    expected: self
                        .hash
                        .as_ref()
                        .map(Hash::text)
                        .unwrap_or_default()
                        .into(),
                    found,
                });
            }
            // What an earlier attempt had left was not part of this file.
            self.transfer_all(client, &partial, report)?;
            was_resumed = false;
        }
        fs::rename(&partial, self.target).map_err(|source| Fault::writing(self.target, 0, source))
    }

    /// The hash of a file if it is not the expected one.
    fn wrong_hash(&self, path: &Path) -> Result<Option<String>> {
        let Some(hash) = &self.hash else {
            return Ok(None);
        };
        let found = hash.compute(path)?;
        Ok((found != hash.text()).then_some(found))
    }

    /// Reads until the partial file is complete, in several attempts. True if a part was there before.
    fn transfer_all(
        &self,
        client: &Client,
        partial: &Path,
        report: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<bool, Fault> {
        let fail = |source| Fault::writing(partial, self.size, source);
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).read(true).write(true);
        let mut file = options.open(partial).map_err(fail)?;
        let mut start = file.seek(SeekFrom::End(0)).map_err(fail)?;
        if start > self.size {
            start = restart(&mut file).map_err(fail)?;
        }
        let was_resumed = start > 0;
        let mut failures = 0;
        while start < self.size {
            let before = start;
            let result = self.transfer(client, &mut file, &mut start, partial, report);
            match result {
                Ok(()) => break,
                Err(fault) if fault.is_transient() => {
                    if start.saturating_sub(before) >= ENOUGH {
                        failures = 0;
                    }
                    failures += 1;
                    if failures >= client.attempts() {
                        return Err(fault);
                    }
                    client.wait(failures, &fault);
                }
                Err(fault) => return Err(fault),
            }
        }
        file.sync_all().map_err(fail)?;
        Ok(was_resumed)
    }

    /// One request for the rest of the file. `start` is the length of the partial file, before and after.
    fn transfer(
        &self,
        client: &Client,
        file: &mut File,
        start: &mut u64,
        partial: &Path,
        report: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<(), Fault> {
        let fail = |source| Fault::writing(partial, self.size, source);
        let answer = client.get(self.address, *start)?;
        if answer.status == 416 && *start > 0 {
            *start = restart(file).map_err(fail)?;
            return Err(Fault::Cut {
                host: answer.host,
                reason: "the server does not go on from a position".into(),
            });
        }
        answer.check()?;
        if answer.status != 206 && *start > 0 {
            *start = restart(file).map_err(fail)?;
        }
        self.check_length(&answer, *start)?;
        let host = answer.host.clone();
        let mut reader = answer.body.into_reader();
        let mut buffer = vec![0; 1 << 16];
        loop {
            let count = match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(problem) => return Err(client.fault(&host, ureq::Error::from(problem))),
            };
            if *start + count as u64 > self.size {
                restart(file).map_err(fail)?;
                return Err(self.wrong_size(host, *start + count as u64));
            }
            file.write_all(&buffer[..count]).map_err(fail)?;
            *start += count as u64;
            if report(*start).is_break() {
                return Err(Fault::Interrupted);
            }
        }
        if *start < self.size {
            return Err(Fault::Cut {
                host,
                reason: format!("{} of {} bytes of {}", *start, self.size, self.file),
            });
        }
        Ok(())
    }

    /// Compares the announced length and position of an answer with what is missing.
    fn check_length(&self, answer: &Answer, start: u64) -> Result<(), Fault> {
        let number = |text: &str| text.trim().parse::<u64>().ok();
        if answer.status == 206 {
            let range = answer.own_header("content-range").unwrap_or_default();
            let (range, total) = range.split_once('/').unwrap_or((range, "*"));
            let first = range
                .strip_prefix("bytes ")
                .and_then(|range| range.split('-').next());
            if first.and_then(number) != Some(start) {
                return Err(Fault::Protocol {
                    host: answer.host.clone(),
                    reason: "another part of the file than asked for".into(),
                });
            }
            if let Some(total) = number(total).filter(|total| *total != self.size) {
                return Err(self.wrong_size(answer.host.clone(), total));
            }
        }
        match answer.own_header("content-length").and_then(number) {
            Some(length) if start.saturating_add(length) != self.size => {
                Err(self.wrong_size(answer.host.clone(), start.saturating_add(length)))
            }
            _ => Ok(()),
        }
    }

    fn wrong_size(&self, host: String, found: u64) -> Fault {
        Fault::WrongSize {
            host,
            file: self.file.into(),
            expected: self.size,
            found,
        }
    }
}

/// Empties a file; its length is then 0.
fn restart(file: &mut File) -> std::io::Result<u64> {
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))
}

fn remove(path: &Path) -> Result<(), Fault> {
    fs::remove_file(path).map_err(|source| Fault::writing(path, 0, source))
}

/// Locks a file, waiting for other processes. On file systems without locks nothing is locked.
pub(super) fn take_lock(
    path: &Path,
    report: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Option<File>, Fault> {
    let mut has_told = false;
    loop {
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(false).write(true).open(path);
        let file = file.map_err(|source| Fault::writing(path, 0, source))?;
        match file.try_lock() {
            // Python's lock removes the file in the end; then another process may have locked a new one.
            Ok(()) if is_same_file(&file, path) => return Ok(Some(file)),
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                if !has_told {
                    tracing::info!("another process downloads the same file; waiting for it");
                    has_told = true;
                }
                if report(0).is_break() {
                    return Err(Fault::Interrupted);
                }
                std::thread::sleep(LOCK_PAUSE);
            }
            Err(TryLockError::Error(_)) => return Ok(None),
        }
    }
}

#[cfg(unix)]
fn is_same_file(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let (Ok(one), Ok(other)) = (file.metadata(), fs::metadata(path)) else {
        return false;
    };
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// An open file cannot be removed on other systems.
#[cfg(not(unix))]
fn is_same_file(_: &File, _: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_git_and_of_large_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "hello\n").unwrap();
        // As `git hash-object` and `sha256sum` print them.
        let git = Hash::of_etag("ce013625030ba8dba906f756967f9e9ca394464a").unwrap();
        assert_eq!(git.compute(&path).unwrap(), git.text());
        let text = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
        let sha256 = Hash::of_etag(text).unwrap();
        assert_eq!(sha256, Hash::Sha256(text.into()));
        assert_eq!(sha256.compute(&path).unwrap(), text);
        assert_eq!(Hash::of_etag("ABC"), None);
    }
}
