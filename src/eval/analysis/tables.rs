//! The tables of the analysis, as the terminal and the page both show them.

use std::collections::BTreeSet;

use super::attributes::{Attribute, BUCKETS, LENGTH_GROUPS};
use super::cells::{Cell, Group, Kind, NOTHING, Scores, Table};
use super::{Analysis, Errors, Model};
use crate::eval::Counts;

impl Analysis {
    /// All entities, with what the bootstrap says.
    pub(super) fn overall_table(&self) -> Table {
        let rows = self.models.iter().map(|model| {
            let counts = &model.report.overall;
            let mut row = vec![
                Cell::name(&model.name),
                Cell::percent(Some(counts.precision())),
                Cell::percent(Some(counts.recall())),
                Cell::percent(Some(counts.f1())),
                Cell::interval(model.significance.f1, false),
            ];
            match model.significance.difference {
                Some(difference) => row.extend([
                    Cell::difference(Some(difference.value), true),
                    Cell::interval(difference.interval, true),
                    Cell::new(format!("{:.3}", difference.p), Kind::Number),
                ]),
                None => row.extend([
                    Cell::new("standard", Kind::Remark),
                    Cell::new(NOTHING, Kind::Number),
                    Cell::new(NOTHING, Kind::Number),
                ]),
            }
            row
        });
        Table {
            title: "All entities".to_owned(),
            caption: format!(
                "Strict scores in percent: span and label must both be right. Intervals hold 95 % of {} bootstrap resamples of the sentences, all models on the same draws. Difference: points of F1 to the standard. p: two-sided; small means that the difference is hardly due to the choice of sentences.",
                self.options.resamples
            ),
            head: strings(&[
                "model",
                "P",
                "R",
                "F1",
                "95 % of F1",
                "difference",
                "95 % of it",
                "p",
            ]),
            groups: vec![Group {
                name: None,
                rows: rows.collect(),
            }],
        }
    }

    /// The four attributes and their buckets.
    pub(super) fn bucket_table(&self) -> Table {
        let groups = Attribute::ALL
            .into_iter()
            .enumerate()
            .map(|(index, attribute)| {
                let line = |name: &str, cell: &dyn Fn(usize) -> Cell| -> Vec<Cell> {
                    let mut row = vec![Cell::name(name)];
                    row.extend((0..BUCKETS.len()).map(cell));
                    row
                };
                let standard = self.standard().buckets[index].map(|split| Scores::from(&split));
                let mut rows = vec![
                    line("values", &|bucket| {
                        Cell::new(attribute.ranges()[bucket], Kind::Remark)
                    }),
                    line("gold entities", &|bucket| {
                        Cell::count(standard[bucket].support)
                    }),
                ];
                for (number, model) in self.models.iter().enumerate() {
                    rows.push(line(&model.name, &|bucket| {
                        let scores = Scores::from(&model.buckets[index][bucket]);
                        let score = Cell::percent(scores.f1);
                        match scores.minus(&standard[bucket]) {
                            Some(difference) if number != self.standard => Cell {
                                detail: Some(score.text),
                                ..Cell::difference(Some(difference), true)
                            },
                            _ => score,
                        }
                    }));
                }
                Group {
                    name: Some(format!("{}: {}", attribute.name(), attribute.meaning())),
                    rows,
                }
            });
        let mut head = strings(&["attribute", "F1 of"]);
        head.extend(strings(&BUCKETS));
        Table {
            title: "By attribute".to_owned(),
            caption: format!(
                "F1 in percent of the entities in each bucket and, for all models but the standard, the difference to it in points: {LEGEND} Recall sorts gold entities into buckets, precision predicted ones. Label consistency: of the training entities with the same words, the share with the same label, 0 when unseen. Entity density: entities for each word of the sentence. Few gold entities make a difference uncertain."
            ),
            head,
            groups: groups.collect(),
        }
    }

    /// Kinds of errors.
    pub(super) fn error_table(&self) -> Table {
        let standard = &self.standard().errors;
        let groups = Errors::KINDS.iter().enumerate().map(|(kind, name)| {
            let rows = self.models.iter().enumerate().map(|(number, model)| {
                let errors = &model.errors;
                let rate = errors.rate(errors.kinds()[kind]);
                let difference = rate - standard.rate(standard.kinds()[kind]);
                vec![
                    Cell::name(&model.name),
                    Cell::count(errors.kinds()[kind]),
                    Cell::count(errors.false_positives + errors.false_negatives),
                    Cell::percent(Some(rate)),
                    if number == self.standard {
                        Cell::new("standard", Kind::Remark)
                    } else {
                        Cell::fewer_is_better(Some(difference))
                    },
                ]
            });
            Group {
                name: Some((*name).to_owned()),
                rows: rows.collect(),
            }
        });
        Table {
            title: "Kinds of errors".to_owned(),
            caption: "Boundary: a wrong prediction overlaps an entity the model missed, with other borders. Type: the borders of a missed entity, another label. Spurious: any other wrong prediction. Missed: no wrong prediction touches the entity. Rate: count in percent of the model's wrong predictions and missed entities (FP + FN). Difference: points of the rate to the standard; ▼ less and blue are a smaller share, ▲ more and orange a larger one. A model with fewer errors can have a larger share of one kind, so look at the counts too.".to_owned(),
            head: strings(&["kind", "model", "count", "FP + FN", "rate", "difference"]),
            groups: groups.collect(),
        }
    }

