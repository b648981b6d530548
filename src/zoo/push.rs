//! Pushing: the files of a model folder become a commit on the hub.

use std::path::Path;

use super::names::Zoo;
use super::verify::verify;
use crate::error::{Error, Result};
use crate::files::sha256;
use crate::hub::{RepoId, UploadFile, Uploaded};
use crate::model::manifest;

/// What is to be pushed.
#[derive(Debug)]
pub struct PushPlan {
    /// Exactly the files of the commit.
    pub files: Vec<UploadFile>,
    /// What a reader of the repository should know, each with a remedy.
    pub notes: Vec<String>,
}

/// Checks a model folder and lists the files to push: those of its manifest, and the manifest.
pub fn plan(folder: &Path) -> Result<PushPlan> {
    let verified = verify(folder)?;
    let mut files = Vec::new();
    let names = verified.manifest.files().map(|(name, _)| name);
    for name in names.chain([manifest::FILE]) {
        let path = folder.join(name);
        let about = path.metadata().map_err(|source| Error::io(&path, source))?;
        files.push(UploadFile {
            name: name.to_string(),
            size: about.len(),
            sha256: sha256(&path)?,
            path,
        });
    }
    let mut notes = Vec::new();
    if verified.card_is_edited {
        notes.push(
            "README.md was edited since the model was published; `zoo verify` will report that. Publish the model again to \
             include it in the manifest"
                .into(),
        );
    }
    if !files.iter().any(|file| file.name == "README.md") {
        notes.push("the model has no card; make one with `nerzoo zoo publish`".into());
    }
    Ok(PushPlan { files, notes })
}

impl Zoo {
    /// Pushes files to a repository, which is made if it does not exist.
    pub fn push(
        &self,
        plan: &PushPlan,
        to: &RepoId,
        message: &str,
        is_private: bool,
    ) -> Result<Uploaded> {
        self.hub.upload(to, &plan.files, message, is_private)
    }
}
