//! Trained models as folders: written whole, checked by hash, described by a card.

pub mod bundle;
pub mod card;
pub mod import;
pub mod manifest;
