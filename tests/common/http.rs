//! A small HTTP client for tests, and a check of JSON against a schema.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(':'));
        let found = lines.find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim())
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("an answer in UTF-8")
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|problem| panic!("{problem}: {self:?}"))
    }

    /// The message of a failed request.
    pub fn error(&self) -> String {
        self.json()["error"].as_str().expect("an error").to_string()
    }
}

/// Connects with a time limit for reading.
pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(120)))
        .unwrap();
    stream
}

/// The bytes of a request.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n")
        .into_bytes();
    for (name, value) in headers {
        bytes.extend(format!("{name}: {value}\r\n").bytes());
    }
    bytes.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes());
    bytes.extend(body);
    bytes
}

/// Reads an answer, up to its length or to the end of the connection; `None` if there is none.
pub fn read_answer(stream: &mut TcpStream) -> Option<Answer> {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        // A connection that is reset after the answer has been sent is as good as one that ends.
        let count = stream.read(&mut buffer).unwrap_or(0);
        bytes.extend(&buffer[..count]);
        if let Some(answer) = parsed(&bytes, count == 0) {
            return Some(answer);
        }
        if count == 0 {
            return None;
        }
    }
}

/// The answer in these bytes, if they are all of it.
fn parsed(bytes: &[u8], has_ended: bool) -> Option<Answer> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let mut answer = Answer {
        status,
        head,
        body: bytes[end + 4..].to_vec(),
    };
    let length = answer
        .header("content-length")
        .map(|length| length.parse().unwrap());
    if answer.header("transfer-encoding") == Some("chunked") {
        if !has_ended && !answer.body.ends_with(b"0\r\n\r\n") {
            return None;
        }
        answer.body = unchunked(&answer.body);
    } else if let Some(length) = length {
        let body = &mut answer.body;
        if body.len() < length {
            assert!(
                !has_ended,
                "the answer was cut off after {} bytes",
                body.len()
            );
            return None;
        }
        body.truncate(length);
    } else if !has_ended {
        return None;
    }
    Some(answer)
}

fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = bytes.windows(2).position(|two| two == b"\r\n") {
        let length =
            usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap(), 16).unwrap();
        if length == 0 {
            return body;
        }
        body.extend(&bytes[end + 2..end + 2 + length]);
        bytes = &bytes[end + 4 + length..];
    }
    panic!("the answer was cut off after {} bytes", body.len());
}

/// Sends a request and reads its answer.
pub fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    let mut stream = connect(address);
    // The service may answer, and close, before it has read everything.
    let _ = stream.write_all(&request(method, path, headers, body));
    read_answer(&mut stream).expect("an answer")
}

pub fn get(address: SocketAddr, path: &str) -> Answer {
    send(address, "GET", path, &[], b"")
}

pub fn post(address: SocketAddr, path: &str, body: &Value) -> Answer {
    let headers = [("Content-Type", "application/json")];
    send(address, "POST", path, &headers, body.to_string().as_bytes())
}

/// Fails unless a value has the form that a schema describes; `document` has the definitions.
pub fn check_schema(document: &Value, schema: &Value, value: &Value, place: &str) {
    if let Err(problem) = matches(document, schema, value, place) {
        panic!("{problem}\n{schema:#}\n{value:#}");
    }
}

fn matches(document: &Value, schema: &Value, value: &Value, place: &str) -> Result<(), String> {
    let fail = |what: &str| Err(format!("{place}: {what}"));
    if let Some(name) = schema["$ref"].as_str() {
        let found = document.pointer(name.trim_start_matches('#'));
        return matches(document, found.ok_or(format!("no {name}"))?, value, place);
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(choices) = schema[key].as_array() {
            let fits = |choice: &&Value| matches(document, choice, value, place).is_ok();
            if !choices.iter().any(|choice| fits(&choice)) {
                return fail("no choice fits");
            }
        }
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let allowed: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(many) => many.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let fits = |allowed: &&str| *allowed == kind || (*allowed == "number" && kind == "integer");
    if !allowed.is_empty() && !allowed.iter().any(fits) {
        return fail(&format!("{kind} instead of {allowed:?}"));
    }
    if let Some(minimum) = schema["minimum"].as_f64()
        && value.as_f64().is_some_and(|value| value < minimum)
    {
        return fail("below the minimum");
    }
    if let (Some(items), Some(values)) = (schema.get("items"), value.as_array()) {
        for (index, value) in values.iter().enumerate() {
            matches(document, items, value, &format!("{place}/{index}"))?;
        }
    }
    if let Some(values) = value.as_object().filter(|_| kind == "object") {
        for required in schema["required"].as_array().into_iter().flatten() {
            if !values.contains_key(required.as_str().unwrap()) {
                return fail(&format!("{required} is missing"));
            }
        }
        if let Some(properties) = schema["properties"].as_object() {
            for (key, value) in values {
                let Some(property) = properties.get(key) else {
                    return fail(&format!("{key} is not described"));
                };
                matches(document, property, value, &format!("{place}/{key}"))?;
            }
        }
    }
    Ok(())
}
