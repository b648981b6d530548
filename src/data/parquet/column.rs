//! The pages of a column chunk, decoded to values with their levels.

use super::encoding::{self, Scalar, take, take_prefixed};
use super::metadata::{Chunk, size};
use super::schema::{Leaf, Type};
use super::thrift::Thrift;
use super::{Budget, Problem, Result, codec};

/// The values of a leaf in a row group.
#[derive(Default)]
pub(super) struct Column {
    /// Repetition and definition level of every entry; empty if the leaf's highest level is 0.
    repetition: Vec<u32>,
    definition: Vec<u32>,
    entries: usize,
    /// The values of the entries that have one.
    values: std::vec::IntoIter<Scalar>,
    next: usize,
    leaf: Option<Leaf>,
}

impl Column {
    /// Decodes a column chunk.
    pub fn read(file: &[u8], chunk: &Chunk<'_>, leaf: Leaf, budget: &mut Budget) -> Result<Self> {
        if chunk.of != leaf.of.number() {
            return Err(Problem::Damaged);
        }
        let mut reader = Reader {
            leaf,
            codec: chunk.codec,
            dictionary: Vec::new(),
            column: Self {
                leaf: Some(leaf),
                ..Self::default()
            },
            values: Vec::new(),
        };
        let mut bytes = chunk.pages(file)?;
        while reader.column.entries < chunk.values {
            reader.page(&mut bytes, budget)?;
        }
        reader.column.values = reader.values.into_iter();
        Ok(reader.column)
    }

    /// Repetition and definition level of the next entry; `None` at the end.
    pub fn levels(&self) -> Option<(u16, u16)> {
        let level = |levels: &[u32]| levels.get(self.next).map_or(0, |level| *level as u16);
        (self.next < self.entries).then(|| (level(&self.repetition), level(&self.definition)))
    }

    /// Takes the next entry; `None` in it for a missing value.
    pub fn take(&mut self) -> Result<Option<Scalar>> {
        let (_, definition) = self.levels().ok_or(Problem::Damaged)?;
        self.next += 1;
        if self
            .leaf
            .is_some_and(|leaf| definition < leaf.max_definition)
        {
            return Ok(None);
        }
        self.values.next().map(Some).ok_or(Problem::Damaged)
    }
}

/// A page's header.
#[derive(Default)]
struct Header {
    kind: i64,
    uncompressed_size: usize,
    compressed_size: usize,
    values: usize,
    encoding: i64,
    level_encodings: [Option<i64>; 2],
    /// In pages of version 2, the sizes of definition and repetition levels.
    level_sizes: [usize; 2],
    is_compressed: bool,
}

const DATA_PAGE: i64 = 0;
const DICTIONARY_PAGE: i64 = 2;
const DATA_PAGE_2: i64 = 3;

impl Header {
    fn read(bytes: &mut &[u8]) -> Result<Self> {
        let mut thrift = Thrift { bytes };
        let mut header = Self {
            is_compressed: true,
            ..Self::default()
        };
        let mut id = 0;
        while let Some(kind) = thrift.field(&mut id)? {
            match id {
                1 => header.kind = thrift.integer(kind)?,
                2 => header.uncompressed_size = size(thrift.integer(kind)?)?,
                3 => header.compressed_size = size(thrift.integer(kind)?)?,
                5 | 7 | 8 => {
                    Thrift::expect_struct(kind)?;
                    header.details(&mut thrift, id)?;
                }
                _ => thrift.skip(kind)?,
            }
        }
        *bytes = thrift.bytes;
        Ok(header)
    }

    /// The header of a data page of version 1 (5) or 2 (8), or of a dictionary page (7).
    fn details(&mut self, thrift: &mut Thrift<'_>, of: i64) -> Result<()> {
        let mut id = 0;
        while let Some(kind) = thrift.field(&mut id)? {
            match (of, id) {
                (_, 1) => self.values = size(thrift.integer(kind)?)?,
                (5 | 7, 2) | (8, 4) => self.encoding = thrift.integer(kind)?,
                (5, 3) => self.level_encodings[0] = Some(thrift.integer(kind)?),
                (5, 4) => self.level_encodings[1] = Some(thrift.integer(kind)?),
                (8, 5) => self.level_sizes[0] = size(thrift.integer(kind)?)?,
                (8, 6) => self.level_sizes[1] = size(thrift.integer(kind)?)?,
                (8, 7) => self.is_compressed = thrift.boolean(kind)?,
                _ => thrift.skip(kind)?,
            }
        }
        Ok(())
    }
}

struct Reader {
    leaf: Leaf,
    codec: i64,
    dictionary: Vec<Scalar>,
    column: Column,
    values: Vec<Scalar>,
}

