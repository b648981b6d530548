//! Comparison of models: scores by attributes of the entities, kinds of errors, significance and the worst sentences.
//!
//! One model is the baseline, and every other model is also shown by its difference to it. Gold entities
//! may nest. Gold entities that no span of words equals count as missed wherever all entities are counted (scores,
//! types, errors, confusion, significance); buckets, lengths and nesting leave them out, as [`Report`] does.

mod attributes;
mod bootstrap;
mod entity_boxes;
mod errors;
mod html;
mod json;
mod model_counts;
mod report_table;
mod tables;
mod text;
mod worst;

pub use attributes::{Attribute, BUCKETS, LENGTH_GROUPS, TrainingData};
pub use bootstrap::{F1Difference, Interval, Significance};
pub use errors::{ConfusionMatrix, ErrorCounts, GoldOutcome, PredictionOutcome, SentenceOutcomes};
pub use worst::WorstSentence;

use crate::error::{Error, Result, nearest};
use crate::eval::counts::ratio;
use crate::eval::{Counts, GroupCounts, Report};
use crate::text::{Mention, Sentence};
use model_counts::ModelCounts;

/// Settings of the bootstrap and of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnalysisOptions {
    /// Number of bootstrap resamples; at least one.
    pub resamples: usize,
    /// Random seed of the bootstrap; equal seeds give equal intervals.
    pub seed: u64,
    /// Largest number of worst sentences to show.
    pub worst: usize,
}

impl Default for AnalysisOptions {
    fn default() -> Self {
        Self {
            resamples: 1000,
            seed: 1,
            worst: 20,
        }
    }
}

/// The comparison of one or more models on one gold corpus.
#[derive(Debug, Clone)]
pub struct Analysis {
    /// Results of each model, in the order given.
    pub models: Vec<ModelResults>,
    /// Index of the model that the others are compared with.
    pub baseline: usize,
    /// Number of training sentences.
    pub training_sentences: usize,
    /// Number of gold sentences.
    pub sentences: usize,
    /// Number of words in the gold sentences.
    pub words: u64,
    /// Number of those words that never occur in a training sentence in exactly this spelling.
    pub unknown_words: u64,
    /// The sentences with the most mistakes, worst first.
    pub worst: Vec<WorstSentence>,
    /// The settings.
    pub options: AnalysisOptions,
}

/// Results of one model.
#[derive(Debug, Clone)]
pub struct ModelResults {
    /// The name given by the user.
    pub name: String,
    /// Scores over all entities, by type and by nesting.
    pub report: Report,
    /// Entities by their number of words, in the order of [`LENGTH_GROUPS`].
    pub lengths: [Counts; 11],
    /// Entities by attribute, in the order of [`Attribute::ALL`], and bucket, in the order of [`BUCKETS`]. Recall uses
    /// the bucket of the gold entity, precision that of the predicted one.
    pub buckets: [[GroupCounts; 4]; 4],
    /// Numbers of errors by kind.
    pub errors: ErrorCounts,
    /// Confusion matrix of the labels.
    pub confusion: ConfusionMatrix,
    /// Confidence intervals and the difference to the baseline.
    pub significance: Significance,
}

impl Analysis {
    /// Analyses the predictions of each model, given as its name and one list of mentions per gold sentence.
    /// `baseline` is the name of the model to compare with; `None` takes the first.
    pub fn new(
        train: &[Sentence],
        gold: &[Sentence],
        models: Vec<(String, Vec<Vec<Mention>>)>,
        baseline: Option<&str>,
        options: AnalysisOptions,
    ) -> Result<Self> {
        check(gold, &models, options)?;
        let baseline = find_baseline(&models, baseline)?;
        let training = TrainingData::of(train);
        let (counts, per_sentence): (Vec<ModelCounts>, Vec<Vec<Counts>>) = models
            .iter()
            .map(|(_, predictions)| ModelCounts::count(gold, predictions, &training))
            .unzip();
        let significance = bootstrap::bootstrap(&per_sentence, baseline, options);
        let words = gold.iter().flat_map(|sentence| &sentence.words);
        Ok(Self {
            baseline,
            training_sentences: train.len(),
            sentences: gold.len(),
            words: words.clone().count() as u64,
            unknown_words: words
                .filter(|word| !training.contains_word(&word.text))
                .count() as u64,
            worst: worst::worst_sentences(gold, &models, options.worst),
            models: models
                .into_iter()
                .zip(counts)
                .zip(significance)
                .map(|(((name, _), counts), significance)| counts.into_results(name, significance))
                .collect(),
            options,
        })
    }

