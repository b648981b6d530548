//! Assembling rows from the values of columns.

use serde_json::{Map, Number, Value};

use super::column::Column;
use super::encoding::Scalar;
use super::metadata::{Footer, RowGroup};
use super::schema::{Content, Node, Repetition};
use super::{Budget, Problem, Result};

/// The columns of a row group, by the index of their leaf; those that are not read have none.
pub(super) struct Rows<'f, 'a> {
    schema: &'f [Node<'a>],
    columns: Vec<Option<Column>>,
    left: usize,
}

impl<'f, 'a> Rows<'f, 'a> {
    /// Decodes the columns of a row group.
    pub fn new(
        file: &[u8],
        footer: &'f Footer<'a>,
        group: &RowGroup<'_>,
        budget: &mut Budget,
    ) -> Result<Self> {
        if group.columns.len() != footer.leaves {
            return Err(Problem::Damaged);
        }
        let mut columns: Vec<Option<Column>> = group.columns.iter().map(|_| None).collect();
        for leaf in footer.columns.iter().flat_map(Node::leaves) {
            let chunk = &group.columns[leaf.index];
            columns[leaf.index] = Some(Column::read(file, chunk, leaf, budget)?);
        }
        Ok(Self {
            schema: &footer.columns,
            columns,
            left: group.rows,
        })
    }

    /// The next row as an object; `None` after the last.
    pub fn next_row(&mut self) -> Result<Option<Value>> {
        let at_start = self.columns.iter().flatten().all(|column| {
            column.levels().map_or(self.left == 0, |(repetition, _)| {
                repetition == 0 && self.left > 0
            })
        });
        if !at_start {
            return Err(Problem::Damaged);
        }
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let schema = self.schema;
        self.object(schema).map(Some)
    }

    fn object(&mut self, nodes: &[Node<'_>]) -> Result<Value> {
        let mut object = Map::new();
        for node in nodes {
            object.insert(node.name.to_string(), self.node(node)?);
        }
        Ok(Value::Object(object))
    }

    fn column(&mut self, node: &Node<'_>) -> Result<&mut Column> {
        let mut node = node;
        loop {
            match &node.content {
                Content::Leaf(leaf) => {
                    let column = self.columns.get_mut(leaf.index).and_then(Option::as_mut);
                    return column.ok_or(Problem::Damaged);
                }
                Content::Group(children) => node = children.first().ok_or(Problem::Damaged)?,
            }
        }
    }

    /// The value of a node in the current row or element.
    fn node(&mut self, node: &Node<'_>) -> Result<Value> {
        let (_, definition) = self.column(node)?.levels().ok_or(Problem::Damaged)?;
        let is_present = definition >= node.definition;
        match node.repetition {
            Repetition::Required => self.content(node),
            Repetition::Optional if is_present => self.content(node),
            Repetition::Optional => {
                self.skip(node)?;
                Ok(Value::Null)
            }
            Repetition::Repeated if is_present => {
                let mut elements = vec![self.content(node)?];
                while let Some((repetition, _)) = self.column(node)?.levels()
                    && repetition == node.repetition_level
                {
                    elements.push(self.content(node)?);
                }
                Ok(Value::Array(elements))
            }
            Repetition::Repeated => {
                self.skip(node)?;
                Ok(Value::Array(Vec::new()))
            }
        }
    }

    fn content(&mut self, node: &Node<'_>) -> Result<Value> {
        match &node.content {
            Content::Leaf(_) => Ok(self.column(node)?.take()?.map_or(Value::Null, json)),
            Content::Group(children) => match children.as_slice() {
                [elements] if node.is_list && elements.repetition == Repetition::Repeated => {
                    self.list(node, elements)
                }
                children => self.object(children),
            },
        }
    }

    /// The elements of a group that stands for a list. The group in the middle has one child, the element; older programs
    /// wrote the elements without it.
    fn list(&mut self, node: &Node<'_>, elements: &Node<'_>) -> Result<Value> {
        let is_wrapped = match &elements.content {
            Content::Group(children) => {
                children.len() == 1
                    && elements.name != "array"
                    && elements.name.strip_suffix("_tuple") != Some(node.name)
            }
            Content::Leaf(_) => false,
        };
        let mut list = self.node(elements)?;
        if is_wrapped && let Value::Array(elements) = &mut list {
            for element in elements {
                if let Value::Object(object) = element {
                    let only = object.values_mut().next().map(Value::take);
                    *element = only.unwrap_or_default();
                }
            }
        }
        Ok(list)
    }

    /// Takes the entries of a node without a value: one for each leaf.
    fn skip(&mut self, node: &Node<'_>) -> Result<()> {
        for leaf in node.leaves() {
            let column = self.columns.get_mut(leaf.index).and_then(Option::as_mut);
            column.ok_or(Problem::Damaged)?.take()?;
        }
        Ok(())
    }
}

fn json(value: Scalar) -> Value {
    match value {
        Scalar::Boolean(value) => Value::Bool(value),
        Scalar::Integer(value) => Value::from(value),
        // Programs that have no missing integers write them as floating-point numbers.
        Scalar::Float(value) if value.fract() == 0.0 && value.abs() < 1e15 => {
            Value::from(value as i64)
        }
        Scalar::Float(value) => Number::from_f64(value).map_or(Value::Null, Value::Number),
        Scalar::Text(text) => text.map_or(Value::Null, |text| Value::from(&*text)),
    }
}
