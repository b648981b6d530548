//! Reads and writes files of predictions: those of `nerzoo predict`, or of another tool in one of the formats below.
//!
//! The file has one JSON object per line and one line per gold sentence, in the order of the gold file; a document that was
//! cut into sentences may have one line as a whole. Blank lines are skipped.
//!
//! * `{"text": ..., "entities": [{"start", "end", "label", "score"}]}`: offsets count characters. The text must equal
//!   the gold sentence's. White space at both ends of a span is removed; a span that then does not start and end on
//!   word boundaries of the gold sentence is an error. Moving it to the nearest words could make it correct by
//!   accident, and dropping it would hide a wrong prediction.
//! * `{"tokens": [...], "entities": [{"start", "end", "type"}]}`: offsets count words. The words must equal the gold
//!   sentence's.
//!
//! In both formats `label` and `type` are synonyms, an entity may be written `[start, end, type]`, ends are exclusive,
//! and a missing score means 1.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::error::{Error, Location, Result};
use crate::files::write_atomic;
use crate::text::{Entity, Mention, Sentence, Span, Word, slice};

/// Error messages quote at most this many characters of a text.
const QUOTED_CHARACTERS: usize = 60;

/// Reads a file of predictions: the mentions of each gold sentence.
pub fn read(path: &Path, gold: &[Sentence]) -> Result<Vec<Vec<Mention>>> {
    let bytes = std::fs::read(path).map_err(|source| Error::io(path, source))?;
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let mut predictions = Vec::with_capacity(gold.len());
    let mut misaligned = Vec::new(); // line and problem of spans that do not align with words
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let at = |problem: String| Error::data(Location::line(path, index + 1), problem);
        let line = std::str::from_utf8(line)
            .map_err(|_| at("not valid UTF-8; write the predictions as UTF-8".to_owned()))?;
        if line.trim().is_empty() {
            continue;
        }
        let rest = &gold[predictions.len()..];
        let Some(first) = rest.first() else {
            return Err(at(format!(
                "more predictions than the {} gold sentences; predict the gold file again",
                gold.len()
            )));
        };
        let sentences = &rest[..document_length(rest, line)];
        let whole = (sentences.len() > 1).then(|| joined(sentences));
        let sentence = whole.as_ref().unwrap_or(first);
        let record = PredictionRecord::parse(line, sentence, predictions.len() + 1).map_err(at)?;
        let ends: Vec<usize> = (sentences.iter())
            .scan(0, |end, sentence| {
                *end += sentence.len();
                Some(*end)
            })
            .collect();
        let mut mentions = vec![Vec::new(); sentences.len()];
        for mention in record.mentions().map_err(at)? {
            match mention.and_then(|mention| in_sentence(mention, &ends)) {
                Ok((number, mention)) => mentions[number].push(mention),
                Err(MisalignedSpan(problem)) => misaligned.push((index + 1, problem)),
            }
        }
        predictions.extend(mentions);
    }
    if predictions.len() < gold.len() {
        let problem = format!(
            "predictions for {} of {} gold sentences; predict the gold file again",
            predictions.len(),
            gold.len()
        );
        return Err(Error::data(Location::file(path), problem));
    }
    match misaligned.first() {
        None => Ok(predictions),
        Some((line, problem)) => {
            let problem = misaligned_message(problem, misaligned.len() - 1);
            Err(Error::data(Location::line(path, *line), problem))
        }
    }
}

/// Number of the next gold sentences that a line is about: 1, or all sentences of a document whose text the line has.
fn document_length(gold: &[Sentence], line: &str) -> usize {
    #[derive(serde::Deserialize)]
    struct Text {
        text: Option<String>,
    }
    let is_cut = gold
        .get(1)
        .is_some_and(|second| second.offset > 0 && gold[0].offset == 0);
    let Some(text) = is_cut
        .then(|| serde_json::from_str(line).ok())
        .flatten()
        .and_then(|line: Text| line.text)
    else {
        return 1;
    };
    let mut rest = text.as_str();
    for (number, sentence) in gold.iter().enumerate() {
        let after = rest.strip_prefix(sentence.text.as_str());
        let is_next = number == 0 || sentence.offset > 0;
        let Some(after) = after.filter(|_| is_next) else {
            return 1;
        };
        // The end of the document may have lost its white space.
        if after == sentence.trailing || after.is_empty() {
            return number + 1;
        }
        match after.strip_prefix(sentence.trailing.as_str()) {
            Some(after) => rest = after,
            None => return 1,
        }
    }
    1
}

