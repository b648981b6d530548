//! The one error type of the library. A data error carries file, line and column.

use std::fmt;
use std::path::{Path, PathBuf};

/// What every fallible function of the library returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A place in a file; line and column count from 1, and 0 means "the file as a whole".
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// The file.
    pub file: PathBuf,
    /// Its line, from 1; 0 when no line is meant.
    pub line: usize,
    /// The column in characters, from 1; 0 when no column is meant.
    pub column: usize,
}

impl Location {
    /// A whole file.
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

/// Everything that can go wrong and is not a bug of ours. Messages name the thing and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused a file operation.
    #[error("{path}: {said}", path = .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        said: std::io::Error,
    },
    /// A corpus file says something that cannot be meant.
    #[error("{place}: {problem}")]
    Data {
        /// Where.
        place: Location,
        /// What is wrong, and what to do about it.
        problem: String,
    },
    /// A recipe or a command-line value.
    #[error("{0}")]
    Config(String),
    /// A pretrained encoder's folder.
    #[error("encoder {path}: {problem}", path = .path.display())]
    Encoder {
        /// The folder or file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A device that this build or machine does not have.
    #[error("{0}")]
    Device(String),
    /// A model bundle or a run folder.
    #[error("{path}: {problem}", path = .path.display())]
    ModelFolder {
        /// The folder or file.
        path: PathBuf,
        /// What is wrong with it.
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
    /// Training cannot go on.
    #[error("{0}")]
    Training(String),
    /// The user asked to stop; the run can be resumed.
    #[error("{0}")]
    Interrupted(String),
}

impl Error {
    /// An I/O error with the path it is about.
    pub fn io(path: impl AsRef<Path>, said: std::io::Error) -> Self {
        Self::Io {
            path: path.as_ref().to_path_buf(),
            said,
        }
    }

    /// A data error at a place.
    pub fn data(place: Location, problem: impl Into<String>) -> Self {
        Self::Data {
            place,
            problem: problem.into(),
        }
    }

    /// A bundle error for a path.
    pub fn model_folder(path: impl AsRef<Path>, problem: impl Into<String>) -> Self {
        Self::ModelFolder {
            path: path.as_ref().to_path_buf(),
            problem: problem.into(),
        }
    }

    /// An encoder error for a path.
    pub fn encoder(path: impl AsRef<Path>, problem: impl Into<String>) -> Self {
        Self::Encoder {
            path: path.as_ref().to_path_buf(),
            problem: problem.into(),
        }
    }
}

/// "did you mean ...?" for a misspelt name: the nearest of `known`, when one is near.
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
    fn places_print_what_is_known() {
        assert_eq!(Location::file("a.txt").to_string(), "a.txt");
        assert_eq!(Location::line("a.txt", 3).at(7).to_string(), "a.txt:3:7");
    }

    #[test]
    fn nearest_only_suggests_what_is_near() {
        assert_eq!(nearest("epoch", ["epochs", "batch"]), Some("epochs"));
        assert_eq!(nearest("zebra", ["epochs", "batch"]), None);
    }
}
