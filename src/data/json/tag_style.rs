//! How the tags of a JSON file write mark and type, and the same tags in the standard style.

use crate::data::tags::bio;
pub(super) use crate::data::tags::style::NO_TYPE;

/// How the tags of a file write mark and type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// `B-PER`.
    Standard,
    /// `b-PER` or `B_PER`.
    Variant,
    /// `PER-B`.
    Suffix,
    /// `B`, without a type.
    Bare,
    /// `PER`: words next to each other with the same type are one entity.
    Plain,
}

impl Style {
    /// Determines the style from all tags of a file.
    pub fn detect(tags: &[&str]) -> Self {
        let types: Vec<&str> = tags
            .iter()
            .copied()
            .filter(|tag| !is_outside(tag))
            .collect();
        let all = |test: fn(&str) -> bool| !types.is_empty() && types.iter().all(|tag| test(tag));
        if types.iter().any(|tag| bio::is_tag(tag)) {
            Style::Standard
        } else if all(|tag| variant(tag).is_some()) {
            Style::Variant
        } else if all(|tag| suffix(tag).is_some()) {
            Style::Suffix
        } else if all(|tag| bio::is_tag(&format!("{tag}-X"))) {
            Style::Bare
        } else if types.len() < tags.len()
            && all(|tag| !tag.trim().is_empty() && tag.parse::<i64>().is_err())
        {
            Style::Plain
        } else {
            Style::Standard
        }
    }

    /// The tag in the standard style.
    pub fn normalise(self, tag: &str) -> String {
        if is_outside(tag) {
            return "O".to_string();
        }
        match self {
            Style::Standard => tag.to_string(),
            Style::Variant => variant(tag).unwrap_or_else(|| tag.to_string()),
            Style::Suffix => suffix(tag).unwrap_or_else(|| tag.to_string()),
            Style::Bare => format!("{tag}-{NO_TYPE}"),
            Style::Plain => format!("I-{tag}"),
        }
    }
}

/// True for a tag that says that a word is outside every entity.
fn is_outside(tag: &str) -> bool {
    matches!(
        tag,
        "" | "O" | "o" | "_" | "-" | "NONE" | "None" | "none" | "null"
    )
}

fn variant(tag: &str) -> Option<String> {
    let mut characters = tag.chars();
    let mark = characters.next()?.to_ascii_uppercase();
    let separator = characters.next()?;
    let standard = format!("{mark}-{}", characters.as_str());
    (matches!(separator, '-' | '_' | ':') && bio::is_tag(&standard)).then_some(standard)
}

fn suffix(tag: &str) -> Option<String> {
    let mut characters = tag.chars();
    let mark = characters.next_back()?;
    let separator = characters.next_back()?;
    let standard = format!("{mark}-{}", characters.as_str());
    (matches!(separator, '-' | '_') && bio::is_tag(&standard)).then_some(standard)
}
