//! The part of the hub that takes uploads: repositories, large files and commits.

#![allow(dead_code)] // each test file uses a part of it

use std::collections::BTreeMap;
use std::sync::Mutex;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{Answer, Seen, State, TOKEN, git_sha1, sha256};

/// Large files of more bytes are sent in parts of so many.
pub const PART: usize = 40_000;

#[derive(Default)]
pub struct Uploads {
    repositories: Mutex<BTreeMap<String, Repository>>,
    /// The storage, by SHA-256.
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    /// Parts by SHA-256 and number.
    parts: Mutex<BTreeMap<(String, usize), Vec<u8>>>,
}

#[derive(Default, Clone)]
struct Repository {
    is_private: bool,
    files: BTreeMap<String, Vec<u8>>,
    commit: Option<String>,
}

impl Uploads {
    pub fn may_read(&self, id: &str, authorization: Option<&str>) -> bool {
        let repositories = self.repositories.lock().unwrap();
        let found = repositories.get(id);
        found.is_some_and(|found| !found.is_private || authorization == Some(&bearer()))
    }

    pub fn files(&self, id: &str) -> Option<BTreeMap<String, Vec<u8>>> {
        let repositories = self.repositories.lock().unwrap();
        repositories.get(id).map(|found| found.files.clone())
    }

    pub fn commit(&self, id: &str) -> Option<String> {
        self.repositories.lock().unwrap().get(id)?.commit.clone()
    }

    pub fn object(&self, name: &str) -> Option<Vec<u8>> {
        let name = name.strip_prefix("object-")?;
        self.objects.lock().unwrap().get(name).cloned()
    }
}

fn bearer() -> String {
    format!("Bearer {TOKEN}")
}

fn answer(value: &Value) -> Answer {
    Answer::new(
        200,
        &[("Content-Type", "application/json")],
        value.to_string().as_bytes(),
    )
}

fn refused(status: u16, reason: &str) -> Answer {
    let body = json!({"error": reason}).to_string();
    Answer::new(status, &[], body.as_bytes())
}

impl super::LoopbackHub {
    /// The files of a repository that was uploaded.
    pub fn uploaded(&self, id: &str) -> Option<BTreeMap<String, Vec<u8>>> {
        self.state.uploads.files(id)
    }

    /// Replaces a file of an uploaded repository.
    pub fn change(&self, id: &str, file: &str, content: &[u8]) {
        let uploads = &self.state.uploads;
        let mut repositories = uploads.repositories.lock().unwrap();
        let repository = repositories.get_mut(id).unwrap();
        repository.files.insert(file.into(), content.to_vec());
        uploads
            .objects
            .lock()
            .unwrap()
            .insert(sha256(content), content.to_vec());
        repository.commit = Some(commit_of(&repository.files));
    }
}

/// A hash of all files, in place of git's.
fn commit_of(files: &BTreeMap<String, Vec<u8>>) -> String {
    let all: Vec<u8> = files
        .iter()
        .flat_map(|(name, content)| [name.as_bytes(), content].concat())
        .collect();
    git_sha1(&all)
}

impl State {
    /// The answer to a POST or PUT request.
    pub fn upload_answer(&self, request: &Seen) -> Answer {
        let path = request.path.split('?').next().unwrap_or_default();
        if request.is_storage {
            return self.storage_answer(request, path);
        }
        if request.authorization.as_deref() != Some(&bearer()) {
            return refused(401, "Invalid credentials in Authorization header");
        }
        if path == "/api/repos/create" {
            return self.create(&request.body);
        }
        let (id, rest) = match path.strip_prefix("/api/models/") {
            Some(rest) => match rest.match_indices('/').nth(1) {
                Some((end, _)) => (&rest[..end], &rest[end..]),
                None => return refused(404, "no such address"),
            },
            None => match path[1..].split_once(".git/") {
                Some((id, rest)) => (id, rest),
                None => return self.complete(request, path),
            },
        };
        if !self.uploads.repositories.lock().unwrap().contains_key(id) {
            return refused(404, "Repository not found");
        }
        match rest {
            "/preupload/main" => preupload(&request.body),
            "info/lfs/objects/batch" => self.batch(&request.body),
            "/commit/main" => self.commit(id, &request.body),
            _ => refused(404, "no such address"),
        }
    }

    fn create(&self, body: &[u8]) -> Answer {
        let body: Value = serde_json::from_slice(body).unwrap();
        let id = format!(
            "{}/{}",
            body["organization"].as_str().unwrap(),
            body["name"].as_str().unwrap()
        );
        assert_eq!(body["type"], "model");
        if id.starts_with("forbidden/") {
            return refused(
                403,
                "You don't have the rights to create a model under this namespace",
            );
        }
        let mut repositories = self.uploads.repositories.lock().unwrap();
        if repositories.contains_key(&id) {
            return refused(409, "You already created this model repo");
        }
        let repository = Repository {
            is_private: body["private"] == true,
            ..Repository::default()
        };
        repositories.insert(id.clone(), repository);
        answer(&json!({"url": format!("{}/{id}", self.address)}))
    }

