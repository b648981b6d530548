//! From the grid of labels to mentions.

use std::collections::BTreeMap;

use super::config::{Config, Decoding};
use super::network::{Bopn, TypesAndWords};
use super::target::{Offset, OffsetScheme};
use crate::encoder::WordStates;
use crate::heads::overlaps::one_type_per_span;
use crate::heads::{Detail, Diagnosis, Evidence, none_bias};
use crate::nn::host;
use crate::text::{Entity, Mention, Span};

/// A type and a span, given by its first and its last word.
pub type TypedSpan = (usize, [i32; 2]);

/// A cell of the grid whose most probable label is not "out of range".
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GridCell {
    /// The entity type.
    pub label: usize,
    /// First and last word.
    pub span: [i32; 2],
    /// Its label.
    pub offset: Offset,
    /// The probability of the label.
    pub probability: f32,
}

impl GridCell {
    /// The span that the label points to, if it is a valid span of the sentence.
    fn target(&self, length: i32) -> Option<[i32; 2]> {
        let [start, end] = self.span;
        let [start, end] = match self.offset {
            Offset::Start(offset) => [start - offset, end],
            Offset::End(offset) => [start, end - offset],
            Offset::Centre => [start, end],
            Offset::Out => return None,
        };
        (0 <= start && start <= end && end < length).then_some([start, end])
    }
}

/// The cells of one sentence that may have a label other than "out of range".
#[derive(Debug, Clone, PartialEq)]
pub struct SentenceCells {
    /// Its length in words.
    length: usize,
    /// The cells, each with its most probable other label.
    cells: Vec<CellScore>,
    /// With a `joint_weight`, the spans with the probabilities of their best type and of none. They take the place of the
    /// cells that are centres.
    spans: Option<Vec<CellScore>>,
}

/// A cell with the most probable of its labels other than "out of range".
#[derive(Debug, Clone, Copy, PartialEq)]
struct CellScore {
    cell: GridCell,
    /// The probability of "out of range".
    out: f32,
}

impl SentenceCells {
    /// The cells whose most probable label is not "out of range" after the bias on that label.
    fn labelled(&self, none_bias: f64) -> Vec<GridCell> {
        let is_used =
            |score: &&CellScore| self.spans.is_none() || score.cell.offset != Offset::Centre;
        let cells = self.cells.iter().filter(is_used);
        cells
            .chain(self.spans.iter().flatten())
            .filter_map(|CellScore { cell, out }| {
                let probability = none_bias::biased(cell.probability, *out, none_bias)?;
                Some(GridCell {
                    probability,
                    ..*cell
                })
            })
            .collect()
    }
}

/// The mentions of each sentence; in full detail also those of every offset label.
pub fn diagnose(head: &Bopn, grids: &[SentenceCells], detail: Detail) -> Diagnosis {
    Diagnosis {
        mentions: (grids.iter())
            .map(|cells| mentions_under(head, &head.config, cells))
            .collect(),
        evidence: match detail {
            Detail::Summary => Vec::new(),
            Detail::Full => evidence(head, grids),
        },
        counts: Vec::new(),
    }
}

/// The mentions of a sentence under these settings.
pub fn mentions_under(head: &Bopn, config: &Config, grid: &SentenceCells) -> Vec<Mention> {
    let cells = grid.labelled(config.none_bias);
    let mut found = read(head, config.decode, grid.length, &cells);
    if config.one_type {
        found = one_type_per_span(found);
    }
    config.overlaps.keep_best(found)
}

