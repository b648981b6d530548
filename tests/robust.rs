//! Bad input and failures through the command line: the error names the cause and the remedy, and nothing is lost.

#![cfg(feature = "cli")]

mod common;

use std::path::Path;

use common::program::{
    RECIPE, fails, json, nerzoo, nerzoo_with_input, succeeds, text, trained, write,
};
use serde_json::Value;

#[test]
fn recipes_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = write(folder.path(), "recipe.toml", RECIPE.as_bytes());
    let out = folder.path().join("out").display().to_string();
    fails(&["train", "missing.toml"], &["missing.toml"]);
    fails(
        &["train", &recipe, "--set", "train.epoch=3"],
        &["did you mean `epochs`"],
    );
    fails(
        &["train", &recipe, "--set", "head.name=seqner"],
        &["seq_ner"],
    );
    fails(
        &[
            "train",
            &recipe,
            "--set",
            "head.decoder=crff",
            "--out",
            &out,
        ],
        &["did you mean `crf`"],
    );
    fails(
        &[
            "train",
            &recipe,
            "--set",
            "data.corpus=quickstrt",
            "--out",
            &out,
        ],
        &["quickstart"],
    );
    fails(
        &[
            "train",
            &recipe,
            "--set",
            "data.corpus=ace05",
            "--out",
            &out,
        ],
        &["NERZOO_DATA", "icence"],
    );
    fails(
        &[
            "train",
            &recipe,
            "--set",
            "encoder.pretrained=some/model",
            "--set",
            "encoder.scratch.width=1",
        ],
        &["keep one"],
    );
    fails(
        &["train", &recipe, "--device", "cuda:7"],
        &["--features cuda"],
    );
    fails(&["train", &recipe, "--device", "abacus"], &["cpu"]);
}

/// Every file resolves to a head of the registry, names a known corpus, and is named after both.
#[test]
fn every_recipe_of_the_zoo_resolves() {
    use nerzoo::data::datasets;
    use nerzoo::recipe::Recipe;
    use nerzoo::registry;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("model-zoo/recipes");
    let mut count = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let recipe = Recipe::read(&path, &[]).unwrap();
        let corpus = recipe
            .data
            .corpus
            .clone()
            .expect("recipes name their corpus");
        let (recipe, entry) = registry::resolve(recipe)
            .unwrap_or_else(|problem| panic!("{}: {problem}", path.display()));
        assert!(recipe.bundle.is_none(), "{name}");
        let found = registry::find(recipe.head_name()).unwrap();
        assert_eq!(found.name, entry.name, "{name}");
        assert!(datasets::known(&corpus).is_some(), "{name}: {corpus}");
        let is_bundle = recipe.head_name().contains('+');
        let fits = name.starts_with(&format!("{}-{corpus}", entry.name))
            || name == "quickstart"
            || is_bundle;
        assert!(fits, "{name} should be called {}-{corpus}", entry.name);
        count += 1;
    }
    assert!(count > 100, "only {count} recipes");
}

#[test]
fn a_loss_that_is_not_finite_stops_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = write(folder.path(), "recipe.toml", RECIPE.as_bytes());
    let out = folder.path().join("run");
    let arguments = ["train", &recipe, "--out", out.to_str().unwrap()];
    // Without an epsilon AdamW divides zero by zero where there was no gradient.
    let broken = ["--set", "train.epsilon=0.0", "--set", "train.warm_up=0.0"];
    fails(
        &[&arguments[..], &broken].concat(),
        &["the loss became", "epoch 1", "sentences ["],
    );
    assert!(!out.join("model.safetensors").exists());
    // With a checkpoint after every step it is detected before the checkpoint is written.
    std::fs::remove_dir_all(&out).unwrap();
    let sooner = ["--set", "train.checkpoint_minutes=0"];
    fails(
        &[&arguments[..], &broken, &sooner].concat(),
        &["weights are not finite"],
    );
    let checkpoints = nerzoo::train::checkpoints::Checkpoints::at(&out);
    if let Some(state) = checkpoints.newest().unwrap() {
        let saved = checkpoints.step_folder(state.step).join("model.bpk");
        panic!(
            "a checkpoint of the breaking step was kept: {}",
            saved.display()
        );
    }
}

