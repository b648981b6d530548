//! Models by name: a folder of this machine, the Hugging Face cache, or a download into it.
//!
//! ```text
//! name ─▶ a folder ─▶ NERZOO_ENCODERS ─▶ the cache ─▶ the hub
//! ```
//!
//! The cache is shared with Python's `huggingface_hub`: the same folders, environment variables and locks. A file gets its
//! name there only after its size and hash were checked. Downloads need the Cargo feature `hub`.

mod cache;
#[cfg(feature = "hub")]
mod download;
#[cfg(feature = "hub")]
mod fault;
#[cfg(feature = "hub")]
mod http;
#[cfg(feature = "hub")]
mod listing;
pub mod local;
mod progress;
#[cfg(feature = "hub")]
mod remote;
mod repo_id;
#[cfg(feature = "hub")]
mod send;
mod settings;
#[cfg(feature = "hub")]
mod upload;
mod wanted;

use std::path::{Path, PathBuf};
use std::time::Duration;

#[cfg(feature = "hub")]
pub(crate) use http::escaped;
pub use progress::{OnProgress, Progress};
pub use repo_id::RepoId;
pub(crate) use repo_id::is_safe_path;
use serde::{Deserialize, Serialize};
pub use settings::Token;
#[cfg(feature = "hub")]
pub use upload::{UploadFile, Uploaded};
pub use wanted::Wanted;

use crate::error::{Error, Result};
use cache::RepoCache;

/// Largest file that is downloaded by default: 32 GiB.
pub const LARGEST_FILE: u64 = 32 << 30;

/// Where models come from.
///
/// ```no_run
/// use nerzoo::hub::{Hub, Wanted};
/// # fn main() -> nerzoo::error::Result<()> {
/// let hub = Hub::from_env();
/// let wanted = [Wanted::required(&[&["config.json"]], "choose another model")];
/// let snapshot = hub.snapshot(&"bert-base-cased@main".parse().unwrap(), &wanted)?;
/// println!("{} is commit {}", snapshot.folder.display(), snapshot.origin.commit);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Hub {
    /// The address of the hub, without a slash at its end.
    pub endpoint: String,
    /// The access token; sent to the endpoint only.
    pub token: Option<Token>,
    /// The cache folder.
    pub cache: PathBuf,
    /// True if nothing may be downloaded.
    pub offline: bool,
    /// Largest file that is downloaded, in bytes.
    pub largest_file: u64,
    /// Longest silence of a server.
    pub timeout: Duration,
    /// Attempts for each request.
    pub attempts: usize,
    /// Pause after the first failed attempt; it doubles with each.
    pub pause: Duration,
    /// Called during downloads.
    pub progress: OnProgress,
}

/// The repository and commit that files come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// Name on the hub, such as `microsoft/deberta-v3-base`.
    pub repository: String,
    /// The full hash of the commit.
    pub commit: String,
}

/// Files of a repository at one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The folder with the files.
    pub folder: PathBuf,
    /// Where they come from.
    pub origin: Origin,
}

/// The folder of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The folder.
    pub folder: PathBuf,
    /// Where its files come from, if known.
    pub origin: Option<Origin>,
}

impl Hub {
    /// The hub and cache that the environment variables of `huggingface_hub` describe: `HF_ENDPOINT`, `HF_TOKEN`,
    /// `HF_TOKEN_PATH`, `HF_HOME`, `HF_HUB_CACHE`, `HF_HUB_OFFLINE` and `HF_HUB_DOWNLOAD_TIMEOUT` (seconds).
    pub fn from_env() -> Self {
        let variables = &settings::variable;
        let timeout = settings::variable("HF_HUB_DOWNLOAD_TIMEOUT");
        let timeout = timeout.and_then(|text| text.trim().parse::<u64>().ok());
        Self {
            endpoint: settings::endpoint(variables),
            token: settings::token(variables),
            cache: settings::cache(variables),
            offline: settings::offline(variables),
            largest_file: LARGEST_FILE,
            timeout: Duration::from_secs(timeout.filter(|seconds| *seconds > 0).unwrap_or(30)),
            attempts: 5,
            pause: Duration::from_millis(500),
            progress: OnProgress::default(),
        }
    }

