//! Windows over long sentences: a sentence with more pieces than the encoder has positions is cut into overlapping
//! windows of whole words, and every word's state is taken from the window in which it has the most context.

use std::ops::Range;

/// A range of words that are encoded together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// The words in this window.
    pub words: Range<usize>,
    /// The words whose states are taken from this window; every word belongs to exactly one.
    pub owned: Range<usize>,
}

/// Cuts a sentence into windows of at most `limit` pieces; neighbouring windows share about `overlap` pieces. `counts`
/// is the number of pieces of each word. A word with more pieces than the limit has a window of its own.
pub fn windows(counts: &[usize], limit: usize, overlap: usize) -> Vec<Window> {
    let mut windows: Vec<Window> = Vec::new();
    let mut start = 0;
    loop {
        let end = window_end(counts, start, limit);
        windows.push(Window {
            words: start..end,
            owned: start..end,
        });
        if end >= counts.len() {
            break;
        }
        // The next window has to end after this one, or a large overlap would keep the loop from advancing.
        let mut next = next_start(counts, start, end, overlap.min(limit / 2));
        while next < end && window_end(counts, next, limit) <= end {
            next += 1;
        }
        start = next;
    }
    split_overlaps(&mut windows);
    windows
}

/// End (exclusive) of the window that starts at `start`; it has at least one word.
fn window_end(counts: &[usize], start: usize, limit: usize) -> usize {
    let mut pieces = 0;
    let mut end = start;
    while end < counts.len() && (end == start || pieces + counts[end] <= limit) {
        pieces += counts[end];
        end += 1;
    }
    end
}

/// Start of the longest tail of the window `start..end` that has at most `overlap` pieces.
fn next_start(counts: &[usize], start: usize, end: usize, overlap: usize) -> usize {
    let mut pieces = 0;
    let mut next = end;
    while next > start + 1 && pieces + counts[next - 1] <= overlap {
        next -= 1;
        pieces += counts[next];
    }
    next
}

/// Assigns each half of an overlap to the window that has more context around it.
fn split_overlaps(windows: &mut [Window]) {
    for index in 1..windows.len() {
        let from = windows[index].words.start;
        let to = windows[index - 1].words.end;
        let border = (from + (to.saturating_sub(from)) / 2).max(windows[index - 1].owned.start);
        windows[index - 1].owned.end = border;
        windows[index].owned.start = border;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_short_sentence_is_one_window() {
        let all = windows(&[1, 2, 3], 10, 4);
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].owned, 0..3);
    }

    #[test]
    fn an_empty_sentence_is_one_empty_window() {
        assert_eq!(windows(&[], 10, 4)[0].owned, 0..0);
    }

    proptest! {
        #[test]
        fn every_word_belongs_to_one_window(
            counts in prop::collection::vec(1usize..9, 0..80),
            limit in 1usize..30,
            overlap in 0usize..20,
        ) {
            let all = windows(&counts, limit, overlap);
            let mut next = 0;
            for window in &all {
                prop_assert_eq!(window.owned.start, next);
                prop_assert!(window.words.start <= window.owned.start);
                prop_assert!(window.owned.end <= window.words.end);
                let pieces: usize = counts[window.words.clone()].iter().sum();
                prop_assert!(pieces <= limit || window.words.len() == 1);
                next = window.owned.end;
            }
            prop_assert_eq!(next, counts.len());
        }
    }
}
