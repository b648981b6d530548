//! Texts cut into sentences that can be tagged in any order, and put together again.

use std::ops::Range;

use super::document::{DocumentSettings, TextSentences};
use super::long_sentence::{Merger, is_long, window_sentences, windows};
use crate::data::input_text::InputText;
use crate::text::{Mention, Sentence};

/// The plan by which a text was cut into parts: one for each sentence, or several for a long one.
#[derive(Debug)]
pub struct CutText {
    sentences: Vec<CutSentence>,
    nested: bool,
}

#[derive(Debug)]
enum CutSentence {
    /// The next part.
    Whole,
    /// As many of the next parts as there are windows.
    Windows(Box<Sentence>, Vec<Range<usize>>),
}

/// Cuts a text into parts for a tagger, and appends them to `parts`.
///
/// ```
/// use nerzoo::data::input_text::InputText;
/// use nerzoo::model::cut::cut;
/// use nerzoo::model::document::DocumentSettings;
///
/// let settings = DocumentSettings {
///     segmentation: Default::default(),
///     context: 0,
///     longest: 512,
///     nested: true,
///     whole: false,
/// };
/// let mut parts = Vec::new();
/// let plan = cut(InputText::Plain("One two. Three.".into()), settings, &mut parts);
/// assert_eq!(parts.len(), 2);
/// // The mentions of each part, here none, in the same order.
/// let joined = plan.join(parts.into_iter().map(|part| (part, Vec::new())));
/// assert_eq!(joined[1].0.text, "Three.");
/// ```
pub fn cut(text: InputText, settings: DocumentSettings, parts: &mut Vec<Sentence>) -> CutText {
    let mut plan = CutText {
        sentences: Vec::new(),
        nested: settings.nested,
    };
    match text {
        InputText::Plain(text) => {
            TextSentences::new(&text, settings)
                .for_each(|sentence| plan.add(sentence, settings, parts));
        }
        InputText::Sentences(sentences) => {
            (sentences.into_iter()).for_each(|sentence| plan.add(sentence, settings, parts));
        }
    }
    plan
}

impl CutText {
    fn add(&mut self, sentence: Sentence, settings: DocumentSettings, parts: &mut Vec<Sentence>) {
        if is_long(&sentence, settings.longest) {
            let all = windows(&sentence.words, settings.longest);
            parts.extend(window_sentences(&sentence, &all, settings.context > 0));
            (self.sentences).push(CutSentence::Windows(Box::new(sentence), all));
        } else {
            parts.push(sentence);
            self.sentences.push(CutSentence::Whole);
        }
    }

    /// The sentences of the text with their mentions. Takes the parts of this text and their mentions, in order, from
    /// `tagged`.
    pub fn join(
        self,
        mut tagged: impl Iterator<Item = (Sentence, Vec<Mention>)>,
    ) -> Vec<(Sentence, Vec<Mention>)> {
        let mut sentences = Vec::with_capacity(self.sentences.len());
        for sentence in self.sentences {
            match sentence {
                CutSentence::Whole => sentences.extend(tagged.next()),
                CutSentence::Windows(sentence, windows) => {
                    let count = windows.len();
                    let mut merger = Merger::new(windows, sentence.len(), self.nested);
                    for (_, mentions) in tagged.by_ref().take(count) {
                        merger.add(mentions);
                    }
                    sentences.push((*sentence, merger.finish()));
                }
            }
        }
        sentences
    }
}
