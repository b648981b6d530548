//! nerzoo: train named-entity-recognition models, flat and nested, on any device, and use them.
//!
//! ```text
//! corpus file ─data─▶ Sentence ─encoder─▶ word states ─head─▶ loss ─train─▶ checkpoint ─model─▶ model folder
//!                                                    └─head─▶ Mentions ─eval─▶ report     predict ◀──┘
//! ```
//!
//! Using a model takes three lines:
//!
//! ```no_run
//! # fn main() -> nerzoo::error::Result<()> {
//! let tagger = nerzoo::load("runs/quickstart")?;
//! for mention in tagger.tag_text("Marta Keller visited Lindholm.")? {
//!     println!("{} is a {} ({:.2})", mention.text, mention.label, mention.score);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A model is an [`encoder`] and a head from [`heads`], together a [`model::recognizer::Recognizer`]. The table of all
//! heads is [`registry`], to which a program can add heads of its own. Whatever the head, a model is used through
//! [`model::tagger::Tagger`].
//!
//! `examples/` has complete programs: `tag.rs` uses a model, `train.rs` trains one, `own_head.rs` adds a head.
//!
//! Cargo features: `cli` (default) is the program; `train` alone gives training without the program; without either, the
//! library only loads and runs models. `hub`, part of `cli`, downloads models by name; `serve`, part of `cli`, is the HTTP
//! service. `vulkan`, `wgpu`, `cuda`, `ndarray`
//! and `remote` add devices.
//!
//! Each module uses only those above it in this list: [`error`], [`text`], [`table`], [`files`], [`process`]; [`data`],
//! [`hub`], [`device`], [`nn`], [`encoder`], [`heads`], [`recipe`], [`model`], [`eval`], [`plot`], `train`, [`registry`],
//! [`zoo`], `experiment`, `bench`, `serve`, `cli`.

#[cfg(feature = "train")]
pub mod bench;
#[cfg(feature = "cli")]
pub mod cli;
pub mod data;
pub mod device;
pub mod encoder;
pub mod error;
pub mod eval;
#[cfg(feature = "train")]
pub mod experiment;
pub mod files;
pub mod heads;
pub mod hub;
pub mod model;
pub mod nn;
pub mod plot;
pub mod process;
pub mod recipe;
pub mod registry;
#[cfg(feature = "serve")]
pub mod serve;
pub mod table;
pub mod text;
#[cfg(feature = "train")]
pub mod train;
pub mod zoo;

pub use model::tagger::{Tagger, TextMention};
pub use zoo::load;
