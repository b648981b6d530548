//! The HTTP service: answers, limits, faults and load.

#![cfg(feature = "cli")]

mod common;
#[path = "common/http.rs"]
mod http;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use common::program;
use http::{Answer, check_schema, connect, get, post, read_answer, request, send};
use nerzoo::Tagger;
use nerzoo::error::Result;
use nerzoo::heads::Diagnosis;
use nerzoo::serve::{Limits, Model, ServeOptions, Server, StopHandle};
use nerzoo::text::{Entity, Labels, Mention, Sentence};
use serde_json::{Value, json};

const JSON: (&str, &str) = ("Content-Type", "application/json");
const NDJSON: (&str, &str) = ("Content-Type", "application/x-ndjson");

/// Finds words that start with a capital. Panics at `PANIC`, fails at `FAIL`, and takes its time.
struct Capitals {
    labels: Labels,
    time: Duration,
    /// Sentences that were tagged.
    sentences: Arc<AtomicUsize>,
    batches: Arc<AtomicUsize>,
}

impl Capitals {
    fn new(time: Duration) -> Self {
        Self {
            labels: Labels::new(["CAP"]),
            time,
            sentences: Arc::default(),
            batches: Arc::default(),
        }
    }
}

impl Tagger for Capitals {
    fn tag(&self, sentences: &[Sentence]) -> Result<Vec<Vec<Mention>>> {
        self.sentences.fetch_add(sentences.len(), Ordering::SeqCst);
        self.batches.fetch_add(1, Ordering::SeqCst);
        thread::sleep(self.time);
        let of = |sentence: &Sentence| {
            let words = sentence.words.iter().enumerate();
            let capitals = words.filter(|(_, word)| word.text.starts_with(char::is_uppercase));
            let mention = |(index, _)| Mention {
                entity: Entity::new(index, index + 1, "CAP"),
                score: 0.5,
            };
            capitals.map(mention).collect()
        };
        for word in sentences.iter().flat_map(|sentence| &sentence.words) {
            assert!(word.text != "PANIC", "told to panic at /root/secret/path");
            if word.text == "FAIL" {
                return Err(nerzoo::error::Error::model_folder(
                    "/root/secret/path",
                    "told to fail",
                ));
            }
        }
        Ok(sentences.iter().map(of).collect())
    }

    fn diagnose(&self, sentences: &[Sentence]) -> Result<Diagnosis> {
        Ok(Diagnosis::of(self.tag(sentences)?))
    }

    fn labels(&self) -> &Labels {
        &self.labels
    }

    fn nested(&self) -> bool {
        false
    }
}

/// A service in this process.
struct Running {
    address: SocketAddr,
    handle: StopHandle,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Running {
    fn start(tagger: Capitals, options: ServeOptions) -> Self {
        let model = Model::new("capitals", Box::new(tagger)).unwrap();
        let server = Server::bind(vec![model], "127.0.0.1:0", options).unwrap();
        Self {
            address: server.address(),
            handle: server.stop_handle(),
            thread: Some(thread::spawn(|| server.run())),
        }
    }

    fn quick(limits: Limits) -> Self {
        let options = ServeOptions {
            limits,
            ..ServeOptions::default()
        };
        Self::start(Capitals::new(Duration::ZERO), options)
    }

    /// Stops it, and waits until it has ended.
    fn stop(mut self) -> Result<()> {
        self.handle.stop();
        self.thread.take().unwrap().join().unwrap()
    }

    fn tag(&self, texts: &[&str]) -> Answer {
        post(self.address, "/v1/tag", &json!({"texts": texts}))
    }

    fn is_well(&self) {
        let answer = self.tag(&["Anna sings."]);
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.json()["results"][0]["entities"][0]["text"], "Anna");
    }

    fn metric(&self, name: &str) -> f64 {
        let text = get(self.address, "/metrics");
        let line = text
            .text()
            .lines()
            .find(|line| line.starts_with(name))
            .map(String::from);
        line.and_then(|line| line.rsplit_once(' ')?.1.parse().ok())
            .unwrap_or_else(|| panic!("no {name}"))
    }
}

/// The program with a trained model.
struct Program {
    child: Child,
    address: SocketAddr,
}

impl Program {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_nerzoo"))
            .args([&["serve", "--port", "0"], arguments].concat())
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env_remove("NERZOO_TOKEN_FILE")
            .env_remove("NERZOO_DEVICE")
            .env_remove("RUST_LOG")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let address = line
            .trim()
            .rsplit("http://")
            .next()
            .unwrap()
            .trim_end_matches('/');
        let Ok(address) = address.parse() else {
            let mut problem = String::new();
            let _ = child.stderr.take().unwrap().read_to_string(&mut problem);
            panic!("the service did not start: {line}{problem}");
        };
        Self { child, address }
    }

    /// Sends SIGTERM, and returns the exit code.
    fn terminate(mut self) -> Option<i32> {
        let killed = Command::new("kill")
            .args(["-TERM", &self.child.id().to_string()])
            .status();
        assert!(killed.unwrap().success());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The folder of a small nested model, trained once.
fn trained_model() -> &'static str {
    static MODEL: OnceLock<(tempfile::TempDir, String)> = OnceLock::new();
    let make = || {
        let folder = tempfile::tempdir().unwrap();
        let run = program::trained(folder.path(), &["head.name=span_ner", "train.epochs=6"]);
        (folder, run)
    };
    &MODEL.get_or_init(make).1
}

