//! Downloads by name from a hub on this machine that fails on demand, and the cache afterwards.

#[path = "common/hub.rs"]
mod loopback;

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use loopback::{COMMIT, Fault, LoopbackHub, Seen, TOKEN, git_sha1, sha256};
use nerzoo::hub::{Hub, OnProgress, Token, Wanted};

/// The weights of the test's model: of this length, and on the storage server.
const WEIGHTS: usize = 3_000_000;

const WANTED: &[Wanted<'static>] = &[
    Wanted::required(&[&["config.json"]], "choose another model"),
    Wanted::optional(&[&["vocab.txt"]]),
    Wanted::required(
        &[&["model.safetensors"], &["pytorch_model.bin"]],
        "choose another model",
    )
    .but_not(&["tf_model.h5"]),
];

fn weights() -> Vec<u8> {
    (0..WEIGHTS)
        .map(|index| (index * 7919 % 251) as u8)
        .collect()
}

fn files() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("config.json", b"{\"model_type\": \"bert\"}".to_vec()),
        ("vocab.txt", b"[PAD]\n".to_vec()),
        ("model.safetensors", weights()),
        ("pytorch_model.bin", vec![1; 2000]),
        ("README.md", b"no".to_vec()),
    ]
}

/// A hub server and an empty cache.
struct Setup {
    server: LoopbackHub,
    cache: tempfile::TempDir,
    hub: Hub,
}

impl Setup {
    fn new() -> Self {
        Self::with(&files())
    }

    fn with(files: &[(&str, Vec<u8>)]) -> Self {
        let server = LoopbackHub::start(files);
        let cache = tempfile::tempdir().unwrap();
        let hub = Hub {
            endpoint: server.address.clone(),
            token: None,
            cache: cache.path().join("hub"),
            offline: false,
            timeout: Duration::from_secs(10),
            attempts: 3,
            pause: Duration::from_millis(1),
            ..Hub::from_env()
        };
        Self { server, cache, hub }
    }

    fn find(&self, name: &str) -> nerzoo::error::Result<PathBuf> {
        self.hub.find(name, WANTED).map(|found| found.folder)
    }

    /// The error of a name, which names the host, and after which no file has its final name.
    fn fails(&self, name: &str, parts: &[&str]) {
        let problem = self.find(name).unwrap_err().chain();
        let host = self.server.address.trim_start_matches("http://");
        for part in parts.iter().chain(&[host]) {
            assert!(problem.contains(part), "no {part:?} in: {problem}");
        }
        for secret in [TOKEN, "signed-secret"] {
            assert!(!problem.contains(secret), "{problem}");
        }
        let blobs = self.repo().join("blobs");
        assert!(!blobs.join(sha256(&weights())).exists());
        assert!(!self.repo().join("snapshots").exists(), "{problem}");
        assert!(!self.repo().join("refs").exists());
    }

    fn repo(&self) -> PathBuf {
        self.cache.path().join("hub/models--owner--model")
    }

    fn partial(&self) -> PathBuf {
        self.repo()
            .join(format!("blobs/{}.incomplete", sha256(&weights())))
    }

    /// The requests for the content of the weights.
    fn transfers(&self) -> Vec<Seen> {
        let all = self.server.seen().into_iter();
        all.filter(|seen| seen.is_storage && seen.method == "GET")
            .collect()
    }
}

/// Fails unless the folder has exactly the wanted files with their contents.
fn check(folder: &Path) {
    let mut names: Vec<String> = (fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["config.json", "model.safetensors", "vocab.txt"]);
    for (name, content) in &files()[..3] {
        assert!(
            fs::read(folder.join(name)).unwrap() == *content,
            "{name} is another file"
        );
    }
}

