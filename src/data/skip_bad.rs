//! Skipping records with an error instead of refusing the file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::source::{Collector, Source};
use super::{Format, Problem, Severity};
use crate::error::{Error, Location, Result};

/// How many skipped records are listed.
const LISTED: usize = 10;
/// Part of the message of an error after which nothing more was read.
const TRUNCATED: &str = "the rest of the file was not read";

/// Prepares [`skip`]: finds the lines at which records start, and removes sentences of records with an error, of which only
/// the invalid entity was left out.
pub(super) fn prepare(corpus: &mut Collector, source: &Source, format: Format) {
    if !corpus.problems.iter().any(is_error) {
        return;
    }
    match format {
        // Blank lines separate records.
        Format::Columns | Format::Conllu | Format::Webanno | Format::Pubtator => {
            let mut starts = Vec::new();
            let mut is_inside = false;
            for line in source.lines() {
                let is_blank = line.text.is_ok_and(|text| text.trim().is_empty());
                if !is_blank && !is_inside {
                    starts.push(line.number);
                }
                is_inside = !is_blank;
            }
            corpus.records = Some(starts);
        }
        // One record per line, if it is not a list.
        Format::TokensJsonl | Format::TextJsonl | Format::Doccano | Format::Prodigy
            if source.first_byte() == Some(b'{') =>
        {
            let bad: BTreeSet<Location> = bad_records(corpus).into_keys().collect();
            let keep: Vec<bool> = (0..corpus.sentences.len())
                .map(|index| !bad.contains(&corpus.location(index)))
                .collect();
            corpus.retain(&keep);
        }
        _ => {}
    }
}

/// Reports the bad records and removes their errors from the problems. Fails if there are more than `limit`, or without a
/// limit (`usize::MAX`) more bad records than good sentences, and if nothing remains.
pub(super) fn skip(corpus: &mut Collector, path: &Path, limit: usize) -> Result<()> {
    let bad = bad_records(corpus);
    let Some((_, first)) = bad.first_key_value() else {
        return Ok(());
    };
    let fail = |problem: &Problem, why: String| {
        let message = format!("{}; {why}", problem.message);
        Err(Error::data(problem.location.clone(), message))
    };
    if let Some(problem) = corpus
        .problems
        .iter()
        .find(|problem| problem.message.contains(TRUNCATED))
    {
        return fail(problem, "this cannot be skipped: correct the file".into());
    }
    let good = corpus.sentences.len();
    if good == 0 {
        return fail(
            first,
            format!(
                "all of {} bad records are skipped and none remains",
                bad.len()
            ),
        );
    }
    if limit == usize::MAX && bad.len() > good {
        return fail(
            first,
            format!(
                "{} records are bad and {good} sentences are good, so the file may be of another format; choose --format, or \
                 allow so many with --skip-bad {0}",
                bad.len()
            ),
        );
    }
    if let Some(problem) = bad.values().nth(limit).filter(|_| bad.len() > limit) {
        let why = format!(
            "this is bad record {} of {}, and skip_bad allows {limit}; correct it, or allow more",
            limit + 1,
            bad.len()
        );
        return fail(problem, why);
    }
    let mut list: Vec<String> = bad
        .values()
        .take(LISTED)
        .map(|problem| format!("\n  {problem}"))
        .collect();
    if bad.len() > LISTED {
        list.push(format!(
            "\n  and {} more; `nerzoo data check {}` lists them",
            bad.len() - LISTED,
            path.display()
        ));
    }
    let noun = if bad.len() == 1 { "record" } else { "records" };
    tracing::warn!(
        "{}: {} bad {noun} skipped, {good} sentences remain:{}",
        path.display(),
        bad.len(),
        list.concat()
    );
    corpus.problems.retain(|problem| !is_error(problem));
    Ok(())
}

fn is_error(problem: &Problem) -> bool {
    problem.severity == Severity::Error
}

/// The first error of every bad record, by the line at which the record starts.
fn bad_records(corpus: &Collector) -> BTreeMap<Location, Problem> {
    let mut bad = BTreeMap::new();
    for problem in corpus.problems.iter().filter(|problem| is_error(problem)) {
        let mut location = problem.location.clone();
        if let Some(starts) = &corpus.records {
            let at = starts.partition_point(|start| *start <= location.line);
            location.line = at.checked_sub(1).map_or(location.line, |at| starts[at]);
            location.column = 0;
        }
        bad.entry(location).or_insert_with(|| problem.clone());
    }
    bad
}

/// The setting in recipes: a number, or `true` for any number.
pub(super) mod setting {
    use serde::{Deserialize, Deserializer, Serializer};

