//! The Hugging Face cache, in the layout that Python's `huggingface_hub` reads and writes.
//!
//! ```text
//! models--owner--name/refs/main                      the commit of a branch or tag
//! models--owner--name/blobs/ETAG                     contents of files
//! models--owner--name/snapshots/COMMIT/config.json   link to ../../blobs/ETAG
//! .locks/models--owner--name/ETAG.lock               locked while a blob is written
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use super::Origin;
use super::repo_id::{RepoId, is_commit};
#[cfg(feature = "hub")]
use crate::error::{Error, Result};

/// Deepest folder in a snapshot whose files are listed.
const DEEPEST: usize = 8;

/// The folder of one repository in the cache.
pub struct RepoCache {
    #[cfg_attr(not(feature = "hub"), allow(dead_code))]
    cache: PathBuf,
    folder: PathBuf,
}

impl RepoCache {
    /// The folder of a repository in a cache.
    pub fn new(cache: &Path, id: &RepoId) -> Self {
        Self {
            cache: cache.to_path_buf(),
            folder: cache.join(format!("models--{}", id.name().replace('/', "--"))),
        }
    }

    /// The commit that a revision stood for when it was last asked for.
    pub fn commit(&self, revision: &str) -> Option<String> {
        if is_commit(revision) {
            return Some(revision.to_string());
        }
        let text = fs::read_to_string(self.folder.join("refs").join(revision)).ok()?;
        Some(text.trim().to_string()).filter(|commit| is_commit(commit))
    }

    /// The folder of a commit's files.
    pub fn snapshot(&self, commit: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit)
    }

    /// The paths of all files of a commit that are there.
    pub fn files(&self, commit: &str) -> Vec<String> {
        let mut files = Vec::new();
        list(&self.snapshot(commit), "", 0, &mut files);
        files.sort();
        files
    }
}

fn list(folder: &Path, prefix: &str, depth: usize, files: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let path = entry.path();
        if path.is_file() {
            files.push(format!("{prefix}{name}"));
        } else if depth < DEEPEST && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            list(&path, &format!("{prefix}{name}/"), depth + 1, files);
        }
    }
}

/// The repository and commit of a folder in a cache; `None` for other folders.
pub fn origin(folder: &Path) -> Option<Origin> {
    let folder = std::path::absolute(folder).ok()?;
    let mut parts = folder
        .components()
        .rev()
        .map(|part| part.as_os_str().to_str());
    let [commit, snapshots, repository] = [parts.next()??, parts.next()??, parts.next()??];
    let name = repository.strip_prefix("models--")?;
    (snapshots == "snapshots" && is_commit(commit)).then(|| Origin {
        repository: name.replace("--", "/"),
        commit: commit.to_string(),
    })
}

#[cfg(feature = "hub")]
impl RepoCache {
    /// The file with a content.
    pub fn blob(&self, etag: &str) -> PathBuf {
        self.folder.join("blobs").join(etag)
    }

    /// The file that is locked while a content is written.
    pub fn lock(&self, etag: &str) -> PathBuf {
        let name = self.folder.file_name().unwrap_or_default();
        self.cache
            .join(".locks")
            .join(name)
            .join(format!("{etag}.lock"))
    }

    /// Writes the commit of a branch or tag.
    pub fn set_commit(&self, revision: &str, commit: &str) -> Result<()> {
        if revision == commit {
            return Ok(());
        }
        let path = self.folder.join("refs").join(revision);
        create_parent(&path)?;
        crate::files::write_atomic(&path, commit.as_bytes())
    }

    /// Puts a content under the name of a file of a commit: as a relative link, or as a copy where there are no links.
    pub fn link(&self, commit: &str, file: &str, etag: &str) -> Result<()> {
        let path = self.snapshot(commit).join(file);
        let blob = self.blob(etag);
        if let (Ok(target), Ok(blob)) = (fs::canonicalize(&path), fs::canonicalize(&blob))
            && target == blob
        {
            return Ok(());
        }
        create_parent(&path)?;
        let up = "../".repeat(file.matches('/').count() + 2);
        let link = PathBuf::from(format!("{up}blobs/{etag}"));
        let folder = path.parent().unwrap_or(Path::new("."));
        // Under a temporary name first: another process may do the same.
        let temporary = tempfile::Builder::new()
            .prefix(".link-")
            .make_in(folder, |name| symlink(&link, name));
        if let Ok(temporary) = temporary
            && temporary.persist(&path).is_ok()
            && path.is_file()
        {
            return Ok(());
        }
        crate::files::write_atomic_with(&path, |target| {
            let mut source = fs::File::open(&blob).map_err(|source| Error::io(&blob, source))?;
            std::io::copy(&mut source, target).map_err(|source| Error::io(&path, source))?;
            Ok(())
        })
    }
}

/// Makes the folder of a file.
#[cfg(feature = "hub")]
pub fn create_parent(path: &Path) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(|source| Error::io(folder, source))
}

#[cfg(all(feature = "hub", unix))]
fn symlink(target: &Path, link: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

#[cfg(all(feature = "hub", windows))]
fn symlink(target: &Path, link: &Path) -> std::io::Result<()> {
    // Windows follows relative links only with its own separators.
    let target = target.to_string_lossy().replace('/', "\\");
    std::os::windows::fs::symlink_file(target, link)
}

#[cfg(all(feature = "hub", not(any(unix, windows))))]
fn symlink(_: &Path, _: &Path) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    #[test]
    fn the_origin_of_a_folder_in_a_cache() {
        let folder = format!("/c/models--a--b/snapshots/{COMMIT}");
        let found = origin(Path::new(&folder)).unwrap();
        assert_eq!(
            (found.repository.as_str(), found.commit.as_str()),
            ("a/b", COMMIT)
        );
        assert_eq!(origin(Path::new("/c/models--a--b/snapshots/main")), None);
        assert_eq!(origin(Path::new("/c/encoders/all-MiniLM-L6-v2")), None);
        assert_eq!(origin(Path::new("/")), None);
    }

    #[cfg(all(feature = "hub", unix))]
    #[test]
    fn files_are_relative_links_to_blobs() {
        let folder = tempfile::tempdir().unwrap();
        let repo = RepoCache::new(folder.path(), &"a/b".parse().unwrap());
        create_parent(&repo.blob("e")).unwrap();
        fs::write(repo.blob("e"), "content").unwrap();
        for _ in 0..2 {
            repo.link(COMMIT, "x/y.json", "e").unwrap();
            repo.set_commit("refs/pr/1", COMMIT).unwrap();
        }
        let path = repo.snapshot(COMMIT).join("x/y.json");
        assert_eq!(fs::read_link(&path).unwrap(), Path::new("../../../blobs/e"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "content");
        assert_eq!(repo.commit("refs/pr/1").unwrap(), COMMIT);
        assert_eq!(repo.commit("main"), None);
        assert_eq!(repo.files(COMMIT), ["x/y.json"]);
        assert_eq!(repo.files("0"), [""; 0]);
    }
}
