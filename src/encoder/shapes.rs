//! Few distinct tensor sizes: a ladder of row widths and word counts to which batches are padded.
//!
//! Backends for GPUs compile and time kernels for each shape of their inputs. If rows are padded to the longest of a batch,
//! nearly every step has new shapes. With a [`Ladder`] every batch has one of a few shapes: its rows are as wide as a rung,
//! its sentences have as many words as the rung allows, and there are always the same number of sentences, empty ones at
//! the end if need be.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::batching::row_length;
use super::encoded_sentence::EncodedSentence;

/// Number of rungs of a ladder.
const RUNGS: usize = 11;

/// Widths and word counts are multiples of this.
const MULTIPLE: usize = 4;

/// Numbers of rows that add up over a batch are multiples of this.
const SIZE_MULTIPLE: usize = 32;

/// Share of the sentences of a rung's width that have no more words than the rung allows. The others are in a higher rung:
/// a few sentences of many short words would otherwise set the number of words for all.
const WORDS_SHARE: f64 = 0.97;

/// Which sizes the tensors of a training step have.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum BatchShapes {
    /// `exact` on the CPU, otherwise `ladder`, because other devices compile kernels for each shape.
    #[default]
    Auto,
    /// As small as the sentences of the batch allow.
    Exact,
    /// Padded to one of a few sizes.
    Ladder,
}

/// The sizes that a batch is padded to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchShape {
    /// Number of sentences; those past the batch's own are empty.
    pub sentences: usize,
    /// Number of pieces in a row.
    pub width: usize,
    /// Number of words in a sentence.
    pub words: usize,
    /// Number of pieces in the longest word that has to be expected.
    pub longest_word: usize,
}

/// The largest sizes of one group of batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rung {
    /// Number of pieces in a row, special ones included.
    pub width: usize,
    /// Number of words in a sentence.
    pub words: usize,
}

/// The sizes to which the batches of a corpus are padded, from the smallest to the largest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ladder {
    rungs: Vec<Rung>,
    /// Largest number of pieces in a row.
    row: usize,
    longest_word: usize,
}

impl Ladder {
    /// The ladder with the least padding for these sentences, in rows of at most `row` pieces.
    pub fn fit(sentences: &[EncodedSentence], row: usize) -> Self {
        let mut ladder = Self {
            rungs: Vec::new(),
            row,
            longest_word: 1,
        };
        // Sentences by width, rounded up.
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for sentence in sentences {
            let group = ladder.width(sentence).div_ceil(MULTIPLE);
            if groups.len() <= group {
                groups.resize(group + 1, Vec::new());
            }
            groups[group].push(sentence.words());
        }
        let counts: Vec<usize> = groups.iter().map(Vec::len).collect();
        let mut first = 0;
        let mut least = 0;
        for last in best_rungs(&counts, RUNGS) {
            let mut words = groups[first..=last].concat();
            words.sort_unstable();
            let index = (words.len() as f64 * WORDS_SHARE).ceil() as usize;
            let common = words.get(index.saturating_sub(1)).copied().unwrap_or(0);
            least = common.max(1).next_multiple_of(MULTIPLE).max(least);
            ladder.rungs.push(Rung {
                width: (last * MULTIPLE).min(row),
                words: least,
            });
            first = last + 1;
        }
        ladder.cover(sentences);
        ladder
    }

    /// Extends the ladder so that it has room for these sentences too.
    pub fn cover(&mut self, sentences: &[EncodedSentence]) {
        let width = sentences.iter().map(|one| self.width(one)).max();
        let words = sentences.iter().map(EncodedSentence::words).max();
        let needed = Rung {
            width: (width.unwrap_or(1).next_multiple_of(MULTIPLE)).min(self.row),
            words: words.unwrap_or(1).max(1).next_multiple_of(MULTIPLE),
        };
        let longest = sentences.iter().flat_map(EncodedSentence::counts).max();
        self.longest_word = self.longest_word.max(longest.unwrap_or(1));
        match self.rungs.last_mut() {
            Some(top) if top.width >= needed.width => top.words = top.words.max(needed.words),
            Some(top) => {
                let words = top.words.max(needed.words);
                self.rungs.push(Rung { words, ..needed });
            }
            None => self.rungs.push(needed),
        }
    }

    /// The rungs, from the smallest to the largest.
    pub fn rungs(&self) -> &[Rung] {
        &self.rungs
    }

    /// Number of pieces of a sentence's longest row.
    fn width(&self, sentence: &EncodedSentence) -> usize {
        row_length(sentence, self.row)
    }

