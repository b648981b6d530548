//! Cross-validation: every training and dev sentence is tested once, by a model that has not seen it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::{RunOptions, mean_and_deviation, percent, write_json};
use crate::data::split::folds;
use crate::data::{Format, TagScheme, write};
use crate::error::{Error, Result};
use crate::eval::reliability::{ScoredMention, scored_mentions};
use crate::eval::{Report, calibration, predictions};
use crate::model::calibration::Calibration;
use crate::recipe::set::Assignment;
use crate::recipe::{Fold, Recipe};
use crate::registry;
use crate::table::Table;
use crate::text::{Mention, Sentence};
use crate::train::tune::Change;
use crate::train::{Corpus, Finished};

/// Folder of the final model, in the folder of the cross-validation.
pub const FINAL: &str = "final";

/// Scores of the model that was tested on one fold.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FoldScore {
    /// The number of the fold, from 1.
    pub fold: usize,
    /// Sentences of the fold.
    pub sentences: usize,
    /// Precision, in 0..=1.
    pub precision: f64,
    /// Recall, in 0..=1.
    pub recall: f64,
    /// F1, in 0..=1.
    pub f1: f64,
    /// The epoch with the best F1 on the sentences held out for it.
    pub best_epoch: usize,
}

/// The result of a cross-validation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CrossValidation {
    /// Scores by fold.
    pub folds: Vec<FoldScore>,
    /// Mean F1 of the folds.
    pub mean_f1: f64,
    /// Sample standard deviation of the folds' F1.
    pub deviation: f64,
    /// F1 of all predictions together.
    pub pooled_f1: f64,
    /// Epochs of the final model: the median of the best epochs.
    pub final_epochs: usize,
    /// Decoding settings of the final model that differ from the recipe's: the median, or the commonest, of those chosen in
    /// the folds.
    pub final_settings: BTreeMap<String, Value>,
}

