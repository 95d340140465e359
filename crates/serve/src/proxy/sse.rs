//! Events of a server that streams them: each carries one message.

use std::io::BufRead;

use super::lines::{self, LineRead};

/// The next message of a stream, as one line with its break. None at the end; an event that the end
/// cuts off is none, and one that is too long is passed over.
pub(super) fn next_message(stream: &mut impl BufRead, max: usize) -> Option<Vec<u8>> {
    let mut data: Option<Vec<u8>> = None;
    let mut is_message = true;
    let mut is_whole = true;
    loop {
        let line = match lines::next(stream, max) {
            LineRead::Line(line) => line,
            LineRead::TooLong(_) => {
                is_whole = false;
                continue;
            }
            LineRead::End => return None,
        };
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            // Events of other types, and those without data, are not ours.
            if let (Some(data), true, true) = (data.take(), is_message, is_whole)
                && !data.trim_ascii().is_empty()
            {
                return Some(one_line(&data));
            }
            (is_message, is_whole) = (true, true);
            continue;
        }
        let (name, value) = match line.iter().position(|byte| *byte == b':') {
            Some(at) => {
                (line.get(..at).unwrap_or_default(), line.get(at + 1..).unwrap_or_default())
            }
            None => (line, &b""[..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                let data = data.get_or_insert_default();
                if data.len() + value.len() > max {
                    is_whole = false;
                } else {
                    data.extend_from_slice(value);
                    data.push(b'\n');
                }
            }
            b"event" => is_message = value == b"message",
            _ => {}
        }
    }
}

/// A JSON document as one line. Its texts hold no line breaks, so that only its layout changes.
pub(super) fn one_line(document: &[u8]) -> Vec<u8> {
    let document = document.trim_ascii();
    let plain = |byte: &u8| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte };
    let mut line: Vec<u8> = document.iter().map(plain).collect();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_one_by_one_and_nothing_else_comes() {
        let text = ": hello\n\nid: 1\r\nevent: message\r\ndata: {\"a\":1}\r\n\r\ndata:\n\n\
            event: ping\ndata: x\n\ndata: {\"b\":\ndata: 2}\n\ndata: {\"cut\":";
        let mut stream = text.as_bytes();
        let mut next = || next_message(&mut stream, 1_000).map(|it| String::from_utf8(it).unwrap());
        assert_eq!(next().as_deref(), Some("{\"a\":1}\n"));
        assert_eq!(next().as_deref(), Some("{\"b\": 2}\n"));
        assert_eq!(next(), None);
    }

    #[test]
    fn an_event_that_is_too_long_is_passed_over() {
        let long = "x".repeat(200);
        let text = format!("data: {long}\n\ndata: {long}\n\ndata: 1\n\n");
        let mut stream = text.as_bytes();
        assert_eq!(next_message(&mut stream, 100).as_deref(), Some(&b"1\n"[..]));
    }
}
