//! The authors' weights through `zoo import --from released`: the model folder gives the entities of their program.

use std::path::PathBuf;

use nerzoo::hub::Hub;
use nerzoo::registry;
use nerzoo::text::{Mention, Sentence};
use nerzoo::zoo::import::{ReleasedOptions, import_released};
use serde_json::Value;
use tempfile::TempDir;

use super::common::{self, Fixture};
use super::common_encoder;

/// The model folder of a fixture's weights, in a temporary folder.
pub fn imported(fixture: &Fixture, head: &str, settings: &Value) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let [checkpoint, config, out] =
        ["checkpoint", "config.json", "model"].map(|name| folder.path().join(name));
    std::fs::write(&checkpoint, fixture.under("w.")).unwrap();
    std::fs::write(&config, settings.to_string()).unwrap();
    let options = ReleasedOptions {
        head: head.into(),
        checkpoint,
        config: Some(config),
        types: None,
        encoder: Some(common_encoder().display().to_string()),
    };
    import_released(&options, &Hub::from_env().offline(), &out, false).unwrap();
    (folder, out)
}

/// The mentions that an imported model finds.
pub fn tagged(
    fixture: &Fixture,
    head: &str,
    settings: &Value,
    sentences: &[Sentence],
) -> Vec<Vec<Mention>> {
    let (_folder, out) = imported(fixture, head, settings);
    let tagger = registry::load(&out, &common::first_device(), &[]).unwrap();
    tagger.tag(sentences).unwrap()
}
