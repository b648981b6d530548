//! The error type of the library. An error in a corpus file carries file, line and column.

use std::fmt;
use std::path::{Path, PathBuf};

/// A result whose error is [`Error`] unless stated otherwise.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A location in a file. Lines and columns count from 1; 0 means that no line or column applies.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// The file.
    pub file: PathBuf,
    /// Line number from 1; 0 for the file as a whole.
    pub line: usize,
    /// Column in characters, from 1; 0 for the line as a whole.
    pub column: usize,
}

impl Location {
    /// The file as a whole.
    pub fn file(file: impl Into<PathBuf>) -> Self {
        Self::line(file, 0)
    }

    /// A line of a file.
    pub fn line(file: impl Into<PathBuf>, line: usize) -> Self {
        Self {
            file: file.into(),
            line,
            column: 0,
        }
    }

    /// The same line with a column.
    pub fn at(mut self, column: usize) -> Self {
        self.column = column;
        self
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
            if self.column > 0 {
                write!(f, ":{}", self.column)?;
            }
        }
        Ok(())
    }
}

/// All errors the library reports.
///
/// Messages name the file or setting at fault and the remedy. A cause, such as the operating system's error, is not part
/// of the message but available from [`source`](std::error::Error::source); [`Error::chain`] joins both, as does
/// `{:#}` of an `anyhow::Error`.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file operation failed.
    #[error("cannot access {path}", path = .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
    /// A corpus or prediction file has invalid content.
    #[error("{location}: {problem}")]
    Data {
        /// File, line and column.
        location: Location,
        /// Description of the problem, and a remedy.
        problem: String,
    },
    /// A recipe or a command-line value is invalid.
    #[error("{0}")]
    Config(String),
    /// A pretrained encoder cannot be loaded.
    #[error("encoder {path}: {problem}", path = .path.display())]
    Encoder {
        /// The folder or file.
        path: PathBuf,
        /// Description of the problem.
        problem: String,
    },
    /// A model cannot be found or downloaded by its name.
    #[error("{name}: {problem}")]
    Hub {
        /// The name that was asked for.
        name: String,
        /// Description of the problem, and a remedy.
        problem: String,
    },
    /// A device is missing, not supported by this build, or failed.
    #[error("{0}")]
    Device(String),
    /// A model folder or a run folder cannot be used.
    #[error("{path}: {problem}", path = .path.display())]
    ModelFolder {
        /// The folder or file.
        path: PathBuf,
        /// Description of the problem.
        problem: String,
    },
    /// A device failed while it computed.
    #[error("{context}")]
    DeviceFailed {
        /// When it happened, and the remedy.
        context: String,
        /// The error of the device.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Training cannot start or continue.
    #[error("{0}")]
    Training(String),
    /// The user interrupted the run, which can be resumed.
    #[error("{0}")]
    Interrupted(String),
}

/// A message of another library with the remedy added if it is about a full disk.
pub fn explain_full_disk(problem: &str) -> String {
    let is_full = ["No space left on device", "quota exceeded"]
        .iter()
        .any(|part| problem.contains(part));
    if is_full && !problem.contains(FULL_DISK) {
        format!("{problem}; {FULL_DISK}")
    } else {
        problem.into()
    }
}

/// What is wrong with a full disk, and the remedy.
const FULL_DISK: &str = "the disk is full, free some space and repeat the command";

impl Error {
    /// An I/O error and the path of the file or folder.
    pub fn io(path: impl AsRef<Path>, source: std::io::Error) -> Self {
        let source = match source.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                std::io::Error::new(source.kind(), explain_full_disk(&source.to_string()))
            }
            _ => source,
        };
        Self::Io {
            path: path.as_ref().to_path_buf(),
            source,
        }
    }

    /// An error in the content of a file.
    pub fn data(location: Location, problem: impl Into<String>) -> Self {
        Self::Data {
            location,
            problem: problem.into(),
        }
    }

    /// An error in a model folder or run folder.
    pub fn model_folder(path: impl AsRef<Path>, problem: impl Into<String>) -> Self {
        Self::ModelFolder {
            path: path.as_ref().to_path_buf(),
            problem: problem.into(),
        }
    }

    /// An error in a pretrained encoder's file or folder.
    pub fn encoder(path: impl AsRef<Path>, problem: impl Into<String>) -> Self {
        Self::Encoder {
            path: path.as_ref().to_path_buf(),
            problem: problem.into(),
        }
    }

    /// The message followed by those of all causes, separated by `: `. For logs and for messages that quote this one.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text += &format!(": {error}");
            cause = error.source();
        }
        text
    }
}

/// The known name most similar to a misspelt one, for "did you mean ...?"; `None` when none is similar enough.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= 2.max(candidate.chars().count() / 3))
        .min()
        .map(|(_, candidate)| candidate)
}

/// Adds the nearest known name to serde's "unknown field `x`, expected one of `a`, `b`".
pub fn explain(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    match quoted.split_first() {
        Some((unknown, known))
            if message.starts_with("unknown field") || message.starts_with("unknown variant") =>
        {
            match nearest(unknown, known.iter().copied()) {
                Some(near) => format!("{message}; did you mean `{near}`?"),
                None => message.to_string(),
            }
        }
        _ => message.to_string(),
    }
}

/// The message of a value that cannot be deserialized: the path of its key (empty or "." for the whole), what is wrong
/// and, for a misspelt name, the nearest known one.
pub fn key_problem(path: &str, message: &str) -> String {
    let message = explain(message);
    if path.is_empty() || path == "." {
        message
    } else {
        format!("{path}: {message}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_named() {
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        let full = std::io::Error::new(full.kind(), "No space left on device (os error 28)");
        let problem = Error::io("a", full).chain();
        assert_eq!(problem.matches("the disk is full").count(), 1, "{problem}");
        assert_eq!(explain_full_disk("not found"), "not found");
    }

    #[test]
    fn locations_omit_line_and_column_when_unknown() {
        assert_eq!(Location::file("a.txt").to_string(), "a.txt");
        assert_eq!(Location::line("a.txt", 3).at(7).to_string(), "a.txt:3:7");
    }

    #[test]
    fn io_errors_carry_their_cause() {
        let error = Error::io("a.txt", std::io::Error::other("disk full"));
        assert_eq!(error.to_string(), "cannot access a.txt");
        assert_eq!(error.chain(), "cannot access a.txt: disk full");
        #[cfg(feature = "cli")]
        assert_eq!(
            format!("{:#}", anyhow::Error::from(error)),
            "cannot access a.txt: disk full"
        );
    }

    #[test]
    fn nearest_only_suggests_similar_names() {
        assert_eq!(nearest("epoch", ["epochs", "batch"]), Some("epochs"));
        assert_eq!(nearest("zebra", ["epochs", "batch"]), None);
    }
}
