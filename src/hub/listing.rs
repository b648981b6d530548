//! What a hub says about a repository and its files.

use serde::Deserialize;

use super::download::Hash;
use super::fault::Fault;
use super::http::{Client, LINKED_ETAG, LINKED_SIZE, escaped};
use super::repo_id::{RepoId, is_commit, is_safe_path};

/// Most files of a repository.
const MOST_FILES: usize = 100_000;

/// The files of a repository at a commit.
#[derive(Debug)]
pub struct Listing {
    pub commit: String,
    pub files: Vec<String>,
    /// What the listing says about sizes and hashes, in the order of the files.
    details: Vec<Sibling>,
}

#[derive(Deserialize)]
struct Info {
    sha: String,
    #[serde(default)]
    siblings: Vec<Sibling>,
}

#[derive(Debug, Deserialize)]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    /// The hash of the file in git.
    #[serde(rename = "blobId")]
    blob: Option<String>,
    lfs: Option<LargeFile>,
}

/// A file that git only points to.
#[derive(Debug, Deserialize)]
struct LargeFile {
    sha256: Option<String>,
    size: Option<u64>,
}

impl Sibling {
    fn size(&self) -> Option<u64> {
        match &self.lfs {
            Some(file) => file.size.or(self.size),
            None => self.size,
        }
    }

    fn hash(&self) -> Option<Hash> {
        let text = match &self.lfs {
            Some(file) => file.sha256.as_deref(),
            None => self.blob.as_deref(),
        };
        Hash::of_etag(text?)
    }
}

impl Listing {
    /// Asks a hub for the commit of a revision and its files.
    pub fn fetch(client: &Client, endpoint: &str, id: &RepoId) -> Result<Self, Fault> {
        let address = format!(
            "{endpoint}/api/models/{}/revision/{}?blobs=true",
            id.name(),
            escaped(id.revision(), false)
        );
        let text = client.text(&address)?;
        Self::parse(&text).map_err(|reason| Fault::Protocol {
            host: client.host(),
            reason,
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let info: Info = serde_json::from_str(text)
            .map_err(|problem| format!("no description of a model: {problem}"))?;
        if !is_commit(&info.sha) {
            return Err("the commit is not one of git".into());
        }
        if info.siblings.len() > MOST_FILES {
            return Err(format!("{} files", info.siblings.len()));
        }
        // A file that would land outside of its folder means that nothing in the answer can be trusted.
        let paths = info.siblings.iter().map(|file| &file.rfilename);
        if let Some(path) = paths.clone().find(|path| escapes(path)) {
            return Err(format!(
                "the file {path:?} would be outside of the model's folder"
            ));
        }
        // Names that some systems cannot have are no files that we use.
        let files = paths.filter(|path| is_safe_path(path)).cloned().collect();
        Ok(Self {
            commit: info.sha,
            files,
            details: info.siblings,
        })
    }

    /// The size of a file in bytes, if the listing gives it.
    pub fn size(&self, file: &str) -> Option<u64> {
        let listed = self.details.iter().find(|one| one.rfilename == file);
        listed.and_then(Sibling::size)
    }

    /// Asks a hub about a file. The answer may redirect to a storage server, but says what is there; what it does not say is
    /// taken from the listing.
    pub fn about(&self, client: &Client, address: &str, file: &str) -> Result<FileInfo, Fault> {
        let answer = client.head(address)?;
        let listed = self.details.iter().find(|one| one.rfilename == file);
        let fail = |reason: String| Fault::Protocol {
            host: answer.host.clone(),
            reason,
        };
        let commit = &self.commit;
        if let Some(other) = answer.header("x-repo-commit")
            && other != commit
        {
            return Err(fail(format!(
                "{file} is of commit {other:?} instead of {commit}"
            )));
        }
        let linked = answer.header(LINKED_ETAG);
        let etag = linked.or_else(|| answer.own_header("etag"));
        let etag = etag.map(normalized).filter(|etag| is_file_name(etag));
        let etag = etag.ok_or_else(|| fail(format!("{file} has no usable ETag")))?;
        let length = || {
            let is_file = (200..300).contains(&answer.status);
            answer.own_header("content-length").filter(|_| is_file)
        };
        let size = answer.header(LINKED_SIZE).or_else(length);
        let size = size.and_then(|size| size.trim().parse().ok());
        let size = size.or_else(|| listed.and_then(Sibling::size));
        Ok(FileInfo {
            hash: Hash::of_etag(etag).or_else(|| listed.and_then(Sibling::hash)),
            etag: etag.to_string(),
            size: size.ok_or_else(|| fail(format!("the size of {file} is not given")))?,
        })
    }
}

/// True if a path leaves its folder on some system.
fn escapes(path: &str) -> bool {
    path.starts_with('/')
        || path.contains(['\\', '\0'])
        || path.split('/').any(|part| part == "..")
        || path.get(1..2) == Some(":")
}

/// What a hub says about a file.
#[derive(Debug)]
pub struct FileInfo {
    /// The name of the content in the cache.
    pub etag: String,
    pub size: u64,
    pub hash: Option<Hash>,
}

/// An ETag without quotes and the mark of a weak one.
fn normalized(etag: &str) -> &str {
    etag.trim().trim_start_matches("W/").trim_matches('"')
}

/// True for an ETag that can be the name of a file.
fn is_file_name(etag: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    (1..=128).contains(&etag.len()) && etag.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(files: &[&str]) -> Result<Listing, String> {
        let siblings: Vec<_> = (files.iter())
            .map(|file| serde_json::json!({"rfilename": file, "size": 3}))
            .collect();
        let sha = "0123456789abcdef0123456789abcdef01234567";
        Listing::parse(
            &serde_json::json!({"sha": sha, "siblings": siblings, "private": false}).to_string(),
        )
    }

    #[test]
    fn paths_that_leave_the_folder_are_refused() {
        assert_eq!(
            parsed(&["a.json", "b/c", "nul "]).unwrap().files,
            ["a.json", "b/c"]
        );
        for path in ["../a", "a/../../b", "/etc/passwd", "a\\b", "C:/a", ".."] {
            let problem = parsed(&["a.json", path]).unwrap_err();
            assert!(
                problem.contains("outside of the model's folder"),
                "{problem}"
            );
        }
        assert!(Listing::parse("<html>").is_err());
        assert!(Listing::parse(r#"{"sha": "../../x"}"#).is_err());
    }

    #[test]
    fn etags_are_file_names() {
        assert_eq!(normalized("W/\"abc\""), "abc");
        for (etag, expected) in [
            ("abc-1_d", true),
            ("../a", false),
            ("", false),
            ("a/b", false),
            ("a.lock", false),
        ] {
            assert_eq!(is_file_name(etag), expected, "{etag}");
        }
    }
}
