//! The footer of a Parquet file: schema, row groups, and metadata of the program that wrote it.

use super::thrift::Thrift;
use super::{Problem, Result};

/// Deepest nesting of columns.
const MAX_DEPTH: usize = 16;

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

/// Whether a value may be missing or repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repetition {
    Required,
    Optional,
    Repeated,
}

/// The type of a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Boolean,
    Int32,
    Int64,
    Float,
    Double,
    Bytes,
}

/// A leaf of the schema.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leaf {
    /// Index of its column chunk in a row group.
    pub index: usize,
    pub of: Type,
    /// Levels of a value that is present.
    pub max_definition: u16,
    pub max_repetition: u16,
}

/// A node of the schema.
#[derive(Debug)]
pub(super) struct Node<'a> {
    pub name: &'a str,
    pub repetition: Repetition,
    /// Definition level from which on this node is present, or has an element.
    pub definition: u16,
    /// Repetition level at which another element of this node follows.
    pub repetition_level: u16,
    /// Whether it is a group that stands for a list.
    pub is_list: bool,
    pub content: Content<'a>,
}

#[derive(Debug)]
pub(super) enum Content<'a> {
    Leaf(Leaf),
    Group(Vec<Node<'a>>),
}

impl Node<'_> {
    /// The leaves below this node.
    pub fn leaves(&self) -> Vec<Leaf> {
        match &self.content {
            Content::Leaf(leaf) => vec![*leaf],
            Content::Group(children) => children.iter().flat_map(Node::leaves).collect(),
        }
    }
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

#[derive(Default)]
struct SchemaElement<'a> {
    of: Option<i64>,
    repetition: i64,
    name: &'a str,
    children: usize,
    is_list: bool,
}

fn schema_element<'a>(thrift: &mut Thrift<'a>, kind: u8) -> Result<SchemaElement<'a>> {
    Thrift::expect_struct(kind)?;
    let mut element = SchemaElement::default();
    let mut id = 0;
    while let Some(kind) = thrift.field(&mut id)? {
        match id {
            1 => element.of = Some(thrift.integer(kind)?),
            3 => element.repetition = thrift.integer(kind)?,
            4 => element.name = thrift.string(kind)?,
            5 => element.children = size(thrift.integer(kind)?)?,
            // The converted type LIST.
            6 => element.is_list |= thrift.integer(kind)? == 3,
            // The logical type, a union whose field 3 is LIST.
            10 => {
                Thrift::expect_struct(kind)?;
                let mut id = 0;
                while let Some(kind) = thrift.field(&mut id)? {
                    element.is_list |= id == 3;
                    thrift.skip(kind)?;
                }
            }
            _ => thrift.skip(kind)?,
        }
    }
    Ok(element)
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

/// The elements of the schema, which are in the order of a depth-first walk.
struct Schema<'a> {
    elements: std::vec::IntoIter<SchemaElement<'a>>,
    leaves: usize,
}

impl<'a> Schema<'a> {
    /// The next node and all below it; `None` for leaves of types that are not read, and groups of these only.
    fn node(&mut self, definition: u16, repetition: u16, depth: usize) -> Result<Option<Node<'a>>> {
        let element = self.elements.next().ok_or(Problem::Damaged)?;
        if depth > MAX_DEPTH {
            return Err(Problem::Unsupported(format!(
                "columns are nested more than {MAX_DEPTH} deep"
            )));
        }
        let (kind, definition, repetition) = match element.repetition {
            0 => (Repetition::Required, definition, repetition),
            1 => (Repetition::Optional, definition + 1, repetition),
            2 => (Repetition::Repeated, definition + 1, repetition + 1),
            _ => return Err(Problem::Damaged),
        };
        let content = match element.of {
            Some(of) => {
                let index = self.leaves;
                self.leaves += 1;
                let Some(of) = leaf_type(of)? else {
                    return Ok(None);
                };
                Content::Leaf(Leaf {
                    index,
                    of,
                    max_definition: definition,
                    max_repetition: repetition,
                })
            }
            None => {
                let mut children = Vec::new();
                for _ in 0..element.children {
                    children.extend(self.node(definition, repetition, depth + 1)?);
                }
                if children.is_empty() {
                    return Ok(None);
                }
                Content::Group(children)
            }
        };
        Ok(Some(Node {
            name: element.name,
            repetition: kind,
            definition,
            repetition_level: repetition,
            is_list: element.is_list,
            content,
        }))
    }
}

/// The type with this number; `None` for times of 12 bytes and values of fixed length.
fn leaf_type(number: i64) -> Result<Option<Type>> {
    Ok(Some(match number {
        0 => Type::Boolean,
        1 => Type::Int32,
        2 => Type::Int64,
        4 => Type::Float,
        5 => Type::Double,
        6 => Type::Bytes,
        3 | 7 => return Ok(None),
        _ => return Err(Problem::Damaged),
    }))
}

impl Type {
    /// Its number in the file.
    pub fn number(self) -> i64 {
        match self {
            Type::Boolean => 0,
            Type::Int32 => 1,
            Type::Int64 => 2,
            Type::Float => 4,
            Type::Double => 5,
            Type::Bytes => 6,
        }
    }
}