const TEXTS: [&str; 6] = [
    "Marta Keller visited the University of Lindholm. She met the Bank of Brakel in March!",
    "",
    "  \n\t ",
    "北京 👩‍🔬 Zoë Keller\u{301} of Lindholm — \"quoted\" & <b>bold</b>",
    "one two three",
    "Line one\nAnna of Brakel.\r\nLine three\u{0} Ada Keller",
];

/// The lines that `predict` prints for texts.
fn predicted(model: &str, texts: &[&str], more: &[&str]) -> Vec<Value> {
    let lines: String = texts
        .iter()
        .map(|text| format!("{}\n", json!({"text": text})))
        .collect();
    let arguments = ["predict", "--model", model, "--input-format", "text_jsonl"];
    let output = program::nerzoo_with_input(&[&arguments[..], more].concat(), lines.as_bytes());
    assert!(output.status.success(), "{}", program::text(&output.stderr));
    let text = program::text(&output.stdout);
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Fails unless records are the same, up to the last digits of scores, which depend on the batch.
fn assert_same(one: &Value, other: &Value) {
    let without_scores = |record: &Value| {
        let mut record = record.clone();
        for entity in record["entities"].as_array_mut().unwrap() {
            assert!(entity.as_object_mut().unwrap().remove("score").is_some());
        }
        record
    };
    assert_eq!(without_scores(one), without_scores(other));
    let entities = |record: &Value| record["entities"].as_array().unwrap().clone();
    for (one, other) in entities(one).iter().zip(entities(other)) {
        let (one, other) = (
            one["score"].as_f64().unwrap(),
            other["score"].as_f64().unwrap(),
        );
        assert!((one - other).abs() < 1e-4, "{one} {other}");
    }
}

#[test]
fn answers_equal_those_of_predict() {
    let model = trained_model();
    let both = format!("second={model}");
    let service = Program::start(&["-m", model, "-m", &both]);
    let address = service.address;
    let expected = predicted(model, &TEXTS, &[]);
    assert!(
        expected
            .iter()
            .any(|record| !record["entities"].as_array().unwrap().is_empty())
    );

    let description = get(address, "/openapi.json").json();
    let schema = |path: &str, method: &str, status: &str, kind: &str| {
        let operation =
            &description["paths"][path][method]["responses"][status]["content"][kind]["schema"];
        assert!(operation.is_object(), "{path} {method} {status} {kind}");
        operation.clone()
    };
    let answer = post(address, "/v1/tag", &json!({"texts": TEXTS}));
    assert_eq!(answer.status, 200, "{answer:?}");
    check_schema(
        &description,
        &schema("/v1/tag", "post", "200", "application/json"),
        &answer.json(),
        "tag",
    );
    assert_eq!(answer.json()["model"], "run");
    let results = answer.json()["results"].as_array().unwrap().clone();
    assert_eq!(results.len(), TEXTS.len());
    results
        .iter()
        .zip(&expected)
        .for_each(|(one, other)| assert_same(one, other));

    // A threshold, and the second model.
    let body = json!({"texts": TEXTS, "threshold": 0.5, "model": "second"});
    let answer = post(address, "/v1/tag", &body).json();
    assert_eq!(answer["model"], "second");
    let expected_above = predicted(model, &TEXTS, &["--threshold", "0.5"]);
    let results = answer["results"].as_array().unwrap();
    results
        .iter()
        .zip(&expected_above)
        .for_each(|(one, other)| assert_same(one, other));

    // Lines.
    let lines: String = TEXTS
        .iter()
        .map(|text| format!("{}\n", json!({"text": text})))
        .collect();
    let answer = send(
        address,
        "POST",
        "/v1/tag?model=second&threshold=0",
        &[NDJSON],
        lines.as_bytes(),
    );
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, Some("application/x-ndjson"))
    );
    let records: Vec<Value> = answer
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(records.len(), TEXTS.len());
    let record_schema = schema("/v1/tag", "post", "200", "application/x-ndjson");
    for (one, other) in records.iter().zip(&expected) {
        check_schema(&description, &record_schema, one, "line");
        assert_same(one, other);
    }

    // Other forms are those of predict, too.
    let text = "Marta Keller visited the University of Lindholm. She met the Bank of Brakel.";
    let body = |format: &str| json!({"texts": [text], "format": format});
    for format in ["conll", "text"] {
        let arguments = ["predict", "--model", model, "--format", format];
        let printed = program::nerzoo_with_input(&arguments, text.as_bytes());
        let answer = post(address, "/v1/tag", &body(format));
        assert_eq!(answer.text(), program::text(&printed.stdout), "{format}");
    }
    let answer = post(address, "/v1/tag", &body("brat"));
    assert!(answer.text().starts_with("T1\t"), "{answer:?}");

    // Hugging Face's form.
    let entities = expected[0]["entities"].as_array().unwrap();
    for (path, schema_path) in [("/", "/"), ("/models/second", "/models/{name}")] {
        let answer = post(
            address,
            path,
            &json!({"inputs": TEXTS[0], "parameters": {"aggregation_strategy": "simple"}, "options": {}}),
        );
        assert_eq!(answer.status, 200, "{answer:?}");
        check_schema(
            &description,
            &schema(schema_path, "post", "200", "application/json"),
            &answer.json(),
            path,
        );
        let found = answer.json().as_array().unwrap().clone();
        assert_eq!(found.len(), entities.len());
        for (one, other) in found.iter().zip(entities) {
            let pairs = [
                ("entity_group", "label"),
                ("word", "text"),
                ("start", "start"),
                ("end", "end"),
            ];
            pairs
                .iter()
                .for_each(|(one_key, key)| assert_eq!(one[*one_key], other[*key]));
        }
    }
    let label = entities[0]["label"].as_str().unwrap();
    let body = json!({"inputs": [TEXTS[0], ""], "parameters": {"ignore_labels": [label], "aggregation_strategy": "none"}});
    let found = post(address, "/", &body).json();
    assert_eq!(found[1], json!([]));
    for word in found[0].as_array().unwrap() {
        let entity = word["entity"].as_str().unwrap();
        assert!(!entity.ends_with(&format!("-{label}")) && word.get("entity_group").is_none());
        assert!(word["index"].as_u64().unwrap() > 0);
    }

    // What the service tells about itself.
    for (path, place) in [
        ("/v1/models", "models"),
        ("/health", "health"),
        ("/ready", "ready"),
    ] {
        let answer = get(address, path);
        assert_eq!(answer.status, 200);
        check_schema(
            &description,
            &schema(path, "get", "200", "application/json"),
            &answer.json(),
            place,
        );
    }
    let models = get(address, "/v1/models").json();
    assert_eq!(models["models"][1]["name"], "second");
    assert_eq!(models["models"][0]["nested"], true);
    let setting = models["models"][0]["settings"][0]["name"]
        .as_str()
        .expect("a setting")
        .to_string();
    assert!(setting.starts_with("head."));
    let answer = post(
        address,
        "/v1/tag",
        &json!({"texts": ["a"], "set": {"head.nothing": 1}}),
    );
    assert_eq!(answer.status, 422);
    assert!(
        answer.error().contains("head.nothing") && answer.error().contains(&setting),
        "{}",
        answer.error()
    );
    check_schema(
        &description,
        &schema("/v1/tag", "post", "422", "application/json"),
        &answer.json(),
        "error",
    );
    // Nothing names the machine's folders.
    let folder = std::path::Path::new(model)
        .parent()
        .unwrap()
        .display()
        .to_string();
    for path in ["/v1/models", "/metrics", "/openapi.json", "/", "/no"] {
        assert!(!get(address, path).text().contains(&folder), "{path}");
    }
    assert_eq!(service.terminate(), Some(0));
}

