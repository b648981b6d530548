//! nerzoo: a corpus goes in, a recogniser that finds flat and nested entities comes out, on whatever device you
//! have.
//!
//! ```text
//! corpus file ──data──▶ Sentence ──encoder──▶ word states ──head──▶ loss ──train──▶ checkpoint ──zoo──▶ bundle
//!                                                         └──head──▶ Mentions ──eval──▶ report   predict ◀──┘
//! ```
//!
//! Every arrow is a module, and arrows only point right: [`data`] knows nothing of tensors, [`heads`] nothing of
//! files, [`train`] nothing of any one paper, and [`cli`] knows everything and decides nothing.
//!
//! A model is an [`encoder`] and a head from [`heads`], together a [`model::recognizer::Recognizer`]. The one table of all
//! heads is [`registry::HEADS`]; whatever is trained is used through [`predict::Tagger`]:
//!
//! ```no_run
//! use nerzoo::data::words;
//! use nerzoo::{device, registry};
//!
//! # fn main() -> nerzoo::error::Result<()> {
//! let device = device::parse("auto")?;
//! let tagger = registry::load("runs/quickstart".as_ref(), &device, &Default::default())?;
//! let sentence = words::sentence("Marta Keller visited Lindholm.", Default::default());
//! for mention in &tagger.tag(std::slice::from_ref(&sentence))?[0] {
//!     let entity = &mention.entity;
//!     println!("{} is a {} ({:.2})", sentence.surface(entity.span), entity.label, mention.score);
//! }
//! # Ok(())
//! # }
//! ```

pub mod bench;
pub mod cli;
pub mod data;
pub mod device;
pub mod encoder;
pub mod error;
pub mod eval;
pub mod files;
pub mod heads;
pub mod model;
pub mod nn;
pub mod plot;
pub mod process;
pub mod recipe;
pub mod registry;
pub mod table;
pub mod text;
pub mod train;
pub mod zoo;
