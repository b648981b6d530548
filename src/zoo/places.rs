//! Where models are kept: published ones in `model-zoo/`, fetched ones in the cache.

use std::path::{Path, PathBuf};

/// Environment variable with folders like `model-zoo`, separated as in `PATH`; searched first.
pub const ZOO_VARIABLE: &str = "NERZOO_ZOO";
/// Environment variable with the folder of fetched models.
pub const CACHE_VARIABLE: &str = "NERZOO_CACHE";
/// The zoo's folder in a clone of the repository.
const FOLDER: &str = "model-zoo";
/// The folder of models in a zoo and in the cache.
pub const MODELS: &str = "models";
/// Longest name of a model, in bytes.
const LONGEST_NAME: usize = 96;

/// The folders with `models/` and `index.json`: those of `NERZOO_ZOO`, `model-zoo` in the working directory, and the one of
/// the source tree this program was built in, if it is still there.
pub fn zoo_folders() -> Vec<PathBuf> {
    let named = std::env::var_os(ZOO_VARIABLE).unwrap_or_default();
    let named = std::env::split_paths(&named).filter(|folder| !folder.as_os_str().is_empty());
    let mut folders: Vec<PathBuf> = named.chain([PathBuf::from(FOLDER)]).collect();
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join(FOLDER);
    let canonical = |folder: &Path| folder.canonicalize().ok();
    // The working directory may be the source tree.
    if built.is_dir() && !(folders.iter()).any(|folder| canonical(folder) == canonical(&built)) {
        folders.push(built);
    }
    folders
}

/// The cache folder: `NERZOO_CACHE`, else `nerzoo` in the user's cache.
pub fn cache() -> PathBuf {
    cache_of(&|name| std::env::var_os(name).map(PathBuf::from))
}

fn cache_of(variable: &dyn Fn(&str) -> Option<PathBuf>) -> PathBuf {
    let given = |name: &str| variable(name).filter(|path| !path.as_os_str().is_empty());
    if let Some(cache) = given(CACHE_VARIABLE) {
        return cache;
    }
    let home = || {
        given("HOME")
            .or_else(std::env::home_dir)
            .unwrap_or_default()
    };
    let base = given("XDG_CACHE_HOME").unwrap_or_else(|| home().join(".cache"));
    base.join("nerzoo")
}

/// True for the name of a model: letters, digits, `-`, `_` and `.`, which begins with a letter or digit. Such a name is a
/// folder's on every system and stays in its parent.
pub fn is_model_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    name.len() <= LONGEST_NAME
        && name
            .as_bytes()
            .first()
            .is_some_and(u8::is_ascii_alphanumeric)
        && name.bytes().all(is_allowed)
        && !name.ends_with('.')
}

/// What a name has to look like, for messages.
pub const NAME_RULE: &str = "a name has letters, digits, `-`, `_` and `.`, begins with a letter or digit and has at most 96";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_folders_below_their_parent() {
        for name in ["a", "gum-nested", "A_1.b", "3"] {
            assert!(is_model_name(name), "{name}");
        }
        for name in [
            "", ".", "..", "../a", "a/b", ".hidden", "-a", "a b", "a\\b", "a.", "C:a", "é", "hf:a",
            "a\n",
        ] {
            assert!(!is_model_name(name), "{name:?}");
        }
        assert!(!is_model_name(&"a".repeat(97)));
    }

    #[test]
    fn the_cache_is_in_the_users_cache() {
        let with = |pairs: &'static [(&str, &str)]| {
            let find = move |name: &str| {
                let found = pairs.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| PathBuf::from(value))
            };
            cache_of(&find)
        };
        assert_eq!(with(&[("HOME", "/u")]), Path::new("/u/.cache/nerzoo"));
        assert_eq!(
            with(&[("HOME", "/u"), ("XDG_CACHE_HOME", "/x")]),
            Path::new("/x/nerzoo")
        );
        assert_eq!(
            with(&[("XDG_CACHE_HOME", "/x"), ("NERZOO_CACHE", "/c")]),
            Path::new("/c")
        );
        assert_eq!(
            with(&[("HOME", "/u"), ("NERZOO_CACHE", "")]),
            Path::new("/u/.cache/nerzoo")
        );
    }
}