#[test]
fn settings_change_what_is_found_without_another_model() {
    let model = trained_model();
    let service = Program::start(&["-m", model]);
    let models = get(service.address, "/v1/models").json();
    let settings = models["models"][0]["settings"].as_array().unwrap().clone();
    let threshold = settings
        .iter()
        .find(|setting| setting["name"].as_str().unwrap().contains("threshold"));
    let overlaps = settings
        .iter()
        .find(|setting| setting["name"] == "head.overlaps");
    let (set, argument) = match (threshold, overlaps) {
        (_, Some(_)) => (
            json!({"head.overlaps": "flat"}),
            "head.overlaps=flat".to_string(),
        ),
        (Some(setting), _) => {
            let name = setting["name"].as_str().unwrap();
            (json!({name: 0.9}), format!("{name}=0.9"))
        }
        _ => panic!("no setting to change in {settings:?}"),
    };
    let answer = post(
        service.address,
        "/v1/tag",
        &json!({"texts": TEXTS, "set": set}),
    );
    assert_eq!(answer.status, 200, "{answer:?}");
    let expected = predicted(model, &TEXTS, &["--set", &argument]);
    let results = answer.json()["results"].as_array().unwrap().clone();
    results
        .iter()
        .zip(&expected)
        .for_each(|(one, other)| assert_same(one, other));
    // The model itself is unchanged.
    let results = post(service.address, "/v1/tag", &json!({"texts": TEXTS})).json()["results"]
        .as_array()
        .unwrap()
        .clone();
    results
        .iter()
        .zip(predicted(model, &TEXTS, &[]))
        .for_each(|(one, other)| assert_same(one, &other));
    assert_eq!(service.terminate(), Some(0));
    let service = Program::start(&["-m", model, "--no-set"]);
    let answer = post(
        service.address,
        "/v1/tag",
        &json!({"texts": TEXTS, "set": set}),
    );
    assert_eq!(answer.status, 422);
}

