//! Trained models by name.
