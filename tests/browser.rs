//! The page of the HTTP service in headless Chromium. Skipped, with a message, where there is no chromedriver.
//!
//! `NERZOO_SCREENSHOTS` names a folder for pictures of the page.

#![cfg(feature = "serve")]

#[path = "common/browser.rs"]
mod browser;
#[path = "common/http.rs"]
#[allow(dead_code)]
mod http;

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use browser::Browser;
use nerzoo::Tagger;
use nerzoo::data::write::{Annotated, HtmlWriter};
use nerzoo::error::Result;
use nerzoo::heads::Diagnosis;
use nerzoo::model::tagger::tag_document;
use nerzoo::serve::{Model, ServeOptions, Server, StopHandle};
use nerzoo::text::{Entity, Labels, Mention, Sentence};
use serde_json::{Value, json};

const TEXT: &str =
    "Marta Keller, dean of the University of Lindholm, visited the Bank of Brakel in March.";

/// Finds persons, and with `nested` organisations that contain a place, by simple rules.
struct Rules {
    labels: Labels,
    nested: bool,
}

impl Rules {
    fn new(nested: bool) -> Self {
        let labels = Labels::new(["<b>PER</b>", "LOC", "ORG", "MISC"]);
        Self { labels, nested }
    }
}

impl Tagger for Rules {
    fn tag(&self, sentences: &[Sentence]) -> Result<Vec<Vec<Mention>>> {
        let of = |sentence: &Sentence| {
            let is_name = |index: usize| {
                let word = sentence.words.get(index);
                word.is_some_and(|word| word.text.starts_with(char::is_uppercase))
            };
            let mention = |start, end, label, score| Mention {
                entity: Entity::new(start, end, label),
                score,
            };
            let mut found = Vec::new();
            for (index, word) in sentence.words.iter().enumerate() {
                if !self.nested {
                    if is_name(index) {
                        found.push(mention(index, index + 1, "MISC", 0.7));
                    }
                } else if word.text == "of" && index > 0 && is_name(index - 1) && is_name(index + 1)
                {
                    found.push(mention(index - 1, index + 2, "ORG", 0.9));
                    found.push(mention(index + 1, index + 2, "LOC", 0.4));
                } else if is_name(index) && is_name(index + 1) {
                    found.push(mention(index, index + 2, "<b>PER</b>", 0.98));
                }
            }
            found.sort_by(|one, other| one.entity.cmp(&other.entity));
            found
        };
        Ok(sentences.iter().map(of).collect())
    }

    fn diagnose(&self, sentences: &[Sentence]) -> Result<Diagnosis> {
        Ok(Diagnosis::of(self.tag(sentences)?))
    }

    fn labels(&self) -> &Labels {
        &self.labels
    }

    fn nested(&self) -> bool {
        self.nested
    }
}

