//! nerzoo: train named-entity-recognition models, flat and nested, on any device, and use them.
//!
//! ```text
//! corpus file ─data─▶ Sentence ─encoder─▶ word states ─head─▶ loss ─train─▶ checkpoint ─model─▶ model folder
//!                                                    └─head─▶ Mentions ─eval─▶ report     predict ◀──┘
//! ```
//!
//! **Use a model.** [`load`] takes a folder, a name of the zoo, or `hf:OWNER/NAME`:
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
//! **Read a corpus** in any format, and count what is in it:
//!
//! ```
//! use nerzoo::data::{self, ReadOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let path = std::path::Path::new("datasets/quickstart/dev.jsonl");
//! let sentences = data::read(path, &ReadOptions::default())?;
//! let entities: usize = sentences.iter().map(|sentence| sentence.entities.len()).sum();
//! assert_eq!((sentences.len(), entities), (300, 952));
//! # Ok(())
//! # }
//! ```
//!
//! **Check a recipe**, with a change as `--set` makes it; `(entry.train)` then trains it (see `examples/train.rs`):
//!
//! ```
//! use nerzoo::recipe::Recipe;
//! use nerzoo::registry;
//!
//! # fn main() -> nerzoo::error::Result<()> {
//! let path = std::path::Path::new("model-zoo/recipes/quickstart.toml");
//! let recipe = Recipe::read(path, &["train.epochs=2".into()])?;
//! let (recipe, entry) = registry::resolve(recipe)?;
//! (entry.check)(&recipe)?;
//! assert_eq!((recipe.train.epochs, entry.nested), (2, true));
//! # Ok(())
//! # }
//! ```
//!
//! # Where things are
//!
//! | to | see |
//! |---|---|
//! | use a model | [`load`], [`Tagger`], [`registry::load`] for a device and settings of your choice |
//! | read, check and write corpora | [`data`], [`data::read`], [`data::write`] |
//! | train | [`recipe::Recipe`], [`registry::resolve`], `train::TrainOptions` |
//! | score | [`eval`] |
//! | add a head | [`heads::Head`], [`registry::add`], `examples/own_head.rs` |
//! | publish and fetch | [`zoo`] |
//! | serve | `serve::Server` |
//!
//! A model is an [`encoder`] and a head from [`heads`], together a [`model::recognizer::Recognizer`]. The table of all
//! heads is [`registry`], to which a program can add heads of its own. Whatever the head, a model is used through
//! [`model::tagger::Tagger`]. The book (`book/` in the repository) explains the rest.
//!
//! Cargo features: `cli` (default) is the program; `train` alone gives training without the program; without either, the
//! library only loads and runs models. `hub`, part of `cli`, downloads models by name; `serve`, part of `cli`, is the HTTP
//! service. `vulkan`, `wgpu`, `cuda`, `ndarray` and `remote` add devices.
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
