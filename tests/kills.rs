//! Runs of three heads that are killed at random moments, also while a checkpoint or the final model is written, end with the
//! same weights, bit for bit, as runs that are not interrupted.
//!
//! 51 kills take about as long as 40 small trainings, so the test is ignored by default:
//! `cargo test --release --test kills -- --ignored --nocapture`. `NERZOO_PROGRAM` names another build of the program, and
//! `NERZOO_KILLS_SEED` another seed for the moments.

#![cfg(all(feature = "cli", unix))]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nerzoo::files::sha256;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Kills of each head.
const KILLS: usize = 17;

/// Accumulation, a frozen encoder in the first epoch, decoding settings that are chosen on dev, a calibration, and a checkpoint
/// after every step.
const RECIPE: &str = r#"
[data]
corpus = "quickstart"
limit = 160

[encoder.scratch]
vocabulary = 300
layers = 2
width = 32
heads = 2
feed_forward = 64

[head]
HEAD

[train]
epochs = 4
batch = 8
accumulate = 2
learning_rate = 2e-3
freeze_encoder = 1
tune = true
calibrate = true
checkpoint_minutes = 0
"#;

/// The `[head]` tables.
const HEADS: [(&str, &str); 3] = [
    (
        "seq_ner",
        "name = \"seq_ner\"\ndecoder = \"crf\"\nword_dropout = 0.1",
    ),
    (
        "bl_ner",
        "name = \"bl_ner\"\n[head.span]\nlongest = 6\nnegatives = 5\nnone_bias = 3.0",
    ),
    (
        "diffusion_ner",
        "name = \"diffusion_ner\"\nspans = 12\nheads = 2\nfeed_forward = 64\nsteps = 2\ntimesteps = 100",
    ),
];

/// When a run is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// After any time.
    Any,
    /// While a checkpoint is written.
    Checkpoint,
    /// While the final model is written.
    Model,
}

/// The moments of the kills of one training, after which its weights are compared; then the next training begins.
const MOMENTS: [Moment; 6] = [
    Moment::Any,
    Moment::Checkpoint,
    Moment::Any,
    Moment::Checkpoint,
    Moment::Model,
    Moment::Model,
];

#[test]
#[ignore = "takes minutes"]
fn fifty_kills_do_not_change_the_weights() {
    let seed =
        std::env::var("NERZOO_KILLS_SEED").map_or(22, |seed| seed.parse().expect("a number"));
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut inside = [0, 0];
    for (name, head) in HEADS {
        let run = Run::new(head);
        let start = Instant::now();
        run.finish(&run.whole, false);
        let duration = start.elapsed();
        let (mut kills, mut compared) = (0, 0);
        while kills < KILLS {
            for moment in MOMENTS.into_iter().take(KILLS - kills) {
                // A run that ends before its moment was at its end already.
                if let Some(found) = run.kill(moment, duration, &mut random) {
                    kills += 1;
                    inside[0] += usize::from(found == Leftovers::Checkpoint);
                    inside[1] += usize::from(found == Leftovers::Model);
                }
            }
            run.finish(&run.broken, run.has_started());
            assert_eq!(
                run.hashes(&run.broken),
                run.hashes(&run.whole),
                "{name} after {kills} kills, seed {seed}"
            );
            compared += 1;
            std::fs::remove_dir_all(&run.broken).expect("a run folder");
        }
        println!(
            "{name}: {kills} kills in {compared} trainings of {:.1} s, all with the same weights",
            duration.as_secs_f64()
        );
    }
    let [checkpoints, models] = inside;
    println!("{checkpoints} kills left a half-written checkpoint, {models} a half-written model");
    assert!(
        checkpoints > 0 && models > 0,
        "no kill was inside the writing of a checkpoint, or of a model"
    );
}

/// What a kill left behind.
#[derive(Debug, PartialEq, Eq)]
enum Leftovers {
    None,
    Checkpoint,
    Model,
}

/// A recipe and the folders of two runs.
struct Run {
    _folder: tempfile::TempDir,
    recipe: PathBuf,
    whole: PathBuf,
    broken: PathBuf,
}

impl Run {
    fn new(head: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = |name: &str| folder.path().join(name);
        let run = Self {
            recipe: path("recipe.toml"),
            whole: path("whole"),
            broken: path("broken"),
            _folder: folder,
        };
        std::fs::write(&run.recipe, RECIPE.replace("HEAD", head)).expect("a recipe");
        run
    }

    fn start(&self, out: &Path, resume: bool) -> Child {
        let given = std::env::var_os("NERZOO_PROGRAM").map(PathBuf::from);
        let mut command =
            Command::new(given.unwrap_or_else(|| env!("CARGO_BIN_EXE_nerzoo").into()));
        (command.arg("train").arg(&self.recipe).arg("--out").arg(out))
            .args(["--device", "cpu", "--plain"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .stdout(Stdio::null())
            .stderr(Stdio::inherit());
        if resume {
            command.arg("--resume");
        }
        command.spawn().expect("the program starts")
    }

    fn finish(&self, out: &Path, resume: bool) {
        let status = self.start(out, resume).wait().expect("it ends");
        assert!(status.success(), "{status}");
    }

    /// True if the broken run can be resumed.
    fn has_started(&self) -> bool {
        self.broken.join("recipe.toml").exists()
    }

    /// Starts or resumes the broken run and kills it. Returns what is left behind; `None` if the run ended before.
    fn kill(
        &self,
        moment: Moment,
        duration: Duration,
        random: &mut ChaCha8Rng,
    ) -> Option<Leftovers> {
        let mut child = self.start(&self.broken, self.has_started());
        let start = Instant::now();
        let share = (random.next_u32() % 1000) as f64 / 1000.0;
        let (mut seen, wanted) = (0, 1 + random.next_u32() % 4);
        let mut was_there = false;
        loop {
            let is_now = match moment {
                Moment::Any => start.elapsed() > duration.mul_f64(0.6 * share),
                Moment::Checkpoint => {
                    // The beginning of one of the next checkpoints.
                    let is_there = has_entry(&self.broken.join("checkpoints"), "partial-");
                    seen += u32::from(is_there && !was_there);
                    was_there = is_there;
                    seen == wanted
                }
                Moment::Model => has_entry(&self.broken, ".model-"),
            };
            if is_now {
                break;
            }
            if let Some(status) = child.try_wait().expect("a child of this process") {
                assert!(status.success(), "{status}");
                return None;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        match moment {
            Moment::Any => {}
            Moment::Checkpoint => std::thread::sleep(Duration::from_millis(4).mul_f64(share)),
            Moment::Model => std::thread::sleep(Duration::from_millis(40).mul_f64(share)),
        }
        child.kill().expect("a child of this process"); // SIGKILL
        let status = child.wait().expect("it ends");
        if status.success() {
            return None;
        }
        Some(if has_entry(&self.broken, ".model-") {
            Leftovers::Model
        } else if has_entry(&self.broken.join("checkpoints"), "partial-") {
            Leftovers::Checkpoint
        } else {
            Leftovers::None
        })
    }

    /// Hashes of the weights and of the configuration, which has the chosen decoding settings and the calibration.
    fn hashes(&self, out: &Path) -> [String; 2] {
        ["model.safetensors", "config.json"].map(|name| sha256(&out.join(name)).expect("a model"))
    }
}

/// True if a folder has an entry whose name starts with this.
fn has_entry(folder: &Path, prefix: &str) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return false;
    };
    (entries.filter_map(Result::ok))
        .any(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
}
