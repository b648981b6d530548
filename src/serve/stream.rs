//! Streams: lines of JSON in, lines of JSON out, in the same order, while the request is still being sent.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use hyper::body::{Bytes, Frame};
use serde_json::{Map, Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::App;
use super::failure::Failure;
use super::http::stopped;
use super::lines::Lines;
use super::tagging::{Choice, Submitted, TaggedText, characters};
use crate::data::input_text::{InputText, parse_json};
use crate::recipe::set::Assignment;

/// Most texts, and about the most bytes, that are put into the queue together.
const TEXTS: usize = 64;
const BYTES: usize = 1 << 16;

/// Parts of a stream that wait to be tagged.
const AHEAD: usize = 4;

/// Answers of a stream that wait to be sent, and their bytes.
const ANSWERS: usize = 256;
const ANSWER_BYTES: usize = 4 << 20;

/// Most permits that are taken at once.
const LARGEST_PERMIT: usize = 1 << 30;

/// Why a stream ends before its body does.
const STOPPING: &str = "the service is stopping; this line and those after it were not read";
const TOO_SLOW: &str =
    "no line arrived within the time limit (--timeout); this line and those after it were not read";
const CUT: &str = "the body ended early, or is not valid HTTP";

/// A part of the stream: for each of its lines a text or the reason why there is none, with the number of the line.
#[derive(Default)]
struct Part {
    lines: Vec<(usize, Result<(), String>)>,
    texts: Vec<InputText>,
    bytes: usize,
}

/// A part that waits for its mentions.
struct WaitingPart {
    lines: Vec<(usize, Result<(), String>)>,
    /// Its share of the bytes of this stream that may wait.
    _bytes: Option<OwnedSemaphorePermit>,
    submitted: Result<Submitted, Failure>,
}

/// Tags the lines of a body.
pub(super) fn tag(
    app: Arc<App>,
    query: Vec<(String, String)>,
    body: Body,
) -> Result<Response, Failure> {
    let choice = choice(&app, query)?;
    // Memory for a line that has not ended, and for those that wait.
    let share = app.share_of_memory(app.limits.body)?;
    let (parts, waiting) = mpsc::channel(AHEAD);
    let (answers, receiver) = mpsc::channel(ANSWERS);
    tokio::spawn(read(app.clone(), choice, body, parts));
    tokio::spawn(async move {
        write(app, waiting, answers).await;
        drop(share);
    });
    let body = Body::new(AnswerBody { receiver });
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

/// Model, threshold and settings from the parameters of the address.
fn choice(app: &App, query: Vec<(String, String)>) -> Result<Choice, Failure> {
    let (mut model, mut threshold, mut set) = (None, None, Map::new());
    for (key, value) in query {
        match key.as_str() {
            "model" => model = Some(value),
            "threshold" => {
                let problem = format!("threshold: {value:?} is not a number");
                threshold = Some(value.parse().map_err(|_| Failure::invalid(problem))?);
            }
            "set" => {
                let assignment =
                    Assignment::parse(&value).map_err(|error| Failure::setting(&error))?;
                let value = serde_json::to_value(&assignment.value).unwrap_or(Value::Null);
                set.insert(assignment.key, value);
            }
            _ => {
                let message =
                    format!("{key}: unknown parameter; known are model, threshold and set");
                return Err(Failure::invalid(message));
            }
        }
    }
    app.choose(model.as_deref(), &set, threshold)
}

impl Part {
    fn add(&mut self, number: usize, line: Result<String, String>, most: usize) {
        self.bytes += line.as_ref().map_or(0, String::len);
        let text = line.and_then(|line| parse_json(line.trim_start_matches('\u{feff}')));
        let text = text.and_then(|text| match characters(&text) {
            count if count > most => Err(format!(
                "the text has {count} characters, more than the limit of {most} (--max-characters)"
            )),
            _ => Ok(text),
        });
        let status = text.map(|text| self.texts.push(text));
        self.lines.push((number, status));
    }

    fn is_full(&self) -> bool {
        self.lines.len() >= TEXTS || self.bytes >= BYTES
    }
}

/// Reads the body, and puts its texts into the queue, until it ends or nobody waits for the answer.
async fn read(app: Arc<App>, choice: Choice, mut body: Body, parts: mpsc::Sender<WaitingPart>) {
    let most = app.limits.characters;
    let mut lines = Lines::new(app.limits.body);
    let mut part = Part::default();
    let mut stopping = app.stopping.subscribe();
    let parts = PartSender {
        parts,
        most: app.limits.body.min(LARGEST_PERMIT),
        room: Arc::new(Semaphore::new(app.limits.body.min(LARGEST_PERMIT))),
    };
    loop {
        let has_lines = !part.lines.is_empty();
        let frame = tokio::select! {
            biased;
            () = stopped(&mut stopping) => Err(STOPPING),
            frame = body.frame() => Ok(frame),
            // What has arrived is tagged together; nothing waits for lines that have not.
            () = std::future::ready(()), if has_lines => {
                if !submit(&app, &choice, std::mem::take(&mut part), &parts).await {
                    return;
                }
                continue;
            }
            () = tokio::time::sleep(app.limits.timeout) => Err(TOO_SLOW),
        };
        let mut full = Vec::new();
        let each = |number, line| {
            part.add(number, line, most);
            if part.is_full() {
                full.push(std::mem::take(&mut part));
            }
        };
        let end = match frame {
            Ok(Some(Ok(frame))) => {
                if let Ok(bytes) = frame.into_data() {
                    lines.add(&bytes, each);
                }
                None
            }
            Ok(None) => {
                lines.finish(each);
                Some(None)
            }
            Ok(Some(Err(_))) => Some(Some(CUT)),
            Err(problem) => Some(Some(problem)),
        };
        if let Some(Some(problem)) = end {
            (part.lines).push((lines.number() + 1, Err(problem.to_string())));
        }
        if end.is_some() {
            full.push(std::mem::take(&mut part));
        }
        for part in full {
            if !submit(&app, &choice, part, &parts).await {
                return;
            }
        }
        if end.is_some() {
            return;
        }
    }
}

/// The way from reading to writing. It has room for so many bytes.
struct PartSender {
    parts: mpsc::Sender<WaitingPart>,
    room: Arc<Semaphore>,
    most: usize,
}

/// Puts a part into the queue; false when nobody waits for the answer.
async fn submit(app: &App, choice: &Choice, part: Part, sender: &PartSender) -> bool {
    if part.lines.is_empty() {
        return true;
    }
    let permits = part.bytes.clamp(1, sender.most) as u32;
    let work = async {
        let bytes = sender.room.clone().acquire_many_owned(permits).await;
        let submitted = app.submit_when_free(choice, part.texts);
        (bytes.ok(), app.within_timeout(submitted).await)
    };
    let (bytes, submitted) = tokio::select! {
        done = work => done,
        () = sender.parts.closed() => return false,
    };
    let waiting = WaitingPart {
        lines: part.lines,
        _bytes: bytes,
        submitted,
    };
    sender.parts.send(waiting).await.is_ok()
}

/// Writes the answers in order.
async fn write(
    app: Arc<App>,
    mut parts: mpsc::Receiver<WaitingPart>,
    answers: mpsc::Sender<(Bytes, OwnedSemaphorePermit)>,
) {
    let room = Arc::new(Semaphore::new(ANSWER_BYTES));
    while let Some(part) = parts.recv().await {
        let lines = part.lines.clone();
        let result = match part.submitted {
            Ok(submitted) => {
                let answer = submitted.finish(move |texts| answer(&part.lines, &texts));
                tokio::select! {
                    result = app.within_timeout(answer) => result,
                    () = answers.closed() => return,
                }
            }
            Err(failure) => Err(failure),
        };
        let bytes = result.unwrap_or_else(|failure| failed(&lines, &failure));
        let permits = bytes.len().clamp(1, ANSWER_BYTES) as u32;
        let Ok(permit) = room.clone().acquire_many_owned(permits).await else {
            return;
        };
        if answers.send((bytes, permit)).await.is_err() {
            return;
        }
    }
}

/// The lines of a part that was tagged.
fn answer(lines: &[(usize, Result<(), String>)], texts: &[TaggedText]) -> Result<Bytes, Failure> {
    let mut out = Vec::new();
    let mut texts = texts.iter();
    for (number, status) in lines {
        let document = match status {
            Ok(()) => texts.next().map(TaggedText::document).transpose()?,
            Err(_) => None,
        };
        match (document, status) {
            (Some(document), _) => {
                serde_json::to_writer(&mut out, &document)
                    .map_err(|problem| Failure::internal(&problem))?;
            }
            (None, Err(problem)) => error_line(&mut out, *number, problem),
            (None, Ok(())) => error_line(&mut out, *number, "tagging failed"),
        }
        out.push(b'\n');
    }
    Ok(out.into())
}

/// The lines of a part that could not be tagged: each says why.
fn failed(lines: &[(usize, Result<(), String>)], failure: &Failure) -> Bytes {
    let mut out = Vec::new();
    for (number, status) in lines {
        let problem = status.as_ref().err().unwrap_or(&failure.message);
        error_line(&mut out, *number, problem);
        out.push(b'\n');
    }
    out.into()
}

fn error_line(out: &mut Vec<u8>, number: usize, problem: &str) {
    out.extend_from_slice(
        json!({"line": number, "error": problem})
            .to_string()
            .as_bytes(),
    );
}

/// The body of an answer that is still being made.
struct AnswerBody {
    receiver: mpsc::Receiver<(Bytes, OwnedSemaphorePermit)>,
}

impl hyper::body::Body for AnswerBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let next = self.receiver.poll_recv(context);
        next.map(|answer| answer.map(|(bytes, _)| Ok(Frame::data(bytes))))
    }
}
