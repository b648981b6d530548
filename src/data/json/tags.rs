//! Tags of JSON records: names or numbers, with or without marks, in one layer or several.
//!
//! Whether tags have marks, and the tagging scheme, are decided for the whole file.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::data::correction::Message;
use crate::data::sentences::entities::{given_twice, ranges};
use crate::data::tags::bio;
use crate::data::tags::multi::CellReading;
use crate::data::tags::scheme::TagScheme;
use crate::data::tags::style::TagStyle;
use crate::text::Entity;

/// The tags of a sentence: layers of one tag for each word.
pub(super) type Layers<'a> = Vec<Vec<Cow<'a, str>>>;

/// The tags of a value: a list of strings, of numbers or of lists of strings, or one string with spaces between the tags.
pub(super) fn layers<'a>(key: &str, value: &'a Value, length: usize) -> Result<Layers<'a>, String> {
    let count = |found: usize| {
        if found == length {
            return Ok(());
        }
        Err(format!(
            "`{key}` has {found} tags for {length} words; give one for each word"
        ))
    };
    let list = match value {
        Value::Array(list) => list,
        Value::String(text) => {
            let tags: Vec<Cow<str>> = text.split_whitespace().map(Cow::Borrowed).collect();
            count(tags.len())?;
            return Ok(vec![tags]);
        }
        _ => return Err(format!("`{key}` must be a list of tags")),
    };
    count(list.len())?;
    let mut rows = Rows::default();
    for (index, value) in list.iter().enumerate() {
        match value {
            Value::String(tag) if tag.contains('|') && tag.split('|').all(bio::is_tag) => {
                rows.push(index, tag.split('|').map(Cow::Borrowed));
            }
            Value::String(tag) => rows.push(index, [Cow::Borrowed(tag.as_str())]),
            Value::Array(set) if set.iter().all(Value::is_string) => {
                rows.push(
                    index,
                    set.iter().filter_map(Value::as_str).map(Cow::Borrowed),
                );
            }
            Value::Number(number) => {
                let number = number.as_i64().or_else(|| {
                    let float = number.as_f64()?;
                    (float.fract() == 0.0 && float.abs() < 9e15).then_some(float as i64)
                });
                let Some(number) = number else {
                    return Err(format!(
                        "`{key}`[{index}] is {value}; a tag is a string or an integer"
                    ));
                };
                rows.push(index, [Cow::Owned(number.to_string())]);
            }
            Value::Null => {
                return Err(format!(
                    "`{key}`[{index}] is null; write `O` for a word outside every entity"
                ));
            }
            _ => {
                return Err(format!(
                    "`{key}`[{index}] is {value}; a tag is a string or an integer"
                ));
            }
        }
    }
    if rows.layers.is_empty() {
        rows.layers.push(Vec::new());
    }
    Ok(rows.layers)
}

/// Layers that are filled word by word. A tag goes to the layer in which the word before has the same type.
#[derive(Default)]
struct Rows<'a> {
    layers: Layers<'a>,
}

impl<'a> Rows<'a> {
    fn push(&mut self, index: usize, tags: impl IntoIterator<Item = Cow<'a, str>>) {
        let mut tags = tags.into_iter();
        let first = tags.next().unwrap_or(Cow::Borrowed("O"));
        let mut rest: Vec<Cow<str>> = tags.collect();
        if rest.is_empty() && self.layers.len() <= 1 {
            if self.layers.is_empty() {
                self.layers.push(Vec::new());
            }
            return self.layers[0].push(first);
        }
        rest.insert(0, first);
        let mut free = Vec::new();
        for tag in rest {
            let continues = |layer: &Vec<Cow<str>>| {
                let before = index.checked_sub(1).and_then(|before| layer.get(before));
                let label = bio::label_of(&tag);
                layer.len() == index
                    && label.is_some()
                    && !tag.starts_with('B')
                    && before.and_then(|before| bio::label_of(before)) == label
            };
            match self.layers.iter().position(continues) {
                Some(layer) => self.layers[layer].push(tag),
                None => free.push(tag),
            }
        }
        for tag in free.into_iter().filter(|tag| tag != "O") {
            match self.layers.iter_mut().find(|layer| layer.len() == index) {
                Some(layer) => layer.push(tag),
                None => {
                    let mut layer = vec![Cow::Borrowed("O"); index];
                    layer.push(tag);
                    self.layers.push(layer);
                }
            }
        }
        for layer in self.layers.iter_mut().filter(|layer| layer.len() == index) {
            layer.push(Cow::Borrowed("O"));
        }
    }
}

/// The tags of a whole file, collected before they are decoded.
#[derive(Default)]
pub(super) struct TagSurvey {
    /// Every different tag and its index.
    index: HashMap<String, u32>,
    /// The tags of each sentence and layer as indices.
    sequences: Vec<Vec<u32>>,
    /// Line and key of the first tags.
    pub first: Option<(usize, String)>,
}