    /// Index of the first rung with room for a sentence; the last one if there is none.
    fn rung(&self, sentence: &EncodedSentence) -> usize {
        let (width, words) = (self.width(sentence), sentence.words());
        let fits = |rung: &Rung| width <= rung.width && words <= rung.words;
        let last = self.rungs.len() - 1;
        self.rungs.iter().position(fits).unwrap_or(last)
    }

    /// The shape of a batch of these sentences; `size` is the number of sentences in a batch of a rung.
    pub fn shape<'a>(
        &self,
        sentences: impl Iterator<Item = &'a EncodedSentence>,
        size: impl Fn(&Rung) -> usize,
    ) -> BatchShape {
        let index = sentences.map(|sentence| self.rung(sentence)).max();
        let rung = self.rungs[index.unwrap_or(0)];
        BatchShape {
            sentences: size(&rung),
            width: rung.width,
            words: rung.words,
            longest_word: self.longest_word,
        }
    }

    /// Batches of sentences of the same rung as lists of indices; `size` is the number of sentences in a batch of a rung.
    /// What is left of a rung goes to the next one, so that at most one batch is not full. With a seed, sentences and
    /// batches are shuffled; otherwise they are ordered by length.
    pub fn plan(
        &self,
        sentences: &[EncodedSentence],
        size: impl Fn(&Rung) -> usize,
        seed: Option<u64>,
    ) -> Vec<Vec<usize>> {
        let mut random = seed.map(ChaCha8Rng::seed_from_u64);
        let mut order: Vec<usize> = (0..sentences.len()).collect();
        let by_length = |index: &usize| (sentences[*index].pieces(), *index);
        match &mut random {
            Some(random) => order.shuffle(random),
            None => order.sort_by_key(by_length),
        }
        let mut groups = vec![Vec::new(); self.rungs.len()];
        for index in order {
            groups[self.rung(&sentences[index])].push(index);
        }
        let mut batches = Vec::new();
        let mut rest: Vec<usize> = Vec::new();
        for (rung, group) in self.rungs.iter().zip(groups) {
            rest.extend(group);
            let size = size(rung).max(1);
            let full = rest.len() / size * size;
            batches.extend(
                rest.drain(..full)
                    .as_slice()
                    .chunks(size)
                    .map(<[_]>::to_vec),
            );
        }
        if !rest.is_empty() {
            batches.push(rest);
        }
        for batch in &mut batches {
            batch.sort_by_key(by_length);
        }
        if let Some(random) = &mut random {
            batches.shuffle(random);
        }
        batches
    }
}

/// Divides groups `0..counts.len()` into at most `most` ranges so that the least is padded if every item of a range is as
/// long as its last group; returns the last group of each range. Groups without items end no range.
fn best_rungs(counts: &[usize], most: usize) -> Vec<usize> {
    let groups: Vec<usize> = (0..counts.len())
        .filter(|group| counts[*group] > 0)
        .collect();
    // Items and their total length in the first n groups.
    let mut sums = vec![(0.0, 0.0)];
    for group in &groups {
        let (items, length) = sums[sums.len() - 1];
        let count = counts[*group] as f64;
        sums.push((items + count, length + count * *group as f64));
    }
    let cost = |first: usize, last: usize| {
        let (items, length) = (
            sums[last + 1].0 - sums[first].0,
            sums[last + 1].1 - sums[first].1,
        );
        items * groups[last] as f64 - length
    };
    // best[n] is the least cost of the first n groups with the ranges so far; from[k][n] is where the last of k ranges starts.
    let mut best = vec![f64::INFINITY; groups.len() + 1];
    best[0] = 0.0;
    let mut from: Vec<Vec<usize>> = Vec::new();
    for _ in 0..most.min(groups.len()) {
        let mut next = vec![f64::INFINITY; groups.len() + 1];
        let mut starts = vec![0; groups.len() + 1];
        for end in 1..=groups.len() {
            for (start, before) in best[..end].iter().enumerate() {
                let total = before + cost(start, end - 1);
                if total < next[end] {
                    (next[end], starts[end]) = (total, start);
                }
            }
        }
        best = next;
        from.push(starts);
    }
    let mut ends = Vec::new();
    let mut end = groups.len();
    for starts in from.iter().rev() {
        if end > 0 {
            ends.push(groups[end - 1]);
            end = starts[end];
        }
    }
    ends.reverse();
    ends
}

