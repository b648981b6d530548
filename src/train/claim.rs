//! Whose a run's folder is: a fresh run's, or that run's which is gone on with.

use super::checkpoints::{Checkpoints, RunState};
use super::launch::Launch;
use crate::error::{Error, Result};
use crate::files::write_atomic;
use crate::recipe::Recipe;

/// A folder with a run in it is only entered to go on with that run.
pub(super) fn refuse_taken(launch: &Launch) -> Result<()> {
    if launch.resume || !launch.out.join("recipe.toml").is_file() {
        return Ok(());
    }
    Err(Error::model_folder(
        &launch.out,
        "this folder already holds a run; add --resume to go on with it, or give another --out",
    ))
}

/// Claims the folder: a fresh start, or the state to go on from.
pub(super) fn enter(launch: &Launch, recipe: &Recipe) -> Result<Option<RunState>> {
    refuse_taken(launch)?;
    let path = launch.out.join("recipe.toml");
    let text = recipe.to_toml()?;
    if !path.is_file() {
        write_atomic(&path, text.as_bytes())?;
        return Ok(None);
    }
    let before = Recipe::read(&path, &[])?;
    if before != *recipe {
        return Err(Error::model_folder(
            &path,
            format!(
                "the recipe differs from the one this run was started with ({}); resume with the same recipe and \
                 --set, or start anew with another --out",
                difference(&before.to_toml()?, &text)
            ),
        ));
    }
    let state = Checkpoints::open(&launch.out)?.newest()?;
    if state.is_none() {
        tracing::warn!("no checkpoint to resume from yet: starting from the beginning");
    }
    Ok(state)
}

/// The first line in which two recipes differ.
fn difference(before: &str, now: &str) -> String {
    let pair = before.lines().zip(now.lines()).find(|(a, b)| a != b);
    match pair {
        Some((before, now)) => format!("it had `{before}`, now `{now}`"),
        None => "one has more settings than the other".into(),
    }
}
