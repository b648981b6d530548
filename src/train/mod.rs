//! Training: recipes, batches, the loop, checkpoints.

pub mod batches;
pub mod corpus;
pub mod curves;
pub mod launch;
pub mod optimizer;
pub mod progress;
pub mod recipe;
pub mod resume;
pub mod step;
pub mod strategy;
