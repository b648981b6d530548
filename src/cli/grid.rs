//! `train --grid` and `--seeds`: trains every combination of values, one folder per run, and prints one table.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use burn::train::Interrupter;

use super::train::Train;
use crate::eval::Counts;
use crate::recipe::Recipe;
use crate::recipe::set::key_and_values;
use crate::registry;
use crate::table::Table;

/// One combination of the grid's values: the settings, and the counts of each seed's run.
struct Combination {
    sets: Vec<String>,
    scores: Vec<Counts>,
}

/// Trains all combinations and prints the table. With `--resume`, finished runs are not repeated.
pub fn run(train: &Train, out: &Path, interrupter: &Interrupter) -> Result<ExitCode> {
    let mut combinations = product(&train.grid)?;
    let seeds: Vec<u64> = if train.seeds.is_empty() {
        vec![Recipe::read(&train.recipe, &train.sets)?.train.seed]
    } else {
        train.seeds.clone()
    };
    check(train, &combinations)?;
    let total = combinations.len() * seeds.len();
    let mut number = 0;
    for index in 0..combinations.len() {
        for seed in &seeds {
            number += 1;
            let own = combinations[index].sets.clone();
            let folder = out.join(name(&own, *seed));
            let sets = [&train.sets[..], &own, &[format!("train.seed={seed}")]].concat();
            println!("run {number} of {total}: {}", folder.display());
            let exists = folder.join("recipe.toml").exists();
            let finished = train.train(&sets, &folder, train.resume && exists, interrupter);
            let finished = finished.inspect_err(|_| {
                if number > 1 {
                    println!("\nso far:\n{}", table(&combinations[..=index], seeds.len()));
                }
            })?;
            let Some(report) = finished.test.or(finished.dev) else {
                bail!("a grid needs dev or test sentences to compare on");
            };
            combinations[index]
                .scores
                .push(if finished.tagger.nested() {
                    report.overall
                } else {
                    report.flat_view
                });
        }
    }
    println!("\n{}", table(&combinations, seeds.len()));
    Ok(ExitCode::SUCCESS)
}

/// Fails before the first run if any run could not start or two would share a folder.
fn check(train: &Train, combinations: &[Combination]) -> Result<()> {
    let mut names = Vec::new();
    for combination in combinations {
        let sets = [&train.sets[..], &combination.sets].concat();
        registry::resolve(Recipe::read(&train.recipe, &sets)?)?;
        let name = name(&combination.sets, 0);
        if names.contains(&name) {
            bail!("two combinations would both be named {name}; give each value once");
        }
        names.push(name);
    }
    Ok(())
}

/// All combinations of `key=a,b` lists. A list in brackets, such as key=[1, 2], is one value.
fn product(grid: &[String]) -> Result<Vec<Combination>> {
    let mut combinations = vec![Combination {
        sets: Vec::new(),
        scores: Vec::new(),
    }];
    for axis in grid {
        let Some((key, values)) = key_and_values(axis) else {
            bail!("--grid {axis}: write it as key=value,value, for example head.alpha=0.1,0.5");
        };
        combinations = combinations
            .iter()
            .flat_map(|combination| {
                values.iter().map(|value| {
                    let mut sets = combination.sets.clone();
                    sets.push(format!("{key}={value}"));
                    Combination {
                        sets,
                        scores: Vec::new(),
                    }
                })
            })
            .collect();
    }
    Ok(combinations)
}

/// The name of a run's folder, from its settings.
fn name(sets: &[String], seed: u64) -> String {
    let mut parts: Vec<String> = sets
        .iter()
        .map(|set| {
            set.chars()
                .map(|letter| match letter {
                    '=' => '-',
                    letter if letter.is_alphanumeric() || "._-".contains(letter) => letter,
                    _ => '_',
                })
                .collect()
        })
        .collect();
    parts.push(format!("seed-{seed}"));
    parts.join("+")
}

/// The results so far: one row per combination of values.
fn table(combinations: &[Combination], seeds: usize) -> String {
    let mut table = Table::new(["setting", "P", "R", "F1"]);
    for combination in combinations {
        let score = |score: fn(&Counts) -> f64| {
            let scores: Vec<f64> = combination.scores.iter().map(score).collect();
            mean_and_deviation(&scores)
        };
        let setting = if combination.sets.is_empty() {
            "recipe".to_owned()
        } else {
            combination.sets.join(" ")
        };
        table.row([
            setting,
            score(Counts::precision),
            score(Counts::recall),
            score(Counts::f1),
        ]);
    }
    if seeds > 1 {
        format!("{table}\nmean ± standard deviation over {seeds} seeds")
    } else {
        table.to_string()
    }
}

/// Mean in percent, and the sample standard deviation if there are several values.
fn mean_and_deviation(values: &[f64]) -> String {
    if values.is_empty() {
        return "–".into();
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    if values.len() < 2 {
        return format!("{:.2}", 100.0 * mean);
    }
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    format!(
        "{:.2} ± {:.2}",
        100.0 * mean,
        100.0 * (squares / (count - 1.0)).sqrt()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn product_has_all_combinations_with_distinct_names() {
        let grid = ["a.x=1,2".to_string(), "b=u/v,w".to_string()];
        let combinations = product(&grid).unwrap();
        let sets: Vec<String> = combinations
            .iter()
            .map(|combination| combination.sets.join(" "))
            .collect();
        assert_eq!(
            sets,
            ["a.x=1 b=u/v", "a.x=1 b=w", "a.x=2 b=u/v", "a.x=2 b=w"]
        );
        assert_eq!(name(&combinations[0].sets, 3), "a.x-1+b-u_v+seed-3");
        assert!(product(&["nonsense".to_string()]).is_err());
    }

    #[test]
    fn deviations_are_those_of_a_sample() {
        assert_eq!(mean_and_deviation(&[0.5]), "50.00");
        assert_eq!(mean_and_deviation(&[0.4, 0.6]), "50.00 ± 14.14");
    }
}
