//! Numbers that cannot be: in recipes, in `--set` and in the flags of all commands.

use super::case::{Case, case};

/// Values that are tried for every number of a recipe.
const NUMBERS: [&str; 8] = [
    "0",
    "-1",
    "1000000",
    "1000000000000",
    "18446744073709551616",
    "nan",
    "1e300",
    "[1]",
];

pub fn cases() -> Vec<Case> {
    [recipes(), heads(), texts(), flags()]
        .into_iter()
        .flatten()
        .collect()
}

/// Each number of a recipe except those of the head. What is accepted has to work.
fn recipes() -> Vec<Case> {
    [
        "data.limit",
        "data.share",
        "encoder.context",
        "encoder.overlap",
        "encoder.scratch.vocabulary",
        "encoder.scratch.layers",
        "encoder.scratch.width",
        "encoder.scratch.heads",
        "encoder.scratch.feed_forward",
        "encoder.scratch.positions",
        "encoder.scratch.dropout",
        "encoder.features.pos_width",
        "encoder.features.pos_at_least",
        "encoder.features.character_width",
        "encoder.features.dropout",
        "encoder.features.lstm_width",
        "encoder.features.lstm_layers",
        "encoder.features.lstm_dropout",
        "train.seed",
        "train.epochs",
        "train.batch",
        "train.bucket",
        "train.tokens_per_batch",
        "train.accumulate",
        "train.learning_rate",
        "train.head_learning_rate",
        "train.layer_decay",
        "train.warm_up",
        "train.weight_decay",
        "train.epsilon",
        "train.clip",
        "train.freeze_encoder",
        "train.patience",
        "train.average",
        "train.checkpoint_minutes",
        "train.report_seconds",
        "predict.longest",
    ]
    .into_iter()
    .map(|key| {
        let features =
            ["pos", "characters", "lstm"].map(|name| format!("encoder.features.{name}=true"));
        let mut one = case(
            1,
            format!("recipe: {key}"),
            &format!("bench train @/recipe.toml --steps 1 --set {key}=%"),
        );
        if key.starts_with("encoder.features") {
            for set in &features[1..] {
                one.arguments.extend(["--set".into(), set.clone()]);
            }
        }
        let last = match key {
            "train.epsilon" => "train.", // 0 divides by zero in the first step
            key => key.rsplit('.').next().unwrap(),
        };
        one.values(NUMBERS)
            .survives(last)
            .seconds(3.0)
            .megabytes(1500)
    })
    .collect()
}

/// Each number of each head.
fn heads() -> Vec<Case> {
    let settings: [(&str, &[&str]); 5] = [
        ("seq_ner", &["none_bias", "dropout", "word_dropout"]),
        (
            "span_ner",
            &[
                "longest",
                "length_width",
                "negatives",
                "dropout",
                "none_bias",
            ],
        ),
        (
            "bopn",
            &[
                "offsets",
                "lstm_width",
                "lstm_dropout",
                "region_width",
                "distance_width",
                "biaffine_width",
                "biaffine_dropout",
                "convolutions",
                "convolution_dropout",
                "initial_out",
                "out_weight",
                "joint_weight",
                "smoothing",
                "none_bias",
            ],
        ),
        (
            "locate_label",
            &[
                "positive_iou",
                "match_iou",
                "eta",
                "negatives",
                "extra_negatives",
                "filter_ratio",
                "dropout",
                "gamma",
                "filter_weight",
                "regressor_weight",
                "classifier_weight",
                "decay",
                "suppression_iou",
                "threshold",
            ],
        ),
        (
            "diffusion_ner",
            &[
                "spans",
                "steps",
                "timesteps",
                "scale",
                "eta",
                "seed",
                "lstm_layers",
                "attention_layers",
                "heads",
                "feed_forward",
                "dropout",
                "match_boundaries",
                "match_types",
                "loss_boundaries",
                "loss_types",
                "none_weight",
                "threshold",
                "none_bias",
            ],
        ),
    ];
    let mut cases = Vec::new();
    for (head, keys) in settings {
        for key in keys {
            let command = format!(
                "bench train @/recipe.toml --steps 1 --set head.name={head} --set head.{key}=%"
            );
            let one = case(1, format!("recipe: {head} with head.{key}"), &command);
            cases.push(
                one.values(NUMBERS)
                    .survives(key)
                    .seconds(4.0)
                    .megabytes(1500),
            );
        }
    }
    let windows = case(
        1,
        "recipe: locate_label with head.windows",
        "bench train @/recipe.toml --steps 1 --set head.name=locate_label --set head.windows=%",
    );
    cases.push(
        windows
            .values([
                "[]",
                "[0]",
                "[2,1]",
                "[1,1]",
                "[-1]",
                "[1000000000000]",
                "7",
                "[1,1000000]",
            ])
            .survives("windows")
            .seconds(3.0)
            .megabytes(1500),
    );
    // What can change after training, in prediction.
    for key in [
        "none_bias",
        "dropout",
        "decoder",
        "longest",
        "x",
        "",
        "none_bias.x",
    ] {
        let command = format!("predict --model @/model --set head.{key}=%");
        let one = case(1, format!("predict --set head.{key}"), &command).input("Ada met Bo.\n");
        cases.push(one.values(NUMBERS).survives("head"));
    }
    cases
}

