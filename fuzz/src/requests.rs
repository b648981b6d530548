//! Bodies of requests to the service, sent through a connection. The first two characters are the address and the kind of content.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::LazyLock;
use std::time::Duration;

use nerzoo::Tagger;
use nerzoo::error::Result;
use nerzoo::heads::Diagnosis;
use nerzoo::serve::{Limits, Model, ServeOptions, Server};
use nerzoo::text::{Entity, Labels, Mention, Sentence};

use crate::input::Input;

/// A tagger that finds every word.
struct EveryWord(Labels);

impl Tagger for EveryWord {
    fn tag(&self, sentences: &[Sentence]) -> Result<Vec<Vec<Mention>>> {
        let word = |start: usize| Mention {
            entity: Entity::new(start, start + 1, "A"),
            score: 0.5,
        };
        let of = |sentence: &Sentence| (0..sentence.len()).map(word).collect();
        Ok(sentences.iter().map(of).collect())
    }

    fn diagnose(&self, sentences: &[Sentence]) -> Result<Diagnosis> {
        Ok(Diagnosis::of(self.tag(sentences)?))
    }

    fn labels(&self) -> &Labels {
        &self.0
    }

    fn nested(&self) -> bool {
        false
    }
}

static SERVER: LazyLock<SocketAddr> = LazyLock::new(|| {
    let model = Model::new("words", Box::new(EveryWord(Labels::new(["A"])))).expect("a good name");
    let limits = Limits {
        wait: Duration::ZERO,
        body: 1 << 16,
        ..Limits::default()
    };
    let options = ServeOptions {
        limits,
        ..ServeOptions::default()
    };
    let server = Server::bind(vec![model], "127.0.0.1:0", options).expect("a free port");
    let address = server.address();
    std::thread::spawn(|| server.run().expect("it runs until the end"));
    address
});

pub fn requests(data: &[u8]) {
    let mut given = Input::new(data);
    let address = given.one_of(&[
        "/v1/tag",
        "/",
        "/models/words",
        "/models/other",
        "/v1/tag?threshold=0.5",
    ]);
    let kind = given.one_of(&[
        "application/json",
        "application/x-ndjson",
        "text/plain",
        "application/json; charset=utf-8",
    ]);
    let body = given.rest();
    let mut stream = TcpStream::connect(*SERVER).expect("the service runs");
    let head = format!(
        "POST {address} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    // The service may answer before it has read everything.
    let sent = stream.write_all(&[head.as_bytes(), body].concat());
    let mut answer = Vec::new();
    let received = stream.read_to_end(&mut answer);
    if sent.is_err() || received.is_err() {
        return;
    }
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.split(' ').nth(1).unwrap_or_default();
    let is_expected = ["200", "400", "404", "405", "413", "415", "422"].contains(&status);
    assert!(is_expected, "{answer}");
    let is_json = answer.contains("content-type: application/json\r\n")
        && !answer.contains("transfer-encoding");
    if is_json && let Some((_, body)) = answer.split_once("\r\n\r\n") {
        let parsed: Result<serde_json::Value, _> = serde_json::from_str(body);
        assert!(parsed.is_ok(), "{answer}");
    }
}
