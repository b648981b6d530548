//! Atomic checkpoints, and the lock on a run folder.
//!
//! Burn saves model, optimizer and learning-rate schedule as three files, each in a thread of its own. Here the three
//! are written into `checkpoints/partial-N`; the last to finish adds `state.json` and the hashes of all files, and
//! renames the folder to `checkpoints/step-N`. A crash leaves at most a `partial-` folder, which is never read.
//!
//! The newest two and the best are kept. Of older ones whose weights may be averaged, only the weights are kept, as
//! `checkpoints/weights-N`; training is never resumed from these.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use burn::tensor::Device;
use burn::train::checkpoint::{Checkpoint, Checkpointer, CheckpointerError};
use burn::train::checkpoint::{CheckpointingAction, CheckpointingStrategy};
use burn::train::metric::store::EventStoreClient;

use super::average::AverageWindow;
use super::state::RunState;
use crate::error::{Error, Result};
use crate::files::read_text;
use crate::heads::Head;
use crate::model::folder::{self, TEMPORARY};
use crate::model::manifest::{self, Manifest};
use crate::model::tagger::ModelTagger;
use crate::recipe::set::Assignment;

/// The three files Burn saves.
pub const PARTS: [&str; 3] = ["model", "optimizer", "schedule"];
/// The file with the state of the run, and its greatest length in bytes.
const STATE: &str = "state.json";
const LONGEST_STATE: u64 = 1 << 30;
/// Prefix of the folder of a checkpoint.
const STEP: &str = "step-";
/// Prefix of the folder of a checkpoint of which only the weights are kept.
const WEIGHTS: &str = "weights-";

/// The checkpoints of a run.
#[derive(Debug, Clone)]
pub struct Checkpoints {
    folder: PathBuf,
    window: AverageWindow,
    pending: Arc<Mutex<Pending>>,
}

#[derive(Debug, Default)]
struct Pending {
    states: BTreeMap<usize, RunState>,
    written: BTreeMap<usize, usize>,
}

impl Checkpoints {
    /// The checkpoints in a run folder, for reading: another process may be writing them.
    pub fn at(run: &Path) -> Self {
        Self {
            folder: run.join("checkpoints"),
            window: AverageWindow::default(),
            pending: Arc::default(),
        }
    }

    /// The checkpoints in a run folder for the process that holds its lock: removes what a crash left behind.
    pub fn open(run: &Path) -> Result<Self> {
        let checkpoints = Self::at(run);
        let folder = &checkpoints.folder;
        fs::create_dir_all(folder).map_err(|source| Error::io(folder, source))?;
        checkpoints.remove_leftovers(run)?;
        Ok(checkpoints)
    }

    /// Removes what was being written when the run ended.
    pub fn remove_leftovers(&self, run: &Path) -> Result<()> {
        remove_folders(&self.folder, "partial-")?;
        remove_folders(run, TEMPORARY)?;
        remove_partial_files(run)
    }

    /// The same, but older checkpoints keep their weights as long as these may be averaged.
    pub fn keeping(self, window: AverageWindow) -> Self {
        Self { window, ..self }
    }

    /// The folder of the checkpoint after a step.
    pub fn step_folder(&self, step: usize) -> PathBuf {
        self.folder.join(format!("{STEP}{step:09}"))
    }

    /// The folder with the weights after a step: its checkpoint, or what is kept of it.
    pub fn model_folder(&self, step: usize) -> PathBuf {
        let folder = self.step_folder(step);
        if folder.is_dir() {
            folder
        } else {
            self.weights_folder(step)
        }
    }

    fn weights_folder(&self, step: usize) -> PathBuf {
        self.folder.join(format!("{WEIGHTS}{step:09}"))
    }

