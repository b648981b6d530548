//! What characters, words and lines look like to the rules of [`bounds`](super::bounds).

/// Length in bytes of the longest line that may be a heading.
pub(super) const HEADING: usize = 120;

/// Whether white space has two line breaks, or one that ends a paragraph or page.
pub(super) fn is_blank(space: &str) -> bool {
    let breaks = space.replace("\r\n", "\n");
    breaks.contains(['\x0c', '\u{2029}'])
        || breaks.chars().filter(|one| is_line_break(*one)).count() > 1
}

pub(super) fn is_line_break(character: char) -> bool {
    matches!(
        character,
        '\n' | '\r' | '\x0b' | '\x0c' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

/// Whether a line looks like a heading: few words, all with a capital or a digit but those that headings have in lower case,
/// and no punctuation at its end but a colon.
pub(super) fn is_heading(line: &str) -> bool {
    const LOWER: &str = " a an and as at by for from in of on or the to vs with und oder der die das des dem den von vom zu zur \
        zum im am für mit de du des la le les et ou à au aux en y el los las del e di da il do dos van het een met i w na z ";
    if line.starts_with("# ") || line.starts_with("##") {
        return true;
    }
    let ends = line.ends_with(|last: char| last.is_alphanumeric() || ":)\"”»".contains(last));
    let starts = line.starts_with(|first: char| first.is_uppercase() || first.is_numeric());
    if line.len() > HEADING || !ends || !starts || !line.contains(char::is_uppercase) {
        return false;
    }
    let is_capital = |word: &str| {
        let first = word.chars().find(|character| character.is_alphanumeric());
        first.is_none_or(|first| first.is_uppercase() || first.is_numeric())
    };
    let last = line.split_whitespace().next_back().unwrap_or_default();
    let mut words = line.split_whitespace();
    is_capital(last) && words.all(|word| is_capital(word) || LOWER.contains(&format!(" {word} ")))
}

/// Whether a line is drawn: three or more of the same symbol, and nothing else.
pub(super) fn is_ruler(line: &str) -> bool {
    let line = line.trim();
    let first = line
        .chars()
        .next()
        .filter(|first| "-=_*#~+—–".contains(*first));
    first.is_some_and(|first| {
        line.chars().count() >= 3 && line.chars().all(|character| character == first)
    })
}

/// Terminators that are not full stops or ellipses.
pub(super) fn is_ending(terminator: char) -> bool {
    !matches!(terminator, '.' | '․' | '﹒' | '．' | '…' | '‥')
}

/// The most common terminators.
pub(super) fn is_terminator(character: char) -> bool {
    ".!?…‥。．！？｡؟۔।॥։።".contains(character)
}

/// Marks and invisible characters that belong to the character before them.
pub(super) fn is_mark(character: char) -> bool {
    matches!(character,
        '\u{300}'..='\u{36f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
}

/// Characters of scripts that are written without spaces.
pub(super) fn is_cjk(character: char) -> bool {
    matches!(character,
        '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{323af}' | '「' | '『' | '《' | '【' | '（')
}

/// Length of a mark such as `[12]` at the start of a text; 0 if there is none.
pub(super) fn reference_mark(text: &str) -> usize {
    let inside = text.strip_prefix('[').unwrap_or_default();
    let digits = inside
        .bytes()
        .take(5)
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    if (1..5).contains(&digits) && inside[digits..].starts_with(']') {
        digits + 2
    } else {
        0
    }
}

/// A number of up to three digits, or several with full stops between them, such as `3.2`.
pub(super) fn is_short_number(word: &str) -> bool {
    let is_part = |part: &str| {
        (1..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    word.split('.').all(is_part)
}

pub(super) fn is_roman(word: &str) -> bool {
    (1..=5).contains(&word.len()) && word.bytes().all(|byte| b"IVXivx".contains(&byte))
}

/// The largest character boundary up to a byte.
pub(super) fn floor(text: &str, byte: usize) -> usize {
    let mut byte = byte.min(text.len());
    while !text.is_char_boundary(byte) {
        byte -= 1;
    }
    byte
}
