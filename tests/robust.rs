//! Bad input and bad luck, through the command line: an error that names the thing and the remedy, and nothing lost.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const RECIPE: &str = r#"
[data]
corpus = "quickstart"
limit = 160

[encoder.scratch]
vocabulary = 300
layers = 1
width = 32
heads = 2
feed_forward = 64

[head]
name = "seq_ner"

[train]
epochs = 2
batch = 8
learning_rate = 2e-3
"#;

fn nerzoo(arguments: &[&str]) -> Output {
    nerzoo_with(arguments, b"")
}

fn nerzoo_with(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_nerzoo"))
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_remove("NERZOO_DATA")
        .env_remove("NERZOO_ENCODERS")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The error of a command that must fail without a panic.
fn fails(arguments: &[&str], says: &[&str]) {
    let output = nerzoo(arguments);
    let error = text(&output.stderr);
    assert!(!output.status.success(), "{arguments:?} did not fail");
    assert!(!error.contains("panicked"), "{error}");
    for part in says {
        assert!(
            error.contains(part),
            "{arguments:?} should say {part:?}:\n{error}"
        );
    }
}

fn write(folder: &Path, name: &str, content: &[u8]) -> String {
    let path = folder.join(name);
    std::fs::write(&path, content).unwrap();
    path.display().to_string()
}

fn trained(folder: &Path) -> String {
    let recipe = write(folder, "recipe.toml", RECIPE.as_bytes());
    let out = folder.join("run").display().to_string();
    let output = nerzoo(&["train", &recipe, "--out", &out]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(
        said.contains("micro"),
        "a table of scores is printed:\n{said}"
    );
    out
}

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

#[test]
fn every_recipe_of_the_zoo_is_understood() {
    use nerzoo::data::datasets;
    use nerzoo::recipe::Recipe;
    use nerzoo::registry;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("model-zoo/recipes");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let recipe = Recipe::read(&path, &[]).unwrap();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let entry = registry::find(recipe.head_name()).unwrap();
        (entry.check)(&recipe).unwrap_or_else(|problem| panic!("{name}: {problem}"));
        let corpus = recipe
            .data
            .corpus
            .clone()
            .expect("recipes name their corpus");
        assert!(datasets::known(&corpus).is_some(), "{name}: {corpus}");
        let bundled = recipe.head_name().contains('+');
        let fits = name.starts_with(&format!("{}-{corpus}", entry.name))
            || name == "quickstart"
            || bundled;
        assert!(fits, "{name} should be called {}-{corpus}", entry.name);
        count += 1;
    }
    assert!(count > 1);
}

#[test]
fn a_loss_that_is_no_number_stops_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = write(folder.path(), "recipe.toml", RECIPE.as_bytes());
    let out = folder.path().join("run");
    let arguments = ["train", &recipe, "--out", out.to_str().unwrap()];
    // Without an epsilon AdamW divides nothing by nothing where no gradient has been.
    let broken = ["--set", "train.epsilon=0.0", "--set", "train.warm_up=0.0"];
    fails(
        &[&arguments[..], &broken].concat(),
        &["the loss became", "epoch 1", "sentences ["],
    );
    assert!(!out.join("model.safetensors").exists());
    // Asked to save after every step, it notices before it saves.
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
fn knobs_out_of_range_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = write(folder.path(), "recipe.toml", RECIPE.as_bytes());
    let out = folder.path().join("run");
    for set in [
        "head.dropout=1.5",
        "head.word_dropout=-1.0",
        "encoder.scratch.positions=2",
        "encoder.scratch.width=0",
        "encoder.scratch.heads=0",
        "encoder.scratch.dropout=2.0",
        "train.report_seconds=inf",
        "train.clip=nan",
        "train.learning_rate=7.0",
    ] {
        fails(
            &[
                "train",
                &recipe,
                "--set",
                set,
                "--out",
                out.to_str().unwrap(),
            ],
            &[],
        );
        assert!(!out.exists(), "{set} claimed the folder");
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
    let out = trained(folder.path());
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
    let out = trained(folder.path());
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
    let scores = nerzoo(&["evaluate", &out, "quickstart", "--json"]);
    let scores: Value = serde_json::from_slice(&scores.stdout).unwrap();
    for key in ["precision", "recall", "f1", "support", "per_type"] {
        assert!(!scores[key].is_null(), "{key}");
    }
    fails(
        &["evaluate", folder.path().to_str().unwrap(), "quickstart"],
        &["config.json"],
    );

    let input = "Marta Keller visited Lindholm.\n\n👩‍🔬 naïve 北京 \u{202b}نص\u{202c}\n".to_string();
    let output = nerzoo_with(&["predict", "--model", &out], input.as_bytes());
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
    let out = trained(folder.path());
    let lines = b"{\"text\": \"Marta Keller\"}\nnot json\n{\"tokens\": [\"a\", 3]}\n{\"tokens\": [\"Lindholm\"]}\n\xff\n";
    let file = write(folder.path(), "mixed.jsonl", lines);
    let output = nerzoo(&["predict", "--model", &out, &file]);
    assert!(!output.status.success(), "the exit code tells");
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
    let output = nerzoo(&["predict", "--model", &out, &columns]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout).lines().count(), 2);
}