/// The mentions that each offset label alone points to, then all of them together, then the ones that remain under the
/// two rules of the paper and under the authors' votes.
fn evidence(head: &Bopn, grids: &[SentenceCells]) -> Vec<Evidence> {
    let evidence = |name: &str, offset, decoding, keep: &dyn Fn(&GridCell) -> bool| Evidence {
        name: name.to_string(),
        nested: true,
        offset,
        mentions: grids
            .iter()
            .map(|grid| {
                let mut cells = grid.labelled(head.config.none_bias);
                cells.retain(|cell| keep(cell));
                read(head, decoding, grid.length, &cells)
            })
            .collect(),
    };
    let mut labels = head.scheme.list();
    labels.retain(|offset| *offset != Offset::Out);
    labels.sort_by_key(|offset| matches!(offset, Offset::End(_)));
    let mut all: Vec<Evidence> = labels
        .into_iter()
        .map(|offset| {
            let (name, by) = match offset {
                Offset::Start(by) => (format!("{by:+}S"), [by, 0]),
                Offset::End(by) => (format!("{by:+}E"), [0, by]),
                _ => ("0".to_string(), [0, 0]),
            };
            evidence(&name, by, Decoding::All, &|cell| cell.offset == offset)
        })
        .collect();
    for (name, decoding) in [
        ("all", Decoding::All),
        ("rules", Decoding::Rules),
        ("votes", Decoding::Votes),
    ] {
        all.push(evidence(name, [0, 0], decoding, &|_| true));
    }
    all
}

/// The cells of each sentence of a batch that may become mentions.
pub fn grids(head: &Bopn, states: &WordStates) -> Vec<SentenceCells> {
    let parts = head.encode(states).parts();
    let of = |part: &TypesAndWords| {
        let logits = head.logits(part).permute([0, 2, 3, 4, 1]);
        let [_, types, words, _, labels] = logits.dims();
        let logits = host::floats(logits);
        part.lengths
            .iter()
            .zip(logits.chunks(types * words * words * labels))
            .map(|(length, scores)| {
                let bias = head.config.none_bias;
                let cells = cells(&head.scheme, bias, scores, types, words, *length);
                let spans = (head.config.has_joint_types())
                    .then(|| joint_spans(&head.scheme, bias, scores, types, words, *length));
                SentenceCells {
                    length: *length,
                    cells,
                    spans,
                }
            })
            .collect::<Vec<_>>()
    };
    parts.iter().flat_map(of).collect()
}

fn read(head: &Bopn, decoding: Decoding, length: usize, cells: &[GridCell]) -> Vec<Mention> {
    let name = |index: usize| {
        let number = head.config.type_at(index, head.labels.len());
        head.labels.name(number)
    };
    mentions(&head.scheme, decoding, length, cells)
        .into_iter()
        .map(|((label, [start, end]), score)| Mention {
            entity: Entity {
                span: Span::new(start as usize, end as usize + 1),
                label: name(label).to_string(),
            },
            score,
        })
        .collect()
}

/// The cells of one sentence that some bias can label. `scores` are [types, words, words, labels].
fn cells(
    scheme: &OffsetScheme,
    bias: f64,
    scores: &[f32],
    types: usize,
    words: usize,
    length: usize,
) -> Vec<CellScore> {
    let list = scheme.list();
    let lowest = bias.min(-none_bias::RANGE) as f32;
    let mut cells = Vec::new();
    for label in 0..types {
        for start in 0..length {
            for end in start..length {
                let at = ((label * words + start) * words + end) * list.len();
                let row = &scores[at..at + list.len()];
                let best = 1 + host::argmax(&row[1..]);
                if row[best] > row[0] + lowest {
                    let highest = row[best].max(row[0]);
                    let sum: f32 = row.iter().map(|score| (score - highest).exp()).sum();
                    let probability = |score: f32| (score - highest).exp() / sum;
                    cells.push(CellScore {
                        cell: GridCell {
                            label,
                            span: [start as i32, end as i32],
                            offset: list[best],
                            probability: probability(row[best]),
                        },
                        out: probability(row[0]),
                    });
                }
            }
        }
    }
    cells
}

