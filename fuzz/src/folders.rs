//! Files that strangers may have made: recipes, manifests, weights, tokenizers, encoders and model folders.

use std::path::Path;

use nerzoo::device;
use nerzoo::encoder::tokenizer::WordTokenizer;
use nerzoo::encoder::{EncodedSentence, load, weight_files};
use nerzoo::model::manifest::{self, Manifest};
use nerzoo::model::weights_file;
use nerzoo::model::weights_reader::WeightsReader;
use nerzoo::recipe::Recipe;
use nerzoo::registry;
use nerzoo::text::Sentence;

use crate::input::{self, Input};

/// A recipe, then lines as for `--set`. A recipe that is accepted is written out and read again.
pub fn recipe(data: &[u8]) {
    let mut given = Input::new(data);
    let text = String::from_utf8_lossy(given.part());
    let sets = String::from_utf8_lossy(given.rest());
    let sets: Vec<String> = sets.lines().map(String::from).collect();
    let Ok(recipe) = Recipe::parse(&text, "recipe.toml", &sets) else {
        return;
    };
    let Ok((recipe, entry)) = registry::resolve(recipe) else {
        return;
    };
    (entry.check)(&recipe).expect("it was checked");
    (entry.reach)(&recipe).expect("it was checked");
    let written = recipe.to_toml().expect("a recipe is plain data");
    let again = Recipe::parse(&written, "again.toml", &[]).expect("what was written");
    assert_eq!(again.to_toml().expect("plain data"), written);
}

/// A manifest: no name in it leaves the folder.
pub fn manifest(data: &[u8]) {
    let path = input::file("manifest/manifest.json", data);
    let folder = path.parent().expect("it is in a folder");
    let Ok(found) = Manifest::read(folder) else {
        return;
    };
    for (name, record) in found.files() {
        let is_inside = Path::new(name)
            .components()
            .all(|part| matches!(part, std::path::Component::Normal(_)));
        assert!(is_inside && !name.is_empty(), "{name:?}");
        assert_eq!(record.sha256.len(), 64);
        let _ = found.check(folder, name);
    }
    let _ = found.require(&["config.json"], folder);
    let _ = manifest::verify(folder);
}

/// A file of weights, in safetensors or PyTorch's format.
pub fn weights(data: &[u8]) {
    let path = input::file("weights/model.safetensors", data);
    if let Ok(info) = weights_file::read(&path) {
        assert!(info.values as usize <= 8 * data.len());
        let mut reader = WeightsReader::open(&path).expect("its header was read");
        let names: Vec<String> = reader.metadata().tensors().into_keys().collect();
        for name in names {
            if let Ok(values) = reader.floats(&name) {
                assert!(values.len() <= data.len() && values.iter().all(|value| value.is_finite()));
            }
        }
        let _ = weights_file::write_half(&path, &input::path("weights/half.safetensors"));
    }
    if let Ok(tensors) = weight_files::file_weights(&path) {
        for tensor in tensors.values() {
            assert_eq!(tensor.shape.iter().product::<usize>(), tensor.values.len());
        }
    }
}

/// A `config.json` of a pretrained encoder.
pub fn encoder(data: &[u8]) {
    let path = input::file("encoder/config.json", data);
    if let Ok(config) = load::config(path.parent().expect("it is in a folder")) {
        assert!(
            config.heads > 0 && config.layers > 0 && config.vocabulary > 0,
            "{config:?}"
        );
    }
}

/// The parts of a model folder: `config.json`, `tokenizer.json` and `model.safetensors`, with a manifest that lists them. A
/// model that loads tags three sentences.
pub fn model(data: &[u8]) {
    let mut given = Input::new(data);
    let folder = input::path("model");
    let _ = std::fs::remove_dir_all(&folder);
    input::file("model/config.json", given.part());
    input::file("model/tokenizer.json", given.part());
    input::file("model/model.safetensors", given.rest());
    manifest::write(&folder).expect("a manifest");
    if registry::check_weights(&folder).is_err() {
        return;
    }
    let Ok(tagger) = registry::load(&folder, &device::cpu(), &[]) else {
        return;
    };
    let sentences = [
        "Ada Lovelace wrote it .",
        "x",
        "a b c d e f g h i j k l m n o p",
    ];
    let sentences = sentences.map(|text| Sentence::from_words(text.split(' ')));
    let Ok(all) = tagger.tag(&sentences) else {
        return;
    };
    for (sentence, mentions) in sentences.iter().zip(all) {
        for mention in mentions {
            let span = mention.entity.span;
            assert!(
                !span.is_empty() && span.end <= sentence.len(),
                "{mention:?}"
            );
            assert!((0.0..=1.0).contains(&mention.score), "{mention:?}");
        }
    }
}

/// A `tokenizer.json`, then words.
pub fn tokenizer(data: &[u8]) {
    let mut given = Input::new(data);
    let path = input::file("tokenizer.json", given.part());
    let Ok(tokenizer) = WordTokenizer::from_file(&path) else {
        return;
    };
    let words = String::from_utf8_lossy(given.rest());
    let words = words
        .split_whitespace()
        .chain(["Ada", "3.5", "北京", "e\u{301}", "👩‍🔬"]);
    let sentence = Sentence::from_words(words);
    let encoded = tokenizer.encode(std::slice::from_ref(&sentence));
    check(&encoded[0], &sentence, &tokenizer);
    let saved = input::path("saved.json");
    tokenizer.save(&saved).expect("a file");
    let again = WordTokenizer::from_file(&saved).expect("what was saved");
    assert_eq!(again.encode(std::slice::from_ref(&sentence)), encoded);
    assert_eq!(again.cls_id(), tokenizer.cls_id());
    assert_eq!(again.padding_id(), tokenizer.padding_id());
}

fn check(encoded: &EncodedSentence, sentence: &Sentence, tokenizer: &WordTokenizer) {
    assert_eq!(encoded.words(), sentence.len());
    assert!(encoded.counts().iter().all(|count| *count > 0));
    assert_eq!(encoded.starts.last(), Some(&encoded.ids.len()));
    let size = tokenizer.vocabulary_size();
    assert!(encoded.ids.iter().all(|id| (*id as usize) < size));
    for id in [
        tokenizer.cls_id(),
        tokenizer.sep_id(),
        tokenizer.padding_id(),
        tokenizer.unknown_id(),
    ] {
        assert!((id as usize) < size);
    }
}
