//! Hostile corpora, texts, streams and outputs.

use std::io::Write;

use serde_json::json;

use super::case::{Case, Output, case, model};

pub fn cases() -> Vec<Case> {
    [silence(), corpora(), pipes(), outputs(), lines(), markup()]
        .into_iter()
        .flatten()
        .collect()
}

const SENTENCE: &str = r#"{"tokens": ["Ada", "met", "Bo"], "entities": [[0, 1, "PER"]]}"#;

fn silence() -> Vec<Case> {
    let other = "{\"tokens\": [\"Ada\", \"saw\", \"Zog\"], \"entities\": [[2, 3, \"ZOO\"]]}\n";
    let evaluate = |name: &str, content: &str| {
        case(4, format!("evaluate: {name}"), "evaluate @/model @/x.jsonl")
            .file("x.jsonl", content.as_bytes())
    };
    let predict = |name: &str, file: &'static str, content: &[u8]| {
        let mut one = case(4, format!("predict: {name}"), "predict --model @/model");
        one.arguments.push(format!("@/{file}"));
        one.file(file, content)
    };
    let twice = r#"{"tokens": ["Ada"], "entities": [[0, 1, "PER"]], "tokens": ["Bo"]}"#;
    let stats = |name: &str, file: &'static str, content: &[u8]| {
        let mut one = case(4, format!("data stats: {name}"), "data stats");
        one.arguments.push(format!("@/{file}"));
        one.file(file, content)
    };
    vec![
        evaluate("a type that the model does not know", other).fine("ZOO"),
        evaluate("no gold entities", "{\"tokens\": [\"Ada\"], \"entities\": []}\n").fine("no gold"),
        evaluate("an empty file", "").refused("empty"),
        evaluate("a folder", "").folder("x.jsonl").refused("x.jsonl"),
        case(4, "train: sentences of train in dev", "train @/recipe.toml --out @/out")
            .step(|folder| {
                std::fs::copy(folder.join("train.jsonl"), folder.join("dev.jsonl")).unwrap();
            })
            .fine("also occur in training")
            .seconds(3.0),
        case(4, "train: dev is train", "train @/recipe.toml --out @/out")
            .step(|folder| {
                let path = folder.join("recipe.toml");
                let text = std::fs::read_to_string(&path).unwrap();
                std::fs::write(&path, text.replace("dev.jsonl", "train.jsonl")).unwrap();
            })
            .fine("also occur in training")
            .seconds(3.0),
        case(4, "train: no entities", "train @/recipe.toml --out @/out")
            .file("train.jsonl", "{\"tokens\": [\"Ada\"], \"entities\": []}\n")
            .refused("has an entity"),
        case(4, "train: a type in dev only", "train @/recipe.toml --out @/out")
            .step(|folder| {
                let text = "{\"tokens\": [\"Zog\"], \"entities\": [[0, 1, \"ZOO\"]]}\n";
                std::fs::write(folder.join("dev.jsonl"), text).unwrap();
            })
            .survives("ZOO")
            .fine("ZOO")
            .seconds(3.0),
        stats("a key twice", "x.jsonl", twice.as_bytes()).refused("tokens"),
        stats("a key of an entity twice", "x.jsonl",
            br#"{"tokens": ["Ada"], "entities": [{"start": 0, "end": 1, "type": "A", "type": "B"}]}"#).refused("type"),
        predict("a key twice", "x.jsonl", b"{\"text\": \"Ada\", \"text\": \"Bo\"}\n").refused("text"),
        stats("lines end with carriage returns", "x.conll", b"Ada B-PER\rmet O\r\rBo B-PER\r").fine("sentences     2"),
        predict("lines end with carriage returns", "x.txt", b"Ada met Bo.\rEva met Al.\r").survives("carriage").fine("carriage"),
        predict("a folder", "d", b"").folder("d").refused("folder"),
        predict("a missing file", "x", b"").step(|folder| std::fs::remove_file(folder.join("x")).unwrap()).refused("x"),
        predict("an empty file", "e.txt", b"").survives("empty"),
        predict("blank lines before a bad one", "x.jsonl", b"{\"text\": \"Ada\"}\n\n\nnot json\n").refused("\"line\":4"),
        predict("blank lines in plain text", "x.txt", b"Ada\n\n\nBo\n").fine("\"text\":\"\""),
        predict("a NUL byte", "x.txt", b"Ada\0met\nBo\n").fine("Ada\\u0000met"),
        predict("not UTF-8", "x.txt", b"Ada\n\xff\xfe\xfd\nBo\n").refused("not UTF-8"),
        predict("UTF-16", "x.txt", b"\xff\xfeA\0d\0a\0\n\0").refused("UTF-16"),
        predict("a lone surrogate", "x.jsonl", br#"{"text": "\ud800"}"#).refused("hex escape"),
        predict("JSON nested 100,000 deep", "x.jsonl", "[".repeat(100_000).as_bytes()).refused("recursion"),
        predict("a record nested 100,000 deep", "x.jsonl",
            format!("{{\"text\": \"Ada\"}}\n{{\"text\": {}\n", "[".repeat(100_000)).as_bytes()).refused("recursion"),
        predict("a text that is a number", "x.jsonl", b"{\"text\": 3}\n").refused("text"),
        predict("tokens with an empty word", "x.jsonl", b"{\"tokens\": [\"Ada\", \"\"]}\n").survives("empty"),
    ]
}

/// Files that each reader has to refuse, or to read without harm.
fn corpora() -> Vec<Case> {
    let stats = |name: &str, file: &'static str, content: Vec<u8>| {
        let mut one = case(4, format!("corpus: {name}"), "data check");
        one.arguments.push(format!("@/{file}"));
        one.file(file, content)
    };
    let entity = |entity: &str| {
        format!("{{\"tokens\": [\"Ada\", \"met\"], \"entities\": [{entity}]}}\n").into_bytes()
    };
    let mut cases = vec![
        stats("an entity past the end", "x.jsonl", entity("[0, 9, \"A\"]")).refused("x.jsonl:1"),
        stats(
            "an entity that ends at 2^64",
            "x.jsonl",
            entity("[0, 18446744073709551616, \"A\"]"),
        )
        .refused("x.jsonl:1"),
        stats("an entity at -1", "x.jsonl", entity("[-1, 1, \"A\"]")).refused("x.jsonl:1"),
        stats("an entity at 0.5", "x.jsonl", entity("[0.5, 1, \"A\"]")).refused("x.jsonl:1"),
        stats(
            "an entity that ends before it starts",
            "x.jsonl",
            entity("[1, 0, \"A\"]"),
        )
        .refused("x.jsonl:1"),
        stats(
            "an entity without a type",
            "x.jsonl",
            entity("[0, 1, \"\"]"),
        )
        .refused("x.jsonl:1"),
        stats(
            "a type of 1 MB",
            "x.jsonl",
            entity(&format!("[0, 1, \"{}\"]", "A".repeat(1 << 20))),
        )
        .survives("x.jsonl"),
        stats(
            "100,000 entities on one word",
            "x.jsonl",
            entity(
                &(0..100_000)
                    .map(|n| format!("[0, 1, \"T{n}\"]"))
                    .collect::<Vec<_>>()
                    .join(","),
            ),
        )
        .survives("x.jsonl")
        .seconds(4.0)
        .megabytes(500),
        stats("nested 100,000 deep", "x.json", "[".repeat(100_000).into()).refused("x.json"),
        stats(
            "objects nested 100,000 deep",
            "x.json",
            "{\"a\":".repeat(100_000).into(),
        )
        .refused("x.json"),
        stats(
            "a word of 5 MB",
            "x.conll",
            format!("{} B-PER\n", "x".repeat(5 << 20)).into(),
        )
        .survives("x.conll")
        .seconds(3.0)
        .megabytes(400),
        stats(
            "200,000 words in a sentence",
            "x.conll",
            "Ada B-PER\n".repeat(200_000).into(),
        )
        .survives("x.conll")
        .seconds(4.0)
        .megabytes(600),
        stats(
            "100,000 columns",
            "x.conll",
            format!("{}\n", "a\t".repeat(100_000)).into(),
        )
        .refused("x.conll")
        .seconds(3.0),
        stats("only NUL bytes", "x.conll", vec![0; 1 << 20]).refused("x.conll"),
        stats("only line ends", "x.conll", vec![b'\n'; 1 << 20]).refused("x.conll"),
        stats(
            "CSV with an open quote",
            "x.csv",
            b"tokens,tags\n\"Ada,B-PER\n".to_vec(),
        )
        .refused("x.csv"),
        stats(
            "CSV with a Python list nested deep",
            "x.csv",
            format!("tokens,ner_tags\n\"{}\",1\n", "[".repeat(50_000)).into(),
        )
        .refused("x.csv"),
        stats(
            "CoNLL-U with id 10^12",
            "x.conllu",
            b"# newdoc\n1000000000000\tAda\t_\t_\t_\t_\t_\t_\t_\tNE=B-PER\n\n".to_vec(),
        )
        .survives("x.conllu"),
        stats(
            "CoNLL-U with open brackets",
            "x.conllu",
            format!(
                "# newdoc id = d\n1\tAda\t_\t_\t_\t_\t_\t_\t_\tEntity={}\n\n",
                "(e1-person".repeat(50_000)
            )
            .into(),
        )
        .survives("x.conllu")
        .seconds(3.0),
        stats(
            "PubTator with huge offsets",
            "x.pubtator",
            b"1|t|Ada\n1|a|\n1\t0\t99999999999999999999\tAda\tPER\n".to_vec(),
        )
        .refused("x.pubtator"),
        stats(
            "brat with an offset past the end",
            "x.ann",
            b"T1\tPER 0 999999\tAda\n".to_vec(),
        )
        .file("x.txt", "Ada")
        .refused("x.ann"),
        stats(
            "brat with huge offsets",
            "x.ann",
            b"T1\tPER 0 99999999999999999999\tAda\n".to_vec(),
        )
        .file("x.txt", "Ada")
        .refused("x.ann"),
        stats(
            "brat whose text is a named pipe",
            "x.ann",
            b"T1\tPER 0 3\tAda\n".to_vec(),
        )
        .fifo("x.txt")
        .refused("x.txt"),
        stats(
            "Parquet with only its magic number",
            "x.parquet",
            b"PAR1PAR1".to_vec(),
        )
        .refused("x.parquet"),
        stats(
            "Parquet with a footer of 4 GB",
            "x.parquet",
            b"PAR1\xff\xff\xff\xffPAR1".to_vec(),
        )
        .refused("x.parquet"),
        stats("a DocBin of random bytes", "x.spacy", vec![0x78; 1000]).refused("x.spacy"),
        stats(
            "a gzip file that is cut",
            "x.conll.gz",
            gzip("Ada B-PER\n".repeat(1000).as_bytes())[..60].to_vec(),
        )
        .refused("x.conll.gz"),
        stats("a gzip bomb of 1 GB", "x.conll.gz", bomb(1024))
            .refused("decompress")
            .seconds(4.0)
            .megabytes(300),
        stats("a gzip bomb of records", "x.jsonl.gz", record_bomb())
            .refused("decompress")
            .seconds(4.0)
            .megabytes(400),
        stats(
            "a Zstandard frame with a huge window",
            "x.conll.zst",
            vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xff, 0x01, 0x00, 0x00],
        )
        .refused("x.conll.zst"),
        case(
            4,
            "corpus: a named pipe without a writer is left alone",
            "data check @/train.jsonl",
        )
        .fifo("p")
        .fine(""),
    ];
    for (fixture, file) in [
        ("parquet/class_label.parquet", "f.parquet"),
        ("doc_bin/nested.spacy", "f.spacy"),
        ("csv/kaggle.csv", "f.csv"),
        ("conllu/gum.conllu", "f.conllu"),
        ("label_studio/tasks.json", "f.json"),
        ("bioc/collection.json", "f.json"),
    ] {
        for (damage, keep) in [("cut at a tenth", 10), ("cut in half", 2)] {
            let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("tests/fixtures/formats")
                .join(fixture);
            let bytes = std::fs::read(path).unwrap();
            let one = stats(
                &format!("{fixture} {damage}"),
                file,
                bytes[..bytes.len() / keep].to_vec(),
            );
            cases.push(one.survives(file));
        }
    }
    cases
}

