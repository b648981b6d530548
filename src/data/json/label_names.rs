//! The names of tags that a file gives as numbers, from the files that are published beside it.
//!
//! Hugging Face's `datasets` writes them to `dataset_info.json`, `dataset_infos.json` and the header of `README.md`; other
//! corpora have a list or a table in `label.json`, `label2id.json`, `id2label.json` or `labels.txt`.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// Files with the types of all columns.
const FEATURES: [&str; 5] = [
    "dataset_info.json",
    "dataset_infos.json",
    "features.json",
    "dataset_dict_info.json",
    "README.md",
];
/// Files with one list of names.
const LISTS: [&str; 10] = [
    "label.json",
    "labels.json",
    "label2id.json",
    "id2label.json",
    "tag2id.json",
    "label_map.json",
    "ner_tags.json",
    "labels.txt",
    "label.txt",
    "label_list.txt",
];
/// Files that are larger are not label names.
const LARGEST: u64 = 16 << 20;

/// The names of the numbers of a column of a corpus file: from the folder of the file, or from the one above it, where
/// `datasets` keeps them for files in `data/`. An error when files of one folder disagree.
pub(super) fn beside(file: &Path, column: &str) -> Result<Option<(PathBuf, Vec<String>)>, String> {
    let folder = file.parent().unwrap_or(Path::new(""));
    // A path without a folder is in the current one.
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let above = folder
        .canonicalize()
        .ok()
        .and_then(|folder| Some(folder.parent()?.to_path_buf()));
    for folder in [Some(folder.to_path_buf()), above].into_iter().flatten() {
        if let Some(found) = in_folder(&folder, column)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn in_folder(folder: &Path, column: &str) -> Result<Option<(PathBuf, Vec<String>)>, String> {
    let mut found: Option<(PathBuf, Vec<String>)> = None;
    let files = FEATURES
        .iter()
        .map(|name| (name, true))
        .chain(LISTS.iter().map(|name| (name, false)));
    for (name, has_features) in files {
        let path = folder.join(name);
        let is_small =
            std::fs::metadata(&path).is_ok_and(|file| file.is_file() && file.len() <= LARGEST);
        let Some(text) = is_small
            .then(|| std::fs::read_to_string(&path).ok())
            .flatten()
        else {
            continue;
        };
        let all = if name.ends_with(".md") {
            from_header(&text, column)
        } else if name.ends_with(".txt") {
            from_lines(&text).into_iter().collect()
        } else {
            let value: Value = serde_json::from_str(&text).unwrap_or_default();
            if has_features {
                from_features(&value, column)
            } else {
                from_table(&value).into_iter().collect()
            }
        };
        for names in all {
            match &found {
                Some((first, known)) if *known != names => {
                    return Err(format!(
                        "{} and {} give different names for the numbers of `{column}`; choose with --labels",
                        first.display(),
                        path.display()
                    ));
                }
                Some(_) => {}
                None => found = Some((path.clone(), names)),
            }
        }
    }
    Ok(found)
}

/// All lists of names that a description of columns gives for a column.
pub(super) fn from_features(value: &Value, column: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    search(value, column, false, 32, &mut found);
    found.dedup();
    found
}

fn search(
    value: &Value,
    column: &str,
    is_inside: bool,
    depth: usize,
    found: &mut Vec<Vec<String>>,
) {
    if depth == 0 {
        return;
    }
    match value {
        Value::Object(object) => {
            if is_inside && let Some(names) = object.get("names").and_then(from_table) {
                return found.push(names);
            }
            // A column is an entry of an object, or an object with a `name` in a list.
            let is_named = object.get("name").and_then(Value::as_str) == Some(column);
            for (key, value) in object {
                search(
                    value,
                    column,
                    is_inside || is_named || key == column,
                    depth - 1,
                    found,
                );
            }
        }
        Value::Array(list) => {
            for value in list {
                search(value, column, is_inside, depth - 1, found);
            }
        }
        _ => {}
    }
}

/// Names as a list, as an object from names to numbers, or as one from numbers to names.
fn from_table(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Array(list) if !list.is_empty() => list
            .iter()
            .map(|name| name.as_str().map(str::to_string))
            .collect(),
        Value::Object(object) if !object.is_empty() => {
            let pair = |(key, value): (&String, &Value)| match value {
                Value::Number(number) => {
                    Some((usize::try_from(number.as_u64()?).ok()?, key.clone()))
                }
                Value::String(name) => Some((key.parse().ok()?, name.clone())),
                _ => None,
            };
            in_order(object.iter().map(pair).collect::<Option<_>>()?)
        }
        _ => None,
    }
}

/// The names in the order of their numbers, which must be 0, 1, 2 and so on.
fn in_order(mut pairs: Vec<(usize, String)>) -> Option<Vec<String>> {
    pairs.sort();
    let is_complete = pairs
        .iter()
        .enumerate()
        .all(|(index, (number, _))| index == *number);
    (is_complete && !pairs.is_empty()).then(|| pairs.into_iter().map(|(_, name)| name).collect())
}

/// One name per line, if one of them is `O`.
fn from_lines(text: &str) -> Option<Vec<String>> {
    let names: Vec<String> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(str::to_string)
        .collect();
    let are_names = names.iter().any(|name| name == "O")
        && names.iter().all(|name| !name.contains(char::is_whitespace));
    are_names.then_some(names)
}

/// All lists of names for a column in the YAML header of a `README.md`:
///
/// ```yaml
/// dataset_info:
///   features:
///   - name: ner_tags
///     sequence:
///       class_label:
///         names:
///           '0': O
///           '1': B-PER
/// ```
fn from_header(text: &str, column: &str) -> Vec<Vec<String>> {
    let mut lines = text.trim_start_matches('\u{feff}').lines();
    if lines.next().map(str::trim_end) != Some("---") {
        return Vec::new();
    }
    let lines: Vec<&str> = lines.take_while(|line| line.trim_end() != "---").collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let entry = line.trim_start().strip_prefix("- ").unwrap_or_default();
        if entry.strip_prefix("name:").map(unquote) != Some(column) {
            continue;
        }
        let body = lines[index + 1..]
            .iter()
            .take_while(|next| next.trim().is_empty() || indent(next) > indent(line));
        let mut body = body
            .copied()
            .filter(|line| !line.trim().is_empty())
            .peekable();
        while let Some(next) = body.next() {
            let Some(rest) = next.trim().strip_prefix("names:") else {
                continue;
            };
            let mut pairs = Vec::new();
            let inline = rest
                .trim()
                .strip_prefix('[')
                .and_then(|rest| rest.strip_suffix(']'));
            if let Some(inline) = inline {
                pairs.extend(
                    inline
                        .split(',')
                        .map(unquote)
                        .map(str::to_string)
                        .enumerate(),
                );
            }
            while let Some(entry) =
                body.next_if(|line| indent(line) >= indent(next) && inline.is_none())
            {
                let entry = entry.trim();
                if let Some(name) = entry.strip_prefix("- ") {
                    pairs.push((pairs.len(), unquote(name).to_string()));
                } else if let Some((number, name)) = entry.split_once(':')
                    && let Ok(number) = unquote(number).parse()
                {
                    pairs.push((number, unquote(name).to_string()));
                } else {
                    break;
                }
            }
            found.extend(in_order(pairs));
        }
    }
    found.dedup();
    found
}

