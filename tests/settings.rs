//! Settings through the command line: `nerzoo heads` lists them, `--set`, `--sweep` and `--diagnose` use those of a trained
//! model.

#![cfg(feature = "cli")]

mod common;

use std::path::Path;

use common::program::{RECIPE, fails, json, nerzoo_with_input, succeeds, text, trained, write};
use nerzoo::registry;
use serde_json::Value;

/// DiffusionNER in a small size.
const DIFFUSION: [&str; 8] = [
    "head.name=diffusion_ner",
    "head.spans=10",
    "head.steps=1",
    "head.timesteps=50",
    "head.heads=2",
    "head.feed_forward=32",
    "data.limit=16",
    "train.epochs=1",
];

/// The first sentences of the quickstart corpus in a file.
fn few_sentences(folder: &Path) -> String {
    let all = std::fs::read_to_string("datasets/quickstart/dev.jsonl").unwrap();
    let few: String = all
        .lines()
        .take(12)
        .map(|line| format!("{line}\n"))
        .collect();
    write(folder, "few.jsonl", few.as_bytes())
}

/// The number of mentions that `predict` finds with these arguments.
fn mentions(model: &str, file: &str, more: &[&str]) -> usize {
    let output = succeeds(&[&["predict", "--model", model, file][..], more].concat());
    let printed = text(&output.stdout);
    let lines = printed
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines
        .map(|line| line["entities"].as_array().unwrap().len())
        .sum()
}

#[test]
fn heads_are_listed() {
    let listed = json(&["heads", "--json"]);
    let names: Vec<&str> = (listed.as_array().unwrap().iter())
        .map(|head| head["name"].as_str().unwrap())
        .collect();
    let expected: Vec<&str> = registry::heads().iter().map(|entry| entry.name).collect();
    assert_eq!(names, expected);
    let table = text(&succeeds(&["heads"]).stdout);
    for entry in registry::heads() {
        let line = table
            .lines()
            .find(|line| line.split_whitespace().next() == Some(entry.name));
        let line = line.unwrap_or_else(|| panic!("no {} in:\n{table}", entry.name));
        assert!(
            line.contains(if entry.nested { "nested" } else { "flat" }),
            "{line}"
        );
    }
    fails(&["heads", "bopm"], &["bopm", "did you mean \"bopn\""]);
}

#[test]
fn settings_of_every_head_are_listed() {
    for entry in registry::heads() {
        let listed = json(&["heads", entry.name, "--json"]);
        let listed = listed.as_array().unwrap();
        assert_eq!(listed.len(), (entry.settings)().len(), "{}", entry.name);
        let printed = text(&succeeds(&["heads", entry.name]).stdout);
        for setting in listed {
            let name = setting["name"].as_str().unwrap();
            let what = format!("{} {name}", entry.name);
            for key in ["doc", "type"] {
                let value = setting[key].as_str().unwrap();
                assert!(!value.is_empty(), "{what}: {key}");
                assert!(printed.contains(value), "{what}: {value}");
            }
            let defaults = setting["defaults"].as_object().unwrap();
            assert!(!defaults.is_empty(), "{what}");
            assert!(defaults.values().all(|value| !value.is_null()), "{what}");
            assert!(setting["at_inference"].is_boolean(), "{what}");
            assert!(printed.lines().any(|line| line.starts_with(name)), "{what}");
        }
    }
}

#[test]
fn settings_of_bopn_have_a_default_in_both_presets() {
    let listed = json(&["heads", "bopn", "--json"]);
    let find = |name: &str| {
        let mut settings = listed.as_array().unwrap().iter();
        settings
            .find(|setting| setting["name"] == name)
            .unwrap()
            .clone()
    };
    for setting in listed.as_array().unwrap() {
        for preset in ["paper", "released"] {
            let default = &setting["defaults"][preset];
            assert!(!default.is_null(), "{}: {preset}", setting["name"]);
        }
    }
    assert_eq!(find("decode")["at_inference"], true);
    assert_eq!(find("lstm_width")["at_inference"], false);
    assert_eq!(find("lstm_width")["type"], "integer");
    assert_eq!(find("preset")["type"], "paper | released");
}

