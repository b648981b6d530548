//! The line with which a column file may name its columns.

use super::source::Source;

/// What a CoNLL-U Plus line `# global.columns = ID FORM XPOS NER` says.
#[derive(Default)]
pub(super) struct Header {
    /// How many columns it names.
    pub width: usize,
    /// The column that numbers the words.
    pub id: Option<usize>,
    /// The column of the word.
    pub word: Option<usize>,
    /// The columns of tags.
    pub tags: Option<Vec<usize>>,
    /// The column of the part of speech.
    pub pos: Option<usize>,
}

impl Header {
    /// Look for the line among the comments at the top of a file.
    pub fn find(source: &Source) -> Option<Self> {
        let lines = source.lines().take_while(|line| {
            line.text
                .is_ok_and(|text| text.starts_with('#') || text.trim().is_empty())
        });
        let columns = lines.filter_map(|line| line.text.ok()).find_map(|text| {
            text.strip_prefix("# global.columns")?
                .trim_start()
                .strip_prefix('=')
        })?;
        let names: Vec<String> = columns
            .split_whitespace()
            .map(str::to_ascii_uppercase)
            .collect();
        let of = |wanted: &[&str]| {
            names
                .iter()
                .position(|name| wanted.contains(&name.as_str()))
        };
        let is_layer = |name: &&String| name.split(':').any(|part| part == "NER");
        let tags: Vec<usize> = names
            .iter()
            .enumerate()
            .filter(|(_, name)| is_layer(name))
            .map(|(column, _)| column)
            .collect();
        Some(Self {
            width: names.len(),
            id: of(&["ID"]),
            word: of(&["FORM"]),
            tags: (!tags.is_empty()).then_some(tags),
            pos: of(&["XPOS"]).or(of(&["UPOS"])),
        })
    }
}
