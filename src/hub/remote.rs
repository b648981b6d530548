//! Downloads from a hub into the cache, and of single files.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::cache::RepoCache;
use super::download::{Download, Hash};
use super::fault::Fault;
use super::http::{Client, LINKED_SIZE, escaped};
use super::listing::{FileInfo, Listing};
use super::{Hub, Origin, Progress, RepoId, Snapshot, Wanted, failed, wanted};
use crate::error::Result;
use crate::files;

/// Time between two reports of progress.
const REPORT: Duration = Duration::from_millis(100);

/// Why nothing is downloaded.
const OFF: &str = "downloads are off (--offline or HF_HUB_OFFLINE)";

/// A file of a snapshot that is to be there.
struct Planned {
    file: String,
    address: String,
    blob: PathBuf,
    info: FileInfo,
}

impl Planned {
    fn download(&self) -> Download<'_> {
        Download {
            address: &self.address,
            file: &self.file,
            target: &self.blob,
            size: self.info.size,
            hash: self.info.hash.clone(),
        }
    }
}

impl Hub {
    /// Downloads what is missing of a repository's wanted files. `reason` says why the cache is not enough.
    pub(super) fn download(
        &self,
        id: &RepoId,
        wanted: &[Wanted<'_>],
        reason: &str,
    ) -> Result<Snapshot> {
        let name = id.to_string();
        let client = self.client()?;
        tracing::info!("{name}: {reason}; asking {}", client.host());
        let page = format!("{}/{}", self.endpoint, id.name());
        let explain = |fault: Fault| fault.explain(&name, &page, client.has_token());
        let listing = Listing::fetch(&client, &self.endpoint, id).map_err(explain)?;
        let commit = &listing.commit;
        let chosen = wanted::choose(&listing.files, wanted)
            .map_err(|problem| failed(&name, format!("{page} (commit {commit}): {problem}")))?;
        let repo = RepoCache::new(&self.cache, id);
        let plan = self
            .plan(&client, id, &repo, &listing, chosen)
            .map_err(explain)?;
        self.fetch_all(&client, &name, &plan, &repo)
            .map_err(explain)?;
        for planned in &plan {
            repo.link(commit, &planned.file, &planned.info.etag)?;
        }
        repo.set_commit(id.revision(), commit)?;
        Ok(Snapshot {
            folder: repo.snapshot(commit),
            origin: Origin {
                repository: id.name().into(),
                commit: commit.clone(),
            },
        })
    }

    /// Downloads one file from an http(s) address, which need not be a hub's: into `target`, resumed from
    /// `target.incomplete`, and checked against its size in bytes and its SHA-256. The token is sent to the endpoint only.
    pub fn download_file(
        &self,
        address: &str,
        target: &Path,
        size: u64,
        sha256: &str,
    ) -> Result<()> {
        let hash = Hash::Sha256(sha256.to_ascii_lowercase());
        self.download_one(address, target, size, Some(hash))
    }

    /// Like [`download_file`](Self::download_file) for a file whose hash is not known. Its content has to be checked
    /// afterwards.
    pub fn download_unchecked(&self, address: &str, target: &Path, size: u64) -> Result<()> {
        self.download_one(address, target, size, None)
    }

    fn download_one(
        &self,
        address: &str,
        target: &Path,
        size: u64,
        hash: Option<Hash>,
    ) -> Result<()> {
        let page = &shown(address);
        if self.offline {
            return Err(failed(page, OFF.into()));
        }
        let client = self.client()?;
        let download = Download {
            address,
            file: page.rsplit('/').next().unwrap_or(page),
            target,
            size,
            hash,
        };
        let mut lock = target.as_os_str().to_owned();
        lock.push(".lock");
        let lock = PathBuf::from(lock);
        let run = || {
            self.check_size(&client, download.file, size)?;
            check_space(target, download.missing())?;
            let mut report = |done| self.report(page, download.file, done, size);
            download.run(&client, &lock, &mut report)
        };
        let result = run().map_err(|fault| fault.explain(page, page, client.has_token()));
        let _ = std::fs::remove_file(&lock);
        result
    }

    /// Reads a text of at most 32 MiB from an http(s) address, which need not be a hub's.
    pub fn read_text(&self, address: &str) -> Result<String> {
        let page = &shown(address);
        if self.offline {
            return Err(failed(page, OFF.into()));
        }
        let client = self.client()?;
        let text = client.text(address);
        text.map_err(|fault| fault.explain(page, page, client.has_token()))
    }

    /// The length of the file at an http(s) address in bytes, as the server gives it.
    pub fn size_of(&self, address: &str) -> Result<u64> {
        let page = &shown(address);
        if self.offline {
            return Err(failed(page, OFF.into()));
        }
        let client = self.client()?;
        let answer = (client.head(address))
            .map_err(|fault| fault.explain(page, page, client.has_token()))?;
        let length = answer
            .header(LINKED_SIZE)
            .or_else(|| answer.own_header("content-length"));
        let length = length.and_then(|length| length.trim().parse().ok());
        length.ok_or_else(|| {
            let problem =
                "the server does not give the size of this file; download it with another program";
            failed(page, problem.into())
        })
    }

    /// The files of a repository as they are on the hub now; those in the cache are not downloaded again. Without downloads,
    /// those in the cache.
    pub fn update(&self, id: &RepoId, wanted: &[Wanted<'_>]) -> Result<Snapshot> {
        if self.offline {
            return self.snapshot(id, wanted);
        }
        self.download(id, wanted, "looking for its newest files")
    }

    /// Reports that all files of a source are there.
    pub(crate) fn report_end(&self, source: &str) {
        let _ = self.report(source, "", 0, 0);
    }

    /// The files of a repository with their sizes in bytes, as far as the hub gives them.
    pub fn files(&self, id: &RepoId) -> Result<Vec<(String, Option<u64>)>> {
        let name = id.to_string();
        if self.offline {
            return Err(failed(&name, OFF.into()));
        }
        let client = self.client()?;
        let page = format!("{}/{}", self.endpoint, id.name());
        let listing = Listing::fetch(&client, &self.endpoint, id)
            .map_err(|fault| fault.explain(&name, &page, client.has_token()))?;
        let size = |file: &String| listing.size(file);
        Ok(listing
            .files
            .iter()
            .map(|file| (file.clone(), size(file)))
            .collect())
    }

    /// Reads a text file of at most 32 MiB of a repository, without keeping it.
    pub fn read_file(&self, id: &RepoId, file: &str) -> Result<String> {
        let revision = escaped(id.revision(), false);
        let file = escaped(file, true);
        self.read_text(&format!(
            "{}/{}/resolve/{revision}/{file}",
            self.endpoint,
            id.name()
        ))
    }

    pub(super) fn client(&self) -> Result<Client> {
        Client::new(
            &self.endpoint,
            self.token.as_ref(),
            self.timeout,
            self.attempts,
            self.pause,
        )
    }

    /// Asks for size and hash of all files, before the first one is downloaded.
    fn plan(
        &self,
        client: &Client,
        id: &RepoId,
        repo: &RepoCache,
        listing: &Listing,
        files: Vec<String>,
    ) -> Result<Vec<Planned>, Fault> {
        let commit = &listing.commit;
        let mut plan = Vec::new();
        for file in files {
            let name = escaped(&file, true);
            let address = format!("{}/{}/resolve/{commit}/{name}", self.endpoint, id.name());
            let info = listing.about(client, &address, &file)?;
            self.check_size(client, &file, info.size)?;
            if info.hash.is_none() {
                tracing::warn!("{file}: the server gives no hash; only its size is checked");
            }
            plan.push(Planned {
                blob: repo.blob(&info.etag),
                file,
                address,
                info,
            });
        }
        Ok(plan)
    }

    fn check_size(&self, client: &Client, file: &str, size: u64) -> Result<(), Fault> {
        if size > self.largest_file {
            return Err(Fault::TooLarge {
                host: client.host(),
                file: file.into(),
                size,
                limit: self.largest_file,
            });
        }
        Ok(())
    }

    fn fetch_all(
        &self,
        client: &Client,
        name: &str,
        plan: &[Planned],
        repo: &RepoCache,
    ) -> Result<(), Fault> {
        let total = plan.iter().map(|planned| planned.info.size).sum();
        let missing = plan
            .iter()
            .map(|planned| planned.download().missing())
            .sum();
        check_space(&self.cache, missing)?;
        let mut before = 0;
        let last = Cell::new(None::<Instant>);
        for planned in plan {
            let mut report = |done: u64| {
                if last.get().is_some_and(|last| last.elapsed() < REPORT) {
                    return ControlFlow::Continue(());
                }
                last.set(Some(Instant::now()));
                self.report(name, &planned.file, before + done, total)
            };
            let lock = repo.lock(&planned.info.etag);
            planned.download().run(client, &lock, &mut report)?;
            before += planned.info.size;
        }
        if missing > 0 && self.report(name, "", total, total).is_break() {
            return Err(Fault::Interrupted);
        }
        Ok(())
    }

    fn report(&self, source: &str, file: &str, done: u64, total: u64) -> ControlFlow<()> {
        self.progress.report(Progress {
            source,
            file,
            done,
            total,
        })
    }
}

/// An address for messages: without user name, password, query and fragment.
fn shown(address: &str) -> String {
    let address = address.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = address.split_once("://").unwrap_or(("https", address));
    let (server, path) = match rest.find('/') {
        Some(start) => rest.split_at(start),
        None => (rest, ""),
    };
    let server = server.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{server}{path}")
}

/// A fault if the disk has not so many bytes left for a file or folder, where the system tells.
fn check_space(path: &Path, needed: u64) -> Result<(), Fault> {
    let existing = path.ancestors().find(|path| path.exists());
    match existing.and_then(files::available_space) {
        Some(available) if needed > available => Err(Fault::DiskFull {
            path: path.to_path_buf(),
            needed,
            available: Some(available),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_messages_have_no_secrets() {
        for (address, expected) in [
            ("https://u:secret@h:8/a/b?sig=secret#x", "https://h:8/a/b"),
            ("http://h", "http://h"),
            ("https://h/a@b/c", "https://h/a@b/c"),
        ] {
            assert_eq!(shown(address), expected);
        }
    }
}
