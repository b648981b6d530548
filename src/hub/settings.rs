//! Settings of the hub from environment variables, as Python's `huggingface_hub` reads them.

use std::fmt;
use std::path::PathBuf;

/// The hub if `HF_ENDPOINT` does not name another one.
pub const ENDPOINT: &str = "https://huggingface.co";

/// An access token. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A token; `None` if the text is blank.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.to_string()))
    }

    /// The token itself, for a request.
    #[cfg_attr(not(feature = "hub"), allow(dead_code))]
    pub(super) fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Reads environment variables; another function in tests.
pub(super) type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The value of a variable; blank ones count as not set.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).and_then(|value| value.into_string().ok())
}

fn given(variables: Variables<'_>, name: &str) -> Option<String> {
    variables(name).filter(|value| !value.trim().is_empty())
}

/// `HF_ENDPOINT` without slashes at its end.
pub(super) fn endpoint(variables: Variables<'_>) -> String {
    let endpoint = given(variables, "HF_ENDPOINT").unwrap_or_else(|| ENDPOINT.into());
    endpoint.trim().trim_end_matches('/').to_string()
}

/// The cache folder: `HF_HUB_CACHE`, `HF_HOME/hub` or `~/.cache/huggingface/hub`.
pub(super) fn cache(variables: Variables<'_>) -> PathBuf {
    let named =
        given(variables, "HF_HUB_CACHE").or_else(|| given(variables, "HUGGINGFACE_HUB_CACHE"));
    match named {
        Some(cache) => expanded(variables, &cache),
        None => home(variables).join("hub"),
    }
}

/// True if `HF_HUB_OFFLINE` (or `TRANSFORMERS_OFFLINE`) is set to 1, true, yes or on.
pub(super) fn offline(variables: Variables<'_>) -> bool {
    let value =
        given(variables, "HF_HUB_OFFLINE").or_else(|| given(variables, "TRANSFORMERS_OFFLINE"));
    value.is_some_and(|value| is_true(&value))
}

/// `HF_TOKEN`, or the content of `HF_TOKEN_PATH`, by default `HF_HOME/token`, which `hf auth login` writes.
pub(super) fn token(variables: Variables<'_>) -> Option<Token> {
    let from_variable = ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"]
        .into_iter()
        .find_map(|name| Token::new(&given(variables, name)?));
    let is_implicit =
        !given(variables, "HF_HUB_DISABLE_IMPLICIT_TOKEN").is_some_and(|value| is_true(&value));
    from_variable.or_else(|| {
        let path = match given(variables, "HF_TOKEN_PATH") {
            Some(path) => expanded(variables, &path),
            None => home(variables).join("token"),
        };
        let text = is_implicit.then(|| std::fs::read_to_string(path).ok())??;
        Token::new(&text)
    })
}

fn is_true(value: &str) -> bool {
    ["1", "on", "yes", "true"].contains(&value.trim().to_ascii_lowercase().as_str())
}

/// `HF_HOME`, by default the folder `huggingface` in the user's cache.
fn home(variables: Variables<'_>) -> PathBuf {
    if let Some(home) = given(variables, "HF_HOME") {
        return expanded(variables, &home);
    }
    let cache = match given(variables, "XDG_CACHE_HOME") {
        Some(cache) => expanded(variables, &cache),
        None => user(variables).join(".cache"),
    };
    cache.join("huggingface")
}

/// A path in which `~` stands for the user's folder.
fn expanded(variables: Variables<'_>, path: &str) -> PathBuf {
    match path.strip_prefix('~') {
        Some("") => user(variables),
        Some(rest) if rest.starts_with(['/', '\\']) => user(variables).join(&rest[1..]),
        _ => PathBuf::from(path),
    }
}

fn user(variables: Variables<'_>) -> PathBuf {
    given(variables, "HOME")
        .map(PathBuf::from)
        .or_else(std::env::home_dir)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Variables of a user `/u`.
    fn with<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        move |name| {
            let mut all = pairs.iter().chain(&[("HOME", "/u")]);
            all.find(|(key, _)| *key == name)
                .map(|(_, value)| value.to_string())
        }
    }

    #[test]
    fn the_cache_is_that_of_python() {
        for (pairs, expected) in [
            (&[][..], "/u/.cache/huggingface/hub"),
            (&[("XDG_CACHE_HOME", "/x")], "/x/huggingface/hub"),
            (&[("HF_HOME", "~/h")], "/u/h/hub"),
            (&[("HF_HOME", "")], "/u/.cache/huggingface/hub"),
            (&[("HF_HOME", "/h"), ("HF_HUB_CACHE", "/c")], "/c"),
        ] {
            assert_eq!(cache(&with(pairs)), PathBuf::from(expected), "{pairs:?}");
        }
    }

    #[test]
    fn endpoint_and_offline() {
        assert_eq!(endpoint(&with(&[])), ENDPOINT);
        assert_eq!(
            endpoint(&with(&[("HF_ENDPOINT", "http://h:1/")])),
            "http://h:1"
        );
        for (value, expected) in [("1", true), ("TRUE", true), ("0", false), ("", false)] {
            assert_eq!(
                offline(&with(&[("HF_HUB_OFFLINE", value)])),
                expected,
                "{value}"
            );
        }
    }

    #[test]
    fn a_token_comes_from_a_variable_or_a_file_and_is_not_printed() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().display().to_string();
        assert_eq!(token(&with(&[("HF_HOME", &home)])), None);
        std::fs::write(folder.path().join("token"), "hf_file\n").unwrap();
        std::fs::write(folder.path().join("other"), "hf_other\n").unwrap();
        let other = folder.path().join("other").display().to_string();
        for (pairs, expected) in [
            (&[("HF_HOME", home.as_str())][..], "hf_file"),
            (&[("HF_HOME", &home), ("HF_TOKEN_PATH", &other)], "hf_other"),
            (&[("HF_HOME", &home), ("HF_TOKEN", " hf_env ")], "hf_env"),
        ] {
            let token = token(&with(pairs)).unwrap();
            assert_eq!(token.secret(), expected);
            assert!(!format!("{token:?}").contains("hf_"));
        }
        let off = [
            ("HF_HOME", home.as_str()),
            ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1"),
        ];
        assert_eq!(token(&with(&off)), None);
    }
}
