//! Trained models as folders: written whole, checked by hash, described by a card.

pub mod import;