fn unquote(text: &str) -> &str {
    let text = text.trim();
    let inner = |quote: char| {
        text.strip_prefix(quote)
            .and_then(|text| text.strip_suffix(quote))
    };
    inner('\'').or_else(|| inner('"')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 3] = ["O", "B-PER", "I-PER"];

    fn with(files: &[(&str, &str)]) -> Result<Option<Vec<String>>, String> {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        std::fs::create_dir(&data).unwrap();
        for (name, content) in files {
            std::fs::write(folder.path().join(name), content).unwrap();
        }
        let names = beside(&data.join("train.json"), "ner_tags")?;
        Ok(names.map(|(_, names)| names))
    }

    #[test]
    fn names_are_found_in_every_file_that_tools_write() {
        let class = r#"{"num_classes": 3, "names": ["O", "B-PER", "I-PER"], "id": null, "_type": "ClassLabel"}"#;
        let sequence = format!(r#"{{"feature": {class}, "length": -1, "_type": "Sequence"}}"#);
        let pos = r#""pos_tags": {"feature": {"names": ["NN", "VB"], "_type": "ClassLabel"}, "_type": "Sequence"}"#;
        for (name, content) in [
            ("dataset_info.json", format!(r#"{{"features": {{{pos}, "ner_tags": {sequence}}}, "splits": {{}}}}"#)),
            ("dataset_infos.json", format!(r#"{{"conll2003": {{"features": {{{pos}, "ner_tags": {sequence}}}}}}}"#)),
            ("features.json", format!(r#"[{{"feature_idx": 1, "name": "ner_tags", "type": {sequence}}}]"#)),
            ("label.json", r#"{"O": 0, "I-PER": 2, "B-PER": 1}"#.to_string()),
            ("id2label.json", r#"{"0": "O", "1": "B-PER", "2": "I-PER"}"#.to_string()),
            ("labels.json", r#"["O", "B-PER", "I-PER"]"#.to_string()),
            ("labels.txt", "O\r\nB-PER\nI-PER\n".to_string()),
            (
                "README.md",
                "---\nlanguage:\n- en\ndataset_info:\n  features:\n  - name: id\n    dtype: string\n  - name: pos_tags\n    \
                 sequence:\n      class_label:\n        names:\n          '0': NN\n  - name: ner_tags\n    sequence:\n      \
                 class_label:\n        names:\n          '0': O\n          '1': B-PER\n          '2': I-PER\n  splits:\n  - \
                 name: train\n---\n# Title\n"
                    .to_string(),
            ),
            (
                "README.md",
                "---\ndataset_info:\n- config_name: a\n  features:\n  - name: ner_tags\n    list:\n      class_label:\n        \
                 names: [O, B-PER, 'I-PER']\n---\n"
                    .to_string(),
            ),
        ] {
            assert_eq!(with(&[(name, &content)]).unwrap().unwrap(), NAMES, "{name}");
        }
    }

    #[test]
    fn other_files_give_no_names() {
        assert_eq!(with(&[]), Ok(None));
        assert_eq!(
            with(&[("README.md", "# Title\n- name: ner_tags\n")]),
            Ok(None)
        );
        assert_eq!(
            with(&[
                ("label.json", r#"{"O": 0, "B": 2}"#),
                ("labels.txt", "some text\n")
            ]),
            Ok(None)
        );
        assert_eq!(with(&[("dataset_info.json", "{broken")]), Ok(None));
        let error = with(&[
            ("label.json", r#"["O", "A"]"#),
            ("labels.json", r#"["O", "B"]"#),
        ])
        .unwrap_err();
        assert!(error.contains("--labels"), "{error}");
    }
}
