//! Fuzzing with libFuzzer: `nerzoo-fuzz` takes libFuzzer's options, and `NERZOO_FUZZ_TARGET` names the target.
//!
//! A target is a function that takes any bytes. It must not panic, and must not need much time or memory; whatever else has to
//! hold it asserts. `.ci/fuzz` builds and runs all targets.

#![no_main]

mod decoders;
mod folders;
mod input;
mod memory;
mod readers;
mod requests;
mod tags;
mod texts;

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

use memory::LimitedAllocator;

#[global_allocator]
static ALLOCATOR: LimitedAllocator = LimitedAllocator;

/// A function that takes any bytes.
type Target = fn(&[u8]);

/// The targets: name, function, and the bytes that an input may make the program allocate at the same time, apart from
/// [`BYTES_PER_BYTE`] for each byte of the input.
const TARGETS: &[(&str, Target, usize)] = &[
    ("columns", readers::columns, 64 << 20),
    ("words_json", readers::words_json, 64 << 20),
    ("text_json", readers::text_json, 64 << 20),
    ("spacy", readers::spacy, 64 << 20),
    ("webanno", readers::webanno, 64 << 20),
    ("conllu", readers::conllu, 64 << 20),
    ("biomedical", readers::biomedical, 64 << 20),
    ("csv", readers::csv, 64 << 20),
    ("parquet", readers::parquet, 64 << 20),
    ("brat", readers::brat, 64 << 20),
    ("detect", readers::detect, 128 << 20),
    ("tags", tags::tags, 16 << 20),
    ("sentences", texts::sentences, 16 << 20),
    ("predictions", texts::predictions, 16 << 20),
    ("recipe", folders::recipe, 32 << 20),
    ("manifest", folders::manifest, 16 << 20),
    ("weights", folders::weights, 64 << 20),
    ("encoder", folders::encoder, 64 << 20),
    ("model", folders::model, 512 << 20),
    ("tokenizer", folders::tokenizer, 256 << 20),
    ("decoders", decoders::decoders, 256 << 20),
    ("requests", requests::requests, 128 << 20),
];

/// Bytes that may be allocated for each byte of an input.
const BYTES_PER_BYTE: usize = 2000;

fn target() -> &'static (&'static str, Target, usize) {
    static TARGET: OnceLock<&(&str, Target, usize)> = OnceLock::new();
    TARGET.get_or_init(|| {
        let name = std::env::var("NERZOO_FUZZ_TARGET").unwrap_or_default();
        TARGETS
            .iter()
            .find(|target| target.0 == name)
            .unwrap_or_else(|| {
                let names: Vec<&str> = TARGETS.iter().map(|target| target.0).collect();
                eprintln!("set NERZOO_FUZZ_TARGET to one of: {}", names.join(" "));
                std::process::exit(2);
            })
    })
}

fuzz_target!(
    init: {
        target();
    },
    |data: &[u8]| {
        let (_, run, limit) = target();
        let before = memory::start();
        run(data);
        let used = memory::peak() - before;
        assert!(used < limit + BYTES_PER_BYTE * data.len(), "{used} bytes for an input of {}", data.len());
    }
);
