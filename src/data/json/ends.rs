//! Whether the end of a span is the last word (inclusive) or one past it (exclusive).
//!
//! The rule is one for the whole file. The texts of entities decide, where the file gives them. Otherwise the format
//! decides: the ends under `entities` and `entity_mentions` are exclusive, as are all character offsets. GLiNER and DyGIE++
//! have inclusive ends. Under other keys, and against the rule of GLiNER and DyGIE++, the spans decide: a span that starts
//! and ends at the same word shows that ends are inclusive, and one that ends at the number of words shows that they are
//! exclusive.

use super::entity::RawSpan;

/// How sure it is that a format has inclusive or exclusive ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Certainty {
    /// The format says so.
    Fixed,
    /// The format says so, but files that differ are known.
    Usual,
    /// Both are common.
    Unknown,
}

/// What a format says about its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Convention {
    /// Whether ends are inclusive.
    pub inclusive: bool,
    /// How sure that is.
    pub certainty: Certainty,
}

/// A number of spans and the line of the first one.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    count: usize,
    line: usize,
}

impl Seen {
    fn add(&mut self, line: usize) {
        if self.count == 0 {
            self.line = line;
        }
        self.count += 1;
    }
}

/// What the spans of a file show about their ends.
#[derive(Debug, Default)]
pub(super) struct EndSurvey {
    /// What the format says, the key of the first span, and its line.
    first: Option<(Convention, String, usize)>,
    spans: usize,
    /// Spans with equal start and end, which are empty if ends are exclusive.
    empty: Seen,
    /// Spans that end at the length, which are out of range if ends are inclusive.
    beyond: Seen,
    /// Spans whose text is found with an exclusive end.
    exclusive: Seen,
    /// Spans whose text is found with an inclusive end.
    inclusive: Seen,
}

impl EndSurvey {
    /// Adds a span of a sentence of `length` words or characters. `has_text` tells whether the characters or words of a
    /// span are those of the entity's text, if the file gives one.
    pub fn add(
        &mut self,
        line: usize,
        (key, convention): (&str, Convention),
        span: &RawSpan<'_>,
        length: usize,
        has_text: impl Fn((usize, usize), &str) -> bool,
    ) {
        let [(start, end)] = span.parts[..] else {
            return;
        };
        if span.inclusive == Some(false) {
            return;
        }
        self.first
            .get_or_insert_with(|| (convention, key.to_string(), line));
        self.spans += 1;
        if start == end {
            self.empty.add(line);
        }
        if end == length {
            self.beyond.add(line);
        }
        if let Some(text) = span.surface {
            if start < end && has_text((start, end), text) {
                self.exclusive.add(line);
            } else if has_text((start, end.saturating_add(1)), text) {
                self.inclusive.add(line);
            }
        }
    }

    /// Decides whether ends are inclusive. Returns a warning with its line where that is not what the format says, where the
    /// spans contradict each other, or where nothing decides.
    pub fn decide(&self) -> (bool, Option<(usize, String)>) {
        let Some((convention, key, line)) = &self.first else {
            return (false, None);
        };
        let name = |inclusive: bool| {
            if inclusive {
                "inclusive (the last one)"
            } else {
                "exclusive (one past the last one)"
            }
        };
        let usual = convention.inclusive;
        let by_texts = self.exclusive.count + self.inclusive.count > 0;
        if by_texts {
            let inclusive = self.inclusive.count > self.exclusive.count;
            let (fewer, more) = if inclusive {
                (self.exclusive, self.inclusive)
            } else {
                (self.inclusive, self.exclusive)
            };
            if fewer.count > 0 {
                let message = format!(
                    "the ends of `{key}` contradict each other: by their texts, {} are {} and {} (here) are {}; all are read as the former, correct the others",
                    more.count,
                    name(inclusive),
                    fewer.count,
                    name(!inclusive)
                );
                return (inclusive, Some((fewer.line, message)));
            }
            if inclusive == usual || convention.certainty == Certainty::Unknown {
                return (inclusive, None);
            }
            let message = format!(
                "the ends of `{key}` are read as {}, because the texts of the entities are found that way",
                name(inclusive)
            );
            return (inclusive, Some((more.line, message)));
        }
        if convention.certainty == Certainty::Fixed {
            return (usual, None);
        }
        match (self.empty.count > 0, self.beyond.count > 0) {
            (true, true) => {
                let message = format!(
                    "the ends of `{key}` contradict each other: a span on line {} starts and ends at the same place, so ends are \
                     inclusive; one on this line ends at the length, so they are exclusive; read as {}, correct the others",
                    self.empty.line,
                    name(usual)
                );
                (usual, Some((self.beyond.line, message)))
            }
            (true, false) => self.by_range(true, usual, convention.certainty, key, self.empty.line),
            (false, true) => {
                self.by_range(false, usual, convention.certainty, key, self.beyond.line)
            }
            _ if convention.certainty == Certainty::Usual => (usual, None),
            // With inclusive ends, entities of one word have equal starts and ends; ten spans without one are longer ones.
            _ if self.spans >= 10 => (false, None),
            _ => {
                let message = format!(
                    "the file does not show whether the ends of `{key}` are inclusive; read as {}. If that is wrong, write the \
                     entities under `entities`, with exclusive ends",
                    name(usual)
                );
                (usual, Some((*line, message)))
            }
        }
    }

