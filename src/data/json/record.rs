//! Converting the records of a JSON file to sentences.
//!
//! Records have words with tags or with spans of words, or a text with spans of characters. Files are read twice: first to
//! decide what holds for all records (see [`Survey`]), then to convert them.

use serde_json::{Map, Value};

use super::entity::{RawSpan, Unit, parse_entities};
use super::keys::{Annotations, KNOWN};
use super::survey::Survey;
use super::values::type_name;
use super::{Place, document, records};
use crate::data::correction::{Correction, Message};
use crate::data::source::tally::Tally;
use crate::data::source::{Collector, Source};
use crate::data::{ReadOptions, Severity};

/// The kind of a JSON record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::data) enum RecordKind {
    /// `tokens`, with tags or spans of words.
    Tokens,
    /// `sentence`, and entities as lists of word indices.
    Index,
    /// `tokenized_text`, and `ner` with inclusive ends.
    Gliner,
    /// A sentence of a document with `sentences`.
    Sentences,
    /// `text`, and entities as spans of characters.
    Text,
    /// The same for whole documents.
    Document,
}

impl RecordKind {
    /// True for records with words.
    pub fn has_words(self) -> bool {
        !matches!(self, RecordKind::Text | RecordKind::Document)
    }

    /// The key that every record has.
    pub fn key(self) -> &'static str {
        match self {
            RecordKind::Tokens | RecordKind::Sentences => "tokens",
            RecordKind::Index => "sentence",
            RecordKind::Gliner => "tokenized_text",
            RecordKind::Text | RecordKind::Document => "text",
        }
    }
}

/// Reads a JSON file of records with words or texts.
pub(in crate::data) fn read(
    source: &Source,
    kind: RecordKind,
    options: &ReadOptions,
    corpus: &mut Collector,
) {
    let mut survey = Survey::default();
    records(source, |place, value| {
        let _ = each_sentence(value, kind, |kind, object| {
            survey.add(place, kind, object, options)
        });
    });
    let rules = match survey.decide(source, options, corpus) {
        Ok(rules) => rules,
        Err((line, message)) => return corpus.error(line, message),
    };
    let mut tally = Tally::default();
    let faults = records(source, |place, value| {
        let result = each_sentence(value, kind, |kind, object| {
            let mut record = Record::new(object, place, corpus);
            if kind.has_words() {
                record.convert_words(kind, &rules, options, &mut tally);
            } else {
                record.convert_text(kind, &rules, options, &mut tally);
            }
        });
        if let Err(problem) = result {
            corpus.report(
                Severity::Error,
                place.at,
                format!("{}{problem}", place.prefix),
            );
        }
    });
    faults.report(corpus);
    tally.report(corpus);
}

/// A record as an object; any other value is reported.
pub(in crate::data) fn object<'v>(
    value: &'v Value,
    place: &Place,
    corpus: &mut Collector,
) -> Option<&'v Map<String, Value>> {
    let object = value.as_object();
    if object.is_none() {
        let message = format!("{}{}", place.prefix, not_an_object(value));
        corpus.report(Severity::Error, place.at, message);
    }
    object
}

fn not_an_object(value: &Value) -> String {
    format!("not a JSON object but {}", type_name(value))
}

/// Calls `each` with a record, or with the sentences of a document of words.
fn each_sentence(
    value: Value,
    kind: RecordKind,
    mut each: impl FnMut(RecordKind, &Map<String, Value>),
) -> Result<(), String> {
    let Value::Object(object) = &value else {
        return Err(not_an_object(&value));
    };
    if kind.has_words()
        && let Some(sentences) = document::sentences(object)
    {
        for sentence in sentences?.iter().filter_map(Value::as_object) {
            each(RecordKind::Sentences, sentence);
        }
    } else {
        each(kind, object);
    }
    Ok(())
}

/// A record that is being converted.
pub(in crate::data) struct Record<'a, 'b> {
    pub object: &'a Map<String, Value>,
    pub place: &'b Place,
    pub corpus: &'b mut Collector,
    /// Set to false by an error.
    pub valid: bool,
}

impl<'a, 'b> Record<'a, 'b> {
    pub fn new(
        object: &'a Map<String, Value>,
        place: &'b Place,
        corpus: &'b mut Collector,
    ) -> Self {
        Self {
            object,
            place,
            corpus,
            valid: true,
        }
    }

    /// Reports an error about the record, which is then not used.
    pub fn error(&mut self, message: impl Into<Message>) {
        self.valid = false;
        self.report(Severity::Error, message.into());
    }

