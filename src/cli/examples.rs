//! Examples at the end of each command's `--help`. A test parses every one of them.

use crate::registry;

/// The names of two heads of the zoo: the first that is flat, and the first that finds nested entities.
fn head_names() -> [&'static str; 2] {
    [false, true].map(|nested| {
        let found = registry::heads()
            .into_iter()
            .find(|entry| entry.nested == nested);
        found.map_or("HEAD", |entry| entry.name)
    })
}

pub const ALL: &str = "Examples:
  nerzoo train model-zoo/recipes/quickstart.toml
  echo 'Marta Keller visited Lindholm.' | nerzoo predict --model runs/quickstart -

`nerzoo COMMAND --help` has examples of each command; the book is in book/.";

pub const TRAIN: &str = "Examples:
  nerzoo train model-zoo/recipes/quickstart.toml
  nerzoo train mine.toml --set train.epochs=5 --seeds 1,2,3 --out runs/mine";

pub fn init() -> String {
    let [flat, nested] = head_names();
    format!(
        "Examples:
  nerzoo init --head {nested} --train train.conll --dev dev.conll --out mine.toml
  nerzoo init --head {flat} --corpus wnut17 --encoder bert-base-cased --out wnut17.toml"
    )
}

pub fn compare() -> String {
    let [flat, nested] = head_names();
    format!(
        "Examples:
  nerzoo compare --train train.conll --dev dev.conll --test test.conll --minutes 40
  nerzoo compare --corpus quickstart --heads {flat},{nested} --epochs 4"
    )
}

pub const EVALUATE: &str = "Examples:
  nerzoo evaluate runs/quickstart quickstart --split dev
  nerzoo evaluate runs/mine test.conll --sweep threshold";

pub const ANALYSE: &str = "Examples:
  nerzoo analyse --train wnut17:train --gold wnut17:test spans=runs/spans tags=runs/tags
  nerzoo analyse --train train.jsonl --gold test.jsonl mine=runs/mine other=predictions.jsonl --out runs/report.html";

pub const PREDICT: &str = "Examples:
  nerzoo predict texts.txt
  nerzoo predict --model runs/quickstart --format brat --out annotated texts.jsonl";

pub const SERVE: &str = "Examples:
  nerzoo serve
  nerzoo serve --model news=runs/news --model genia=runs/genia --host 0.0.0.0 --token-file token";

pub fn heads() -> String {
    let [_, nested] = head_names();
    format!("Examples:\n  nerzoo heads\n  nerzoo heads {nested}")
}

pub const DEVICES: &str = "Examples:
  nerzoo devices
  nerzoo devices --no-test --json";

pub const BENCH: &str = "Examples:
  nerzoo bench train model-zoo/recipes/quickstart.toml --steps 20
  nerzoo bench predict mine.toml --lengths 16,64,256 --out lengths.svg";

pub const WORKER: &str = "Examples:
  nerzoo worker --listen 127.0.0.1:7070 --token-file token
  nerzoo worker --listen 0.0.0.0:7070 --token-file token --device cuda:0,cuda:1";

pub const DATA_CHECK: &str = "Examples:
  nerzoo data check train.conll dev.conll test.conll
  nerzoo data check train.jsonl test.jsonl --fix repaired --fix-leaks";

pub const DATA_STATS: &str = "Examples:
  nerzoo data stats train.conll
  nerzoo data stats --rename PERSON=PER,MISC= train.conll dev.conll --json";

pub const DATA_CONVERT: &str = "Examples:
  nerzoo data convert train.conll train.jsonl
  nerzoo data convert annotations/ corpus.conll --into-scheme bioes --flat";

pub const DATA_SPLIT: &str = "Examples:
  nerzoo data split all.jsonl --out parts
  nerzoo data split all.conll --out parts --parts train=0.7,dev=0.15,test=0.15 --seed 2";

pub const DATA_MAKE: &str = "Examples:
  nerzoo data make --out made
  nerzoo data make --out small --train 200 --dev 50 --test 50 --seed 7";