/// Every command that reads a corpus reads it from a named pipe with a writer, once.
fn pipes() -> Vec<Case> {
    let content = format!("{SENTENCE}\n{SENTENCE}\n");
    let mut cases = Vec::new();
    for (command, part) in [
        ("data stats @/p", "2"),
        ("data check @/p", "p"),
        ("data convert @/p - --into columns", "Ada"),
        ("data split @/p --out @/parts", ""),
        ("evaluate @/model @/p", "micro"),
        ("predict --model @/model @/p", "Ada"),
        (
            "predict --model @/model @/p --input-format tokens_jsonl",
            "Ada",
        ),
        (
            "train @/recipe.toml --out @/out --set train.epochs=1 --set data.train=[\"@/p\"]",
            "micro",
        ),
        ("init --head seq_ner --no-timing --out - --train @/p", ""),
        (
            "analyse --train @/train.jsonl --gold @/p --out @/r.html a=@/model",
            "",
        ),
    ] {
        let name = command.replace("@/", "");
        let one = case(5, format!("from a pipe: {name}"), command).pipe("p", content.clone());
        cases.push(
            if part.is_empty() {
                one.survives("p")
            } else {
                one.fine(part)
            }
            .seconds(3.0),
        );
    }
    let columns = "Ada B-PER\nmet O\nBo B-PER\n\n";
    cases.extend([
        case(5, "from a pipe: columns", "data stats @/p")
            .pipe("p", columns)
            .fine("1"),
        case(5, "from a pipe: gzip", "data stats @/p")
            .pipe("p", gzip(columns.as_bytes()))
            .fine("1"),
        case(5, "from a pipe: nothing", "data stats @/p")
            .pipe("p", "")
            .refused("empty"),
        case(
            5,
            "from a pipe: columns to predict",
            "predict --model @/model @/p --input-format columns",
        )
        .pipe("p", columns)
        .fine("Ada"),
        case(5, "from standard input: columns", "data stats -")
            .input(columns)
            .fine("1"),
        case(
            5,
            "from standard input: a corpus to evaluate",
            "evaluate @/model -",
        )
        .input(content.clone())
        .fine("micro"),
        case(
            5,
            "from standard input: nothing to predict",
            "predict --model @/model",
        )
        .fine(""),
        case(
            5,
            "from /dev/null: predict",
            "predict --model @/model /dev/null",
        )
        .fine(""),
        case(5, "from /dev/null: stats", "data stats /dev/null").refused("empty"),
        case(5, "standard input twice", "data stats - -")
            .input(content)
            .survives("stdin"),
    ]);
    cases
}