#[test]
fn a_model_is_downloaded_once_into_the_layout_of_the_cache() {
    let setup = Setup::new();
    let found = setup.hub.find("owner/model", WANTED).unwrap();
    check(&found.folder);
    let origin = found.origin.unwrap();
    assert_eq!(
        (origin.repository.as_str(), origin.commit.as_str()),
        ("owner/model", COMMIT)
    );
    assert_eq!(found.folder, setup.repo().join("snapshots").join(COMMIT));
    assert_eq!(
        fs::read_to_string(setup.repo().join("refs/main")).unwrap(),
        COMMIT
    );
    let mut blobs: Vec<String> = (fs::read_dir(setup.repo().join("blobs")).unwrap())
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    blobs.sort();
    let mut expected = [
        git_sha1(&files()[0].1),
        git_sha1(&files()[1].1),
        sha256(&weights()),
    ];
    expected.sort();
    assert_eq!(blobs, expected);
    #[cfg(unix)]
    assert_eq!(
        fs::read_link(found.folder.join("config.json")).unwrap(),
        Path::new("../../blobs").join(git_sha1(&files()[0].1))
    );
    let seen = setup.server.seen();
    assert!(
        !seen
            .iter()
            .any(|seen| seen.path.contains("pytorch_model.bin") || seen.path.contains("README"))
    );
    // From the cache, also by its commit; a tag has to be asked for, but its files are there.
    for name in [
        "owner/model",
        "hf:owner/model@main",
        &format!("owner/model@{COMMIT}"),
    ] {
        check(&setup.find(name).unwrap());
    }
    assert!(setup.server.seen().is_empty());
    check(&setup.find("owner/model@v1").unwrap());
    assert!(setup.transfers().is_empty());
    check(&setup.find("model").unwrap());
}

#[test]
fn a_cut_connection_is_resumed_at_once() {
    let setup = Setup::new();
    setup
        .server
        .fail("GET", "/lfs/", 2, Fault::CutAfter(1_000_000));
    check(&setup.find("owner/model").unwrap());
    let ranges: Vec<Option<String>> = setup
        .transfers()
        .into_iter()
        .map(|seen| seen.range)
        .collect();
    assert_eq!(
        ranges,
        [
            None,
            Some("bytes=1000000-".into()),
            Some("bytes=2000000-".into())
        ]
    );
}

#[test]
fn a_download_is_resumed_by_the_next_run() {
    let mut setup = Setup::new();
    setup.hub.attempts = 1;
    setup
        .server
        .fail("GET", "/lfs/", 1, Fault::CutAfter(1_234_567));
    let problem = setup.find("owner/model").unwrap_err().to_string();
    assert!(problem.contains("ended early"), "{problem}");
    assert_eq!(fs::metadata(setup.partial()).unwrap().len(), 1_234_567);
    assert!(!setup.repo().join("snapshots").exists());
    setup.server.seen();
    check(&setup.find("owner/model").unwrap());
    assert_eq!(
        setup.transfers()[0].range.as_deref(),
        Some("bytes=1234567-")
    );
    assert!(!setup.partial().exists());
}

#[test]
fn a_server_that_cannot_resume_sends_all_again() {
    let setup = Setup::new();
    setup
        .server
        .fail("GET", "/lfs/", 1, Fault::CutAfter(1_000_000));
    setup.server.fail("GET", "/lfs/", 1, Fault::NoRange);
    check(&setup.find("owner/model").unwrap());
    assert_eq!(setup.transfers().len(), 2);
}

#[test]
fn a_part_of_another_file_or_a_longer_one_is_replaced() {
    for part in [vec![0; 1000], vec![0; WEIGHTS], vec![0; WEIGHTS + 1]] {
        let setup = Setup::new();
        fs::create_dir_all(setup.repo().join("blobs")).unwrap();
        fs::write(setup.partial(), part).unwrap();
        check(&setup.find("owner/model").unwrap());
    }
}

