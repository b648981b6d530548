//! Counts of what was written, and of what a format could not represent.

use std::collections::BTreeMap;

use serde::Serialize;

use super::WriteOptions;
use super::annotated::Annotated;
use crate::data::Format;
use crate::error::{Error, Result};

/// Something that a format cannot represent and that was left out or changed.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, strum::Display, strum::EnumIter,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Loss {
    /// Entities inside another one.
    Nested,
    /// Entities that overlap another one partly.
    Crossing,
    /// Entities on the same words as another one of a different type.
    SameSpan,
    /// Entities of several parts.
    Discontinuous,
    /// Entities that do not start and end at word boundaries.
    Misaligned,
    /// Entities of any kind, for formats without entities.
    Entity,
    /// Sentences without words.
    Blank,
    /// Names of documents, left out or changed; counted in sentences or documents.
    DocumentName,
    /// White space of texts, left out or changed; counted in sentences or documents.
    Spacing,
    /// Positions of sentences in their documents.
    Position,
    /// Part-of-speech tags; counted in sentences.
    PartOfSpeech,
    /// Words before and after the sentence; counted in sentences.
    Context,
    /// Scores of mentions.
    Score,
}

impl Loss {
    /// True for entities and sentences; false for what is not part of the annotation, such as names of documents.
    pub fn is_annotation(self) -> bool {
        self <= Loss::Blank
    }

    /// Describes `count` of them.
    fn describe(self, count: usize) -> String {
        let entities = if count == 1 { "entity" } else { "entities" };
        let plural = if count == 1 { "" } else { "s" };
        match self {
            Loss::Nested => format!("{count} {entities} inside another"),
            Loss::Crossing => format!("{count} {entities} overlapping another partly"),
            Loss::SameSpan => format!("{count} {entities} on the same words as another"),
            Loss::Discontinuous => format!("{count} discontinuous {entities}"),
            Loss::Misaligned => format!("{count} {entities} not at word boundaries"),
            Loss::Entity => format!("{count} {entities}"),
            Loss::Blank => format!("{count} sentence{plural} without words"),
            Loss::DocumentName => format!("names of documents ({count})"),
            Loss::Spacing => format!("white space of the text ({count})"),
            Loss::Position => format!("positions of sentences in their document ({count})"),
            Loss::PartOfSpeech => format!("part-of-speech tags ({count} sentence{plural})"),
            Loss::Context => format!("context of sentences ({count})"),
            Loss::Score => format!("scores ({count})"),
        }
    }
}

/// Counts of what was written and what was not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Number of sentences written.
    pub sentences: usize,
    /// Number of records or files written, for formats that hold whole documents; else 0.
    pub documents: usize,
    /// Number of entities written.
    pub entities: usize,
    /// Number of entities that the format cannot represent.
    pub left_out: usize,
    /// Counts of everything that the format cannot represent.
    pub losses: BTreeMap<Loss, usize>,
    /// The first sentence, counted from 1, of which an entity was left out; for a document its first sentence.
    pub first_left_out: Option<usize>,
}

impl Summary {
    /// Counts something that was left out or changed.
    pub(super) fn lose(&mut self, loss: Loss, count: usize) {
        if count == 0 {
            return;
        }
        *self.losses.entry(loss).or_default() += count;
        if loss.is_annotation() {
            self.first_left_out.get_or_insert(self.sentences);
            if loss != Loss::Blank {
                self.left_out += count;
            }
        }
    }

    /// Counts the entities that are not continuous spans of words, for formats without them.
    pub(super) fn lose_unaligned(&mut self, item: &Annotated<'_>) {
        self.lose(Loss::Misaligned, item.misaligned().len());
        self.lose(Loss::Discontinuous, item.discontinuous().len());
    }

    /// Counts what is not part of the annotation, for formats without it.
    pub(super) fn lose_extras(&mut self, item: &Annotated<'_>, losses: &[Loss]) {
        let sentence = item.sentence;
        for loss in losses {
            let has = match loss {
                Loss::DocumentName => sentence.document.is_some(),
                Loss::Spacing => sentence.text != joined_words(item),
                Loss::Position => sentence.offset > 0 || !sentence.trailing.is_empty(),
                Loss::PartOfSpeech => sentence.pos.is_some(),
                Loss::Context => !sentence.left.is_empty() || !sentence.right.is_empty(),
                _ => false,
            };
            self.lose(*loss, usize::from(has));
        }
        if losses.contains(&Loss::Score) {
            let scores = item.entities.iter().filter(|entity| entity.score.is_some());
            self.lose(Loss::Score, scores.count());
        }
    }

    /// Refuses what was left out, if the options demand it.
    pub(super) fn check_strict(&self, options: &WriteOptions) -> Result<()> {
        if !options.strict || self.is_complete() {
            return Ok(());
        }
        let parts: Vec<String> = (self.losses.iter())
            .filter(|(loss, _)| loss.is_annotation())
            .map(|(loss, count)| loss.describe(*count))
            .collect();
        let name = options.format.to_string();
        let (what, remedy) = match options.format {
            Format::TokensJsonl => ("one tag per word", "write spans instead, without --tags"),
            Format::Columns if options.flat => ("one tag per word", "leave out --flat"),
            Format::Csv if !options.multi_tag => ("csv", "use --multi-tag, or write tokens_jsonl"),
            _ => (name.as_str(), "write tokens_jsonl instead"),
        };
        Err(Error::Config(format!(
            "{what} cannot hold {}; the first is in sentence {}. To keep all of them {remedy}; to leave them out, do not use \
             --strict",
            parts.join(", "),
            self.first_left_out.unwrap_or(1),
        )))
    }

    /// True when every entity and every sentence was written.
    pub fn is_complete(&self) -> bool {
        !self.losses.keys().any(|loss| loss.is_annotation())
    }

    /// What was left out, as lines for the user: one for each kind of entity, and one for everything else.
    ///
    /// ```
    /// use nerzoo::data::{write, Format, TagScheme};
    /// use nerzoo::text::{Entity, Sentence};
    ///
    /// # fn main() -> nerzoo::error::Result<()> {
    /// let mut sentence = Sentence::from_words(["University", "of", "Oxford"]);
    /// sentence.entities = vec![Entity::new(0, 3, "ORG"), Entity::new(2, 3, "LOC")];
    /// let summary = write::write(&mut Vec::new(), &[sentence], Format::Csv, TagScheme::Iob2)?;
    /// assert_eq!(summary.notes(), ["left out: 1 entity inside another"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn notes(&self) -> Vec<String> {
        let (annotation, other): (Vec<_>, Vec<_>) = (self.losses.iter())
            .map(|(loss, count)| (*loss, loss.describe(*count)))
            .partition(|(loss, _)| loss.is_annotation());
        let mut lines: Vec<String> = (annotation.into_iter())
            .map(|(_, text)| format!("left out: {text}"))
            .collect();
        if !other.is_empty() {
            let texts: Vec<String> = other.into_iter().map(|(_, text)| text).collect();
            lines.push(format!("not kept: {}", texts.join(", ")));
        }
        lines
    }
}

/// The words joined by single spaces.
pub(super) fn joined_words(item: &Annotated<'_>) -> String {
    item.words().join(" ")
}
