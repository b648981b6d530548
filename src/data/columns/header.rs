//! The CoNLL-U Plus header line that names the columns of a file.

use crate::data::source::Source;

/// Column indices given by a header line such as `# global.columns = ID FORM XPOS NER`.
#[derive(Default)]
pub(in crate::data) struct ColumnHeader {
    /// Number of columns.
    pub width: usize,
    /// Column of the word numbers.
    pub id: Option<usize>,
    /// Column of the words.
    pub word: Option<usize>,
    /// Columns of the entity tags.
    pub tags: Option<Vec<usize>>,
    /// Column of the part-of-speech tags.
    pub pos: Option<usize>,
    /// Column of the universal part-of-speech tags.
    pub upos: Option<usize>,
    /// Column of the further annotations.
    pub misc: Option<usize>,
}

impl ColumnHeader {
    /// Finds the header line among the comments at the top of a file.
    pub fn find(source: &Source) -> Option<Self> {
        let lines = source.lines().take_while(|line| {
            line.text
                .is_ok_and(|text| text.starts_with('#') || text.trim().is_empty())
        });
        let columns = lines.filter_map(|line| line.text.ok()).find_map(|text| {
            text.trim_start_matches('#')
                .trim_start()
                .strip_prefix("global.columns")?
                .trim_start()
                .strip_prefix('=')
        })?;
        let names: Vec<String> = columns
            .split_whitespace()
            .map(str::to_ascii_uppercase)
            .collect();
        let column_of = |wanted: &[&str]| {
            names
                .iter()
                .position(|name| wanted.contains(&name.as_str()))
        };
        let is_layer = |name: &&String| name.split(':').any(|part| matches!(part, "NER" | "NE"));
        let tags: Vec<usize> = names
            .iter()
            .enumerate()
            .filter(|(_, name)| is_layer(name))
            .map(|(column, _)| column)
            .collect();
        Some(Self {
            width: names.len(),
            id: column_of(&["ID"]),
            word: column_of(&["FORM"]),
            tags: (!tags.is_empty()).then_some(tags),
            pos: column_of(&["XPOS"]).or(column_of(&["UPOS"])),
            upos: column_of(&["UPOS"]),
            misc: column_of(&["MISC"]),
        })
    }
}