#[test]
fn an_old_spelling_still_trains() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = write(folder.path(), "recipe.toml", RECIPE.as_bytes());
    let out = folder.path().join("run").display().to_string();
    let sets = [&DIFFUSION[..], &["head.initial=even"]].concat();
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    let output = succeeds(&[&["train", &recipe, "--out", &out][..], &sets].concat());
    let warning = text(&output.stderr);
    let expected = "initial = \"even\" is now written initial = \"uniform\"";
    assert!(warning.contains(expected), "{warning}");
    let written = std::fs::read_to_string(Path::new(&out).join("recipe.toml")).unwrap();
    assert!(written.contains("initial = \"uniform\""), "{written}");
}

#[test]
fn settings_of_a_trained_model_can_change() {
    let folder = tempfile::tempdir().unwrap();
    let out = trained(folder.path(), &DIFFUSION);
    let file = few_sentences(folder.path());

    // The sum of three probabilities is never more than 3 and never less than 0.
    let none = mentions(&out, &file, &["--set", "head.threshold=3.0"]);
    let all = mentions(&out, &file, &["--set", "head.threshold=0.0"]);
    assert_eq!(none, 0);
    assert!(all > 0);
    let filtered = mentions(
        &out,
        &file,
        &["--set", "head.threshold=0.0", "--threshold", "1"],
    );
    assert!(filtered < all);
    for no_score in ["1.1", "-0.1", "nan"] {
        let threshold = format!("--threshold={no_score}");
        fails(
            &["predict", "--model", &out, &file, &threshold],
            &["from 0 to 1"],
        );
    }

    let evaluate = ["evaluate", &out, &file, "--json"];
    let scores = |sets: &[&str]| json(&[&evaluate[..], sets].concat());
    let lowest = scores(&["--set", "head.threshold=0.0", "--set", "head.steps=2"]);
    assert!(lowest["support"].as_u64().unwrap() > 0);
    assert_eq!(scores(&["--set", "head.threshold=3.0"])["recall"], 0.0);

    let plot = folder.path().join("plot.svg").display().to_string();
    let sweep = [
        "--sweep",
        "head.steps=1,2,5",
        "--sweep",
        "head.spans=5,10",
        "--out",
        &plot,
    ];
    let rows = scores(&sweep);
    let combinations: Vec<(i64, i64)> = (rows.as_array().unwrap().iter())
        .map(|row| {
            assert!(row["f1"].is_number() && row["sentences_per_second"].is_number());
            (
                row["head.steps"].as_i64().unwrap(),
                row["head.spans"].as_i64().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        combinations,
        [(1, 5), (1, 10), (2, 5), (2, 10), (5, 5), (5, 10)]
    );
    assert!(std::fs::read_to_string(&plot).unwrap().contains("<svg"));
    for key in ["head.threshold", "threshold"] {
        let found = scores(&["--sweep", key]);
        assert!(found.to_string().contains("threshold"), "{found}");
        let table = succeeds(&["evaluate", &out, &file, "--sweep", key]);
        assert!(text(&table.stdout).contains("best"));
    }
    let problem = ["--sweep", "head.timesteps=10,20"];
    fails(
        &[&evaluate[..], &problem].concat(),
        &["head.timesteps", "cannot change"],
    );
}

#[test]
fn settings_that_cannot_change_after_training_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let out = trained(folder.path(), &["data.limit=16", "train.epochs=1"]);
    let file = few_sentences(folder.path());
    let model = format!("base={out}");
    let report = folder.path().join("report.html").display().to_string();
    let commands: [&[&str]; 3] = [
        &["predict", "--model", &out, &file],
        &["evaluate", &out, &file],
        &[
            "analyse", "--train", &file, "--gold", &file, &model, "--out", &report,
        ],
    ];
    for command in commands {
        for (set, parts) in [
            (
                "head.decoder=crf",
                ["head.decoder", "cannot change", "head.combiner"],
            ),
            (
                "head.dropout=0.5",
                ["head.dropout", "cannot change", "head.combiner"],
            ),
            (
                "train.batch=4",
                ["train.batch", "cannot change", "head.combiner"],
            ),
            (
                "encoder.overlap=4",
                ["encoder.overlap", "cannot change", "head.combiner"],
            ),
            (
                "head.combinr=strict",
                ["head.combinr", "no such setting", "head.combiner"],
            ),
            (
                "head.combiner=strct",
                ["combiner", "did you mean", "strict"],
            ),
        ] {
            fails(&[command, &["--set", set]].concat(), &parts);
        }
        succeeds(&[command, &["--set", "head.combiner=strict"]].concat());
    }
}

/// Settings of heads have no flags of their own.
#[test]
fn flags_of_single_heads_are_gone() {
    for (verb, flag) in [
        ("evaluate", "--decode"),
        ("evaluate", "--head"),
        ("evaluate", "--offsets"),
        ("evaluate", "--sweep-threshold"),
        ("evaluate", "--sweep-steps"),
        ("evaluate", "--sweep-spans"),
        ("predict", "--decode"),
        ("predict", "--spans"),
        ("predict", "--steps"),
        ("predict", "--phi"),
        ("predict", "--head"),
        ("analyse", "--head"),
    ] {
        fails(
            &[verb, flag, "1"],
            &[&format!("unexpected argument '{flag}'")],
        );
    }
}

#[test]
fn a_bundle_is_used_by_either_head() {
    let folder = tempfile::tempdir().unwrap();
    let out = trained(folder.path(), &["head.name=bl_ner", "data.limit=40"]);
    let file = few_sentences(folder.path());
    let found = json(&["evaluate", &out, &file, "--diagnose", "--json"]);
    let labels: Vec<&str> = (found["evidence"].as_array().unwrap().iter())
        .map(|evidence| evidence["name"].as_str().unwrap())
        .collect();
    assert_eq!(labels, ["seq_ner"]);

    let report = folder.path().join("report.html").display().to_string();
    let models = [format!("span={out}"), format!("tagger={out}")];
    let analyse = [
        "analyse", "--train", &file, "--gold", &file, &models[0], &models[1],
    ];
    let analyse = [&analyse[..], &["--out", &report, "--resamples", "10"]].concat();
    succeeds(&[&analyse[..], &["--set", "tagger:head.output=seq"]].concat());
    let written = std::fs::read_to_string(folder.path().join("report.json")).unwrap();
    assert!(written.contains("tagger"), "{written}");
    fails(&analyse, &["report.html exists", "--force"]);
    fails(
        &[&analyse[..], &["--force", "--set", "third:head.output=seq"]].concat(),
        &["third", "there is no model third", "span, tagger"],
    );
    // A flat tagger is scored on the outermost entities.
    let support = |sets: &[&str]| {
        let scores = json(&[&["evaluate", &out, &file, "--json"][..], sets].concat());
        scores["support"].as_u64().unwrap()
    };
    assert!(support(&[]) >= support(&["--set", "head.output=seq"]));
}

#[test]
fn bopn_reports_its_offset_labels() {
    let folder = tempfile::tempdir().unwrap();
    let sets = [
        "head.name=bopn",
        "head.lstm_width=16",
        "head.biaffine_width=8",
        "data.limit=16",
        "train.epochs=1",
    ];
    let out = trained(folder.path(), &sets);
    let file = few_sentences(folder.path());
    let found = json(&["evaluate", &out, &file, "--diagnose", "--json"]);
    let evidence = found["evidence"].as_array().unwrap();
    assert!(evidence.iter().any(|evidence| evidence["name"] == "all"));
    assert!(evidence.len() > 3, "{found}");
    assert!(evidence.iter().all(|evidence| evidence["f1"].is_number()));
    let table = text(&succeeds(&["evaluate", &out, &file, "--diagnose"]).stdout);
    for evidence in evidence {
        let label = evidence["name"].as_str().unwrap();
        assert!(table.contains(label), "{label} is not in:\n{table}");
    }
    // The way of decoding can change after training.
    let line = b"Marta Keller visited Lindholm.\n";
    let decode = ["predict", "--model", &out, "--set", "head.decode=votes"];
    let output = nerzoo_with_input(&decode, line);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn a_head_without_diagnosis_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let out = trained(folder.path(), &["data.limit=16", "train.epochs=1"]);
    let file = few_sentences(folder.path());
    let diagnose = ["evaluate", &out, &file, "--diagnose"];
    fails(&diagnose, &["nothing to report beyond its mentions"]);
}
