//! Finds the entities of a text with a trained model.
//!
//! ```text
//! cargo run --release --example tag -- runs/quickstart "Marta Keller visited Lindholm."
//! ```

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(model), Some(text)) = (arguments.next(), arguments.next()) else {
        return Err(
            "usage: tag MODEL TEXT, where MODEL is a model folder as `nerzoo train` writes it"
                .into(),
        );
    };

    // ANCHOR: use
    let tagger = nerzoo::load(&model)?;
    for mention in tagger.tag_text(&text)? {
        println!(
            "{:>4}..{:<4} {:.2} {:<12} {}",
            mention.start, mention.end, mention.score, mention.label, mention.text
        );
    }
    // ANCHOR_END: use
    Ok(())
}