/// The spans of one sentence that some bias can make entities, each with its best type. `scores` are
/// [types, words, words, labels]; the scores of types are compared as in [`Bopn::joint_scores`].
fn joint_spans(
    scheme: &OffsetScheme,
    bias: f64,
    scores: &[f32],
    types: usize,
    words: usize,
    length: usize,
) -> Vec<CellScore> {
    let labels = scheme.len();
    let centre = scheme.id(Offset::Centre).unwrap_or(0);
    let mut spans = Vec::new();
    let mut row = vec![0f32; 1 + types];
    for start in 0..length {
        for end in start..length {
            for (label, score) in row[1..].iter_mut().enumerate() {
                let at = ((label * words + start) * words + end) * labels;
                *score = scores[at + centre] - scores[at];
            }
            host::softmax(&mut row);
            let best = 1 + host::argmax(&row[1..]);
            if none_bias::can_win(row[best], row[0], bias) {
                spans.push(CellScore {
                    cell: GridCell {
                        label: best - 1,
                        span: [start as i32, end as i32],
                        offset: Offset::Centre,
                        probability: row[best],
                    },
                    out: row[0],
                });
            }
            row[0] = 0.0;
        }
    }
    spans
}

/// Entities and their scores, in the order of their spans. The score of a centre is the probability of its own cell;
/// that of an entity found only by offsets is the highest probability of the cells that point to it.
pub fn mentions(
    scheme: &OffsetScheme,
    decoding: Decoding,
    length: usize,
    cells: &[GridCell],
) -> Vec<(TypedSpan, f32)> {
    let length = length as i32;
    let centres: BTreeMap<TypedSpan, f32> = cells
        .iter()
        .filter(|cell| cell.offset == Offset::Centre)
        .map(|cell| ((cell.label, cell.span), cell.probability))
        .collect();
    let from_offsets = match decoding {
        Decoding::Centre => Vec::new(),
        Decoding::All => all_targets(length, cells),
        Decoding::Votes => votes(scheme, length, cells),
        Decoding::Rules => rules(scheme, length, cells, &centres),
    };
    let mut all = BTreeMap::new();
    for (found, probability) in from_offsets {
        if !centres.contains_key(&found) {
            let best: &mut f32 = all.entry(found).or_default();
            *best = best.max(probability);
        }
    }
    all.extend(centres);
    let mut all: Vec<(TypedSpan, f32)> = all.into_iter().collect();
    all.sort_by_key(|((label, span), _)| (*span, *label));
    all
}

/// The spans that any cell points to.
fn all_targets(length: i32, cells: &[GridCell]) -> Vec<(TypedSpan, f32)> {
    cells
        .iter()
        .filter_map(|cell| Some(((cell.label, cell.target(length)?), cell.probability)))
        .collect()
}

/// The spans that at least S start offsets or at least S end offsets point to, as in the authors' code. The two
/// numbers are not added.
fn votes(scheme: &OffsetScheme, length: i32, cells: &[GridCell]) -> Vec<(TypedSpan, f32)> {
    let mut ballots: BTreeMap<(bool, TypedSpan), Vec<f32>> = BTreeMap::new();
    for cell in cells {
        let from_start = matches!(cell.offset, Offset::Start(_));
        if let (true, Some(span)) = (cell.offset.distance() > 0, cell.target(length)) {
            let votes = ballots.entry((from_start, (cell.label, span))).or_default();
            votes.push(cell.probability);
        }
    }
    ballots
        .into_iter()
        .filter(|(_, votes)| votes.len() >= scheme.max_offset as usize)
        .flat_map(|((_, found), votes)| votes.into_iter().map(move |vote| (found, vote)))
        .collect()
}

/// The spans that offsets point to under the two rules of the paper: no centre is near, and a neighbouring cell agrees.
fn rules(
    scheme: &OffsetScheme,
    length: i32,
    cells: &[GridCell],
    centres: &BTreeMap<TypedSpan, f32>,
) -> Vec<(TypedSpan, f32)> {
    let labels: BTreeMap<TypedSpan, Offset> = cells
        .iter()
        .map(|cell| ((cell.label, cell.span), cell.offset))
        .collect();
    cells
        .iter()
        .filter(|cell| cell.offset != Offset::Centre)
        .filter(|cell| !has_centre_near(scheme, cell, centres))
        .filter_map(|cell| Some((cell, cell.target(length)?)))
        .filter(|(cell, span)| has_agreeing_neighbour(scheme, length, cell, *span, &labels))
        .map(|(cell, span)| ((cell.label, span), cell.probability))
        .collect()
}

