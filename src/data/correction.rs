//! What a reader does about a problem that it reports.

use super::tags::bio::TagProblem;

/// What a reader did about a problem. A mended copy of the file does not have the problem, and its log lists the change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Correction {
    /// A tag was read as another one.
    Tag {
        /// The tag of the file.
        before: String,
        /// The tag it was read as; `None` if that is not known.
        after: Option<String>,
    },
    /// An entity that was given before was not read again.
    Duplicate,
    /// An entity was left out.
    LeftOut,
}

/// The message about a problem, and what the reader did about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::data) struct Message {
    pub text: String,
    pub correction: Option<Correction>,
}

impl Message {
    /// The message about something that was corrected.
    pub fn corrected(text: String, correction: Correction) -> Self {
        Self {
            text,
            correction: Some(correction),
        }
    }

    /// The same message after a prefix that says what it is about.
    pub fn after(self, prefix: &str) -> Self {
        Self {
            text: format!("{prefix}{}", self.text),
            ..self
        }
    }
}

impl From<String> for Message {
    fn from(text: String) -> Self {
        Self {
            text,
            correction: None,
        }
    }
}

impl From<&str> for Message {
    fn from(text: &str) -> Self {
        Self::from(text.to_string())
    }
}

impl From<TagProblem> for Message {
    fn from(problem: TagProblem) -> Self {
        Self {
            text: problem.message,
            correction: problem.correction,
        }
    }
}
