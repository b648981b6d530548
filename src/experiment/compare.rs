//! Finds the best head for a corpus by successive halving.
//!
//! Every candidate is an ordinary run with the learning-rate schedule of all epochs, paused at the end of each rung. The
//! better half continues from its checkpoints, so a rung costs only its new epochs. `plan.json` in the folder of the
//! comparison has the plan and the standings of all rungs; a resumed comparison continues from there.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

pub use super::candidates::CompareConfig;
use super::candidates::{Candidate, candidates, recipe_for};
use super::leaderboard::{Leaderboard, Standing, live_table, ranked};
use super::plan::{Cost, TRAINING_SHARE, affordable, survivors};
use super::plan_file::{PLAN_FILE, Plan, Planner, Round};
use super::{RunOptions, write_json};
use crate::data::stats::Stats;
use crate::error::{Error, Result};
use crate::registry;
use crate::text::{Sentence, outermost};
use crate::train::{Corpus, RunState, TrainOptions};

/// Folder of the candidates' runs.
pub(super) const CANDIDATES: &str = "candidates";

/// Compares the candidates, writes the best model to `best`, the leaderboard and the report of all finalists, and returns
/// the leaderboard. `log` gets what there is to tell on the way.
pub fn compare(
    config: &CompareConfig,
    runs: &RunOptions,
    log: &mut dyn FnMut(&str),
) -> Result<Leaderboard> {
    let started = Instant::now();
    if config.minutes.is_none() && config.epochs.is_none() {
        return Err(Error::Config(
            "a comparison needs a time limit or a number of epochs".into(),
        ));
    }
    let _lock = runs.enter()?;
    let path = runs.out.join(PLAN_FILE);
    let saved = if path.is_file() {
        Some(Plan::read(&runs.out)?)
    } else {
        None
    };
    if saved.as_ref().is_some_and(|saved| saved.config != *config) {
        return Err(Error::model_folder(
            &path,
            "the comparison in this folder was started with other options; repeat them, or give --resume and --out alone",
        ));
    }
    let corpus = load_corpus(config, runs)?;
    let stats = Stats::of(&corpus.train);
    let spent_before = saved.as_ref().map_or(0.0, |saved| saved.seconds);
    let plan = match saved {
        Some(saved) => saved,
        None => {
            let planner = Planner {
                config,
                runs,
                corpus: &corpus,
                stats: &stats,
                started,
            };
            planner.plan(log)?
        }
    };
    let mut comparison = Comparison {
        runs,
        log,
        started,
        spent_before,
        gold_entities: count_entities(&corpus.dev),
        corpus,
        stats,
        plan,
    };
    comparison.run()
}

/// The corpus of all candidates, which differ in the head only.
fn load_corpus(config: &CompareConfig, runs: &RunOptions) -> Result<Corpus> {
    let all = candidates(config, &Stats::default())?;
    let Some(first) = all.first() else {
        return Err(Error::Config("there is no head to compare".into()));
    };
    let entry = registry::find(&first.head)?;
    let recipe = recipe_for(entry, config, &Stats::default(), 1, &config.sets)?;
    let corpus = Corpus::load(&recipe, &runs.roots)?;
    if corpus.dev.is_empty() {
        return Err(Error::Config(
            "a comparison needs dev sentences, or at least ten training sentences to hold some out"
                .into(),
        ));
    }
    Ok(corpus)
}

/// Numbers of outermost entities and of all entities.
fn count_entities(sentences: &[Sentence]) -> (f64, f64) {
    let outer = sentences
        .iter()
        .map(|sentence| outermost(&sentence.entities).len());
    let all = sentences.iter().map(|sentence| sentence.entities.len());
    (outer.sum::<usize>() as f64, all.sum::<usize>() as f64)
}

pub(super) struct Comparison<'a> {
    pub runs: &'a RunOptions,
    pub log: &'a mut dyn FnMut(&str),
    started: Instant,
    /// Seconds before this process.
    spent_before: f64,
    pub corpus: Corpus,
    stats: Stats,
    /// Numbers of outermost and of all entities of the dev sentences.
    gold_entities: (f64, f64),
    pub plan: Plan,
}

