//! Builds the tables of the analysis, which the terminal and the HTML page both show.

use std::collections::BTreeSet;

use super::attributes::{Attribute, BUCKETS, LENGTH_GROUPS};
use super::report_table::{CellKind, ReportTable, RowGroup, TableCell, UNDEFINED};
use super::{Analysis, ErrorCounts, ModelResults};
use crate::eval::Counts;
use crate::eval::counts::Scores;

impl Analysis {
    /// Scores over all entities, with the bootstrap results.
    pub(super) fn overall_table(&self) -> ReportTable {
        let rows = self.models.iter().map(|model| {
            let counts = &model.report.overall;
            let mut row = vec![
                TableCell::name(&model.name),
                TableCell::percent(Some(counts.precision())),
                TableCell::percent(Some(counts.recall())),
                TableCell::percent(Some(counts.f1())),
                TableCell::interval(model.significance.f1, false),
            ];
            match model.significance.difference {
                Some(difference) => row.extend([
                    TableCell::difference(Some(difference.value), true),
                    TableCell::interval(difference.interval, true),
                    TableCell::new(format!("{:.3}", difference.p), CellKind::Number),
                ]),
                None => row.extend([
                    TableCell::new("baseline", CellKind::Remark),
                    TableCell::new(UNDEFINED, CellKind::Number),
                    TableCell::new(UNDEFINED, CellKind::Number),
                ]),
            }
            row
        });
        ReportTable {
            title: "All entities".to_owned(),
            caption: format!(
                "Strict scores in percent: span and label must both be correct. Intervals contain 95 % of {} bootstrap resamples of the sentences; all models are scored on the same resamples. Difference: points of F1 to the baseline. p: two-sided; a small value means that the difference is unlikely to be due to the choice of sentences.",
                self.options.resamples
            ),
            header: strings(&[
                "model",
                "P",
                "R",
                "F1",
                "95 % of F1",
                "difference",
                "95 % of it",
                "p",
            ]),
            groups: vec![RowGroup {
                name: None,
                rows: rows.collect(),
            }],
        }
    }

    /// F1 in each bucket of each attribute.
    pub(super) fn bucket_table(&self) -> ReportTable {
        let groups = Attribute::ALL
            .into_iter()
            .enumerate()
            .map(|(index, attribute)| {
                let row = |name: &str, cell: &dyn Fn(usize) -> TableCell| -> Vec<TableCell> {
                    let mut cells = vec![TableCell::name(name)];
                    cells.extend((0..BUCKETS.len()).map(cell));
                    cells
                };
                let baseline = self.baseline().buckets[index].map(Scores::from);
                let mut rows = vec![
                    row("values", &|bucket| {
                        TableCell::new(attribute.ranges()[bucket], CellKind::Remark)
                    }),
                    row("gold entities", &|bucket| {
                        TableCell::count(baseline[bucket].support)
                    }),
                ];
                for (number, model) in self.models.iter().enumerate() {
                    rows.push(row(&model.name, &|bucket| {
                        let scores = Scores::from(model.buckets[index][bucket]);
                        let score = TableCell::percent(scores.f1);
                        match scores.f1_difference(&baseline[bucket]) {
                            Some(difference) if number != self.baseline => TableCell {
                                detail: Some(score.text),
                                ..TableCell::difference(Some(difference), true)
                            },
                            _ => score,
                        }
                    }));
                }
                RowGroup {
                    name: Some(format!("{}: {}", attribute.name(), attribute.description())),
                    rows,
                }
            });
        let mut header = strings(&["attribute", "F1 of"]);
        header.extend(strings(&BUCKETS));
        ReportTable {
            title: "By attribute".to_owned(),
            caption: format!(
                "F1 in percent of the entities in each bucket and, for all models but the baseline, the difference to it in points: {LEGEND} Recall sorts gold entities into buckets, precision sorts predicted ones. Label consistency: share of the training entities with the same words that have the same label; 0 when unseen. Entity density: entities per word of the sentence. With few gold entities a difference is uncertain."
            ),
            header,
            groups: groups.collect(),
        }
    }

    /// Numbers and rates of errors by kind.
    pub(super) fn error_table(&self) -> ReportTable {
        let baseline = &self.baseline().errors;
        let groups = ErrorCounts::KINDS.iter().enumerate().map(|(kind, name)| {
            let rows = self.models.iter().enumerate().map(|(number, model)| {
                let errors = &model.errors;
                let rate = errors.rate(errors.kinds()[kind]);
                let difference = rate - baseline.rate(baseline.kinds()[kind]);
                vec![
                    TableCell::name(&model.name),
                    TableCell::count(errors.kinds()[kind]),
                    TableCell::count(errors.total()),
                    TableCell::percent(Some(rate)),
                    if number == self.baseline {
                        TableCell::new("baseline", CellKind::Remark)
                    } else {
                        TableCell::lower_is_better(Some(difference))
                    },
                ]
            });
            RowGroup {
                name: Some((*name).to_owned()),
                rows: rows.collect(),
            }
        });
        ReportTable {
            title: "Kinds of errors".to_owned(),
            caption: "Boundary: a wrong prediction overlaps an entity the model did not find, but has another span. Type: the span of an entity that was not found, with another label. Spurious: any other wrong prediction. Missed: an entity that no wrong prediction overlaps. Rate: count in percent of all wrong predictions and entities not found (FP + FN). Difference: points of the rate to the baseline; ▼ less and blue mean a smaller share, ▲ more and orange a larger one. A model with fewer errors can have a larger share of one kind, so compare the counts too.".to_owned(),
            header: strings(&["kind", "model", "count", "FP + FN", "rate", "difference"]),
            groups: groups.collect(),
        }
    }