    /// Share of the gold sentences' words that never occur in a training sentence; 0 without words.
    pub fn out_of_vocabulary(&self) -> f64 {
        ratio(self.unknown_words, self.words)
    }

    /// The model that the others are compared with.
    pub fn baseline(&self) -> &ModelResults {
        &self.models[self.baseline]
    }
}

fn check(
    gold: &[Sentence],
    models: &[(String, Vec<Vec<Mention>>)],
    options: AnalysisOptions,
) -> Result<()> {
    let problem = |problem: String| Err(Error::Config(problem));
    if gold.is_empty() {
        return problem("there are no gold sentences to analyse".to_owned());
    }
    if models.is_empty() {
        return problem("there are no models to analyse; name one as NAME=FILE".to_owned());
    }
    if options.resamples == 0 {
        return problem("the bootstrap needs at least one resample; 1000 is usual".to_owned());
    }
    for (index, (name, predictions)) in models.iter().enumerate() {
        if models[..index].iter().any(|(other, _)| other == name) {
            return problem(format!(
                "two models are named `{name}`; give each model its own name"
            ));
        }
        check_predictions(name, gold, predictions)?;
    }
    Ok(())
}

/// Fails unless there is one list of mentions per sentence and every span lies within its sentence.
fn check_predictions(name: &str, gold: &[Sentence], predictions: &[Vec<Mention>]) -> Result<()> {
    if predictions.len() != gold.len() {
        return Err(Error::Config(format!(
            "model `{name}` has predictions for {} sentences, but there are {} gold sentences; predict the gold file again",
            predictions.len(),
            gold.len()
        )));
    }
    for (number, (sentence, mentions)) in gold.iter().zip(predictions).enumerate() {
        let outside = mentions
            .iter()
            .map(|mention| &mention.entity)
            .find(|entity| entity.span.is_empty() || entity.span.end > sentence.len());
        if let Some(entity) = outside {
            return Err(Error::Config(format!(
                "model `{name}` predicts a {} at words {}..{} of sentence {}, which has {} words; are the predictions for another file?",
                entity.label,
                entity.span.start,
                entity.span.end,
                number + 1,
                sentence.len()
            )));
        }
    }
    Ok(())
}