impl TagSurvey {
    /// Adds the tags of a sentence.
    pub fn add(&mut self, line: usize, key: &str, layers: &Layers<'_>) {
        self.first.get_or_insert_with(|| (line, key.to_string()));
        for layer in layers {
            let sequence = layer.iter().map(|tag| match self.index.get(tag.as_ref()) {
                Some(index) => *index,
                None => {
                    let index = self.index.len() as u32;
                    self.index.insert(tag.to_string(), index);
                    index
                }
            });
            let sequence = sequence.collect();
            self.sequences.push(sequence);
        }
    }

    /// True when the tags are numbers, which need names.
    pub fn are_numbers(&self) -> bool {
        !self.index.is_empty() && self.index.keys().all(|tag| tag.parse::<i64>().is_ok())
    }

    /// Decides how the tags are read. `names` are the names of numbers.
    pub fn decide(self, scheme: Option<TagScheme>, names: Option<&[String]>) -> TagRules {
        let mut raw = vec![""; self.index.len()];
        for (tag, index) in &self.index {
            raw[*index as usize] = tag;
        }
        let mut unnamed = HashSet::new();
        let named: Vec<&str> = raw
            .iter()
            .map(|tag| match names {
                None => *tag,
                Some(names) => {
                    let name = tag.parse::<usize>().ok().and_then(|index| names.get(index));
                    if name.is_none() {
                        unnamed.insert(tag.to_string());
                    }
                    name.map_or(*tag, |name| name.as_str())
                }
            })
            .collect();
        let style = match TagStyle::detect(named.iter().copied(), None) {
            // Numbers after the types of JSON files belong to the types.
            Ok(TagStyle::Numbered) => TagStyle::Plain,
            // Lists of tags are layers already.
            Ok(TagStyle::Marked(_)) | Err(_) => TagStyle::Marked(CellReading::default()),
            Ok(style) => style,
        };
        let normal: Vec<String> = named
            .iter()
            .map(|tag| style.normalised(tag).into_owned())
            .collect();
        let detected = || {
            let sequences = self.sequences.iter();
            TagScheme::detect(
                sequences.map(|tags| tags.iter().map(|tag| normal[*tag as usize].as_str())),
            )
        };
        let scheme = match (&style, scheme) {
            (TagStyle::Plain, _) => TagScheme::Iob1,
            (_, Some(scheme)) => scheme,
            (_, None) => detected(),
        };
        let raw = raw.iter().map(|tag| tag.to_string());
        TagRules {
            scheme,
            names: raw.zip(normal.iter().cloned()).collect(),
            unnamed,
            style,
        }
    }
}

/// How the tags of a file are read.
#[derive(Debug)]
pub(super) struct TagRules {
    scheme: TagScheme,
    /// Every tag of the file with its mark and type in the standard form.
    names: HashMap<String, String>,
    /// Numbers without a name.
    unnamed: HashSet<String>,
    style: TagStyle,
}

impl TagRules {
    /// Whether the tags have marks only.
    pub fn have_no_types(&self) -> bool {
        self.style == TagStyle::Bare
    }

