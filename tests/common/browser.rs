//! A headless Chromium, driven through chromedriver (the WebDriver protocol).

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http::send;

/// The key of an element's id in the protocol.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser window; it is closed when it is dropped.
pub struct Browser {
    driver: Child,
    address: SocketAddr,
    session: String,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts a browser; `None`, with a message, where there is none.
    pub fn start(test: &str) -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let driver = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(driver) = driver else {
            println!(
                "SKIPPED {test}: no chromedriver here (Debian's packages are chromium and chromium-driver)"
            );
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        let mut browser = Self {
            driver,
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            session: String::new(),
            _profile: profile,
        };
        wait_for("chromedriver", || {
            TcpStream::connect(browser.address).is_ok()
        });
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-sync",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-dev-shm-usage",
            "--window-size=1280,900",
        ];
        let mut arguments: Vec<String> = arguments.map(String::from).to_vec();
        arguments.push(format!(
            "--user-data-dir={}",
            browser._profile.path().display()
        ));
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let started = browser.call("POST", "/session", &wanted);
        browser.session = started["sessionId"]
            .as_str()
            .unwrap_or_else(|| panic!("{started}"))
            .to_string();
        Some(browser)
    }

    /// Sends a command; fails unless it succeeds.
    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if method == "GET" {
            String::new()
        } else {
            body.to_string()
        };
        let headers = [("Content-Type", "application/json; charset=utf-8")];
        let answer = send(self.address, method, path, &headers, body.as_bytes());
        assert_eq!(
            answer.status,
            200,
            "{method} {path} {body}: {}",
            answer.text()
        );
        answer.json()["value"].clone()
    }

    fn command(&self, path: &str, body: Value) -> Value {
        self.call("POST", &format!("/session/{}/{path}", self.session), &body)
    }

    /// A command of Chrome's own protocol.
    pub fn chrome(&self, command: &str, parameters: Value) -> Value {
        self.command(
            "goog/cdp/execute",
            json!({"cmd": command, "params": parameters}),
        )
    }

    pub fn open(&self, address: &str) {
        self.command("url", json!({"url": address}));
    }

    /// Runs a script, which may return a value.
    pub fn run(&self, script: &str) -> Value {
        self.command("execute/sync", json!({"script": script, "args": []}))
    }

    pub fn text(&self, script: &str) -> String {
        let value = self.run(script);
        value
            .as_str()
            .unwrap_or_else(|| panic!("{script}: {value}"))
            .to_string()
    }

    pub fn count(&self, selector: &str) -> u64 {
        let script = format!(
            "return document.querySelectorAll({}).length",
            json!(selector)
        );
        self.run(&script).as_u64().unwrap()
    }

    fn element(&self, selector: &str) -> String {
        let found = self.command(
            "element",
            json!({"using": "css selector", "value": selector}),
        );
        found[ELEMENT].as_str().unwrap().to_string()
    }

    /// Types into an element; for a file input, chooses the file of this path.
    pub fn keys(&self, selector: &str, keys: &str) {
        let element = self.element(selector);
        self.command(&format!("element/{element}/value"), json!({"text": keys}));
    }

    pub fn click(&self, selector: &str) {
        let element = self.element(selector);
        self.command(&format!("element/{element}/click"), json!({}));
    }

    /// Waits until a script returns true.
    pub fn wait(&self, script: &str) {
        wait_for(script, || {
            self.run(&format!("return Boolean({script})")) == true
        });
    }

    /// Sets the size of the page and the colour scheme.
    pub fn appear(&self, width: u32, height: u32, scheme: &str) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.chrome("Emulation.setDeviceMetricsOverride", size);
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.chrome("Emulation.setEmulatedMedia", features);
    }

    /// Writes a picture of the page into the folder that `NERZOO_SCREENSHOTS` names, if it is set.
    pub fn screenshot(&self, name: &str) {
        let Some(folder) = std::env::var_os("NERZOO_SCREENSHOTS") else {
            return;
        };
        let taken = self.chrome(
            "Page.captureScreenshot",
            json!({"captureBeyondViewport": true}),
        );
        let data = taken["data"].as_str().unwrap();
        std::fs::create_dir_all(&folder).unwrap();
        let path = Path::new(&folder).join(format!("{name}.png"));
        std::fs::write(path, base64(data)).unwrap();
    }

    /// Warnings and errors of the browser's console so far.
    pub fn problems(&self) -> Vec<String> {
        let log = self.command("se/log", json!({"type": "browser"}));
        let entries = log.as_array().unwrap().iter();
        let bad = entries.filter(|entry| entry["level"] == "SEVERE" || entry["level"] == "WARNING");
        bad.map(|entry| entry["message"].to_string()).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let path = format!("/session/{}", self.session);
            send(self.address, "DELETE", &path, &[], b"");
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

fn wait_for(what: &str, is_done: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_done() {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "waited in vain for {what}"
        );
        thread::sleep(Duration::from_millis(50));
    }
}

fn base64(text: &str) -> Vec<u8> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = text
        .bytes()
        .filter(|byte| *byte != b'=')
        .map(value)
        .collect();
    let mut bytes = Vec::new();
    for four in digits.chunks(4) {
        let number = four
            .iter()
            .fold(0u32, |sum, digit| sum << 6 | u32::from(*digit))
            << (6 * (4 - four.len()));
        bytes.extend(&number.to_be_bytes()[1..four.len()]);
    }
    bytes
}
