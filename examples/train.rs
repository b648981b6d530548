//! Trains a small model from Rust, without the command line, and uses it.
//!
//! ```text
//! cargo run --release --example train            # into a temporary folder
//! cargo run --release --example train -- my-run  # into a folder that examples/tag.rs can use
//! ```

use std::error::Error;
use std::path::{Path, PathBuf};

use nerzoo::recipe::Recipe;
use nerzoo::registry;
use nerzoo::train::{ProgressOutput, TrainOptions};

fn main() -> Result<(), Box<dyn Error>> {
    // ANCHOR: train
    // A recipe and changes to it, as `--set` makes them: a smaller encoder and fewer sentences, to finish in seconds.
    let changes = [
        "encoder.scratch.width=64",
        "encoder.scratch.layers=1",
        "data.limit=600",
        "train.epochs=2",
        "train.learning_rate=0.003",
    ];
    let recipe = Recipe::read(
        Path::new("model-zoo/recipes/quickstart.toml"),
        &changes.map(String::from),
    )?;

    // The registry knows the head that the recipe names.
    let (recipe, entry) = registry::resolve(recipe)?;

    // The run folder receives checkpoints during training and the finished model at the end.
    let temporary = tempfile::tempdir()?;
    let folder = std::env::args()
        .nth(1)
        .map_or(temporary.path().into(), PathBuf::from);
    let options = TrainOptions {
        output: ProgressOutput::Lines,
        ..TrainOptions::new(recipe, folder)
    };
    let finished = (entry.train)(&options)?;
    // ANCHOR_END: train

    if let Some(test) = &finished.test {
        println!("test F1: {:.2}", 100.0 * test.overall.f1());
    }
    for mention in finished
        .tagger
        .tag_text("Marta Keller visited Lindholm in May 1998 .")?
    {
        println!(
            "{} is a {} ({:.2})",
            mention.text, mention.label, mention.score
        );
    }
    Ok(())
}