/// A service that is stopped when it is dropped.
struct Running {
    address: String,
    handle: StopHandle,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Running {
    fn start(token: Option<&str>) -> Self {
        let models = [("nested", true), ("flat", false)];
        let models =
            models.map(|(name, nested)| Model::new(name, Box::new(Rules::new(nested))).unwrap());
        let options = ServeOptions {
            token: token.map(String::from),
            ..ServeOptions::default()
        };
        let server = Server::bind(models.into(), "127.0.0.1:0", options).unwrap();
        Self {
            address: format!("http://{}/", server.address()),
            handle: server.stop_handle(),
            thread: Some(thread::spawn(|| server.run())),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.stop();
        let _ = self.thread.take().unwrap().join();
    }
}

fn drawn(browser: &Browser) -> String {
    browser.text("return document.querySelector('#drawing').innerText")
}

fn set_threshold(browser: &Browser, value: &str) {
    let script = format!(
        "const slider = document.querySelector('#threshold'); slider.value = {}; slider.dispatchEvent(new Event('input'))",
        json!(value)
    );
    browser.run(&script);
}

#[test]
fn texts_are_drawn_with_nested_entities() {
    let Some(browser) = Browser::start("texts_are_drawn_with_nested_entities") else {
        return;
    };
    let service = Running::start(None);
    browser.open(&service.address);
    browser.wait("document.querySelectorAll('#model option').length === 2");
    browser.keys("#text", TEXT);
    browser.click("#run");
    browser.wait("document.querySelector('#drawing .entity .entity')");
    assert_eq!(
        drawn(&browser).trim(),
        "Marta Keller<b>PER</b>, dean of the University of LindholmLOCORG, visited the Bank of BrakelLOCORG in March."
    );
    assert_eq!(
        (
            browser.count("#drawing .entity"),
            browser.count("#drawing .entity .entity"),
            browser.count("#rows tr")
        ),
        (5, 2, 5)
    );
    assert_eq!(
        browser
            .text("return document.querySelector('#status').textContent")
            .split(" in ")
            .next(),
        Some("5 entities")
    );

    // The line of an outer entity is below that of the inner one.
    let bottom = |selector: &str| {
        browser
            .run(&format!(
                "return document.querySelector('{selector}').getBoundingClientRect().bottom"
            ))
            .as_f64()
            .unwrap()
    };
    assert!(bottom("#drawing .inside-1") > bottom("#drawing .inside-1 .entity") + 3.0);

    for (width, height) in [(1280, 900), (480, 900)] {
        for scheme in ["light", "dark"] {
            browser.appear(width, height, scheme);
            let overflow = browser.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth");
            assert_eq!(overflow, 0, "{width} {scheme}");
            browser.screenshot(&format!("page-{width}-{scheme}"));
        }
    }
    browser.appear(1280, 900, "light");

    // The slider hides entities with a low score, at once.
    set_threshold(&browser, "0.5");
    assert_eq!(
        (
            browser.count("#drawing .entity"),
            browser.count("#drawing .entity .entity"),
            browser.count("#rows tr")
        ),
        (3, 0, 3)
    );
    set_threshold(&browser, "1");
    assert!(
        browser
            .text("return document.querySelector('#remark').textContent")
            .contains("No entities")
    );
    set_threshold(&browser, "0");

    // Another model.
    browser.run("const model = document.querySelector('#model'); model.value = 'flat'; model.dispatchEvent(new Event('change'))");
    browser.wait("document.querySelector('#drawing .chip')?.textContent === 'MISC'");
    assert_eq!(browser.count("#drawing .entity .entity"), 0);
    assert!(
        browser
            .text("return document.querySelector('#about').textContent")
            .contains("flat finds flat entities of 4 types")
    );
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[test]
fn the_keyboard_is_enough() {
    let Some(browser) = Browser::start("the_keyboard_is_enough") else {
        return;
    };
    let service = Running::start(None);
    browser.open(&service.address);
    browser.wait("document.querySelectorAll('#model option').length === 2");
    // Control and Enter, as the protocol writes them.
    browser.keys("#text", &format!("{TEXT}\u{e009}\u{e007}"));
    browser.wait("document.querySelector('#drawing .entity')");
    assert_eq!(browser.count("#drawing .entity[tabindex='0']"), 1);
    browser.run("document.querySelector('#drawing .entity').focus()");
    let focused = || browser.text("return document.activeElement.dataset.info");
    let shown = "return getComputedStyle(document.activeElement, '::after').content";
    assert!(focused().starts_with("<b>PER</b> · characters 0 to 12 · score 0.98"));
    assert!(browser.text(shown).contains("characters 0 to 12"));
    browser.keys("#drawing .entity[tabindex='0']", "\u{e014}");
    assert!(
        focused().starts_with("ORG · characters 26 to 48 · score 0.9"),
        "{}",
        focused()
    );
    browser.screenshot("page-focus");
    browser.keys("#drawing .entity[tabindex='0']", "\u{e014}");
    assert!(
        focused().starts_with("LOC · characters 40 to 48"),
        "{}",
        focused()
    );
    browser.keys("#drawing .entity[tabindex='0']", "\u{e012}\u{e012}");
    assert!(focused().starts_with("<b>PER"), "{}", focused());
    // Every control can be reached, and has a name.
    let unnamed = "return [...document.querySelectorAll('button, select, textarea, input')]
        .filter((one) => !one.textContent.trim() && !one.labels?.length && !one.ariaLabel).length";
    assert_eq!(browser.run(unnamed), 0);
    browser.click("[data-copy='json']");
    browser.wait("document.querySelector('#status').textContent === 'Copied as JSON.'");
    browser.click("[data-copy='conll']");
    browser.wait("document.querySelector('#status').textContent === 'Copied as CoNLL.'");
    browser.click("[data-copy='brat']");
    browser.wait("document.querySelector('#status').textContent === 'Copied as BRAT.'");
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[test]
fn nothing_in_a_text_becomes_markup() {
    let Some(browser) = Browser::start("nothing_in_a_text_becomes_markup") else {
        return;
    };
    let service = Running::start(None);
    browser.open(&service.address);
    browser.wait("document.querySelectorAll('#model option').length === 2");
    let evil = "<img src=x onerror=window.hacked=1> Anna Keller </p><script>window.hacked=1</script> 👩‍🔬 北京 Bank of Oslo";
    browser.run(&format!(
        "document.querySelector('#text').value = {}",
        json!(evil)
    ));
    browser.click("#run");
    browser.wait("document.querySelector('#drawing .entity')");
    assert!(drawn(&browser).contains("<img src=x onerror=window.hacked=1>"));
    assert_eq!(
        (
            browser.count("main img"),
            browser.count("main script"),
            browser.count("main b")
        ),
        (0, 0, 0)
    );
    assert_eq!(browser.run("return window.hacked === undefined"), true);
    // Offsets count characters, not units of UTF-16.
    let rows = browser.text("return document.querySelector('#rows').innerText");
    assert!(rows.contains("Bank of Oslo"), "{rows}");
    // Lone surrogates can be typed, but are no text.
    browser.run("document.querySelector('#text').value = 'Anna Keller \\ud800 x'");
    browser.click("#run");
    browser.wait("document.querySelector('#rows').innerText.includes('Anna Keller') && document.querySelectorAll('#rows tr').length === 1");
    // An error of the service is shown.
    browser.run("document.querySelector('#text').value = 'x'.repeat(1000001)");
    browser.click("#run");
    browser.wait("document.querySelector('#status.bad')");
    assert!(
        browser
            .text("return document.querySelector('#status').textContent")
            .contains("limit of 1000000")
    );
    let problems = browser.problems();
    assert!(
        problems.iter().all(|problem| problem.contains("422")),
        "{problems:?}"
    );
}

#[test]
fn files_are_tagged_with_progress_and_downloaded() {
    let Some(browser) = Browser::start("files_are_tagged_with_progress_and_downloaded") else {
        return;
    };
    let service = Running::start(None);
    let folder = tempfile::tempdir().unwrap();
    let behavior = json!({"behavior": "allow", "downloadPath": folder.path()});
    browser.chrome("Browser.setDownloadBehavior", behavior);
    browser.open(&service.address);
    browser.wait("document.querySelectorAll('#model option').length === 2");
    let text: String = (0..500)
        .map(|number| format!("Anna Keller{number} of Bern\r\n"))
        .collect();
    let lines =
        "{\"text\": \"Bank of Oslo\"}\nno JSON\n\n{\"tokens\": [\"Bank\", \"of\", \"Bern\"]}\n"
            .to_string();
    for (name, content, count) in [("many.txt", text, 500), ("some.jsonl", lines, 3)] {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        browser.keys("#file", path.to_str().unwrap());
        let wanted = format!("{}.entities.jsonl", name.split('.').next().unwrap());
        browser.wait(&format!("document.querySelector('#download').download === '{wanted}' && !document.querySelector('#download').hidden"));
        assert_eq!(
            browser.run(
                "const bar = document.querySelector('#progress'); return bar.value === bar.max"
            ),
            true
        );
        browser.screenshot("page-file");
        browser.click("#download");
        let file = folder.path().join(wanted);
        let start = Instant::now();
        while !file.exists() || std::fs::read_to_string(&file).unwrap().lines().count() < count {
            assert!(start.elapsed() < Duration::from_secs(30), "no download");
            thread::sleep(Duration::from_millis(50));
        }
        let records: Vec<Value> = (std::fs::read_to_string(&file).unwrap().lines())
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(records.len(), count);
        match name {
            "many.txt" => {
                for (number, record) in records.iter().enumerate() {
                    assert_eq!(record["text"], format!("Anna Keller{number} of Bern"));
                }
            }
            _ => {
                assert_eq!(records[0]["entities"][0]["text"], "Bank of Oslo");
                assert_eq!(records[1]["line"], 2);
                assert_eq!(records[2]["entities"][0]["text"], "Bank of Bern");
            }
        }
    }
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[test]
fn the_page_asks_for_the_token() {
    let Some(browser) = Browser::start("the_page_asks_for_the_token") else {
        return;
    };
    let service = Running::start(Some("secret"));
    browser.open(&service.address);
    browser.wait("!document.querySelector('#access').hidden");
    browser.keys("#token", "wrong");
    browser.click("#access button");
    browser.wait("document.querySelector('#status.bad')");
    browser.keys("#token", "secret\u{e007}");
    browser.wait("document.querySelector('#access').hidden && document.querySelectorAll('#model option').length === 2");
    browser.click("#examples button");
    browser.wait("document.querySelector('#drawing .entity')");
    let problems = browser.problems();
    assert!(
        problems.iter().all(|problem| problem.contains("401")),
        "{problems:?}"
    );
}

#[test]
fn the_page_of_predict_is_drawn_alike() {
    let Some(browser) = Browser::start("the_page_of_predict_is_drawn_alike") else {
        return;
    };
    let tagger = Rules::new(true);
    assert_eq!(
        tag_document(&tagger, TEXT, tagger.document_settings())
            .unwrap()
            .len(),
        5
    );
    let sentence = nerzoo::data::words::sentence(TEXT, Default::default());
    let mentions = tagger
        .tag(std::slice::from_ref(&sentence))
        .unwrap()
        .remove(0);
    let mut writer = HtmlWriter::begin(Vec::new(), "Entities found by a test").unwrap();
    writer
        .record(&[Annotated::predicted(&sentence, &mentions)])
        .unwrap();
    // Deep and crossing ones.
    let words = Sentence::from_words("one two three four five six seven eight nine ten".split(' '));
    let deep = |start, end, label: &str| Mention {
        entity: Entity::new(start, end, label),
        score: 0.5,
    };
    let deep = [
        deep(0, 10, "A"),
        deep(1, 9, "B"),
        deep(2, 8, "C"),
        deep(3, 7, "D"),
        deep(4, 6, "E"),
        deep(5, 6, "F"),
        deep(6, 10, "CROSSING"),
    ];
    writer
        .record(&[Annotated::predicted(&words, &deep)])
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page.html");
    std::fs::write(&path, writer.finish().unwrap().0).unwrap();
    browser.open(&format!("file://{}", path.display()));
    assert_eq!(
        (
            browser.count("article:nth-of-type(1) .entity"),
            browser.count("article:nth-of-type(1) .entity .entity")
        ),
        (5, 2)
    );
    assert!(
        browser.count("article:nth-of-type(2) .entity") > 7,
        "crossing entities are cut"
    );
    for (width, scheme) in [(1280, "light"), (480, "dark")] {
        browser.appear(width, 900, scheme);
        assert_eq!(
            browser.run(
                "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
            ),
            0
        );
        browser.screenshot(&format!("predict-{width}-{scheme}"));
    }
    assert_eq!(browser.problems(), Vec::<String>::new());
}
