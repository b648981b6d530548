//! Training: recipes, batches, the loop, checkpoints.

pub mod batches;
pub mod checkpoints;
mod claim;
pub mod corpus;
pub mod curves;
mod device_pool;
pub mod inspect;
pub mod launch;
pub mod optimizer;
pub mod progress;
pub mod run;
pub mod schedule;
pub mod step;
pub mod strategy;
