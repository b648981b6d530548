//! Where a model is fetched from.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::places::is_model_name;
use crate::error::{Error, Result};
use crate::files::read_text;
use crate::hub::RepoId;

/// File in a fetched model's folder that says where it comes from.
pub const FILE: &str = "source.json";
/// Endings of archives that can be fetched.
pub const ARCHIVES: [&str; 4] = [".tar.gz", ".tgz", ".tar.zst", ".tar"];

/// Where a model is fetched from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A repository on the hub: `hf:owner/name` or `hf:owner/name@revision`.
    Hub(RepoId),
    /// The http(s) address of a model folder or of an archive.
    Address(String),
    /// A folder or an archive on this machine.
    Path(PathBuf),
}

impl Source {
    /// The source that a text with `hf:`, `http:` or `https:` at its start names; `None` for other texts.
    pub fn remote(text: &str) -> Result<Option<Self>> {
        if text.starts_with("hf:") {
            let id = text.parse().map_err(|problem| Error::Hub {
                name: text.into(),
                problem,
            })?;
            return Ok(Some(Self::Hub(id)));
        }
        let lower = text.to_ascii_lowercase();
        let is_address = lower.starts_with("https://") || lower.starts_with("http://");
        Ok(is_address.then(|| Self::Address(text.to_string())))
    }

    /// The source of `zoo pull`: a remote one or a path.
    pub fn parse(text: &str) -> Result<Self> {
        if let Some(remote) = Self::remote(text)? {
            return Ok(remote);
        }
        if Path::new(text).exists() {
            return Ok(Self::Path(text.into()));
        }
        let hint = match text.parse::<RepoId>() {
            Ok(id) if id.name().contains('/') => format!("; did you mean hf:{id}?"),
            _ => "; give hf:OWNER/NAME, an http(s) address, or a folder".into(),
        };
        Err(Error::Config(format!("{text}: no such folder{hint}")))
    }

    /// True for an archive, by its ending.
    pub fn is_archive(&self) -> bool {
        let name = match self {
            Self::Hub(_) => return false,
            Self::Address(address) => path_of(address).to_ascii_lowercase(),
            Self::Path(path) => path.to_string_lossy().to_ascii_lowercase(),
        };
        ARCHIVES.iter().any(|ending| name.ends_with(ending))
    }

    /// A name for the model, made of the last part of the source.
    pub fn default_name(&self) -> Option<String> {
        let text = match self {
            Self::Hub(id) => id.name().to_string(),
            Self::Address(address) => folder_path(address).to_string(),
            Self::Path(path) => path.canonicalize().ok()?.display().to_string(),
        };
        let last = text.trim_end_matches('/').rsplit(['/', '\\']).next()?;
        let ending = ARCHIVES
            .iter()
            .find(|ending| last.to_ascii_lowercase().ends_with(*ending));
        let last = &last[..last.len() - ending.map_or(0, |ending| ending.len())];
        is_model_name(last).then(|| last.to_string())
    }
}

/// The path of an address: without scheme and server, query and fragment.
fn path_of(address: &str) -> &str {
    let address = address.split(['?', '#']).next().unwrap_or_default();
    let (_, rest) = address.split_once("://").unwrap_or(("", address));
    rest.find('/').map_or("", |start| &rest[start..])
}

/// The path of an address without a slash or `manifest.json` at its end, so that one folder has one address.
fn folder_path(address: &str) -> &str {
    let path = path_of(address).trim_end_matches('/');
    let path = path.strip_suffix("/manifest.json").unwrap_or(path);
    path.trim_end_matches('/')
}

impl fmt::Display for Source {
    /// The source without user name, password and query, which may be secret. A path is named by its last part only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hub(id) => write!(f, "hf:{}@{}", id.name(), id.revision()),
            Self::Address(address) => {
                let (scheme, rest) = address.split_once("://").unwrap_or(("https", address));
                let server = rest.split(['/', '?', '#']).next().unwrap_or_default();
                let server = server.rsplit('@').next().unwrap_or_default();
                write!(
                    f,
                    "{}://{server}{}",
                    scheme.to_ascii_lowercase(),
                    folder_path(address)
                )
            }
            Self::Path(path) => {
                let name = path.file_name().unwrap_or(path.as_os_str());
                write!(f, "folder {}", name.display())
            }
        }
    }
}

/// What is recorded about a fetched model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRecord {
    /// The source as text.
    pub source: String,
    /// The commit of a hub repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

impl SourceRecord {
    /// The record in a folder, if there is one.
    pub fn read(folder: &Path) -> Option<Self> {
        let text = read_text(&folder.join(FILE), 1 << 16).ok()?;
        serde_json::from_str(&text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_told_apart_and_named() {
        for (text, shown, name, is_archive) in [
            ("hf:a/b", "hf:a/b@main", Some("b"), false),
            ("hf:a/b@v1", "hf:a/b@v1", Some("b"), false),
            (
                "https://h/x/model",
                "https://h/x/model",
                Some("model"),
                false,
            ),
            (
                "https://h/x/model/",
                "https://h/x/model",
                Some("model"),
                false,
            ),
            ("https://h/m/manifest.json", "https://h/m", Some("m"), false),
            (
                "HTTPS://u:secret@h:8/m.tar.gz?sig=secret",
                "https://h:8/m.tar.gz",
                Some("m"),
                true,
            ),
            (
                "http://h/m.TAR.ZST#x",
                "http://h/m.TAR.ZST",
                Some("m"),
                true,
            ),
            ("https://h", "https://h", None, false),
            ("https://h/..", "https://h/..", None, false),
        ] {
            let source = Source::remote(text).unwrap().unwrap();
            assert_eq!(source.to_string(), shown);
            assert_eq!(source.default_name().as_deref(), name, "{text}");
            assert_eq!(source.is_archive(), is_archive, "{text}");
        }
        assert_eq!(Source::remote("a/b").unwrap(), None);
        assert!(Source::remote("hf:../x").is_err());
        let problem = Source::parse("no-owner/no-model").unwrap_err().to_string();
        assert!(
            problem.contains("did you mean hf:no-owner/no-model?"),
            "{problem}"
        );
    }
}
