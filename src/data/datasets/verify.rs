//! Comparing the files of a dataset with the counts and hashes recorded in `dataset.toml`.

use std::fmt;

use serde::Serialize;

use super::{Dataset, SplitCounts};
use crate::error::Result;
use crate::files::sha256;
use crate::table::Table;
use crate::text::Sentence;

/// Comparison of a split's files with what is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SplitCheck {
    /// Name of the split.
    pub split: String,
    /// Counts in the files.
    pub found: SplitCounts,
    /// Recorded counts.
    pub expected: SplitCounts,
    /// Name of every file, and whether its hash equals the recorded one; `None` when none is recorded.
    pub hashes: Vec<(String, Option<bool>)>,
}

/// The result of [`verify`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// Name of the dataset.
    pub name: String,
    /// All splits that have files.
    pub splits: Vec<SplitCheck>,
}

/// Compares counts and hashes of the files of every split with what is recorded. A missing file is an error. The parts of a
/// dataset are compared with what is recorded of them.
pub fn verify(dataset: &Dataset) -> Result<Verification> {
    let mut splits = Vec::new();
    for part in &dataset.parts {
        for checked in verify(part)?.splits {
            let split = format!("{} {}", part.name, checked.split);
            splits.push(SplitCheck { split, ..checked });
        }
    }
    for (name, split) in dataset
        .info
        .splits
        .iter()
        .filter(|(_, split)| split.hold_out_of.is_none())
    {
        let sentences = dataset.load_whole(name)?;
        let entities = sentences.iter().map(Sentence::entity_count);
        let mut hashes = Vec::new();
        for (file, path) in split.files.iter().zip(dataset.files(name)?) {
            let equal = match split.sha256.get(file) {
                Some(recorded) => Some(sha256(&path)?.eq_ignore_ascii_case(recorded)),
                None => None,
            };
            hashes.push((file.clone(), equal));
        }
        splits.push(SplitCheck {
            split: name.clone(),
            found: SplitCounts {
                sentences: Some(sentences.len()),
                entities: Some(entities.sum()),
            },
            expected: dataset.expected(name)?,
            hashes,
        });
    }
    Ok(Verification {
        name: dataset.name.clone(),
        splits,
    })
}

impl SplitCheck {
    fn counts(&self) -> [(Option<usize>, Option<usize>); 2] {
        let (found, expected) = (self.found, self.expected);
        [
            (found.sentences, expected.sentences),
            (found.entities, expected.entities),
        ]
    }

    /// True when the files match everything that is recorded.
    pub fn ok(&self) -> bool {
        self.counts()
            .iter()
            .all(|(found, expected)| expected.is_none() || found == expected)
            && self.hashes.iter().all(|(_, equal)| *equal != Some(false))
    }
}

impl Verification {
    /// True when the files match everything that is recorded.
    pub fn ok(&self) -> bool {
        self.splits.iter().all(SplitCheck::ok)
    }
}

impl fmt::Display for Verification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = [
            "split",
            "sentences",
            "expected",
            "entities",
            "expected",
            "files",
        ];
        let mut table = Table::new(header).left([5]).min_widths([8, 9, 9, 9, 9]);
        for checked in &self.splits {
            let mut cells = vec![checked.split.clone()];
            let counts = checked.counts();
            let counts = counts
                .iter()
                .flat_map(|(found, expected)| [found, expected]);
            cells.extend(counts.map(|count| count.map_or("-".into(), |count| count.to_string())));
            let files = checked.hashes.iter().map(|(file, equal)| {
                let verdict = match equal {
                    Some(true) => "hash matches",
                    Some(false) => "hash differs",
                    None => "no hash recorded",
                };
                format!("{file} ({verdict})")
            });
            let mark = if checked.ok() { "" } else { "  <- differs" };
            cells.push(files.collect::<Vec<_>>().join(", ") + mark);
            table.row(cells);
        }
        writeln!(f, "{table}")?;
        let verdict = if self.ok() {
            "matches what is recorded"
        } else {
            "differs from what is recorded"
        };
        write!(f, "{} {verdict}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::datasets::find;
    use crate::data::datasets::tests::{HELD_OUT, jsonl};

    #[test]
    fn verifying_compares_counts_and_hashes() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join("held");
        jsonl(&folder, "a.jsonl", 20);
        jsonl(&folder, "b.jsonl", 5);
        let with_hash = |hash: &str| {
            let table = format!("sha256 = {{ 'a.jsonl' = '{hash}' }}\n[splits.dev]");
            std::fs::write(
                folder.join("dataset.toml"),
                HELD_OUT.replace("[splits.dev]", &table),
            )
            .unwrap();
            verify(&find("held", &[temporary.path().to_path_buf()]).unwrap()).unwrap()
        };
        let good = with_hash(&sha256(&folder.join("a.jsonl")).unwrap());
        assert!(good.ok(), "{good}");
        assert!(
            good.to_string().contains("b.jsonl (no hash recorded)"),
            "{good}"
        );
        assert!(
            good.to_string().ends_with("held matches what is recorded"),
            "{good}"
        );
        let bad = with_hash(&"0".repeat(64));
        assert!(
            !bad.ok() && bad.to_string().contains("a.jsonl (hash differs)"),
            "{bad}"
        );
        jsonl(&folder, "b.jsonl", 6);
        let longer = verify(&find("held", &[temporary.path().to_path_buf()]).unwrap()).unwrap();
        assert!(!longer.ok() && longer.splits[0].found.sentences == Some(26));
    }

    #[test]
    fn the_quickstart_matches_its_record() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets");
        let verification = verify(&find("quickstart", &[root]).unwrap()).unwrap();
        assert!(verification.ok(), "{verification}");
    }
}
