//! Memory of training.

#[path = "common/counting.rs"]
mod counting;

use nerzoo::process::allocations::count;
use nerzoo::recipe::Recipe;
use nerzoo::train::Corpus;
use nerzoo::{device, registry};

#[test]
fn explore() {
    for file in std::env::var("EXPLORE").unwrap().split(',') {
        let words: usize = std::env::var("WORDS").unwrap().parse().unwrap();
        let (recipe, entry) = registry::resolve(Recipe::read(file.as_ref(), &[]).unwrap()).unwrap();
        let mut corpus = Corpus::load(&recipe, &["datasets".into()]).unwrap();
        let mut texts = corpus.train.iter().flat_map(|s| s.words.iter()).map(|w| w.text.clone()).cycle();
        corpus.train = (0..64).map(|_| nerzoo::text::Sentence::from_words(texts.by_ref().take(words))).collect();
        let (mut trainer, loaded) = count(|| (entry.trainer)(&recipe, corpus, &device::cpu()).unwrap());
        println!("{file} {words}: loaded {loaded:?}");
        for _ in 0..3 {
            let (_, step) = count(|| trainer.step().unwrap());
            println!("step {step:?}");
        }
    }
}
