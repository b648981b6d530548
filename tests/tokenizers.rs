//! Tokenizers of all kinds: the pieces that words have in running text, compared with what the reference implementation says
//! (`fixtures/tokenizers/make.py`), special pieces, and input that is hostile or odd.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nerzoo::encoder::tokenizer::WordTokenizer;
use nerzoo::text::Sentence;
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

#[derive(Deserialize)]
struct Expected {
    special: Special,
    sentences: Vec<ExpectedSentence>,
}

#[derive(Deserialize)]
struct Special {
    cls_token: u32,
    sep_token: u32,
    pad_token: u32,
}

#[derive(Deserialize)]
struct ExpectedSentence {
    words: Vec<String>,
    pieces: Vec<Vec<u32>>,
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/tokenizers")
        .join(name)
}

/// Every folder with an `expected.json`, sorted.
fn fixtures() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = fs::read_dir(fixture(""))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("expected.json").is_file())
        .collect();
    folders.sort();
    assert!(folders.len() > 10, "{folders:?}");
    folders
}

/// The pieces of each word.
fn pieces(tokenizer: &WordTokenizer, words: &[impl AsRef<str>]) -> Vec<Vec<u32>> {
    let words = words.iter().map(|word| word.as_ref().to_string());
    let encoded = &tokenizer.encode(&[Sentence::from_words(words)])[0];
    let starts = encoded.starts.windows(2);
    starts
        .map(|pair| encoded.ids[pair[0]..pair[1]].to_vec())
        .collect()
}

fn assert_as_expected(tokenizer: &WordTokenizer, expected: &Expected, what: &str) {
    let special = &expected.special;
    assert_eq!(tokenizer.cls_id(), special.cls_token, "{what}");
    assert_eq!(tokenizer.sep_id(), special.sep_token, "{what}");
    assert_eq!(tokenizer.padding_id(), special.pad_token, "{what}");
    for sentence in &expected.sentences {
        let found = pieces(tokenizer, &sentence.words);
        for (index, word) in sentence.words.iter().enumerate() {
            let text = |ids: &[u32]| -> Vec<String> {
                ids.iter()
                    .map(|id| tokenizer.piece(*id).unwrap_or_default())
                    .collect()
            };
            assert_eq!(
                text(&found[index]),
                text(&sentence.pieces[index]),
                "{what} {word:?}"
            );
            assert_eq!(found[index], sentence.pieces[index], "{what} {word:?}");
        }
    }
}

#[test]
fn words_have_the_pieces_of_running_text() {
    for folder in fixtures() {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(folder.join("expected.json")).unwrap();
        let expected: Expected = serde_json::from_str(&text).unwrap();
        let tokenizer = WordTokenizer::from_folder(&folder).unwrap();
        assert_as_expected(&tokenizer, &expected, &name);
        // A model folder has the tokenizer alone.
        let saved = tempfile::tempdir().unwrap();
        let path = saved.path().join("tokenizer.json");
        tokenizer.save(&path).unwrap();
        let again = WordTokenizer::from_file(&path).unwrap();
        assert_as_expected(&again, &expected, &format!("{name}, saved"));
        let twice = saved.path().join("again.json");
        again.save(&twice).unwrap();
        let [one, other] = [path, twice].map(|path| fs::read(path).unwrap());
        assert!(one == other, "{name} is saved differently the second time");
    }
}

/// A copy of a fixture that can be changed.
fn copy(name: &str) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(fixture(name)).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    copy
}

fn read_json(folder: &Path, file: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(folder.join(file)).unwrap()).unwrap()
}

/// The fixture's tokenizer with a changed `tokenizer.json`.
fn changed(name: &str, change: impl FnOnce(&mut Value)) -> Result<WordTokenizer, String> {
    let folder = copy(name);
    let mut json = read_json(folder.path(), "tokenizer.json");
    change(&mut json);
    fs::write(folder.path().join("tokenizer.json"), json.to_string()).unwrap();
    load(folder.path())
}

fn load(folder: &Path) -> Result<WordTokenizer, String> {
    WordTokenizer::from_folder(folder).map_err(|problem| problem.to_string())
}

fn assert_mentions(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
}

#[test]
fn a_folder_with_another_vocabulary_is_explained() {
    for name in [
        "spm.model",
        "spiece.model",
        "sentencepiece.bpe.model",
        "vocab.json",
    ] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(name), [0u8; 10]).unwrap();
        let message = load(folder.path()).unwrap_err();
        let remedy = ["AutoTokenizer.from_pretrained", "save_pretrained"];
        assert_mentions(&message, &[name, "no tokenizer.json"]);
        assert_mentions(&message, &remedy);
        // With tokenizer.json beside it, it is not needed.
        let expected = fixture("albert").join("tokenizer.json");
        fs::copy(expected, folder.path().join("tokenizer.json")).unwrap();
        load(folder.path()).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let message = load(folder.path()).unwrap_err();
    assert_mentions(
        &message,
        &["neither tokenizer.json nor vocab.txt", "save_pretrained"],
    );
}