/// The sentences of a document as one.
fn joined(sentences: &[Sentence]) -> Sentence {
    let mut whole = Sentence::default();
    for (number, sentence) in sentences.iter().enumerate() {
        whole.text += &sentence.text;
        if number + 1 < sentences.len() {
            whole.text += &sentence.trailing;
        }
        whole.words.extend(sentence.words.iter().map(|word| Word {
            text: word.text.clone(),
            start: sentence.offset + word.start,
            end: sentence.offset + word.end,
        }));
    }
    whole
}

/// The sentence of a mention of a document, and the mention in that sentence. `ends` are the numbers of words of the document
/// up to the end of each sentence.
fn in_sentence(mut mention: Mention, ends: &[usize]) -> Result<(usize, Mention), MisalignedSpan> {
    let span = mention.entity.span;
    let number = ends.partition_point(|end| *end <= span.start);
    if ends.get(number).is_none_or(|end| span.end > *end) {
        let label = &mention.entity.label;
        return Err(MisalignedSpan(format!(
            "{label} crosses the end of a gold sentence"
        )));
    }
    let first = if number == 0 { 0 } else { ends[number - 1] };
    mention.entity.span = Span::new(span.start - first, span.end - first);
    Ok((number, mention))
}

/// Writes predictions for gold sentences, in words: the mentions of each sentence.
pub fn write(path: &Path, gold: &[Sentence], mentions: &[Vec<Mention>]) -> Result<()> {
    let mut text = String::new();
    for (sentence, mentions) in gold.iter().zip(mentions) {
        let words: Vec<&str> = sentence
            .words
            .iter()
            .map(|word| word.text.as_str())
            .collect();
        let entities = mentions.iter().map(|Mention { entity, score }| {
            let Span { start, end } = entity.span;
            json!({"start": start, "end": end, "type": entity.label, "score": score})
        });
        let entities: Value = entities.collect();
        text += &format!("{}\n", json!({"tokens": words, "entities": entities}));
    }
    write_atomic(path, text.as_bytes())
}

/// Error message for spans that do not align with words: the first one, how many more there are, and the remedy.
fn misaligned_message(problem: &str, more: usize) -> String {
    let more = match more {
        0 => String::new(),
        more => format!(" (and {more} more like it)"),
    };
    format!(
        "{problem}{more}; pass the model's folder instead of this file, or predict from records with `tokens`, so that the model uses the gold words"
    )
}

/// The entities of a line whose text or words have been checked against the gold sentence.
struct PredictionRecord<'a> {
    entities: Vec<Value>,
    sentence: &'a Sentence,
    in_words: bool,
}

/// Describes a predicted span that does not start and end on word boundaries.
struct MisalignedSpan(String);

impl<'a> PredictionRecord<'a> {
    fn parse(line: &str, sentence: &'a Sentence, number: usize) -> Result<Self, String> {
        let record: Map<String, Value> = serde_json::from_str(line)
            .map_err(|problem| format!("not a JSON object: {problem}"))?;
        if let Some(problem) = record.get("error") {
            let problem = problem.as_str().map_or(problem.to_string(), str::to_owned);
            return Err(format!(
                "holds an error instead of predictions: {problem}; correct the input and predict again"
            ));
        }
        let tokens = record.get("tokens").or(record.get("words"));
        match (tokens, record.get("text")) {
            (Some(tokens), _) => check_words(tokens, sentence, number)?,
            (None, Some(text)) => check_text(text, sentence, number)?,
            (None, None) => {
                return Err("has neither `text` nor `tokens`; are these predictions?".to_owned());
            }
        }
        match record.get("entities") {
            Some(Value::Array(entities)) => Ok(Self {
                entities: entities.clone(),
                sentence,
                in_words: tokens.is_some(),
            }),
            Some(_) => Err("`entities` must be a list".to_owned()),
            None => Err("has no `entities`; write an empty list where there are none".to_owned()),
        }
    }

