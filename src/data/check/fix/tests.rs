//! Tests of mended copies.

use super::*;
use crate::data::check::FindingKind;
use crate::data::read;
use crate::text::Entity;
use proptest::prelude::*;

fn folder(files: &[(&str, &str)]) -> (tempfile::TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    let write = |(name, content): &(&str, &str)| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    let paths = files.iter().map(write).collect();
    (folder, paths)
}

fn options(out: PathBuf) -> FixOptions {
    FixOptions {
        out,
        leaks: false,
        force: false,
    }
}

fn changes(report: &FixReport) -> Vec<(ChangeKind, usize)> {
    report
        .changes
        .iter()
        .map(|(kind, count)| (*kind, *count))
        .collect()
}

fn log(report: &FixReport) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(&report.log).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn a_mended_copy_passes_the_check_and_is_mended_no_further() {
    let text = concat!(
        "{\"text\": \"Maria sings in Lindholm .\", \"entities\": [[0, 6, \"PER\"], [15, 25, \"LOC\"]]}\n",
        "{\"text\": \"Anna, who\", \"entities\": [[0, 5, \"per\"], [0, 4, \"PER\"], [0, 4, \"PER\"], [1, 3, \"X\"]]}\n",
        "{\"text\": \"Zoë\", \"entities\": [[0, 3, \"PER\"], [0, 99, \"PER\"], [2, 1, \"PER\"]]}\n",
        "{\"text\": \"oops\", \"entities\": 3}\n",
    );
    let (folder, files) = folder(&[("a.jsonl", text)]);
    let out = folder.path().join("mended.jsonl");
    let report = fix(&files, &ReadOptions::default(), &options(out.clone())).unwrap();
    assert_eq!(
        changes(&report),
        [
            (ChangeKind::Label, 1),
            (ChangeKind::Edge, 3),
            (ChangeKind::Duplicate, 2),
            (ChangeKind::LeftOut, 3),
        ]
    );
    let sentences = read(&out, &ReadOptions::default()).unwrap();
    assert_eq!(sentences.len(), 3);
    assert_eq!(
        sentences[0].entities,
        [Entity::new(3, 4, "LOC"), Entity::new(0, 1, "PER")]
    );
    assert_eq!(sentences[1].entities, [Entity::new(0, 1, "PER")]);
    assert_eq!(sentences[2].entities, [Entity::new(0, 1, "PER")]);
    // What cannot be mended is listed: X is a part of a word.
    let remaining = &report.remaining;
    assert_eq!((remaining.errors, remaining.warnings), (0, 1));
    assert!(
        !remaining
            .findings
            .iter()
            .any(|finding| finding.kind == FindingKind::EdgePunctuation)
    );
    assert!(remaining.similar_labels.is_empty());
    let shown = report.to_string();
    assert!(
        shown.contains("9 changes") && shown.contains("not mended:") && shown.contains("X 1..3"),
        "{shown}"
    );
    let log = log(&report);
    assert_eq!(log.len(), 9);
    let label = log
        .iter()
        .find(|change| change["change"] == "label")
        .unwrap();
    assert_eq!(
        (&label["line"], &label["before"], &label["after"]),
        (&2.into(), &"per".into(), &"PER".into())
    );
    // Mending the copy changes nothing.
    let again = folder.path().join("again.jsonl");
    let second = fix(
        std::slice::from_ref(&out),
        &ReadOptions::default(),
        &options(again.clone()),
    )
    .unwrap();
    assert_eq!(changes(&second), []);
    assert_eq!(std::fs::read(&out).unwrap(), std::fs::read(&again).unwrap());
}

#[test]
fn tags_are_corrected_in_the_scheme_of_the_file() {
    let iob2 = "Anna\tB-PER\nsings\tO\nin\tO\nLindholm\tI-LOC\n.\tO\n";
    let bioes = "Anna\tS-PER\nMaria\tB-PER\nKeller\tE-PER\nOrvane\tB-ORG\n";
    let (folder, files) = folder(&[("a.conll", iob2), ("b.conll", bioes)]);
    let out = folder.path().join("out");
    let report = fix(&files, &ReadOptions::default(), &options(out.clone())).unwrap();
    assert_eq!(changes(&report), [(ChangeKind::Tag, 2)]);
    let written = std::fs::read_to_string(out.join("a.conll")).unwrap();
    assert!(written.contains("Lindholm\tB-LOC"), "{written}");
    let written = std::fs::read_to_string(out.join("b.conll")).unwrap();
    assert!(
        written.contains("Keller\tE-PER\nOrvane\tS-ORG"),
        "{written}"
    );
    assert_eq!((report.remaining.errors, report.remaining.warnings), (0, 0));
    let log = log(&report);
    assert_eq!(
        (&log[0]["line"], &log[0]["before"], &log[0]["after"]),
        (&4.into(), &"I-LOC".into(), &"B-LOC".into())
    );
    assert_eq!(report.log, folder.path().join("out.changes.jsonl"));
}

