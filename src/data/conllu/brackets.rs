//! The value of `Entity=` in CoNLL-U: brackets that open and close mentions, as in GUM and CorefUD.
//!
//! `(1-person-new(2-place)` opens a mention of group 1 and is a mention of group 2 on one word; `1)` closes the first. The
//! comment `# global.Entity = GRP-etype-infstat` gives the order of the fields, which are separated by hyphens.

/// A bracket expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bracket<'a> {
    /// `(1-person`: a mention begins at this word.
    Open(&'a str),
    /// `(1-person)`: a mention of this word.
    Single(&'a str),
    /// `1)`: a mention ends with this word.
    Close(&'a str),
}

/// A value that is not a list of bracket expressions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`Entity={0}` is not a list of brackets such as `(1-person(2-place)` or `1)`; correct it")]
pub(super) struct InvalidBrackets(String);

/// Splits a value into its brackets.
pub(super) fn brackets(value: &str) -> Result<Vec<Bracket<'_>>, InvalidBrackets> {
    let invalid = || InvalidBrackets(value.chars().take(100).collect());
    let mut found = Vec::new();
    let mut rest = value.trim();
    while !rest.is_empty() {
        if let Some(content) = rest.strip_prefix('(') {
            let length = content_length(content);
            let (inner, after) = content.split_at(length);
            if inner.is_empty() {
                return Err(invalid());
            }
            rest = match after.strip_prefix(')') {
                Some(after) => {
                    found.push(Bracket::Single(inner));
                    after
                }
                None => {
                    found.push(Bracket::Open(inner));
                    after
                }
            };
        } else {
            let (name, after) = rest.split_once(')').ok_or_else(invalid)?;
            if name.contains('(') {
                return Err(invalid());
            }
            found.push(Bracket::Close(name));
            rest = after;
        }
    }
    Ok(found)
}

/// The length of the fields after an opening bracket. A name of a Wikipedia article may have brackets of its own, after an
/// underscore, as in `(1-place-Georgia_(country))`.
fn content_length(content: &str) -> usize {
    let mut from = 0;
    while let Some(at) = content[from..].find(['(', ')']).map(|at| from + at) {
        let is_name = content[..at].ends_with('_') && content[at..].starts_with('(');
        match content[at..].find(')') {
            Some(close) if is_name => from = at + close + 1,
            _ => return at,
        }
    }
    content.len()
}

/// The fields of a mention, in the order that `# global.Entity` gives.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FieldOrder {
    names: Vec<String>,
    label: Option<usize>,
    group: Option<usize>,
}

impl FieldOrder {
    /// The order given by the comment, such as `GRP-etype-infstat-minspan-link-identity`.
    pub fn from_header(header: &str) -> Self {
        let names: Vec<String> = header.trim().split('-').map(str::to_string).collect();
        let position = |known: &[&str]| {
            names
                .iter()
                .position(|name| known.contains(&name.to_ascii_lowercase().as_str()))
        };
        Self {
            label: position(&[
                "etype",
                "entity",
                "type",
                "entity_type",
                "label",
                "ner",
                "ne",
            ]),
            group: position(&["grp", "eid", "group", "id", "entity_id", "cluster"]),
            names,
        }
    }

    /// The names of the fields; empty when the file does not give them.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Parses the fields of a mention.
    pub fn mention<'a>(&self, content: &'a str) -> BracketMention<'a> {
        let (label, group) = if self.names.is_empty() {
            guess(content)
        } else {
            let fields: Vec<&str> = content.splitn(self.names.len(), '-').collect();
            let field = |index: Option<usize>| index.and_then(|index| fields.get(index).copied());
            (field(self.label).unwrap_or_default(), field(self.group))
        };
        let (label, label_part) = split_part(label);
        let (group, group_part) = match group {
            Some(group) => {
                let (group, part) = split_part(group);
                (Some(group).filter(|group| !group.is_empty()), part)
            }
            None => (None, None),
        };
        BracketMention {
            content,
            label,
            group,
            part: group_part.or(label_part),
        }
    }
}