#[test]
fn without_a_name_the_default_model_is_served() {
    let service = Program::start(&[]);
    let models = get(service.address, "/v1/models").json();
    let index = std::fs::read("model-zoo/index.json").unwrap();
    let index: Value = serde_json::from_slice(&index).unwrap();
    assert_eq!(models["models"][0]["name"], index["default"], "{models}");
    assert_eq!(service.terminate(), Some(0));
}

#[test]
fn arguments_that_cannot_work_are_explained() {
    let model = trained_model();
    let folder = tempfile::tempdir().unwrap();
    let empty = program::write(folder.path(), "token", b"\n");
    program::fails(
        &["serve", "-m", model, "-m", model],
        &["two models are called run", "NAME=MODEL"],
    );
    program::fails(&["serve", "-m", "no/such/model"], &["no/such/model"]);
    program::fails(&["serve", "-m", model, "--token-file", &empty], &["empty"]);
    program::fails(
        &["serve", "-m", model, "--cors", "example.org/"],
        &["not an origin"],
    );
    program::fails(
        &["serve", "-m", model, "--host", "no such host"],
        &["cannot listen", "--host"],
    );
    program::fails(&["serve", "-m", model, "--max-texts", "0"], &["at least 1"]);
    program::fails(&["serve", "-m", &format!("a b={model}")], &["not a name"]);
}

#[test]
fn malformed_and_invalid_requests_are_explained() {
    let service = Running::quick(Limits {
        texts: 3,
        characters: 50,
        body: 2000,
        ..Limits::default()
    });
    let address = service.address;
    let tag = |body: &[u8]| send(address, "POST", "/v1/tag", &[JSON], body);
    for (body, status, part) in [
        (&b"{\"texts\": [\"a\"]"[..], 400, "not JSON"),
        (b"", 400, "not JSON"),
        (b"{\"texts\": []} x", 400, "not JSON"),
        (b"{\"texts\": [\"\xff\"]}", 400, "not UTF-8 after byte 12"),
        (b"{\"texts\": [\"\\ud800\"]}", 400, "not JSON"),
        (b"{\"texts\": \"a\"}", 422, "texts"),
        (b"{\"texts\": [1]}", 422, "texts[0]"),
        (b"{}", 422, "texts"),
        (b"[]", 422, ""),
        (b"{\"text\": \"a\"}", 422, "did you mean `texts`?"),
        (b"{\"texts\": [], \"threshold\": 2}", 422, "between 0 and 1"),
        (b"{\"texts\": [], \"threshold\": \"x\"}", 422, "threshold"),
        (
            b"{\"texts\": [], \"model\": \"capitls\"}",
            404,
            "did you mean \"capitals\"?",
        ),
        (
            b"{\"texts\": [], \"set\": {\"head.steps\": 1000000}}",
            422,
            "limit of 1000",
        ),
        (
            b"{\"texts\": [\"a\"], \"set\": {\"head.steps\": 1}}",
            422,
            "no settings",
        ),
        (b"{\"texts\": [\"a\"], \"format\": \"xml\"}", 422, "format"),
        (
            b"{\"texts\": [\"a\", \"b\"], \"format\": \"brat\"}",
            422,
            "one text",
        ),
        (
            b"{\"texts\": [\"a\", \"b\", \"c\", \"d\"]}",
            422,
            "limit of 3 (--max-texts)",
        ),
        (
            &json!({"texts": ["x".repeat(51)]}).to_string().into_bytes(),
            422,
            "limit of 50 (--max-characters)",
        ),
        (
            &json!({"texts": ["x".repeat(3000)]})
                .to_string()
                .into_bytes(),
            413,
            "limit of 2000 bytes (--max-body)",
        ),
        (&b"{\"set\":".repeat(240), 400, "not JSON"),
    ] {
        let answer = tag(body);
        assert_eq!(
            answer.status,
            status,
            "{}: {answer:?}",
            String::from_utf8_lossy(body)
        );
        assert!(answer.error().contains(part), "{}", answer.error());
    }
    assert_eq!(send(address, "POST", "/v1/tag", &[], b"{}").status, 415);
    assert_eq!(
        post(address, "/v1/tag?model=x", &json!({"texts": []})).status,
        422
    );
    assert_eq!(
        post(address, "/models/none", &json!({"inputs": "a"})).status,
        404
    );
    let answer = post(address, "/", &json!({"inputs": 3}));
    assert_eq!(answer.status, 422);
    assert!(
        answer.error().contains("a text, or a list of texts"),
        "{}",
        answer.error()
    );
    assert_eq!(get(address, "/v1/tag").status, 405);
    assert_eq!(get(address, "/none").status, 404);
    assert_eq!(get(address, "/../etc/passwd").status, 404);
    assert_eq!(service.tag(&[]).json()["results"], json!([]));
    service.is_well();
    service.stop().unwrap();
}

