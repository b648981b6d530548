//! Corpora have the counts and hashes that their dataset.toml states.

#![cfg(feature = "train")] // the helpers train

mod common;

use nerzoo::data::datasets;

#[test]
fn published_corpora_are_as_expected() {
    let Some(root) = common::published_corpora("published_corpora_are_as_expected") else {
        return;
    };
    let mut checked = 0;
    for (name, _) in datasets::KNOWN {
        if !root.join(name).is_dir() {
            continue;
        }
        let dataset = datasets::find(name, std::slice::from_ref(&root)).unwrap();
        let verification = datasets::verify(&dataset).unwrap();
        println!("{verification}");
        assert!(verification.ok(), "{verification}");
        checked += 1;
    }
    println!("{checked} corpora checked");
    assert!(checked > 0, "{} holds no known corpus", root.display());
}

#[test]
fn quickstart_is_as_expected() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets");
    let dataset = datasets::find("quickstart", &[root]).unwrap();
    let verification = datasets::verify(&dataset).unwrap();
    assert!(verification.ok(), "{verification}");
}
