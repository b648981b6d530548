//! Reading predictions from a file: those `nerzoo predict` wrote, or another tool in one of the two formats here.
//!
//! One JSON object a line, one line a gold sentence, in the gold file's order; blank lines are passed over.
//!
//! * `{"text": ..., "entities": [{"start", "end", "label", "score"}]}`: borders count characters. The text must be the
//!   gold sentence's. White space at the ends of a span is cut off; a span that then does not start and end on the
//!   words of the gold sentence is an error. Moving it to the nearest words could make it right by accident, and
//!   leaving it out would hide a wrong prediction.
//! * `{"tokens": [...], "entities": [{"start", "end", "type"}]}`: borders count words. The words must be the gold
//!   sentence's.
//!
//! In both, `label` and `type` are the same, an entity may be `[start, end, type]`, ends are one past the last, and a
//! missing score is 1.

use std::path::Path;

use serde_json::{Map, Value};

use crate::error::{Error, Location, Result};
use crate::text::{Entity, Mention, Sentence, Span, slice};

/// How many characters of a text a message shows.
const SHOWN: usize = 60;

/// Reads the predictions for each gold sentence.
pub fn read(path: &Path, gold: &[Sentence]) -> Result<Vec<Vec<Mention>>> {
    let bytes = std::fs::read(path).map_err(|source| Error::io(path, source))?;
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let mut predictions = Vec::with_capacity(gold.len());
    let mut off_words = Vec::new(); // line and problem of spans that are none of words
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let at = |problem: String| Error::data(Location::line(path, index + 1), problem);
        let line = std::str::from_utf8(line)
            .map_err(|_| at("not valid UTF-8; write the predictions as UTF-8".to_owned()))?;
        if line.trim().is_empty() {
            continue;
        }
        let Some(sentence) = gold.get(predictions.len()) else {
            return Err(at(format!(
                "more predictions than the {} gold sentences; predict the gold file again",
                gold.len()
            )));
        };
        let record = Record::parse(line, sentence, predictions.len() + 1).map_err(at)?;
        let mut mentions = Vec::new();
        for mention in record.mentions().map_err(at)? {
            match mention {
                Ok(mention) => mentions.push(mention),
                Err(problem) => off_words.push((index + 1, problem)),
            }
        }
        predictions.push(mentions);
    }
    if predictions.len() < gold.len() {
        let problem = format!(
            "predictions for {} of {} gold sentences; predict the gold file again",
            predictions.len(),
            gold.len()
        );
        return Err(Error::data(Location::file(path), problem));
    }
    match off_words.first() {
        None => Ok(predictions),
        Some((line, problem)) => {
            let problem = other_words(problem, off_words.len() - 1);
            Err(Error::data(Location::line(path, *line), problem))
        }
    }
}

/// What to do about spans that are none of words: the first of them, and how many more.
fn other_words(problem: &str, more: usize) -> String {
    let more = match more {
        0 => String::new(),
        more => format!(" (and {more} more like it)"),
    };
    format!(
        "{problem}{more}; give the model's folder instead of this file, or predict records of `tokens`, so that its words are the gold ones"
    )
}

/// A line, checked to be about the gold sentence.
struct Record<'a> {
    entities: Vec<Value>,
    sentence: &'a Sentence,
    in_words: bool,
}

/// A mention, or why its span is no span of words.
type Placed = std::result::Result<Mention, String>;