/// Rule 1: an offset is ignored if both boundaries of a centre are within S words of the cell's. It either points to that
/// centre or contradicts it; in neither case does it point to a new entity.
fn has_centre_near(
    scheme: &OffsetScheme,
    cell: &GridCell,
    centres: &BTreeMap<TypedSpan, f32>,
) -> bool {
    let [start, end] = cell.span;
    (-scheme.max_offset..=scheme.max_offset).any(|rows| {
        (-scheme.max_offset..=scheme.max_offset).any(|columns| {
            let centre = [start - rows, end - columns];
            centres.contains_key(&(cell.label, centre))
        })
    })
}

/// Rule 2: the cells that point to an entity along one boundary are labelled −S … −1, 1 … S in order. An offset counts
/// only if a neighbour in this line has the expected label, or if both neighbours would be outside the sentence.
fn has_agreeing_neighbour(
    scheme: &OffsetScheme,
    length: i32,
    cell: &GridCell,
    [start, end]: [i32; 2],
    labels: &BTreeMap<TypedSpan, Offset>,
) -> bool {
    let own = match cell.offset {
        Offset::Start(offset) | Offset::End(offset) => offset,
        _ => return true,
    };
    // −1 and 1 are neighbours of each other: the centre between them is not labelled as one.
    let step = |by: i32| {
        if own + by == 0 {
            own + 2 * by
        } else {
            own + by
        }
    };
    let neighbours: Vec<(TypedSpan, Offset)> = [step(-1), step(1)]
        .into_iter()
        .filter(|offset| offset.abs() <= scheme.max_offset)
        .map(|offset| match cell.offset {
            Offset::Start(_) => ([start + offset, end], Offset::Start(offset)),
            _ => ([start, end + offset], Offset::End(offset)),
        })
        .filter(|([start, end], _)| 0 <= *start && start <= end && *end < length)
        .map(|(span, offset)| ((cell.label, span), offset))
        .collect();
    neighbours.is_empty()
        || neighbours
            .iter()
            .any(|(span, offset)| labels.get(span) == Some(offset))
}

#[cfg(test)]
mod tests {
    use super::super::config::{Labelling, Mode};
    use super::super::target::Gold;
    use super::*;
    use crate::heads::settings::{Preset, Settings};
    use crate::text::{Labels, Sentence};
    use proptest::prelude::*;

    fn cell(span: [i32; 2], offset: Offset, probability: f32) -> GridCell {
        GridCell {
            label: 0,
            span,
            offset,
            probability,
        }
    }

    fn found(decoding: Decoding, cells: &[GridCell]) -> Vec<([i32; 2], f32)> {
        let scheme = OffsetScheme::new(2, Mode::Both);
        mentions(&scheme, decoding, 9, cells)
            .into_iter()
            .map(|((_, span), score)| (span, score))
            .collect()
    }

    #[test]
    fn offsets_find_an_entity_without_a_centre() {
        let cells = [
            cell([4, 6], Offset::Start(1), 0.5),
            cell([5, 6], Offset::Start(2), 0.7),
            cell([0, 0], Offset::Centre, 0.9),
        ];
        let expected = vec![([0, 0], 0.9), ([3, 6], 0.7)];
        assert_eq!(found(Decoding::Votes, &cells), expected);
        assert_eq!(found(Decoding::Rules, &cells), expected);
        assert_eq!(found(Decoding::All, &cells), expected);
        assert_eq!(found(Decoding::Centre, &cells), expected[..1]);
    }

    #[test]
    fn start_and_end_votes_are_not_added() {
        let cells = [
            cell([4, 6], Offset::Start(1), 0.5),
            cell([3, 7], Offset::End(1), 0.7),
        ];
        assert_eq!(found(Decoding::Votes, &cells), []);
    }