#[test]
fn leaks_are_removed_from_all_but_the_smallest_file() {
    let sentence = |words: &str| format!("{{\"tokens\": [{words}], \"entities\": []}}\n");
    let (one, two) = (
        sentence("\"a\", \"b\", \"c\", \"d\""),
        sentence("\"e\", \"f\", \"g\", \"h\""),
    );
    let short = sentence("\"yes\"");
    let train = [one.as_str(), &two, &one, &short].concat();
    let (folder, files) = folder(&[
        ("train.jsonl", &train),
        ("test.jsonl", &(one.clone() + &short)),
    ]);
    let out = folder.path().join("out/");
    let kept = fix(
        &files,
        &ReadOptions::default(),
        &options(folder.path().join("kept")),
    )
    .unwrap();
    assert_eq!(
        (kept.files[0].sentences, kept.remaining.leaks.len()),
        (4, 1)
    );
    let with_leaks = FixOptions {
        leaks: true,
        ..options(out)
    };
    let report = fix(&files, &ReadOptions::default(), &with_leaks).unwrap();
    let sentences: Vec<usize> = report.files.iter().map(|file| file.sentences).collect();
    assert_eq!(sentences, [2, 2]);
    assert_eq!(changes(&report), [(ChangeKind::Leak, 2)]);
    assert!(report.remaining.leaks.is_empty());
    assert_eq!(log(&report)[1]["line"], 3);
}

#[test]
fn nothing_is_overwritten_by_accident() {
    let (folder, files) = folder(&[("a.txt", "one two\n"), ("b.csv", "x,y\n")]);
    let first = &files[..1];
    let read = ReadOptions::default();
    let message = |result: Result<FixReport>| result.unwrap_err().to_string();
    assert!(
        message(fix(first, &read, &options(files[0].clone()))).contains("one of the files to mend")
    );
    assert!(
        message(fix(first, &read, &options(folder.path().to_path_buf())))
            .contains("one of the files to mend")
    );
    assert!(fix(&files, &read, &options(folder.path().join("c"))).is_err());
    assert!(!folder.path().join("c").exists());
    let copy = folder.path().join("copy.txt");
    fix(first, &read, &options(copy.clone())).unwrap();
    assert!(message(fix(first, &read, &options(copy.clone()))).contains("--force"));
    let force = FixOptions {
        force: true,
        ..options(copy)
    };
    fix(first, &read, &force).unwrap();
    let twice = [files[0].clone(), files[0].clone()];
    assert!(message(fix(&twice, &read, &options(folder.path().join("d")))).contains("one by one"));
}

#[test]
fn a_format_that_cannot_represent_everything_becomes_tokens() {
    let record = "[{\"sentence\": [\"a b\", \"c\"], \"ner\": [{\"index\": [0], \"type\": \"X\"}]}]";
    let conll = "a\u{b}b\tB-X\nc\tO\n";
    let (folder, files) = folder(&[("a.json", record), ("b.conll", conll)]);
    let report = fix(
        &files,
        &ReadOptions::default(),
        &options(folder.path().join("out")),
    )
    .unwrap();
    assert_eq!(report.files[0].format, Format::W2ner);
    assert_eq!(report.files[1].format, Format::TokensJsonl);
    assert!(report.files[1].to.ends_with("b.jsonl"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn mending_is_idempotent(
        records in prop::collection::vec((
            prop::collection::vec(prop::sample::select(vec!["Anna", "sings", ",", ".", "(", ")", "\"", "北京", "👩‍🔬", "Inc"]), 1..8),
            prop::collection::vec((0..40usize, 0..12usize, prop::sample::select(vec!["PER", "per", "Per ", "LOC", "loc-x", "LOC_X"])), 0..5),
        ), 1..6),
    ) {
        let text: String = records.iter().map(|(words, spans)| {
            let entities: Vec<_> = spans.iter().map(|(start, length, label)| serde_json::json!([start, start + length, label])).collect();
            serde_json::json!({"text": words.join(" "), "entities": entities}).to_string() + "\n"
        }).collect();
        let (folder, files) = folder(&[("a.jsonl", &text)]);
        let (one, two) = (folder.path().join("one.jsonl"), folder.path().join("two.jsonl"));
        let first = fix(&files, &ReadOptions::default(), &options(one.clone())).unwrap();
        prop_assert_eq!(first.remaining.errors, 0);
        prop_assert!(first.remaining.similar_labels.iter().all(|similar| similar.differ_in != crate::data::check::Similarity::Case));
        let is_edge = |kind| matches!(kind, FindingKind::EdgePunctuation | FindingKind::EdgeSpace);
        prop_assert!(!first.remaining.findings.iter().any(|finding| is_edge(finding.kind)));
        let second = fix(std::slice::from_ref(&one), &ReadOptions::default(), &options(two.clone())).unwrap();
        prop_assert_eq!(changes(&second), []);
        prop_assert_eq!(std::fs::read(&one).unwrap(), std::fs::read(&two).unwrap());
    }
}

#[test]
fn changes_do_not_depend_on_the_words_of_messages() {
    // Types and keys with the words that messages have.
    let text = concat!(
        "{\"tokens\": [\"a\", \"b\"], \"ner_tags\": [\"I-left-out\", \"B-counted-once\"]}\n",
        "{\"tokens\": [\"c\", \"d\"], \"ner_tags\": [\"B-left-out\", \"I-left-out\"]}\n",
    );
    let (folder, files) = folder(&[("a.jsonl", text)]);
    let reading = ReadOptions {
        scheme: Some(TagScheme::Iob2),
        ..ReadOptions::default()
    };
    let out = folder.path().join("mended.jsonl");
    let report = fix(&files, &reading, &options(out)).unwrap();
    assert_eq!(changes(&report), [(ChangeKind::Tag, 1)]);
    let log = log(&report);
    assert_eq!(
        (&log[0]["before"], &log[0]["after"]),
        (&"I-left-out".into(), &"B-left-out".into())
    );
}
