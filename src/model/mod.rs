//! A model: an encoder and a head, how it is used, and the folder it is kept in.

pub mod calibration;
pub mod card;
pub mod cut;
pub mod document;
pub mod folder;
pub mod import;
pub mod long_sentence;
pub mod manifest;
pub mod parameters;
pub mod parts;
pub mod quantize;
pub mod recognizer;
pub mod tagger;
pub mod weights_file;
pub mod weights_reader;
