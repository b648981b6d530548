//! Training: from a recipe to a model folder, resumable at any step.
//!
//! [`train`] prepares a run ([`prepare`]), takes its folder (`run_folder`), runs the training loop
//! (`training_loop`, called by Burn through `strategy`) and writes the model folder. Everything that changes while a
//! run goes on is one [`RunState`], saved with every checkpoint.

pub mod average;
pub mod batches;
mod calibrate;
pub mod checkpoints;
pub mod corpus;
pub mod curves;
mod device_pool;
pub mod loss_scale;
pub mod memory;
pub mod optimizer;
pub mod prepare;
pub mod progress;
pub mod run;
mod run_folder;
pub mod schedule;
pub mod shape_counter;
pub mod state;
pub mod step;
mod strategy;
pub mod trainer;
mod training_loop;
pub mod tune;

pub use checkpoints::load_checkpoint;
pub use corpus::Corpus;
pub use run::{Finished, ProgressOutput, TrainOptions, train, train_until};
pub use state::RunState;
pub use trainer::{Inspection, Trainer, trainer};
