//! The footer of a Parquet file: schema, row groups, and metadata of the program that wrote it.

use super::schema::{Node, Schema, schema_element};
use super::thrift::Thrift;
use super::{Problem, Result};

/// The footer.
#[derive(Default)]
pub(super) struct Footer<'a> {
    /// The columns, without those of types that cannot occur in a corpus.
    pub columns: Vec<Node<'a>>,
    /// Number of leaves of the schema, including those left out.
    pub leaves: usize,
    pub row_groups: Vec<RowGroup<'a>>,
    /// Key and value.
    pub metadata: Vec<(&'a str, &'a str)>,
}

/// A row group.
#[derive(Default)]
pub(super) struct RowGroup<'a> {
    pub columns: Vec<Chunk<'a>>,
    pub rows: usize,
}

/// The data of a leaf in a row group.
#[derive(Default)]
pub(super) struct Chunk<'a> {
    /// A file other than this one that has the data.
    external: Option<&'a str>,
    has_metadata: bool,
    pub of: i64,
    pub codec: i64,
    pub values: usize,
    pub compressed_size: usize,
    pub data_page: usize,
    pub dictionary_page: Option<usize>,
}

/// Reads the footer of a file.
pub(super) fn read(file: &[u8]) -> Result<Footer<'_>> {
    let (rest, mark) = file.split_last_chunk::<4>().ok_or(Problem::Damaged)?;
    if mark == b"PARE" {
        return Err(Problem::Unsupported(
            "encrypted; decrypt it first".to_string(),
        ));
    }
    let (rest, length) = rest.split_last_chunk::<4>().ok_or(Problem::Damaged)?;
    let length = u32::from_le_bytes(*length) as usize;
    if mark != b"PAR1" || length > rest.len() {
        return Err(Problem::Damaged);
    }
    let mut thrift = Thrift {
        bytes: &rest[rest.len() - length..],
    };
    let mut footer = Footer::default();
    let mut elements = Vec::new();
    let mut id = 0;
    while let Some(kind) = thrift.field(&mut id)? {
        match id {
            2 => elements = thrift.list(kind, schema_element)?,
            4 => footer.row_groups = thrift.list(kind, row_group)?,
            5 => footer.metadata = thrift.list(kind, key_value)?,
            8 => {
                return Err(Problem::Unsupported(
                    "encrypted; decrypt it first".to_string(),
                ));
            }
            _ => thrift.skip(kind)?,
        }
    }
    let mut elements = elements.into_iter();
    let root = elements.next().ok_or(Problem::Damaged)?;
    let mut schema = Schema {
        elements,
        leaves: 0,
    };
    for _ in 0..root.children {
        footer.columns.extend(schema.node(0, 0, 0)?);
    }
    footer.leaves = schema.leaves;
    Ok(footer)
}

fn row_group<'a>(thrift: &mut Thrift<'a>, kind: u8) -> Result<RowGroup<'a>> {
    Thrift::expect_struct(kind)?;
    let mut group = RowGroup::default();
    let mut id = 0;
    while let Some(kind) = thrift.field(&mut id)? {
        match id {
            1 => group.columns = thrift.list(kind, chunk)?,
            3 => group.rows = size(thrift.integer(kind)?)?,
            _ => thrift.skip(kind)?,
        }
    }
    Ok(group)
}

fn chunk<'a>(thrift: &mut Thrift<'a>, kind: u8) -> Result<Chunk<'a>> {
    Thrift::expect_struct(kind)?;
    let mut chunk = Chunk::default();
    let mut id = 0;
    while let Some(kind) = thrift.field(&mut id)? {
        match id {
            1 => chunk.external = Some(thrift.string(kind)?),
            3 => {
                Thrift::expect_struct(kind)?;
                chunk.has_metadata = true;
                chunk_metadata(thrift, &mut chunk)?;
            }
            _ => thrift.skip(kind)?,
        }
    }
    Ok(chunk)
}

fn chunk_metadata(thrift: &mut Thrift<'_>, chunk: &mut Chunk<'_>) -> Result<()> {
    let mut id = 0;
    while let Some(kind) = thrift.field(&mut id)? {
        match id {
            1 => chunk.of = thrift.integer(kind)?,
            4 => chunk.codec = thrift.integer(kind)?,
            5 => chunk.values = size(thrift.integer(kind)?)?,
            7 => chunk.compressed_size = size(thrift.integer(kind)?)?,
            9 => chunk.data_page = size(thrift.integer(kind)?)?,
            11 => chunk.dictionary_page = Some(size(thrift.integer(kind)?)?),
            _ => thrift.skip(kind)?,
        }
    }
    Ok(())
}

fn key_value<'a>(thrift: &mut Thrift<'a>, kind: u8) -> Result<(&'a str, &'a str)> {
    Thrift::expect_struct(kind)?;
    let (mut key, mut value) = ("", "");
    let mut id = 0;
    while let Some(kind) = thrift.field(&mut id)? {
        match id {
            1 => key = thrift.string(kind)?,
            // Other programs may write bytes here.
            2 => value = std::str::from_utf8(thrift.binary(kind)?).unwrap_or_default(),
            _ => thrift.skip(kind)?,
        }
    }
    Ok((key, value))
}

/// A size or count in memory; a negative one is a sign of damage.
pub(super) fn size(number: i64) -> Result<usize> {
    usize::try_from(number).map_err(|_| Problem::Damaged)
}

impl<'a> Chunk<'a> {
    /// The bytes of the chunk's pages.
    pub fn pages(&self, file: &'a [u8]) -> Result<&'a [u8]> {
        if let Some(external) = self.external.filter(|external| !external.is_empty()) {
            return Err(Problem::Unsupported(format!(
                "its data is in another file, `{external}`; join them"
            )));
        }
        if !self.has_metadata {
            return Err(Problem::Unsupported(
                "encrypted; decrypt it first".to_string(),
            ));
        }
        // Some programs write 0 for a dictionary that is not there.
        let dictionary = self
            .dictionary_page
            .filter(|page| (4..self.data_page).contains(page));
        let start = dictionary.unwrap_or(self.data_page);
        let end = start
            .checked_add(self.compressed_size)
            .ok_or(Problem::Damaged)?;
        file.get(start..end).ok_or(Problem::Damaged)
    }
}