    #[derive(Deserialize)]
    #[serde(
        untagged,
        expecting = "skip_bad must be true, false or the largest number of bad records"
    )]
    enum Setting {
        Any(bool),
        Most(usize),
    }

    pub fn serialize<S: Serializer>(
        value: &Option<usize>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(usize::MAX) => serializer.serialize_bool(true),
            Some(most) => serializer.serialize_u64(*most as u64),
            None => serializer.serialize_bool(false),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<usize>, D::Error> {
        Ok(match Setting::deserialize(deserializer)? {
            Setting::Any(true) => Some(usize::MAX),
            Setting::Any(false) => None,
            Setting::Most(most) => Some(most),
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::data::{ReadOptions, read};
    use crate::error::Result;
    use crate::text::Sentence;

    fn with(name: &str, content: &str, skip_bad: usize) -> Result<Vec<Sentence>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        let options = ReadOptions {
            skip_bad: Some(skip_bad),
            ..ReadOptions::default()
        };
        read(&path, &options)
    }

    const GOOD: &str = "{\"tokens\": [\"a\"], \"entities\": []}\n";
    const BAD: &str = "{\"tokens\": [\"a\"], \"entities\": [[0, 9, \"A\"], [3, 1, \"A\"]]}\n";

    #[test]
    fn bad_records_are_skipped_up_to_the_limit() {
        let text = [GOOD, BAD, GOOD, "{oops\n", GOOD, GOOD].concat();
        assert_eq!(with("a.jsonl", &text, usize::MAX).unwrap().len(), 4);
        assert_eq!(with("a.jsonl", &text, 2).unwrap().len(), 4);
        let error = with("a.jsonl", &text, 1).unwrap_err().to_string();
        assert!(
            error.contains("a.jsonl:4") && error.contains("bad record 2 of 2"),
            "{error}"
        );
        let error = with("a.jsonl", &text, 0).unwrap_err().to_string();
        assert!(
            error.contains("a.jsonl:2") && error.contains("bad record 1 of 2"),
            "{error}"
        );
    }

    #[test]
    fn more_bad_than_good_needs_a_number() {
        let text = [GOOD, BAD, BAD].concat();
        let error = with("a.jsonl", &text, usize::MAX).unwrap_err().to_string();
        assert!(
            error.contains("a.jsonl:2")
                && error.contains("2 records are bad and 1 sentences are good"),
            "{error}"
        );
        assert_eq!(with("a.jsonl", &text, 2).unwrap().len(), 1);
        let error = with("a.jsonl", &[BAD, BAD].concat(), 9)
            .unwrap_err()
            .to_string();
        assert!(error.contains("none remains"), "{error}");
    }

    #[test]
    fn a_sentence_of_columns_is_one_record() {
        let text = "a O\nb\nc\nd O\n\ne O\nf B-X\n\ng O\nh O\n";
        assert_eq!(with("a.conll", text, 1).unwrap().len(), 2);
        let text = text.to_owned() + "\ni\nj O\n";
        let error = with("a.conll", &text, 1).unwrap_err().to_string();
        assert!(
            error.contains("a.conll:12") && error.contains("bad record 2 of 2"),
            "{error}"
        );
    }

    #[test]
    fn a_list_that_breaks_off_is_not_skipped() {
        let record = GOOD.trim();
        let list = format!("[{record}, {record}, {record} {record}]");
        let error = with("a.json", &list, 9).unwrap_err().to_string();
        assert!(error.contains("cannot be skipped"), "{error}");
        let bad = BAD.trim();
        let list = format!("[{record}, {bad}, {bad}, {record}, {record}]");
        assert_eq!(with("a.json", &list, 2).unwrap().len(), 3);
        assert!(with("a.json", &list, 1).is_err());
    }

    #[test]
    fn texts_with_an_invalid_entity_are_skipped_as_a_whole() {
        let good = "{\"text\": \"Anna sings\", \"label\": [[0, 4, \"PER\"]]}\n";
        let bad = "{\"text\": \"Anna sings\", \"label\": [[0, 4, \"PER\"], [0, 99, \"PER\"]]}\n";
        let sentences = with("a.jsonl", &[good, bad, good].concat(), usize::MAX).unwrap();
        assert_eq!(sentences.len(), 2);
    }

    #[test]
    fn the_setting_is_a_number_or_true() {
        let of = |text: &str| toml::from_str::<ReadOptions>(text).map(|options| options.skip_bad);
        assert_eq!(of("skip_bad = 3").unwrap(), Some(3));
        assert_eq!(of("skip_bad = true").unwrap(), Some(usize::MAX));
        assert_eq!(of("skip_bad = false").unwrap(), None);
        assert_eq!(of("").unwrap(), None);
        assert!(
            of("skip_bad = -1")
                .unwrap_err()
                .to_string()
                .contains("largest number")
        );
        for text in ["skip_bad = 3\n", "skip_bad = true\n"] {
            let options: ReadOptions = toml::from_str(text).unwrap();
            assert_eq!(toml::to_string(&options).unwrap(), text);
        }
    }
}
