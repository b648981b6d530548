//! Long texts: a sentence with more pieces than the encoder has positions is cut into overlapping windows of
//! whole words, and every word is read from the window in which it has the most context.

use std::ops::Range;

/// A stretch of words encoded together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// The words it holds.
    pub words: Range<usize>,
    /// The words whose states are read from it; over all windows these cover each word exactly once.
    pub owned: Range<usize>,
}

/// Cuts a sentence whose words have `counts` pieces into windows of at most `limit` pieces, neighbours sharing
/// about `overlap` pieces. A single word longer than the limit gets a window of its own.
pub fn windows(counts: &[usize], limit: usize, overlap: usize) -> Vec<Window> {
    let mut windows: Vec<Window> = Vec::new();
    let mut start = 0;
    loop {
        let end = reach(counts, start, limit);
        windows.push(Window {
            words: start..end,
            owned: start..end,
        });
        if end >= counts.len() {
            break;
        }
        // The next window must reach further than this one, or the overlap would stall the walk.
        let mut next = step_back(counts, start, end, overlap.min(limit / 2));
        while next < end && reach(counts, next, limit) <= end {
            next += 1;
        }
        start = next;
    }
    share_overlaps(&mut windows);
    windows
}

/// One past the last word that fits when a window starts at `start`; always at least one word.
fn reach(counts: &[usize], start: usize, limit: usize) -> usize {
    let mut pieces = 0;
    let mut end = start;
    while end < counts.len() && (end == start || pieces + counts[end] <= limit) {
        pieces += counts[end];
        end += 1;
    }
    end
}

/// The first word of the tail of `start..end` that has at most `overlap` pieces.
fn step_back(counts: &[usize], start: usize, end: usize, overlap: usize) -> usize {
    let mut pieces = 0;
    let mut next = end;
    while next > start + 1 && pieces + counts[next - 1] <= overlap {
        next -= 1;
        pieces += counts[next];
    }
    next
}

/// Gives each half of an overlap to the window that sees more context around it.
fn share_overlaps(windows: &mut [Window]) {
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
        fn every_word_is_owned_once(
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
