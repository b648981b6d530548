//! Paths that leave their folder, runs that were tampered with, and disks that are full.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::case::{Case, case, seal};

pub fn cases() -> Vec<Case> {
    [paths(), resumes(), bad_rows(), disks()]
        .into_iter()
        .flatten()
        .collect()
}

fn paths() -> Vec<Case> {
    let corpus = |name: &str, value: &str| {
        let command = format!(
            "train @/recipe.toml --out @/out --set data.train=[] --set data.dev=[] --set data.test=[] --set data.corpus={value}"
        );
        case(3, format!("data.corpus: {name}"), &command).refused("")
    };
    let dataset = |name: &str, train: &str| {
        let text = format!(
            "name = \"evil\"\ntitle = \"x\"\nlicence = \"x\"\n[files]\ntrain = [\"{train}\"]\n"
        );
        case(
            3,
            format!("dataset.toml: {name}"),
            "evaluate @/model evil --split train --data @/sets",
        )
        .file("sets/evil/dataset.toml", text)
        .refused("evil")
    };
    let taken = |command: &str, file: &'static str| {
        let name = command.replace("@/", "");
        case(3, format!("an existing file: {name}"), command)
            .file(file, "mine")
            .refused("--force")
            .after(move |folder| assert_eq!(fs::read(folder.join(file)).unwrap(), b"mine"))
    };
    let foreign = |file: &'static str| {
        case(
            3,
            format!("train into a folder with a foreign {}", &file[4..]),
            "train @/recipe.toml --out @/out",
        )
        .file(file, "mine")
        .refused("--out")
        .after(move |folder| assert_eq!(fs::read(folder.join(file)).unwrap(), b"mine"))
    };
    vec![
        corpus("../", "../outside"),
        corpus("an absolute path", "/etc"),
        corpus("a path with ..", "quickstart/../../x"),
        corpus("a name with a NUL byte", "quick\\u0000start"),
        corpus("a name with a backslash", "a\\\\b"),
        corpus("an empty name", "\"\""),
        corpus("a dot", "."),
        dataset("../", "../../train.jsonl"),
        dataset("an absolute path", "/etc/passwd"),
        dataset("a path with ..", "a/../../../train.jsonl"),
        dataset("a link out of the folder", "link.jsonl")
            .link("sets/evil/link.jsonl", "@/train.jsonl"),
        dataset("a named pipe", "p").fifo("sets/evil/p"),
        case(
            3,
            "dataset.toml: a named pipe",
            "evaluate @/model evil --data @/sets",
        )
        .file("sets/evil/x", "")
        .fifo("sets/evil/dataset.toml")
        .refused("dataset.toml"),
        case(
            3,
            "dataset.toml: not TOML",
            "evaluate @/model evil --data @/sets",
        )
        .file("sets/evil/dataset.toml", vec![0xff; 9])
        .refused("dataset.toml"),
        case(3, "evaluate: a corpus named ../x", "evaluate @/model ../x").refused("x"),
        foreign("out/README.md"),
        foreign("out/config.json"),
        foreign("out/model.safetensors"),
        foreign("out/manifest.json"),
        case(
            3,
            "train into a file",
            "train @/recipe.toml --out @/dev.jsonl",
        )
        .refused("dev.jsonl"),
        case(
            3,
            "train into a folder that cannot be written",
            "train @/recipe.toml --out /proc/x",
        )
        .refused("/proc/x"),
        taken(
            "analyse --train @/train.jsonl --gold @/dev.jsonl a=@/model --out @/r.html",
            "r.html",
        ),
        taken("predict --model @/model --out @/r.jsonl", "r.jsonl"),
        taken("predict --model @/model --html @/r.html", "r.html"),
        taken("data convert @/train.jsonl @/r.conll", "r.conll"),
        taken("data check @/train.jsonl --fix @/r.jsonl", "r.jsonl"),
        taken("data make --out @/made", "made/train.jsonl"),
        taken(
            "data split @/train.jsonl --out @/parts",
            "parts/train.jsonl",
        ),
        taken(
            "init --head seq_ner --train @/train.jsonl --no-timing --out @/r.toml",
            "r.toml",
        ),
        taken(
            "zoo publish @/model --to @/zoo --name x --no-score",
            "zoo/x/README.md",
        ),
        taken("zoo pull @/model --to @/zoo --name x", "zoo/x/README.md"),
        case(
            3,
            "an existing file: evaluate --reliability",
            "evaluate @/model @/dev.jsonl --reliability @/r.svg",
        )
        .file("r.svg", "mine")
        .survives("r.svg"),
        case(
            3,
            "convert onto the file that is read",
            "data convert @/train.jsonl @/train.jsonl",
        )
        .refused("train.jsonl"),
        case(
            3,
            "convert onto the file that is read, --force",
            "data convert @/train.jsonl @/train.jsonl --force",
        )
        .survives("train.jsonl")
        .after(|folder| {
            let text = fs::read_to_string(folder.join("train.jsonl")).unwrap();
            assert!(text.contains("Ada"), "the corpus is gone");
        }),
        case(
            3,
            "pull: a folder with a link out of it",
            "zoo pull @/model --to @/zoo --name x",
        )
        .link("model/README.md", "/etc/passwd")
        .survives("README.md")
        .after(|folder| {
            let card = fs::read_to_string(folder.join("zoo/x/README.md")).unwrap_or_default();
            assert!(
                !card.contains("root:"),
                "a file outside of the folder was copied"
            );
        }),
        case(
            3,
            "show: a card that is a link out of the folder",
            "zoo show @/model --card",
        )
        .link("model/README.md", "/etc/passwd")
        .survives("README.md")
        .without("root:"),
        case(
            3,
            "show: metrics that are a link out of the folder",
            "zoo show @/model --json",
        )
        .file("secret.json", "{\"secret\": 4711}")
        .link("model/metrics.json", "@/secret.json")
        .survives("metrics.json")
        .without("4711"),
        archive("an archive with ../", "../evil"),
        archive("an archive with an absolute path", "/tmp/nerzoo-evil"),
    ]
}

