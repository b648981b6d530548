//! Hostile model folders and pretrained encoders.

use serde_json::{Value, json};

use super::case::{Case, case, model};
use super::pickle;

/// A number that is too large for 64 bits.
fn huge() -> Value {
    serde_json::from_str("18446744073709551616").unwrap()
}

/// Values that no size can have, and how they are called in the table.
fn bad_sizes() -> [(&'static str, Value); 7] {
    [
        ("0", json!(0)),
        ("-1", json!(-1)),
        ("10^8", json!(100_000_000)),
        ("10^12", json!(1_000_000_000_000u64)),
        ("2^64", huge()),
        ("1.5", json!(1.5)),
        ("a text", json!("7")),
    ]
}

pub fn cases() -> Vec<Case> {
    [
        configs(),
        labels(),
        head_settings(),
        weights(),
        tokenizers(),
        manifests(),
        files(),
        encoders(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn configs() -> Vec<Case> {
    let mut cases = Vec::new();
    for size in [
        "vocabulary",
        "width",
        "layers",
        "heads",
        "feed_forward",
        "positions",
    ] {
        for (name, value) in bad_sizes() {
            cases.push(
                model(format!("config.json: {size} = {name}"))
                    .encoder(size, value)
                    .refused("config.json"),
            );
        }
    }
    for (key, value, part) in [
        ("heads", json!(3), "multiple of the 3 attention heads"),
        ("width", json!(64), "config.json"),
        ("layers", json!(1000), "config.json"),
        ("width", json!(65536), "config.json"),
        ("vocabulary", json!(10_000_000), "config.json"),
        ("positions", json!(1_000_000), "config.json"),
        ("positions", json!(2), "no room for a word"),
        ("embedding_width", json!(0), "embedding_width"),
        ("embedding_width", json!(16), "config.json"),
        ("token_types", json!(1_000_000_000_000u64), "token_types"),
        ("padding", json!(1_000_000), "padding"),
        ("padding", json!(-1), "config.json"),
        ("padding", huge(), "config.json"),
        ("norm_epsilon", json!(0), "norm_epsilon"),
        ("norm_epsilon", json!(-1), "norm_epsilon"),
        ("dropout", json!(7), "dropout = 7"),
        ("dropout", json!(-1), "dropout = -1"),
        ("dropout", json!(1), "dropout = 1"),
        ("attention_dropout", json!(1e300), "attention_dropout"),
        ("activation", json!("rm -rf"), "activation"),
        ("family", json!("gpt"), "config.json"),
        ("surprise", json!(1), "surprise"),
        ("width", Value::Null, "width"),
    ] {
        let shown = if value.is_null() {
            "missing".into()
        } else {
            format!("= {value}")
        };
        cases.push(
            model(format!("config.json: {key} {shown}"))
                .encoder(key, value)
                .refused(part),
        );
    }
    for (key, value, part) in [
        ("encoder.context", json!(1_000_000_000), "context"),
        ("encoder.context", json!(-1), "config.json"),
        ("encoder.overlap", json!(1_000_000_000_000u64), "overlap"),
        ("encoder.overlap", json!(-1), "config.json"),
        ("encoder.pooling", json!("sum"), "pooling"),
        ("encoder.layers", json!("all"), "config.json"),
        ("encoder", Value::Null, "encoder"),
        ("encoder.features", json!({"pos": true}), "config.json"),
        ("head", json!("no_such_head"), "no_such_head"),
        ("head", Value::Null, "head"),
        ("head_config", json!([]), "config.json"),
        ("head_config", json!({"surprise": 1}), "surprise"),
        ("format_version", json!(99), "99"),
        ("format_version", json!(-1), "config.json"),
        ("surprise", json!(1), "surprise"),
        ("longest", json!(0), "longest"),
        ("longest", huge(), "config.json"),
        ("segmentation", json!("cut"), "segmentation"),
        (
            "calibration",
            json!({"method": "temperature", "temperature": 0}),
            "calibration",
        ),
        (
            "calibration",
            json!({"method": "isotonic", "knots": []}),
            "calibration",
        ),
        ("calibration.temperature", json!("hot"), "config.json"),
    ] {
        let shown = if value.is_null() {
            "missing".into()
        } else {
            format!("= {value}")
        };
        cases.push(
            model(format!("config.json: {key} {shown}"))
                .config(key, value)
                .refused(part),
        );
    }
    cases.push(
        model("config.json: longest = 10^12")
            .config("longest", json!(1_000_000_000_000u64))
            .survives("longest"),
    );
    cases
}

fn labels() -> Vec<Case> {
    let many: Vec<String> = (0..200_000).map(|n| format!("L{n:06}")).collect();
    [
        ("none", json!([]), "label"),
        ("twice the same", json!(["LOC", "LOC", "PER"]), "label"),
        ("not sorted", json!(["PER", "ORG", "LOC"]), "label"),
        ("an empty one", json!(["", "LOC", "ORG"]), "label"),
        ("a number", json!(["LOC", "ORG", 3]), "config.json"),
        ("200,000", json!(many), "label"),
        (
            "one of 1 MB",
            json!(["LOC", "ORG", "P".repeat(1 << 20)]),
            "label",
        ),
        (
            "one too many",
            json!(["LOC", "ORG", "PER", "ZOO"]),
            "config.json",
        ),
    ]
    .into_iter()
    .map(|(name, value, part)| {
        model(format!("labels: {name}"))
            .config("labels", value)
            .refused(part)
    })
    .collect()
}

fn head_settings() -> Vec<Case> {
    let mut cases = Vec::new();
    for (key, value) in [
        ("dropout", json!(7)),
        ("dropout", json!(-1)),
        ("word_dropout", json!(1e300)),
        ("decoder", json!("beam")),
        ("none_bias", json!("x")),
    ] {
        cases.push(
            model(format!("head_config: {key} = {value}"))
                .config(&format!("head_config.{key}"), value)
                .refused(key),
        );
    }
    // Other heads: their settings are checked before the weights are.
    for (head, key, values) in [
        ("span_ner", "longest", &[0, 1_000_000_000_000i64, -1][..]),
        ("span_ner", "length_width", &[1_000_000_000_000, -1]),
        ("span_ner", "negatives", &[1_000_000_000_000, -1]),
        ("bopn", "offsets", &[1_000_000, 1_000_000_000_000, -1]),
        ("bopn", "lstm_width", &[0, 1, 1_000_000_000_000, -1]),
        ("bopn", "convolutions", &[1_000_000, 1_000_000_000_000, -1]),
        ("bopn", "distance_width", &[1_000_000_000_000, -1]),
        ("bopn", "biaffine_width", &[0, 1_000_000_000_000, -1]),
        ("diffusion_ner", "spans", &[0, 1_000_000_000_000, -1]),
        ("diffusion_ner", "steps", &[0, 1_000_000_000_000, -1]),
        ("diffusion_ner", "timesteps", &[0, 1_000_000_000_000, -1]),
        ("diffusion_ner", "heads", &[0, 3, 1_000_000_000_000, -1]),
        ("diffusion_ner", "lstm_layers", &[1_000_000_000_000, -1]),
        (
            "diffusion_ner",
            "attention_layers",
            &[1_000_000_000_000, -1],
        ),
        ("diffusion_ner", "feed_forward", &[0, 1_000_000_000_000, -1]),
    ] {
        for value in values {
            cases.push(
                model(format!("head_config: {head} with {key} = {value}"))
                    .config("head", json!(head))
                    .config("head_config", json!({ key: value }))
                    .refused(key),
            );
        }
    }
    cases.push(
        model("head_config: locate_label with windows = [10^12]")
            .config("head", json!("locate_label"))
            .config("head_config", json!({"windows": [1_000_000_000_000u64]}))
            .refused("windows"),
    );
    cases
}

/// The name of the first tensor in a header.
fn first_name(header: &Value) -> String {
    let tensors = header.as_object().unwrap().keys();
    tensors
        .map(String::from)
        .find(|name| name != "__metadata__")
        .unwrap()
}

/// The first tensor in a header.
fn first(header: &mut Value) -> &mut Value {
    let name = first_name(header);
    &mut header[name]
}

fn weights() -> Vec<Case> {
    const FILE: &str = "model/model.safetensors";
    let claim = |bytes: u64| {
        move |content: &mut Vec<u8>| content[..8].copy_from_slice(&bytes.to_le_bytes())
    };
    let fill = |value: f32| {
        move |content: &mut Vec<u8>| {
            let start = 8 + u64::from_le_bytes(content[..8].try_into().unwrap()) as usize;
            for place in content[start..].chunks_exact_mut(4) {
                place.copy_from_slice(&value.to_le_bytes());
            }
        }
    };
    let last = |value: f32| {
        move |content: &mut Vec<u8>| {
            let at = content.len() - 4;
            content[at..].copy_from_slice(&value.to_le_bytes());
        }
    };
    let damaged = |name: &str| model(format!("weights: {name}"));
    vec![
        damaged("a header that claims 10 GB")
            .weights(claim(10_000_000_000))
            .refused("claims"),
        damaged("a header that claims 2^64-1 bytes")
            .weights(claim(u64::MAX))
            .refused("claims"),
        damaged("a header of 0 bytes")
            .weights(claim(0))
            .refused("model.safetensors"),
        damaged("7 bytes")
            .weights(|content| content.truncate(7))
            .refused("too few"),
        damaged("an empty file")
            .weights(Vec::clear)
            .refused("too few"),
        damaged("cut in half")
            .weights(|content| content.truncate(content.len() / 2))
            .refused("need"),
        damaged("one byte too many")
            .weights(|content| content.push(0))
            .refused("need"),
        damaged("a gigabyte of zeros after them")
            .step(|folder| {
                let file = std::fs::File::options().write(true).open(folder.join(FILE));
                file.unwrap().set_len(1 << 30).unwrap();
            })
            .unsealed()
            .refused("manifest"),
        damaged("all NaN")
            .weights(fill(f32::NAN))
            .refused("not a finite number"),
        damaged("all infinite")
            .weights(fill(f32::INFINITY))
            .refused("not a finite number"),
        damaged("the last one NaN")
            .weights(last(f32::NAN))
            .refused("not a finite number"),
        damaged("all 3e38, which overflow")
            .weights(fill(3e38))
            .survives("finite"),
        damaged("a header that is no JSON")
            .weights(|content| content[8] = b'x')
            .refused("not a safetensors header"),
        damaged("a header nested 100,000 deep")
            .weights(|content| {
                let deep = "[".repeat(100_000);
                let start = (deep.len() as u64).to_le_bytes();
                *content = [&start[..], deep.as_bytes()].concat();
            })
            .refused("not a safetensors header"),
        damaged("a tensor with a wrong type")
            .header(FILE, |header| first(header)["dtype"] = json!("I32"))
            .refused("I32"),
        damaged("a tensor of an unknown type")
            .header(FILE, |header| first(header)["dtype"] = json!("F3"))
            .refused("header"),
        damaged("a tensor of another shape")
            .header(FILE, move |header| {
                let shape = &mut first(header)["shape"];
                *shape = json!([1_000_000, 1_000_000]);
            })
            .refused("model.safetensors"),
        damaged("a shape whose size overflows")
            .header(FILE, move |header| {
                let shape = &mut first(header)["shape"];
                *shape = json!([u64::MAX, u64::MAX, 2]);
            })
            .refused("model.safetensors"),
        damaged("overlapping tensors")
            .header(FILE, |header| {
                first(header)["data_offsets"] = json!([0, 64])
            })
            .refused("model.safetensors"),
        damaged("offsets past the end")
            .header(FILE, |header| {
                first(header)["data_offsets"] = json!([0, 1_000_000_000_000u64]);
            })
            .refused("model.safetensors"),
        damaged("offsets that go backwards")
            .header(FILE, |header| {
                first(header)["data_offsets"] = json!([64, 0])
            })
            .refused("model.safetensors"),
        damaged("a missing tensor")
            .header(FILE, move |header| {
                let name = first_name(header);
                let tensor = header.as_object_mut().unwrap().shift_remove(&name).unwrap();
                header["other"] = tensor;
            })
            .refused("is missing"),
        damaged("not a safetensors file")
            .file(FILE, vec![b'x'; 100_000])
            .refused("claims"),
    ]
}

fn tokenizers() -> Vec<Case> {
    let damaged = |name: &str| model(format!("tokenizer.json: {name}"));
    let replace = |count: usize| json!({"type": "Replace", "pattern": {"String": "a"}, "content": "a".repeat(count)});
    vec![
        damaged("empty").file("model/tokenizer.json", "").refused("tokenizer.json"),
        damaged("{}").file("model/tokenizer.json", "{}").refused("tokenizer.json"),
        damaged("no JSON").file("model/tokenizer.json", "\0\0\0").refused("tokenizer.json"),
        damaged("nested 100,000 deep")
            .file("model/tokenizer.json", "[".repeat(100_000))
            .refused("tokenizer.json"),
        damaged("normaliser nested 100 deep")
            .step(|folder| {
                let (open, close) = (
                    r#"{"type":"Sequence","normalizers":["#.repeat(100),
                    "]}".repeat(100),
                );
                let text = format!(r#"{{"normalizer":{open}{close},"model":{{}}}}"#);
                std::fs::write(folder.join("model/tokenizer.json"), text).unwrap();
            })
            .refused("tokenizer.json"),
        damaged("cut in half")
            .bytes("model/tokenizer.json", |content| content.truncate(content.len() / 2))
            .refused("tokenizer.json"),
        damaged("a piece beyond the embeddings")
            .tokenizer("model.vocab.zzz", json!(1_000_000))
            .refused("tokenizer.json"),
        damaged("a piece with id 2^32-1")
            .tokenizer("model.vocab.zzz", json!(u32::MAX))
            .refused("tokenizer.json"),
        damaged("a piece with id -1")
            .tokenizer("model.vocab.zzz", json!(-1))
            .refused("tokenizer.json"),
        damaged("a special piece beyond the embeddings")
            .tokenizer(
                "added_tokens",
                json!([{"id": 999_999, "content": "<x>", "single_word": false, "lstrip": false,
                        "rstrip": false, "normalized": false, "special": true}]),
            )
            .refused("tokenizer.json"),
        damaged("300,000 pieces for 120 embeddings")
            .step(|folder| {
                let path = folder.join("model/tokenizer.json");
                let text = std::fs::read(&path).unwrap();
                let mut json: Value = serde_json::from_slice(&text).unwrap();
                let vocabulary = json["model"]["vocab"].as_object_mut().unwrap();
                for n in 0..300_000 {
                    vocabulary.insert(format!("p{n}"), json!(200 + n));
                }
                std::fs::write(path, json.to_string()).unwrap();
            })
            .refused("tokenizer.json")
            .megabytes(300),
        damaged("two pieces with one id")
            .tokenizer("model.vocab.zzz", json!(5))
            .survives("tokenizer.json"),
        damaged("no unknown piece")
            .tokenizer("model.unk_token", json!("nothing"))
            .fine("Oslo"),
        damaged("no [CLS]")
            .tokenizer("post_processor", Value::Null)
            .survives("tokenizer.json"),
        damaged("max_input_chars_per_word = 2^64-1")
            .tokenizer("model.max_input_chars_per_word", json!(u64::MAX))
            .refused("max_input_chars_per_word"),
        damaged("max_input_chars_per_word = -1")
            .tokenizer("model.max_input_chars_per_word", json!(-1))
            .refused("tokenizer.json"),
        damaged("max_input_chars_per_word = 0")
            .tokenizer("model.max_input_chars_per_word", json!(0))
            .survives("tokenizer.json"),
        damaged("a normaliser that makes texts 1000 times as long")
            .tokenizer("normalizer", replace(1000))
            .refused("1000 times as long"),
        damaged("30 normalisers that double the text")
            .tokenizer(
                "normalizer",
                json!({"type": "Sequence", "normalizers": vec![replace(2); 30]}),
            )
            .refused("times as long"),
        damaged("a normaliser that prepends a megabyte")
            .tokenizer("normalizer", json!({"type": "Prepend", "prepend": "x".repeat(1 << 20)}))
            .refused("times as long"),
        damaged("a table of replacements that is no base64")
            .tokenizer(
                "normalizer",
                json!({"type": "Precompiled", "precompiled_charsmap": "!!!"}),
            )
            .refused("base64"),
        damaged("a table of replacements that is cut")
            .tokenizer(
                "normalizer",
                json!({"type": "Precompiled", "precompiled_charsmap": "/////w=="}),
            )
            .refused("precompiled_charsmap"),
        damaged("a regular expression with catastrophic backtracking")
            .tokenizer(
                "normalizer",
                json!({"type": "Replace", "pattern": {"Regex": "(a*)*b"}, "content": ""}),
            )
            .input(format!("{}\n", "a".repeat(5000)))
            .survives("tokenizer.json"),
        damaged("a pre-tokenizer with a hostile expression")
            .tokenizer(
                "pre_tokenizer",
                json!({"type": "Split", "pattern": {"Regex": "(?=(a+)+$)(a|aa)+$x"},
                       "behavior": "Isolated", "invert": false}),
            )
            .input(format!("{}b\n", "a".repeat(80)))
            .survives("tokenizer.json"),
        damaged("padding to 10^9 pieces")
            .tokenizer(
                "padding",
                json!({"strategy": {"Fixed": 1_000_000_000}, "direction": "Right",
                       "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}),
            )
            .survives("tokenizer.json"),
        damaged("truncation to 0 pieces")
            .tokenizer(
                "truncation",
                json!({"direction": "Right", "max_length": 0, "strategy": "LongestFirst", "stride": 0}),
            )
            .survives("tokenizer.json"),
    ]
}

fn manifests() -> Vec<Case> {
    let hash = "0".repeat(64);
    let damaged = |name: &str| model(format!("manifest.json: {name}"));
    let names = |name: &'static str| {
        let hash = hash.clone();
        damaged(&format!("names {name}"))
            .manifest(move |manifest| manifest[name] = json!(hash))
            .refused("not one of this folder")
    };
    let set = |file: &'static str, key: &'static str, value: Value| {
        damaged(&format!("{key} of {file} = {value}"))
            .manifest(move |manifest| manifest[file][key] = value.clone())
    };
    let many = |manifest: &mut Value| {
        for n in 0..10_000 {
            manifest[format!("f{n}")] = json!("0".repeat(64));
        }
    };
    vec![
        damaged("{}")
            .manifest(|manifest| *manifest = json!({}))
            .refused("does not list"),
        damaged("[]")
            .manifest(|manifest| *manifest = json!([]))
            .refused("not a manifest"),
        damaged("without the weights")
            .manifest(|manifest| {
                manifest
                    .as_object_mut()
                    .unwrap()
                    .shift_remove("model.safetensors");
            })
            .refused("does not list model.safetensors"),
        damaged("without the tokenizer")
            .manifest(|manifest| {
                manifest
                    .as_object_mut()
                    .unwrap()
                    .shift_remove("tokenizer.json");
            })
            .refused("does not list tokenizer.json"),
        names("../secret"),
        names("/etc/passwd"),
        names("a/../../b"),
        names("C:\\x"),
        names("manifest.json"),
        set("model.safetensors", "size", json!(1)).refused("manifest says 1"),
        set("model.safetensors", "size", json!(-1)).refused("not a manifest"),
        set("model.safetensors", "size", huge()).refused("not a manifest"),
        set("config.json", "sha256", json!("0".repeat(64))).refused("sha256"),
        set("config.json", "sha256", json!("xyz")).refused("64 hexadecimal digits"),
        damaged("10,000 files")
            .manifest(many)
            .refused("more than the 100"),
        damaged("a file that is missing")
            .manifest(|manifest| manifest["more.bin"] = json!("0".repeat(64)))
            .refused("missing"),
        damaged("empty")
            .file("model/manifest.json", "")
            .unsealed()
            .refused("manifest.json"),
        damaged("2 MB")
            .file("model/manifest.json", vec![b' '; 2 << 20])
            .unsealed()
            .refused("longer than"),
        damaged("missing")
            .step(|folder| std::fs::remove_file(folder.join("model/manifest.json")).unwrap())
            .unsealed()
            .refused("manifest.json"),
    ]
    .into_iter()
    .flat_map(|one| {
        // `zoo verify` has to say the same.
        let mut verified = one.clone();
        verified.name = one
            .name
            .replace("manifest.json:", "zoo verify, manifest.json:");
        verified.arguments = ["zoo", "verify", "@/model"].map(String::from).to_vec();
        [one, verified]
    })
    .collect()
}

fn files() -> Vec<Case> {
    const NAMES: [&str; 4] = [
        "model/config.json",
        "model/model.safetensors",
        "model/tokenizer.json",
        "model/manifest.json",
    ];
    let mut cases = Vec::new();
    for name in NAMES {
        let short = &name[6..];
        cases.push(
            model(format!("{short} is a named pipe"))
                .fifo(name)
                .unsealed()
                .refused(short),
        );
        cases.push(
            model(format!("{short} is a folder"))
                .folder(name)
                .unsealed()
                .refused(short),
        );
        cases.push(
            model(format!("{short} is a link to /dev/zero"))
                .link(name, "/dev/zero")
                .unsealed()
                .refused(short),
        );
        cases.push(
            model(format!("{short} is a link that leads nowhere"))
                .link(name, "@/nowhere")
                .unsealed()
                .refused(short),
        );
        cases.push(
            model(format!("{short} is a link to itself"))
                .link(name, "@/model/x")
                .link("model/x", name_of(name))
                .unsealed()
                .refused(short),
        );
    }
    for name in &NAMES[..3] {
        // The file is the right one, but nothing outside of a folder is opened.
        cases.push(
            model(format!("{} is a link out of the folder", &name[6..]))
                .step(move |folder| {
                    let from = folder.join(name);
                    std::fs::copy(&from, folder.join("outside")).unwrap();
                })
                .link(name, "@/outside")
                .refused("outside"),
        );
    }
    for (name, path) in [
        ("no such folder", "@/none"),
        ("an empty folder", "@/empty"),
        ("a file", "@/train.jsonl"),
        ("/dev/zero", "/dev/zero"),
        ("a name with ..", "../../etc"),
    ] {
        cases.push(
            case(
                2,
                format!("model is {name}"),
                &format!("predict --model {path}"),
            )
            .folder("empty")
            .refused(""),
        );
    }
    cases.push(
        case(2, "model is a named pipe", "predict --model @/p")
            .fifo("p")
            .refused(""),
    );
    for verb in [
        "evaluate @/model @/dev.jsonl",
        "zoo show @/model",
        "zoo verify @/model",
        "zoo pull @/model --to @/zoo --name x",
        "zoo publish @/model --to @/zoo --name x --no-score",
        "analyse --train @/train.jsonl --gold @/dev.jsonl a=@/model --out @/r.html",
        "serve --model @/model --port 0",
    ] {
        let name = verb
            .split(" @")
            .next()
            .unwrap()
            .split(" --")
            .next()
            .unwrap();
        let command = |what: &str| case(2, format!("{name}: {what}"), verb);
        cases.push(
            command("config.json is a named pipe")
                .fifo(NAMES[0])
                .unsealed()
                .refused("config.json"),
        );
        cases.push(
            command("10^12 layers")
                .encoder("layers", json!(1_000_000_000_000u64))
                .refused("layers"),
        );
    }
    cases
}

/// The same name as a link target.
fn name_of(name: &'static str) -> &'static str {
    match name {
        "model/config.json" => "@/model/config.json",
        "model/model.safetensors" => "@/model/model.safetensors",
        "model/tokenizer.json" => "@/model/tokenizer.json",
        _ => "@/model/manifest.json",
    }
}

/// A pretrained encoder in the folder `encoder`, used by `bench predict`.
fn encoder(fixture: &'static str, name: impl Into<String>) -> Case {
    let command = "bench predict @/pretrained.toml --steps 1";
    case(2, format!("pretrained: {}", name.into()), command).step(move |folder| {
        let to = folder.join("encoder");
        std::fs::create_dir(&to).unwrap();
        let from = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures/encoders")
            .join(fixture);
        for entry in std::fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
        let at = folder.display();
        let recipe = format!(
            "[data]\ntrain = [\"{at}/train.jsonl\"]\n[encoder]\npretrained = \"{at}/encoder\"\n[head]\nname = \"seq_ner\"\n"
        );
        std::fs::write(folder.join("pretrained.toml"), recipe).unwrap();
    })
}

fn encoders() -> Vec<Case> {
    const CONFIG: &str = "encoder/config.json";
    const WEIGHTS: &str = "encoder/model.safetensors";
    const PICKLE: &str = "encoder/pytorch_model.bin";
    let mut cases = Vec::new();
    for size in [
        "vocab_size",
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "intermediate_size",
        "max_position_embeddings",
    ] {
        for (name, value) in bad_sizes() {
            cases.push(
                encoder("bert-task", format!("{size} = {name}"))
                    .json(CONFIG, size, value)
                    .refused("config.json"),
            );
        }
    }
    for (key, value) in [
        ("hidden_dropout_prob", json!(7)),
        ("attention_probs_dropout_prob", json!(-1)),
        ("layer_norm_eps", json!(-1)),
        ("num_attention_heads", json!(3)),
        ("pad_token_id", json!(1_000_000)),
        ("type_vocab_size", json!(1_000_000_000_000u64)),
        ("model_type", json!("llama")),
        ("model_type", json!(7)),
        ("hidden_act", json!("explode")),
    ] {
        cases.push(
            encoder("bert-task", format!("{key} = {value}"))
                .json(CONFIG, key, value)
                .refused("config.json"),
        );
    }
    for (fixture, key, value) in [
        (
            "deberta-v3",
            "position_buckets",
            json!(1_000_000_000_000u64),
        ),
        (
            "deberta-v3",
            "max_relative_positions",
            json!(1_000_000_000_000u64),
        ),
        (
            "deberta-v2-xlarge",
            "conv_kernel_size",
            json!(1_000_000_000_001u64),
        ),
        ("deberta-v2-xlarge", "conv_groups", json!(0)),
        ("albert", "num_hidden_groups", json!(0)),
        ("albert", "inner_group_num", json!(1_000_000_000_000u64)),
        ("albert", "embedding_size", json!(0)),
        ("mpnet", "relative_attention_num_buckets", json!(0)),
        ("modernbert", "local_attention", json!(-1)),
        ("modernbert", "global_attn_every_n_layers", json!(0)),
        ("distilbert", "n_heads", json!(0)),
        ("roberta", "pad_token_id", json!(511)),
    ] {
        cases.push(
            encoder(fixture, format!("{fixture} with {key} = {value}"))
                .json(CONFIG, key, value)
                .refused("config.json"),
        );
    }
    let nan = |content: &mut Vec<u8>| {
        let start = 8 + u64::from_le_bytes(content[..8].try_into().unwrap()) as usize;
        content[start..].fill(0xff);
    };
    let lie = |name: &str, tensor: pickle::Tensor| {
        encoder("distilbert", name)
            .file(
                PICKLE,
                pickle::file(&[("embeddings.word_embeddings.weight", tensor)]),
            )
            .refused("pytorch_model.bin")
    };
    cases.extend([
        encoder("bert-task", "as it is").fine("sentences/s"),
        encoder("distilbert", "weights of PyTorch as they are").fine("sentences/s"),
        encoder("bert-task", "a header that claims 10 GB")
            .bytes(WEIGHTS, |content| {
                content[..8].copy_from_slice(&10_000_000_000u64.to_le_bytes())
            })
            .refused("model.safetensors"),
        encoder("bert-task", "a header that claims 2^64-1 bytes")
            .bytes(WEIGHTS, |content| content[..8].fill(0xff))
            .refused("model.safetensors"),
        encoder("bert-task", "weights cut in half")
            .bytes(WEIGHTS, |content| content.truncate(content.len() / 2))
            .refused("model.safetensors"),
        encoder("bert-task", "empty weights")
            .bytes(WEIGHTS, Vec::clear)
            .refused("model.safetensors"),
        encoder("bert-task", "all weights NaN")
            .bytes(WEIGHTS, nan)
            .refused("model.safetensors"),
        encoder("bert-task", "weights are a named pipe")
            .fifo(WEIGHTS)
            .refused("model.safetensors"),
        encoder("bert-task", "config.json is a named pipe")
            .fifo(CONFIG)
            .refused("config.json"),
        encoder("bert-task", "config.json nested 100,000 deep")
            .file(CONFIG, "[".repeat(100_000))
            .refused("config.json"),
        encoder("bert-task", "tokenizer.json is a named pipe")
            .fifo("encoder/tokenizer.json")
            .refused("tokenizer.json"),
        encoder("bert-task", "a piece beyond the embeddings")
            .json(
                "encoder/tokenizer.json",
                "model.vocab.zzz",
                json!(1_000_000),
            )
            .refused("tokenizer"),
        encoder("distilbert", "vocab.txt is a named pipe")
            .fifo("encoder/vocab.txt")
            .refused("vocab.txt"),
        encoder("distilbert", "vocab.txt is empty")
            .file("encoder/vocab.txt", "")
            .refused("vocab.txt"),
        encoder("distilbert", "vocab.txt is not UTF-8")
            .file("encoder/vocab.txt", vec![0xff; 100])
            .refused("vocab.txt"),
        encoder("distilbert", "vocab.txt with 1,000,000 pieces")
            .step(|folder| {
                let pieces: String = (0..1_000_000).map(|n| format!("p{n}\n")).collect();
                std::fs::write(folder.join("encoder/vocab.txt"), pieces).unwrap();
            })
            .refused("vocab.txt")
            .seconds(3.0)
            .megabytes(600),
        encoder("bert-task", "an index that names ../")
            .step(|folder| {
                let from = folder.join("encoder/model.safetensors");
                std::fs::rename(from, folder.join("outside.safetensors")).unwrap();
            })
            .file(
                "encoder/model.safetensors.index.json",
                r#"{"weight_map": {"a": "../outside.safetensors"}}"#,
            )
            .refused("index"),
        encoder("bert-task", "an index that names a named pipe")
            .step(|folder| std::fs::remove_file(folder.join(WEIGHTS)).unwrap())
            .fifo("encoder/model-1-of-1.safetensors")
            .file(
                "encoder/model.safetensors.index.json",
                r#"{"weight_map": {"a": "model-1-of-1.safetensors"}}"#,
            )
            .refused("model-1-of-1.safetensors"),
        encoder("distilbert", "pickle that is empty")
            .file(PICKLE, "")
            .refused("pytorch_model.bin"),
        encoder("distilbert", "pickle that is cut")
            .bytes(PICKLE, |content| content.truncate(content.len() / 2))
            .refused("pytorch_model.bin"),
        encoder("distilbert", "pickle of random bytes")
            .file(
                PICKLE,
                (0..50_000u32)
                    .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
                    .collect::<Vec<_>>(),
            )
            .refused("pytorch_model.bin"),
        encoder("distilbert", "pickle is a named pipe")
            .fifo(PICKLE)
            .refused("pytorch_model.bin"),
        lie(
            "pickle with stride 0",
            pickle::Tensor {
                elements: 1,
                shape: &[1_000_000, 32],
                stride: &[0, 0],
                offset: 0,
            },
        ),
        lie(
            "pickle with a huge stride",
            pickle::Tensor {
                elements: 64,
                shape: &[2, 2],
                stride: &[1_000_000_000, 1],
                offset: 0,
            },
        ),
        lie(
            "pickle with a negative stride",
            pickle::Tensor {
                elements: 64,
                shape: &[2, 2],
                stride: &[-1, 1],
                offset: 0,
            },
        ),
        lie(
            "pickle with an offset past the end",
            pickle::Tensor {
                elements: 64,
                shape: &[2, 2],
                stride: &[2, 1],
                offset: 1_000_000_000,
            },
        ),
        lie(
            "pickle of a shape that overflows",
            pickle::Tensor {
                elements: 64,
                shape: &[2_000_000_000, 2_000_000_000],
                stride: &[1, 1],
                offset: 0,
            },
        ),
        lie(
            "pickle that claims more elements than it has",
            pickle::Tensor {
                elements: 2_000_000_000,
                shape: &[2_000_000_000],
                stride: &[1],
                offset: 0,
            },
        ),
        encoder("distilbert", "pickle that calls os.system")
            .file(
                PICKLE,
                pickle::archive(b"cos\nsystem\n(S'touch /tmp/nerzoo-was-here'\ntR.", &[]),
            )
            .refused("pytorch_model.bin")
            .after(|_| assert!(!std::path::Path::new("/tmp/nerzoo-was-here").exists())),
        encoder("distilbert", "pickle nested 100,000 deep")
            .file(
                PICKLE,
                pickle::archive(&[&[0x80, 2][..], &vec![b'('; 100_000], b"."].concat(), &[]),
            )
            .refused("pytorch_model.bin"),
        encoder("distilbert", "pickle with 10 million references")
            .file(
                PICKLE,
                pickle::archive(
                    &[&[0x80, 2][..], &vec![b'N'; 1_000_000], b"."].concat(),
                    &[],
                ),
            )
            .refused("pytorch_model.bin"),
    ]);
    cases
}