#[test]
fn a_wrong_size_is_an_error() {
    let setup = Setup::new();
    setup.server.fail("GET", "/lfs/", 9, Fault::Longer(5));
    let host = "sent 3000005 bytes for model.safetensors, but says that it has 3000000";
    let problem = setup.find("owner/model").unwrap_err().to_string();
    assert!(
        problem.contains("wrong size") && problem.contains(host),
        "{problem}"
    );
    setup.server.heal();
    setup
        .server
        .fail("HEAD", "model.safetensors", 9, Fault::Size(2_999_999));
    let problem = setup.find("owner/model").unwrap_err().to_string();
    assert!(problem.contains("wrong size"), "{problem}");
    assert!(!setup.repo().join("snapshots").exists());
    setup.server.heal();
    check(&setup.find("owner/model").unwrap());
}

#[test]
fn a_wrong_hash_is_an_error_and_nothing_of_the_file_stays() {
    let setup = Setup::new();
    setup.server.fail("GET", "/lfs/", 1, Fault::Corrupt);
    setup.fails(
        "owner/model",
        &["wrong hash", "model.safetensors", "deleted"],
    );
    assert!(!setup.partial().exists());
    setup.server.fail("GET", "/vocab.txt", 1, Fault::Corrupt);
    let other = Setup::new();
    other.server.fail("GET", "/vocab.txt", 1, Fault::Corrupt);
    other.fails("owner/model", &["wrong hash", "vocab.txt"]);
    check(&other.find("owner/model").unwrap());
}

#[test]
fn what_the_answer_for_a_file_does_not_say_comes_from_the_listing() {
    let setup = Setup::new();
    let file = "model.safetensors";
    setup
        .server
        .fail("HEAD", file, 1, Fault::Without("X-Linked-Size"));
    check(&setup.find("owner/model").unwrap());
    let other = Setup::new();
    other.server.fail("HEAD", file, 2, Fault::Etag("\"odd\""));
    other.server.fail("GET", "/lfs/", 1, Fault::Corrupt);
    other.fails("owner/model", &["wrong hash", &sha256(&weights())]);
    check(&other.find("owner/model").unwrap());
    assert!(other.repo().join("blobs/odd").is_file());
    let evil = Setup::new();
    evil.server
        .fail("HEAD", file, 1, Fault::Etag("\"../../../../evil\""));
    evil.fails("owner/model", &["no usable ETag"]);
}

#[test]
fn missing_names_revisions_and_rights_are_told_apart() {
    let mut setup = Setup::new();
    setup.fails("owner/private", &["401", "set HF_TOKEN"]);
    setup.fails("owner/none", &["401", "check the name"]);
    setup.fails(
        "owner/gated",
        &["403", "gated", "accept its conditions", "HF_TOKEN"],
    );
    setup.fails("owner/model@v2", &["404", "no such branch, tag or commit"]);
    setup.hub.token = Token::new("hf_wrong");
    setup.fails("owner/private", &["404"]);
    setup.hub.token = Token::new(TOKEN);
    setup.fails("owner/none", &["404", "no such model"]);
    setup
        .server
        .fail("GET", "/api/models", 1, Fault::Status(401, ""));
    setup.fails("owner/model", &["401", "the access token"]);
    setup.server.fail(
        "HEAD",
        "config.json",
        1,
        Fault::Status(404, "EntryNotFound"),
    );
    setup.fails("owner/model", &["404", "no such file"]);
}

#[test]
fn the_token_goes_to_the_hub_only() {
    let mut setup = Setup::new();
    setup.hub.token = Token::new(TOKEN);
    check(&setup.find("owner/private").unwrap());
    let seen = setup.server.seen();
    assert!(seen.iter().any(|seen| seen.is_storage));
    for seen in seen {
        assert_eq!(seen.authorization.is_none(), seen.is_storage, "{seen:?}");
    }
    assert!(!format!("{:?}", setup.hub).contains(TOKEN));
}

