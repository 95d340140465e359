//! Text in the columns of a terminal: escaped first, then cut to what fits.

use countersign_format::text::escape;

/// `text` as it may be shown, in at most `width` columns; what is cut ends in `…`.
pub(super) fn fit(text: &str, width: usize) -> String {
    let text = escape(text).to_string();
    if width_of(&text) <= width {
        return text;
    }
    let room = width.saturating_sub(1);
    let (mut shown, mut used) = (String::new(), 0);
    for character in text.chars() {
        let columns = columns(character);
        if used + columns > room {
            break;
        }
        used += columns;
        shown.push(character);
    }
    if width > 0 {
        shown.push('…');
    }
    shown
}

/// `text` in exactly `width` columns.
pub(super) fn pad(text: &str, width: usize) -> String {
    let mut shown = fit(text, width);
    let used = width_of(&shown);
    shown.extend(std::iter::repeat_n(' ', width.saturating_sub(used)));
    shown
}

/// Columns that a text takes that has been escaped.
pub(super) fn width_of(text: &str) -> usize {
    text.chars().map(columns).sum()
}

/// Columns of one character: two for those that East Asian terminals and emoji draw wide, none for
/// marks that stand over the character before. One too many only leaves a column free.
fn columns(character: char) -> usize {
    match u32::from(character) {
        0x0300..=0x036F
        | 0x0483..=0x0489
        | 0x0591..=0x05BD
        | 0x064B..=0x065F
        | 0x1AB0..=0x1AFF
        | 0x1DC0..=0x1DFF
        | 0x20D0..=0x20FF
        | 0xFE20..=0xFE2F => 0,
        0x1100..=0x115F
        | 0x231A..=0x231B
        | 0x23E9..=0x23F3
        | 0x2600..=0x27BF
        | 0x2B00..=0x2BFF
        | 0x2E80..=0x303E
        | 0x3041..=0x33FF
        | 0x3400..=0x4DBF
        | 0x4E00..=0x9FFF
        | 0xA000..=0xA4CF
        | 0xA960..=0xA97F
        | 0xAC00..=0xD7A3
        | 0xF900..=0xFAFF
        | 0xFE30..=0xFE6F
        | 0xFF00..=0xFF60
        | 0xFFE0..=0xFFE6
        | 0x16FE0..=0x18DFF
        | 0x1AFF0..=0x1B2FF
        | 0x1F000..=0x1FAFF
        | 0x20000..=0x3FFFD => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_cut_by_columns_and_what_is_obeyed_is_written_out() {
        assert_eq!(fit("abcdef", 6), "abcdef");
        assert_eq!(fit("abcdefg", 6), "abcde…");
        assert_eq!(fit("中文中文", 6), "中文…");
        assert_eq!(fit("a\u{1b}[2J", 20), "a\\u{1b}[2J");
        assert_eq!(fit("\u{202e}x", 4), "\\u{…");
        assert_eq!(fit("x", 0), "");
        assert_eq!(pad("中", 4), "中  ");
        assert_eq!(pad("abcdef", 3), "ab…");
    }
}