#[test]
fn special_pieces_that_cannot_be_found_are_named() {
    let template = |single: Value| {
        json!({"type": "TemplateProcessing", "single": single, "pair": [], "special_tokens": {
            "x": {"id": "x", "ids": [99_999], "tokens": ["x"]},
            "y": {"id": "y", "ids": [1, 2], "tokens": ["a", "b"]},
        }})
    };
    let special = |id: &str| json!({"SpecialToken": {"id": id, "type_id": 0}});
    let text = json!({"Sequence": {"id": "A", "type_id": 0}});
    let message = changed("xlm-roberta", |json| {
        json["post_processor"] = template(json!([special("x"), text]));
    });
    assert_mentions(&message.unwrap_err(), &["tokenizer.json", "99999"]);
    let message = changed("xlm-roberta", |json| {
        json["post_processor"] = template(json!([special("y"), text]));
    });
    assert_mentions(
        &message.unwrap_err(),
        &["post-processor", "2 special pieces"],
    );
    // One side of the template is enough; the other one has its usual name.
    let tokenizer = changed("xlm-roberta", |json| json["post_processor"] = Value::Null).unwrap();
    assert_eq!((tokenizer.cls_id(), tokenizer.sep_id()), (0, 2));

    let folder = copy("own-names");
    fs::remove_file(folder.path().join("tokenizer_config.json")).unwrap();
    let message = load(folder.path()).unwrap_err();
    assert_mentions(
        &message,
        &[
            "tokenizer.json",
            "[CLS]",
            "cls_token",
            "tokenizer_config.json",
        ],
    );
    fs::write(folder.path().join("tokenizer_config.json"), "{\"cls").unwrap();
    assert_mentions(
        &load(folder.path()).unwrap_err(),
        &["tokenizer_config.json"],
    );
    fs::write(folder.path().join("tokenizer_config.json"), "[1]").unwrap();
    assert!(load(folder.path()).is_err());
}

/// Names that the vocabulary does not have are passed over.
#[test]
fn hints_that_do_not_fit_are_ignored() {
    let folder = copy("mpnet");
    let hints =
        json!({"cls_token": "[BEGIN]", "pad_token": {"content": "[NOTHING]"}, "unk_token": 7});
    fs::write(
        folder.path().join("tokenizer_config.json"),
        hints.to_string(),
    )
    .unwrap();
    let tokenizer = load(folder.path()).unwrap();
    assert_eq!(
        [
            tokenizer.cls_id(),
            tokenizer.sep_id(),
            tokenizer.padding_id()
        ],
        [0, 2, 1]
    );
}

#[test]
fn settings_for_whole_texts_do_not_matter() {
    let words = ["Lindholmbankstreet", "sings", "in", "the", "streets"];
    let plain = pieces(&load(&fixture("roberta")).unwrap(), &words);
    let tokenizer = changed("roberta", |json| {
        json["truncation"] = json!({
            "direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0
        });
        json["padding"] = json!({
            "strategy": {"Fixed": 1000}, "direction": "Left", "pad_to_multiple_of": null, "pad_id": 1, "pad_type_id": 0,
            "pad_token": "<pad>"
        });
        json["model"]["dropout"] = 0.7.into();
    });
    let tokenizer = tokenizer.unwrap();
    assert_eq!(pieces(&tokenizer, &words), plain);
    assert_eq!(tokenizer.padding_id(), 1);
    for repeat in 0..20 {
        // Words that are not in the cache.
        let words = words.map(|word| format!("{word}{repeat}"));
        let plain = pieces(&load(&fixture("roberta")).unwrap(), &words);
        assert_eq!(pieces(&tokenizer, &words), plain);
    }
}

