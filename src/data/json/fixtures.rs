//! The JSON files of `tests/fixtures/formats`, each with its format, its entities and its warnings.

use crate::data::testing::{self, fixture};
use crate::data::{Format, Problem, ReadOptions, Severity, detect_format, scan};
use crate::text::Sentence;

/// The texts and types of all entities.
pub(in crate::data) fn found(sentences: &[Sentence]) -> Vec<(String, String)> {
    let of = |sentence: &Sentence| {
        let mut sentence = sentence.clone();
        sentence.entities.sort();
        let entities = testing::found(&sentence).into_iter();
        let owned = entities.map(|(text, label)| (text.to_string(), label.to_string()));
        owned.collect::<Vec<_>>()
    };
    sentences.iter().flat_map(of).collect()
}

/// Reads a text as a file with detected format.
pub(super) fn read_text(content: impl AsRef<[u8]>) -> (Vec<Sentence>, Vec<Problem>) {
    read_with(content, &ReadOptions::default())
}

/// Reads a text as a file with options.
pub(in crate::data) fn read_with(
    content: impl AsRef<[u8]>,
    options: &ReadOptions,
) -> (Vec<Sentence>, Vec<Problem>) {
    testing::scan_content("file.json", content, options)
}

#[test]
fn fixtures_have_their_format_and_entities() {
    let people = "Maria Keller PER|Lindholm LOC";
    let nested = "Maria Keller PER|University of Lindholm ORG|Lindholm LOC";
    for (file, format, entities, warnings) in [
        (
            "hugging_face/strings.jsonl",
            Format::TokensJsonl,
            "Maria Keller PER|Lindholm LOC|Zoë PER|Orvane 北京 ORG",
            &[][..],
        ),
        (
            "hugging_face/numbers/data/train.json",
            Format::Spert,
            people,
            &[],
        ),
        (
            "hugging_face/header/columns.json",
            Format::Spert,
            people,
            &[],
        ),
        ("hugging_face/rows.json", Format::Spert, people, &[]),
        (
            "hugging_face/layers.jsonl",
            Format::TokensJsonl,
            "Universität Lindholm ORG|Lindholm LOC",
            &[],
        ),
        ("tokens/dygie.jsonl", Format::TokensJsonl, nested, &[]),
        ("tokens/biaffine.jsonl", Format::TokensJsonl, nested, &[]),
        (
            "tokens/oneie.jsonl",
            Format::TokensJsonl,
            "Maria PER|Orvane ORG",
            &[],
        ),
        (
            "tokens/docred.json",
            Format::Spert,
            "Orvane ORG|New Lindholm LOC",
            &[],
        ),
        (
            "tokens/corenlp.json",
            Format::Spert,
            "Maria Keller PERSON",
            &[],
        ),
        (
            "text/cluener.jsonl",
            Format::TextJsonl,
            "林美 name|北京 address|奥万公司 company",
            &[],
        ),
        (
            "text/dataturks.jsonl",
            Format::TextJsonl,
            "Maria Keller Name|Lindholm Place",
            &[],
        ),
        (
            "text/cmeee.json",
            Format::TextJsonl,
            "头 bod|头痛 sym",
            &["read as inclusive"],
        ),
        (
            "text/instructuie.json",
            Format::TextJsonl,
            "Maria person|Orvane organization",
            &[],
        ),
        (
            "text/lighttag.json",
            Format::TextJsonl,
            "Maria PER|Orvane ORG",
            &[],
        ),
        (
            "text/rasa.json",
            Format::TextJsonl,
            "Lindholm location",
            &[],
        ),
        (
            "text/characters.jsonl",
            Format::TextJsonl,
            "林美 PER|北京 LOC",
            &[],
        ),
        (
            "doccano/labels.jsonl",
            Format::Doccano,
            "Maria Keller PER|Lindholm LOC|University of Lindholm ORG|Lindholm LOC",
            &[],
        ),
        (
            "doccano/relations.jsonl",
            Format::Doccano,
            "Google ORG|Larry Page PER",
            &[],
        ),
        ("doccano/list.json", Format::Doccano, "Maria PER", &[]),
        ("doccano/data.jsonl", Format::Doccano, "Maria PER", &[]),
        (
            "gliner/train.json",
            Format::Gliner,
            "Maria Keller person|University of Lindholm organization|Lindholm location",
            &[],
        ),
        ("gliner/train.jsonl", Format::Gliner, "Maria person", &[]),
        (
            "spacy/v2.json",
            Format::Spacy,
            people,
            &["1 words have the tag `-`"],
        ),
        (
            "spacy/doc.jsonl",
            Format::Spacy,
            "Maria PERSON|Orvane of Lindholm ORG|Lindholm GPE",
            &["the span groups sc are read as entities"],
        ),
        (
            "spacy/tuples.json",
            Format::Spacy,
            "Maria Keller PER|Lindholm LOC|University of Lindholm ORG|Lindholm LOC",
            &[],
        ),
        ("spacy/tuples.jsonl", Format::Spacy, people, &[]),
        (
            "spacy/ner_annotator.json",
            Format::Spacy,
            people,
            &["1 records are null"],
        ),
        (
            "spacy/example.json",
            Format::Spacy,
            "Maria GIVEN|Maria Keller PER",
            &[],
        ),
        (
            "prodigy/ner_manual.jsonl",
            Format::Prodigy,
            "Zoë PERSON|Orvane, Inc. ORG",
            &[
                "1 records with the answer `reject`",
                "1 records with the answer `ignore`",
            ],
        ),
        (
            "prodigy/spans_manual.jsonl",
            Format::Prodigy,
            "University of Lindholm ORG|Lindholm LOC",
            &[],
        ),
        ("prodigy/plain.jsonl", Format::Prodigy, "Apple ORG", &[]),
        (
            "label_studio/tasks.json",
            Format::LabelStudio,
            "Maria Keller PER|University of Lindholm ORG|Lindholm CITY|Lindholm LOC|Orvane ORG",
            &[
                "1 results of the type `choices` are ignored",
                "1 results of the type `relation` are ignored",
                "1 further annotations of the same tasks",
                "1 tasks have no annotations; their first prediction is used",
                "1 tasks are skipped, because they have no annotations",
            ],
        ),
        (
            "label_studio/min.json",
            Format::LabelStudio,
            people,
            &["1 further annotations of the same tasks"],
        ),
        (
            "label_studio/completions.json",
            Format::LabelStudio,
            "This Y|annotation X",
            &["2 spans count UTF-16 code units"],
        ),
        (
            "bioc/collection.json",
            Format::Bioc,
            "Aspirin Chemical|Lindholm disease Disease|IL-2 Gene",
            &["1 relations are ignored"],
        ),
        ("bioc/pubtator3.json", Format::Bioc, "TP53 Gene", &[]),
        (
            "bioc/sentences.json",
            Format::Bioc,
            "TP53 Gene|MDM2 Gene",
            &[],
        ),
    ] {
        let path = fixture(file);
        assert_eq!(detect_format(&path).unwrap(), format, "{file}");
        let (sentences, problems) = scan(&path, &ReadOptions::default()).unwrap();
        let named: Vec<String> = found(&sentences)
            .iter()
            .map(|(text, label)| format!("{text} {label}"))
            .collect();
        assert_eq!(named.join("|"), entities, "{file} {problems:?}");
        let mut messages: Vec<&str> = problems
            .iter()
            .map(|problem| problem.message.as_str())
            .filter(|message| !message.contains("discontinuous"))
            .collect();
        for warning in warnings {
            let at = messages
                .iter()
                .position(|message| message.starts_with(warning) || message.contains(warning));
            messages.remove(at.unwrap_or_else(|| panic!("{file}: no `{warning}` in {messages:?}")));
        }
        assert_eq!(messages, [""; 0], "{file}");
        assert!(
            problems
                .iter()
                .all(|problem| problem.severity == Severity::Warning),
            "{file}"
        );
    }
}