impl<'a> Record<'a> {
    fn parse(line: &str, sentence: &'a Sentence, number: usize) -> Result<Self, String> {
        let record: Map<String, Value> = serde_json::from_str(line)
            .map_err(|problem| format!("not a JSON object: {problem}"))?;
        if let Some(problem) = record.get("error") {
            let problem = problem.as_str().map_or(problem.to_string(), str::to_owned);
            return Err(format!(
                "holds an error instead of predictions: {problem}; mend the input and predict again"
            ));
        }
        let tokens = record.get("tokens").or(record.get("words"));
        match (tokens, record.get("text")) {
            (Some(tokens), _) => same_words(tokens, sentence, number)?,
            (None, Some(text)) => same_text(text, sentence, number)?,
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

    fn mentions(&self) -> Result<Vec<Placed>, String> {
        let mut mentions = Vec::with_capacity(self.entities.len());
        for (index, entity) in self.entities.iter().enumerate() {
            let mention = Written::parse(entity)
                .and_then(|written| self.place(written))
                .map_err(|problem| format!("`entities`[{index}] {problem}"))?;
            mentions.push(mention);
        }
        Ok(mentions)
    }

    fn place(&self, written: Written) -> Result<Placed, String> {
        let (length, unit) = if self.in_words {
            (self.sentence.len(), "words")
        } else {
            (self.sentence.text.chars().count(), "characters")
        };
        let Written {
            start,
            end,
            label,
            score,
        } = written;
        if start >= end || end > length {
            return Err(format!(
                "({label}) has the span {start}..{end}, but the sentence has {length} {unit}; ends are one past the last"
            ));
        }
        let span = if self.in_words {
            Some(Span::new(start, end))
        } else {
            trimmed(self.sentence, start, end)
        };
        Ok(match span {
            Some(span) => Ok(Mention {
                entity: Entity { span, label },
                score,
            }),
            None => Err(format!(
                "{label} {start}..{end} `{}` does not start and end on words of the gold sentence",
                shown(slice(&self.sentence.text, start, end))
            )),
        })
    }
}

/// An entity as written.
struct Written {
    start: usize,
    end: usize,
    label: String,
    score: f32,
}

impl Written {
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
            number.ok_or_else(|| format!("needs a `{name}`, a number, 0 or more"))
        };
        let label = label
            .and_then(Value::as_str)
            .filter(|label| !label.trim().is_empty());
        let score = match score {
            None | Some(Value::Null) => 1.0,
            Some(score) => score.as_f64().ok_or("has a `score` that is no number")?,
        };
        Ok(Self {
            start: number(start, "start")?,
            end: number(end, "end")?,
            label: label.ok_or("needs a `label`, a string")?.to_owned(),
            score: score as f32,
        })
    }
}

fn same_words(tokens: &Value, sentence: &Sentence, number: usize) -> Result<(), String> {
    let tokens: Option<Vec<&str>> = tokens
        .as_array()
        .and_then(|tokens| tokens.iter().map(Value::as_str).collect());
    let tokens = tokens.ok_or("`tokens` must be a list of strings")?;
    let words = sentence.words.iter().map(|word| word.text.as_str());
    if words.eq(tokens.iter().copied()) {
        Ok(())
    } else {
        Err(other_sentence(&tokens.join(" "), sentence, number))
    }
}

fn same_text(text: &Value, sentence: &Sentence, number: usize) -> Result<(), String> {
    let text = text.as_str().ok_or("`text` must be a string")?;
    if text == sentence.text {
        Ok(())
    } else {
        Err(other_sentence(text, sentence, number))
    }
}

fn other_sentence(found: &str, sentence: &Sentence, number: usize) -> String {
    format!(
        "this is `{}`, but gold sentence {number} is `{}`; predictions must be of the gold file, in its order",
        shown(found),
        shown(&sentence.text)
    )
}

/// The start of a text, on one line.
fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown.replace(['\n', '\r', '\t'], " ")
}

/// The words under a span of characters without the white space at its ends.
fn trimmed(sentence: &Sentence, start: usize, end: usize) -> Option<Span> {
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
        // Zoë and a space are 4 characters; the scientist is 3 (two pictures and a joiner) and a space; met and a
        // space are 4: `Ida` starts at 12, and the second span has a space too many before it.
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
            // A byte-order mark, Windows line ends and blank lines do no harm; white space around a span neither.
            let content = format!("\u{feff}{line}\r\n\r\n{SECOND}\n\n");
            let read = read_text(&content).expect("sound predictions");
            assert_eq!(read, [expected.clone(), Vec::new()]);
        }
    }

    #[test]
    fn other_sentences_are_told_apart() {
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
    fn spans_off_words_are_counted_and_the_first_is_named() {
        let second = r#"{"text":"Nothing here","entities":[[0,3,"A"],[8,11,"B"],[8,12,"A"]]}"#;
        let message = error(&format!("{FIRST}\n{second}\n"));
        assert!(
            message.contains("p.jsonl:2: A 0..3 `Not` does not start"),
            "{message}"
        );
        assert!(
            message.contains("(and 1 more like it); give the model's folder"),
            "{message}"
        );
    }

    #[test]
    fn broken_lines_say_what_is_wrong() {
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
                "no number",
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