    /// Decodes the layers of a sentence. Returns the entities, warnings, and the first error.
    pub fn decode(
        &self,
        key: &str,
        layers: &Layers<'_>,
    ) -> (Vec<Entity>, Vec<Message>, Option<Message>) {
        let (mut found, mut warnings) = (Vec::new(), Vec::new());
        let mut seen = HashSet::new();
        for layer in layers {
            if let Some(index) = layer
                .iter()
                .position(|tag| self.unnamed.contains(tag.as_ref()))
            {
                let tag = &layer[index];
                let remedy = if tag.starts_with('-') {
                    "negative numbers mark positions that a model ignores; give one label for each word"
                } else {
                    "give a name for every number with --labels"
                };
                let message = format!("`{key}`[{index}] is {tag}, which has no name; {remedy}");
                return (found, warnings, Some(message.into()));
            }
            let tags: Vec<&str> = layer
                .iter()
                .map(|tag| {
                    self.names
                        .get(tag.as_ref())
                        .map_or(tag.as_ref(), String::as_str)
                })
                .collect();
            let (entities, problems) = if self.style == TagStyle::Bracketed {
                self.style.decode(&tags, self.scheme)
            } else {
                bio::decode(&tags, self.scheme)
            };
            for problem in problems {
                let (prefix, is_fatal) = (format!("`{key}`[{}]: ", problem.index), problem.fatal);
                let message = Message::from(problem).after(&prefix);
                if is_fatal {
                    return (found, warnings, Some(message));
                }
                warnings.push(message);
            }
            for entity in entities {
                if seen.insert(entity.clone()) {
                    found.push(entity);
                } else {
                    let words = ranges(&[(entity.span.start, entity.span.end)]);
                    let message = given_twice(&entity.label, words);
                    warnings.push(message.after(&format!("`{key}`: ")));
                }
            }
        }
        if layers.len() > 1 {
            found.sort();
        }
        (found, warnings, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::correction::Correction;
    use crate::data::tags::style::NO_TYPE;
    use serde_json::json;

    fn read(rows: &[Value], names: Option<&[String]>) -> Vec<Vec<(usize, usize, String)>> {
        let mut survey = TagSurvey::default();
        let layers: Vec<_> = rows
            .iter()
            .map(|row| layers("tags", row, row.as_array().unwrap().len()).unwrap())
            .collect();
        for layers in &layers {
            survey.add(1, "tags", layers);
        }
        let rules = survey.decide(None, names);
        layers
            .iter()
            .map(|layers| {
                let (entities, warnings, error) = rules.decode("tags", layers);
                assert_eq!((warnings.len(), error), (0, None), "{rows:?}");
                entities
                    .into_iter()
                    .map(|entity| (entity.span.start, entity.span.end, entity.label))
                    .collect()
            })
            .collect()
    }

    #[test]
    fn every_style_of_tags_is_read() {
        let names: Vec<String> = ["O", "B-PER", "I-PER", "B-LOC"].map(String::from).to_vec();
        for row in [
            json!(["B-PER", "I-PER", "O", "B-LOC"]),
            json!(["I-PER", "I-PER", "O", "I-LOC"]),
            json!(["B-PER", "E-PER", "O", "S-LOC"]),
            json!(["B-PER", "L-PER", "O", "U-LOC"]),
            json!(["B_PER", "I_PER", "o", "B_LOC"]),
            json!(["b-PER", "i-PER", "o", "b-LOC"]),
            json!(["B-PER", "I-PER", "_", "B-LOC"]),
            json!(["PER-B", "PER-I", "O", "LOC-B"]),
            json!(["PER", "PER", "O", "LOC"]),
            json!([1, 2, 0, 3]),
            json!([1.0, 2.0, 0.0, 3.0]),
            json!(["1", "2", "0", "3"]),
            json!(["(PER*", "*)", "*", "(LOC)"]),
        ] {
            let names = (row[2] == 0 || row[2] == 0.0 || row[2] == "0").then_some(names.as_slice());
            let expected = [(0, 2, "PER".to_string()), (3, 4, "LOC".to_string())];
            assert_eq!(read(std::slice::from_ref(&row), names), [expected], "{row}");
        }
        assert_eq!(
            read(&[json!(["person-actor", "O"])], None)[0][0].2,
            "person-actor"
        );
        // A number belongs to the type.
        assert_eq!(read(&[json!(["level_1", "O"])], None)[0][0].2, "level_1");
        for row in [json!(["B", "I", "O"]), json!(["I", "I", "O"])] {
            let expected = [(0, 2, NO_TYPE.to_string())];
            assert_eq!(read(std::slice::from_ref(&row), None), [expected], "{row}");
        }
    }

    #[test]
    fn a_tag_read_as_another_one_is_said_without_its_key() {
        let row = json!(["I-A", "B-B", "O"]);
        let layers = layers("ner_tags", &row, 3).unwrap();
        let mut survey = TagSurvey::default();
        survey.add(1, "ner_tags", &layers);
        let rules = survey.decide(Some(TagScheme::Iob2), None);
        let (_, warnings, _) = rules.decode("ner_tags", &layers);
        let (before, after) = ("I-A".to_string(), Some("B-A".to_string()));
        assert_eq!(
            warnings[0].correction,
            Some(Correction::Tag { before, after })
        );
        assert!(
            warnings[0]
                .text
                .starts_with("`ner_tags`[0]: `I-A` does not continue")
        );
    }

    #[test]
    fn the_scheme_is_that_of_the_whole_file() {
        let rows = [json!(["I-A", "B-A"]), json!(["I-A", "I-A"])];
        assert_eq!(read(&rows, None)[0].len(), 2);
    }

    #[test]
    fn several_tags_of_a_word_are_layers() {
        let expected = [(0, 3, "ORG".to_string()), (1, 2, "LOC".to_string())];
        for row in [
            json!(["B-ORG", "I-ORG|B-LOC", "I-ORG"]),
            json!(["B-ORG", "B-LOC|I-ORG", "I-ORG"]),
            json!([["B-ORG"], ["I-ORG", "B-LOC"], ["I-ORG"]]),
        ] {
            assert_eq!(
                read(std::slice::from_ref(&row), None),
                std::slice::from_ref(&expected),
                "{row}"
            );
        }
        assert_eq!(layers("t", &json!("B-A O"), 2).unwrap().len(), 1);
    }

    #[test]
    fn mistakes_are_reported() {
        for (value, part) in [
            (json!(["O"]), "1 tags for 2 words"),
            (json!(["O", null]), "is null"),
            (json!([0, 1.5]), "string or an integer"),
            (json!(3), "list of tags"),
        ] {
            let error = layers("t", &value, 2).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        // Part-of-speech tags are not entities: none of them is `O`.
        for (row, names, part) in [
            (json!(["NN", "VB"]), None, "is not a tag"),
            (json!([0, 7]), Some(["O".to_string()]), "--labels"),
            (json!([0, -100]), Some(["O".to_string()]), "ignores"),
        ] {
            let mut survey = TagSurvey::default();
            let layers = layers("t", &row, 2).unwrap();
            survey.add(1, "t", &layers);
            let rules = survey.decide(None, names.as_ref().map(|names| names.as_slice()));
            let error = rules.decode("t", &layers).2.unwrap().text;
            assert!(error.contains(part), "{error}");
        }
    }
}