#[test]
fn large_bodies_are_refused_at_once() {
    let service = Running::quick(Limits::default());
    let mut stream = connect(service.address);
    write!(stream, "POST /v1/tag HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 104857600\r\n\r\n").unwrap();
    let answer = read_answer(&mut stream).unwrap();
    assert_eq!(answer.status, 413);
    assert!(
        answer.error().contains("8388608 bytes"),
        "{}",
        answer.error()
    );
    // Without a length, and with all of its bytes.
    let mut stream = connect(service.address);
    write!(stream, "POST /v1/tag HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    let chunk = [b"10000\r\n".as_slice(), &[b' '; 1 << 16], b"\r\n"].concat();
    for _ in 0..1600 {
        if stream.write_all(&chunk).is_err() {
            break;
        }
    }
    assert_eq!(read_answer(&mut stream).unwrap().status, 413);
    service.is_well();
    service.stop().unwrap();
}

#[test]
fn a_stream_has_an_answer_for_every_line() {
    let service = Running::quick(Limits {
        characters: 100,
        body: 400,
        ..Limits::default()
    });
    let address = service.address;
    let long = format!("{{\"text\": \"{}\"}}\n", "x".repeat(101));
    let longer = format!("{{\"text\": \"{}\"}}\n", "x".repeat(500));
    let body = [
        "\u{feff}{\"text\": \"Anna\"}\r\n\nnothing\n{\"text\": 1}\n".as_bytes(),
        long.as_bytes(),
        longer.as_bytes(),
        b"{\"text\": \"\xff\"}\n{\"tokens\": [\"of\", \"Bern\"]}\n{\"text\": \"\"}\n{\"text\": \"Last\"}",
    ]
    .concat();
    let answer = send(address, "POST", "/v1/tag", &[NDJSON], &body);
    let lines: Vec<Value> = answer
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let found: Vec<String> = lines
        .iter()
        .map(|line| match line["error"].as_str() {
            Some(problem) => format!("{} {problem}", line["line"]),
            None => line["entities"]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one["text"].as_str().unwrap())
                .collect(),
        })
        .collect();
    let expected = [
        "Anna",
        "3 not JSON",
        "4 needs a `text`",
        "5 the text has 101 characters, more than the limit of 100",
        "6 the line is longer than the limit of 400 bytes",
        "7 the line is not UTF-8",
        "Bern",
        "",
        "Last",
    ];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found} / {expected}");
    }
    for path in [
        "/v1/tag?model=none",
        "/v1/tag?threshold=x",
        "/v1/tag?set=head.x=1",
        "/v1/tag?what=1",
    ] {
        assert!(
            [404, 422]
                .contains(&send(address, "POST", path, &[NDJSON], b"{\"text\": \"a\"}\n").status),
            "{path}"
        );
    }
    // Answers come while the request is still being sent.
    let mut stream = connect(address);
    write!(stream, "POST /v1/tag HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    for number in 0..3 {
        let text = format!("{{\"text\": \"Text {number}\"}}\n");
        write!(stream, "{:x}\r\n{text}\r\n", text.len()).unwrap();
        let wanted = format!("Text {number}");
        while !line.contains(&wanted) {
            line.clear();
            assert!(reader.read_line(&mut line).unwrap() > 0);
        }
    }
    write!(stream, "0\r\n\r\n").unwrap();
    service.stop().unwrap();
}

#[test]
fn a_hundred_thousand_texts_are_a_stream() {
    let service = Running::quick(Limits {
        queue: 5000,
        ..Limits::default()
    });
    let address = service.address;
    let texts: Vec<String> = (0..100_000)
        .map(|number| format!("text N{number}"))
        .collect();
    let refused = post(address, "/v1/tag", &json!({"texts": texts}));
    assert_eq!(refused.status, 422);
    assert!(
        refused
            .error()
            .contains("100000 texts are more than the limit of 1024"),
        "{}",
        refused.error()
    );
    let mut stream = connect(address);
    let mut sending = stream.try_clone().unwrap();
    let sender = thread::spawn(move || {
        let body: String = texts
            .iter()
            .map(|text| format!("{}\n", json!({"text": text})))
            .collect();
        sending
            .write_all(&request("POST", "/v1/tag", &[NDJSON], body.as_bytes()))
            .unwrap();
    });
    let answer = read_answer(&mut stream).unwrap();
    sender.join().unwrap();
    assert_eq!(answer.text().lines().count(), 100_000);
    for (number, line) in answer.text().lines().enumerate() {
        assert!(
            line.contains(&format!("\"text\":\"N{number}\"")),
            "{number}: {line}"
        );
    }
    service.stop().unwrap();
}