    fn batch(&self, body: &[u8]) -> Answer {
        let body: Value = serde_json::from_slice(body).unwrap();
        assert_eq!(body["operation"], "upload");
        let objects = body["objects"].as_array().unwrap().iter().map(|object| {
            let oid = object["oid"].as_str().unwrap();
            let size = object["size"].as_u64().unwrap() as usize;
            if self.uploads.objects.lock().unwrap().contains_key(oid) {
                return json!({"oid": oid, "size": size});
            }
            let storage = format!("{}/upload/{oid}", self.storage);
            let upload = if size > PART {
                let mut header = serde_json::Map::new();
                header.insert("chunk_size".into(), json!(PART.to_string()));
                for part in 1..=size.div_ceil(PART) {
                    header.insert(
                        format!("{part:05}"),
                        json!(format!("{storage}/{part}?X-Signature=signed-secret")),
                    );
                }
                json!({"href": format!("{}/complete/{oid}", self.address), "header": header})
            } else {
                json!({"href": format!("{storage}?X-Signature=signed-secret")})
            };
            let verify = json!({"href": format!("{}/verify/{oid}", self.address)});
            json!({"oid": oid, "size": size, "actions": {"upload": upload, "verify": verify}})
        });
        answer(&json!({"transfer": "multipart", "objects": objects.collect::<Vec<_>>()}))
    }

    /// `PUT /upload/OID` or `/upload/OID/PART` of the storage, which has to come without the hub's token.
    fn storage_answer(&self, request: &Seen, path: &str) -> Answer {
        assert_eq!(request.authorization, None, "the token is for the hub only");
        let path = path.trim_start_matches("/upload/");
        match path.split_once('/') {
            Some((oid, part)) => {
                let key = (oid.to_string(), part.parse().unwrap());
                self.uploads
                    .parts
                    .lock()
                    .unwrap()
                    .insert(key, request.body.clone());
            }
            None => {
                if sha256(&request.body) != path {
                    return refused(400, "BadDigest");
                }
                self.uploads
                    .objects
                    .lock()
                    .unwrap()
                    .insert(path.into(), request.body.clone());
            }
        }
        Answer::new(
            200,
            &[("ETag", &format!("\"{}\"", git_sha1(&request.body)))],
            b"",
        )
    }

    /// `POST /complete/OID` and `/verify/OID`.
    fn complete(&self, request: &Seen, path: &str) -> Answer {
        let (verb, oid) = path[1..].split_once('/').unwrap();
        if verb == "complete" {
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            let mut content = Vec::new();
            for part in body["parts"].as_array().unwrap() {
                let number = part["partNumber"].as_u64().unwrap() as usize;
                let parts = self.uploads.parts.lock().unwrap();
                let bytes = &parts[&(oid.to_string(), number)];
                assert_eq!(part["etag"], format!("\"{}\"", git_sha1(bytes)));
                content.extend(bytes);
            }
            if sha256(&content) != oid {
                return refused(400, "BadDigest");
            }
            self.uploads
                .objects
                .lock()
                .unwrap()
                .insert(oid.into(), content);
        }
        if self.uploads.objects.lock().unwrap().contains_key(oid) {
            Answer::new(200, &[], b"")
        } else {
            refused(404, "no such object")
        }
    }

    fn commit(&self, id: &str, body: &[u8]) -> Answer {
        let mut files = BTreeMap::new();
        for line in body
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            let line: Value = serde_json::from_slice(line).unwrap();
            let value = &line["value"];
            let path = || value["path"].as_str().unwrap().to_string();
            match line["key"].as_str().unwrap() {
                "header" if value["summary"].as_str().unwrap().is_empty() => {
                    return refused(400, "no summary");
                }
                "header" => {}
                "file" => {
                    assert_eq!(value["encoding"], "base64");
                    files.insert(
                        path(),
                        STANDARD.decode(value["content"].as_str().unwrap()).unwrap(),
                    );
                }
                "lfsFile" => {
                    let objects = self.uploads.objects.lock().unwrap();
                    match objects.get(value["oid"].as_str().unwrap()) {
                        Some(content) => files.insert(path(), content.clone()),
                        None => return refused(400, "the LFS object was not uploaded"),
                    };
                }
                other => panic!("{other}"),
            }
        }
        for content in files.values() {
            self.uploads
                .objects
                .lock()
                .unwrap()
                .insert(sha256(content), content.clone());
        }
        let mut repositories = self.uploads.repositories.lock().unwrap();
        let repository = repositories.get_mut(id).unwrap();
        repository.files.extend(files);
        let commit = commit_of(&repository.files);
        repository.commit = Some(commit.clone());
        answer(
            &json!({"commitOid": commit, "commitUrl": format!("{}/{id}/commit/{commit}", self.address)}),
        )
    }
}

/// Weights are large files; all others are part of the commit.
fn preupload(body: &[u8]) -> Answer {
    let body: Value = serde_json::from_slice(body).unwrap();
    let files = body["files"].as_array().unwrap().iter().map(|file| {
        let path = file["path"].as_str().unwrap();
        let sample = STANDARD.decode(file["sample"].as_str().unwrap()).unwrap();
        assert!(sample.len() <= 512);
        let mode = if path.ends_with(".safetensors") {
            "lfs"
        } else {
            "regular"
        };
        json!({"path": path, "uploadMode": mode, "shouldIgnore": false})
    });
    answer(&json!({"files": files.collect::<Vec<_>>()}))
}