#[test]
fn a_server_with_a_problem_is_asked_again() {
    let setup = Setup::new();
    setup
        .server
        .fail("GET", "/api/models", 2, Fault::Status(500, ""));
    setup
        .server
        .fail("HEAD", "config.json", 2, Fault::Status(503, ""));
    setup.server.fail("GET", "/lfs/", 1, Fault::Status(502, ""));
    setup
        .server
        .fail("GET", "/vocab.txt", 1, Fault::Status(429, ""));
    check(&setup.find("owner/model").unwrap());
    let other = Setup::new();
    other
        .server
        .fail("GET", "/api/models", 9, Fault::Status(500, ""));
    other.fails("owner/model", &["500", "try again later"]);
    assert_eq!(other.server.seen().len(), 3);
    other.server.heal();
    other
        .server
        .fail("GET", "/api/models", 9, Fault::Status(429, ""));
    other.fails("owner/model", &["429", "wait"]);
}

#[test]
fn a_silent_server_is_left_after_the_timeout() {
    let mut setup = Setup::new();
    setup.hub.timeout = Duration::from_secs(1);
    setup.hub.attempts = 2;
    let late = Fault::Slow(Duration::from_secs(20));
    setup.server.fail("GET", "/api/models", 9, late.clone());
    let start = Instant::now();
    setup.fails("owner/model", &["timeout", "HF_HUB_DOWNLOAD_TIMEOUT"]);
    assert!(start.elapsed() < Duration::from_secs(10));
    setup.server.heal();
    // One late answer is asked for again.
    setup.server.fail("GET", "/lfs/", 1, late);
    check(&setup.find("owner/model").unwrap());
}

#[test]
fn redirects_are_followed_but_not_forever() {
    let setup = Setup::new();
    setup.server.fail("HEAD", "resolve", 1, Fault::RedirectOnce);
    setup
        .server
        .fail("GET", "/api/models", 1, Fault::RedirectOnce);
    check(&setup.find("owner/model").unwrap());
    let other = Setup::new();
    other
        .server
        .fail("GET", "/api/models", 99, Fault::RedirectLoop);
    other.fails("owner/model", &["more than 10 redirects"]);
    other.server.heal();
    other
        .server
        .fail("HEAD", "config.json", 99, Fault::RedirectLoop);
    other.fails("owner/model", &["more than 10 redirects"]);
}

#[test]
fn sizes_are_bounded_before_anything_is_read() {
    let mut setup = Setup::new();
    setup
        .server
        .fail("HEAD", "model.safetensors", 1, Fault::Size(10 << 40));
    setup.fails(
        "owner/model",
        &["11.0 TB", "more than the limit", "34.4 GB"],
    );
    assert!(setup.transfers().is_empty());
    setup.hub.largest_file = u64::MAX;
    setup
        .server
        .fail("HEAD", "model.safetensors", 1, Fault::Size(1 << 60));
    if cfg!(unix) {
        let problem = setup.find("owner/model").unwrap_err().to_string();
        assert!(
            problem.contains("disk full") && problem.contains("HF_HUB_CACHE"),
            "{problem}"
        );
        assert!(setup.transfers().is_empty());
    }
}

#[test]
fn files_outside_of_the_folder_are_refused() {
    for path in ["../../../evil", "/etc/evil", "a\\..\\evil"] {
        let setup = Setup::new();
        setup.server.list(path);
        setup.fails("owner/model", &["outside of the model's folder"]);
    }
}

#[test]
fn a_repository_without_a_required_file_is_explained_before_the_download() {
    let setup = Setup::with(&[
        ("config.json", b"{}".to_vec()),
        ("tf_model.h5", vec![0; 10]),
    ]);
    let problem = setup.find("owner/model").unwrap_err().to_string();
    for part in [
        "no model.safetensors or pytorch_model.bin",
        "only tf_model.h5",
        "choose another model",
    ] {
        assert!(problem.contains(part), "{problem}");
    }
    assert!(!setup.repo().exists());
}