/// Trains and tests a recipe on every fold, writes the predictions of all folds, and trains a final model on everything.
/// `log` gets what there is to tell on the way.
pub fn cross_validate(
    recipe: &Recipe,
    count: usize,
    runs: &RunOptions,
    log: &mut dyn FnMut(&str),
) -> Result<CrossValidation> {
    if count < 2 {
        return Err(Error::Config(
            "cross-validation needs at least two folds".into(),
        ));
    }
    if recipe.data.fold.is_some() {
        return Err(Error::Config(
            "the recipe has data.fold, which is set for each fold of a cross-validation; remove it"
                .into(),
        ));
    }
    let (recipe, entry) = registry::resolve(recipe.clone())?;
    let pooled = pooled_sentences(&recipe, runs)?;
    if count > pooled.len() {
        return Err(Error::Config(format!(
            "{count} folds are more than the {} sentences",
            pooled.len()
        )));
    }
    let fold_of = folds(&pooled, count, recipe.train.seed);
    let _lock = runs.enter()?;
    let train = |fold: Fold,
                 recipe: &Recipe,
                 folder: &Path,
                 calibration: Option<Calibration>|
     -> Result<Finished> {
        let mut recipe = recipe.clone();
        recipe.data.fold = Some(fold);
        let command = format!("{} --set data.fold={fold}", runs.command);
        let mut options = runs.run(recipe, folder, command);
        options.calibration = calibration;
        (entry.train)(&options).map_err(|problem| runs.explain(problem))
    };
    let (mut scores, mut scored, mut changes) = (Vec::new(), Vec::new(), Vec::new());
    let mut found: Vec<Vec<Mention>> = vec![Vec::new(); pooled.len()];
    for number in 1..=count {
        runs.check_interrupted()?;
        let folder = runs.out.join(format!("fold-{number}"));
        log(&format!("\nfold {number} of {count}: {}", folder.display()));
        let mut finished = train(Fold::One { number, count }, &recipe, &folder, None)?;
        let indices = (0..pooled.len()).filter(|index| fold_of[*index] + 1 == number);
        let indices: Vec<usize> = indices.collect();
        let sentences: Vec<Sentence> = indices.iter().map(|index| pooled[*index].clone()).collect();
        // All folds get the same calibration further down.
        finished.tagger.remove_calibration();
        let mentions = finished.tagger.tag(&sentences)?;
        let nested = finished.tagger.nested();
        scored.extend(
            (scored_mentions(&sentences, &mentions, nested).into_iter()).map(|mention| {
                ScoredMention {
                    sentence: indices[mention.sentence],
                    ..mention
                }
            }),
        );
        scores.push(score(number, sentences.len(), &finished));
        changes.push(
            finished
                .tuning
                .map_or_else(Vec::new, |tuning| tuning.changes),
        );
        for (index, mentions) in indices.into_iter().zip(mentions) {
            found[index] = mentions;
        }
    }
    scored.sort_by_key(|mention| mention.sentence);
    let calibration = (recipe.train.calibrate)
        .then(|| calibration::fit(&scored).calibration)
        .flatten();
    if let Some(calibration) = &calibration {
        let sentences = found.iter_mut();
        sentences.for_each(|mentions| calibration.apply_to(mentions));
    }
    let settings = common_settings(&changes);
    let result = CrossValidation::new(scores, pooled_f1(&pooled, &found), settings);
    let out = &runs.out;
    write::to_file(
        &out.join("gold.jsonl"),
        &pooled,
        Format::TokensJsonl,
        TagScheme::default(),
    )?;
    predictions::write(&out.join("predictions.jsonl"), &pooled, &found)?;
    write_json(&out.join("folds.json"), &result)?;
    log(&format!("\n{result}"));
    let folder = out.join(FINAL);
    log(&format!(
        "\nfinal model on all {} sentences, {} epochs: {}",
        pooled.len(),
        result.final_epochs,
        folder.display()
    ));
    let mut last = recipe.clone();
    last.train.epochs = result.final_epochs;
    for (key, value) in &result.final_settings {
        log(&format!("head.{key} = {value}, from the folds"));
        Assignment::parse(&format!("{key}={value}"))?.apply(&mut last.head)?;
    }
    train(Fold::All, &last, &folder, calibration)?;
    Ok(result)
}

/// The values of the settings that some fold changed: of numbers the median, of others the commonest value over the folds.
fn common_settings(folds: &[Vec<Change>]) -> BTreeMap<String, Value> {
    let changes = || folds.iter().flatten();
    let names: BTreeSet<&str> = changes().map(|change| change.setting.as_str()).collect();
    let mut common = BTreeMap::new();
    for name in names {
        let Some(trained) = changes().find(|change| change.setting == name) else {
            continue;
        };
        let trained = &trained.trained;
        let value_in = |fold: &Vec<Change>| {
            let change = fold.iter().find(|change| change.setting == name);
            change.map_or_else(|| trained.clone(), |change| change.chosen.clone())
        };
        let mut values: Vec<Value> = folds.iter().map(value_in).collect();
        let value = if trained.is_number() {
            let number = |value: &Value| value.as_f64().unwrap_or(0.0);
            values.sort_by(|one, other| number(one).total_cmp(&number(other)));
            values[(values.len() - 1) / 2].clone()
        } else {
            let count = |value: &Value| values.iter().filter(|other| *other == value).count();
            // Of equally common values the one as trained, else the first.
            let rank = |value: &&Value| (count(value), *value == trained);
            let best = values.iter().rev().max_by_key(rank);
            best.unwrap_or(trained).clone()
        };
        if value != *trained {
            common.insert(name.to_string(), value);
        }
    }
    common
}

