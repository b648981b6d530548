//! Reports of a head beyond its mentions: the predictions of single sources of evidence, and counts.

use std::fmt;

use crate::text::{Mention, Span};

/// How much a diagnosis may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Only cheap reports, for the log of every validation. The only evidence at this level is the other head of a bundle,
    /// whose F1 is shown beside that of the bundle.
    Summary,
    /// Everything, for `nerzoo evaluate --diagnose`.
    Full,
}

/// The mentions of a batch together with everything else the head reports about them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Diagnosis {
    /// The mentions of each sentence, as from [`Head::decode`](super::Head::decode).
    pub mentions: Vec<Vec<Mention>>,
    /// The predictions of each source of evidence by itself; empty for most heads.
    pub evidence: Vec<Evidence>,
    /// Named counts; empty for most heads.
    pub counts: Vec<Count>,
}

/// The mentions that one source of evidence predicts by itself, such as one offset label of BOPN or the other head of a
/// bundle.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// Its name in tables.
    pub name: String,
    /// True if its mentions may nest; otherwise they are scored on the outermost entities.
    pub nested: bool,
    /// Where the evidence for an entity is found: the start and the end of that span minus those of the entity, in
    /// words. Evidence cannot exist where such a span would be empty or leave the sentence.
    pub offset: [i32; 2],
    /// Its mentions, sentence by sentence.
    pub mentions: Vec<Vec<Mention>>,
}

/// A named count out of a total, to be summed over batches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    /// The thing counted, such as "candidates above the threshold".
    pub name: String,
    /// How many.
    pub count: u64,
    /// Out of how many.
    pub of: u64,
}

impl Diagnosis {
    /// Mentions without any evidence or counts.
    pub fn of(mentions: Vec<Vec<Mention>>) -> Self {
        Self {
            mentions,
            ..Self::default()
        }
    }

    /// An empty diagnosis for the given number of sentences, to [insert](Self::insert) batches into.
    pub fn empty(sentences: usize) -> Self {
        Self::of(vec![Vec::new(); sentences])
    }

    /// Inserts the diagnosis of a batch, whose sentences have these indices among all sentences. Every batch must come
    /// from the same head with the same [`Detail`].
    pub fn insert(&mut self, indices: &[usize], batch: Self) {
        let sentences = self.mentions.len();
        for (index, mentions) in indices.iter().zip(batch.mentions) {
            self.mentions[*index] = mentions;
        }
        if self.evidence.is_empty() {
            let without_mentions = |evidence: &Evidence| Evidence {
                name: evidence.name.clone(),
                nested: evidence.nested,
                offset: evidence.offset,
                mentions: vec![Vec::new(); sentences],
            };
            self.evidence = batch.evidence.iter().map(without_mentions).collect();
        }
        for (all, evidence) in self.evidence.iter_mut().zip(batch.evidence) {
            for (index, mentions) in indices.iter().zip(evidence.mentions) {
                all.mentions[*index] = mentions;
            }
        }
        add_counts(&mut self.counts, batch.counts);
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = 100.0 * self.count as f64 / self.of.max(1) as f64;
        write!(
            f,
            "{}: {} of {} ({percent:.1} %)",
            self.name, self.count, self.of
        )
    }
}

/// Adds each count to the sum of the same name.
pub fn add_counts(sums: &mut Vec<Count>, counts: Vec<Count>) {
    for count in counts {
        match sums.iter_mut().find(|sum| sum.name == count.name) {
            Some(sum) => {
                sum.count += count.count;
                sum.of += count.of;
            }
            None => sums.push(count),
        }
    }
}

impl Evidence {
    /// True if a sentence of `words` words has room for this evidence of an entity.
    pub fn can_exist_for(&self, entity: Span, words: usize) -> bool {
        let start = entity.start as i32 + self.offset[0];
        let end = entity.end as i32 + self.offset[1];
        0 <= start && start < end && end <= words as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Entity;

    fn mentions(start: usize) -> Vec<Mention> {
        vec![Mention {
            entity: Entity::new(start, start + 1, "X"),
            score: 1.0,
        }]
    }

    fn batch(first: usize, second: usize) -> Diagnosis {
        Diagnosis {
            mentions: vec![mentions(first), mentions(second)],
            evidence: vec![Evidence {
                name: "other".into(),
                nested: false,
                offset: [0, 1],
                mentions: vec![mentions(first + 10), mentions(second + 10)],
            }],
            counts: vec![Count {
                name: "kept".into(),
                count: 1,
                of: 2,
            }],
        }
    }

    #[test]
    fn batches_are_inserted_by_sentence_and_counts_are_summed() {
        let mut all = Diagnosis::empty(4);
        all.insert(&[3, 1], batch(3, 1));
        all.insert(&[0, 2], batch(0, 2));
        let expected: Vec<Vec<Mention>> = (0..4).map(mentions).collect();
        assert_eq!(all.mentions, expected);
        let expected: Vec<Vec<Mention>> = (10..14).map(mentions).collect();
        assert_eq!(all.evidence.len(), 1);
        assert_eq!(all.evidence[0].mentions, expected);
        assert_eq!((all.counts[0].count, all.counts[0].of), (2, 4));
    }
}