#[test]
fn line_endings_and_byte_order_marks_change_nothing() {
    for file in [
        "doccano/labels.jsonl",
        "spacy/v2.json",
        "bioc/collection.json",
        "label_studio/tasks.json",
        "tokens/dygie.jsonl",
    ] {
        let content = std::fs::read_to_string(fixture(file)).unwrap();
        let (expected, _) = read_text(&content);
        let (sentences, _) = read_text(format!("\u{feff}{}", content.replace('\n', "\r\n")));
        assert_eq!(found(&sentences), found(&expected), "{file}");
        assert!(!expected.is_empty());
    }
}

#[test]
fn words_of_the_file_are_kept_and_aligned() {
    let (sentences, _) = scan(
        &fixture("prodigy/ner_manual.jsonl"),
        &ReadOptions::default(),
    )
    .unwrap();
    let words: Vec<&str> = sentences[0]
        .words
        .iter()
        .map(|word| word.text.as_str())
        .collect();
    assert_eq!(words, ["Zoë", "visited", "Orvane", ",", "Inc."]);
    assert_eq!(sentences[0].text, "Zoë visited Orvane, Inc.");
    let (sentences, _) = scan(&fixture("spacy/v2.json"), &ReadOptions::default()).unwrap();
    assert_eq!(sentences.len(), 2);
    assert_eq!(
        (sentences[0].text.as_str(), sentences[0].trailing.as_str()),
        ("Maria Keller sings.", "  ")
    );
    assert_eq!(
        (sentences[1].text.as_str(), sentences[1].offset),
        ("She lives in Lindholm.", 21)
    );
    assert_eq!(sentences[1].document.as_deref(), Some("v2#0"));
    let (sentences, _) = scan(&fixture("spacy/doc.jsonl"), &ReadOptions::default()).unwrap();
    assert_eq!(sentences.len(), 2);
    assert_eq!(sentences[1].pos.as_deref().unwrap()[0], "NNP");
    let (sentences, _) = scan(&fixture("tokens/oneie.jsonl"), &ReadOptions::default()).unwrap();
    assert_eq!(
        (sentences[0].text.as_str(), sentences[0].document.as_deref()),
        ("Maria visited Orvane.", Some("d1"))
    );
}