#[test]
fn a_full_queue_and_slow_answers_are_refused() {
    let limits = Limits {
        queue: 40,
        batch: 10,
        timeout: Duration::from_secs(2),
        ..Limits::default()
    };
    let options = ServeOptions {
        limits,
        ..ServeOptions::default()
    };
    let service = Running::start(Capitals::new(Duration::from_millis(300)), options);
    let address = service.address;
    let clients: Vec<_> = (0..40)
        .map(|number| {
            thread::spawn(move || {
                post(
                    address,
                    "/v1/tag",
                    &json!({"texts": [format!("a b c d e f g N{number}")]}),
                )
            })
        })
        .collect();
    let answers: Vec<Answer> = clients
        .into_iter()
        .map(|client| client.join().unwrap())
        .collect();
    let count = |status| {
        answers
            .iter()
            .filter(|answer| answer.status == status)
            .count()
    };
    assert!(count(200) > 0 && count(429) > 0, "{answers:?}");
    assert_eq!(count(200) + count(429) + count(503), 40);
    for answer in &answers {
        match answer.status {
            429 => {
                assert!(
                    answer
                        .header("retry-after")
                        .unwrap()
                        .parse::<u64>()
                        .unwrap()
                        > 0
                );
                assert!(
                    answer
                        .error()
                        .contains("40 word pieces wait already (--queue)")
                );
            }
            503 => assert!(answer.error().contains("limit of 2 seconds (--timeout)")),
            _ => {}
        }
    }
    // One text that takes longer than the limit.
    let texts: Vec<String> = (0..100)
        .map(|number| format!("one two three N{number}"))
        .collect();
    let start = Instant::now();
    let answer = post(address, "/v1/tag", &json!({"texts": texts}));
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(answer.error().contains("limit of 2 seconds"));
    assert!(start.elapsed() < Duration::from_secs(4));
    service.stop().unwrap();
}

#[test]
fn the_work_of_a_client_that_is_gone_is_dropped() {
    let tagger = Capitals::new(Duration::from_millis(50));
    let tagged = tagger.sentences.clone();
    let limits = Limits {
        batch: 10,
        ..Limits::default()
    };
    let service = Running::start(
        tagger,
        ServeOptions {
            limits,
            ..ServeOptions::default()
        },
    );
    let texts: Vec<String> = (0..1000)
        .map(|number| format!("one two three four five N{number}"))
        .collect();
    let body = json!({"texts": texts}).to_string();
    let mut stream = connect(service.address);
    stream
        .write_all(&request("POST", "/v1/tag", &[JSON], body.as_bytes()))
        .unwrap();
    while tagged.load(Ordering::SeqCst) == 0 {
        thread::sleep(Duration::from_millis(5));
    }
    stream.shutdown(Shutdown::Both).unwrap();
    drop(stream);
    service.is_well();
    let count = tagged.load(Ordering::SeqCst);
    assert!(count < 900, "{count} sentences were tagged for nobody");
    assert!(service.metric("nerzoo_dropped_sentences_total") > 0.0);
    assert_eq!(service.metric("nerzoo_queue_pieces"), 0.0);
    service.stop().unwrap();
}

#[test]
fn requests_share_batches() {
    let tagger = Capitals::new(Duration::from_millis(20));
    let (sentences, batches) = (tagger.sentences.clone(), tagger.batches.clone());
    let service = Running::start(tagger, ServeOptions::default());
    let address = service.address;
    let clients: Vec<_> = (0..50)
        .map(|client| {
            thread::spawn(move || {
                for number in 0..20 {
                    let text = format!("of N{client}x{number} and so on");
                    let answer = post(address, "/v1/tag", &json!({"texts": [text]}));
                    assert_eq!(answer.status, 200, "{answer:?}");
                    let entities = &answer.json()["results"][0]["entities"];
                    assert_eq!(entities[0]["text"], format!("N{client}x{number}"));
                    assert_eq!(entities.as_array().unwrap().len(), 1);
                }
            })
        })
        .collect();
    clients
        .into_iter()
        .for_each(|client| client.join().unwrap());
    assert_eq!(sentences.load(Ordering::SeqCst), 1000);
    let batches = batches.load(Ordering::SeqCst);
    assert!(batches < 500, "{batches} batches for 1000 requests");
    service.stop().unwrap();
}