/// Recipes that are no recipes.
fn texts() -> Vec<Case> {
    let recipe = |name: &str, content: Vec<u8>| {
        case(1, format!("recipe: {name}"), "train @/bad.toml --out @/out").file("bad.toml", content)
    };
    vec![
        recipe("empty", Vec::new()).refused("bad.toml"),
        recipe("not UTF-8", vec![0xff; 20]).refused("bad.toml"),
        recipe("with a NUL byte", b"[data]\0".to_vec()).refused("bad.toml"),
        recipe(
            "a list nested 100,000 deep",
            [&b"a = "[..], &vec![b'['; 100_000]].concat(),
        )
        .refused("bad.toml"),
        recipe(
            "a table nested 50,000 deep",
            ["[a", &".a".repeat(50_000), "]\n"].concat().into(),
        )
        .refused("bad.toml"),
        recipe(
            "a key twice",
            b"[data]\ncorpus = 'a'\ncorpus = 'b'\n".to_vec(),
        )
        .refused("duplicate key"),
        recipe(
            "a key that is not known",
            b"[data]\ncorpus = 'quickstart'\nfish = 1\n[head]\nname = 'seq_ner'\n".to_vec(),
        )
        .refused("fish"),
        recipe(
            "a number beyond 64 bits",
            b"[train]\nepochs = 18446744073709551616\n".to_vec(),
        )
        .refused("bad.toml"),
        recipe("100 MB", Vec::new())
            .step(|folder| {
                let file = std::fs::File::create(folder.join("bad.toml")).unwrap();
                file.set_len(100 << 20).unwrap();
            })
            .refused("longer than"),
        case(1, "recipe: from a pipe", "train @/p --out @/out")
            .pipe("p", "[x]\n")
            .refused("/p"),
        case(1, "recipe: a folder", "train @/model --out @/out").refused("model"),
        case(1, "recipe: /dev/zero", "train /dev/zero --out @/out").refused("/dev/zero"),
        case(
            1,
            "--set without a value",
            "train @/recipe.toml --out @/out --set train.epochs",
        )
        .refused("key=value"),
        case(
            1,
            "--set of a table",
            "train @/recipe.toml --out @/out --set train=1",
        )
        .refused("train"),
        case(
            1,
            "--set with a key of 10,000 parts",
            "train @/recipe.toml --out @/out --set %=1",
        )
        .values([["a"; 10_000].join(".")])
        .refused("a"),
    ]
}