#[test]
fn settings_out_of_range_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = write(folder.path(), "recipe.toml", RECIPE.as_bytes());
    let out = folder.path().join("run");
    let below_one = "at least 0 and below 1";
    let not_negative = "at least 0 and below 1000000000";
    for (set, name, range) in [
        ("head.dropout=1.5", "dropout = 1.5", below_one),
        ("head.word_dropout=-1.0", "word_dropout = -1", below_one),
        (
            "encoder.scratch.positions=2",
            "encoder.scratch.positions = 2",
            "between 3 and",
        ),
        (
            "encoder.scratch.width=0",
            "encoder.scratch.width = 0",
            "between 1 and",
        ),
        (
            "encoder.scratch.heads=0",
            "encoder.scratch.heads = 0",
            "between 1 and",
        ),
        (
            "encoder.scratch.heads=3",
            "width 32",
            "multiple of the 3 attention heads",
        ),
        (
            "encoder.scratch.dropout=2.0",
            "encoder.scratch.dropout = 2",
            below_one,
        ),
        (
            "encoder.features.dropout=1.0",
            "dropout",
            "at least 0 and less than 1",
        ),
        (
            "train.report_seconds=inf",
            "train.report_seconds = inf",
            not_negative,
        ),
        ("train.clip=nan", "train.clip = NaN", not_negative),
        (
            "train.weight_decay=-0.1",
            "train.weight_decay = -0.1",
            not_negative,
        ),
        (
            "train.learning_rate=7.0",
            "train.learning_rate = 7",
            "between 0 and 1",
        ),
        (
            "train.head_learning_rate=7.0",
            "train.head_learning_rate = 7",
            "between 0 and 1",
        ),
        (
            "train.warm_up=1.1",
            "train.warm_up = 1.1",
            "between 0 and 1",
        ),
        (
            "train.layer_decay=0.0",
            "train.layer_decay = 0",
            "above 0 and at most 1",
        ),
        (
            "train.layer_decay=1.1",
            "train.layer_decay = 1.1",
            "above 0 and at most 1",
        ),
        (
            "train.average=1",
            "train.average = 1",
            "0 (no average) or at least 2",
        ),
        ("train.batch=0", "train.batch = 0", "between 1 and"),
        ("train.epochs=0", "train.epochs = 0", "between 1 and"),
        (
            "train.accumulate=0",
            "train.accumulate = 0",
            "between 1 and",
        ),
    ] {
        let out = out.to_str().unwrap();
        fails(
            &["train", &recipe, "--set", set, "--out", out],
            &[name, range],
        );
        assert!(!Path::new(out).exists(), "{set} claimed the folder");
    }
    let spans = ["--set", "head.name=span_ner", "--set", "head.longest=0"];
    fails(
        &[&["train", &recipe][..], &spans].concat(),
        &["longest must be at least 1"],
    );
}

#[test]
fn a_changed_corpus_is_noticed_on_resume() {
    let folder = tempfile::tempdir().unwrap();
    let corpus = std::fs::read_to_string("datasets/quickstart/dev.jsonl").unwrap();
    let file = write(folder.path(), "mine.jsonl", corpus.as_bytes());
    let text = RECIPE.replace("corpus = \"quickstart\"", &format!("train = [\"{file}\"]"));
    let recipe = write(folder.path(), "recipe.toml", text.as_bytes());
    let out = folder.path().join("run").display().to_string();
    assert!(nerzoo(&["train", &recipe, "--out", &out]).status.success());
    let shorter: String = corpus
        .lines()
        .skip(1)
        .map(|line| format!("{line}\n"))
        .collect();
    write(folder.path(), "mine.jsonl", shorter.as_bytes());
    fails(
        &["train", &recipe, "--out", &out, "--resume"],
        &["not those this run was started with"],
    );
}

#[test]
fn a_folder_belongs_to_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let out = trained(folder.path(), &[]);
    let recipe = folder.path().join("recipe.toml").display().to_string();
    fails(&["train", &recipe, "--out", &out], &["--resume"]);
    fails(
        &[
            "train",
            &recipe,
            "--out",
            &out,
            "--resume",
            "--set",
            "train.batch=4",
        ],
        &["differs", "batch = 8"],
    );
    let again = nerzoo(&["train", &recipe, "--out", &out, "--resume"]);
    assert!(
        again.status.success(),
        "a finished run can be resumed: {}",
        text(&again.stderr)
    );
}