    /// Each type.
    pub(super) fn type_table(&self) -> Table {
        let types: BTreeSet<&String> = self
            .models
            .iter()
            .flat_map(|model| model.report.per_type.keys())
            .collect();
        let groups = types.into_iter().map(|label| {
            let scores = |model: &Model| {
                Scores::from(
                    &model
                        .report
                        .per_type
                        .get(label)
                        .copied()
                        .unwrap_or_default(),
                )
            };
            self.score_group(label.clone(), scores)
        });
        self.score_table(
            "By type",
            "type",
            "The entities of each type.",
            groups.collect(),
        )
    }

    /// Flat and nested entities; nothing without nesting.
    pub(super) fn nesting_table(&self) -> Option<Table> {
        if !self.models.iter().any(|model| model.report.has_nesting()) {
            return None;
        }
        let groups = vec![
            self.score_group("flat".to_owned(), |model| Scores::from(&model.report.flat)),
            self.score_group("nested".to_owned(), |model| {
                Scores::from(&model.report.nested)
            }),
            self.score_group("flat view".to_owned(), |model| {
                Scores::from(&model.report.flat_view)
            }),
        ];
        let caption = "Nested entities share a word with another entity of their side, flat ones do not. The flat view compares the outermost entities only.";
        Some(self.score_table("Flat and nested", "entities", caption, groups))
    }

    /// Entities by their number of words; lengths that nobody has are left out.
    pub(super) fn length_table(&self) -> Table {
        let used = |group: &usize| {
            let counts = self.models.iter().map(|model| model.lengths[*group]);
            counts.sum::<Counts>() != Counts::default()
        };
        let groups = (0..LENGTH_GROUPS.len()).filter(used).map(|group| {
            let scores = |model: &Model| Scores::from(&model.lengths[group]);
            self.score_group(LENGTH_GROUPS[group].to_owned(), scores)
        });
        let caption = "Entities by their number of words.";
        self.score_table("By length", "words", caption, groups.collect())
    }

    /// Labels a model took for others.
    pub(super) fn confusion_table(&self, model: &Model) -> Table {
        let labels: BTreeSet<Option<&str>> = model
            .confusion
            .pairs
            .keys()
            .flat_map(|(gold, predicted)| [gold.as_deref(), predicted.as_deref()])
            .collect();
        // None sorts first and shall stand last.
        let labels: Vec<Option<&str>> = labels
            .into_iter()
            .flatten()
            .map(Some)
            .chain([None])
            .collect();
        let rows = labels.iter().map(|gold| {
            let mut row = vec![Cell::name(gold.unwrap_or("(none)"))];
            row.extend(labels.iter().map(|predicted| {
                match (model.confusion.count(*gold, *predicted), gold == predicted) {
                    (_, true) if gold.is_none() => Cell::new("", Kind::Remark),
                    (0, _) => Cell::new("·", Kind::Number),
                    (count, true) => Cell::new(count.to_string(), Kind::Diagonal),
                    (count, false) => Cell::count(count),
                }
            }));
            row
        });
        let mut head = vec!["gold ↓ predicted →".to_owned()];
        head.extend(
            labels
                .iter()
                .map(|label| label.unwrap_or("(none)").to_owned()),
        );
        Table {
            title: model.name.clone(),
            caption: String::new(),
            head,
            groups: vec![Group {
                name: None,
                rows: rows.collect(),
            }],
        }
    }

    fn score_group(&self, name: String, scores: impl Fn(&Model) -> Scores) -> Group {
        let standard = scores(self.standard());
        let rows = self.models.iter().enumerate().map(|(number, model)| {
            let scores = scores(model);
            vec![
                Cell::name(&model.name),
                Cell::percent(scores.precision),
                Cell::percent(scores.recall),
                Cell::percent(scores.f1),
                if number == self.standard {
                    Cell::new("standard", Kind::Remark)
                } else {
                    Cell::difference(scores.minus(&standard), true)
                },
                Cell::count(scores.support),
            ]
        });
        Group {
            name: Some(name),
            rows: rows.collect(),
        }
    }

    fn score_table(&self, title: &str, first: &str, caption: &str, groups: Vec<Group>) -> Table {
        Table {
            title: title.to_owned(),
            caption: format!(
                "{caption} Scores in percent, the difference in points of F1 to the standard: {LEGEND} Support: gold entities."
            ),
            head: strings(&[first, "model", "P", "R", "F1", "difference", "support"]),
            groups,
        }
    }
}

/// What colours and arrows mean.
const LEGEND: &str = "▲ and blue are better, ▼ and orange are worse; the stronger, the more (from 1, 2.5 and 5 points).";

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}