#[test]
fn a_panic_fails_one_request_and_no_other() {
    let service = Running::start(
        Capitals::new(Duration::from_millis(100)),
        ServeOptions::default(),
    );
    let address = service.address;
    let clients: Vec<_> = (0..20)
        .map(|number| {
            let word = ["Anna", "PANIC", "Bo", "FAIL"][number % 4];
            thread::spawn(move || {
                (
                    word,
                    post(
                        address,
                        "/v1/tag",
                        &json!({"texts": [format!("see {word}")]}),
                    ),
                )
            })
        })
        .collect();
    for client in clients {
        let (word, answer) = client.join().unwrap();
        let is_bad = ["PANIC", "FAIL"].contains(&word);
        assert_eq!(
            answer.status,
            if is_bad { 500 } else { 200 },
            "{word}: {answer:?}"
        );
        assert!(!answer.text().contains("secret"), "{answer:?}");
    }
    let body = b"{\"text\": \"Anna\"}\n{\"text\": \"PANIC\"}\n";
    let answer = send(address, "POST", "/v1/tag", &[NDJSON], body);
    assert_eq!(answer.text().lines().count(), 2);
    assert!(
        answer
            .text()
            .lines()
            .all(|line| line.contains("tagging failed")),
        "{answer:?}"
    );
    service.is_well();
    assert!(service.metric("nerzoo_failed_batches_total") > 0.0);
    service.stop().unwrap();
}

#[test]
fn a_token_is_needed_where_there_is_one() {
    let options = ServeOptions {
        token: Some("se cret".into()),
        origins: vec!["https://example.org".into()],
        ..ServeOptions::default()
    };
    let service = Running::start(Capitals::new(Duration::ZERO), options);
    let address = service.address;
    for path in [
        "/health",
        "/ready",
        "/",
        "/style.css",
        "/script.js",
        "/openapi.json",
    ] {
        assert_eq!(get(address, path).status, 200, "{path}");
    }
    for path in ["/metrics", "/v1/models"] {
        assert_eq!(get(address, path).status, 401, "{path}");
    }
    let body = json!({"texts": ["Anna"]}).to_string();
    let with = |header: &str| {
        send(
            address,
            "POST",
            "/v1/tag",
            &[JSON, ("Authorization", header)],
            body.as_bytes(),
        )
    };
    assert_eq!(with("Bearer se cret").status, 200);
    for wrong in [
        "Bearer secret",
        "Bearer se cre",
        "Bearer se crets",
        "Basic se cret",
        "",
    ] {
        let answer = with(wrong);
        assert_eq!(
            (answer.status, answer.header("www-authenticate")),
            (401, Some("Bearer")),
            "{wrong}"
        );
    }
    assert_eq!(post(address, "/", &json!({"inputs": "a"})).status, 401);
    assert_eq!(
        post(address, "/models/capitals", &json!({"inputs": "a"})).status,
        401
    );
    let description = get(address, "/openapi.json").json();
    assert_eq!(
        description["components"]["securitySchemes"]["token"]["scheme"],
        "bearer"
    );
    // Preflight requests have no token.
    let preflight = |origin: &str| {
        let headers = [
            ("Origin", origin),
            ("Access-Control-Request-Method", "POST"),
        ];
        let answer = send(address, "OPTIONS", "/v1/tag", &headers, b"");
        answer
            .header("access-control-allow-origin")
            .map(String::from)
    };
    assert_eq!(
        preflight("https://example.org").as_deref(),
        Some("https://example.org")
    );
    assert_eq!(preflight("https://evil.example"), None);
    service.stop().unwrap();

    let service = Running::quick(Limits::default());
    let headers = [
        ("Origin", "https://example.org"),
        ("Access-Control-Request-Method", "POST"),
    ];
    let answer = send(service.address, "OPTIONS", "/v1/tag", &headers, b"");
    assert_eq!(answer.header("access-control-allow-origin"), None);
    let page = get(service.address, "/");
    let policy = page.header("content-security-policy").unwrap();
    assert!(
        policy.contains("default-src 'none'") && !policy.contains("unsafe"),
        "{policy}"
    );
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    for part in ["http:", "https:", "<script>", "style=", "onclick"] {
        assert!(!page.text().contains(part), "{part}");
    }
    service.stop().unwrap();
}

#[test]
fn slow_and_broken_clients_do_not_hold_up_others() {
    let limits = Limits {
        timeout: Duration::from_secs(1),
        connections: 100,
        ..Limits::default()
    };
    let service = Running::quick(limits);
    let address = service.address;
    let mut open = Vec::new();
    for part in [
        "",
        "POST /v1/tag HT",
        "POST /v1/tag HTTP/1.1\r\nHost: x\r\nContent-Ty",
    ] {
        for _ in 0..10 {
            let mut stream = connect(address);
            stream.write_all(part.as_bytes()).unwrap();
            open.push(stream);
        }
    }
    // Half a body.
    let whole = request("POST", "/v1/tag", &[JSON], b"{\"texts\": [\"Anna\"]}");
    let mut half = connect(address);
    half.write_all(&whole[..whole.len() - 5]).unwrap();
    // Not HTTP at all.
    let mut other = connect(address);
    other
        .write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello\r\n\r\n")
        .unwrap();
    service.is_well();
    let answer = read_answer(&mut half).unwrap();
    assert_eq!(answer.status, 408);
    assert!(
        answer.error().contains("limit of 1 seconds"),
        "{}",
        answer.error()
    );
    assert!(read_answer(&mut other).is_none_or(|answer| answer.status == 400));
    // A slow client that is not too slow.
    let mut slow = connect(address);
    for part in whole.chunks(20) {
        slow.write_all(part).unwrap();
        thread::sleep(Duration::from_millis(30));
    }
    assert_eq!(read_answer(&mut slow).unwrap().status, 200);
    // A stream that stands still ends with a reason.
    let mut stream = connect(address);
    write!(stream, "POST /v1/tag HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/x-ndjson\r\nContent-Length: 500\r\n\r\n{{\"text\": \"Anna\"}}\n").unwrap();
    let answer = read_answer(&mut stream).unwrap();
    let lines: Vec<&str> = answer.text().lines().collect();
    assert!(
        lines[0].contains("Anna")
            && lines[1].contains("\"line\":2")
            && lines[1].contains("time limit"),
        "{lines:?}"
    );
    service.is_well();
    drop(open);
    service.stop().unwrap();
}