    /// Reports an invalid entity: an error of the record, or in a mended copy a warning about an entity left out.
    pub fn invalid_entity(&mut self, message: String) {
        if self.corpus.mending {
            let text = format!("{message}; the entity is left out");
            self.warn(Message::corrected(text, Correction::LeftOut));
        } else {
            self.error(message);
        }
    }

    /// Reports a warning about the record.
    pub fn warn(&mut self, message: impl Into<Message>) {
        self.report(Severity::Warning, message.into());
    }

    fn report(&mut self, severity: Severity, message: Message) {
        let message = message.after(&self.place.prefix);
        self.corpus.report(severity, self.place.at, message);
    }

    /// The line of the record.
    pub fn line(&self) -> usize {
        self.place.at.0
    }

    /// Reports that a record does not have what its format requires.
    pub fn lacks(&mut self, key: &str) {
        let keys: Vec<&str> = self.object.keys().map(String::as_str).collect();
        self.error(format!(
            "has no `{key}`, but the keys {}; choose another --format if this is not the right one",
            keys.join(", ")
        ));
    }

    /// Reports annotations that are not understood, and counts those that are not used.
    pub(super) fn check(&mut self, found: &Annotations<'_>, tally: &mut Tally) {
        if let (Some((first, _)), [second, ..]) = (found.spans, &found.unknown[..]) {
            self.error(format!("has both `{first}` and `{second}`; keep one"));
        } else if !found.unknown.is_empty() {
            self.error(format!(
                "`{}` looks like annotations but is not understood; rename it to one of the known keys ({KNOWN}), or delete it",
                found.unknown.join("`, `")
            ));
        }
        for key in &found.unused {
            let used = found.tags.first().map_or("", |(key, _)| key);
            tally.add(
                self.line(),
                &format!("`{key}` is not used, because `{used}` is ({{n}} records)"),
            );
        }
        if found.present && found.tags.is_empty() && found.spans.is_none() {
            tally.add(
                self.line(),
                "{n} records have null instead of annotations; read as sentences without entities",
            );
        }
    }

