//! Uploads to a hub: a repository, its large files, and one commit.

use std::cell::Cell;
use std::fs;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::fault::Fault;
use super::http::{Client, escaped};
use super::repo_id::is_commit;
use super::send::Part;
use super::{Hub, Progress, RepoId, failed};
use crate::error::{Error, Result};

/// Bytes at the start of a file by which a hub decides how it is stored.
const SAMPLE: u64 = 512;
/// Largest file that is part of the commit itself.
const LARGEST_REGULAR: u64 = 10 << 20;
/// Most parts of an upload.
const MOST_PARTS: u64 = 10_000;
/// Time between two reports of progress.
const REPORT: Duration = Duration::from_millis(100);
/// The content type of Git LFS.
const LFS: &str = "application/vnd.git-lfs+json";
const JSON: &str = "application/json";

/// A file to upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadFile {
    /// Its path in the repository.
    pub name: String,
    /// Where it is on this machine.
    pub path: PathBuf,
    /// Its length in bytes.
    pub size: u64,
    /// The SHA-256 of its content.
    pub sha256: String,
}

/// What was uploaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uploaded {
    /// The full hash of the commit.
    pub commit: String,
    /// The page of the repository.
    pub page: String,
    /// True if the repository was made.
    pub is_new: bool,
}

impl Hub {
    /// Uploads files to a repository, which is made if it does not exist, as one commit with exactly these files. Other files
    /// that are there stay. Large files go to the hub's storage first; those that are there are not sent again.
    pub fn upload(
        &self,
        id: &RepoId,
        files: &[UploadFile],
        message: &str,
        is_private: bool,
    ) -> Result<Uploaded> {
        let name = format!("hf:{}", id.name());
        let Some((owner, repository)) = id.name().split_once('/') else {
            return Err(failed(
                &name,
                "a repository to upload to is written hf:OWNER/NAME".into(),
            ));
        };
        if self.offline {
            return Err(failed(
                &name,
                "nothing is uploaded: --offline or HF_HUB_OFFLINE is set".into(),
            ));
        }
        if self.token.is_none() {
            return Err(failed(
                &name,
                "an upload needs an access token with the permission to write; set HF_TOKEN, or run `hf auth login`".into(),
            ));
        }
        let client = self.client()?;
        let page = format!("{}/{}", self.endpoint, id.name());
        let explain = |fault: Fault| fault.explain_upload(&name, &page);
        let create = json!({"type": "model", "name": repository, "organization": owner, "private": is_private});
        let create_address = format!("{}/api/repos/create", self.endpoint);
        let is_new = match client.post(&create_address, JSON, &create.to_string()) {
            Ok(_) => true,
            // It exists.
            Err(Fault::Refused { status: 409, .. }) => false,
            Err(fault) => return Err(explain(fault)),
        };
        let upload = Upload {
            hub: self,
            client: &client,
            id,
            name: &name,
        };
        let large = upload.large_files(files).map_err(explain)?;
        upload.send_large(&large).map_err(explain)?;
        let commit = upload.commit(files, &large, message).map_err(explain)?;
        Ok(Uploaded {
            commit,
            page,
            is_new,
        })
    }
}

/// An upload in progress.
struct Upload<'a> {
    hub: &'a Hub,
    client: &'a Client,
    id: &'a RepoId,
    name: &'a str,
}

