//! The layers and values of WebAnno TSV 3: which column has the named entities, and how a cell is read.

use std::collections::BTreeSet;

/// Number of the first column of a layer: after the number of the token, its offsets and its text.
const FIRST_COLUMN: usize = 3;

/// Names of features that hold the type of an entity, the preferred one first.
const TYPE_FEATURES: [&str; 10] = [
    "value",
    "label",
    "type",
    "entity",
    "entitytype",
    "entity_type",
    "category",
    "class",
    "tag",
    "ner",
];

/// Layers of WebAnno that are not entities, by the last part of their name.
const OTHER_LAYERS: [&str; 9] = [
    "POS",
    "Lemma",
    "Stem",
    "MorphologicalFeatures",
    "SurfaceForm",
    "SofaChangeAnnotation",
    "Token",
    "Sentence",
    "SpellingAnomaly",
];

/// A layer of span annotations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SpanLayer {
    name: String,
    /// Features with their columns. A layer without features has one column without a name.
    features: Vec<(String, usize)>,
}

impl SpanLayer {
    /// The last part of the name.
    fn short(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or(&self.name)
    }
}

/// The layers of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Layers {
    spans: Vec<SpanLayer>,
    /// Number of columns of a row.
    pub width: usize,
}

/// A column with entities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EntityColumn {
    pub column: usize,
    /// The type of its entities, if the layer has no feature that gives it.
    pub label: Option<String>,
}

impl Layers {
    /// Reads the header lines `#T_SP=`, `#T_CH=` and `#T_RL=`.
    pub fn of<'a>(lines: impl IntoIterator<Item = &'a str>) -> Self {
        let mut layers = Self {
            spans: Vec::new(),
            width: FIRST_COLUMN,
        };
        for line in lines {
            let Some((kind, rest)) = line
                .strip_prefix("#T_")
                .and_then(|rest| rest.split_once('='))
            else {
                continue;
            };
            let mut fields = rest
                .split('|')
                .map(str::trim)
                .filter(|field| !field.is_empty());
            let name = fields.next().unwrap_or_default().to_string();
            let mut features: Vec<(String, usize)> = Vec::new();
            for field in fields {
                features.push((field.to_string(), layers.width));
                layers.width += 1;
            }
            if features.is_empty() {
                features.push((String::new(), layers.width));
                layers.width += 1;
            }
            if kind == "SP" {
                layers.spans.push(SpanLayer { name, features });
            }
        }
        layers
    }

    /// The column of the part-of-speech tags.
    pub fn part_of_speech(&self) -> Option<usize> {
        let layer = self.spans.iter().find(|layer| layer.short() == "POS")?;
        let named = layer.features.iter().find(|(name, _)| name == "PosValue");
        named.or(layer.features.first()).map(|(_, column)| *column)
    }

    /// The columns of the entities, or a message that lists the layers. `values` has the different values of
    /// each column, `*` for an annotation without one.
    pub fn entity_columns(&self, values: &[BTreeSet<String>]) -> Result<Vec<EntityColumn>, String> {
        let is_candidate = |layer: &&SpanLayer| !OTHER_LAYERS.contains(&layer.short());
        let used = |layer: &&SpanLayer| {
            layer
                .features
                .iter()
                .any(|(_, column)| !values[*column].is_empty())
        };
        let mut layers: Vec<&SpanLayer> = self.spans.iter().filter(is_candidate).collect();
        let named: Vec<&SpanLayer> = (layers.iter().copied())
            .filter(|layer| layer.short() == "NamedEntity")
            .collect();
        if named.iter().any(used) || (!named.is_empty() && !layers.iter().any(used)) {
            layers = named;
        }
        if layers.iter().any(used) {
            layers.retain(used);
        }
        // Layers without features: the layer is the type.
        if !layers.is_empty() && layers.iter().all(|layer| layer.features[0].0.is_empty()) {
            let columns = layers.iter().map(|layer| EntityColumn {
                column: layer.features[0].1,
                label: Some(layer.short().to_string()),
            });
            return Ok(columns.collect());
        }
        match layers[..] {
            [] => Ok(Vec::new()),
            [layer] => match type_feature(layer, values) {
                Some(column) => Ok(vec![EntityColumn {
                    column,
                    label: None,
                }]),
                None => Err(self.choose("layer with several features")),
            },
            _ => Err(self.choose("file with several layers")),
        }
    }

    fn choose(&self, what: &str) -> String {
        let columns: Vec<String> = (self.spans.iter())
            .flat_map(|layer| {
                layer
                    .features
                    .iter()
                    .map(|(feature, column)| format!("{column} {}|{feature}", layer.name))
            })
            .collect();
        format!(
            "a {what}, and none of them is named as entities are; name the column of the entity types with tag_columns \
             (--tag-column), counted from 0. The columns are: {}",
            columns.join(", ")
        )
    }
}