#[test]
fn models_are_checked_and_used() {
    let folder = tempfile::tempdir().unwrap();
    let out = trained(folder.path(), &[]);
    for name in [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "recipe.toml",
        "metrics.json",
        "README.md",
        "manifest.json",
        "curves.json",
        "curves.svg",
    ] {
        assert!(Path::new(&out).join(name).is_file(), "{name}");
    }
    let scores = json(&["evaluate", &out, "quickstart", "--json"]);
    for key in ["precision", "recall", "f1", "support", "per_type"] {
        assert!(!scores[key].is_null(), "{key}");
    }
    let read = |name: &str| -> Value {
        let text = std::fs::read_to_string(Path::new(&out).join(name)).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let method = read("metrics.json")["calibration"]["method"].clone();
    assert_ne!(method, Value::Null);
    assert_eq!(scores["calibration"]["calibrated"], method != "none");
    assert_eq!(scores["calibration"]["mentions"], scores["predicted"]);
    let saved = &read("config.json")["calibration"]["method"];
    assert!(*saved == method || (saved.is_null() && method == "none"));
    let diagram = folder.path().join("reliability.svg");
    let path = diagram.to_str().unwrap();
    let output = succeeds(&["evaluate", &out, "quickstart", "--reliability", path]);
    assert!(text(&output.stdout).contains("expected calibration error: "));
    assert!(std::fs::read_to_string(diagram).unwrap().contains("<svg"));
    fails(
        &["evaluate", folder.path().to_str().unwrap(), "quickstart"],
        &["config.json"],
    );

    let input = "Marta Keller visited Lindholm.\n\n👩‍🔬 naïve 北京 \u{202b}نص\u{202c}\n".to_string();
    let output = nerzoo_with_input(&["predict", "--model", &out], input.as_bytes());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 3);
    for (line, expected) in lines.iter().zip(input.lines()) {
        assert_eq!(line["text"], expected);
        check_offsets(line);
    }

    let model = Path::new(&out).join("model.safetensors");
    let mut bytes = std::fs::read(&model).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&model, bytes).unwrap();
    fails(
        &["evaluate", &out, "quickstart"],
        &["sha256", "model.safetensors"],
    );
}

fn check_offsets(line: &Value) {
    let characters: Vec<char> = line["text"].as_str().unwrap().chars().collect();
    for entity in line["entities"].as_array().unwrap() {
        let [start, end] = ["start", "end"].map(|key| entity[key].as_u64().unwrap() as usize);
        let slice: String = characters[start..end].iter().collect();
        assert_eq!(entity["text"], slice);
    }
}

#[test]
fn bad_lines_do_not_stop_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let out = trained(folder.path(), &[]);
    let lines = b"{\"text\": \"Marta Keller\"}\nnot json\n{\"tokens\": [\"a\", 3]}\n{\"tokens\": [\"Lindholm\"]}\n\xff\n";
    let file = write(folder.path(), "mixed.jsonl", lines);
    let output = nerzoo(&["predict", "--model", &out, &file]);
    assert!(!output.status.success(), "the exit code reports bad lines");
    let answers: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(answers.len(), 5);
    for (index, is_bad) in [false, true, true, false, true].into_iter().enumerate() {
        assert_eq!(
            answers[index].get("error").is_some(),
            is_bad,
            "{}",
            answers[index]
        );
    }
    assert_eq!(answers[1]["line"], 2);

    let columns = write(
        folder.path(),
        "some.conll",
        b"Marta B-PER\nKeller I-PER\nsings O\n\nLindholm B-LOC\n",
    );
    let output = succeeds(&["predict", "--model", &out, &columns]);
    assert_eq!(text(&output.stdout).lines().count(), 2);
}

#[test]
fn documents_of_any_length_are_tagged() {
    let folder = tempfile::tempdir().unwrap();
    let out = trained(folder.path(), &[]);
    let long =
        "Marta Keller visited Lindholm. 👩‍🔬 Dr. Ada B. Brandt left 北京\n\nand then ".repeat(200);
    let flat = long.replace(['.', '\n'], " ");
    let records = format!(
        "{}\n\n{}\n",
        serde_json::json!({"text": long}),
        serde_json::json!({"text": flat})
    );
    let file = write(folder.path(), "long.jsonl", records.as_bytes());
    let found = |more: &[&str]| {
        let output = succeeds(&[&["predict", "--model", &out, &file][..], more].concat());
        let lines: Vec<Value> = text(&output.stdout)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0]["text"], long);
        assert_eq!(lines[1]["text"], flat);
        lines.iter().for_each(check_offsets);
        lines[0]["entities"].as_array().unwrap().len()
    };
    assert!(found(&[]) >= 200);
    found(&["--whole"]);
    found(&["--longest", "7"]);
    found(&["--whole", "--longest", "7"]);
    fails(
        &["predict", "--model", &out, &file, "--longest", "0"],
        &["--longest"],
    );
    let config = std::fs::read_to_string(Path::new(&out).join("config.json")).unwrap();
    assert!(config.contains("\"segmentation\": \"han\""), "{config}");
}

