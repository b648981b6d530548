//! Training: recipes, batches, the loop, checkpoints.

pub mod batches;
pub mod bench;
mod claim;
pub mod corpus;
mod crew;
pub mod curves;
pub mod launch;
pub mod optimizer;
pub mod probe;
pub mod progress;
pub mod recipe;
pub mod resume;
pub mod run;
pub mod schedule;
pub mod step;
pub mod strategy;