    /// The state of the newest intact checkpoint; damaged ones are reported and skipped.
    pub fn newest(&self) -> Result<Option<RunState>> {
        if !self.folder.is_dir() {
            return Ok(None);
        }
        let mut folders: Vec<PathBuf> = fs::read_dir(&self.folder)
            .map_err(|source| Error::io(&self.folder, source))?
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| name(path).starts_with(STEP))
            .collect();
        folders.sort();
        for folder in folders.iter().rev() {
            match read_state(folder) {
                Ok(state) => return Ok(Some(state)),
                Err(problem) => {
                    tracing::warn!("skipping a damaged checkpoint: {}", problem.chain())
                }
            }
        }
        Ok(None)
    }

    /// Registers the state that belongs to the checkpoint about to be saved for its step.
    pub fn announce(&self, state: RunState) {
        self.lock().states.insert(state.step, state);
    }

    /// Burn's saver of one part.
    pub fn part(&self, part: usize) -> Part {
        Part {
            checkpoints: self.clone(),
            part,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(|lock| lock.into_inner())
    }

    fn partial(&self, step: usize) -> PathBuf {
        self.folder.join(format!("partial-{step:09}"))
    }

    /// Counts a file as written; after the last one the checkpoint gets its final name and old ones are removed.
    fn written(&self, step: usize) -> Result<()> {
        let state = {
            let mut pending = self.lock();
            let count = pending.written.entry(step).or_insert(0);
            *count += 1;
            if *count < PARTS.len() {
                return Ok(());
            }
            pending.written.remove(&step);
            pending.states.remove(&step).unwrap_or_default()
        };
        let partial = self.partial(step);
        let path = partial.join(STATE);
        let json = serde_json::to_vec_pretty(&state).expect("a state is plain data");
        fs::write(&path, json).map_err(|source| Error::io(&path, source))?;
        manifest::write(&partial)?;
        let folder = self.step_folder(step);
        remove_folder(&folder)?;
        fs::rename(&partial, &folder).map_err(|source| Error::io(&folder, source))?;
        self.prune(&state)
    }

    /// Keeps the newest two and the best, and the weights of those that may be averaged.
    fn prune(&self, state: &RunState) -> Result<()> {
        let averaged = self.window.may_be_averaged(state);
        let steps = self.steps(STEP)?;
        let recent = steps.len().saturating_sub(2);
        for step in &steps[..recent] {
            if *step == state.best_step || *step >= state.step {
                continue;
            }
            if averaged.contains(step) {
                let weights = self.weights_folder(*step);
                remove_folder(&weights)?;
                fs::rename(self.step_folder(*step), &weights)
                    .map_err(|source| Error::io(&weights, source))?;
            } else {
                remove_folder(&self.step_folder(*step))?;
            }
        }
        for step in self.steps(WEIGHTS)? {
            if averaged.contains(&step) {
                keep_weights(&self.weights_folder(step))?;
            } else {
                remove_folder(&self.weights_folder(step))?;
            }
        }
        Ok(())
    }

    /// The steps of the folders whose names start with a prefix, in order.
    fn steps(&self, prefix: &str) -> Result<Vec<usize>> {
        let mut steps: Vec<usize> = fs::read_dir(&self.folder)
            .map_err(|source| Error::io(&self.folder, source))?
            .filter_map(|entry| entry.ok())
            .filter_map(|entry| name(&entry.path()).strip_prefix(prefix)?.parse().ok())
            .collect();
        steps.sort_unstable();
        Ok(steps)
    }
}

/// Removes the files of a checkpoint that only resuming needs. A crash in between leaves files that are not in the manifest;
/// the next call removes them.
fn keep_weights(folder: &Path) -> Result<()> {
    let files = PARTS[1..].iter().map(|part| format!("{part}.bpk"));
    let files: Vec<String> = files.filter(|file| folder.join(file).exists()).collect();
    if files.is_empty() {
        return Ok(());
    }
    manifest::leave_out(folder, &files)?;
    for file in files {
        let path = folder.join(file);
        fs::remove_file(&path).map_err(|source| Error::io(&path, source))?;
    }
    Ok(())
}