/// Training and dev sentences in the order of the corpus.
fn pooled_sentences(recipe: &Recipe, runs: &RunOptions) -> Result<Vec<Sentence>> {
    let mut recipe = recipe.clone();
    recipe.data.fold = Some(Fold::All);
    // A long sentence is not trained on, but it is tested.
    recipe.data.longest = None;
    recipe.data.share = None;
    Ok(Corpus::load(&recipe, &runs.roots)?.train)
}

fn score(fold: usize, sentences: usize, finished: &Finished) -> FoldScore {
    let counts = finished
        .test
        .as_ref()
        .map(|report| report.overall)
        .unwrap_or_default();
    let points = &finished.state.curves.points;
    let best = points
        .iter()
        .find(|point| point.step == finished.state.best_step);
    FoldScore {
        fold,
        sentences,
        precision: counts.precision(),
        recall: counts.recall(),
        f1: counts.f1(),
        best_epoch: best.map_or(points.len(), |point| point.epoch),
    }
}

/// F1 of all predictions; gold entities that no span of words equals count as missed.
fn pooled_f1(gold: &[Sentence], found: &[Vec<Mention>]) -> f64 {
    let entities = gold.iter().map(|sentence| sentence.entities.as_slice());
    let mut report = Report::of(entities.zip(found.iter().map(Vec::as_slice)));
    for label in gold.iter().flat_map(Sentence::unreachable_labels) {
        report.add_unreachable(label, 1);
    }
    report.overall.f1()
}

impl CrossValidation {
    fn new(folds: Vec<FoldScore>, pooled_f1: f64, final_settings: BTreeMap<String, Value>) -> Self {
        let scores: Vec<f64> = folds.iter().map(|fold| fold.f1).collect();
        let (mean_f1, deviation) = mean_and_deviation(&scores);
        let mut epochs: Vec<usize> = folds.iter().map(|fold| fold.best_epoch).collect();
        epochs.sort_unstable();
        let middle = |index: usize| epochs.get(index).copied().unwrap_or(1);
        let (low, high) = (
            middle(epochs.len().saturating_sub(1) / 2),
            middle(epochs.len() / 2),
        );
        Self {
            folds,
            mean_f1,
            deviation,
            pooled_f1,
            final_epochs: (low + high).div_ceil(2).max(1),
            final_settings,
        }
    }
}