/// The column of the feature that gives the type of an entity.
fn type_feature(layer: &SpanLayer, values: &[BTreeSet<String>]) -> Option<usize> {
    // Links to other annotations (`ROLE_…` and the type of their target) are not types.
    let plain: Vec<&(String, usize)> = (layer.features.iter())
        .filter(|(name, _)| !name.starts_with("ROLE_") && !name.contains('.'))
        .collect();
    let known = TYPE_FEATURES.iter().find_map(|known| {
        plain
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(known))
    });
    if let Some((_, column)) = known {
        return Some(*column);
    }
    if let [(_, column)] = plain[..] {
        return Some(*column);
    }
    // The only feature whose values can be types: not numbers, addresses or truth values.
    let is_type = |value: &String| {
        value.parse::<f64>().is_err()
            && !value.contains("://")
            && !matches!(value.as_str(), "true" | "false")
    };
    let mut candidates = plain.iter().filter(|(name, column)| {
        let values = &values[*column];
        !name.eq_ignore_ascii_case("identifier") && !values.is_empty() && values.iter().all(is_type)
    });
    match (candidates.next(), candidates.next()) {
        (Some((_, column)), None) => Some(*column),
        _ => None,
    }
}

/// One of the annotations of a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CellValue {
    /// The value; `None` for `*`, an annotation without one.
    pub value: Option<String>,
    /// The number that connects the tokens of an annotation.
    pub id: Option<usize>,
}

/// Splits a cell such as `PER[1]|LOC[2]` into its annotations; none for `_`.
pub(super) fn cell_values(cell: &str) -> Vec<CellValue> {
    if cell == "_" || cell.is_empty() {
        return Vec::new();
    }
    split_unescaped(cell, '|')
        .into_iter()
        .map(|part| {
            let (value, id) = match split_id(part) {
                Some((value, id)) => (value, Some(id)),
                None => (part, None),
            };
            let value = (value != "*" && value != "_").then(|| unescape(value, true));
            CellValue { value, id }
        })
        .collect()
}

/// Splits `PER[1]` into the value and the number.
fn split_id(part: &str) -> Option<(&str, usize)> {
    let (value, id) = part.strip_suffix(']')?.rsplit_once('[')?;
    let backslashes = value
        .bytes()
        .rev()
        .take_while(|byte| *byte == b'\\')
        .count();
    if backslashes % 2 == 1 {
        return None;
    }
    id.parse().ok().map(|id| (value, id))
}

