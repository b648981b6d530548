//! Models in folders of this machine.

use std::path::PathBuf;

/// Environment variable with the folders in which encoders and word vectors are looked up by name.
pub const ROOTS: &str = "NERZOO_ENCODERS";

/// Where a model of this name may be: the name as a path, then its last part in each folder of `NERZOO_ENCODERS`.
pub fn candidates(name: &str) -> Vec<PathBuf> {
    let roots = std::env::var_os(ROOTS).unwrap_or_default();
    let roots = std::env::split_paths(&roots).filter(|root| !root.as_os_str().is_empty());
    let below = roots.map(|root| root.join(last_part(name)));
    std::iter::once(PathBuf::from(name)).chain(below).collect()
}

/// The part of a name after its last slash: `sentence-transformers/all-MiniLM-L6-v2` is in a folder `all-MiniLM-L6-v2`.
pub(super) fn last_part(name: &str) -> &str {
    let name = name.trim_end_matches('/');
    name.rsplit('/').next().unwrap_or(name)
}

/// The value of `NERZOO_ENCODERS` for messages.
pub(super) fn described_roots() -> String {
    match std::env::var_os(ROOTS) {
        Some(roots) if !roots.is_empty() => roots.to_string_lossy().into_owned(),
        _ => "not set".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_part_names_the_folder() {
        assert_eq!(last_part("a/b"), "b");
        assert_eq!(last_part("a/b/"), "b");
        assert_eq!(last_part("b"), "b");
        assert_eq!(candidates("a/b")[0], PathBuf::from("a/b"));
    }
}