/// The next size of a ladder for numbers of rows that add up over a batch, such as spans: `base`, rounded up, or that times
/// a power of two. Always larger than `count`, so that there is at least one row of padding.
pub fn next_size(count: usize, base: usize) -> usize {
    let mut size = base.max(1).next_multiple_of(SIZE_MULTIPLE);
    while size <= count {
        size *= 2;
    }
    size
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence(counts: &[usize]) -> EncodedSentence {
        let mut starts = vec![0];
        starts.extend(counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        }));
        EncodedSentence {
            ids: vec![7; counts.iter().sum()],
            starts,
            left: Vec::new(),
            right: Vec::new(),
        }
    }

    /// Sentences of 0 to 99 words with one or two pieces each, short ones more often.
    fn sentences() -> Vec<EncodedSentence> {
        (0..600)
            .map(|index| {
                let words = (index * index * 7 % 1000) / (1 + index % 10);
                let counts: Vec<usize> = (0..words % 100)
                    .map(|word| 1 + (word + index) % 2)
                    .collect();
                sentence(&counts)
            })
            .collect()
    }

    #[test]
    fn rungs_are_few_and_have_room_for_every_sentence() {
        let sentences = sentences();
        for row in [12, 40, 512] {
            let ladder = Ladder::fit(&sentences, row);
            assert!(ladder.rungs().len() <= RUNGS + 1, "{ladder:?}");
            assert!(
                ladder.rungs().windows(2).all(|pair| {
                    pair[0].width < pair[1].width && pair[0].words <= pair[1].words
                })
            );
            assert!(ladder.rungs().iter().all(|rung| rung.width <= row));
            for one in &sentences {
                let rung = ladder.rungs()[ladder.rung(one)];
                assert!(row_length(one, row) <= rung.width && one.words() <= rung.words);
            }
        }
    }

    #[test]
    fn only_one_batch_of_a_plan_is_not_full_and_no_sentence_is_lost() {
        let sentences = sentences();
        let ladder = Ladder::fit(&sentences, 512);
        for seed in [None, Some(1), Some(2)] {
            let plan = ladder.plan(&sentences, |_| 16, seed);
            assert_eq!(plan.len(), sentences.len().div_ceil(16));
            assert_eq!(plan.iter().filter(|batch| batch.len() < 16).count(), 1);
            let mut all = plan.concat();
            all.sort_unstable();
            assert_eq!(all, (0..sentences.len()).collect::<Vec<_>>());
            assert_eq!(plan, ladder.plan(&sentences, |_| 16, seed));
        }
        assert_ne!(
            ladder.plan(&sentences, |_| 16, Some(1)),
            ladder.plan(&sentences, |_| 16, Some(2))
        );
        // Fewer of the long sentences.
        let by_pieces = |rung: &Rung| (256 / rung.width).max(1);
        for batch in ladder.plan(&sentences, by_pieces, Some(3)) {
            let members = batch.iter().map(|index| &sentences[*index]);
            let shape = ladder.shape(members, by_pieces);
            assert!(batch.len() <= shape.sentences);
            assert!(shape.sentences == 1 || shape.sentences * shape.width <= 256);
        }
    }

    #[test]
    fn a_ladder_can_be_made_of_anything_and_extended() {
        for sentences in [vec![], vec![sentence(&[])], vec![sentence(&[300])]] {
            let mut ladder = Ladder::fit(&sentences, 100);
            assert_eq!(
                ladder.plan(&sentences, |_| 4, Some(1)).len(),
                sentences.len()
            );
            let shape = ladder.shape(sentences.iter(), |_| 4);
            assert!(shape.words >= 1 && shape.width >= 1 && shape.sentences == 4);
            let long = vec![sentence(&[1; 500])];
            ladder.cover(&long);
            let shape = ladder.shape(long.iter(), |_| 4);
            assert!(shape.width == 100 && shape.words >= 500, "{shape:?}");
        }
    }

    #[test]
    fn rungs_are_where_they_save_most() {
        assert_eq!(best_rungs(&[], 3), Vec::<usize>::new());
        assert_eq!(best_rungs(&[0, 5, 0], 3), [1]);
        assert_eq!(best_rungs(&[0, 5, 1, 5, 0, 1], 2), [3, 5]);
        assert_eq!(best_rungs(&[0, 50, 1, 5, 0, 1], 2), [1, 5]);
        assert_eq!(best_rungs(&[1, 1, 1, 1], 4), [0, 1, 2, 3]);
    }

    #[test]
    fn sizes_are_above_the_count() {
        for (count, base, expected) in [(0, 0, 32), (31, 20, 32), (32, 20, 64), (100, 33, 128)] {
            assert_eq!(next_size(count, base), expected);
        }
    }
}
