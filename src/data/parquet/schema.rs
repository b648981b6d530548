//! The schema of a Parquet file: its columns, and the values and lists in them.

use super::metadata::size;
use super::thrift::Thrift;
use super::{Problem, Result};

/// Deepest nesting of columns.
const MAX_DEPTH: usize = 16;

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

/// An element of the schema as written in the file.
#[derive(Default)]
pub(super) struct SchemaElement<'a> {
    of: Option<i64>,
    repetition: i64,
    name: &'a str,
    pub children: usize,
    is_list: bool,
}

/// Reads an element of the schema.
pub(super) fn schema_element<'a>(thrift: &mut Thrift<'a>, kind: u8) -> Result<SchemaElement<'a>> {
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

/// The elements of the schema, which are in the order of a depth-first walk.
pub(super) struct Schema<'a> {
    pub elements: std::vec::IntoIter<SchemaElement<'a>>,
    pub leaves: usize,
}

impl<'a> Schema<'a> {
    /// The next node and all below it; `None` for leaves of types that are not read, and groups of these only.
    pub fn node(
        &mut self,
        definition: u16,
        repetition: u16,
        depth: usize,
    ) -> Result<Option<Node<'a>>> {
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