/// Removes a folder, or a file in its place, if it exists.
fn remove_folder(folder: &Path) -> Result<()> {
    let removed = match fs::symlink_metadata(folder) {
        Ok(about) if about.is_dir() => fs::remove_dir_all(folder),
        Ok(_) => fs::remove_file(folder),
        Err(_) => Ok(()),
    };
    removed.map_err(|source| Error::io(folder, source))
}

/// Removes the files of a folder that a crash left half-written (see [`crate::files::write_atomic`]).
fn remove_partial_files(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(|source| Error::io(folder, source))? {
        let path = entry.map_err(|source| Error::io(folder, source))?.path();
        let name = name(&path);
        if name.starts_with('.') && name.ends_with(".partial") {
            remove_folder(&path)?;
        }
    }
    Ok(())
}

/// Removes the folders in `parent` whose names start with `prefix`.
fn remove_folders(parent: &Path, prefix: &str) -> Result<()> {
    for entry in fs::read_dir(parent).map_err(|source| Error::io(parent, source))? {
        let path = entry.map_err(|source| Error::io(parent, source))?.path();
        if name(&path).starts_with(prefix) {
            remove_folder(&path)?;
        }
    }
    Ok(())
}

/// Loads the best checkpoint of an unfinished run, or the newest one if no epoch is finished yet.
pub fn load_checkpoint<H: Head>(
    run: &Path,
    device: &Device,
    overrides: &[Assignment],
) -> Result<ModelTagger<H>> {
    let checkpoints = Checkpoints::at(run);
    let Some(state) = checkpoints.newest()? else {
        return Err(Error::model_folder(
            run,
            "there is neither a finished model, which has a manifest.json, nor a checkpoint in this folder",
        ));
    };
    let step = match state.best_step {
        0 => state.step, // stopped inside the first epoch
        best => best,
    };
    folder::load_checkpoint(run, &checkpoints.step_folder(step), device, overrides)
}