/// Type and group of a mention in a file that does not give the order of the fields: `person-1` or `1-person`.
fn guess(content: &str) -> (&str, Option<&str>) {
    let is_group = |field: &str| {
        let digits = field.trim_start_matches(|c: char| c.is_ascii_alphabetic());
        let (digits, _) = split_part(digits);
        field.len() <= digits.len() + 6
            && digits.bytes().any(|byte| byte.is_ascii_digit())
            && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let mut fields = content.split('-');
    match (fields.next(), fields.next()) {
        (Some(first), second) if is_group(first) => (second.unwrap_or_default(), Some(first)),
        (Some(first), second) => (first, second.filter(|second| is_group(second))),
        (None, _) => ("", None),
    }
}

/// Splits `e5[1/2]` into `e5` and the part (1, 2) of a discontinuous mention.
pub(super) fn split_part(field: &str) -> (&str, Option<(usize, usize)>) {
    let part = || {
        let (name, part) = field.strip_suffix(']')?.rsplit_once('[')?;
        let (number, total) = part.split_once('/')?;
        let (number, total) = (number.parse().ok()?, total.parse().ok()?);
        (1..=total)
            .contains(&number)
            .then_some((name, (number, total)))
    };
    match part() {
        Some((name, part)) => (name, Some(part)),
        None => (field, None),
    }
}

/// The fields of a mention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BracketMention<'a> {
    content: &'a str,
    /// The entity type; empty if the file gives none.
    pub label: &'a str,
    /// The group of mentions of the same thing, by which a bracket is closed.
    pub group: Option<&'a str>,
    /// Number of the part and of all parts, for a discontinuous mention.
    pub part: Option<(usize, usize)>,
}

impl BracketMention<'_> {
    /// True when `name)` closes this mention: by its group, by type and group, or by its type if it has no group.
    pub fn is_closed_by(&self, name: &str) -> bool {
        if name.is_empty() || name == self.content {
            return true;
        }
        let (bare, part) = split_part(name);
        if part.is_some() && part != self.part {
            return false;
        }
        match self.group {
            Some(group) => {
                let is_pair = |first: &str, second: &str| {
                    (bare.strip_prefix(first))
                        .and_then(|rest| rest.strip_prefix('-'))
                        .is_some_and(|rest| rest == second)
                };
                bare == group || is_pair(self.label, group) || is_pair(group, self.label)
            }
            None => bare == self.label,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_split_into_brackets() {
        use Bracket::{Close, Open, Single};
        assert_eq!(
            brackets("(time-175-giv:inact-1-coref)189)188)"),
            Ok(vec![
                Single("time-175-giv:inact-1-coref"),
                Close("189"),
                Close("188")
            ])
        );
        assert_eq!(
            brackets("(1-organization(2-person)"),
            Ok(vec![Open("1-organization"), Single("2-person")])
        );
        assert_eq!(
            brackets("(1-place-Georgia_(country)(2-person"),
            Ok(vec![Open("1-place-Georgia_(country)"), Open("2-person")])
        );
        assert_eq!(
            brackets("(1-place-Georgia_(country))"),
            Ok(vec![Single("1-place-Georgia_(country)")])
        );
        for invalid in ["1", "()", "(", "1)2"] {
            assert!(brackets(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn the_header_gives_the_order_of_the_fields() {
        for (header, content, close) in [
            ("GRP-etype-infstat", "3-person-new", "3"),
            (
                "entity-GRP-infstat-MIN-coref_type-identity",
                "person-3-new-1-sgl-Jean-Luc",
                "3",
            ),
            ("eid-etype-head-other", "e3-person-1-", "e3"),
            ("etype-identity", "person-Alexandria", "person"),
            ("", "person-3", "person-3"),
            ("", "3-person", "3"),
            ("", "person", "person"),
        ] {
            let order = match header {
                "" => FieldOrder::default(),
                header => FieldOrder::from_header(header),
            };
            let mention = order.mention(content);
            assert_eq!(mention.label, "person", "{header}");
            assert!(mention.is_closed_by(close), "{header}");
            assert!(!mention.is_closed_by("4"), "{header}");
        }
        assert_eq!(
            FieldOrder::from_header("eid-head").mention("e1-2").label,
            ""
        );
        assert_eq!(
            FieldOrder::from_header("eid-etype-head")
                .mention("c1--1")
                .label,
            ""
        );
    }

    #[test]
    fn parts_of_discontinuous_mentions_are_kept_apart() {
        let order = FieldOrder::from_header("eid-etype-head");
        let mention = order.mention("e5[1/2]-abstract-1");
        assert_eq!((mention.group, mention.part), (Some("e5"), Some((1, 2))));
        assert!(mention.is_closed_by("e5[1/2]") && !mention.is_closed_by("e5[2/2]"));
        let mention = FieldOrder::default().mention("abstract[2/3]-7");
        assert_eq!((mention.label, mention.part), ("abstract", Some((2, 3))));
        assert_eq!(split_part("e5[3/2]"), ("e5[3/2]", None));
    }
}