fn find_baseline(models: &[(String, Vec<Vec<Mention>>)], baseline: Option<&str>) -> Result<usize> {
    let Some(baseline) = baseline else {
        return Ok(0);
    };
    let names: Vec<&str> = models.iter().map(|(name, _)| name.as_str()).collect();
    names
        .iter()
        .position(|name| *name == baseline)
        .ok_or_else(|| {
            let hint = match nearest(baseline, names.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the models are {}", names.join(", ")),
            };
            Error::Config(format!("no model is named `{baseline}`; {hint}"))
        })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::eval::test_data;
    use crate::text::{Discontinuous, Entity, Misaligned};

    fn entities(spans: &[(usize, usize, &str)]) -> Vec<Entity> {
        spans
            .iter()
            .map(|(start, end, label)| Entity::new(*start, *end, *label))
            .collect()
    }

    /// A sentence of words separated by spaces, with entities given as first word, end and label.
    pub(in crate::eval::analysis) fn sentence(
        words: &str,
        spans: &[(usize, usize, &str)],
    ) -> Sentence {
        Sentence {
            entities: entities(spans),
            ..Sentence::from_words(words.split(' '))
        }
    }

    fn mentions(spans: &[(usize, usize, &str)]) -> Vec<Mention> {
        test_data::mentions(&entities(spans))
    }

    fn train() -> Vec<Sentence> {
        vec![
            sentence("Paris is in France", &[(0, 1, "LOC"), (3, 4, "LOC")]),
            sentence("Paris Hilton met Paris", &[(0, 2, "PER"), (3, 4, "PER")]),
        ]
    }

    fn gold() -> Vec<Sentence> {
        let long = format!("Paris Hilton{}", " is".repeat(38)); // 40 words
        vec![
            sentence(
                "Paris met the Bank of France",
                &[(0, 1, "LOC"), (3, 6, "ORG"), (5, 6, "LOC")],
            ),
            sentence("nobody here", &[]),
            sentence(&long, &[(0, 2, "PER")]),
        ]
    }

    /// `good` finds everything and has one spurious prediction; `bad` has one error of each other kind.
    fn models() -> Vec<(String, Vec<Vec<Mention>>)> {
        let good = vec![
            mentions(&[(0, 1, "LOC"), (3, 6, "ORG"), (5, 6, "LOC")]),
            mentions(&[(0, 1, "PER")]), // spurious
            mentions(&[(0, 2, "PER")]),
        ];
        let bad = vec![
            // A type error, a boundary error and a correct prediction.
            mentions(&[(0, 1, "PER"), (2, 6, "ORG"), (5, 6, "LOC")]),
            Vec::new(),
            Vec::new(), // missed
        ];
        vec![("good".to_owned(), good), ("bad".to_owned(), bad)]
    }

    pub(in crate::eval::analysis) fn example() -> Analysis {
        Analysis::new(
            &train(),
            &gold(),
            models(),
            None,
            AnalysisOptions::default(),
        )
        .expect("valid input")
    }

    fn group(found: u64, gold: u64, correct: u64, predicted: u64) -> GroupCounts {
        GroupCounts {
            correct,
            predicted,
            found,
            gold,
        }
    }

    #[test]
    fn bucket_counts_equal_those_made_by_hand() {
        let analysis = example();
        let empty = GroupCounts::default();
        // Gold: Paris (1 word, LOC in 1 of 2 training entities with this word), Bank of France (3 words, unseen), France
        // (1 word, LOC in 1 of 1), all in 6 words with 3 entities; Paris Hilton (2 words, PER in 1 of 1), alone in 40
        // words, 1/40 = 0.025.
        let bad = &analysis.models[1].buckets;
        assert_eq!(
            bad[0], // eLen; predicted: two of 1 word, and ORG with 4
            [
                group(1, 2, 1, 2),
                group(0, 1, 0, 0),
                group(0, 1, 0, 1),
                empty
            ]
        );
        assert_eq!(
            bad[1], // tLen
            [group(1, 3, 1, 3), empty, empty, group(0, 1, 0, 0)]
        );
        assert_eq!(
            bad[2], // eCon; predicted: ORG unseen, Paris as PER in 1 of 2, France
            [
                group(0, 1, 0, 1),
                group(0, 1, 0, 1),
                empty,
                group(1, 2, 1, 1)
            ]
        );
        assert_eq!(
            bad[3], // eDen
            [empty, group(0, 1, 0, 0), empty, group(1, 3, 1, 3)]
        );
        // The spurious PER is 1 predicted entity in 2 words, so XL, although gold has 0 in 2.
        let good = &analysis.models[0].buckets;
        assert_eq!(
            good[3],
            [empty, group(1, 1, 1, 1), empty, group(3, 3, 3, 4)]
        );
        assert_eq!(good[1][0], group(3, 3, 3, 4));
        assert_eq!(good[1][0].f1(), 6.0 / 7.0); // precision 3/4, recall 1
    }

    #[test]
    fn scores_errors_and_word_counts_equal_those_made_by_hand() {
        let analysis = example();
        let (good, bad) = (&analysis.models[0], &analysis.models[1]);
        assert_eq!(good.report.overall.f1(), 8.0 / 9.0); // 4 correct of 5, 4 gold
        assert_eq!(bad.report.overall.f1(), 2.0 / 7.0); // 1 correct of 3, 4 gold
        assert_eq!(good.errors.kinds(), [0, 0, 1, 0]);
        assert_eq!(bad.errors.kinds(), [1, 1, 0, 1]);
        assert_eq!(bad.errors.rate(1), 0.2); // 2 wrong predictions and 3 entities not found
        assert_eq!(bad.report.nested.gold, 2); // the bank and its France
        assert_eq!(bad.confusion.count(Some("LOC"), Some("PER")), 1);
        assert_eq!(bad.lengths[0].f1(), 0.5);
        // the, Bank, of, nobody, here
        assert_eq!((analysis.unknown_words, analysis.words), (5, 48));
        assert_eq!(analysis.out_of_vocabulary(), 5.0 / 48.0);
        let worst: Vec<(usize, u64)> = analysis
            .worst
            .iter()
            .map(|worst| (worst.index, worst.mistakes))
            .collect();
        assert_eq!(worst, [(0, 4), (1, 1), (2, 1)]);
    }

    #[test]
    fn differences_are_relative_to_the_baseline() {
        let analysis = example();
        assert!(analysis.models[0].significance.difference.is_none());
        let difference = analysis.models[1]
            .significance
            .difference
            .expect("compared");
        assert_eq!(difference.value, 2.0 / 7.0 - 8.0 / 9.0);
        let other = Analysis::new(
            &train(),
            &gold(),
            models(),
            Some("bad"),
            AnalysisOptions::default(),
        );
        let other = other.expect("valid input");
        assert_eq!(other.baseline().name, "bad");
        let reversed = other.models[0].significance.difference.expect("compared");
        assert_eq!(reversed.value, -difference.value);
        assert_eq!(reversed.p, difference.p);
    }

    #[test]
    fn gold_entities_of_several_parts_count_as_missed() {
        let mut gold = gold();
        gold[1].discontinuous.push(Discontinuous {
            parts: vec![(0, 1), (2, 3)],
            label: "PER".to_owned(),
        });
        let analysis = Analysis::new(&train(), &gold, models(), None, AnalysisOptions::default());
        let bad = &analysis.expect("valid input").models[1];
        assert_eq!(bad.report.overall.gold, 5);
        assert_eq!(bad.confusion.count(Some("PER"), None), 2);
    }

    #[test]
    fn misaligned_gold_entities_count_as_missed() {
        let mut gold = gold();
        gold[1].misaligned.push(Misaligned {
            start: 1,
            end: 4,
            label: "PER".to_owned(),
        });
        let analysis = Analysis::new(&train(), &gold, models(), None, AnalysisOptions::default());
        let analysis = analysis.expect("valid input");
        let bad = &analysis.models[1];
        assert_eq!(bad.report.overall.gold, 5);
        assert_eq!(bad.errors.kinds(), [1, 1, 0, 2]);
        assert_eq!(bad.confusion.count(Some("PER"), None), 2);
        let difference = bad.significance.difference.expect("compared");
        assert_eq!(difference.value, 2.0 / 8.0 - 8.0 / 10.0);
        assert!(
            analysis
                .to_string()
                .contains("1 gold entity does not align")
        );
    }

    #[test]
    fn invalid_input_is_explained() {
        let error = |models, baseline, options| {
            let analysis = Analysis::new(&train(), &gold(), models, baseline, options);
            analysis.expect_err("bad input").to_string()
        };
        let usual = AnalysisOptions::default();
        let message = error(models(), Some("goood"), usual);
        assert!(message.contains("did you mean `good`?"), "{message}");
        let message = error(models(), Some("something else"), usual);
        assert!(message.contains("the models are good, bad"), "{message}");
        let mut twins = models();
        twins[1].0 = "good".to_owned();
        assert!(error(twins, None, usual).contains("two models are named `good`"));
        let mut short = models();
        short[1].1.pop();
        let message = error(short, None, usual);
        assert!(
            message.contains("`bad` has predictions for 2 sentences"),
            "{message}"
        );
        let mut outside = models();
        outside[1].1[1] = mentions(&[(1, 3, "PER")]);
        let message = error(outside, None, usual);
        assert!(message.contains("words 1..3 of sentence 2"), "{message}");
        assert!(error(Vec::new(), None, usual).contains("no models"));
        let none = AnalysisOptions {
            resamples: 0,
            ..usual
        };
        assert!(error(models(), None, none).contains("at least one resample"));
        assert!(Analysis::new(&[], &[], models(), None, usual).is_err());
    }

    #[test]
    fn json_has_the_same_content_as_the_page() {
        let json = example().to_json();
        assert_eq!(json["baseline"], "good");
        let bad = &json["models"][1];
        assert_eq!(bad["attributes"]["eCon"]["XL"]["f1"], 2.0 / 3.0);
        assert_eq!(
            bad["attributes"]["eCon"]["XL"]["difference"],
            2.0 / 3.0 - 1.0
        );
        assert!(bad["attributes"]["eLen"]["XL"]["f1"].is_null());
        assert_eq!(bad["errors"]["boundary"]["rate"], 0.2);
        assert_eq!(bad["lengths"]["3"]["support"], 1);
        assert_eq!(bad["scores"]["correct"], 1);
        assert!(json["models"][0]["difference"].is_null());
        assert_eq!(
            json["worst"][0]["models"][1]["predicted"][0]["verdict"],
            "type"
        );
        assert_eq!(
            json["worst"][2]["models"][1]["not_found"][0]["text"],
            "Paris Hilton"
        );
    }
}