    /// The same without downloads.
    pub fn offline(mut self) -> Self {
        self.offline = true;
        self
    }

    /// The same with reports of downloads.
    pub fn with_progress(mut self, progress: OnProgress) -> Self {
        self.progress = progress;
        self
    }

    /// Finds the folder of a model: a path, a folder in one of `NERZOO_ENCODERS`, or a repository in the cache or on the
    /// hub. A folder is one of a model if it has the first of the wanted files. With the prefix `hf:` only repositories are
    /// looked for.
    pub fn find(&self, name: &str, wanted: &[Wanted<'_>]) -> Result<Found> {
        if !name.starts_with("hf:") {
            let is_model = |folder: &&PathBuf| {
                let first = wanted.iter().take(1);
                let mut files = first.flat_map(|one| one.any_of).map(|files| files.iter());
                files.any(|mut files| files.all(|file| folder.join(file).is_file()))
            };
            let folders = local::candidates(name);
            if let Some(folder) = folders.iter().find(is_model) {
                return Ok(Found {
                    folder: folder.clone(),
                    origin: cache::origin(folder),
                });
            }
            let first = wanted.first().map_or("", |one| one.any_of[0][0]);
            if Path::new(name).is_dir() {
                return Err(not_local(
                    name,
                    first,
                    "this folder is there, but it is not one of a model",
                ));
            }
            if let Err(reason) = name.parse::<RepoId>() {
                return Err(not_local(name, first, &reason));
            }
        }
        let id: RepoId = name.parse().map_err(|problem| failed(name, problem))?;
        let snapshot = self.snapshot(&id, wanted)?;
        Ok(Found {
            folder: snapshot.folder,
            origin: Some(snapshot.origin),
        })
    }

    /// The files of a repository: from the cache if all that is required is there, otherwise from the hub. Files are
    /// downloaded in the order of `wanted`; those that identify a complete model come last.
    pub fn snapshot(&self, id: &RepoId, wanted: &[Wanted<'_>]) -> Result<Snapshot> {
        match self.cached(id, wanted) {
            Ok(snapshot) => Ok(snapshot),
            Err(reason) if self.offline => Err(failed(
                &id.to_string(),
                format!(
                    "{reason}, and downloads are off (--offline or HF_HUB_OFFLINE); run the command once without, or set \
                     NERZOO_ENCODERS ({}) to a folder with a folder {:?}",
                    local::described_roots(),
                    local::last_part(id.name())
                ),
            )),
            Err(reason) => self.download(id, wanted, &reason),
        }
    }

    /// The files of a repository in the cache. An error says what is missing.
    fn cached(&self, id: &RepoId, wanted: &[Wanted<'_>]) -> std::result::Result<Snapshot, String> {
        let repo = RepoCache::new(&self.cache, id);
        let cache = self.cache.display();
        let commit = repo
            .commit(id.revision())
            .ok_or_else(|| format!("it is not in the cache {cache}"))?;
        let files = repo.files(&commit);
        if files.is_empty() {
            return Err(format!("it is not in the cache {cache}"));
        }
        wanted::choose(&files, wanted)
            .map_err(|_| format!("it is in the cache {cache} only in part"))?;
        Ok(Snapshot {
            folder: repo.snapshot(&commit),
            origin: Origin {
                repository: id.name().into(),
                commit,
            },
        })
    }

    #[cfg(not(feature = "hub"))]
    fn download(&self, id: &RepoId, _: &[Wanted<'_>], reason: &str) -> Result<Snapshot> {
        Err(failed(
            &id.to_string(),
            format!(
                "{reason}, and this build cannot download it: build with the Cargo feature `hub`, or download the model \
                 with another program and give its folder"
            ),
        ))
    }
}

/// Locks a file, waiting for other processes; `None` on file systems without locks.
#[cfg(feature = "hub")]
pub(crate) fn lock(path: &Path) -> Result<Option<std::fs::File>> {
    let mut report = |_| std::ops::ControlFlow::Continue(());
    download::take_lock(path, &mut report)
        .map_err(|fault| fault.explain(&path.display().to_string(), "", false))
}

/// The folder of all contents of a repository in a Hugging Face cache, given the folder of one of its commits.
pub(crate) fn repository_folder(folder: &Path) -> Option<PathBuf> {
    cache::origin(folder)?;
    folder
        .parent()?
        .parent()
        .map(|repository| repository.join("blobs"))
}

/// The error of a name that no folder has and that is no name on the hub.
fn not_local(name: &str, file: &str, reason: &str) -> Error {
    failed(
        name,
        format!(
            "there is no such folder with a {file}, and no folder {:?} in NERZOO_ENCODERS ({}); {reason}",
            local::last_part(name),
            local::described_roots()
        ),
    )
}

fn failed(name: &str, problem: String) -> Error {
    Error::Hub {
        name: name.into(),
        problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &[Wanted<'static>] = &[Wanted::required(&[&["config.json"]], "")];
    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    fn hub(cache: &Path) -> Hub {
        Hub {
            cache: cache.into(),
            ..Hub::from_env().offline()
        }
    }

    #[test]
    fn a_folder_is_found_by_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let hub = hub(folder.path());
        let model = folder.path().join("model");
        std::fs::create_dir(&model).unwrap();
        let name = model.display().to_string();
        let problem = hub.find(&name, CONFIG).unwrap_err().to_string();
        assert!(
            problem.contains("no such folder with a config.json"),
            "{problem}"
        );
        std::fs::write(model.join("config.json"), "{}").unwrap();
        let found = hub.find(&name, CONFIG).unwrap();
        assert_eq!(
            found,
            Found {
                folder: model,
                origin: None
            }
        );
    }

    #[test]
    fn a_repository_is_found_in_the_cache() {
        let folder = tempfile::tempdir().unwrap();
        let hub = hub(folder.path());
        let repo = folder.path().join("models--a--b");
        let problem = hub.find("a/b", CONFIG).unwrap_err().to_string();
        for part in [
            "a/b: it is not in the cache",
            "--offline",
            "NERZOO_ENCODERS",
        ] {
            assert!(problem.contains(part), "{problem}");
        }
        let snapshot = repo.join("snapshots").join(COMMIT);
        std::fs::create_dir_all(&snapshot).unwrap();
        std::fs::create_dir_all(repo.join("refs")).unwrap();
        std::fs::write(repo.join("refs/main"), COMMIT).unwrap();
        std::fs::write(snapshot.join("vocab.txt"), "a").unwrap();
        let problem = hub.find("a/b", CONFIG).unwrap_err().to_string();
        assert!(problem.contains("only in part"), "{problem}");
        std::fs::write(snapshot.join("config.json"), "{}").unwrap();
        let with_commit = format!("hf:a/b@{COMMIT}");
        for name in ["a/b", "hf:a/b", "a/b@main", &with_commit] {
            let found = hub.find(name, CONFIG).unwrap();
            assert_eq!(found.folder, snapshot);
            let origin = found.origin.unwrap();
            assert_eq!(
                (origin.repository.as_str(), origin.commit.as_str()),
                ("a/b", COMMIT)
            );
        }
        assert!(hub.find("a/b@v2", CONFIG).is_err());
        // The folder itself says where it is from.
        let path = snapshot.display().to_string();
        assert_eq!(
            hub.find(&path, CONFIG).unwrap().origin.unwrap().repository,
            "a/b"
        );
    }

    #[test]
    fn names_of_no_repository_are_explained() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["no/such/folder", "./x", "/none", "", "hf:a/b/c"] {
            let problem = hub(folder.path())
                .find(name, CONFIG)
                .unwrap_err()
                .to_string();
            assert!(problem.contains("on the hub"), "{problem}");
        }
    }
}
