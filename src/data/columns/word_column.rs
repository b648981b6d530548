//! What the words of a column file have before or after them: numbers of words, languages and positions.

use super::layout::Sample;

/// True when the first column numbers the words of each sentence from 1, in at least 90 % of the rows.
pub(super) fn has_word_numbers(sample: &Sample) -> bool {
    let (mut rows, mut consecutive, mut beyond_one) = (0, 0, false);
    for sentence in sample {
        let mut previous = 0;
        for row in sentence.iter().filter(|row| !is_range(row[0])) {
            rows += 1;
            let number = row[0].parse::<usize>().unwrap_or(0);
            if number > 0 && number == previous + 1 {
                consecutive += 1;
                beyond_one |= number > 1;
            }
            previous = number;
        }
    }
    beyond_one && consecutive * 10 >= rows * 9
}

/// True when the first column has the numbers of sentence and word in every row, as in WebAnno's TSV 2: `1-1`, `1-2`.
pub(super) fn has_paired_numbers(sample: &Sample) -> bool {
    sample.iter().all(|sentence| {
        (1..).zip(sentence).all(|(number, row)| {
            let pair = row[0].split_once('-');
            row.len() >= 3
                && is_range(row[0])
                && pair.is_some_and(|(_, word)| word.parse() == Ok(number))
        })
    })
}

/// True for the word numbers of CoNLL-U's multiword tokens (`3-4`) and empty nodes (`3.1`).
pub(super) fn is_range(id: &str) -> bool {
    id.split_once(['-', '.']).is_some_and(|(from, to)| {
        let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        number(from) && number(to)
    })
}

/// The language and colon with which every word begins in WikiANN, as in `en:Paris`.
pub(super) fn language_prefix(rows: &[&[&str]], word: usize) -> Option<String> {
    let (language, _) = rows.first()?.get(word)?.split_once(':')?;
    let is_code = (2..=12).contains(&language.len())
        && language
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    let prefix = format!("{language}:");
    let mut words = rows.iter().map(|row| row[word]);
    (is_code && rows.len() > 1 && words.all(|word| word.starts_with(&prefix))).then_some(prefix)
}

/// Splits a character from its position in its word, as in WeiboNER's `科0 技1`; the number may have several digits.
/// Characters that were lost in an earlier conversion are written as two replacement characters.
pub(super) fn split_position(word: &str) -> Option<(&str, usize)> {
    let lost = "\u{fffd}\u{fffd}";
    let length = if word.starts_with(lost) {
        lost.len()
    } else {
        word.chars().next()?.len_utf8()
    };
    let (character, number) = word.split_at(length);
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    digits
        .then(|| number.parse().ok())
        .flatten()
        .map(|number| (character, number))
}

/// True when every word of the file is a character with a position, and every sentence starts at position 0.
pub(super) fn has_positions(sample: &Sample, column: usize) -> bool {
    sample.iter().all(|sentence| {
        let mut words = sentence.iter().filter_map(|row| row.get(column));
        let starts = words
            .clone()
            .next()
            .is_some_and(|word| matches!(split_position(word), Some((_, 0))));
        starts && words.all(|word| split_position(word).is_some())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_split_from_the_character() {
        assert_eq!(split_position("科0"), Some(("科", 0)));
        assert_eq!(split_position("913"), Some(("9", 13)));
        assert_eq!(split_position("ab1"), None);
        assert_eq!(split_position("a"), None);
        assert_eq!(split_position(""), None);
    }
}
