//! Files of known kinds that are not read: what they are, and how to convert them.

use super::source::Source;

/// What a binary file is, and a remedy, if its first bytes are known.
pub(super) fn binary(bytes: &[u8]) -> Option<&'static str> {
    let starts = |magic: &[u8]| bytes.starts_with(magic);
    if starts(b"ARROW1") || starts(b"\xff\xff\xff\xff") {
        Some(
            "an Arrow file, as `save_to_disk` of Hugging Face datasets writes, is not read; write Parquet with \
             `load_from_disk(folder).to_parquet(file)`",
        )
    } else if starts(b"%PDF") {
        Some("a PDF file is not read; extract its text")
    } else if starts(b"\x80")
        && bytes
            .get(1)
            .is_some_and(|version| (2..=5).contains(version))
    {
        Some("a Python pickle is not read; write its records as JSON with `json.dump`")
    } else if starts(b"SQLite format 3\0") {
        Some("an SQLite database is not read; export its table as CSV or JSON")
    } else {
        None
    }
}

/// What a file is, and a remedy, if it is markup, Python or not a text.
pub(super) fn text(source: &Source) -> Option<String> {
    if source.bytes().iter().take(8192).any(|byte| *byte == 0) {
        return Some("the file is binary, of a kind that is not known".into());
    }
    let lossy = source.lossy();
    let start = lossy.trim_start();
    let begins = |prefix: &str| {
        let head = start.as_bytes().get(..prefix.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(prefix.as_bytes()))
    };
    if begins("<?xml") && start.contains("<collection>") || begins("<collection>") {
        return Some("BioC XML is not read; convert it to BioC JSON, for example with the `bioc` package of Python".into());
    }
    if begins("<?xml") || begins("<!DOCTYPE") || begins("<html") {
        return Some(format!("XML and HTML are not read; {MARKUP_REMEDY}"));
    }
    if let Some(tag) = usual_markup(start) {
        return Some(format!(
            "the lines have markup such as `{tag}`, and entities in markup are not read; {MARKUP_REMEDY}"
        ));
    }
    // Data begin and end with brackets, after the imports and the name of a script.
    let is_closed = start
        .trim_end()
        .trim_end_matches(',')
        .ends_with([']', ')', '}']);
    let is_tuples = ["[(", "(\"", "('"]
        .iter()
        .any(|mark| start.starts_with(mark));
    let is_dictionaries = start.starts_with("[{'") || start.starts_with("{'");
    let is_assignment = start.lines().take(20).any(|line| {
        let (name, value) = line.split_once('=').unwrap_or_default();
        !name.is_empty()
            && (name.trim_end().bytes()).all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && value.trim_start().starts_with(['[', '('])
    });
    if is_closed && (is_tuples || is_dictionaries || is_assignment) {
        return Some(
            "Python data are not read; write them as JSON with `json.dump(data, file)`".into(),
        );
    }
    None
}

/// A warning for a text whose lines all have the same number of fields: it is probably a table whose tags were not recognised.
pub(super) fn table(source: &Source) -> Option<String> {
    let lines = source.lines().filter_map(|line| line.text.ok());
    let mut widths = lines
        .filter(|line| !line.trim().is_empty())
        .map(|line| line.split('\t').count());
    let width = widths.next()?;
    let others = widths.try_fold(0, |count, other| (other == width).then_some(count + 1))?;
    (width > 1 && others > 1).then(|| {
        format!(
            "read as text, because no column holds tags such as `O` and `B-PER`; every line has {width} columns separated by tabs. \
             If one holds tags, name it with --format columns --tag-column N, counted from 0"
        )
    })
}

const MARKUP_REMEDY: &str = "convert the entities to offsets, as in BRAT or `text_jsonl`, or read the file as it is with --format text";

/// A closing tag of a text in which at least half of the lines have one.
fn usual_markup(text: &str) -> Option<&str> {
    let (mut lines, mut with, mut example) = (0, 0, None);
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        lines += 1;
        if let Some(tag) = closing_tag(line) {
            with += 1;
            example.get_or_insert(tag);
        }
    }
    example.filter(|_| with * 2 >= lines || text.starts_with('<'))
}

/// The first closing tag of a line whose opening tag is on the line too.
fn closing_tag(line: &str) -> Option<&str> {
    let start = line.find("</")?;
    let length = line[start..].find('>')?;
    let tag = &line[start..=start + length];
    let name = &tag[2..tag.len() - 1];
    let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-:.".contains(&byte));
    let opens = |before: &str| {
        before
            .match_indices('<')
            .any(|(at, _)| before[at + 1..].starts_with(name))
    };
    (is_name && opens(&line[..start])).then_some(tag)
}

#[cfg(test)]
mod tests {
    use crate::data::{Format, detect_format};

    #[test]
    fn known_kinds_are_named_with_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        for (name, content, expected) in [
            (
                "a.arrow",
                &b"\xff\xff\xff\xff\x10\x00\x00\x00"[..],
                "to_parquet",
            ),
            ("a.xlsx", b"PK\x03\x04..xl/workbook.xml", "CSV"),
            ("a.zip", b"PK\x03\x04..a.txt", "unzip"),
            ("a.pkl", b"\x80\x04\x95", "pickle"),
            ("a.bin", b"ab\0c", "binary"),
            (
                "a.txt",
                b"<?xml version=\"1.0\"?>\n<ROOT><PHI>x</PHI></ROOT>",
                "XML",
            ),
            (
                "b.txt",
                b"The <ENAMEX TYPE=\"P\">Ada</ENAMEX> sang.\n",
                "`</ENAMEX>`",
            ),
            (
                "c.xml",
                b"<collection><source>x</source></collection>",
                "BioC JSON",
            ),
            (
                "d.txt",
                b"[('Ada', {'entities': [(0, 3, 'P')]})]\n",
                "json.dump",
            ),
            (
                "d.py",
                b"import x\nTRAIN_DATA = [\n('Ada', {})]\n",
                "json.dump",
            ),
            ("e.json", b"[{'tokens': ['Ada']}]\n", "json.dump"),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            let error = detect_format(&path).unwrap_err().to_string();
            assert!(error.contains(expected), "{name}: {error}");
        }
    }

    #[test]
    fn texts_with_some_markup_are_texts() {
        let folder = tempfile::tempdir().unwrap();
        for content in [
            "Use <b>this</b>.\nThen that.\nAnd so on.\n",
            "(see above)\n",
            "@book{a,\n  author = [Ada],\ntitle = {B}}\n",
            "('Tis true)\nno brackets at the end\n",
            "[1] Ada\n",
            "a < b\n",
            "5 </ 6\n",
        ] {
            let path = folder.path().join("a.txt");
            std::fs::write(&path, format!("text\n{content}")).unwrap();
            assert_eq!(
                detect_format(&path).unwrap(),
                Format::PlainText,
                "{content}"
            );
            std::fs::write(&path, format!("{content}text\n")).unwrap();
            assert_eq!(
                detect_format(&path).unwrap(),
                Format::PlainText,
                "{content}"
            );
        }
    }
}