#[test]
fn stopping_under_load_loses_nothing_that_was_taken() {
    let options = ServeOptions {
        limits: Limits {
            batch: 50,
            ..Limits::default()
        },
        ..ServeOptions::default()
    };
    let service = Running::start(Capitals::new(Duration::from_millis(40)), options);
    let address = service.address;
    // Each client sends requests on one connection, until it is told that the service ends.
    let clients: Vec<_> = (0..30)
        .map(|client| {
            thread::spawn(move || {
                let (mut taken, mut lost) = (0, 0);
                for number in 0.. {
                    let Ok(mut stream) = std::net::TcpStream::connect(address) else {
                        break;
                    };
                    let body = json!({"texts": [format!("of N{client}x{number}")]}).to_string();
                    if stream
                        .write_all(&request("POST", "/v1/tag", &[JSON], body.as_bytes()))
                        .is_err()
                    {
                        break;
                    }
                    match read_answer(&mut stream) {
                        Some(answer) if answer.status == 200 => {
                            assert!(answer.text().contains(&format!("\"N{client}x{number}\"")));
                            taken += 1;
                        }
                        Some(answer) => panic!("{answer:?}"),
                        None => lost += 1,
                    }
                }
                (taken, lost)
            })
        })
        .collect();
    thread::sleep(Duration::from_millis(800));
    // The answer to this one takes longer than the grace period.
    let texts: Vec<String> = (0..300)
        .map(|number| format!("one two three N{number}"))
        .collect();
    let long = thread::spawn(move || post(address, "/v1/tag", &json!({"texts": texts})));
    thread::sleep(Duration::from_millis(200));
    service.stop().unwrap();
    assert_eq!(
        long.join().unwrap().json()["results"]
            .as_array()
            .unwrap()
            .len(),
        300
    );
    let counts: Vec<(usize, usize)> = clients
        .into_iter()
        .map(|client| client.join().unwrap())
        .collect();
    let (taken, lost) = counts
        .iter()
        .fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
    assert!(taken > 30, "{taken}");
    assert_eq!(lost, 0, "{taken} answered");
    assert!(std::net::TcpStream::connect(address).is_err());
}

#[test]
fn clients_that_leave_without_reading_do_no_harm() {
    let service = Program::start(&["-m", trained_model()]);
    let address = service.address;
    let texts = vec![TEXTS[0]; 1000];
    let body = json!({"texts": texts}).to_string();
    let lines: String = texts
        .iter()
        .map(|text| format!("{}\n", json!({"text": text})))
        .collect();
    for number in 0..20 {
        let mut stream = connect(address);
        let (kind, body) = if number % 2 == 0 {
            (JSON, &body)
        } else {
            (NDJSON, &lines)
        };
        let bytes = request("POST", "/v1/tag", &[kind], body.as_bytes());
        stream.write_all(&bytes).unwrap();
        if number % 3 > 0 {
            // Some of the answer is there.
            let _ = stream.read(&mut [0; 100]);
        }
    }
    let answer = post(address, "/v1/tag", &json!({"texts": [TEXTS[0]]}));
    assert_eq!(answer.status, 200);
    assert_eq!(service.terminate(), Some(0));
}

#[test]
fn sigterm_under_load_ends_with_zero() {
    let service = Program::start(&["-m", trained_model()]);
    let address = service.address;
    let clients: Vec<_> = (0..8)
        .map(|_| {
            thread::spawn(move || {
                let mut taken = 0;
                while let Ok(mut stream) = std::net::TcpStream::connect(address) {
                    let body = json!({"texts": [TEXTS[0], TEXTS[3]]}).to_string();
                    if stream
                        .write_all(&request("POST", "/v1/tag", &[JSON], body.as_bytes()))
                        .is_err()
                    {
                        break;
                    }
                    let answer =
                        read_answer(&mut stream).expect("an answer to a request that was taken");
                    assert_eq!(answer.status, 200);
                    taken += 1;
                }
                taken
            })
        })
        .collect();
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(service.terminate(), Some(0));
    let taken: usize = clients
        .into_iter()
        .map(|client| client.join().unwrap())
        .sum();
    assert!(taken > 0);
}
