//! From text to a TOML document: what is no text, what is no TOML, and where.

use std::str::Utf8Error;

use toml::de::{DeTable, Error};

use super::TASK_BYTES_MAX;
use super::fault::{FaultList, TaskFault, position, shown};
use super::near::nearest;

const BYTE_ORDER_MARK: char = '\u{feff}';
const DUPLICATE: &str = "duplicate key";
const TOO_DEEP: &str = "recursion limit";
/// How the parser speaks of words that are not between quotes; the second if they start like one.
const UNQUOTED: [&str; 2] = ["string values must be quoted", "invalid boolean"];
/// How the parser calls a bracket that is never closed and may span lines.
const RUNAWAY: [&str; 2] = ["unclosed array,", "unclosed inline table"];
/// How it speaks of what stands between brackets.
const BRACKETED: [&str; 5] =
    ["unclosed array,", "in array", "array elements", "inline table", "key-value pairs"];

/// The document, as long as what it means can be told; every fault of the text is noted.
pub(crate) fn read<'t>(text: &'t str, faults: &FaultList<'_>) -> Option<DeTable<'t>> {
    if let Some((at, message)) = not_a_task_file(text) {
        faults.note(at, "", message);
        return None;
    }
    let (document, errors) = DeTable::parse_recoverable(text);
    // A key that stands twice leaves the document whole; anything else leaves holes in it, of which
    // nothing true can be said.
    let whole = errors.iter().all(|error| error.message() == DUPLICATE);
    note(text, errors, faults);
    whole.then(|| document.into_inner())
}

/// Notes what the parser says, without what only follows from the mistake before.
fn note(text: &str, mut errors: Vec<Error>, faults: &FaultList<'_>) {
    let runaway =
        errors.iter().any(|error| RUNAWAY.iter().any(|it| error.message().starts_with(it)));
    errors.sort_by_key(|error| error.span().map(|span| span.start));
    let mut last = None;
    for error in errors {
        // Of what is nested too deeply the parser does not say where: it hides nothing of line 1.
        let Some(at) = error.span().map(|span| span.start) else {
            faults.note(0, "", told(text, &error));
            continue;
        };
        let same_line = |last| text.get(last..at).is_some_and(|between| !between.contains('\n'));
        if error.message() == DUPLICATE || !last.is_some_and(same_line) {
            faults.note(at, "", told(text, &error));
        }
        last = Some(at);
        // What follows a bracket that is never closed was read as its content, and every line of
        // it looks wrong.
        if runaway && BRACKETED.iter().any(|it| error.message().contains(it)) {
            return;
        }
    }
}

/// The fault of bytes that are not UTF-8.
pub(crate) fn not_utf8(bytes: &[u8], error: Utf8Error) -> TaskFault {
    let (before, rest) = bytes.split_at_checked(error.valid_up_to()).unwrap_or_default();
    let text = std::str::from_utf8(before).unwrap_or_default();
    let (line, column) = position(text, text.len());
    let byte = rest.first().copied().unwrap_or_default();
    let message = format!("the file must be UTF-8, found the byte 0x{byte:02x}");
    TaskFault { line, column, path: String::new(), message }
}

fn not_a_task_file(text: &str) -> Option<(usize, String)> {
    if text.len() > TASK_BYTES_MAX {
        return Some((0, TaskFault::too_long(text.len()).message));
    }
    if text.starts_with(BYTE_ORDER_MARK) {
        return Some((0, "the file must not start with a byte order mark".to_owned()));
    }
    let nul = text.find('\0')?;
    Some((nul, "the file must not hold a NUL character".to_owned()))
}

/// What the parser says, with what it found.
fn told(text: &str, error: &Error) -> String {
    let found = error.span().and_then(|span| text.get(span)).unwrap_or_default();
    let found = shown(found.lines().next().unwrap_or_default());
    let message = error.message().trim_end_matches(", expected nothing");
    if message == DUPLICATE {
        return format!("`{found}` is given twice");
    }
    if message == TOO_DEEP {
        return "something in the file is nested too deeply".to_owned();
    }
    if UNQUOTED.iter().any(|it| message.starts_with(it)) {
        return match nearest(&found, &["true", "false"]) {
            _ if found.is_empty() => "missing value".to_owned(),
            Some(near) => format!("`{found}` is no value, did you mean `{near}`?"),
            None => format!("`{found}` is no value, text must be quoted"),
        };
    }
    match message.split_once(" string, expected ") {
        Some((_, quote @ ("`\"`" | "`'`"))) => format!("string is not closed, expected {quote}"),
        _ => message.to_owned(),
    }
}