    /// Scores by type.
    pub(super) fn type_table(&self) -> ReportTable {
        let types: BTreeSet<&String> = self
            .models
            .iter()
            .flat_map(|model| model.report.per_type.keys())
            .collect();
        let groups = types.into_iter().map(|label| {
            let scores = |model: &ModelResults| {
                let counts = model.report.per_type.get(label);
                Scores::from(counts.copied().unwrap_or_default())
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

    /// Scores of flat and nested entities; `None` without nesting.
    pub(super) fn nesting_table(&self) -> Option<ReportTable> {
        if !self.models.iter().any(|model| model.report.has_nesting()) {
            return None;
        }
        let groups = vec![
            self.score_group("flat".to_owned(), |model| Scores::from(model.report.flat)),
            self.score_group("nested".to_owned(), |model| {
                Scores::from(model.report.nested)
            }),
            self.score_group("flat view".to_owned(), |model| {
                Scores::from(model.report.flat_view)
            }),
        ];
        let caption = "Nested entities share a word with another entity of their side, flat ones do not. The flat view compares only the outermost entities.";
        Some(self.score_table("Flat and nested", "entities", caption, groups))
    }

    /// Scores by the number of words of the entity; lengths that do not occur are left out.
    pub(super) fn length_table(&self) -> ReportTable {
        let used = |group: &usize| {
            let counts = self.models.iter().map(|model| model.lengths[*group]);
            counts.sum::<Counts>() != Counts::default()
        };
        let groups = (0..LENGTH_GROUPS.len()).filter(used).map(|group| {
            let scores = |model: &ModelResults| Scores::from(model.lengths[group]);
            self.score_group(LENGTH_GROUPS[group].to_owned(), scores)
        });
        let caption = "Entities by their number of words.";
        self.score_table("By length", "words", caption, groups.collect())
    }

    /// The confusion matrix of a model.
    pub(super) fn confusion_table(&self, model: &ModelResults) -> ReportTable {
        let labels: BTreeSet<Option<&str>> = model
            .confusion
            .pairs
            .keys()
            .flat_map(|(gold, predicted)| [gold.as_deref(), predicted.as_deref()])
            .collect();
        // `None` sorts first but is shown last.
        let labels: Vec<Option<&str>> = labels
            .into_iter()
            .flatten()
            .map(Some)
            .chain([None])
            .collect();
        let rows = labels.iter().map(|gold| {
            let mut row = vec![TableCell::name(gold.unwrap_or("(none)"))];
            row.extend(labels.iter().map(|predicted| {
                match (model.confusion.count(*gold, *predicted), gold == predicted) {
                    (_, true) if gold.is_none() => TableCell::new("", CellKind::Remark),
                    (0, _) => TableCell::new("·", CellKind::Number),
                    (count, true) => TableCell::new(count.to_string(), CellKind::Diagonal),
                    (count, false) => TableCell::count(count),
                }
            }));
            row
        });
        let mut header = vec!["gold ↓ predicted →".to_owned()];
        header.extend(
            labels
                .iter()
                .map(|label| label.unwrap_or("(none)").to_owned()),
        );
        ReportTable {
            title: model.name.clone(),
            caption: String::new(),
            header,
            groups: vec![RowGroup {
                name: None,
                rows: rows.collect(),
            }],
        }
    }

    fn score_group(&self, name: String, scores: impl Fn(&ModelResults) -> Scores) -> RowGroup {
        let baseline = scores(self.baseline());
        let rows = self.models.iter().enumerate().map(|(number, model)| {
            let scores = scores(model);
            vec![
                TableCell::name(&model.name),
                TableCell::percent(scores.precision),
                TableCell::percent(scores.recall),
                TableCell::percent(scores.f1),
                if number == self.baseline {
                    TableCell::new("baseline", CellKind::Remark)
                } else {
                    TableCell::difference(scores.f1_difference(&baseline), true)
                },
                TableCell::count(scores.support),
            ]
        });
        RowGroup {
            name: Some(name),
            rows: rows.collect(),
        }
    }

    fn score_table(
        &self,
        title: &str,
        first: &str,
        caption: &str,
        groups: Vec<RowGroup>,
    ) -> ReportTable {
        ReportTable {
            title: title.to_owned(),
            caption: format!(
                "{caption} Scores in percent, the difference in points of F1 to the baseline: {LEGEND} Support: gold entities."
            ),
            header: strings(&[first, "model", "P", "R", "F1", "difference", "support"]),
            groups,
        }
    }
}

/// Explains colours and arrows.
const LEGEND: &str =
    "▲ and blue are better, ▼ and orange are worse; stronger colours from 1, 2.5 and 5 points.";

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}