impl Upload<'_> {
    fn protocol(&self, reason: impl Into<String>) -> Fault {
        Fault::Protocol {
            host: self.client.host(),
            reason: reason.into(),
        }
    }

    fn api(&self, verb: &str) -> String {
        let revision = escaped(self.id.revision(), false);
        format!(
            "{}/api/models/{}/{verb}/{revision}",
            self.hub.endpoint,
            self.id.name()
        )
    }

    /// Asks which files the hub keeps in its storage for large files.
    fn large_files<'a>(&self, files: &'a [UploadFile]) -> Result<Vec<&'a UploadFile>, Fault> {
        let mut described = Vec::new();
        for file in files {
            let mut sample = Vec::new();
            let opened = fs::File::open(&file.path);
            let read = opened.and_then(|opened| opened.take(SAMPLE).read_to_end(&mut sample));
            read.map_err(|source| Fault::File(Error::io(&file.path, source)))?;
            described.push(
                json!({"path": file.name, "sample": STANDARD.encode(&sample), "size": file.size}),
            );
        }
        let request = json!({"files": described}).to_string();
        let answer = self.client.post(&self.api("preupload"), JSON, &request)?;
        let answers = answer["files"].as_array().map_or(&[][..], Vec::as_slice);
        let mut large = Vec::new();
        for file in files {
            let about = (answers.iter()).find(|about| about["path"].as_str() == Some(&*file.name));
            let Some(about) = about else {
                return Err(self.protocol(format!("nothing about the file {}", file.name)));
            };
            if about["shouldIgnore"].as_bool() == Some(true) {
                return Err(self.protocol(format!(
                    "the repository's .gitignore excludes {}",
                    file.name
                )));
            }
            match about["uploadMode"].as_str() {
                // The storage takes no empty files.
                Some("lfs") if file.size > 0 => large.push(file),
                Some("lfs" | "regular") if file.size <= LARGEST_REGULAR => {}
                Some("regular") => {
                    return Err(self.protocol(format!("{} is too large for a commit", file.name)));
                }
                _ => return Err(self.protocol(format!("an unknown way to upload {}", file.name))),
            }
        }
        Ok(large)
    }

    /// Sends the large files that the storage does not have.
    fn send_large(&self, files: &[&UploadFile]) -> Result<(), Fault> {
        if files.is_empty() {
            return Ok(());
        }
        let objects: Vec<Value> = (files.iter())
            .map(|file| json!({"oid": file.sha256, "size": file.size}))
            .collect();
        let request = json!({
            "operation": "upload",
            "transfers": ["basic", "multipart"],
            "objects": objects,
            "hash_algo": "sha256",
        });
        let address = format!(
            "{}/{}.git/info/lfs/objects/batch",
            self.hub.endpoint,
            self.id.name()
        );
        let answer = self.client.post(&address, LFS, &request.to_string())?;
        let objects = answer["objects"].as_array().map_or(&[][..], Vec::as_slice);
        let total = files.iter().map(|file| file.size).sum();
        let mut before = 0;
        let last = Cell::new(None::<Instant>);
        for file in files {
            let object = objects
                .iter()
                .find(|object| object["oid"].as_str() == Some(&*file.sha256));
            let Some(object) = object else {
                return Err(self.protocol(format!("no storage for {}", file.name)));
            };
            if let Some(problem) = object["error"]["message"].as_str() {
                return Err(self.protocol(format!("the storage refuses {}: {problem}", file.name)));
            }
            let mut report = |done: u64| {
                if last.get().is_some_and(|last| last.elapsed() < REPORT) {
                    return ControlFlow::Continue(());
                }
                last.set(Some(Instant::now()));
                self.report(&file.name, before + done, total)
            };
            self.send_one(file, &object["actions"], &mut report)?;
            before += file.size;
        }
        match self.report("", total, total) {
            ControlFlow::Break(()) => Err(Fault::Interrupted),
            ControlFlow::Continue(()) => Ok(()),
        }
    }

    fn report(&self, file: &str, done: u64, total: u64) -> ControlFlow<()> {
        self.hub.progress.report(Progress {
            source: self.name,
            file,
            done,
            total,
        })
    }

    /// Sends one file as a whole or in parts, as the storage wants it. Without actions it is there already.
    fn send_one(
        &self,
        file: &UploadFile,
        actions: &Value,
        report: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<(), Fault> {
        let upload = &actions["upload"];
        if upload.is_null() {
            return Ok(());
        }
        let address = upload["href"]
            .as_str()
            .ok_or_else(|| self.protocol("no address for an upload"))?;
        let headers: Vec<(String, String)> = (upload["header"].as_object().into_iter().flatten())
            .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_string())))
            .collect();
        let part_size = headers.iter().find(|(name, _)| name == "chunk_size");
        match part_size {
            Some((_, size)) => self.send_parts(file, address, size, &headers, report)?,
            None => {
                let mut part = Part {
                    path: &file.path,
                    start: 0,
                    length: file.size,
                    report,
                };
                self.client.put(address, &headers, &mut part)?;
            }
        }
        if let Some(address) = actions["verify"]["href"].as_str() {
            let request = json!({"oid": file.sha256, "size": file.size}).to_string();
            self.client.post(address, LFS, &request)?;
        }
        Ok(())
    }

    /// Sends a file in parts to the addresses in the headers `1`, `2`, ..., and tells the storage when all are there.
    fn send_parts(
        &self,
        file: &UploadFile,
        address: &str,
        size: &str,
        headers: &[(String, String)],
        report: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<(), Fault> {
        let mut addresses: Vec<(u64, &str)> = (headers.iter())
            .filter_map(|(name, address)| Some((name.parse().ok()?, address.as_str())))
            .collect();
        addresses.sort_unstable();
        let size = size.parse::<u64>().ok().filter(|size| *size > 0);
        let count = size
            .map(|size| file.size.div_ceil(size))
            .filter(|count| *count <= MOST_PARTS);
        let (Some(size), Some(count)) = (size, count) else {
            return Err(self.protocol("parts of an upload without a usable size"));
        };
        if addresses.len() as u64 != count {
            return Err(self.protocol(format!("{} addresses for {count} parts", addresses.len())));
        }
        let mut parts = Vec::new();
        for (index, (_, address)) in addresses.into_iter().enumerate() {
            let start = index as u64 * size;
            let mut part = Part {
                path: &file.path,
                start,
                length: size.min(file.size - start),
                report: &mut |done| report(start + done),
            };
            let etag = self.client.put(address, &[], &mut part)?;
            let etag = etag.ok_or_else(|| self.protocol("a part of an upload got no ETag"))?;
            parts.push(json!({"partNumber": index + 1, "etag": etag}));
        }
        let request = json!({"oid": file.sha256, "parts": parts}).to_string();
        self.client.post(address, LFS, &request).map(|_| ())
    }

    /// Makes the commit and returns its hash.
    fn commit(
        &self,
        files: &[UploadFile],
        large: &[&UploadFile],
        message: &str,
    ) -> Result<String, Fault> {
        let header = json!({"key": "header", "value": {"summary": message, "description": ""}});
        let mut lines = format!("{header}\n");
        for file in files {
            let line = if large.contains(&file) {
                json!({"key": "lfsFile", "value":
                    {"path": file.name, "algo": "sha256", "oid": file.sha256, "size": file.size}})
            } else {
                let content = fs::read(&file.path)
                    .map_err(|source| Fault::File(Error::io(&file.path, source)))?;
                json!({"key": "file", "value":
                    {"path": file.name, "content": STANDARD.encode(content), "encoding": "base64"}})
            };
            lines += &format!("{line}\n");
        }
        let answer = self
            .client
            .post(&self.api("commit"), "application/x-ndjson", &lines)?;
        let commit = answer["commitOid"]
            .as_str()
            .filter(|commit| is_commit(commit));
        commit
            .map(String::from)
            .ok_or_else(|| self.protocol("no commit in the answer to an upload"))
    }
}