#[test]
fn corpora_are_checked_with_line_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let bad = write(folder.path(), "bad.jsonl", b"{\"tokens\": [\"a\"], \"entities\": []}\n{\"tokens\": [\"a\"], \"entities\": [{\"start\": 0, \"end\": 4, \"type\": \"X\"}]}\n");
    fails(&["data", "stats", &bad], &["bad.jsonl:2"]);
    let output = nerzoo(&["data", "check", &bad]);
    assert!(!output.status.success());
    assert!(text(&output.stdout).contains("bad.jsonl:2"));
    let stats = json(&["data", "stats", "datasets/quickstart/train.jsonl", "--json"]);
    assert_eq!(stats["sentences"], 2400);
    assert!(stats["nested"].as_u64().unwrap() * 3 >= stats["entities"].as_u64().unwrap());
}

#[test]
fn bad_records_are_skipped_on_request_and_corpora_are_mended() {
    let folder = tempfile::tempdir().unwrap();
    let good = "{\"tokens\": [\"Ada\", \",\", \"too\"], \"entities\": [[0, 2, \"PER\"], [0, 2, \"PER\"]]}\n";
    let bad = "{\"tokens\": [\"a\"], \"entities\": [[0, 4, \"per\"]]}\n";
    let file = write(
        folder.path(),
        "a.jsonl",
        [good, bad, good].concat().as_bytes(),
    );
    fails(&["data", "stats", &file], &["a.jsonl:2"]);
    let output = succeeds(&["data", "stats", "--skip-bad", "1", &file]);
    assert!(
        text(&output.stderr).contains("a.jsonl:2"),
        "{}",
        text(&output.stderr)
    );
    let stats = json(&["data", "stats", &file, "--skip-bad", "--json"]);
    assert_eq!(stats["sentences"], 2);
    fails(
        &["data", "stats", &file, "--skip-bad", "0"],
        &["a.jsonl:2", "bad record 1 of 1"],
    );

    let out = folder.path().join("mended.jsonl").display().to_string();
    let report = json(&["data", "check", &file, "--fix", &out, "--json"]);
    assert_eq!(report["errors"], 1);
    assert_eq!(report["fix"]["remaining"]["errors"], 0);
    assert!(report["heads"].as_array().unwrap().len() >= 9);
    fails(&["data", "check", &file, "--fix", &out], &["--force"]);
    let stats = json(&["data", "stats", &out, "--json"]);
    assert_eq!(
        (&stats["sentences"], &stats["entities"]),
        (&3.into(), &2.into())
    );
    assert!(Path::new(&format!("{out}.changes.jsonl")).is_file());
}

#[test]
fn init_writes_a_recipe_that_trains() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = folder.path().join("mine.toml").display().to_string();
    let train = "datasets/quickstart/dev.jsonl";
    let init = [
        "init", "--head", "seq_ner", "--train", train, "--out", &recipe,
    ];
    // The speed is measured on this machine.
    let printed = text(&succeeds(&init).stdout);
    assert!(printed.contains("training takes about"), "{printed}");
    assert!(printed.contains("sentences/s in training"), "{printed}");
    let written = std::fs::read_to_string(&recipe).unwrap();
    assert!(
        written.contains("# Estimated when this was written: about"),
        "{written}"
    );
    fails(&init, &["--force"]);
    let out = folder.path().join("run").display().to_string();
    let small = [
        "--set",
        "train.epochs=1",
        "--set",
        "encoder.scratch.width=32",
    ];
    succeeds(&[&["train", &recipe, "--out", &out][..], &small].concat());
}

#[test]
fn init_writes_settings_for_every_head_with_their_reasons() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let encoder = "tests/fixtures/encoders/bert-task";
    for entry in nerzoo::registry::heads() {
        for (kind, more) in [("new", &[][..]), ("bert", &["--encoder", encoder])] {
            let recipe = at(&format!("{}-{kind}.toml", entry.name));
            let init = ["init", "--head", entry.name, "--corpus", "quickstart"];
            let options = ["--limit", "500", "--no-timing", "--out", &recipe];
            let printed = text(&succeeds(&[&init[..], &options, more].concat()).stdout);
            assert!(!printed.contains("training takes"), "{printed}");
            let parsed = nerzoo::recipe::Recipe::read(Path::new(&recipe), &[]).unwrap();
            assert_eq!(parsed.data.limit, Some(500));
            assert!(parsed.train.patience > 0);
            let rate = parsed.train.head_learning_rate;
            assert_eq!(rate.is_some(), kind == "bert", "{recipe}");
            assert!(rate.is_none_or(|rate| rate > parsed.train.learning_rate));
            nerzoo::registry::resolve(parsed).unwrap();
            let written = std::fs::read_to_string(&recipe).unwrap();
            let settings = written.split("[train]").nth(1).unwrap();
            assert!(settings.trim_start().starts_with("# "), "{written}");
        }
    }
    let span = std::fs::read_to_string(at("bl_ner-new.toml")).unwrap();
    assert!(
        span.contains("[head.span]") && span.contains("longest = "),
        "{span}"
    );
}

