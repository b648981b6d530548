//! The changes to a sentence.

use std::collections::{HashMap, HashSet};

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::data::check::edges;
use crate::data::{Correction, Problem, Severity};
use crate::error::Location;
use crate::text::{Entity, Misaligned, Sentence};

/// The kind of a change. Its name in JSON is the variant's name in snake case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// A type got the commonest of its spellings.
    Label,
    /// The boundaries of an entity were moved to its words.
    Edge,
    /// An entity that was given twice was removed.
    Duplicate,
    /// A tag that violates the scheme was corrected.
    Tag,
    /// An invalid entity or record was left out.
    LeftOut,
    /// A sentence that occurs in another file was removed.
    Leak,
}

impl ChangeKind {
    /// What was changed, as a plural that a count follows.
    pub(super) fn description(self) -> &'static str {
        match self {
            Self::Label => "types renamed to the commonest spelling",
            Self::Edge => "boundaries of entities moved to words",
            Self::Duplicate => "entities removed that were given twice",
            Self::Tag => "tags corrected",
            Self::LeftOut => "invalid entities or records left out",
            Self::Leak => "sentences removed that occur in another file",
        }
    }
}

/// A change, with its place in the original file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// File and line.
    pub location: Location,
    /// What kind of change.
    pub kind: ChangeKind,
    /// What was there.
    pub before: String,
    /// What is there now; `None` for what was removed.
    pub after: Option<String>,
    /// Why.
    pub message: String,
}

impl Serialize for Change {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Change", 6)?;
        fields.serialize_field("file", &self.location.file)?;
        fields.serialize_field("line", &self.location.line)?;
        fields.serialize_field("change", &self.kind)?;
        fields.serialize_field("before", &self.before)?;
        fields.serialize_field("after", &self.after)?;
        fields.serialize_field("message", &self.message)?;
        fields.end()
    }
}

impl Change {
    /// The change that a reader has made where it reports a problem; `None` if it has made none.
    pub(super) fn of_problem(problem: &Problem) -> Option<Self> {
        // What the message is about comes first in it.
        let what = || {
            problem
                .message
                .split(';')
                .next()
                .unwrap_or_default()
                .to_string()
        };
        let (kind, before, after) = match (problem.severity, &problem.correction) {
            (Severity::Error, _) | (_, Some(Correction::LeftOut)) => {
                (ChangeKind::LeftOut, what(), None)
            }
            (_, Some(Correction::Duplicate)) => (ChangeKind::Duplicate, what(), None),
            (_, Some(Correction::Tag { before, after })) => {
                (ChangeKind::Tag, before.clone(), after.clone())
            }
            (_, None) => return None,
        };
        Some(Self {
            location: problem.location.clone(),
            kind,
            before,
            after,
            message: problem.message.clone(),
        })
    }
}

/// Mends a sentence. `names` are the types to rename.
pub(super) fn mend(
    sentence: &mut Sentence,
    names: &HashMap<String, String>,
    location: &Location,
    changes: &mut Vec<Change>,
) {
    let mut log = |kind, before: String, after: Option<String>, message: &str| {
        changes.push(Change {
            location: location.clone(),
            kind,
            before,
            after,
            message: message.to_string(),
        });
    };
    let entities = sentence.entities.iter_mut().map(|entity| &mut entity.label);
    let misaligned = sentence
        .misaligned
        .iter_mut()
        .map(|entity| &mut entity.label);
    let discontinuous = sentence
        .discontinuous
        .iter_mut()
        .map(|entity| &mut entity.label);
    for label in entities.chain(misaligned).chain(discontinuous) {
        if let Some(name) = names.get(label.as_str()) {
            let before = std::mem::replace(label, name.clone());
            log(
                ChangeKind::Label,
                before,
                Some(name.clone()),
                "the commonest spelling of this type",
            );
        }
    }
    let mut entities = std::mem::take(&mut sentence.entities);
    if !sentence.misaligned.is_empty() {
        let characters: Vec<char> = sentence.text.chars().collect();
        let misaligned = std::mem::take(&mut sentence.misaligned);
        for entity in misaligned {
            match edges::aligned(sentence, &characters, entity.start, entity.end) {
                Some(span) => {
                    let before: String = characters[entity.start..entity.end].iter().collect();
                    let after = sentence.surface(span).to_string();
                    log(
                        ChangeKind::Edge,
                        before,
                        Some(after),
                        "white space is not part of an entity",
                    );
                    entities.push(Entity::new(span.start, span.end, entity.label));
                }
                None if !edges::has_space(&characters, entity.start, entity.end) => {
                    sentence.misaligned.push(entity);
                }
                None => {
                    let text = |(start, end): (usize, usize)| {
                        characters[start..end].iter().collect::<String>()
                    };
                    let before = text((entity.start, entity.end));
                    let kept = edges::without_space(&characters, entity.start, entity.end);
                    let message = "white space is not part of an entity";
                    let kind = if kept.is_some() {
                        ChangeKind::Edge
                    } else {
                        ChangeKind::LeftOut
                    };
                    log(kind, before, kept.map(text), message);
                    sentence
                        .misaligned
                        .extend(kept.map(|(start, end)| Misaligned {
                            start,
                            end,
                            label: entity.label,
                        }));
                }
            }
        }
    }
    for entity in &mut entities {
        if let Some(span) = edges::trimmed(sentence, entity.span) {
            let before = sentence.surface(entity.span).to_string();
            let after = sentence.surface(span).to_string();
            log(
                ChangeKind::Edge,
                before,
                Some(after),
                "this punctuation is not part of an entity",
            );
            entity.span = span;
        }
    }
    let message = "given twice, after other changes";
    let mut seen: HashSet<Entity> = HashSet::new();
    for entity in entities {
        if seen.insert(entity.clone()) {
            sentence.entities.push(entity);
        } else {
            let before = format!("{} {}", entity.label, sentence.surface(entity.span));
            log(ChangeKind::Duplicate, before, None, message);
        }
    }
    let mut seen = HashSet::new();
    sentence.misaligned.retain(|entity| {
        let is_new = seen.insert((entity.start, entity.end, entity.label.clone()));
        if !is_new {
            log(ChangeKind::Duplicate, entity.label.clone(), None, message);
        }
        is_new
    });
    let mut seen = HashSet::new();
    sentence.discontinuous.retain(|entity| {
        let is_new = seen.insert((entity.parts.clone(), entity.label.clone()));
        if !is_new {
            log(ChangeKind::Duplicate, entity.label.clone(), None, message);
        }
        is_new
    });
}