/// A `.tar.gz` of a model is fetched from a server only; from a folder it is refused.
fn archive(name: &str, path: &str) -> Case {
    let mut header = vec![0u8; 512];
    header[..path.len()].copy_from_slice(path.as_bytes());
    header[100..108].copy_from_slice(b"0000644\0");
    header[124..136].copy_from_slice(b"00000000004\0");
    header[156] = b'0';
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header.extend(b"evil");
    header.resize(512 * 4, 0);
    case(
        3,
        format!("pull: {name}"),
        "zoo pull @/x.tar --to @/zoo --name x",
    )
    .file("x.tar", header)
    .refused("")
    .after(|folder| {
        assert!(!folder.join("evil").exists() && !folder.join("zoo/evil").exists());
        assert!(!Path::new("/tmp/nerzoo-evil").exists());
    })
}

/// The folder of the newest checkpoint of the run.
fn newest(folder: &Path) -> PathBuf {
    let mut steps: Vec<PathBuf> = fs::read_dir(folder.join("run/checkpoints"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    steps.sort();
    steps.pop().unwrap()
}

/// Resumes a run after its newest checkpoint was changed, with hashes that fit.
fn resume(name: &str, change: impl Fn(&Path) + Send + Sync + 'static) -> Case {
    let command = "train @/recipe.toml --out @/run --resume --plain";
    case(7, format!("resume: {name}"), command)
        .step(|folder| {
            // The recipe of the run names the files of the folder that it was trained in.
            fs::copy(folder.join("run/recipe.toml"), folder.join("recipe.toml")).unwrap();
        })
        .step(move |folder| {
            let checkpoint = newest(folder);
            change(&checkpoint);
            if checkpoint.is_dir() {
                seal(&checkpoint);
            }
        })
        .seconds(3.0)
}

fn state(key: &'static str, value: Value) -> impl Fn(&Path) + Send + Sync + 'static {
    move |checkpoint| {
        let path = checkpoint.join("state.json");
        let mut state: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        state["finished"] = json!(false);
        state[key] = value.clone();
        fs::write(path, state.to_string()).unwrap();
    }
}

fn write(name: &'static str, content: &'static [u8]) -> impl Fn(&Path) + Send + Sync + 'static {
    move |checkpoint| fs::write(checkpoint.join(name), content).unwrap()
}

fn resumes() -> Vec<Case> {
    let mut cases = vec![
        resume("a finished run", |_| ()).fine("micro"),
        resume("epoch 10^12", state("epoch", json!(1_000_000_000_000u64))).survives("epoch"),
        resume("epoch 0", state("epoch", json!(0))).survives("epoch"),
        resume("epoch -1", state("epoch", json!(-1))).survives(""),
        resume("batch 10^12", state("batch", json!(1_000_000_000_000u64))).survives("batch"),
        resume("step 10^12", state("step", json!(1_000_000_000_000u64))).survives("step"),
        resume("step 0", state("step", json!(0))).survives("step"),
        resume(
            "best step 10^12",
            state("best_step", json!(1_000_000_000_000u64)),
        )
        .survives("step"),
        resume("seconds NaN", state("seconds", json!("nan"))).survives(""),
        resume(
            "10,000 points in the curves",
            state("curves", json!(vec![json!({}); 10_000])),
        )
        .survives(""),
        resume("an empty state", write("state.json", b"")).fine("damaged"),
        resume("a state that is {}", write("state.json", b"{}")).fine("damaged"),
        resume("a state nested 100,000 deep", |checkpoint| {
            fs::write(checkpoint.join("state.json"), "[".repeat(100_000)).unwrap();
        })
        .fine("damaged"),
        resume("a state that is a named pipe", |checkpoint| {
            let path = checkpoint.join("state.json");
            fs::remove_file(&path).unwrap();
            assert!(
                std::process::Command::new("mkfifo")
                    .arg(path)
                    .status()
                    .unwrap()
                    .success()
            );
        })
        .fine("damaged"),
        resume("all checkpoints gone", |checkpoint| {
            fs::remove_dir_all(checkpoint.parent().unwrap()).unwrap();
        })
        .survives("checkpoint"),
        resume("a checkpoint that is a file", |checkpoint| {
            fs::remove_dir_all(checkpoint).unwrap();
            fs::write(checkpoint, "x").unwrap();
        })
        .fine("damaged"),
    ];
    for file in ["model.bpk", "optimizer.bpk", "schedule.bpk"] {
        for (name, content) in [
            ("empty", &b""[..]),
            ("a few bytes", b"NRUB\0\0\0\0"),
            ("random", &[0x9d; 4000]),
        ] {
            let change = move |checkpoint: &Path| {
                state("epoch", json!(2))(checkpoint);
                write(file, content)(checkpoint);
            };
            cases.push(
                resume(&format!("{file} {name}, with the right hash"), change)
                    .refused("cannot be restored"),
            );
        }
        let huge = move |checkpoint: &Path| {
            state("epoch", json!(2))(checkpoint);
            let path = checkpoint.join(file);
            let mut bytes = fs::read(&path).unwrap();
            let end = bytes.len().min(24);
            bytes[4..end].fill(0xff);
            fs::write(path, bytes).unwrap();
        };
        cases.push(
            resume(
                &format!("{file} with huge lengths, with the right hash"),
                huge,
            )
            .refused("cannot be restored"),
        );
    }
    let from = |name: &str, file: &'static str, content: &'static str| {
        case(
            7,
            format!("predict from a run: {name}"),
            "predict --model @/run",
        )
        .input("Ada met Bo.\n")
        .step(|folder| fs::remove_file(folder.join("run/manifest.json")).unwrap())
        .step(|folder| {
            let _ = fs::remove_file(folder.join("run/model.safetensors"));
        })
        .step(move |folder| {
            let checkpoint = newest(folder);
            fs::write(checkpoint.join(file), content).unwrap();
            seal(&checkpoint);
        })
        .survives("")
    };
    cases.extend([
        from("an empty model", "model.bpk", ""),
        from("a model of a few bytes", "model.bpk", "NRUB\0\0\0\0"),
        from("an empty state", "state.json", ""),
        case(
            7,
            "a run folder that is removed while it trains",
            "train @/long.toml --out @/out --plain",
        )
        .step(|folder| {
            let text = fs::read_to_string(folder.join("recipe.toml")).unwrap();
            let text = text.replace("epochs = 2", "epochs = 100000\ncheckpoint_minutes = 0");
            fs::write(folder.join("long.toml"), text).unwrap();
        })
        .during(|folder| {
            let out = folder.join("out");
            let start = Instant::now();
            let has_checkpoint = || {
                fs::read_dir(out.join("checkpoints")).is_ok_and(|mut entries| {
                    entries.any(|one| {
                        one.is_ok_and(|one| one.file_name().to_string_lossy().starts_with("step-"))
                    })
                })
            };
            while !has_checkpoint() && start.elapsed() < Duration::from_secs(60) {
                std::thread::sleep(Duration::from_millis(5));
            }
            // The program may write while this removes.
            while fs::rename(&out, folder.join("gone")).is_err()
                && start.elapsed() < Duration::from_secs(60)
            {}
        })
        .refused("out")
        .seconds(4.0)
        .after(|folder| assert!(!folder.join("out").exists(), "a new folder was made")),
        case(
            7,
            "what a crash left behind is removed",
            "train @/recipe.toml --out @/run --resume --plain",
        )
        .step(|folder| {
            fs::copy(folder.join("run/recipe.toml"), folder.join("recipe.toml")).unwrap();
            for name in ["run/.model-abc", "run/checkpoints/partial-000000001"] {
                fs::create_dir_all(folder.join(name)).unwrap();
                fs::write(folder.join(name).join("x"), "x").unwrap();
            }
            fs::write(folder.join("run/.config.json.abc.partial"), "x").unwrap();
        })
        .fine("micro")
        .seconds(3.0)
        .after(|folder| {
            for name in [
                "run/.model-abc",
                "run/checkpoints/partial-000000001",
                "run/.config.json.abc.partial",
            ] {
                assert!(!folder.join(name).exists(), "{name} is still there");
            }
        }),
        case(
            7,
            "two runs in one folder",
            "train @/recipe.toml --out @/run --plain",
        )
        .refused("--resume"),
    ]);
    cases
}

fn bad_rows() -> Vec<Case> {
    let good = "{\"tokens\": [\"Ada\", \"met\", \"Bo\"], \"entities\": [[0, 1, \"PER\"]]}\n";
    let bad = "{\"tokens\": [\"a\"], \"entities\": [[0, 4, \"PER\"]]}\n";
    let mixed = format!(
        "{}{bad}{}{bad}",
        good.repeat(4),
        good.replace("Ada", "Eva").repeat(4)
    );
    let mut cases = Vec::new();
    for (command, part) in [
        ("data stats @/x.jsonl --skip-bad", "x.jsonl:5"),
        (
            "data convert @/x.jsonl - --into columns --skip-bad",
            "x.jsonl:5",
        ),
        ("evaluate @/model @/x.jsonl --skip-bad", "x.jsonl:5"),
        (
            "train @/recipe.toml --out @/out --skip-bad --set data.train=[\"@/x.jsonl\"]",
            "x.jsonl:5",
        ),
        ("data stats @/x.jsonl --skip-bad=2", "x.jsonl:10"),
    ] {
        let name = command.replace("@/", "");
        cases.push(
            case(7, format!("bad rows: {name}"), command)
                .file("x.jsonl", mixed.clone())
                .fine(part)
                .seconds(3.0),
        );
    }
    for command in [
        "data stats @/x.jsonl",
        "data stats @/x.jsonl --skip-bad=1",
        "data stats @/x.jsonl --skip-bad=0",
        "evaluate @/model @/x.jsonl --skip-bad=1",
        "train @/recipe.toml --out @/out --skip-bad=1 --set data.train=[\"@/x.jsonl\"]",
    ] {
        let name = command.replace("@/", "");
        cases.push(
            case(7, format!("bad rows: {name}"), command)
                .file("x.jsonl", mixed.clone())
                .refused("x.jsonl:"),
        );
    }
    let all = bad.repeat(2000);
    cases.push(
        case(
            7,
            "bad rows: all of 2,000",
            "data stats @/x.jsonl --skip-bad",
        )
        .file("x.jsonl", all)
        .refused("x.jsonl"),
    );
    cases
}

fn disks() -> Vec<Case> {
    let full = |name: &str, kilobytes: u64, command: &str| {
        case(8, format!("{name} with {kilobytes} kB of disk"), command)
            .disk(kilobytes)
            .refused("the disk is full")
            .without("No such file")
            .seconds(4.0)
    };
    let input = "Ada met Bo in Oslo.\n".repeat(3000);
    let mut cases = Vec::new();
    for kilobytes in [4, 40, 200, 400, 600] {
        cases.push(full(
            "train",
            kilobytes,
            "train @/recipe.toml --out @/disk/out --plain --set train.checkpoint_minutes=0",
        ));
    }
    cases.extend([
        full(
            "predict --out",
            40,
            "predict --model @/model --out @/disk/x.jsonl",
        )
        .input(input.clone()),
        full(
            "predict --html",
            40,
            "predict --model @/model --html @/disk/x.html",
        )
        .input(input.clone()),
        full(
            "predict --format brat",
            40,
            "predict --model @/model --format brat --out @/disk/x",
        )
        .input(input.clone()),
        full("data convert", 4, "data convert @/big.jsonl @/disk/x.conll").step(big),
        full(
            "data convert to brat",
            40,
            "data convert @/big.jsonl @/disk/x --into brat",
        )
        .step(big),
        full("data make", 40, "data make --out @/disk"),
        full("data split", 4, "data split @/big.jsonl --out @/disk").step(big),
        full(
            "data check --fix",
            4,
            "data check @/big.jsonl --fix @/disk/x.jsonl",
        )
        .step(big),
        full("zoo pull", 40, "zoo pull @/model --to @/disk --name x"),
        full(
            "zoo publish",
            40,
            "zoo publish @/model --to @/disk --name x --no-score",
        ),
        full(
            "analyse",
            4,
            "analyse --train @/train.jsonl --gold @/dev.jsonl a=@/model --out @/disk/r.html",
        ),
    ]);
    for one in &mut cases {
        // Nothing half-written stays.
        one.parts.push("files:\n".into());
    }
    // The same without a small disk: files may not grow.
    for bytes in [100, 20_000, 120_000] {
        cases.push(
            case(
                8,
                format!("train with files of up to {bytes} bytes"),
                "train @/recipe.toml --out @/out --plain",
            )
            .largest_file(bytes)
            .refused("File too large")
            .without("No such file")
            .seconds(4.0),
        );
    }
    cases.push(
        case(
            8,
            "predict --out with files of up to 20,000 bytes",
            "predict --model @/model --out @/x.jsonl",
        )
        .input(input)
        .largest_file(20_000)
        .refused("File too large")
        .seconds(2.0),
    );
    cases
}

/// Writes a corpus of 400 kB.
fn big(folder: &Path) {
    let line = "{\"tokens\": [\"Ada\", \"met\", \"Bo\"], \"entities\": [[0, 1, \"PER\"], [0, 1, \"PER\"]]}\n";
    fs::write(folder.join("big.jsonl"), line.repeat(5000)).unwrap();
}