#[test]
fn init_explains_what_it_cannot_use() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("mine.toml").display().to_string();
    let start = ["init", "--head", "seq_ner", "--no-timing", "--out", &out];
    let refuses = |more: &[&str], parts: &[&str]| {
        fails(&[&start[..], more].concat(), parts);
        assert!(!Path::new(&out).exists(), "{more:?}");
    };
    let empty = write(folder.path(), "empty.conll", b"");
    refuses(&["--train", &empty], &["empty.conll"]);
    let blank = write(folder.path(), "blank.conll", b"\n\n\n");
    refuses(&["--train", &blank], &["blank.conll"]);
    let plain = write(folder.path(), "plain.conll", b"Anna O\nsings O\n\n");
    refuses(
        &["--train", &plain],
        &["plain.conll", "no entities", "data check", "--tag-column"],
    );
    refuses(&["--corpus", "quickstrt"], &["quickstart"]);
    refuses(
        &["--corpus", "quickstart", "--tag-column", "1"],
        &["--corpus quickstart", "--train"],
    );
    refuses(&["--corpus", "quickstart", "--limit", "0"], &["--limit"]);
    refuses(&[], &["--train"]);

    // An encoder that is not here yet: the recipe is written, with a warning.
    let later = ["--corpus", "quickstart", "--encoder", "no/bert-large"];
    let output = succeeds(&[&start[..], &later].concat());
    assert!(text(&output.stderr).contains("no/bert-large"));
    let written = std::fs::read_to_string(&out).unwrap();
    assert!(
        written.contains("pretrained = \"no/bert-large\""),
        "{written}"
    );
    assert!(written.contains("learning_rate = 2e-5"), "{written}");
}

#[test]
fn init_warns_of_a_large_dev_set() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("mine.toml").display().to_string();
    let output = succeeds(&[
        "init",
        "--head",
        "seq_ner",
        "--train",
        "datasets/quickstart/dev.jsonl",
        "--dev",
        "datasets/quickstart/train.jsonl",
        "--no-timing",
        "--out",
        &out,
    ]);
    let warning = text(&output.stderr);
    assert!(warning.contains("dev has 2400 sentences"), "{warning}");
    let written = std::fs::read_to_string(&out).unwrap();
    assert!(
        written.contains("# Note: dev has 2400 sentences"),
        "{written}"
    );
}

/// A column file with gold tags and, after them, predicted tags: only the options tell them apart.
#[test]
fn every_command_takes_the_column_options() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (file, recipe, out) = (at("two.conll"), at("mine.toml"), at("run"));
    let rows = "N Anna B-PER B-LOC\nV sings O O\nN Brakel B-LOC B-PER\n\n";
    std::fs::write(&file, rows.repeat(20)).unwrap();
    let columns = ["--word-column", "1", "--tag-column", "2"];
    let init = [
        "init",
        "--no-timing",
        "--head",
        "seq_ner",
        "--train",
        &file,
        "--out",
    ];
    succeeds(&[&init[..], &[&recipe], &columns].concat());
    let written = std::fs::read_to_string(&recipe).unwrap();
    assert!(
        written.contains("options = { word_column = 1, tag_columns = [2] }"),
        "{written}"
    );
    let small = ["train.epochs=40", "encoder.scratch.width=32"];
    let train = ["train", &recipe, "--out", &out];
    let sets: Vec<&str> = small.iter().flat_map(|set| ["--set", set]).collect();
    succeeds(&[&train[..], &sets].concat());
    let f1 = |tags: &str| {
        let columns = ["--word-column", "1", "--tag-column", tags];
        let scores = json(&[&["evaluate", &out, &file, "--json"][..], &columns].concat());
        scores["f1"].as_f64().unwrap()
    };
    assert_eq!((f1("2"), f1("3")), (1.0, 0.0));
}
