//! A model hub on this machine: the few requests that downloads and uploads need, and faults on demand.
//!
//! Two servers on 127.0.0.1: the hub, and a storage server to which it redirects for large files.

#[path = "hub_uploads.rs"]
mod uploads;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use sha1::Digest;

/// The commit of every repository.
pub const COMMIT: &str = "1111222233334444555566667777888899990000";
/// The access token of the private repository `owner/private`.
pub const TOKEN: &str = "hf_a-secret-of-the-test";

/// Something that goes wrong with a request.
#[derive(Debug, Clone)]
pub enum Fault {
    /// An error status, and the value of `X-Error-Code`.
    Status(u16, &'static str),
    /// The connection ends after so many bytes of the body.
    CutAfter(usize),
    /// The announced length and that of the body differ from the true one by so many bytes.
    Longer(usize),
    /// The last byte of the body is another one.
    Corrupt,
    /// The answer comes late.
    Slow(Duration),
    /// The answer leads to the same address.
    RedirectLoop,
    /// A redirect to a relative address first.
    RedirectOnce,
    /// The size of the file is said to be this.
    Size(u64),
    /// A header is not sent.
    Without(&'static str),
    /// The ETag of the file is said to be this.
    Etag(&'static str),
    /// The position in the request is ignored.
    NoRange,
}

/// A request as the server saw it.
#[derive(Debug, Clone)]
pub struct Seen {
    pub method: String,
    pub path: String,
    pub range: Option<String>,
    pub authorization: Option<String>,
    /// True for the storage server.
    pub is_storage: bool,
    /// What was sent.
    pub body: Vec<u8>,
}

/// A fault for the next requests with this method whose path contains a text.
struct Planned {
    method: &'static str,
    path: String,
    times: usize,
    fault: Fault,
}

struct State {
    files: BTreeMap<String, Vec<u8>>,
    extra_names: Mutex<Vec<String>>,
    faults: Mutex<Vec<Planned>>,
    seen: Mutex<Vec<Seen>>,
    storage: String,
    address: String,
    uploads: uploads::Uploads,
    has_ended: AtomicBool,
}

/// A running hub; it ends when it is dropped.
pub struct LoopbackHub {
    pub address: String,
    state: Arc<State>,
}

impl LoopbackHub {
    /// A hub with the repositories `owner/model`, `model` and `owner/private`, which have these files. Files of more than
    /// 1000 bytes are on the storage server. The branch `main`, the tag `v1` and [`COMMIT`] exist.
    pub fn start(files: &[(&str, Vec<u8>)]) -> Self {
        let bind = || TcpListener::bind("127.0.0.1:0").unwrap();
        let (hub, storage) = (bind(), bind());
        let address = |listener: &TcpListener| format!("http://{}", listener.local_addr().unwrap());
        let hub_address = address(&hub);
        let state = Arc::new(State {
            files: files
                .iter()
                .map(|(name, content)| (name.to_string(), content.clone()))
                .collect(),
            extra_names: Mutex::default(),
            faults: Mutex::default(),
            seen: Mutex::default(),
            storage: address(&storage),
            address: hub_address.clone(),
            uploads: Default::default(),
            has_ended: AtomicBool::new(false),
        });
        let address = hub_address;
        for (listener, is_storage) in [(hub, false), (storage, true)] {
            let state = state.clone();
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    if state.has_ended.load(Ordering::SeqCst) {
                        return;
                    }
                    let state = state.clone();
                    thread::spawn(move || state.answer(stream, is_storage));
                }
            });
        }
        Self { address, state }
    }

    /// Makes the next `times` requests with this method, whose path contains `path`, go wrong.
    pub fn fail(&self, method: &'static str, path: &str, times: usize, fault: Fault) {
        let mut faults = self.state.faults.lock().unwrap();
        faults.push(Planned {
            method,
            path: path.into(),
            times,
            fault,
        });
    }

    /// Ends all faults.
    pub fn heal(&self) {
        self.state.faults.lock().unwrap().clear();
    }

    /// Lists a file that is not there.
    pub fn list(&self, name: &str) {
        self.state.extra_names.lock().unwrap().push(name.into());
    }

    /// The requests so far; they are forgotten.
    pub fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.state.seen.lock().unwrap())
    }
}

impl Drop for LoopbackHub {
    fn drop(&mut self) {
        self.state.has_ended.store(true, Ordering::SeqCst);
        for address in [&self.address, &self.state.storage] {
            let _ = TcpStream::connect(address.trim_start_matches("http://"));
        }
    }
}

