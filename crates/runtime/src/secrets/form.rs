//! Forms of texts that are ours and are never secrets: hashes, ids, times, keys, signatures.

/// The form of a time; `0` stands for any digit.
const TIME: &[u8] = b"0000-00-00T00:00:00.000Z";
/// How far a run of characters is followed; no form of ours is longer.
const RUN_MAX: usize = 128;

/// Whether `text` has the form of a hash, an id or a time of ours.
pub(super) fn is_ours(text: &[u8]) -> bool {
    is_hash(text) || is_ulid(text) || is_time(text)
}

/// Whether the bytes from `start` to `end` are only a part of something that has a form of ours.
pub(super) fn inside_ours(text: &[u8], start: usize, end: usize) -> bool {
    let within = |member: fn(u8) -> bool, form: fn(&[u8]) -> bool| {
        let run = run_around(text, start, end, member);
        run.len() > end - start && form(run)
    };
    within(|byte| byte.is_ascii_alphanumeric(), |run| is_hash(run) || is_ulid(run))
        || inside_time(text, start, end)
        || within(
            |byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte),
            is_key_or_signature,
        )
}

/// Times are told by their form alone: what may stand next to one may also stand in one.
fn inside_time(text: &[u8], start: usize, end: usize) -> bool {
    let length = TIME.len();
    end - start < length
        && (end.saturating_sub(length)..=start)
            .any(|at| text.get(at..at + length).is_some_and(is_time))
}

/// The longest run of `member`s around the bytes from `start` to `end`; those bytes alone where
/// one of them is no member, or the run is longer than any form.
fn run_around(text: &[u8], start: usize, end: usize, member: fn(u8) -> bool) -> &[u8] {
    let middle = text.get(start..end).unwrap_or_default();
    if middle.len() > RUN_MAX || !middle.iter().all(|&byte| member(byte)) {
        return middle;
    }
    let before = text.get(..start).unwrap_or_default().iter().rev().take(RUN_MAX);
    let after = text.get(end..).unwrap_or_default().iter().take(RUN_MAX);
    let left = before.take_while(|byte| member(**byte)).count();
    let right = after.take_while(|byte| member(**byte)).count();
    text.get(start - left..end + right).unwrap_or_default()
}

pub(super) fn is_hash(text: &[u8]) -> bool {
    text.len() == 64 && text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_ulid(text: &[u8]) -> bool {
    let digit =
        |byte: &u8| byte.is_ascii_digit() || byte.is_ascii_lowercase() && !b"ilou".contains(byte);
    text.len() == 26 && text.first().is_some_and(|byte| *byte < b'8') && text.iter().all(digit)
}

fn is_time(text: &[u8]) -> bool {
    text.len() == TIME.len()
        && text.iter().zip(TIME).all(|(byte, form)| match form {
            b'0' => byte.is_ascii_digit(),
            form => byte == form,
        })
}

/// Padded base64 of 32 or 64 bytes.
fn is_key_or_signature(text: &[u8]) -> bool {
    let body = match text.len() {
        44 => text.strip_suffix(b"="),
        88 => text.strip_suffix(b"=="),
        _ => None,
    };
    body.is_some_and(|body| !body.contains(&b'='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_forms_are_known() {
        let hash = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
        let ours = [hash, "01kggtstag494h28jgxgpqnqc9", "2026-01-31T23:59:59.123Z"];
        for text in ours {
            assert!(is_ours(text.as_bytes()), "{text}");
            assert!(!is_ours(text.to_uppercase().replace('Z', "z").as_bytes()), "{text}");
        }
        assert!(!is_ours(b"hunter22"));
    }

    #[test]
    fn a_part_of_our_forms_is_told_from_the_same_bytes_elsewhere() {
        let key = "iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w=";
        let hash = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
        for text in [key, hash, "2026-01-31T23:59:59.123Z", "01kggtstag494h28jgxgpqnqc9"] {
            let around = format!("\"{text}\"");
            assert!(inside_ours(around.as_bytes(), 5, 11), "{text}");
            assert!(!inside_ours(around.as_bytes(), 1, text.len() + 1), "{text} as a whole");
        }
        assert!(!inside_ours(b"a 223344 b", 2, 8));
        assert!(!inside_ours(format!("{hash}0").as_bytes(), 2, 8));
    }
}