/// Outputs that cannot be written.
fn outputs() -> Vec<Case> {
    let mut cases = Vec::new();
    for command in [
        "predict --model @/model",
        "predict --model @/model --format text",
        "predict --model @/model --format conll",
        "predict --model @/model --format label_studio",
        "evaluate @/model @/dev.jsonl",
        "evaluate @/model @/dev.jsonl --json",
        "evaluate @/model @/dev.jsonl --sweep head.none_bias=0,1",
        "data stats @/train.jsonl",
        "data stats @/train.jsonl --json",
        "data check @/train.jsonl",
        "data check @/train.jsonl --json",
        "data convert @/train.jsonl - --into columns",
        "data convert @/train.jsonl - --into text_jsonl",
        "heads",
        "heads bopn",
        "heads --json",
        "devices --no-test",
        "zoo list",
        "zoo show @/model",
        "zoo show @/model --json",
        "zoo verify @/model",
        "init --head seq_ner --train @/train.jsonl --no-timing --out -",
        "bench predict @/recipe.toml --steps 1",
        "train @/recipe.toml --out @/out",
        "analyse --train @/train.jsonl --gold @/dev.jsonl --out @/r.html a=@/model",
        "--help",
        "--version",
    ] {
        let name = command.replace("@/", "");
        let input = "Ada met Bo in Oslo.\n".repeat(200);
        cases.push(
            case(5, format!("to a full disk: {name}"), command)
                .input(input.clone())
                .output(Output::Full)
                .refused("")
                .seconds(3.0),
        );
        cases.push(
            case(5, format!("to a closed pipe: {name}"), command)
                .input(input)
                .output(Output::Closed)
                .survives("")
                .seconds(3.0),
        );
    }
    cases
}