#[test]
fn without_a_network_only_the_cache_is_used() {
    let setup = Setup::new();
    let offline = setup.hub.clone().offline();
    let problem = offline.find("owner/model", WANTED).unwrap_err().to_string();
    for part in ["not in the cache", "--offline", "HF_HUB_OFFLINE"] {
        assert!(problem.contains(part), "{problem}");
    }
    assert!(setup.server.seen().is_empty());
    setup.find("owner/model").unwrap();
    setup.server.seen();
    check(&offline.find("owner/model", WANTED).unwrap().folder);
    assert!(setup.server.seen().is_empty());
    fs::remove_file(
        setup
            .repo()
            .join("snapshots")
            .join(COMMIT)
            .join("model.safetensors"),
    )
    .unwrap();
    let problem = offline.find("owner/model", WANTED).unwrap_err().to_string();
    assert!(problem.contains("only in part"), "{problem}");
    // The content is there; only the link is made again.
    check(&setup.find("owner/model").unwrap());
    assert!(setup.transfers().is_empty());
}

#[test]
fn no_server_is_explained() {
    let mut setup = Setup::new();
    // A port that was free a moment ago.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    drop(listener);
    setup.hub.endpoint = format!("http://{host}");
    let problem = setup.find("owner/model").unwrap_err().to_string();
    assert!(
        problem.contains(&format!("cannot connect to {host}")),
        "{problem}"
    );
    setup.hub.endpoint = "no address".into();
    assert!(
        setup
            .find("owner/model")
            .unwrap_err()
            .to_string()
            .contains("HF_ENDPOINT")
    );
}

#[test]
fn two_at_once_download_each_file_once() {
    let setup = Setup::new();
    setup
        .server
        .fail("GET", "/lfs/", 1, Fault::Slow(Duration::from_millis(300)));
    let barrier = Arc::new(Barrier::new(4));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (hub, barrier) = (setup.hub.clone(), barrier.clone());
            std::thread::spawn(move || {
                barrier.wait();
                hub.find("owner/model", WANTED).unwrap().folder
            })
        })
        .collect();
    for thread in threads {
        check(&thread.join().unwrap());
    }
    assert_eq!(setup.transfers().len(), 1);
}

/// Variables by which this program, started as another process, gets the hub's address and the cache.
const CHILD: [&str; 2] = ["NERZOO_TEST_HUB", "NERZOO_TEST_CACHE"];

/// The other processes of the next test; without its variables it does nothing.
#[test]
fn child_process() {
    let [Ok(endpoint), Ok(cache)] = CHILD.map(std::env::var) else {
        return;
    };
    let hub = Hub {
        endpoint,
        cache: cache.into(),
        token: None,
        offline: false,
        ..Hub::from_env()
    };
    check(&hub.find("owner/model", WANTED).unwrap().folder);
}

#[test]
fn two_processes_download_each_file_once() {
    let setup = Setup::new();
    let late = Fault::Slow(Duration::from_secs(1));
    setup.server.fail("GET", "/lfs/", 1, late);
    let start = || {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_process"])
            .env(CHILD[0], &setup.server.address)
            .env(CHILD[1], &setup.hub.cache)
            .spawn()
            .unwrap()
    };
    for mut process in [start(), start()] {
        assert!(process.wait().unwrap().success());
    }
    assert_eq!(setup.transfers().len(), 1);
}

#[test]
fn progress_is_reported_and_can_stop_the_download() {
    let mut setup = Setup::new();
    let most = Arc::new(AtomicU64::new(0));
    let seen = most.clone();
    setup.hub.progress = OnProgress::new(move |progress| {
        assert!(progress.done <= progress.total);
        seen.fetch_max(progress.done, Ordering::SeqCst);
        ControlFlow::Break(())
    });
    let problem = setup.find("owner/model").unwrap_err();
    assert!(
        matches!(problem, nerzoo::error::Error::Interrupted(_)),
        "{problem}"
    );
    let total = files()[..3]
        .iter()
        .map(|(_, content)| content.len() as u64)
        .sum();
    assert!(most.load(Ordering::SeqCst) < total);
    let seen = most.clone();
    setup.hub.progress = OnProgress::new(move |progress| {
        assert_eq!(progress.total, total);
        seen.store(progress.done, Ordering::SeqCst);
        ControlFlow::Continue(())
    });
    check(&setup.find("owner/model").unwrap());
    assert_eq!(most.load(Ordering::SeqCst), total);
}

