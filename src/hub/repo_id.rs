//! Names of repositories on a model hub.

use std::fmt;

/// The revision of a repository if none is given.
pub const MAIN: &str = "main";
/// Longest name and longest revision, in bytes.
const LONGEST: usize = 200;

/// A repository and one of its revisions: `owner/name`, `name` or `owner/name@revision`, with or without the prefix `hf:`.
///
/// ```
/// use nerzoo::hub::RepoId;
/// let id: RepoId = "hf:microsoft/deberta-v3-base@main".parse().unwrap();
/// assert_eq!(id.name(), "microsoft/deberta-v3-base");
/// assert_eq!(id.revision(), "main");
/// assert!("../secrets".parse::<RepoId>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RepoId {
    name: String,
    revision: Option<String>,
}

impl RepoId {
    /// The name without the revision.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The branch, tag or commit.
    pub fn revision(&self) -> &str {
        self.revision.as_deref().unwrap_or(MAIN)
    }
}

impl fmt::Display for RepoId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.revision {
            Some(revision) => write!(f, "{}@{revision}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl std::str::FromStr for RepoId {
    type Err = String;

    /// The error says why the text is not the name of a repository.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix("hf:").unwrap_or(text);
        let (name, revision) = match text.split_once('@') {
            Some((name, revision)) => (name, Some(revision)),
            None => (text, None),
        };
        let parts: Vec<&str> = name.split('/').collect();
        if parts.len() > 2 {
            return Err("a name on the hub is `owner/name` or `name`".into());
        }
        if let Some(part) = parts.iter().find(|part| !is_name(part)) {
            return Err(format!(
                "{part:?} is not part of a name on the hub: these have letters, digits, `-`, `_` and `.`, do not begin or \
                 end with `-` or `.`, and have no `--` or `..`"
            ));
        }
        if let Some(revision) = revision.filter(|revision| !is_revision(revision)) {
            return Err(format!("{revision:?} is not a branch, tag or commit"));
        }
        Ok(Self {
            name: name.into(),
            revision: revision.map(String::from),
        })
    }
}

/// True for an owner or a name. None of them can leave the cache folder or be mistaken for another one there.
fn is_name(part: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_edge = |end: Option<char>| matches!(end, Some('-' | '.'));
    !part.is_empty()
        && part.len() <= LONGEST
        && part.bytes().all(is_allowed)
        && !is_edge(part.chars().next())
        && !is_edge(part.chars().next_back())
        && !part.contains("--")
        && !part.contains("..")
}

/// True for a branch, tag or commit; it may contain slashes, as in `refs/pr/1`.
fn is_revision(text: &str) -> bool {
    is_safe_path(text) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// True for the path of a file that stays in its folder on every system.
pub(crate) fn is_safe_path(path: &str) -> bool {
    // Windows ignores spaces and dots at the end of a name.
    let is_safe = |part: &str| !part.is_empty() && !part.ends_with([' ', '.']);
    path.len() <= 2 * LONGEST
        && !path.contains(['\\', ':', '*', '?', '"', '<', '>', '|'])
        && !path.chars().any(char::is_control)
        && path.split('/').all(is_safe)
}

/// True for the full hash of a commit.
pub(super) fn is_commit(text: &str) -> bool {
    is_hexadecimal(text, 40)
}

/// True for so many lower-case hexadecimal digits.
pub(super) fn is_hexadecimal(text: &str, digits: usize) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == digits && text.bytes().all(is_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_and_without_owner_and_revision() {
        for (text, name, revision) in [
            ("bert-base-cased", "bert-base-cased", MAIN),
            ("hf:a/b", "a/b", MAIN),
            ("a/b@v1.0", "a/b", "v1.0"),
            ("a/b@refs/pr/1", "a/b", "refs/pr/1"),
            ("A_1/b.c-d", "A_1/b.c-d", MAIN),
        ] {
            let id: RepoId = text.parse().unwrap();
            assert_eq!((id.name(), id.revision()), (name, revision), "{text}");
            assert_eq!(id.to_string(), text.trim_start_matches("hf:"));
        }
    }

    #[test]
    fn paths_and_bad_names_are_refused() {
        for text in [
            "",
            "/",
            "/a",
            "a/",
            "a/b/c",
            "../a",
            "a/..",
            ".",
            "./a",
            "~/a",
            "a b",
            "a\\b",
            "-a",
            "a--b",
            "a@",
            "a@..",
            "a@../x",
            "a@/x",
            "a@x y",
            "C:\\a",
            "a@b@\u{7f}",
            "é",
        ] {
            assert!(text.parse::<RepoId>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn paths_that_leave_the_folder_are_not_safe() {
        for path in [
            "a",
            "a/b.json",
            ".gitattributes",
            "1_Pooling/config.json",
            "a..b",
        ] {
            assert!(is_safe_path(path), "{path:?}");
        }
        for path in [
            "", "/a", "../a", "a/../b", "a//b", "a/", "a\\b", "C:/a", "..", ".", "a/.", "a/...",
            "a\nb", "a. ", " ",
        ] {
            assert!(!is_safe_path(path), "{path:?}");
        }
        assert!(!is_safe_path(&"a".repeat(1000)));
    }
}
