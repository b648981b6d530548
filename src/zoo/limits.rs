//! How large the files of a fetched model may be.

use crate::model::manifest;

/// Most bytes of a fetched model by default.
pub const LARGEST_MODEL: u64 = 8_000_000_000;
/// Most bytes of a tokenizer.
const LARGEST_TOKENIZER: u64 = 256 << 20;
/// Most bytes of a description, a recipe, scores or a card.
const LARGEST_TEXT: u64 = 64 << 20;

/// Most bytes of a file by its name, if all of a model may have `largest`.
pub(super) fn largest_file(name: &str, largest: u64) -> u64 {
    let limit = match name {
        manifest::FILE => manifest::LONGEST,
        "tokenizer.json" => LARGEST_TOKENIZER,
        "config.json" | "recipe.toml" | "metrics.json" | "README.md" => LARGEST_TEXT,
        _ => u64::MAX,
    };
    limit.min(largest)
}