fn flags() -> Vec<Case> {
    let mut cases = Vec::new();
    for (command, flag, values) in [
        (
            "predict --model @/model",
            "--threshold",
            &["nan", "-1", "2", "inf", "x", "1e300"][..],
        ),
        (
            "predict --model @/model",
            "--longest",
            &["0", "-1", "18446744073709551616", "x"],
        ),
        (
            "predict --model @/model",
            "--device",
            &["cpu:7", "cuda:99999999999999999999", "remote:", "x", ""],
        ),
        (
            "predict --model @/model",
            "--set",
            &[
                "head.none_bias=nan",
                "head.none_bias=x",
                "none_bias=1",
                "=",
                "head=1",
            ],
        ),
        ("predict --model @/model", "--format", &["exe", ""]),
        ("predict --model @/model", "--rename", &["a", "=b"]),
        (
            "evaluate @/model @/dev.jsonl",
            "--sweep",
            &[
                "head.none_bias=x",
                "head.steps=1",
                "threshold=nan",
                "threshold=2",
                "head",
            ],
        ),
        (
            "evaluate @/model @/dev.jsonl",
            "--split",
            &["../x", "none", ""],
        ),
        (
            "evaluate @/model @/dev.jsonl",
            "--word-column",
            &["-1", "18446744073709551616"],
        ),
        ("evaluate @/model @/dev.jsonl", "--skip-bad=-1", &[""]),
        (
            "train @/recipe.toml --out @/out",
            "--folds",
            &["0", "1", "-1", "1000000000000", "18446744073709551616"],
        ),
        (
            "train @/recipe.toml --out @/out",
            "--curve",
            &["nan", "0", "2", "-1", "x", "inf"],
        ),
        (
            "train @/recipe.toml --out @/out",
            "--seeds",
            &["-1", "x", "18446744073709551616"],
        ),
        (
            "train @/recipe.toml --out @/out",
            "--grid",
            &["train.epochs", "train.epochs=", "x.y=1"],
        ),
        (
            "train @/recipe.toml --out @/out",
            "--device",
            &["cpu,cpu:9", "cpu,,cpu", "x"],
        ),
        (
            "bench predict @/recipe.toml",
            "--steps",
            &["0", "-1", "18446744073709551616"],
        ),
        (
            "bench train @/recipe.toml --steps 1",
            "--lengths",
            &["0", "-1", "1000000000000", "x", ""],
        ),
        (
            "data make --out @/made",
            "--train",
            &["-1", "1000000000000", "18446744073709551616"],
        ),
        (
            "data split @/train.jsonl --out @/parts",
            "--parts",
            &[
                "a=nan", "a=0", "a=-1", "a=inf", "../a=1", "/a=1", "a", "=1", "a=1,a=1",
            ],
        ),
        (
            "data split @/train.jsonl --out @/parts",
            "--seed",
            &["-1", "18446744073709551616"],
        ),
        (
            "data check @/train.jsonl",
            "--tag-column",
            &["-1", "18446744073709551616", "x"],
        ),
        ("data convert @/train.jsonl @/out.x", "--into", &["x", ""]),
        (
            "data convert @/train.jsonl @/out.conll",
            "--into-scheme",
            &["x", ""],
        ),
        (
            "analyse --train @/train.jsonl --gold @/dev.jsonl --out @/r.html a=@/model",
            "--resamples",
            &["-1", "1000000000000", "18446744073709551616"],
        ),
        (
            "analyse --train @/train.jsonl --gold @/dev.jsonl --out @/r.html a=@/model",
            "--baseline",
            &["b", ""],
        ),
        (
            "compare --train @/train.jsonl --out @/cmp",
            "--minutes",
            &["nan", "0", "-1", "1e300", "inf"],
        ),
        (
            "compare --train @/train.jsonl --out @/cmp",
            "--epochs",
            &["0", "-1", "1000000000000"],
        ),
        (
            "compare --train @/train.jsonl --out @/cmp --epochs 1",
            "--rungs",
            &["0", "-1", "1000000000000"],
        ),
        (
            "compare --train @/train.jsonl --out @/cmp --epochs 1",
            "--heads",
            &["x", "", "seq_ner.x"],
        ),
        (
            "init --head seq_ner --train @/train.jsonl --no-timing --out @/i.toml",
            "--limit",
            &["0", "-1", "18446744073709551616"],
        ),
        (
            "init --train @/train.jsonl --no-timing --out @/i.toml",
            "--head",
            &["x", "", "../x"],
        ),
        ("serve --model @/model", "--port", &["-1", "65536", "x"]),
        (
            "serve --model @/model --port 0",
            "--timeout",
            &["nan", "0", "-1", "1e300", "inf"],
        ),
        (
            "serve --model @/model --port 0",
            "--batch",
            &["0", "-1", "18446744073709551616"],
        ),
        ("serve --model @/model --port 0", "--queue", &["0", "-1"]),
        (
            "serve --model @/model --port 0",
            "--connections",
            &["0", "-1", "1000000000000"],
        ),
        (
            "serve --model @/model --port 0",
            "--max-body",
            &["0", "-1", "18446744073709551616"],
        ),
        (
            "serve --model @/model --port 0",
            "--max-texts",
            &["0", "-1"],
        ),
        (
            "serve --model @/model --port 0",
            "--max-characters",
            &["0", "-1"],
        ),
        (
            "serve --model @/model --port 0",
            "--max-wait",
            &["-1", "18446744073709551616"],
        ),
        (
            "serve --model @/model --port 0",
            "--host",
            &["256.1.1.1", "x y", ""],
        ),
        (
            "serve --model @/model --port 0",
            "--cors",
            &["x", "", "javascript:1"],
        ),
        (
            "serve --model @/model --port 0",
            "--token-file",
            &["@/none", "/dev/null", "@/model"],
        ),
        (
            "zoo verify @/model --score",
            "--tolerance",
            &["nan", "-1", "inf"],
        ),
        (
            "zoo pull @/model --to @/zoo --name x",
            "--max-size",
            &["nan", "-1", "0", "inf", "1e300"],
        ),
        (
            "zoo publish @/model --to @/zoo --no-score",
            "--name",
            &["../x", "/x", "", "a/b", ".", "..", "a\u{1b}[31m"],
        ),
        (
            "zoo pull @/model --to @/zoo",
            "--name",
            &["../x", "/x", "", "a/b", ".", ".."],
        ),
        (
            "worker --token-file @/train.jsonl",
            "--listen",
            &["x", "256.1.1.1:1", "1:99999999"],
        ),
    ] {
        let name = command
            .split(" @")
            .next()
            .unwrap()
            .split(" --")
            .next()
            .unwrap();
        let mut one = case(1, format!("{name} {flag}"), command);
        one.arguments.push(flag.into());
        if !flag.contains('=') {
            one.arguments.push("%".into());
        }
        cases.push(
            one.values(values.iter().copied())
                .input("Ada met Bo.\n")
                .refused(""),
        );
    }
    for (command, values) in [
        (
            "predict --model @/model --longest %",
            &["1", "1000000000000"][..],
        ),
        (
            "analyse --train @/train.jsonl --gold @/dev.jsonl --out @/r.html --force a=@/model --worst %",
            &["0", "1000000000000"],
        ),
        (
            "evaluate @/model @/dev.jsonl --skip-bad=%",
            &["0", "18446744073709551615"],
        ),
        (
            "data make --out @/made --dev 1 --test 1 --force --train %",
            &["0", "1"],
        ),
    ] {
        let one = case(1, format!("extreme but valid: {command}"), command);
        let one = one.values(values.iter().copied()).input("Ada met Bo.\n");
        let mut one = one.survives("");
        one.name = one.name.replace("@/", "").replace(" %", "");
        cases.push(one);
    }
    cases
}
