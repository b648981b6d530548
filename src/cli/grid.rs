//! `train --grid` and `--seeds`: the product of values, one folder a run, one table.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use burn::train::Interrupter;

use super::train::Train;
use crate::eval::Counts;
use crate::recipe::Recipe;
use crate::recipe::set::key_and_values;
use crate::registry;

/// One cell of the grid: what is set, and what each seed scored.
struct Cell {
    sets: Vec<String>,
    scores: Vec<Counts>,
}

/// Trains the whole product and prints the table. With `--resume`, runs that are done are not done again.
pub fn run(train: &Train, out: &Path, interrupter: &Interrupter) -> Result<ExitCode> {
    let mut cells = product(&train.grid)?;
    let seeds: Vec<u64> = if train.seeds.is_empty() {
        vec![Recipe::read(&train.recipe, &train.sets)?.train.seed]
    } else {
        train.seeds.clone()
    };
    check(train, &cells)?;
    let total = cells.len() * seeds.len();
    let mut number = 0;
    for index in 0..cells.len() {
        for seed in &seeds {
            number += 1;
            let own = cells[index].sets.clone();
            let folder = out.join(name(&own, *seed));
            let sets = [&train.sets[..], &own, &[format!("train.seed={seed}")]].concat();
            println!("run {number} of {total}: {}", folder.display());
            let exists = folder.join("recipe.toml").exists();
            let finished = train.train(&sets, &folder, train.resume && exists, interrupter);
            let finished = finished.inspect_err(|_| {
                if number > 1 {
                    println!("\nso far:\n{}", table(&cells[..=index], seeds.len()));
                }
            })?;
            let Some(report) = finished.test.or(finished.dev) else {
                bail!("a grid needs dev or test sentences to compare on");
            };
            cells[index].scores.push(if finished.tagger.nested() {
                report.overall
            } else {
                report.flat_view
            });
        }
    }
    println!("\n{}", table(&cells, seeds.len()));
    Ok(ExitCode::SUCCESS)
}

/// Fails before the first run when any of them could not start, or two would share a folder.
fn check(train: &Train, cells: &[Cell]) -> Result<()> {
    let mut names = Vec::new();
    for cell in cells {
        let sets = [&train.sets[..], &cell.sets].concat();
        registry::resolve(Recipe::read(&train.recipe, &sets)?)?;
        let name = name(&cell.sets, 0);
        if names.contains(&name) {
            bail!("two combinations would both be called {name}; give each value once");
        }
        names.push(name);
    }
    Ok(())
}

/// All combinations of `key=a,b` lists. A list in brackets, such as key=[1, 2], is one value.
fn product(grid: &[String]) -> Result<Vec<Cell>> {
    let mut cells = vec![Cell {
        sets: Vec::new(),
        scores: Vec::new(),
    }];
    for axis in grid {
        let Some((key, values)) = key_and_values(axis) else {
            bail!("--grid {axis}: write it as key=value,value, for example head.alpha=0.1,0.5");
        };
        cells = cells
            .iter()
            .flat_map(|cell| {
                values.iter().map(|value| {
                    let mut sets = cell.sets.clone();
                    sets.push(format!("{key}={value}"));
                    Cell {
                        sets,
                        scores: Vec::new(),
                    }
                })
            })
            .collect();
    }
    Ok(cells)
}

/// A folder's name from what is set.
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

fn table(cells: &[Cell], seeds: usize) -> String {
    let label = |cell: &Cell| {
        if cell.sets.is_empty() {
            "recipe".to_string()
        } else {
            cell.sets.join(" ")
        }
    };
    let width = cells
        .iter()
        .map(|cell| label(cell).chars().count())
        .max()
        .unwrap_or(0)
        .max(8);
    let mut lines = vec![format!(
        "{:<width$} {:>15} {:>15} {:>15}",
        "setting", "P", "R", "F1"
    )];
    for cell in cells {
        let column =
            |score: fn(&Counts) -> f64| spread(&cell.scores.iter().map(score).collect::<Vec<_>>());
        lines.push(format!(
            "{:<width$} {:>15} {:>15} {:>15}",
            label(cell),
            column(Counts::precision),
            column(Counts::recall),
            column(Counts::f1)
        ));
    }
    if seeds > 1 {
        lines.push(format!("mean ± standard deviation over {seeds} seeds"));
    }
    lines.join("\n")
}

/// Mean in percent, with the sample deviation when there are several.
fn spread(values: &[f64]) -> String {
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
    fn the_product_is_whole_and_named() {
        let grid = ["a.x=1,2".to_string(), "b=u/v,w".to_string()];
        let cells = product(&grid).unwrap();
        let sets: Vec<String> = cells.iter().map(|cell| cell.sets.join(" ")).collect();
        assert_eq!(
            sets,
            ["a.x=1 b=u/v", "a.x=1 b=w", "a.x=2 b=u/v", "a.x=2 b=w"]
        );
        assert_eq!(name(&cells[0].sets, 3), "a.x-1+b-u_v+seed-3");
        assert!(product(&["nonsense".to_string()]).is_err());
    }

    #[test]
    fn spreads_are_sample_deviations() {
        assert_eq!(spread(&[0.5]), "50.00");
        assert_eq!(spread(&[0.4, 0.6]), "50.00 ± 14.14");
    }
}