impl Reader {
    fn page(&mut self, bytes: &mut &[u8], budget: &mut Budget) -> Result<()> {
        let header = Header::read(bytes)?;
        let mut page = take(bytes, header.compressed_size)?;
        match header.kind {
            DICTIONARY_PAGE => {
                let page = self.decompress(page, header.uncompressed_size, true, budget)?;
                self.dictionary = encoding::plain(&page, self.leaf.of, header.values, budget)?;
            }
            DATA_PAGE => {
                let page = self.decompress(page, header.uncompressed_size, true, budget)?;
                let mut page = page.as_slice();
                let maxima = [self.leaf.max_repetition, self.leaf.max_definition];
                let [definition, repetition] = header.level_encodings;
                let mut levels = [&[][..]; 2];
                for ((max, encoding), levels) in
                    maxima.iter().zip([repetition, definition]).zip(&mut levels)
                {
                    if *max > 0 {
                        if encoding == Some(4) {
                            return Err(unsupported("BIT_PACKED"));
                        }
                        *levels = take_prefixed(&mut page)?;
                    }
                }
                self.data(&header, levels, page, budget)?;
            }
            DATA_PAGE_2 => {
                let [definition, repetition] = header.level_sizes;
                let levels = [take(&mut page, repetition)?, take(&mut page, definition)?];
                let values = header
                    .uncompressed_size
                    .checked_sub(repetition + definition);
                let values = values.ok_or(Problem::Damaged)?;
                let page = self.decompress(page, values, header.is_compressed, budget)?;
                self.data(&header, levels, &page, budget)?;
            }
            // Pages of an index.
            _ => {}
        }
        Ok(())
    }

    fn decompress(
        &self,
        bytes: &[u8],
        size: usize,
        compressed: bool,
        budget: &mut Budget,
    ) -> Result<Vec<u8>> {
        budget.spend(size)?;
        // A page without values may have no bytes to decompress.
        let codec = if compressed && !(bytes.is_empty() && size == 0) {
            self.codec
        } else {
            0
        };
        codec::decompress(codec, bytes, size)
    }

    /// Adds the entries of a data page, whose repetition and definition levels are given.
    fn data(
        &mut self,
        header: &Header,
        levels: [&[u8]; 2],
        bytes: &[u8],
        budget: &mut Budget,
    ) -> Result<()> {
        let count = header.values;
        let maxima = [self.leaf.max_repetition, self.leaf.max_definition];
        let mut present = count;
        let targets = [&mut self.column.repetition, &mut self.column.definition];
        for ((max, bytes), target) in maxima.into_iter().zip(levels).zip(targets) {
            if max == 0 {
                continue;
            }
            let width = u16::BITS - max.leading_zeros();
            let levels = encoding::hybrid(bytes, width, count, budget)?;
            if levels.iter().any(|level| *level > max.into()) {
                return Err(Problem::Damaged);
            }
            // The last are the definition levels.
            present = levels
                .iter()
                .filter(|level| **level == u32::from(max))
                .count();
            target.extend(levels);
        }
        if self.leaf.max_definition == 0 {
            present = count;
        }
        let values = self.values(header.encoding, bytes, present, budget)?;
        if values.len() != present {
            return Err(Problem::Damaged);
        }
        self.values.extend(values);
        self.column.entries += count;
        Ok(())
    }

    fn values(
        &self,
        encoding: i64,
        bytes: &[u8],
        count: usize,
        budget: &mut Budget,
    ) -> Result<Vec<Scalar>> {
        let of = self.leaf.of;
        match (encoding, of) {
            (0, _) => encoding::plain(bytes, of, count, budget),
            (2 | 8, _) => encoding::dictionary_values(bytes, &self.dictionary, count, budget),
            (3, Type::Boolean) => {
                let mut bytes = bytes;
                let values = encoding::hybrid(take_prefixed(&mut bytes)?, 1, count, budget)?;
                Ok(values
                    .into_iter()
                    .map(|value| Scalar::Boolean(value == 1))
                    .collect())
            }
            (5, Type::Int32 | Type::Int64) => encoding::delta_integers(bytes, of, count, budget),
            (6, Type::Bytes) => encoding::delta_lengths(bytes, count, budget),
            (7, Type::Bytes) => encoding::delta_texts(bytes, count, budget),
            (9, _) => Err(unsupported("BYTE_STREAM_SPLIT")),
            _ => Err(Problem::Damaged),
        }
    }
}

fn unsupported(encoding: &str) -> Problem {
    Problem::Unsupported(format!(
        "encoded with {encoding}; write it again with default settings"
    ))
}