    #[test]
    fn an_offset_that_contradicts_its_nearest_centre_is_dropped() {
        let mut cells = vec![
            cell([4, 6], Offset::Start(2), 0.5), // both point to [2, 6]
            cell([3, 6], Offset::Start(1), 0.5),
        ];
        assert_eq!(found(Decoding::Rules, &cells), [([2, 6], 0.5)]);
        cells.push(cell([7, 8], Offset::Centre, 0.9)); // too far away to matter
        let expected = [([2, 6], 0.5), ([7, 8], 0.9)];
        assert_eq!(found(Decoding::Rules, &cells), expected);
        cells[2].span = [4, 7];
        assert_eq!(found(Decoding::Rules, &cells), [([4, 7], 0.9)]);
    }

    #[test]
    fn an_offset_out_of_order_is_dropped() {
        let alone = [cell([5, 6], Offset::Start(2), 0.5)];
        assert_eq!(found(Decoding::Rules, &alone), []);
        let around = [
            cell([2, 6], Offset::Start(-1), 0.5),
            cell([4, 6], Offset::Start(1), 0.6),
        ];
        assert_eq!(found(Decoding::Rules, &around), [([3, 6], 0.6)]);
        let crossed = [
            cell([5, 6], Offset::Start(2), 0.5),
            cell([4, 6], Offset::Start(2), 0.6),
        ];
        assert_eq!(found(Decoding::Rules, &crossed), []);
    }

    #[test]
    fn spans_outside_the_sentence_are_ignored() {
        let cells = [
            cell([0, 3], Offset::Start(1), 0.5),
            cell([1, 3], Offset::Start(2), 0.5),
            cell([2, 2], Offset::End(2), 0.5),
            cell([2, 3], Offset::End(2), 0.5),
        ];
        for decoding in [Decoding::Votes, Decoding::Rules] {
            assert_eq!(found(decoding, &cells), []);
        }
    }

    proptest! {
        #[test]
        fn gold_grids_decode_to_gold(
            entities in prop::collection::vec((0usize..12, 1usize..8, 0usize..2), 0..9),
            reach in 0usize..4,
            released in any::<bool>(),
            mode in prop::sample::select(vec![Mode::Both, Mode::Start, Mode::End, Mode::None]),
        ) {
            let names = ["A", "B"];
            let mut sentence = Sentence::from_words((0..12).map(|word| word.to_string()));
            sentence.entities = entities
                .into_iter()
                .map(|(start, words, label)| Entity::new(start, (start + words).min(12), names[label]))
                .collect();
            sentence.entities.sort();
            sentence.entities.dedup();
            let preset = if released { Preset::Released } else { Preset::Paper };
            let config = Config { offsets: reach, mode, ..Config::of(preset) };
            let scheme = OffsetScheme::of(&config);
            let gold = Gold::new(&config, &Labels::new(names), &[&sentence]);
            let list = scheme.list();
            let scores: Vec<f32> = gold
                .labels
                .iter()
                .flat_map(|label| (0..list.len()).map(move |kind| if kind == *label as usize { 5.0 } else { 0.0 }))
                .collect();
            let cells = SentenceCells { length: 12, cells: cells(&scheme, 0.0, &scores, 2, 12, 12), spans: None };
            let cells = cells.labelled(0.0);
            let mut decodings = vec![Decoding::Centre, Decoding::Rules];
            if config.labels == Labelling::Shared {
                decodings.extend([Decoding::Votes, Decoding::All]);
            }
            for decoding in decodings {
                let mut found: Vec<Entity> = mentions(&scheme, decoding, 12, &cells)
                    .into_iter()
                    .map(|((label, [start, end]), _)| Entity::new(start as usize, end as usize + 1, names[label]))
                    .collect();
                found.sort();
                prop_assert_eq!(&found, &sentence.entities);
            }
        }
    }
}