    fn mentions(&self) -> Result<Vec<Result<Mention, MisalignedSpan>>, String> {
        let mut mentions = Vec::with_capacity(self.entities.len());
        for (index, entity) in self.entities.iter().enumerate() {
            let mention = PredictedEntity::parse(entity)
                .and_then(|entity| self.to_mention(entity))
                .map_err(|problem| format!("`entities`[{index}] {problem}"))?;
            mentions.push(mention);
        }
        Ok(mentions)
    }

    fn to_mention(
        &self,
        entity: PredictedEntity,
    ) -> Result<Result<Mention, MisalignedSpan>, String> {
        let (length, unit) = if self.in_words {
            (self.sentence.len(), "words")
        } else {
            (self.sentence.text.chars().count(), "characters")
        };
        let PredictedEntity {
            start,
            end,
            label,
            score,
        } = entity;
        if start >= end || end > length {
            return Err(format!(
                "({label}) has the span {start}..{end}, but the sentence has {length} {unit}; ends are exclusive"
            ));
        }
        let span = if self.in_words {
            Some(Span::new(start, end))
        } else {
            span_without_white_space(self.sentence, start, end)
        };
        Ok(match span {
            Some(span) => Ok(Mention {
                entity: Entity { span, label },
                score,
            }),
            None => Err(MisalignedSpan(format!(
                "{label} {start}..{end} `{}` does not start and end on word boundaries of the gold sentence",
                quote(slice(&self.sentence.text, start, end))
            ))),
        })
    }
}

/// An entity as the file has it; offsets count characters or words.
struct PredictedEntity {
    start: usize,
    end: usize,
    label: String,
    score: f32,
}

impl PredictedEntity {
    fn parse(value: &Value) -> Result<Self, String> {
        let (start, end, label, score) = match value {
            Value::Object(entity) => (
                entity.get("start"),
                entity.get("end"),
                entity.get("label").or(entity.get("type")),
                entity.get("score"),
            ),
            Value::Array(entity) if entity.len() == 3 => {
                (entity.first(), entity.get(1), entity.get(2), None)
            }
            _ => {
                return Err(
                    "must be an object with `start`, `end` and `label`, or [start, end, label]"
                        .to_owned(),
                );
            }
        };
        let number = |value: Option<&Value>, name: &str| {
            let number = value.and_then(Value::as_u64);
            let number = number.and_then(|number| usize::try_from(number).ok());
            number.ok_or_else(|| format!("needs a `{name}`, an integer of at least 0"))
        };
        let label = label
            .and_then(Value::as_str)
            .filter(|label| !label.trim().is_empty());
        let score = match score {
            None | Some(Value::Null) => 1.0,
            Some(score) => score.as_f64().ok_or("has a `score` that is not a number")?,
        };
        Ok(Self {
            start: number(start, "start")?,
            end: number(end, "end")?,
            label: label.ok_or("needs a `label`, a string")?.to_owned(),
            score: score as f32,
        })
    }
}

fn check_words(tokens: &Value, sentence: &Sentence, number: usize) -> Result<(), String> {
    let tokens: Option<Vec<&str>> = tokens
        .as_array()
        .and_then(|tokens| tokens.iter().map(Value::as_str).collect());
    let tokens = tokens.ok_or("`tokens` must be a list of strings")?;
    let words = sentence.words.iter().map(|word| word.text.as_str());
    if words.eq(tokens.iter().copied()) {
        Ok(())
    } else {
        Err(different_sentence(&tokens.join(" "), sentence, number))
    }
}

fn check_text(text: &Value, sentence: &Sentence, number: usize) -> Result<(), String> {
    let text = text.as_str().ok_or("`text` must be a string")?;
    // The white space between two sentences may be at the end of the first.
    if text == sentence.text || text.trim_end() == sentence.text {
        Ok(())
    } else {
        Err(different_sentence(text, sentence, number))
    }
}