fn name(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

fn read_state(folder: &Path) -> Result<RunState> {
    let listed = Manifest::read(folder)?;
    let parts = PARTS.map(|part| format!("{part}.bpk"));
    let needed: Vec<&str> = parts.iter().map(String::as_str).chain([STATE]).collect();
    listed.require(&needed, folder)?;
    manifest::verify_files(folder, &listed)?;
    let path = folder.join(STATE);
    let fail = |problem: String| Error::model_folder(&path, problem);
    let state: RunState = serde_json::from_str(&read_text(&path, LONGEST_STATE)?)
        .map_err(|problem| fail(problem.to_string()))?;
    let step = name(folder)
        .strip_prefix(STEP)
        .and_then(|number| number.parse().ok());
    if step != Some(state.step) || state.epoch == 0 || state.best_step > state.step {
        return Err(fail(format!(
            "it says step {}, epoch {} and best step {}, which cannot be in this folder",
            state.step, state.epoch, state.best_step
        )));
    }
    Ok(state)
}

/// Saves one of the three parts for Burn.
pub struct Part {
    checkpoints: Checkpoints,
    part: usize,
}

impl Part {
    fn file(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.bpk", PARTS[self.part]))
    }
}

impl<R: Checkpoint> Checkpointer<R> for Part {
    fn save(&self, step: usize, record: R) -> std::result::Result<(), CheckpointerError> {
        let partial = self.checkpoints.partial(step);
        // The folder above it exists unless somebody removed the run, which must not be made again.
        match fs::create_dir(&partial) {
            Err(problem) if problem.kind() == ErrorKind::NotFound => {
                return Err(CheckpointerError::Unknown(folder::GONE.into()));
            }
            Err(problem) if problem.kind() != ErrorKind::AlreadyExists => {
                return Err(CheckpointerError::IOError(problem));
            }
            _ => {}
        }
        record.save(self.file(&partial))?;
        self.checkpoints
            .written(step)
            .map_err(|problem| CheckpointerError::Unknown(problem.chain()))
    }

    fn delete(&self, _step: usize) -> std::result::Result<(), CheckpointerError> {
        Ok(()) // `prune` does it, for whole checkpoints only
    }

    fn restore(&self, step: usize) -> std::result::Result<R, CheckpointerError> {
        R::load(self.file(&self.checkpoints.step_folder(step)))
    }
}

/// Saves on request: the training loop decides when.
pub struct OnRequest;

impl CheckpointingStrategy for OnRequest {
    fn checkpointing(&mut self, _: usize, _: &EventStoreClient) -> Vec<CheckpointingAction> {
        vec![CheckpointingAction::Save]
    }
}

/// Exclusive use of a run folder; the system releases it however the process ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock, or fails when another process has it.
    pub fn take(run: &Path) -> Result<Self> {
        let path = run.join(".lock");
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|source| Error::io(&path, source))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(Error::model_folder(
                run,
                "another process is training in this folder; wait for it or give another --out",
            )),
            Err(TryLockError::Error(source)) => Err(Error::io(&path, source)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::StopRule;
    use super::*;
    use burn::optim::lr_scheduler::LrSchedulerRecord;

    fn save(checkpoints: &Checkpoints, state: RunState, parts: usize) {
        let step = state.step;
        checkpoints.announce(state);
        for part in 0..parts {
            let record = LrSchedulerRecord::new().with_scalar("step", step);
            Checkpointer::save(&checkpoints.part(part), step, record).unwrap();
        }
    }

    fn state(step: usize, best_step: usize) -> RunState {
        RunState {
            epoch: 1,
            step,
            best_step,
            ..RunState::default()
        }
    }

    #[test]
    fn only_whole_checkpoints_count() {
        let run = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::open(run.path()).unwrap();
        assert_eq!(checkpoints.newest().unwrap(), None);
        save(&checkpoints, state(10, 10), 3);
        save(&checkpoints, state(20, 10), 2); // a crash before the third part
        assert_eq!(checkpoints.newest().unwrap().unwrap().step, 10);
        let reopened = Checkpoints::open(run.path()).unwrap();
        assert!(!reopened.partial(20).exists());
        save(&reopened, state(30, 10), 3);
        save(&reopened, state(40, 10), 3);
        assert!(reopened.step_folder(10).exists(), "the best one stays");
        fs::write(reopened.step_folder(40).join("model.bpk"), b"cut off").unwrap();
        assert_eq!(reopened.newest().unwrap().unwrap().step, 30);
    }

    /// The state may say anything: its hash is right.
    #[test]
    fn forged_states_are_skipped() {
        let run = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::open(run.path()).unwrap();
        save(&checkpoints, state(10, 10), 3);
        for forged in [
            state(99, 10),
            state(20, 21),
            RunState {
                epoch: 0,
                ..state(20, 10)
            },
        ] {
            save(&checkpoints, state(20, 10), 3);
            let folder = checkpoints.step_folder(20);
            let json = serde_json::to_vec(&forged).unwrap();
            fs::write(folder.join(STATE), json).unwrap();
            manifest::write(&folder).unwrap();
            assert_eq!(checkpoints.newest().unwrap().unwrap().step, 10);
        }
        // A manifest without a part of the checkpoint.
        save(&checkpoints, state(20, 10), 3);
        let folder = checkpoints.step_folder(20);
        assert_eq!(checkpoints.newest().unwrap().unwrap().step, 20);
        manifest::leave_out(&folder, &["optimizer.bpk".into()]).unwrap();
        assert_eq!(checkpoints.newest().unwrap().unwrap().step, 10);
    }

    #[test]
    fn a_removed_run_is_not_made_again() {
        let run = tempfile::tempdir().unwrap();
        let folder = run.path().join("run");
        fs::create_dir(&folder).unwrap();
        let checkpoints = Checkpoints::open(&folder).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        let record = LrSchedulerRecord::new().with_scalar("step", 1);
        let saved = Checkpointer::save(&checkpoints.part(0), 1, record);
        assert!(format!("{:?}", saved.unwrap_err()).contains("gone"));
        assert!(!folder.exists());
    }

    #[test]
    fn old_ones_go() {
        let run = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::open(run.path()).unwrap();
        for step in 1..=4 {
            save(&checkpoints, state(step, step), 3);
        }
        let exist = |step| checkpoints.step_folder(step).exists();
        assert_eq!([1, 2, 3, 4].map(exist), [false, false, true, true]);
    }

    /// The state of a run after so many epochs of 10 steps, the best of them, and some steps of the next.
    fn after(epochs: usize, best: usize, steps: usize) -> RunState {
        let mut state = state(0, 0);
        for epoch in 1..=epochs {
            state.step = 10 * epoch;
            state.end_epoch(
                None,
                1e-3,
                StopRule {
                    epochs: 6,
                    patience: 0,
                },
            );
        }
        state.best_step = 10 * best;
        state.step += steps;
        state
    }

    #[test]
    fn weights_to_average_are_kept_without_the_rest() {
        let run = tempfile::tempdir().unwrap();
        let window = AverageWindow {
            epochs: 3,
            up_to_best: false,
        };
        let checkpoints = Checkpoints::open(run.path()).unwrap().keeping(window);
        for epochs in 1..=4 {
            save(&checkpoints, after(epochs, 1, 0), 3);
            save(&checkpoints, after(epochs, 1, 5), 3);
        }
        assert_eq!(checkpoints.steps(STEP).unwrap(), [10, 40, 45]);
        assert_eq!(checkpoints.steps(WEIGHTS).unwrap(), [20, 30]);
        let folder = checkpoints.model_folder(20);
        assert!(folder.join("model.bpk").is_file());
        assert!(!folder.join("optimizer.bpk").exists());
        assert!(!folder.join("schedule.bpk").exists());
        manifest::verify(&folder).unwrap();
        save(&checkpoints, after(6, 1, 0), 3);
        assert_eq!(checkpoints.steps(WEIGHTS).unwrap(), [40]);
        // Weights alone are nothing to resume from.
        for step in checkpoints.steps(STEP).unwrap() {
            fs::remove_dir_all(checkpoints.step_folder(step)).unwrap();
        }
        assert_eq!(checkpoints.newest().unwrap(), None);
    }

    /// A crash after the rename, or after the change of the manifest, leaves files that the next call removes.
    #[test]
    fn weights_are_usable_whenever_the_process_is_killed() {
        let run = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::open(run.path()).unwrap();
        save(&checkpoints, state(10, 10), 3);
        let folder = checkpoints.weights_folder(10);
        fs::rename(checkpoints.step_folder(10), &folder).unwrap();
        assert_eq!(checkpoints.model_folder(10), folder);
        manifest::verify(&folder).unwrap();
        manifest::leave_out(&folder, &["optimizer.bpk".into(), "schedule.bpk".into()]).unwrap();
        manifest::verify(&folder).unwrap();
        fs::remove_file(folder.join("optimizer.bpk")).unwrap();
        keep_weights(&folder).unwrap();
        manifest::verify(&folder).unwrap();
        assert!(!folder.join("schedule.bpk").exists());
        assert!(folder.join("state.json").is_file());
        fs::write(folder.join("model.bpk"), b"cut off").unwrap();
        assert!(manifest::verify(&folder).is_err());
    }

    #[test]
    fn a_folder_is_locked_once() {
        let run = tempfile::tempdir().unwrap();
        let lock = Lock::take(run.path()).unwrap();
        assert!(Lock::take(run.path()).is_err());
        drop(lock);
        assert!(Lock::take(run.path()).is_ok());
    }
}
