//! The plan of a comparison and its standings so far, as saved in `plan.json`.

use std::fs;
use std::path::Path;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::candidates::{Candidate, CompareConfig, candidates};
use super::leaderboard::Standing;
use super::plan::{
    Choice, Cost, Entrant, Given, Schedule, TRAINING_SHARE, choose, default_rungs, needed_epochs,
    survivors,
};
use super::{RunOptions, speed};
use crate::data::stats::Stats;
use crate::error::{Error, Result};
use crate::train::Corpus;
use crate::train::progress::clock;

/// Name of the file with plan and standings.
pub const PLAN_FILE: &str = "plan.json";
/// A measurement of a candidate's speed takes at most so many seconds.
const MEASURE_SECONDS: f64 = 4.0;
/// All measurements take at most this share of the time.
const MEASURE_SHARE: f64 = 0.05;

/// A comparison as it is saved: its plan, and what is done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// What is compared.
    pub config: CompareConfig,
    /// The command that repeats it without a time limit.
    pub command: String,
    /// Epochs and rungs.
    pub schedule: Schedule,
    /// The candidates.
    pub candidates: Vec<Candidate>,
    /// The estimated time of each candidate; empty without a time limit.
    pub costs: Vec<Cost>,
    /// Candidates that were not started, each with the reason.
    pub left_out: Vec<(String, String)>,
    /// Seconds spent so far.
    pub seconds: f64,
    /// The rungs so far.
    pub rounds: Vec<Round>,
}

/// A rung that was started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Names of the candidates that enter it.
    pub entering: Vec<String>,
    /// Standings of those that are done.
    pub standings: Vec<Standing>,
}

impl Plan {
    /// Reads the plan of a comparison from its folder.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(PLAN_FILE);
        let text = fs::read_to_string(&path).map_err(|source| Error::io(&path, source))?;
        serde_json::from_str(&text).map_err(|problem| {
            Error::model_folder(&path, format!("not the plan of a comparison: {problem}"))
        })
    }

    pub(super) fn candidate(&self, name: &str) -> Result<&Candidate> {
        let found = self
            .candidates
            .iter()
            .find(|candidate| candidate.name == name);
        found.ok_or_else(|| {
            Error::Config(format!(
                "{PLAN_FILE} has a standing of {name}, which is no candidate"
            ))
        })
    }

    /// The newest standing of each candidate that has one.
    pub(super) fn standings(&self) -> Vec<Standing> {
        let newest = |candidate: &Candidate| {
            let mut standings = self.rounds.iter().rev().flat_map(|round| &round.standings);
            standings
                .find(|standing| standing.name == candidate.name)
                .cloned()
        };
        self.candidates.iter().filter_map(newest).collect()
    }

    /// The time of a candidate: measured in training if it has been trained, else as estimated, else unknown.
    pub(super) fn cost(&self, name: &str) -> Option<Cost> {
        let index = self
            .candidates
            .iter()
            .position(|candidate| candidate.name == name)?;
        let estimated = self.costs.get(index).copied();
        let standings = self.standings();
        let trained = standings
            .iter()
            .find(|standing| standing.name == name && standing.epochs > 0);
        match trained {
            Some(standing) => Some(Cost {
                start: estimated.map_or(0.0, |cost| cost.start),
                epoch: standing.seconds / standing.epochs as f64,
            }),
            None => estimated,
        }
    }

    /// Seconds of training that are left, where the speeds are known.
    pub(super) fn seconds_left(&self) -> Option<f64> {
        let rung = self.rounds.len().checked_sub(1)?;
        let round = &self.rounds[rung];
        let known: Vec<Cost> = round
            .entering
            .iter()
            .filter_map(|name| self.cost(name))
            .collect();
        if known.is_empty() {
            return None;
        }
        let mean = Cost::mean(&known);
        let is_done = |name: &String| round.standings.iter().any(|done| done.name == *name);
        let waiting = round.entering.iter().filter(|name| !is_done(name));
        let epochs = self.schedule.new_epochs(rung);
        let now: f64 = waiting
            .map(|name| self.cost(name).unwrap_or(mean).seconds(epochs))
            .sum();
        let next = survivors(round.entering.len());
        Some(now + self.schedule.seconds(rung + 1, &vec![mean; next]))
    }
}

/// What a plan is made from.
pub(super) struct Planner<'a> {
    pub config: &'a CompareConfig,
    pub runs: &'a RunOptions,
    pub corpus: &'a Corpus,
    pub stats: &'a Stats,
    pub started: Instant,
}