#[test]
fn vocab_txt_has_the_settings_of_the_files_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ne\n##t\né\nE\nÉ\n東\n##東\n##e\n";
    fs::write(folder.path().join("vocab.txt"), vocabulary).unwrap();
    let found = |settings: Value| {
        fs::write(
            folder.path().join("tokenizer_config.json"),
            settings.to_string(),
        )
        .unwrap();
        let tokenizer = load(folder.path()).unwrap();
        let text = |ids: Vec<u32>| -> Vec<String> {
            ids.iter().map(|id| tokenizer.piece(*id).unwrap()).collect()
        };
        pieces(&tokenizer, &["Ét", "e東"])
            .into_iter()
            .map(text)
            .collect::<Vec<_>>()
    };
    assert_eq!(found(json!({})), [vec!["e", "##t"], vec!["e", "東"]]);
    assert_eq!(found(json!({"strip_accents": false}))[0], ["é", "##t"]);
    assert_eq!(found(json!({"do_lower_case": false}))[0], ["É", "##t"]);
    assert_eq!(
        found(json!({"do_lower_case": false, "strip_accents": true}))[0],
        ["E", "##t"]
    );
    assert_eq!(
        found(json!({"tokenize_chinese_chars": false}))[1],
        ["e", "##東"]
    );
}

/// The shortest of three times to split a word that is `length` characters long and not in the cache.
fn time(tokenizer: &WordTokenizer, part: &str, length: usize) -> Duration {
    let time = |number: usize| {
        let word: String = part
            .chars()
            .cycle()
            .take(length)
            .chain(number.to_string().chars())
            .collect();
        let start = Instant::now();
        let found = pieces(tokenizer, &[word]);
        assert!(!found[0].is_empty());
        start.elapsed()
    };
    (0..3).map(time).min().unwrap()
}

#[test]
fn long_words_take_linear_time() {
    for folder in fixtures() {
        let tokenizer = load(&folder).unwrap();
        for part in [
            "x",
            "bank",
            "\u{301}",
            "e\u{301}",
            "東",
            " ",
            "a ",
            ".",
            "\u{200d}",
            "'s ",
            "\u{10fffd}",
        ] {
            // Eight times as long; quadratic time would be 64 times as much. Other programs may interfere.
            let is_linear = |_| {
                let (short, long) = (time(&tokenizer, part, 1024), time(&tokenizer, part, 8192));
                long < 30 * short || long < Duration::from_millis(20)
            };
            assert!((0..5).any(is_linear), "{} {part:?}", folder.display());
        }
    }
    // A vocabulary of words that gives up only very long ones itself.
    let limited = |most: u32| {
        changed("mpnet", |json| {
            json["model"]["max_input_chars_per_word"] = most.into();
        })
    };
    let long = time(&limited(1000).unwrap(), "x", 10_000);
    assert!(long < Duration::from_secs(5), "{long:?}");
    let problem = limited(u32::MAX).unwrap_err().to_string();
    assert!(problem.contains("max_input_chars_per_word"), "{problem}");
}

/// Every value of a file, replaced by others: an error or a tokenizer that works.
#[test]
fn hostile_files_do_no_harm() {
    let words = [
        "Anna",
        "Lindholm",
        "東京",
        "\u{10fffd}",
        "[MASK]",
        " ",
        "",
        "e\u{301}",
    ];
    let others = [
        json!(null),
        json!(u64::MAX),
        json!(-1),
        json!(""),
        json!([]),
        json!({}),
        json!("\u{0}x"),
    ];
    for name in [
        "albert",
        "modernbert",
        "mpnet",
        "deberta-v3",
        "marks-by-normalizer",
    ] {
        let folder = copy(name);
        let json = read_json(folder.path(), "tokenizer.json");
        let mut paths = Vec::new();
        collect_paths(&json, String::new(), &mut paths);
        for (number, path) in paths.iter().enumerate() {
            // Two of the values for each path, so that this takes seconds.
            for other in [
                &others[number % others.len()],
                &others[(number / 7 + 3) % others.len()],
            ] {
                let mut json = json.clone();
                *json.pointer_mut(path).unwrap() = other.clone();
                fs::write(folder.path().join("tokenizer.json"), json.to_string()).unwrap();
                if let Ok(tokenizer) = load(folder.path()) {
                    let found = pieces(&tokenizer, &words);
                    assert!(
                        found.iter().all(|ids| !ids.is_empty()),
                        "{name} {path} {other}"
                    );
                    tokenizer.save(&folder.path().join("saved.json")).unwrap();
                }
            }
        }
    }
}

/// The paths of all values, of long lists and tables only the first ones.
fn collect_paths(json: &Value, path: String, found: &mut Vec<String>) {
    let list: Vec<(String, &Value)> = match json {
        Value::Array(list) => list
            .iter()
            .enumerate()
            .map(|(index, value)| (index.to_string(), value))
            .collect(),
        Value::Object(table) => table
            .iter()
            .map(|(key, value)| (key.clone(), value))
            .collect(),
        _ => Vec::new(),
    };
    for (key, value) in list.into_iter().take(12) {
        let key = key.replace('~', "~0").replace('/', "~1");
        let path = format!("{path}/{key}");
        found.push(path.clone());
        collect_paths(value, path, found);
    }
}