/// An answer before faults are applied.
struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Answer {
    fn new(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Self {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()));
        Self {
            status,
            headers: headers.collect(),
            body: body.to_vec(),
        }
    }

    fn error(status: u16, code: &str) -> Self {
        Self::new(status, &[("X-Error-Code", code)], b"{\"error\": \"no\"}")
    }
}

impl State {
    fn answer(&self, stream: TcpStream, is_storage: bool) -> Option<()> {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            reader
                .read_line(&mut line)
                .ok()
                .filter(|count| *count > 0)?;
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_string()),
            }
        }
        let mut words = lines[0].split(' ').map(String::from);
        let header = |name: &str| {
            let mut pairs = lines[1..].iter().filter_map(|line| line.split_once(": "));
            pairs
                .find(|(key, _)| key.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.to_string())
        };
        let mut request = Seen {
            method: words.next()?,
            path: words.next()?,
            range: header("range"),
            authorization: header("authorization"),
            is_storage,
            body: Vec::new(),
        };
        let fault = self.fault(&request);
        let length: u64 = header("content-length").map_or(0, |text| text.parse().unwrap());
        if let (Some(Fault::CutAfter(count)), "PUT") = (&fault, &*request.method) {
            let _ = reader
                .by_ref()
                .take(*count as u64)
                .read_to_end(&mut request.body);
            self.seen.lock().unwrap().push(request);
            return stream.shutdown(Shutdown::Both).ok();
        }
        reader.take(length).read_to_end(&mut request.body).ok()?;
        self.seen.lock().unwrap().push(request.clone());
        if let Some(Fault::Slow(duration)) = &fault {
            thread::sleep(*duration);
        }
        let answer = match &fault {
            Some(Fault::Status(status, code)) => Answer::error(*status, code),
            Some(Fault::RedirectLoop) => Answer::new(302, &[("Location", &request.path)], b""),
            Some(Fault::RedirectOnce) => Answer::new(
                307,
                &[("Location", &format!("/api/cache{}", request.path))],
                b"",
            ),
            _ if matches!(&*request.method, "POST" | "PUT") => self.upload_answer(&request),
            _ if is_storage => {
                let file = request.path.trim_start_matches("/lfs/").split('?').next()?;
                self.content(&request, file, matches!(fault, Some(Fault::NoRange)))
            }
            _ => self.hub_answer(&request, matches!(fault, Some(Fault::NoRange))),
        };
        write(stream, &request.method, answer, fault)
    }

    fn fault(&self, request: &Seen) -> Option<Fault> {
        let mut faults = self.faults.lock().unwrap();
        let planned = faults.iter_mut().find(|planned| {
            planned.times > 0
                && planned.method == request.method
                && request.path.contains(&planned.path)
        })?;
        planned.times -= 1;
        Some(planned.fault.clone())
    }

    fn hub_answer(&self, request: &Seen, no_range: bool) -> Answer {
        let path = request.path.trim_start_matches("/api/cache");
        let path = path.split('?').next().unwrap_or_default();
        let (id, rest) = match path.strip_prefix("/api/models/") {
            Some(rest) => rest.split_once("/revision/").unwrap_or((rest, "main")),
            None => path[1..].split_once("/resolve/").unwrap_or((path, "")),
        };
        let files = self.files_of(id);
        match id {
            _ if self.uploads.may_read(id, request.authorization.as_deref()) => {}
            "owner/model" | "model" => {}
            "owner/private"
                if request.authorization.as_deref() == Some(&format!("Bearer {TOKEN}")) => {}
            "owner/gated" => return Answer::error(403, "GatedRepo"),
            _ if request.authorization.is_some() => return Answer::error(404, "RepoNotFound"),
            _ => return Answer::error(401, "RepoNotFound"),
        }
        let (revision, file) = rest.split_once('/').unwrap_or((rest, ""));
        let commit = self.uploads.commit(id).unwrap_or_else(|| COMMIT.into());
        if !["main", "v1", &commit].contains(&revision) {
            return Answer::error(404, "RevisionNotFound");
        }
        if path.starts_with("/api/models/") {
            return self.listing(id, &files, &commit);
        }
        let Some(content) = files.get(file) else {
            return Answer::error(404, "EntryNotFound");
        };
        let size = content.len().to_string();
        if is_large(content) {
            let etag = format!("\"{}\"", sha256(content));
            let kept = if self.uploads.commit(id).is_some() {
                format!("object-{}", sha256(content))
            } else {
                file.to_string()
            };
            let location = format!("{}/lfs/{kept}?X-Signature=signed-secret", self.storage);
            let headers = [
                ("X-Repo-Commit", commit.as_str()),
                ("X-Linked-Etag", &etag),
                ("X-Linked-Size", &size),
                ("Location", &location),
            ];
            return Answer::new(302, &headers, b"Found. Redirecting");
        }
        let mut answer = content_answer(request, content, no_range);
        answer
            .headers
            .push(("X-Repo-Commit".into(), commit.clone()));
        answer
            .headers
            .push(("ETag".into(), format!("\"{}\"", git_sha1(content))));
        answer
    }

    fn listing(&self, id: &str, files: &BTreeMap<String, Vec<u8>>, commit: &str) -> Answer {
        let extra = self.extra_names.lock().unwrap();
        let about = |(name, content): (&String, &Vec<u8>)| {
            let size = content.len();
            if is_large(content) {
                let lfs = serde_json::json!({"sha256": sha256(content), "size": size, "pointerSize": 130});
                serde_json::json!({"rfilename": name, "size": size, "blobId": "0", "lfs": lfs})
            } else {
                serde_json::json!({"rfilename": name, "size": size, "blobId": git_sha1(content)})
            }
        };
        let extra = extra
            .iter()
            .map(|name| serde_json::json!({"rfilename": name}));
        let files: Vec<_> = files.iter().map(about).chain(extra).collect();
        let info = serde_json::json!({"id": id, "modelId": id, "sha": commit, "private": false, "siblings": files});
        let headers = [("Content-Type", "application/json")];
        Answer::new(200, &headers, info.to_string().as_bytes())
    }

    /// The files of a repository.
    fn files_of(&self, id: &str) -> BTreeMap<String, Vec<u8>> {
        self.uploads.files(id).unwrap_or_else(|| self.files.clone())
    }

    /// The content of a file of the storage, or a part of it.
    fn content(&self, request: &Seen, file: &str, no_range: bool) -> Answer {
        match self
            .uploads
            .object(file)
            .or_else(|| self.files.get(file).cloned())
        {
            Some(content) => content_answer(request, &content, no_range),
            None => Answer::error(404, "EntryNotFound"),
        }
    }
}