fn different_sentence(found: &str, sentence: &Sentence, number: usize) -> String {
    format!(
        "this is `{}`, but gold sentence {number} is `{}`; predictions must be for the gold file, in its order",
        quote(found),
        quote(&sentence.text)
    )
}

/// The start of a text on one line, for error messages.
fn quote(text: &str) -> String {
    let mut start: String = text.chars().take(QUOTED_CHARACTERS).collect();
    if start.len() < text.len() {
        start.push('…');
    }
    start.replace(['\n', '\r', '\t'], " ")
}

/// The span of words that covers characters `start..end` without white space at both ends, if there is one.
fn span_without_white_space(sentence: &Sentence, start: usize, end: usize) -> Option<Span> {
    let text = slice(&sentence.text, start, end);
    let leading = text.chars().take_while(|c| c.is_whitespace()).count();
    let trailing = text.chars().rev().take_while(|c| c.is_whitespace()).count();
    sentence.span_of(start + leading, end.saturating_sub(trailing))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gold() -> Vec<Sentence> {
        vec![
            Sentence::from_words(["Zoë", "👩‍🔬", "met", "Ida", "Berg", "."]),
            Sentence::from_words(["Nothing", "here"]),
        ]
    }

    fn read_text(content: &str) -> Result<Vec<Vec<Mention>>> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("p.jsonl");
        std::fs::write(&path, content).expect("a file");
        read(&path, &gold())
    }

    fn error(content: &str) -> String {
        read_text(content).expect_err("a bad file").to_string()
    }

    const FIRST: &str = r#"{"text":"Zoë 👩‍🔬 met Ida Berg .","entities":[]}"#;
    const SECOND: &str = r#"{"text":"Nothing here","entities":[]}"#;

    #[test]
    fn characters_and_words_give_the_same_spans() {
        // "Zoë " has 4 characters, the emoji 3 (two pictures and a joiner) and a space, "met " 4: `Ida` starts at 12,
        // so the second span includes the space before it.
        let characters = r#"{"text":"Zoë 👩‍🔬 met Ida Berg .","entities":[{"start":0,"end":3,"label":"PER","score":0.5,"text":"Zoë"},{"start":11,"end":20,"label":"PER"}]}"#;
        let words = r#"{"tokens":["Zoë","👩‍🔬","met","Ida","Berg","."],"entities":[{"start":0,"end":1,"type":"PER","score":0.5},[3,5,"PER"]]}"#;
        let expected = vec![
            Mention {
                entity: Entity::new(0, 1, "PER"),
                score: 0.5,
            },
            Mention {
                entity: Entity::new(3, 5, "PER"),
                score: 1.0,
            },
        ];
        for line in [characters, words] {
            // A byte-order mark, Windows line ends, blank lines and white space around a span are accepted.
            let content = format!("\u{feff}{line}\r\n\r\n{SECOND}\n\n");
            let read = read_text(&content).expect("valid predictions");
            assert_eq!(read, [expected.clone(), Vec::new()]);
        }
    }

    #[test]
    fn a_document_may_have_one_line() {
        let mut gold = gold();
        gold[0].trailing = "\n".to_string();
        gold[1].offset = gold[0].text.chars().count() + 1;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.jsonl");
        let read_document = |entities: &str| {
            let text =
                serde_json::to_string(&format!("{}\n{}", gold[0].text, gold[1].text)).unwrap();
            std::fs::write(
                &path,
                format!("{{\"text\": {text}, \"entities\": {entities}}}"),
            )
            .unwrap();
            read(&path, &gold)
        };
        let start = gold[1].offset;
        let found =
            read_document(&format!("[[0, 3, \"A\"], [{start}, {}, \"B\"]]", start + 7)).unwrap();
        assert_eq!(found[0][0].entity, Entity::new(0, 1, "A"));
        assert_eq!(found[1][0].entity, Entity::new(0, 1, "B"));
        let problem = read_document(&format!("[[0, {}, \"A\"]]", start + 7))
            .unwrap_err()
            .to_string();
        assert!(
            problem.contains("crosses the end of a gold sentence"),
            "{problem}"
        );
        // One line for each sentence is fine, too.
        std::fs::write(&path, format!("{FIRST}\n{SECOND}\n")).unwrap();
        assert_eq!(read(&path, &gold).unwrap().len(), 2);
    }

    #[test]
    fn what_is_written_reads_back() {
        let gold = gold();
        let mention = |label: &str, score| Mention {
            entity: Entity::new(0, 1, label),
            score,
        };
        let mut mentions = vec![Vec::new(); gold.len()];
        mentions[0] = vec![mention("A", 0.25), mention("B", 1.0)];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("predictions.jsonl");
        write(&path, &gold, &mentions).unwrap();
        assert_eq!(read(&path, &gold).unwrap(), mentions);
    }

    #[test]
    fn predictions_for_other_sentences_are_rejected() {
        let message = error(&format!("{SECOND}\n{FIRST}\n"));
        assert!(
            message.contains("p.jsonl:1: this is `Nothing here`, but gold sentence 1 is"),
            "{message}"
        );
        let message = error(&format!(
            "{FIRST}\n{{\"tokens\":[\"No\"],\"entities\":[]}}\n"
        ));
        assert!(
            message.contains("p.jsonl:2: this is `No`, but gold sentence 2 is"),
            "{message}"
        );
        let message = error(FIRST);
        assert!(message.contains("predictions for 1 of 2"), "{message}");
        let message = error(&[FIRST, SECOND, SECOND].join("\n"));
        assert!(
            message.contains("p.jsonl:3: more predictions than the 2"),
            "{message}"
        );
    }

    #[test]
    fn misaligned_spans_are_counted_and_the_first_is_reported() {
        let second = r#"{"text":"Nothing here","entities":[[0,3,"A"],[8,11,"B"],[8,12,"A"]]}"#;
        let message = error(&format!("{FIRST}\n{second}\n"));
        assert!(
            message.contains("p.jsonl:2: A 0..3 `Not` does not start"),
            "{message}"
        );
        assert!(
            message.contains("(and 1 more like it); pass the model's folder"),
            "{message}"
        );
    }

    #[test]
    fn invalid_lines_are_explained() {
        let cases = [
            ("nonsense", "not a JSON object"),
            ("[1]", "not a JSON object"),
            (
                r#"{"line":1,"error":"not UTF-8"}"#,
                "an error instead of predictions: not UTF-8",
            ),
            (r#"{"entities":[]}"#, "neither `text` nor `tokens`"),
            (r#"{"text":3,"entities":[]}"#, "`text` must be a string"),
            (
                r#"{"tokens":"x","entities":[]}"#,
                "must be a list of strings",
            ),
            (r#"{"text":"Nothing here"}"#, "has no `entities`"),
            (r#"{"text":"Nothing here","entities":{}}"#, "must be a list"),
            (
                r#"{"text":"Nothing here","entities":[7]}"#,
                "`entities`[0] must be an object",
            ),
            (
                r#"{"text":"Nothing here","entities":[[0,40,"A"]]}"#,
                "has 12 characters",
            ),
            (r#"{"text":"Nothing here","entities":[[3,3,"A"]]}"#, "3..3"),
            (
                r#"{"text":"Nothing here","entities":[[-1,3,"A"]]}"#,
                "needs a `start`",
            ),
            (
                r#"{"text":"Nothing here","entities":[[0,7,""]]}"#,
                "needs a `label`",
            ),
            (
                r#"{"text":"Nothing here","entities":[{"start":0,"end":7,"label":"A","score":"x"}]}"#,
                "not a number",
            ),
            (
                r#"{"tokens":["Nothing","here"],"entities":[[0,3,"A"]]}"#,
                "has 2 words",
            ),
        ];
        for (line, expected) in cases {
            let message = error(&format!("{FIRST}\n{line}\n"));
            assert!(
                message.contains("p.jsonl:2: ") && message.contains(expected),
                "{line}: {message}"
            );
        }
        let message = read(Path::new("no/such.jsonl"), &[]).expect_err("no file");
        assert!(message.to_string().contains("no/such.jsonl"));
    }
}