impl Comparison<'_> {
    fn run(&mut self) -> Result<Leaderboard> {
        self.save()?;
        self.describe();
        for rung in 0..self.plan.schedule.rungs.len() {
            if self.plan.rounds.len() == rung {
                self.start_round(rung)?;
            }
            self.finish_round(rung)?;
        }
        self.finals()
    }

    fn describe(&mut self) {
        let plan = &self.plan;
        let rungs: Vec<String> = plan.schedule.rungs.iter().map(usize::to_string).collect();
        let mut text = format!(
            "{} candidates, {} epochs, compared after epoch {}",
            plan.candidates.len(),
            plan.schedule.epochs,
            rungs.join(", ")
        );
        for (name, reason) in &plan.left_out {
            text += &format!("\n{name}: {reason}");
        }
        text += &format!("\nthe same again, without a time limit: {}", plan.command);
        (self.log)(&text);
    }

    /// Chooses the candidates of a rung: all, or the better half of the rung before it and fewer if time is short.
    fn start_round(&mut self, rung: usize) -> Result<()> {
        let names = |list: &[&Standing]| list.iter().map(|one| one.name.clone()).collect();
        let entering: Vec<String> = match rung.checked_sub(1) {
            None => self
                .plan
                .candidates
                .iter()
                .map(|one| one.name.clone())
                .collect(),
            Some(before) => {
                let round = &self.plan.rounds[before];
                let mut best = ranked(&round.standings);
                best.retain(|standing| standing.failed.is_none());
                best.truncate(survivors(round.entering.len()));
                let costs = best
                    .iter()
                    .map(|one| self.plan.cost(&one.name).unwrap_or_default());
                let costs: Vec<Cost> = costs.collect();
                if let Some(left) = self.training_seconds_left() {
                    let count = affordable(&self.plan.schedule, rung, &costs, left);
                    if count < best.len() {
                        let dropped: Vec<String> = names(&best[count..]);
                        (self.log)(&format!(
                            "training was slower than planned; {} cannot continue",
                            dropped.join(", ")
                        ));
                    }
                    best.truncate(count);
                }
                names(&best)
            }
        };
        self.plan.rounds.push(Round {
            entering,
            standings: Vec::new(),
        });
        self.save()
    }

    /// Trains the candidates of a rung that have no standing yet.
    fn finish_round(&mut self, rung: usize) -> Result<()> {
        let last = self.plan.schedule.rungs[rung];
        for name in self.plan.rounds[rung].entering.clone() {
            let round = &self.plan.rounds[rung];
            if round.standings.iter().any(|done| done.name == name) {
                continue;
            }
            self.runs.check_interrupted()?;
            let candidate = self.plan.candidate(&name)?.clone();
            let standing = if self.has_time_for(rung, &name) {
                (self.log)(&format!(
                    "\nrung {} of {}: {name} to epoch {last}",
                    rung + 1,
                    self.plan.schedule.rungs.len(),
                ));
                self.train_candidate(&candidate, last)?
            } else {
                self.failed(&name, "there was no time left to train it further".into())
            };
            if let Some(reason) = &standing.failed {
                (self.log)(&format!("{name}: {reason}"));
            }
            self.plan.rounds[rung].standings.push(standing);
            self.save()?;
            let left = self.plan.seconds_left();
            let table = live_table(&self.plan.candidates, &self.plan.standings(), left);
            (self.log)(&format!("\n{table}\n"));
            self.remove_checkpoints(rung)?;
        }
        let standings = &self.plan.rounds[rung].standings;
        if let Some(first) = standings.first()
            && standings.iter().all(|standing| standing.failed.is_some())
        {
            let reason = first.failed.as_deref().unwrap_or_default();
            return Err(Error::Training(format!(
                "no candidate could be trained; {}: {reason}",
                first.name
            )));
        }
        Ok(())
    }

    /// Whether training a candidate for a rung ends in time; always true for the first one.
    fn has_time_for(&self, rung: usize, name: &str) -> bool {
        let cost = self.plan.cost(name).unwrap_or_default();
        let needed = cost.seconds(self.plan.schedule.new_epochs(rung));
        let is_first = self.plan.rounds[rung].standings.is_empty();
        let left = self.training_seconds_left();
        is_first || left.is_none_or(|left| needed <= left)
    }

    /// Trains a candidate to the end of an epoch. A failure of its own ends the candidate, not the comparison.
    fn train_candidate(&self, candidate: &Candidate, epoch: usize) -> Result<Standing> {
        let entry = registry::find(&candidate.head)?;
        let trained =
            (self.options(candidate)).and_then(|options| (entry.train_until)(&options, epoch));
        match trained {
            Ok(state) => Ok(self.standing(candidate, entry.nested, &state)),
            Err(problem @ (Error::Config(_) | Error::Training(_)))
                if !self.runs.interrupter.should_stop() =>
            {
                Ok(self.failed(&candidate.name, problem.chain()))
            }
            Err(problem) => Err(self.runs.explain(problem)),
        }
    }

    /// The standing of a candidate that ends here: its last one with the reason.
    fn failed(&self, name: &str, reason: String) -> Standing {
        let last = self
            .plan
            .standings()
            .into_iter()
            .find(|last| last.name == name);
        Standing {
            failed: Some(reason),
            ..last.unwrap_or_else(|| Standing::untrained(name))
        }
    }

    pub(super) fn options(&self, candidate: &Candidate) -> Result<TrainOptions> {
        let plan = &self.plan;
        let recipe = candidate.recipe(&plan.config, &self.stats, plan.schedule.epochs)?;
        let folder = self.folder(&candidate.name);
        Ok(self
            .runs
            .run(recipe, &folder, "nerzoo train recipe.toml".into()))
    }

    pub(super) fn folder(&self, name: &str) -> PathBuf {
        self.runs.out.join(CANDIDATES).join(name)
    }

    fn standing(&self, candidate: &Candidate, nested: bool, state: &RunState) -> Standing {
        let points = &state.curves.points;
        let best = state.curves.best();
        let f1 = best.map_or(0.0, |best| {
            if nested {
                best.dev_f1.unwrap_or(0.0)
            } else {
                let precision = best.dev_precision.unwrap_or(0.0);
                f1_of_all(
                    precision,
                    best.dev_recall.unwrap_or(0.0),
                    self.gold_entities,
                )
            }
        });
        Standing {
            name: candidate.name.clone(),
            epochs: points.len(),
            f1,
            seconds: state.seconds,
            sentences_per_second: points
                .last()
                .map_or(0.0, |point| point.sentences_per_second),
            failed: None,
        }
    }

    /// Removes the checkpoints of candidates of a rung that can no longer enter the next one: they take the most space.
    fn remove_checkpoints(&self, rung: usize) -> Result<()> {
        if rung + 1 == self.plan.schedule.rungs.len() {
            return Ok(());
        }
        let round = &self.plan.rounds[rung];
        let ranked = ranked(&round.standings);
        for standing in ranked.iter().skip(survivors(round.entering.len())) {
            let folder = self.folder(&standing.name).join("checkpoints");
            if folder.is_dir() {
                fs::remove_dir_all(&folder).map_err(|source| Error::io(&folder, source))?;
            }
        }
        Ok(())
    }

    /// Seconds since the comparison was started, without the time between two processes.
    pub(super) fn seconds(&self) -> f64 {
        self.spent_before + self.started.elapsed().as_secs_f64()
    }

    /// Seconds left for training; `None` without a time limit.
    fn training_seconds_left(&self) -> Option<f64> {
        let minutes = self.plan.config.minutes?;
        Some(60.0 * minutes * TRAINING_SHARE - self.seconds())
    }

    pub(super) fn save(&mut self) -> Result<()> {
        self.plan.seconds = self.seconds();
        write_json(&self.runs.out.join(PLAN_FILE), &self.plan)
    }
}

/// F1 over all entities from precision and recall over the outermost entities, with which a flat head is validated: the
/// other entities are missed. `gold` is the number of outermost and of all entities.
fn f1_of_all(precision: f64, recall: f64, gold: (f64, f64)) -> f64 {
    let correct = recall * gold.0;
    if correct == 0.0 || precision == 0.0 {
        return 0.0;
    }
    2.0 * correct / (correct / precision + gold.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_inside_others_count_as_missed_by_a_flat_head() {
        // 8 of 10 outermost entities found with 10 predictions; 6 more entities are inside others.
        assert_eq!(f1_of_all(0.8, 0.8, (10.0, 10.0)), 0.8);
        assert_eq!(f1_of_all(0.8, 0.8, (10.0, 16.0)), 16.0 / 26.0);
        assert_eq!(f1_of_all(0.0, 0.0, (10.0, 16.0)), 0.0);
    }
}
