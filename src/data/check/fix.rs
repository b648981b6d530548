//! Mended copies of files.