fn lines() -> Vec<Case> {
    let predict = |name: &str, input: Vec<u8>| {
        case(5, format!("long: {name}"), "predict --model @/model").input(input)
    };
    let words = |count: usize| format!("{}\nEva\n", "Ada met Bo ".repeat(count / 3)).into_bytes();
    let word = |bytes: usize| format!("{}\nEva\n", "x".repeat(bytes)).into_bytes();
    vec![
        predict("20,000 words", words(20_000))
            .fine("\"text\":\"Eva\"")
            .seconds(4.0)
            .megabytes(250),
        predict("80,000 words", words(80_000))
            .fine("\"text\":\"Eva\"")
            .seconds(12.0)
            .megabytes(300),
        predict("a word of 5 MB", word(5 << 20))
            .fine("\"text\":\"Eva\"")
            .seconds(4.0)
            .megabytes(400),
        predict(
            "a line of 5 MB of text",
            format!("{}\nEva\n", "Ada met Bo in Oslo. ".repeat(1 << 18)).into_bytes(),
        )
        .fine("\"text\":\"Eva\"")
        .seconds(60.0)
        .megabytes(500),
        predict("a line of 70 MB", word(70 << 20))
            .refused("longer than 64 MB")
            .seconds(3.0)
            .megabytes(400),
        predict("20,000 long words, each another", {
            let text: Vec<String> = (0..20_000)
                .map(|n| format!("{n}{}", "y".repeat(200)))
                .collect();
            format!("{}\nEva\n", text.join(" ")).into_bytes()
        })
        .fine("\"text\":\"Eva\"")
        .seconds(8.0)
        .megabytes(400),
        predict("100,000 empty lines", vec![b'\n'; 100_000])
            .fine("\"text\":\"\"")
            .seconds(4.0),
        predict(
            "100,000 combining marks on a letter",
            format!("a{}\nEva\n", "\u{301}".repeat(100_000)).into_bytes(),
        )
        .fine("\"text\":\"Eva\"")
        .seconds(4.0)
        .megabytes(300),
        predict(
            "a million spaces",
            format!("Ada{}Bo\nEva\n", " ".repeat(1_000_000)).into_bytes(),
        )
        .fine("\"text\":\"Eva\"")
        .seconds(4.0)
        .megabytes(300),
        predict(
            "200,000 full stops",
            format!("{}\nEva\n", ".".repeat(200_000)).into_bytes(),
        )
        .fine("\"text\":\"Eva\"")
        .seconds(30.0)
        .megabytes(500),
        case(
            5,
            "long: --whole with 20,000 words",
            "predict --model @/model --whole",
        )
        .input(words(20_000))
        .fine("\"text\":\"Eva\"")
        .seconds(4.0)
        .megabytes(300),
        case(
            5,
            "long: --longest 10^12 with 20,000 words",
            "predict --model @/model --whole --longest 1000000000000",
        )
        .input(words(20_000))
        .survives("longest")
        .seconds(10.0)
        .megabytes(1500),
        case(
            5,
            "a gzip bomb of one line to predict",
            "predict --model @/model @/x.txt.gz",
        )
        .file("x.txt.gz", bomb(256))
        .refused("longer than 64 MB")
        .seconds(4.0)
        .megabytes(400),
        case(
            5,
            "a gzip bomb of a record to predict",
            "predict --model @/model @/x.jsonl.gz",
        )
        .file("x.jsonl.gz", record_bomb())
        .refused("longer than 64 MB")
        .seconds(5.0)
        .megabytes(500),
    ]
}

