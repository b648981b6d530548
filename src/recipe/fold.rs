//! The fold of a cross-validation that a run belongs to.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Which part of the training and dev sentences, taken together, a run of a cross-validation trains and tests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Fold {
    /// Test on one fold and train on the others, written `2/5`.
    One {
        /// The number of the fold, from 1.
        number: usize,
        /// The number of folds, at least 2.
        count: usize,
    },
    /// Train on all sentences, without a dev set, written `all`.
    All,
}

impl FromStr for Fold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        let numbers = text
            .split_once('/')
            .and_then(|(number, count)| Some((number.parse().ok()?, count.parse().ok()?)));
        match numbers {
            Some((number, count)) if count >= 2 && (1..=count).contains(&number) => {
                Ok(Self::One { number, count })
            }
            _ => Err(format!(
                "{text:?} is not a fold; write its number and the number of folds, such as \"2/5\", or \"all\""
            )),
        }
    }
}

impl TryFrom<String> for Fold {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Fold> for String {
    fn from(fold: Fold) -> Self {
        fold.to_string()
    }
}

impl fmt::Display for Fold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One { number, count } => write!(f, "{number}/{count}"),
            Self::All => f.write_str("all"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_are_read_and_written() {
        let fold = Fold::One {
            number: 2,
            count: 5,
        };
        assert_eq!("2/5".parse(), Ok(fold));
        assert_eq!(fold.to_string(), "2/5");
        assert_eq!("all".parse(), Ok(Fold::All));
        for wrong in ["", "0/5", "6/5", "1/1", "2", "a/b"] {
            assert!(wrong.parse::<Fold>().unwrap_err().contains("2/5"));
        }
    }
}