/// Splits at a separator that no backslash precedes.
fn split_unescaped(text: &str, separator: char) -> Vec<&str> {
    let (mut parts, mut start, mut escaped) = (Vec::new(), 0, false);
    for (byte, character) in text.char_indices() {
        if escaped {
            escaped = false;
        } else if character == '\\' {
            escaped = true;
        } else if character == separator {
            parts.push(&text[start..byte]);
            start = byte + character.len_utf8();
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Resolves the escapes of a text. With `reserved`, a backslash before any other character is removed too, as in values;
/// without, it is kept.
pub(super) fn unescape(text: &str, reserved: bool) -> String {
    if !text.contains('\\') {
        return text.to_string();
    }
    let mut result = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            result.push(character);
            continue;
        }
        match characters.next() {
            Some('t') => result.push('\t'),
            Some('n') => result.push('\n'),
            Some('r') => result.push('\r'),
            Some('f') => result.push('\x0c'),
            Some('b') => result.push('\x08'),
            Some('\\') | None => result.push('\\'),
            Some(other) if reserved || other.is_control() => result.push(other),
            Some(other) => result.extend(['\\', other]),
        }
    }
    result
}

/// Resolves the escapes of a text of version 3.1, which are those of Java.
pub(super) fn unescape_java(text: &str) -> String {
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut rest = text;
    let mut buffer = [0; 2];
    while let Some(character) = rest.chars().next() {
        let code = rest
            .strip_prefix("\\u")
            .and_then(|hex| hex.get(..4))
            .and_then(|hex| u16::from_str_radix(hex, 16).ok());
        if let Some(code) = code {
            units.push(code);
            rest = &rest[6..];
        } else if let Some(escaped) = rest
            .strip_prefix('\\')
            .filter(|escaped| !escaped.is_empty())
        {
            let length = 1 + escaped.chars().next().map_or(0, char::len_utf8);
            units.extend(unescape(&rest[..length], true).encode_utf16());
            rest = &rest[length..];
        } else {
            units.extend_from_slice(character.encode_utf16(&mut buffer));
            rest = &rest[character.len_utf8()..];
        }
    }
    String::from_utf16_lossy(&units)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(
        header: &str,
        used: &[(usize, &str)],
    ) -> Result<Vec<(usize, Option<String>)>, String> {
        let layers = Layers::of(header.lines());
        let mut values = vec![BTreeSet::new(); layers.width];
        for (column, value) in used {
            values[*column].insert((*value).to_string());
        }
        let columns = layers.entity_columns(&values)?;
        Ok(columns.into_iter().map(|c| (c.column, c.label)).collect())
    }

    #[test]
    fn the_entity_layer_is_found() {
        let pos =
            "#T_SP=de.tudarmstadt.ukp.dkpro.core.api.lexmorph.type.pos.POS|PosValue|coarseValue\n";
        let ne = "#T_SP=de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity|identifier|value\n";
        let custom = "#T_SP=webanno.custom.Finding|certain|kind\n";
        assert_eq!(
            columns(&format!("{pos}{ne}{custom}"), &[]),
            Ok(vec![(6, None)])
        );
        let both = format!("{pos}{ne}{custom}");
        assert_eq!(columns(&both, &[(6, "PER"), (8, "a")]), Ok(vec![(6, None)]));
        assert_eq!(
            columns(&both, &[(7, "true"), (8, "a")]),
            Ok(vec![(8, None)])
        );
        assert_eq!(
            columns(&format!("{pos}{custom}"), &[(5, "true"), (6, "a")]),
            Ok(vec![(6, None)])
        );
        let two = "#T_SP=webanno.custom.A|x\n#T_SP=webanno.custom.B|y\n";
        assert_eq!(columns(two, &[(4, "b")]), Ok(vec![(4, None)]));
        let error = columns(two, &[(3, "a"), (4, "b")]).unwrap_err();
        assert!(error.contains("4 webanno.custom.B|y"), "{error}");
        let bare = "#T_SP=webanno.custom.Person|\n#T_SP=webanno.custom.Place\n";
        assert_eq!(
            columns(bare, &[(3, "*"), (4, "*")]),
            Ok(vec![
                (3, Some("Person".to_string())),
                (4, Some("Place".to_string()))
            ])
        );
        assert_eq!(columns(pos, &[(3, "NN")]), Ok(vec![]));
        let links = "#T_SP=webanno.custom.Frame|FE|ROLE_webanno.custom.Frame:Roles_webanno.custom.FrameRolesLink|webanno.custom.Lu\n";
        assert_eq!(columns(links, &[(3, "x")]), Ok(vec![(3, None)]));
        assert_eq!(Layers::of(links.lines()).width, 6);
        assert_eq!(Layers::of(pos.lines()).part_of_speech(), Some(3));
    }

    #[test]
    fn cells_are_split_and_unescaped() {
        let read = |cell: &str| -> Vec<(Option<String>, Option<usize>)> {
            cell_values(cell)
                .into_iter()
                .map(|v| (v.value, v.id))
                .collect()
        };
        let some = |text: &str| Some(text.to_string());
        assert_eq!(read("_"), []);
        assert_eq!(read("PER"), [(some("PER"), None)]);
        assert_eq!(
            read("PER[1]|LOC[22]"),
            [(some("PER"), Some(1)), (some("LOC"), Some(22))]
        );
        assert_eq!(read("*[3]|*"), [(None, Some(3)), (None, None)]);
        assert_eq!(read(r"a\|b\_c\[1\]"), [(some("a|b_c[1]"), None)]);
        assert_eq!(read(r"x\->y\\[4]"), [(some(r"x->y\"), Some(4))]);
        assert_eq!(read(r"\*|\_"), [(some("*"), None), (some("_"), None)]);
    }

    #[test]
    fn texts_are_unescaped() {
        assert_eq!(unescape(r"a\tb\\n\_", false), "a\tb\\n\\_");
        assert_eq!(
            unescape_java(r"\u00e4\uD83D\uDE0A\t\\u0041é"),
            "ä😊\t\\u0041é"
        );
        assert_eq!(unescape_java("a\\"), "a\\");
    }
}
