//! The annotations of a WebAnno file, from cells with numbers to spans of sentences.

use std::collections::{HashMap, HashSet};

use crate::data::sentences::entities;
use crate::data::source::Collector;
use crate::data::source::tally::Tally;
use crate::text::Sentence;

/// Remarks that are made once for the file; `{n}` stands for the number of cases.
pub(super) mod note {
    pub const CROSSES_SENTENCE: &str = "{n} annotations reach from one sentence into another; skipped, the first begins \
        here. Join the sentences in the annotation tool";
    pub const NO_TYPE: &str = "{n} annotations have no value (`*`); skipped, the first is here";
    pub const PART_OF_WORD: &str = "{n} annotations do not start and end at word boundaries, so no model can find them; kept \
        and counted as missed, the first is here";
    pub const OTHER_OFFSETS: &str = "the offsets of {n} sentences do not fit `#Text=`; the tokens were searched in the text, the first is here";
}

/// An annotation over one or more tokens.
struct Run {
    label: String,
    line: usize,
    /// For each sentence that it touches: the sentence, its first character, and one past its last.
    segments: Vec<(usize, usize, usize)>,
    /// The last token, counted over the document.
    token: usize,
}

/// The annotations of a document.
#[derive(Default)]
pub(super) struct Runs {
    runs: Vec<Run>,
    /// The annotation of a column and number.
    open: HashMap<(usize, usize), usize>,
    /// A number was used for two annotations, so numbers begin again in every sentence.
    reused: bool,
}

impl Runs {
    /// True when there are no annotations.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Adds a token to the annotation with this number, or begins an annotation.
    pub fn add(
        &mut self,
        (column, id): (usize, Option<usize>),
        label: String,
        line: usize,
        segment: (usize, usize, usize),
        token: usize,
    ) {
        let known = id.and_then(|id| self.open.get(&(column, id)).copied());
        if let Some(run) = known.map(|index| &mut self.runs[index]) {
            if run.label == label && token <= run.token + 1 {
                run.token = token;
                match run.segments.last_mut() {
                    Some(last) if last.0 == segment.0 => last.2 = last.2.max(segment.2),
                    _ => run.segments.push(segment),
                }
                return;
            }
            self.reused = true;
        }
        if let Some(id) = id {
            self.open.insert((column, id), self.runs.len());
        }
        self.runs.push(Run {
            label,
            line,
            segments: vec![segment],
            token,
        });
    }

    /// Adds the annotations to the sentences, of which those with an error are `None`.
    pub fn finish(
        self,
        sentences: &mut [(usize, Option<Sentence>)],
        tally: &mut Tally,
        corpus: &mut Collector,
    ) {
        let mut seen: HashSet<(usize, usize, usize, String)> = HashSet::new();
        for run in self.runs {
            if run.segments.len() > 1 && !self.reused {
                tally.add(run.line, note::CROSSES_SENTENCE);
                continue;
            }
            for (number, start, end) in run.segments {
                let Some(sentence) = &mut sentences[number].1 else {
                    continue;
                };
                let label = run.label.clone();
                if !seen.insert((number, start, end, label.clone())) {
                    let place = entities::ranges(&[(start, end)]);
                    corpus.warn(run.line, entities::given_twice(&label, place));
                    continue;
                }
                if !entities::add(sentence, vec![(start, end)], label) {
                    tally.add(run.line, note::PART_OF_WORD);
                }
            }
        }
    }
}