    fn by_range(
        &self,
        inclusive: bool,
        usual: bool,
        certainty: Certainty,
        key: &str,
        line: usize,
    ) -> (bool, Option<(usize, String)>) {
        if inclusive == usual || certainty == Certainty::Unknown {
            return (inclusive, None);
        }
        let (read, count, shown) = if inclusive {
            (
                "inclusive",
                self.empty.count,
                "start and end at the same place",
            )
        } else {
            ("exclusive", self.beyond.count, "end at the length")
        };
        let message = format!(
            "the ends of `{key}` are read as {read}, unlike in other files of this format, because {count} spans {shown} and none shows the opposite"
        );
        (inclusive, Some((line, message)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;

    fn decide(certainty: Certainty, usual: bool, spans: &[(usize, usize)]) -> (bool, bool) {
        let mut survey = EndSurvey::default();
        let convention = Convention {
            inclusive: usual,
            certainty,
        };
        for (start, end) in spans {
            let span = RawSpan {
                parts: vec![(*start, *end)],
                label: Cow::Borrowed("A"),
                surface: None,
                unit: None,
                inclusive: None,
            };
            survey.add(1, ("ner", convention), &span, 4, |_, _| false);
        }
        let (inclusive, warning) = survey.decide();
        (inclusive, warning.is_some())
    }

    #[test]
    fn spans_decide_where_the_format_does_not() {
        use Certainty::{Fixed, Unknown, Usual};
        for (certainty, usual, spans, expected) in [
            (Fixed, false, &[(0, 0)][..], (false, false)),
            (Usual, true, &[(0, 1)], (true, false)),
            (Usual, true, &[(0, 0)], (true, false)),
            (Usual, true, &[(2, 4)], (false, true)),
            (Usual, true, &[(0, 0), (2, 4)], (true, true)),
            (Unknown, true, &[(0, 1)], (true, true)),
            (Unknown, false, &[(0, 1)], (false, true)),
            (Unknown, true, &[(2, 4)], (false, false)),
            (Unknown, false, &[(2, 2)], (true, false)),
            (Unknown, true, &[(1, 2); 10], (false, false)),
        ] {
            assert_eq!(
                decide(certainty, usual, spans),
                expected,
                "{certainty:?} {usual} {spans:?}"
            );
        }
        assert_eq!(EndSurvey::default().decide(), (false, None));
    }

    #[test]
    fn texts_of_entities_decide_against_the_format() {
        let mut survey = EndSurvey::default();
        let convention = Convention {
            inclusive: false,
            certainty: Certainty::Fixed,
        };
        let span = RawSpan {
            parts: vec![(0, 1)],
            label: Cow::Borrowed("A"),
            surface: Some("ab"),
            unit: None,
            inclusive: None,
        };
        survey.add(
            7,
            ("entities", convention),
            &span,
            9,
            |(start, end), text| end - start == text.len(),
        );
        let (inclusive, warning) = survey.decide();
        assert!(inclusive);
        assert_eq!(warning.unwrap().0, 7);
    }
}