/// Escape sequences, markup and separators in labels and words.
fn markup() -> Vec<Case> {
    let escape = "\u{1b}[31m";
    let hostile = |label: &str, word: &str| {
        let record =
            json!({"tokens": [word, "met", "Bo"], "entities": [[0, 1, label], [2, 3, "PER"]]});
        format!("{record}\n{SENTENCE}\n").into_bytes()
    };
    let red = || hostile("\u{1b}[31mRED", "\u{1b}]0;title\u{7}Ada");
    let script = || hostile("<script>alert(1)</script>", "<img src=x onerror=alert(1)>");
    let mut cases = Vec::new();
    for command in [
        "data stats @/x.jsonl",
        "data check @/x.jsonl",
        "evaluate @/model @/x.jsonl",
        "init --head seq_ner --train @/x.jsonl --no-timing --out -",
        "data convert @/x.jsonl @/y.spacy.json --into spacy",
        "analyse --train @/x.jsonl --gold @/x.jsonl --out @/r.html --force a=@/model",
    ] {
        let name = command.replace("@/", "");
        let one = case(6, format!("escape sequences: {name}"), command);
        cases.push(
            one.file("x.jsonl", red())
                .survives("")
                .without("\u{1b}")
                .seconds(2.0),
        );
    }
    let train = |name: &str, content: Vec<u8>| {
        case(
            6,
            name,
            "train @/recipe.toml --out @/out --set train.epochs=1",
        )
        .file("train.jsonl", content.clone())
        .file("dev.jsonl", content)
        .seconds(3.0)
    };
    cases.extend([
        train("escape sequences: train", red())
            .survives("label")
            .without(escape)
            .after(|folder| {
                let Ok(card) = std::fs::read_to_string(folder.join("out/README.md")) else {
                    return;
                };
                assert!(!card.contains('\u{1b}'), "an escape sequence in the card");
            }),
        train("markup: train", script())
            .survives("label")
            .after(|folder| {
                for file in ["README.md", "curves.svg"] {
                    let Ok(text) = std::fs::read_to_string(folder.join("out").join(file)) else {
                        continue;
                    };
                    assert!(
                        !text.contains("<script") && !text.contains("<img"),
                        "{file}: {text}"
                    );
                }
            }),
        train(
            "markup: a label with line ends and YAML",
            hostile("A\n---\nlicense: evil\n# x", "Ada"),
        )
        .survives("label")
        .after(|folder| {
            let Ok(card) = std::fs::read_to_string(folder.join("out/README.md")) else {
                return;
            };
            assert!(
                !card.lines().any(|line| line.starts_with("license: evil")),
                "{card}"
            );
        }),
        train("markup: a label with a table's bar", hostile("A|B", "Ada"))
            .survives("label")
            .after(|folder| {
                let Ok(card) = std::fs::read_to_string(folder.join("out/README.md")) else {
                    return;
                };
                assert!(!card.contains("| A|B |"), "{card}");
            }),
        model("predict --format text escapes words")
            .input("Ada \u{1b}[31m met Bo\n")
            .step(|_| ())
            .fine("Ada")
            .without("\u{1b}"),
        model("predict: escapes in JSON")
            .input("Ada \u{1b}[31m met Bo\n")
            .fine("\\u001b")
            .without("\u{1b}"),
        model("a label of a model with an escape sequence")
            .config("labels", json!(["LOC", "ORG", "\u{1b}[31mPER"]))
            .survives("label")
            .without("\u{1b}"),
        case(
            6,
            "zoo show: a card with escape sequences",
            "zoo show @/model",
        )
        .file("model/README.md", "\u{1b}[31m# red\n")
        .survives("")
        .without("\u{1b}"),
        case(
            6,
            "zoo show --card: a card with escape sequences",
            "zoo show @/model --card",
        )
        .file("model/README.md", "\u{1b}[31m# red\n")
        .survives(""),
        case(
            6,
            "zoo show: metrics with escape sequences",
            "zoo show @/model",
        )
        .step(|folder| {
            let path = folder.join("model/metrics.json");
            let text = std::fs::read_to_string(&path).unwrap();
            std::fs::write(path, text.replace("PER", "\\u001b[31mPER")).unwrap();
        })
        .survives("")
        .without("\u{1b}"),
        case(
            6,
            "an unknown head with an escape sequence",
            "predict --model @/model",
        )
        .config("head", json!("\u{1b}[31mx"))
        .refused("31mx")
        .without("\u{1b}"),
        case(
            6,
            "an unknown key with an escape sequence",
            "predict --model @/model",
        )
        .config("\u{1b}[31mx", json!(1))
        .refused("31mx")
        .without("\u{1b}"),
        case(6, "a file name with an escape sequence", "data stats @/%")
            .values(["\u{1b}[31mx"])
            .refused("31mx")
            .without("\u{1b}"),
        case(6, "an argument with an escape sequence", "heads %")
            .values(["\u{1b}[31mx"])
            .refused("31mx")
            .without("\u{1b}"),
        case(
            6,
            "a recipe's key with an escape sequence",
            "train @/recipe.toml --out @/out --set %=1",
        )
        .values(["train.\u{1b}[31mx"])
        .refused("31mx")
        .without("\u{1b}"),
        case(
            6,
            "a tensor's name with an escape sequence",
            "predict --model @/model",
        )
        .header("model/model.safetensors", |header| {
            let keys = header.as_object().unwrap().keys();
            let name = keys
                .map(String::from)
                .find(|name| name != "__metadata__")
                .unwrap();
            let tensor = header.as_object_mut().unwrap().shift_remove(&name).unwrap();
            header["\u{1b}[31mx"] = tensor;
        })
        .refused("31mx")
        .without("\u{1b}"),
        case(
            6,
            "predict --html escapes markup",
            "predict --model @/model --html @/page.html",
        )
        .input("<script>alert(1)</script> met Bo\n")
        .fine("")
        .after(|folder| {
            let page = std::fs::read_to_string(folder.join("page.html")).unwrap();
            assert!(!page.contains("<script>alert"), "a script in the page");
        }),
        case(
            6,
            "analyse escapes markup",
            "analyse --train @/x.jsonl --gold @/x.jsonl --out @/r.html a=@/model",
        )
        .file("x.jsonl", script())
        .fine("")
        .seconds(2.0)
        .after(|folder| {
            let page = std::fs::read_to_string(folder.join("r.html")).unwrap();
            assert!(
                !page.contains("<script>alert") && !page.contains("<img src=x"),
                "markup in the report"
            );
        }),
        case(
            6,
            "columns: a label with a tab",
            "data convert @/x.jsonl - --into columns",
        )
        .file("x.jsonl", hostile("A\tB", "Ada"))
        .survives("A")
        .without("A\tB"),
        case(
            6,
            "columns: a word with a line end",
            "data convert @/x.jsonl - --into columns",
        )
        .file("x.jsonl", hostile("A", "Ada\nEva B-LOC"))
        .survives("")
        .without("\nEva B-LOC"),
    ]);
    let text = cases
        .iter_mut()
        .find(|one| one.name.starts_with("predict --format text"));
    if let Some(one) = text {
        one.class = 6;
        one.arguments.extend(["--format", "text"].map(String::from));
    }
    for one in &mut cases {
        one.class = 6;
    }
    cases
}

/// Compressed bytes.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Few bytes that become many: one line of the letter x. A file may have many compressed parts.
fn bomb(megabytes: usize) -> Vec<u8> {
    gzip(&vec![b'x'; 1 << 20]).repeat(megabytes)
}

/// A JSON record whose text has 256 MB.
fn record_bomb() -> Vec<u8> {
    [gzip(b"{\"text\": \""), bomb(256), gzip(b"\"}\n")].concat()
}
