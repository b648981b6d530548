//! Where a CoNLL-U file has its entities: in which column or under which key of MISC, and in which spelling.

use std::collections::{BTreeMap, BTreeSet};

use super::brackets::{Bracket, FieldOrder, brackets};
use super::columns::{ConlluColumns, pairs};
use crate::data::ReadOptions;
use crate::data::source::Source;
use crate::data::tags::scheme::TagScheme;
use crate::data::tags::style::{TagStyle, is_outside};

/// Keys of MISC that name entities, the preferred one first, in lower case.
const KEYS: [&str; 15] = [
    "entity",
    "ne",
    "ner",
    "namedentity",
    "named_entity",
    "ner_tag",
    "nertag",
    "ne_tag",
    "netag",
    "name",
    "iob",
    "iob2",
    "bio",
    "bio_tag",
    "ene",
];

/// Where the entities of a file are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ConlluAnnotation {
    /// Brackets under a key of MISC.
    Brackets(&'static str),
    /// Tags under a key of MISC.
    Tags(&'static str, TagStyle, TagScheme),
    /// Tags in columns.
    Columns(TagStyle, TagScheme),
    /// Nowhere.
    None,
}

/// The annotations detected in a file.
pub(super) struct Findings {
    pub annotation: ConlluAnnotation,
    /// Warnings about them.
    pub notes: Vec<String>,
}

/// Finds the annotation of a file. The error says why none of the candidates can be used.
pub(super) fn find(
    source: &Source,
    columns: &ConlluColumns,
    options: &ReadOptions,
) -> Result<Findings, String> {
    let survey = Survey::of(source, columns);
    let names = options.labels.as_deref();
    let scheme = |style: &TagStyle, sentences: &[Vec<&str>]| {
        options.scheme.unwrap_or_else(|| {
            style.detect_scheme(sentences.iter().map(|cells| cells.iter().copied()))
        })
    };
    if !columns.tags.is_empty() {
        let cells = survey.columns.iter().flatten().copied();
        let style = TagStyle::detect(cells, names)
            .map_err(|error| format!("the tag column {error}; choose another with tag_columns"))?;
        let scheme = scheme(&style, &survey.columns);
        return Ok(Findings {
            notes: style.note().into_iter().collect(),
            annotation: ConlluAnnotation::Columns(style, scheme),
        });
    }
    let (mut usable, mut reasons) = (Vec::new(), Vec::new());
    for key in KEYS {
        let Some(sentences) = survey.values.get(key) else {
            continue;
        };
        let mut cells = sentences.iter().flatten().copied();
        if cells.any(|cell| cell.contains(['(', ')'])) {
            match survey.labelled {
                0 => reasons.push(survey.without_types()),
                _ => usable.push((key, ConlluAnnotation::Brackets(key))),
            }
            continue;
        }
        let cells = sentences.iter().flatten().copied();
        match TagStyle::detect(cells, names) {
            Ok(style) if key == "name" && !matches!(style, TagStyle::Marked(_)) => {}
            Ok(style) => {
                let scheme = scheme(&style, sentences);
                usable.push((key, ConlluAnnotation::Tags(key, style, scheme)));
            }
            Err(error) => reasons.push(format!("`{key}=` {error}")),
        }
    }
    let mut notes = Vec::new();
    let others: Vec<String> = (usable.iter().skip(1))
        .map(|(key, _)| format!("`{key}=`"))
        .collect();
    if let Some((key, annotation)) = usable.into_iter().next() {
        if !others.is_empty() {
            notes.push(format!(
                "the entities are those of `{key}=` in MISC; {} is not read",
                others.join(", ")
            ));
        }
        if let ConlluAnnotation::Tags(_, style, _) = &annotation {
            notes.extend(style.note());
        }
        return Ok(Findings { annotation, notes });
    }
    let looks_like = |key: &&String| {
        let key = key.to_ascii_lowercase();
        ["entity", "entities", "ner", "named", "iob", "mention"]
            .iter()
            .any(|part| key.contains(part))
    };
    let strange: Vec<String> = (survey.keys.iter().filter(looks_like)).cloned().collect();
    let known = "known are `Entity=` with brackets such as `(1-person`, and `NE=`, `NER=`, `NamedEntity=` or `name=` with tags \
                 such as `B-PER`";
    if !reasons.is_empty() {
        return Err(format!("{}; {known}", reasons.join("; ")));
    }
    if !strange.is_empty() {
        return Err(format!(
            "the column MISC has {}, which cannot be read; {known}. Rename the key, or put the tags in a column of their own",
            strange.join(", ")
        ));
    }
    let keys: Vec<&str> = survey.keys.iter().map(String::as_str).collect();
    let keys = if keys.is_empty() {
        "no keys".to_string()
    } else {
        format!("the keys {}", keys.join(", "))
    };
    notes.push(format!(
        "the file has no entities: the column MISC has {keys}; {known}"
    ));
    Ok(Findings {
        annotation: ConlluAnnotation::None,
        notes,
    })
}

/// The annotations of a file, sentence by sentence.
#[derive(Default)]
struct Survey<'a> {
    /// The values of each of [`KEYS`], for each sentence and word; `O` for a word without one.
    values: BTreeMap<&'static str, Vec<Vec<&'a str>>>,
    /// The cells of the tag columns.
    columns: Vec<Vec<&'a str>>,
    /// All keys of MISC but those of [`KEYS`].
    keys: BTreeSet<String>,
    /// Number of mentions in brackets that have a type.
    labelled: usize,
    /// The last field order.
    order: FieldOrder,
}

