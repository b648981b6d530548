//! spaCy's string store: every string has a 64-bit number, a small one if it is a symbol of spaCy and else its hash.

use std::collections::HashMap;

/// Symbols that are numbered consecutively, with the number of the first: flags of words.
const FLAGS: (u64, &str) = (
    1,
    "IS_ALPHA IS_ASCII IS_DIGIT IS_LOWER IS_PUNCT IS_SPACE IS_TITLE IS_UPPER LIKE_URL LIKE_NUM LIKE_EMAIL IS_STOP \
     IS_OOV_DEPRECATED IS_BRACKET IS_QUOTE IS_LEFT_PUNCT IS_RIGHT_PUNCT IS_CURRENCY",
);
/// Attributes of tokens, and parts of speech.
const ATTRIBUTES: (u64, &str) = (
    64,
    "ID ORTH LOWER NORM SHAPE PREFIX SUFFIX LENGTH CLUSTER LEMMA POS TAG DEP ENT_IOB ENT_TYPE HEAD SENT_START SPACY PROB \
     LANG ADJ ADP ADV AUX CONJ CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X EOL SPACE",
);
/// Types of entities, and dependency relations.
const LABELS: (u64, &str) = (
    380,
    "PERSON NORP FACILITY ORG GPE LOC PRODUCT EVENT WORK_OF_ART LANGUAGE LAW DATE TIME PERCENT MONEY QUANTITY ORDINAL \
     CARDINAL acomp advcl advmod agent amod appos attr aux auxpass cc ccomp complm conj cop csubj csubjpass dep det dobj \
     expl hmod hyph infmod intj iobj mark meta neg nmod nn npadvmod nsubj nsubjpass num number oprd obj obl parataxis \
     partmod pcomp pobj poss possessive preconj prep prt punct quantmod relcl rcmod root xcomp acl ENT_KB_ID MORPH ENT_ID \
     IDX _",
);

/// The numbers of spaCy's symbols. A word or label that is the name of a symbol is stored as that number.
fn symbols() -> impl Iterator<Item = (u64, &'static str)> {
    [FLAGS, ATTRIBUTES, LABELS]
        .into_iter()
        .flat_map(|(first, names)| (first..).zip(names.split_ascii_whitespace()))
}

/// The number of a name such as `FLAG19` or `DEPRECATED001`, which are symbols too.
fn numbered_symbol(name: &str) -> Option<u64> {
    let number = |prefix: &str| name.strip_prefix(prefix)?.parse::<u64>().ok();
    match (number("FLAG"), number("DEPRECATED")) {
        (Some(number @ 19..=63), _) => Some(number),
        (_, Some(number @ 1..=276)) => Some(103 + number),
        _ => None,
    }
}

/// The strings of a file by number.
pub(super) struct Strings<'a> {
    by_number: HashMap<u64, &'a str>,
}

impl<'a> Strings<'a> {
    /// The strings that a file lists, and all symbols.
    pub fn new(listed: impl Iterator<Item = &'a str>) -> Self {
        let symbols: HashMap<&str, u64> = symbols().map(|(number, name)| (name, number)).collect();
        let mut by_number: HashMap<u64, &str> = symbols
            .iter()
            .map(|(name, number)| (*number, *name))
            .collect();
        by_number.insert(0, "");
        for string in listed {
            by_number.insert(hash(string.as_bytes()), string);
            let symbol = symbols
                .get(string)
                .copied()
                .or_else(|| numbered_symbol(string));
            if let Some(number) = symbol {
                by_number.insert(number, string);
            }
        }
        Self { by_number }
    }

    /// The string with this number.
    pub fn get(&self, number: u64) -> Option<&'a str> {
        self.by_number.get(&number).copied()
    }
}

/// MurmurHash64A with seed 1.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
    const SHIFT: u32 = 47;
    let mut hash = 1 ^ (bytes.len() as u64).wrapping_mul(FACTOR);
    let (chunks, rest) = bytes.as_chunks::<8>();
    for chunk in chunks {
        let mut value = u64::from_le_bytes(*chunk).wrapping_mul(FACTOR);
        value ^= value >> SHIFT;
        hash = (hash ^ value.wrapping_mul(FACTOR)).wrapping_mul(FACTOR);
    }
    if !rest.is_empty() {
        let value = rest
            .iter()
            .rev()
            .fold(0, |value, byte| value << 8 | u64::from(*byte));
        hash = (hash ^ value).wrapping_mul(FACTOR);
    }
    hash ^= hash >> SHIFT;
    hash = hash.wrapping_mul(FACTOR);
    hash ^ hash >> SHIFT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_spacy() {
        // Computed with spaCy 3.8.18.
        for (string, number) in [
            ("a", 11901859001352538922),
            ("Zoë", 16948573035762911534),
            ("Lindholm", 8697123581150121345),
            ("coffee", 3197928453018144401),
            ("123456789", 2056675840866671865),
        ] {
            assert_eq!(hash(string.as_bytes()), number, "{string}");
        }
        let strings = Strings::new(["Zoë", "FLAG19", "DEPRECATED276"].into_iter());
        for (number, string) in [
            (0, ""),
            (1, "IS_ALPHA"),
            (18, "IS_CURRENCY"),
            (19, "FLAG19"),
            (65, "ORTH"),
            (103, "SPACE"),
            (379, "DEPRECATED276"),
            (380, "PERSON"),
            (397, "CARDINAL"),
            (454, "ENT_ID"),
            (456, "_"),
            (16948573035762911534, "Zoë"),
        ] {
            assert_eq!(strings.get(number), Some(string));
        }
        assert_eq!(strings.get(457), None);
    }
}
