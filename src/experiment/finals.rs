//! The end of a comparison: finished models, leaderboard and report.

use std::fs;
use std::path::Path;

use super::compare::{CANDIDATES, Comparison};
use super::leaderboard::{Leaderboard, Row, Standing, ranked};
use super::plan_file::PLAN_FILE;
use super::write_json;
use crate::error::{Error, Result};
use crate::eval::analysis::{Analysis, AnalysisOptions};
use crate::files::write_atomic;
use crate::registry;
use crate::text::{Mention, Sentence};
use crate::train::Finished;

/// Folder of the best model.
const BEST: &str = "best";
/// Finished models to compare at the end, at the most.
const MOST_FINALISTS: usize = 4;

/// A candidate that was trained to its end.
struct Finalist {
    standing: Standing,
    dev_f1: f64,
    test_f1: Option<f64>,
    mentions: Vec<Vec<Mention>>,
}

impl Comparison<'_> {
    /// Finishes the best runs and compares them.
    pub(super) fn finals(&mut self) -> Result<Leaderboard> {
        let Some(round) = self.plan.rounds.last() else {
            return Err(Error::Config(format!("{PLAN_FILE} has no rungs")));
        };
        let mut best: Vec<Standing> = ranked(&round.standings).into_iter().cloned().collect();
        best.retain(|standing| standing.failed.is_none());
        best.truncate(MOST_FINALISTS);
        let mut finalists = Vec::new();
        for standing in best {
            self.runs.check_interrupted()?;
            (self.log)(&format!("final scores of {}", standing.name));
            finalists.push(self.finish_candidate(standing)?);
            self.save()?;
        }
        finalists.sort_by(|a, b| {
            let by_name = a.standing.name.cmp(&b.standing.name);
            b.dev_f1.total_cmp(&a.dev_f1).then(by_name)
        });
        let mut leaderboard = self.leaderboard(&finalists)?;
        let models = finalists
            .into_iter()
            .map(|finalist| (finalist.standing.name, finalist.mentions));
        let analysis = Analysis::new(
            &self.corpus.train,
            self.gold(),
            models.collect(),
            Some(&leaderboard.best),
            AnalysisOptions {
                seed: self.plan.config.seed,
                ..AnalysisOptions::default()
            },
        )?;
        leaderboard.add_differences(&analysis);
        let out = &self.runs.out;
        copy_model(&self.folder(&leaderboard.best), &out.join(BEST))?;
        write_atomic(&out.join("report.html"), analysis.to_html().as_bytes())?;
        write_json(&out.join("report.json"), &analysis.to_json())?;
        write_atomic(
            &out.join("leaderboard.md"),
            leaderboard.to_markdown().as_bytes(),
        )?;
        write_json(&out.join("leaderboard.json"), &leaderboard)?;
        Ok(leaderboard)
    }

    /// The sentences on which the finalists are compared.
    fn gold(&self) -> &[Sentence] {
        if self.corpus.test.is_empty() {
            &self.corpus.dev
        } else {
            &self.corpus.test
        }
    }

    fn finish_candidate(&self, standing: Standing) -> Result<Finalist> {
        let candidate = self.plan.candidate(&standing.name)?;
        let entry = registry::find(&candidate.head)?;
        let Finished {
            tagger, dev, test, ..
        } = (entry.train)(&self.options(candidate)?)
            .map_err(|problem| self.runs.explain(problem))?;
        Ok(Finalist {
            dev_f1: dev.map_or(0.0, |dev| dev.overall.f1()),
            test_f1: test.map(|test| test.overall.f1()),
            mentions: tagger.tag(self.gold())?,
            standing,
        })
    }

    fn leaderboard(&self, finalists: &[Finalist]) -> Result<Leaderboard> {
        let Some(best) = finalists.first() else {
            return Err(Error::Training(
                "no candidate was trained to its end".into(),
            ));
        };
        let mut rows = Vec::new();
        for finalist in finalists {
            let mut row = self.row(&finalist.standing)?;
            row.dev_f1 = finalist.dev_f1;
            row.test_f1 = finalist.test_f1;
            row.folder = Some(format!("{CANDIDATES}/{}", row.name));
            rows.push(row);
        }
        for standing in ranked(&self.plan.standings()) {
            if rows.iter().all(|row| row.name != standing.name) {
                rows.push(self.row(standing)?);
            }
        }
        let on_test = !self.corpus.test.is_empty();
        Ok(Leaderboard {
            best: best.standing.name.clone(),
            compared_on: if on_test { "test" } else { "dev" }.into(),
            rows,
            left_out: self.plan.left_out.clone(),
            seconds: self.seconds(),
            command: self.plan.command.clone(),
        })
    }

    /// The row of a candidate that dropped out.
    fn row(&self, standing: &Standing) -> Result<Row> {
        let candidate = self.plan.candidate(&standing.name)?;
        Ok(Row {
            name: candidate.name.clone(),
            head: candidate.head.clone(),
            settings: candidate.settings(),
            epochs: standing.epochs,
            dev_f1: standing.f1,
            test_f1: None,
            difference: None,
            sentences_per_second: standing.sentences_per_second,
            folder: None,
            failed: standing.failed.clone(),
        })
    }
}

/// Copies the files of a model folder, without its checkpoints; another model at the target is replaced.
fn copy_model(from: &Path, to: &Path) -> Result<()> {
    let partial = to.with_extension("partial");
    for folder in [&partial, &to.to_path_buf()] {
        if folder.exists() {
            fs::remove_dir_all(folder).map_err(|source| Error::io(folder, source))?;
        }
    }
    fs::create_dir_all(&partial).map_err(|source| Error::io(&partial, source))?;
    for entry in fs::read_dir(from).map_err(|source| Error::io(from, source))? {
        let entry = entry.map_err(|source| Error::io(from, source))?;
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_file() && !name.to_string_lossy().starts_with('.') {
            fs::copy(&path, partial.join(name)).map_err(|source| Error::io(&path, source))?;
        }
    }
    fs::rename(&partial, to).map_err(|source| Error::io(to, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_copied_without_checkpoints() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("a"), folder.path().join("best"));
        fs::create_dir_all(from.join("checkpoints")).unwrap();
        for name in ["config.json", ".lock", "checkpoints/x"] {
            fs::write(from.join(name), name).unwrap();
        }
        for _ in 0..2 {
            copy_model(&from, &to).unwrap();
            let files: Vec<_> = fs::read_dir(&to)
                .unwrap()
                .map(|file| file.unwrap().file_name())
                .collect();
            assert_eq!(files, ["config.json"]);
        }
    }
}