    /// The strings of a list.
    pub fn strings(&mut self, key: &str, value: &'a Value) -> Option<Vec<&'a str>> {
        let list = value.as_array();
        let strings = list.and_then(|list| list.iter().map(Value::as_str).collect());
        if strings.is_none() {
            self.error(format!("`{key}` must be a list of strings"));
        }
        strings
    }

    /// The part-of-speech tags. A text is split into words by this program; tags for a different split are no error.
    pub fn part_of_speech(&mut self, length: usize, is_strict: bool) -> Option<Vec<String>> {
        let value = self.object.get("pos").filter(|value| !value.is_null())?;
        let tags = self.strings("pos", value)?;
        if tags.len() != length {
            let message = format!(
                "`pos` has {} tags for {length} words; give one for each word, or none",
                tags.len()
            );
            if is_strict {
                self.error(message);
            } else {
                self.warn(message);
            }
            return None;
        }
        Some(tags.into_iter().map(str::to_string).collect())
    }

    /// The spans of a value with their places, such as `entities[3]`; those that cannot be parsed are reported.
    pub fn spans<'v>(
        &mut self,
        key: &str,
        value: &'v Value,
        unit: Unit,
        options: &'v ReadOptions,
    ) -> Vec<(String, RawSpan<'v>)> {
        let (spans, problems) = parse_entities(value, unit, options.labels.as_deref());
        for (at, problem) in problems {
            self.invalid_entity(format!("`{key}`{at} {problem}"));
        }
        spans
            .into_iter()
            .map(|(at, span)| (format!("`{key}`{at}"), span))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::json::fixtures::{found, read_text, read_with};
    use crate::data::{Format, Problem};
    use crate::text::{Entity, Sentence};
    use proptest::prelude::*;

    fn with(format: Format, content: impl AsRef<[u8]>) -> (Vec<Sentence>, Vec<Problem>) {
        read_with(content, &ReadOptions::of(format))
    }

    #[test]
    fn tokens_with_word_spans() {
        let (sentences, problems) = with(
            Format::TokensJsonl,
            r#"{"doc": 3, "tokens": ["New", "York", "."], "pos": ["N", "N", "P"], "entities": [{"start": 0, "end": 2, "type": "LOC"}, [0, 1, "X"]], "text": "New York."}"#,
        );
        assert_eq!(problems, []);
        assert_eq!(sentences[0].text, "New York.");
        assert_eq!(sentences[0].document.as_deref(), Some("3"));
        assert_eq!(sentences[0].pos.as_ref().unwrap().len(), 3);
        assert_eq!(
            sentences[0].entities,
            [Entity::new(0, 2, "LOC"), Entity::new(0, 1, "X")]
        );
    }

    #[test]
    fn texts_with_character_spans() {
        let (sentences, problems) = with(
            Format::TextJsonl,
            "\n{\"id\": 1, \"text\": \"👩‍🔬 Zoë in 北京\", \"label\": [[4, 7, \"PER\"], [11, 13, \"LOC\"], [5, 7, \"BAD\"]]}\r\n",
        );
        assert_eq!(
            sentences[0].entities,
            [Entity::new(1, 2, "PER"), Entity::new(3, 5, "LOC")]
        );
        assert_eq!(sentences[0].misaligned.len(), 1);
        assert_eq!(problems.len(), 1);
        assert!(
            problems[0].message.contains("`oë`"),
            "{}",
            problems[0].message
        );
    }

    /// Records whose annotations must not be ignored without a message.
    #[test]
    fn common_records_have_their_entities() {
        for (content, entities) in [
            (
                r#"{"tokens": ["Maria", "Keller", "sings"], "ner_tags": ["B-PER", "I-PER", "O"]}"#,
                "Maria Keller",
            ),
            (
                r#"{"tokens": ["Maria", "Keller", "sings"], "tags": ["B-PER", "I-PER", "O"]}"#,
                "Maria Keller",
            ),
            (
                r#"{"tokens": ["Maria", "Keller", "sings"], "labels": ["I-PER", "I-PER", "O"]}"#,
                "Maria Keller",
            ),
            (
                r#"{"words": ["Maria", "Keller", "sings"], "ner": ["PER", "PER", "O"]}"#,
                "Maria Keller",
            ),
            (
                r#"{"tokens": ["Maria", "Keller", "sings"], "ners": [[0, 1, "PER"]]}"#,
                "Maria Keller",
            ),
            (
                r#"{"tokens": ["Maria", "Keller"], "ners": [[0, 2, "PER"]]}"#,
                "Maria Keller",
            ),
            (
                r#"{"tokens": ["Maria", "Keller"], "spans": [{"start": 0, "end": 2, "label": "PER"}]}"#,
                "Maria Keller",
            ),
            (
                r#"{"tokens": ["Maria", "Keller"], "text": "Maria Keller", "entities": [[0, 12, "PER"]]}"#,
                "Maria Keller",
            ),
            (
                r#"{"tokens": [{"text": "Maria", "tag": "B-PER"}, {"text": "sings", "tag": "O"}]}"#,
                "Maria",
            ),
            (
                r#"{"text": ["Maria", "sings"], "label": ["B-PER", "O"]}"#,
                "Maria",
            ),
            (r#"{"sentence": "Maria sings", "tags": "B-PER O"}"#, "Maria"),
            (
                r#"{"text": "Maria sings", "ents": [{"start": 0, "end": 5, "label": "PER"}]}"#,
                "Maria",
            ),
            (
                r#"{"text": "Maria sings", "annotations": [{"start": 0, "end": 5, "label": "PER", "text": "Maria"}]}"#,
                "Maria",
            ),
            (
                r#"{"text": "Maria sings", "entities": {"start": [0], "end": [5], "label": ["PER"]}}"#,
                "Maria",
            ),
            (
                r#"{"text": "Maria sings", "entities": {"PER": [[0, 5]]}}"#,
                "Maria",
            ),
        ] {
            let (sentences, problems) = read_text(content);
            let errors = problems
                .iter()
                .filter(|problem| problem.severity == Severity::Error);
            assert_eq!(errors.count(), 0, "{content} {problems:?}");
            assert_eq!(
                found(&sentences),
                [(entities.to_string(), "PER".to_string())],
                "{content}"
            );
        }
    }

    #[test]
    fn numbers_need_names() {
        let content = r#"{"tokens": ["Maria", "sings"], "ner_tags": [1, 0]}"#;
        let (sentences, problems) = read_text(content);
        assert!(sentences.is_empty() && problems.len() == 1);
        assert!(
            problems[0].message.contains("--labels O,B-PER"),
            "{}",
            problems[0]
        );
        assert_eq!(problems[0].location.line, 1);
        let labels = Some(vec!["O".to_string(), "B-PER".to_string()]);
        let (sentences, problems) = read_with(
            content,
            &ReadOptions {
                labels,
                ..ReadOptions::default()
            },
        );
        assert_eq!((found(&sentences).len(), problems.len()), (1, 0));
    }

    #[test]
    fn the_scheme_is_detected_over_the_file_or_given() {
        let content = "{\"tokens\": [\"a\", \"b\"], \"tags\": [\"I-A\", \"B-A\"]}\n{\"tokens\": [\"c\"], \"tags\": [\"I-A\"]}\n";
        let (sentences, problems) = read_text(content);
        assert_eq!((found(&sentences).len(), problems.len()), (3, 0));
        let scheme = Some(crate::data::TagScheme::Iob2);
        let (_, problems) = read_with(
            content,
            &ReadOptions {
                scheme,
                ..ReadOptions::default()
            },
        );
        assert_eq!(problems.len(), 2, "{problems:?}");
    }

    #[test]
    fn problems_in_a_list_have_the_line_of_their_record() {
        let (sentences, problems) = with(
            Format::Spert,
            "[\n  {\"tokens\": [\"a\"], \"entities\": [], \"ltokens\": [\"x\"], \"orig_id\": \"d\"},\n  {\"tokens\": [\"b\"],\n   \"entities\": [{\"start\": 0, \"end\": 2, \"type\": \"A\"}]}, {\"tokens\": 3}\n]\n",
        );
        assert_eq!(sentences.len(), 1);
        assert_eq!(sentences[0].left, ["x"]);
        assert_eq!(sentences[0].document.as_deref(), Some("d"));
        let at: Vec<_> = problems
            .iter()
            .map(|p| (p.location.line, p.location.column))
            .collect();
        assert_eq!(at, [(3, 3), (4, 56)]);
        assert!(
            problems[0]
                .message
                .starts_with("record 2: `entities`[0] (A) ends at 2")
        );
    }

    #[test]
    fn index_lists_with_gaps_are_discontinuous() {
        let (sentences, _) = with(
            Format::W2ner,
            r#"[{"sentence": ["aa", "b", "c"], "word": [[0, 1]], "ner": [{"index": [0, 1], "type": "A"}, {"index": [0, 2], "type": "B"}]}]"#,
        );
        assert_eq!(sentences[0].entities, [Entity::new(0, 2, "A")]);
        assert_eq!(sentences[0].discontinuous[0].parts, [(0, 2), (5, 6)]);
    }

    #[test]
    fn own_keys_are_read_back() {
        let (sentences, problems) = read_text(
            r#"{"tokens": ["abc", "d"], "entities": [], "misaligned": [{"start": 0, "end": 2, "type": "X"}], "discontinuous": [{"parts": [[0, 1], [4, 5]], "type": "Y"}], "offset": 7, "trailing": "\n"}"#,
        );
        assert_eq!(
            (
                sentences[0].misaligned.len(),
                sentences[0].discontinuous.len()
            ),
            (1, 1)
        );
        assert_eq!(
            (sentences[0].offset, sentences[0].trailing.as_str()),
            (7, "\n")
        );
        assert!(
            problems
                .iter()
                .all(|problem| problem.severity == Severity::Warning)
        );
    }

    #[test]
    fn every_mistake_is_reported() {
        for (record, part) in [
            (
                r#"{"tokens": ["a"], "entities": [[0, 1, "A"], {"start": 0, "end": 1, "label": "A"}]}"#,
                "given twice",
            ),
            (
                r#"{"tokens": ["a"], "entities": [[0, 1, "A"]], "ner": [[0, 1, "A"]]}"#,
                "both",
            ),
            (
                r#"{"tokens": ["a"], "entities": [[0, 0, "A"]]}"#,
                "is empty",
            ),
            (
                r#"{"tokens": ["a"], "entities": [[0, 1, ""]]}"#,
                "empty type",
            ),
            (
                r#"{"tokens": ["a"], "entities": [[0, 99999999999999999999, "A"]]}"#,
                "must be an integer",
            ),
            (
                r#"{"tokens": ["a"], "entities": [null, [0, 1, "A"]]}"#,
                "must be an object",
            ),
            (
                r#"{"tokens": ["a"], "entities": {"A": 1}}"#,
                "must be an object",
            ),
            (r#"{"tokens": ["a"], "entities": "B-X"}"#, "not understood"),
            (
                r#"{"tokens": ["a", ""], "entities": []}"#,
                "word 1 is empty",
            ),
            (
                r#"{"tokens": ["a"], "pos": [], "entities": []}"#,
                "0 tags for 1 words",
            ),
            (
                r#"{"tokens": ["a"], "text": "b", "entities": []}"#,
                "does not consist",
            ),
            (
                r#"{"tokens": ["a", "b"], "tags": ["O"]}"#,
                "1 tags for 2 words",
            ),
            (
                r#"{"tokens": ["a", "b"], "tags": []}"#,
                "0 tags for 2 words",
            ),
            (
                r#"{"tokens": ["a", "b"], "tags": ["B-X", "PER"]}"#,
                "is not a tag",
            ),
            (
                r#"{"tokens": ["a", "b"], "tags": ["B", "I"]}"#,
                "the tags have no types",
            ),
            (
                r#"{"tokens": ["a"], "tags": ["B-X"], "entities": [[0, 1, "Y"]]}"#,
                "different entities",
            ),
            (
                r#"{"tokens": ["a"], "my_entities": [[0, 1, "A"]]}"#,
                "`my_entities` looks like annotations",
            ),
            (r#"{"tokens": ["a"]}"#, "no record has annotations"),
            (
                r#"{"tokens": ["a"], "ner_tags": null}"#,
                "null instead of annotations",
            ),
            (
                r#"{"tokens": ["a"], "entities": [], "entities": []}"#,
                "key `entities` twice",
            ),
            (r#"{"text": "a"}"#, "--format"),
            (r#"[1]"#, "JSON object"),
            (r#"{"tokens": ["é"], oops}"#, "key must be a string"),
        ] {
            let (_, problems) = with(Format::TokensJsonl, record);
            let messages: Vec<String> = problems.iter().map(Problem::to_string).collect();
            assert_eq!(messages.len(), 1, "{record} {messages:?}");
            assert!(messages[0].contains(part), "{record} {messages:?}");
        }
    }

    #[test]
    fn ends_are_one_rule_for_the_file() {
        // The second record shows that ends are inclusive, so the first one is read that way too.
        let (sentences, problems) = read_text(
            "{\"tokens\": [\"a\", \"b\", \"c\"], \"ner\": [[0, 1, \"A\"]]}\n{\"tokens\": [\"a\"], \"ner\": [[0, 0, \"A\"]]}\n",
        );
        assert_eq!(problems, []);
        assert_eq!(sentences[0].entities, [Entity::new(0, 2, "A")]);
        let (_, problems) = read_text(
            "{\"tokens\": [\"a\", \"b\"], \"ner\": [[0, 2, \"A\"]]}\n{\"tokens\": [\"a\"], \"ner\": [[0, 0, \"A\"]]}\n",
        );
        assert!(
            problems
                .iter()
                .any(|problem| problem.message.contains("contradict")),
            "{problems:?}"
        );
        let (sentences, problems) =
            read_text(r#"{"tokenized_text": ["a", "b"], "ner": [[0, 2, "A"]]}"#);
        assert_eq!(sentences[0].entities, [Entity::new(0, 2, "A")]);
        assert!(
            problems[0].message.contains("unlike in other files"),
            "{problems:?}"
        );
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-2i64..9).prop_map(Value::from),
            prop::sample::select(vec!["", "a", "a b", "💩 é", "O", "B-A", "accept", "labels"])
                .prop_map(Value::from),
        ];
        let keys = prop::sample::select(vec![
            "text",
            "tokens",
            "words",
            "ner",
            "ner_tags",
            "entities",
            "spans",
            "label",
            "labels",
            "start",
            "end",
            "type",
            "sentences",
            "paragraphs",
            "raw",
            "orth",
            "passages",
            "offset",
            "annotations",
            "locations",
            "length",
            "infons",
            "data",
            "result",
            "value",
            "ents",
            "sents",
            "tokenized_text",
            "index",
            "sentence",
            "documents",
            "vertexSet",
            "token_start",
            "token_end",
            "doc_annotation",
            "token_annotation",
            "ORTH",
            "discontinuous",
            "misaligned",
            "pos",
        ]);
        leaf.prop_recursive(6, 48, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
                prop::collection::vec((keys.clone(), inner), 0..6).prop_map(|entries| {
                    Value::Object(
                        entries
                            .into_iter()
                            .map(|(key, value)| (key.to_string(), value))
                            .collect(),
                    )
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_json_makes_a_reader_panic(values in prop::collection::vec(json_value(), 0..4), as_list in any::<bool>()) {
            let content = if as_list {
                Value::Array(values).to_string()
            } else {
                values.iter().map(|value| format!("{value}\n")).collect()
            };
            for format in [
                Format::TokensJsonl, Format::TextJsonl, Format::W2ner, Format::Doccano, Format::Gliner, Format::Spacy,
                Format::Prodigy, Format::LabelStudio, Format::Bioc,
            ] {
                let (sentences, _) = with(format, &content);
                for sentence in &sentences {
                    prop_assert!(sentence.entities.iter().all(|entity| !entity.span.is_empty() && entity.span.end <= sentence.len()));
                    for word in &sentence.words {
                        prop_assert_eq!(crate::text::slice(&sentence.text, word.start, word.end), &word.text);
                    }
                }
            }
        }
    }
}