impl<'a> Survey<'a> {
    fn of(source: &'a Source, columns: &ConlluColumns) -> Self {
        let mut survey = Self::default();
        let mut rows: Vec<Vec<&str>> = Vec::new();
        for line in source.lines().filter_map(|line| line.text.ok()) {
            if line.trim().is_empty() {
                survey.sentence(std::mem::take(&mut rows), columns);
            } else if line.starts_with('#') {
                if let Some(order) = field_order(line) {
                    survey.order = order;
                }
            } else if let Ok(row) = columns.fields(line) {
                rows.push(row);
            }
        }
        survey.sentence(rows, columns);
        survey
    }

    fn sentence(&mut self, rows: Vec<Vec<&'a str>>, columns: &ConlluColumns) {
        for column in &columns.tags {
            self.columns
                .push(rows.iter().map(|row| row[*column]).collect());
        }
        let Some(misc) = columns.misc else {
            return;
        };
        let mut found: BTreeMap<&'static str, Vec<&'a str>> = BTreeMap::new();
        for (index, row) in rows.iter().enumerate() {
            for (name, value) in pairs(row[misc]) {
                match KEYS.iter().find(|key| name.eq_ignore_ascii_case(key)) {
                    None if self.keys.len() < 100 => {
                        self.keys.insert(name.to_string());
                    }
                    None => {}
                    Some(key) => {
                        let cells = found.entry(*key).or_insert_with(|| vec!["O"; rows.len()]);
                        cells[index] = value;
                        self.count_labelled(value);
                    }
                }
            }
        }
        for (key, cells) in found {
            self.values.entry(key).or_default().push(cells);
        }
    }

    fn count_labelled(&mut self, value: &str) {
        if is_outside(value) || !value.contains('(') {
            return;
        }
        for bracket in brackets(value).unwrap_or_default() {
            if let Bracket::Open(content) | Bracket::Single(content) = bracket {
                self.labelled += usize::from(!self.order.mention(content).label.is_empty());
            }
        }
    }

    fn without_types(&self) -> String {
        let fields = match self.order.names() {
            [] => "no line `# global.Entity` gives its fields".to_string(),
            names => format!("its fields are {}", names.join(", ")),
        };
        format!(
            "the mentions of `Entity=` have no entity type ({fields}; the type is the field `etype`)"
        )
    }
}

/// The order of the fields of `Entity=`, if the comment gives it.
pub(super) fn field_order(comment: &str) -> Option<FieldOrder> {
    let comment = comment.trim_start_matches('#').trim_start();
    let value = comment.strip_prefix("global.Entity")?.trim_start();
    value.strip_prefix('=').map(FieldOrder::from_header)
}

/// True for a file of ten columns with numbered words and heads, as CoNLL-U has them, or for one with a line
/// `# global.columns` that names a column MISC.
pub(in crate::data) fn detect(source: &Source) -> bool {
    let Ok(columns) = ConlluColumns::of(source, &ReadOptions::default()) else {
        return false;
    };
    let Some(misc) = columns.misc else {
        return false;
    };
    let is_plus = columns.width != 10 || !columns.tags.is_empty();
    let (mut rows, mut fitting, mut with_entities, mut with_tags) = (0usize, 0, 0, 0);
    for line in source.lines().filter_map(|line| line.text.ok()) {
        if line.starts_with('#') || line.trim().is_empty() {
            continue;
        }
        rows += 1;
        let Ok(row) = columns.fields(line) else {
            continue;
        };
        let is_head = is_plus || row[6] == "_" || row[6].bytes().all(|b| b.is_ascii_digit());
        let is_pos = is_plus
            || row[3]
                .bytes()
                .all(|b| b.is_ascii_uppercase() || matches!(b, b'_' | b'+'));
        let is_misc = row[misc] == "_" || row[misc].is_empty() || row[misc].contains('=');
        let id = row[columns.id].split(['-', '.']).next().unwrap_or_default();
        let is_id = !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit());
        fitting += usize::from(is_id && is_head && is_pos && is_misc);
        let is_key =
            |(name, _): (&str, &str)| KEYS.iter().any(|key| name.eq_ignore_ascii_case(key));
        with_entities += usize::from(pairs(row[misc]).any(is_key));
        with_tags += usize::from(
            row.iter()
                .skip(3)
                .any(|cell| crate::data::tags::bio::is_tag(cell)),
        );
    }
    // A file with tags in a column of its own is read as columns, unless MISC has entities.
    let is_in_misc = with_entities > 0 || with_tags * 2 <= rows;
    rows > 0 && fitting * 10 >= rows * 9 && (is_in_misc || !columns.tags.is_empty())
}
