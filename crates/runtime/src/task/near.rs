//! The known word that somebody probably meant.

/// Changes of one letter that a slip of the pen may have.
const CHANGES_MAX: usize = 2;

/// The word that is nearest to `written`, if it is near at all.
pub(super) fn nearest<'w>(written: &str, words: &[&'w str]) -> Option<&'w str> {
    let letters: Vec<char> = written.chars().collect();
    let near = words.iter().filter_map(|&word| Some((changes(&letters, word)?, word)));
    // A word of which nothing is left is another word.
    let near = near.filter(|&(changes, word)| changes < word.len().min(letters.len()));
    near.min_by_key(|&(changes, _)| changes).map(|(_, word)| word)
}

/// How many letters must be put in, taken out or replaced to make `word` of `written`, if they are
/// few.
fn changes(written: &[char], word: &str) -> Option<usize> {
    let word: Vec<char> = word.chars().collect();
    // Also keeps a key as long as the file from being compared letter by letter.
    if written.len().abs_diff(word.len()) > CHANGES_MAX {
        return None;
    }
    let mut row: Vec<usize> = (0..=word.len()).collect();
    for (index, letter) in written.iter().enumerate() {
        let mut next = vec![index + 1];
        let pairs = row.iter().zip(row.iter().skip(1));
        for ((diagonal, above), other) in pairs.zip(&word) {
            let left = next.last().copied().unwrap_or_default();
            let replaced = diagonal + usize::from(letter != other);
            next.push(replaced.min(above + 1).min(left + 1));
        }
        row = next;
    }
    row.last().copied().filter(|&changes| changes <= CHANGES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_understood_and_another_word_is_not() {
        let words = ["objective", "id", "argv", "after"];
        let cases = [
            ("objektive", Some("objective")),
            ("objectiv", Some("objective")),
            ("objectives", Some("objective")),
            ("Objective", Some("objective")),
            ("afetr", Some("after")),
            ("args", Some("argv")),
            ("ids", Some("id")),
            ("goal", None),
            ("xy", None),
            ("", None),
            ("objekiv", None),
        ];
        for (written, meant) in cases {
            assert_eq!(nearest(written, &words), meant, "{written}");
        }
    }

    #[test]
    fn the_nearest_of_several_is_taken() {
        assert_eq!(nearest("stdouts", &["stderr", "stdout"]), Some("stdout"));
        assert_eq!(nearest(&"x".repeat(1 << 20), &["stdout"]), None);
    }
}