#[test]
fn a_single_file_is_downloaded_and_checked() {
    let setup = Setup::new();
    let target = setup.cache.path().join("folder/model.safetensors");
    let address = format!(
        "{}/owner/model/resolve/main/model.safetensors?a=b",
        setup.server.address
    );
    let get = |hash: &str| {
        setup
            .hub
            .download_file(&address, &target, WEIGHTS as u64, hash)
    };
    let problem = get(&"0".repeat(64)).unwrap_err().to_string();
    assert!(
        problem.contains("wrong hash") && !target.exists(),
        "{problem}"
    );
    setup.server.fail("GET", "/lfs/", 1, Fault::CutAfter(1000));
    get(&sha256(&weights())).unwrap();
    assert!(fs::read(&target).unwrap() == weights());
    assert_eq!(fs::read_dir(target.parent().unwrap()).unwrap().count(), 1);
    let address = format!(
        "{}/owner/model/resolve/main/vocab.txt",
        setup.server.address
    );
    assert_eq!(setup.hub.read_text(&address).unwrap(), "[PAD]\n");
    let problem = setup.hub.read_text(&format!("{address}.none")).unwrap_err();
    assert!(problem.to_string().contains("404"), "{problem}");
    let offline = setup.hub.clone().offline();
    assert!(offline.read_text(&address).is_err());
    assert!(offline.download_file(&address, &target, 1, "").is_err());
}

/// Python's `huggingface_hub` reads our cache, and we read Python's. `NERZOO_HUB_PYTHON` names a Python that has it.
#[test]
fn the_cache_is_shared_with_python() {
    let Some(python) = std::env::var_os("NERZOO_HUB_PYTHON") else {
        eprintln!("SKIPPED the_cache_is_shared_with_python: NERZOO_HUB_PYTHON is not set");
        return;
    };
    let run = |setup: &Setup, script: &str| {
        let output = Command::new(&python)
            .args(["-c", script])
            .env("HF_HUB_CACHE", setup.cache.path().join("hub"))
            .env("HF_ENDPOINT", &setup.server.address)
            .env("HF_HUB_DISABLE_XET", "1")
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
        PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
    };
    let ours = Setup::new();
    let folder = ours.find("owner/model").unwrap();
    ours.server.seen();
    let script = "import huggingface_hub as h\n\
                  print(h.snapshot_download('owner/model', local_files_only=True))";
    assert_eq!(run(&ours, script), folder);
    let script = "import huggingface_hub as h\n\
                  print(h.hf_hub_download('owner/model', 'model.safetensors', local_files_only=True))";
    assert_eq!(run(&ours, script), folder.join("model.safetensors"));
    // Newer versions of Python's library ask for other things as well.
    let seen = ours.server.seen();
    assert!(
        !seen.iter().any(|seen| seen.path.contains("model")),
        "{seen:?}"
    );
    let theirs = Setup::new();
    let script = "import huggingface_hub as h\n\
                  for f in ['config.json', 'vocab.txt', 'model.safetensors']: p = h.hf_hub_download('owner/model', f)\n\
                  import os; print(os.path.dirname(p))";
    let folder = run(&theirs, script);
    theirs.server.seen();
    assert_eq!(
        theirs
            .hub
            .clone()
            .offline()
            .find("owner/model", WANTED)
            .unwrap()
            .folder,
        folder
    );
    check(&theirs.find("owner/model").unwrap());
    assert!(theirs.server.seen().is_empty());
}
