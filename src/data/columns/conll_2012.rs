//! The columns of CoNLL-2011 and CoNLL-2012 (OntoNotes): document, part, word number, word, part of speech, parse, four more,
//! entities as brackets, then the arguments of each predicate and the coreference chains.

use super::header::ColumnHeader;
use super::layout::Sample;
use crate::data::tags::brackets;

/// The number of columns up to the entities. The number of columns after them differs from sentence to sentence.
pub(super) const WIDTH: usize = 11;
const NUMBER: usize = 2;
const WORD: usize = 3;
const POS: usize = 4;
const PARSE: usize = 5;
const ENTITIES: usize = 10;

/// True when words are numbered from 0 and the columns of parse and entities hold brackets, in at least 95 % of the rows.
pub(super) fn detect(sample: &Sample) -> bool {
    let (mut rows, mut fitting) = (0, 0);
    for sentence in sample {
        for (index, row) in sentence.iter().enumerate() {
            rows += 1;
            let fits = row.len() >= WIDTH
                && row[NUMBER].parse() == Ok(index)
                && brackets::is_cell(row[ENTITIES])
                && (brackets::is_cell(row[PARSE]) || row[PARSE] == "-");
            fitting += usize::from(fits);
        }
    }
    rows > 0 && fitting * 20 >= rows * 19
}

/// The columns that are read.
pub(super) fn header() -> ColumnHeader {
    ColumnHeader {
        width: WIDTH,
        word: Some(WORD),
        tags: Some(vec![ENTITIES]),
        pos: Some(POS),
        ..ColumnHeader::default()
    }
}