#[test]
fn corpora_are_checked_with_line_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let bad = write(folder.path(), "bad.jsonl", b"{\"tokens\": [\"a\"], \"entities\": []}\n{\"tokens\": [\"a\"], \"entities\": [{\"start\": 0, \"end\": 4, \"type\": \"X\"}]}\n");
    fails(&["data", "stats", &bad], &["bad.jsonl:2"]);
    let output = nerzoo(&["data", "check", &bad]);
    assert!(!output.status.success());
    assert!(text(&output.stdout).contains("bad.jsonl:2"));
    let stats = nerzoo(&["data", "stats", "datasets/quickstart/train.jsonl", "--json"]);
    let stats: Value = serde_json::from_slice(&stats.stdout).unwrap();
    assert_eq!(stats["sentences"], 2400);
    assert!(stats["nested"].as_u64().unwrap() * 3 >= stats["entities"].as_u64().unwrap());
}

#[test]
fn init_writes_a_recipe_that_trains() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = folder.path().join("mine.toml").display().to_string();
    let train = "datasets/quickstart/dev.jsonl";
    let output = nerzoo(&[
        "init", "--head", "seq_ner", "--train", train, "--out", &recipe,
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    fails(
        &[
            "init", "--head", "seq_ner", "--train", train, "--out", &recipe,
        ],
        &["--force"],
    );
    let out = folder.path().join("run").display().to_string();
    let small = [
        "--set",
        "train.epochs=1",
        "--set",
        "encoder.scratch.width=32",
    ];
    let output = nerzoo(&[&["train", &recipe, "--out", &out][..], &small].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// A column file whose gold stands before a column of guesses: only the flags tell them apart.
#[test]
fn every_reader_takes_the_columns() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (file, recipe, out) = (at("two.conll"), at("mine.toml"), at("run"));
    let rows = "N Anna B-PER B-LOC\nV sings O O\nN Brakel B-LOC B-PER\n\n";
    std::fs::write(&file, rows.repeat(20)).unwrap();
    let columns = ["--word-column", "1", "--tag-column", "2"];
    let init = ["init", "--head", "seq_ner", "--train", &file, "--out"];
    let output = nerzoo(&[&init[..], &[&recipe], &columns].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let written = std::fs::read_to_string(&recipe).unwrap();
    assert!(
        written.contains("options = { word_column = 1, tag_columns = [2] }"),
        "{written}"
    );
    let small = ["train.epochs=40", "encoder.scratch.width=32"];
    let train = ["train", &recipe, "--out", &out];
    let sets: Vec<&str> = small.iter().flat_map(|set| ["--set", set]).collect();
    let output = nerzoo(&[&train[..], &sets].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let f1 = |tags: &str| {
        let columns = ["--word-column", "1", "--tag-column", tags];
        let output = nerzoo(&[&["evaluate", &out, &file, "--json"][..], &columns].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let scores: Value = serde_json::from_slice(&output.stdout).unwrap();
        scores["f1"].as_f64().unwrap()
    };
    assert_eq!((f1("2"), f1("3")), (1.0, 0.0));
}