/// `DataFrame.to_json(orient="split")` of pandas, `Document.to_dict` of Stanza 1.9 with a multiword token, and lists of words
/// and of tags.
#[test]
fn records_without_keys_are_read() {
    for (content, expected) in [
        (
            r#"{"columns":["tokens","ner_tags"],"index":[0],"data":[[["Ada","sang"],["B-PER","O"]]]}"#,
            "Ada PER",
        ),
        (
            r#"{"columns":["text","label"],"data":[["Ada sang",[[0,3,"PER"]]],["x",[]]]}"#,
            "Ada PER",
        ),
        (
            r#"[[{"id":1,"text":"Ada","ner":"S-PER"},{"id":[2,3],"text":"im","ner":"O"},{"id":2,"text":"in"},{"id":3,"text":"dem"},
                {"id":4,"text":"Harz","ner":"S-LOC"}]]"#,
            "Ada PER|Harz LOC",
        ),
        (
            r#"[[["Ada","sang"],["B-PER","O"]],[["x"],["O"]]]"#,
            "Ada PER",
        ),
        (
            r#"[{"sentence":"Ada sang","golden-entity-mentions":[{"text":"Ada","entity-type":"PER","start":0,"end":1}],
                "golden-event-mentions":[],"words":["Ada","sang"]}]"#,
            "Ada PER",
        ),
    ] {
        let (sentences, problems) = read_text(content);
        let entities: Vec<String> = found(&sentences)
            .into_iter()
            .map(|(text, label)| format!("{text} {label}"))
            .collect();
        assert_eq!(entities.join("|"), expected, "{content}: {problems:?}");
        assert!(
            problems.iter().all(|p| p.severity == Severity::Warning),
            "{problems:?}"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    std::fs::write(&path, r#"{"words": "Ada", "labels": "B-PER"}"#).unwrap();
    let error = detect_format(&path).unwrap_err().to_string();
    assert!(error.contains("each record is one word"), "{error}");
}

/// Tables of words as pandas writes them, with the number of the sentence in every row or only in the first of a sentence.
#[test]
fn words_in_records_of_their_own_are_grouped() {
    let lines = [
        r#"{"sentence_id":0,"words":"Ada","labels":"B-PER"}"#,
        r#"{"sentence_id":0,"words":"King","labels":"I-PER"}"#,
        r#"{"sentence_id":1,"words":"Rio","labels":"B-LOC"}"#,
    ];
    let columns = r#"{"Sentence #":{"0":"Sentence: 1","1":null,"2":"Sentence: 2"},"Word":{"0":"Ada","1":"King","2":"Rio"},
        "Tag":{"0":"B-PER","1":"I-PER","2":"B-LOC"}}"#;
    for content in [
        lines.join("\n"),
        format!("[{}]", lines.join(",")),
        columns.to_string(),
    ] {
        let (sentences, problems) = read_text(&content);
        assert_eq!(problems, [], "{content}");
        let people = [("Ada King", "PER"), ("Rio", "LOC")];
        let expected = people.map(|(text, label)| (text.to_string(), label.to_string()));
        assert_eq!(
            (sentences.len(), found(&sentences)),
            (2, expected.to_vec()),
            "{content}"
        );
    }
}