/// A content, or the part of it that is asked for.
fn content_answer(request: &Seen, content: &[u8], no_range: bool) -> Answer {
    let range = request.range.as_deref().filter(|_| !no_range);
    let Some(start) = range.and_then(|range| {
        let start = range.strip_prefix("bytes=")?.split('-').next()?;
        start.parse::<usize>().ok()
    }) else {
        return Answer::new(200, &[("Accept-Ranges", "bytes")], content);
    };
    let total = content.len();
    if start >= total {
        return Answer::error(416, "");
    }
    let range = format!("bytes {start}-{}/{total}", total - 1);
    Answer::new(206, &[("Content-Range", &range)], &content[start..])
}

/// Sends an answer with its fault.
fn write(
    mut stream: TcpStream,
    method: &str,
    mut answer: Answer,
    fault: Option<Fault>,
) -> Option<()> {
    let mut end = usize::MAX;
    match fault {
        Some(Fault::CutAfter(count)) => end = count,
        Some(Fault::Longer(count)) => answer.body.extend(vec![b'x'; count]),
        Some(Fault::Corrupt) => *answer.body.last_mut()? ^= 1,
        Some(Fault::Size(size)) => {
            answer.headers.retain(|(name, _)| name != "X-Linked-Size");
            answer
                .headers
                .push(("X-Linked-Size".into(), size.to_string()));
        }
        Some(Fault::Without(header)) => answer.headers.retain(|(name, _)| name != header),
        Some(Fault::Etag(etag)) => {
            answer.headers.retain(|(name, _)| name != "X-Linked-Etag");
            answer.headers.push(("X-Linked-Etag".into(), etag.into()));
        }
        _ => {}
    }
    let mut head = format!("HTTP/1.1 {} Status\r\nConnection: close\r\n", answer.status);
    for (name, value) in &answer.headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += &format!("Content-Length: {}\r\n\r\n", answer.body.len());
    stream.write_all(head.as_bytes()).ok()?;
    if method != "HEAD" {
        stream
            .write_all(&answer.body[..end.min(answer.body.len())])
            .ok()?;
    }
    stream.flush().ok()?;
    stream.shutdown(Shutdown::Both).ok()
}

/// True for files on the storage server.
fn is_large(content: &[u8]) -> bool {
    content.len() > 1000
}

/// SHA-256 in hexadecimal digits.
pub fn sha256(content: &[u8]) -> String {
    hexadecimal(&sha2::Sha256::digest(content))
}

/// SHA-1 as git computes it, in hexadecimal digits.
pub fn git_sha1(content: &[u8]) -> String {
    let mut hasher = sha1::Sha1::new();
    hasher.update(format!("blob {}\0", content.len()));
    hasher.update(content);
    hexadecimal(&hasher.finalize())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
