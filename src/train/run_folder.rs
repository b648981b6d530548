//! Decides who owns a run folder: a new run, or the one being resumed.

use super::checkpoints::Checkpoints;
use super::run::TrainOptions;
use super::state::RunState;
use crate::error::{Error, Result};
use crate::files::write_atomic;
use crate::heads::Head;
use crate::model::{folder, manifest};
use crate::recipe::Recipe;

/// Fails when the folder holds a run that is not being resumed, or other files that a run would overwrite.
pub(super) fn refuse_other_run(options: &TrainOptions) -> Result<()> {
    if !options.out.join("recipe.toml").is_file() {
        let names = folder::FILES.into_iter().chain([manifest::FILE]);
        let taken: Vec<&str> = names
            .filter(|name| options.out.join(name).exists())
            .collect();
        if taken.is_empty() {
            return Ok(());
        }
        return Err(Error::model_folder(
            &options.out,
            format!(
                "this folder is not a run, and the run would overwrite {}; give another --out",
                taken.join(", ")
            ),
        ));
    }
    if options.resume {
        return Ok(());
    }
    Err(Error::model_folder(
        &options.out,
        "this folder already holds a run; add --resume to continue it, or give another --out",
    ))
}

/// Takes the folder: writes the recipe of a new run, or returns the state to resume from.
pub(super) fn enter<H: Head>(options: &TrainOptions, recipe: &Recipe) -> Result<Option<RunState>> {
    refuse_other_run(options)?;
    let path = options.out.join("recipe.toml");
    let text = recipe.to_toml()?;
    if !path.is_file() {
        write_atomic(&path, text.as_bytes())?;
        return Ok(None);
    }
    let before = Recipe::read(&path, &[])?;
    // An older program may have written other names for the same settings, or not have known some of them.
    let before = match before.head_config::<H::Config>() {
        Ok(head) => before.with_head(&head)?,
        Err(_) => before, // the settings of another head, reported below
    };
    if before != *recipe {
        return Err(Error::model_folder(
            &path,
            format!(
                "the recipe differs from the one this run was started with ({}); resume with the same recipe and \
                 --set, or start a new run with another --out",
                difference(&before.to_toml()?, &text)
            ),
        ));
    }
    let state = Checkpoints::at(&options.out).newest()?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_others_are_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let text = "[data]\ncorpus = 'quickstart'\n[head]\nname = 'seq_ner'\n";
        let recipe = Recipe::parse(text, "test", &[]).unwrap();
        let mut options = TrainOptions::new(recipe, folder.path());
        refuse_other_run(&options).unwrap();
        std::fs::write(folder.path().join("notes.txt"), "x").unwrap();
        refuse_other_run(&options).unwrap();
        std::fs::write(folder.path().join("README.md"), "mine").unwrap();
        for resume in [false, true] {
            options.resume = resume;
            let problem = refuse_other_run(&options).unwrap_err().to_string();
            assert!(problem.contains("README.md"), "{problem}");
        }
    }
}