impl Planner<'_> {
    /// Plans the comparison. With a time limit, the speed of the heads is measured first.
    pub fn plan(&self, log: &mut dyn FnMut(&str)) -> Result<Plan> {
        let all = candidates(self.config, self.stats)?;
        match self.config.minutes {
            Some(minutes) => self.timed_plan(all, 60.0 * minutes, log),
            None => {
                let epochs = self.config.epochs.unwrap_or(1);
                let rungs = self
                    .config
                    .rungs
                    .unwrap_or_else(|| default_rungs(all.len()));
                Ok(self.finish(all, Schedule::new(epochs, rungs), Vec::new(), Vec::new()))
            }
        }
    }

    fn timed_plan(
        &self,
        all: Vec<Candidate>,
        seconds: f64,
        log: &mut dyn FnMut(&str),
    ) -> Result<Plan> {
        let (all, costs, mut left_out) = self.measure_all(all, seconds, log)?;
        let entrants: Vec<Entrant> = (all.iter().zip(&costs))
            .map(|(candidate, cost)| Entrant {
                is_default: candidate.is_default(),
                cost: *cost,
            })
            .collect();
        let given = Given {
            epochs: self.config.epochs,
            rungs: self.config.rungs,
        };
        let left = TRAINING_SHARE * seconds - self.started.elapsed().as_secs_f64();
        let needed = needed_epochs(self.corpus.train.len());
        let Choice {
            kept,
            schedule,
            fits,
        } = choose(&entrants, left, needed, given);
        let costs: Vec<Cost> = kept.iter().map(|index| costs[*index]).collect();
        if !fits {
            log(&format!(
                "the time is too short for any head: {} alone will take about {}",
                all[kept[0]].name,
                clock(schedule.seconds(0, &costs))
            ));
        }
        let is_kept = |index: usize| kept.contains(&index);
        let slow = all.iter().enumerate().filter(|(index, _)| !is_kept(*index));
        left_out.extend(slow.map(|(_, candidate)| {
            let reason = "left out: there is not enough time for all candidates";
            (candidate.name.clone(), reason.to_string())
        }));
        let kept = kept.iter().map(|index| all[*index].clone()).collect();
        Ok(self.finish(kept, schedule, costs, left_out))
    }

    /// The time of every candidate that can be trained, and the others with the reason.
    #[allow(clippy::type_complexity)]
    fn measure_all(
        &self,
        all: Vec<Candidate>,
        seconds: f64,
        log: &mut dyn FnMut(&str),
    ) -> Result<(Vec<Candidate>, Vec<Cost>, Vec<(String, String)>)> {
        log("measuring the speed of the heads");
        let limit = (MEASURE_SHARE * seconds / all.len() as f64).min(MEASURE_SECONDS);
        let (mut kept, mut costs, mut left_out) = (Vec::<Candidate>::new(), Vec::new(), Vec::new());
        for candidate in all {
            self.runs.check_interrupted()?;
            // Settings outside the head, such as the learning rate, do not change the time.
            let same = kept.iter().position(|other| {
                other.head == candidate.head && !changes_head(other) && !changes_head(&candidate)
            });
            let cost = match same {
                Some(same) => Ok(costs[same]),
                None => self.measure(&candidate, limit),
            };
            match cost {
                Ok(cost) => {
                    if same.is_none() {
                        let epoch = clock(cost.epoch);
                        log(&format!("  {}: about {epoch} per epoch", candidate.name));
                    }
                    kept.push(candidate);
                    costs.push(cost);
                }
                Err(problem @ (Error::Config(_) | Error::Training(_))) => {
                    log(&format!("  {}: {}", candidate.name, problem.chain()));
                    left_out.push((candidate.name, problem.chain()));
                }
                Err(problem) => return Err(problem),
            }
        }
        match left_out.first() {
            Some((name, reason)) if kept.is_empty() => Err(Error::Config(format!(
                "no head can be trained; {name}: {reason}"
            ))),
            _ => Ok((kept, costs, left_out)),
        }
    }

    fn measure(&self, candidate: &Candidate, limit: f64) -> Result<Cost> {
        let recipe = candidate.recipe(self.config, self.stats, 1)?;
        speed::measure(&recipe, self.corpus, &self.runs.devices[0], limit)
    }

    fn finish(
        &self,
        candidates: Vec<Candidate>,
        schedule: Schedule,
        costs: Vec<Cost>,
        left_out: Vec<(String, String)>,
    ) -> Plan {
        let names: Vec<&str> = candidates.iter().map(|one| one.name.as_str()).collect();
        let command = format!(
            "{} --heads {} --epochs {} --rungs {}",
            self.runs.command,
            names.join(","),
            schedule.epochs,
            schedule.rungs.len()
        );
        Plan {
            config: self.config.clone(),
            command,
            schedule,
            candidates,
            costs,
            left_out,
            seconds: self.started.elapsed().as_secs_f64(),
            rounds: Vec::new(),
        }
    }
}

/// True when a candidate's head has other settings than the default.
fn changes_head(candidate: &Candidate) -> bool {
    candidate.sets.iter().any(|set| set.starts_with("head."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(name: &str) -> Candidate {
        Candidate {
            name: name.into(),
            head: name.into(),
            variant: Candidate::DEFAULT.into(),
            sets: Vec::new(),
        }
    }

    fn standing(name: &str, epochs: usize, seconds: f64) -> Standing {
        Standing {
            epochs,
            seconds,
            ..Standing::untrained(name)
        }
    }

    #[test]
    fn the_time_left_uses_measured_speeds() {
        let cost = |epoch| Cost { start: 1.0, epoch };
        let mut plan = Plan {
            config: CompareConfig::default(),
            command: String::new(),
            schedule: Schedule::new(4, 2),
            candidates: ["a", "b", "c"].map(candidate).to_vec(),
            costs: vec![cost(10.0), cost(10.0), cost(40.0)],
            left_out: Vec::new(),
            seconds: 0.0,
            rounds: Vec::new(),
        };
        assert_eq!(plan.seconds_left(), None);
        plan.rounds.push(Round {
            entering: ["a", "b", "c"].map(String::from).to_vec(),
            standings: vec![standing("a", 2, 80.0), standing("b", 2, 20.0)],
        });
        assert_eq!(plan.cost("a"), Some(cost(40.0)));
        // c: 1 + 2 * 40; then two of the mean, 1 + 2 * 30 each.
        assert_eq!(plan.seconds_left(), Some(81.0 + 122.0));
        let text = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
    }
}