impl fmt::Display for CrossValidation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(["fold", "sentences", "P", "R", "F1", "best epoch"]);
        for fold in &self.folds {
            table.row([
                fold.fold.to_string(),
                fold.sentences.to_string(),
                percent(fold.precision),
                percent(fold.recall),
                percent(fold.f1),
                fold.best_epoch.to_string(),
            ]);
        }
        write!(
            f,
            "{table}\nF1 {} ± {} (mean and standard deviation over {} folds), all predictions together {}",
            percent(self.mean_f1),
            percent(self.deviation),
            self.folds.len(),
            percent(self.pooled_f1)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::synthetic;
    use crate::train::TrainOptions;
    use serde_json::json;

    fn fold(fold: usize, f1: f64, best_epoch: usize) -> FoldScore {
        FoldScore {
            fold,
            sentences: 10,
            precision: f1,
            recall: f1,
            f1,
            best_epoch,
        }
    }

    #[test]
    fn the_final_model_trains_for_the_median_of_the_best_epochs() {
        let epochs = |best: &[usize]| {
            let folds = best
                .iter()
                .enumerate()
                .map(|(index, epoch)| fold(index, 0.5, *epoch));
            CrossValidation::new(folds.collect(), 0.5, BTreeMap::new()).final_epochs
        };
        assert_eq!(epochs(&[9, 2, 4]), 4);
        assert_eq!(epochs(&[9, 2, 4, 7]), 6);
        assert_eq!(epochs(&[3, 4]), 4);
    }

    #[test]
    fn the_final_model_has_the_settings_that_the_folds_agree_on() {
        let change = |setting: &str, trained: Value, chosen: Value| Change {
            setting: setting.to_string(),
            trained,
            chosen,
        };
        let folds = vec![
            vec![
                change("threshold", json!(0.5), json!(0.8)),
                change("overlaps", json!("any"), json!("nested")),
            ],
            vec![
                change("threshold", json!(0.5), json!(0.6)),
                change("overlaps", json!("any"), json!("nested")),
                change("one_type", json!(false), json!(true)),
            ],
            vec![change("none_bias", json!(0.0), json!(1.0))],
        ];
        let expected = [("overlaps", json!("nested")), ("threshold", json!(0.6))];
        let found = common_settings(&folds);
        assert_eq!(
            found,
            expected
                .map(|(name, value)| (name.to_string(), value))
                .into()
        );
        assert!(common_settings(&[]).is_empty());
    }

    #[test]
    fn the_table_ends_with_mean_and_deviation() {
        let result = CrossValidation::new(
            vec![fold(1, 0.4, 2), fold(2, 0.6, 3)],
            0.51,
            BTreeMap::new(),
        );
        let expected = "\
fold  sentences      P      R     F1  best epoch
1            10  40.00  40.00  40.00           2
2            10  60.00  60.00  60.00           3
F1 50.00 ± 14.14 (mean and standard deviation over 2 folds), all predictions together 51.00";
        assert_eq!(result.to_string(), expected);
    }

    /// A recipe for files in a folder: 40 training sentences in 8 documents and 8 dev sentences.
    fn recipe(folder: &Path) -> Recipe {
        let mut sentences = synthetic::sentences(48, 3);
        for (index, sentence) in sentences.iter_mut().take(40).enumerate() {
            sentence.document = Some(format!("d{}", index / 5));
        }
        let (train, dev) = sentences.split_at(40);
        for (name, part) in [("train", train), ("dev", dev)] {
            let path = folder.join(format!("{name}.jsonl"));
            write::to_file(&path, part, Format::TokensJsonl, TagScheme::default()).unwrap();
        }
        let folder = folder.display();
        let text = format!(
            "[data]\ntrain = [\"{folder}/train.jsonl\"]\ndev = [\"{folder}/dev.jsonl\"]\n[head]\nname = \"seq_ner\"\n"
        );
        Recipe::parse(&text, "test", &[]).unwrap()
    }

    #[test]
    fn every_sentence_is_tested_once_and_documents_stay_together() {
        let folder = tempfile::tempdir().unwrap();
        let mut recipe = recipe(folder.path());
        let roots = TrainOptions::new(recipe.clone(), "x").roots;
        let pooled = pooled_sentences(&recipe, &RunOptions::new("x")).unwrap();
        assert_eq!(pooled.len(), 48);
        let mut tested: Vec<String> = Vec::new();
        for number in 1..=4 {
            recipe.data.fold = Some(Fold::One { number, count: 4 });
            let corpus = Corpus::load(&recipe, &roots).unwrap();
            assert_eq!(
                corpus.train.len() + corpus.dev.len() + corpus.test.len(),
                48
            );
            assert!(!corpus.dev.is_empty());
            let documents = |part: &[Sentence]| -> Vec<String> {
                part.iter()
                    .filter_map(|sentence| sentence.document.clone())
                    .collect()
            };
            let inside = documents(&corpus.test);
            let outside = documents(&[corpus.train.clone(), corpus.dev.clone()].concat());
            assert!(inside.iter().all(|document| !outside.contains(document)));
            tested.extend(corpus.test.into_iter().map(|sentence| sentence.text));
        }
        let mut expected: Vec<String> = pooled.into_iter().map(|sentence| sentence.text).collect();
        tested.sort();
        expected.sort();
        assert_eq!(tested, expected);
        recipe.data.fold = Some(Fold::All);
        let corpus = Corpus::load(&recipe, &roots).unwrap();
        assert_eq!((corpus.train.len(), corpus.dev.len()), (48, 0));
    }
}
