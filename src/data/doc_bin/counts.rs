//! What the documents of a DocBin have in common, reported once for the file.

use std::collections::BTreeMap;

use crate::data::correction::{Correction, Message};
use crate::data::source::Collector;

/// Counts over all documents, for messages about the whole file.
#[derive(Default)]
pub(super) struct Counts {
    pub documents: usize,
    /// Documents without any annotation of entities.
    pub unannotated: usize,
    /// Tokens without annotation in other documents.
    pub missing: usize,
    pub joined: usize,
    pub blank: usize,
    /// Number of spans in each span group that was read.
    pub groups: BTreeMap<String, usize>,
    /// Number of spans in each span group that was left out.
    pub left_out: BTreeMap<String, usize>,
}

impl Counts {
    /// Adds the warnings about the whole file. `has_entities` is true when the tokens have tags of entities.
    pub fn report(&self, has_entities: bool, corpus: &mut Collector) {
        let list = |groups: &BTreeMap<String, usize>| {
            let groups = groups
                .iter()
                .map(|(name, spans)| format!("`{name}` ({spans} spans)"));
            groups.collect::<Vec<_>>().join(", ")
        };
        let documents = self.documents;
        if !has_entities && self.groups.is_empty() && documents > 0 {
            corpus.warn(0, "has no entities: it was written without the attributes ENT_IOB and ENT_TYPE; write it again with them");
        } else if self.unannotated > 0 {
            corpus.warn(0, format!(
                "{} of {documents} documents have no annotation of entities, not even an empty one; set `doc.ents` before you write the file",
                self.unannotated
            ));
        }
        if self.missing > 0 {
            corpus.warn(
                0,
                format!(
                    "{} tokens are marked as not annotated; read as outside of entities",
                    self.missing
                ),
            );
        }
        if !self.groups.is_empty() {
            let message = format!(
                "entities were also read from the span groups {}",
                list(&self.groups)
            );
            if self.groups.keys().eq(["sc"]) {
                tracing::info!("{message}");
            } else {
                corpus.warn(0, format!("{message}; delete those that are not entities"));
            }
        }
        if !self.left_out.is_empty() {
            let text = format!(
                "spans without a type, or of another kind, were left out: {}",
                list(&self.left_out)
            );
            corpus.warn(0, Message::corrected(text, Correction::LeftOut));
        }
        if self.joined > 0 {
            corpus.warn(0, format!(
                "{} sentences start within an entity; they were joined with the sentence before",
                self.joined
            ));
        }
        if self.blank > 0 {
            let text = format!("{} entities consist of white space; left out", self.blank);
            corpus.warn(0, Message::corrected(text, Correction::LeftOut));
        }
    }
}
