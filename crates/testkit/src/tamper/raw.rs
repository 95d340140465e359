//! Changes of the text itself, and spellings of signatures that others would accept.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::ops::{place, text};
use super::scene::Scene;

/// The order of the group of Ed25519, little end first.
const ORDER: [u8; 32] = [
    0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
];
const BOM: &[u8] = b"\xef\xbb\xbf";

/// The same signature in another spelling.
pub(super) fn respelt(signature: &str, how: &str) -> String {
    let mut bytes = STANDARD.decode(signature).unwrap();
    match how {
        "b64_urlsafe" => URL_SAFE_NO_PAD.encode(bytes),
        "b64_unpadded" => STANDARD_NO_PAD.encode(bytes),
        _ => {
            let mut carry = 0u16;
            for (byte, add) in bytes[32..].iter_mut().zip(ORDER) {
                let sum = u16::from(*byte) + u16::from(add) + carry;
                *byte = (sum & 0xff) as u8;
                carry = sum >> 8;
            }
            STANDARD.encode(bytes)
        }
    }
}

impl Scene {
    /// Edits the text. What is meant follows from what is given: a line, a text, something to find
    /// and its replacement, a key to repeat.
    pub(super) fn change_text(&mut self, name: &str, op: &Value) {
        let line = place(op, &["line", "event"]);
        let given = text(op, "text").map(str::as_bytes);
        let find = text(op, "find").or_else(|| text(op, "from")).or_else(|| text(op, "search"));
        let replace = text(op, "replace").or_else(|| text(op, "to")).or_else(|| text(op, "with"));
        if let (Some(find), Some(replace)) = (find, replace) {
            return self.replace(line, find.as_bytes(), replace.as_bytes());
        }
        let key = text(op, "key").map(str::to_owned);
        match (name, line, given) {
            (_, Some(line), _) if key.is_some() => {
                self.repeat_key(line, &key.unwrap_or_default(), &op["value"]);
            }
            ("raw_delete_line" | "raw_remove_line", Some(line), _) => drop(self.lines.remove(line)),
            ("raw_insert_line" | "raw_blank_line" | "raw_insert", Some(line), given) => {
                self.lines.insert(line, given.unwrap_or_default().to_vec());
            }
            ("raw_append_line" | "raw_blank_line", None, given) => {
                self.lines.push(given.unwrap_or_default().to_vec());
            }
            ("raw_append" | "raw_trailing" | "raw_garbage", Some(line), Some(given)) => {
                self.lines[line].extend_from_slice(given);
            }
            ("raw_append" | "raw_tail" | "raw_append_text" | "raw_append_bytes", None, given) => {
                let text = [&self.ledger(), given.unwrap_or_default()].concat();
                self.set_ledger(&text);
            }
            ("raw_bom" | "raw_prepend", line, given) => {
                let line = line.unwrap_or(0);
                self.lines[line] = [given.unwrap_or(BOM), &self.lines[line]].concat();
            }
            ("raw_crlf", line, _) => {
                let wanted = |index: usize| line.is_none_or(|line| line == index);
                for (_, text) in self.lines.iter_mut().enumerate().filter(|(at, _)| wanted(*at)) {
                    text.push(b'\r');
                }
            }
            ("raw_truncate" | "raw_cut", line, _) => self.cut(line, op),
            ("raw_space" | "raw_whitespace" | "raw_spaces" | "raw_pretty", line, _) => {
                self.replace(Some(line.unwrap_or(0)), b"\":", b"\": ");
            }
            ("raw_reorder" | "raw_key_order" | "raw_reverse_keys", line, _) => {
                self.reverse_keys(line.unwrap_or(0));
            }
            ("raw_nest" | "raw_deep" | "raw_deep_nesting", line, _) => {
                let depth = place(op, &["depth", "levels"]).unwrap_or(100_000);
                let nested = [vec![b'['; depth], vec![b']'; depth]].concat();
                let member = [b"{\"nested\":".as_slice(), &nested, b","].concat();
                let line = line.unwrap_or(0);
                self.lines[line] = [&member, &self.lines[line][1..]].concat();
            }
            (name, None, None) if name.contains("newline") => self.ends_whole = false,
            ("raw_line" | "raw_set" | "raw_replace_line", Some(line), Some(given)) => {
                self.lines[line] = given.to_vec();
            }
            _ => panic!("no operation `{name}` is known with these members: {op}"),
        }
    }

    fn replace(&mut self, line: Option<usize>, find: &[u8], with: &[u8]) {
        let wanted = |index: usize| line.is_none_or(|line| line == index);
        for (_, text) in self.lines.iter_mut().enumerate().filter(|(at, _)| wanted(*at)) {
            if let Some(at) = text.windows(find.len()).position(|piece| piece == find) {
                *text = [&text[..at], with, &text[at + find.len()..]].concat();
                return;
            }
        }
        panic!("`{}` is not in the ledger", String::from_utf8_lossy(find));
    }

    /// Puts a second member of this name in front of the first.
    fn repeat_key(&mut self, line: usize, key: &str, value: &Value) {
        let member = format!("\"{key}\":");
        let shadow = format!("{member}{},{member}", json!(value));
        self.replace(Some(line), member.as_bytes(), shadow.as_bytes());
    }

    fn cut(&mut self, line: Option<usize>, op: &Value) {
        let bytes = place(op, &["bytes", "n", "length", "to"]);
        match line {
            Some(line) => {
                let length = self.lines[line].len();
                self.lines[line].truncate(bytes.unwrap_or(length / 2));
            }
            None => {
                let ledger = self.ledger();
                self.set_ledger(&ledger[..ledger.len() - bytes.unwrap_or(10).min(ledger.len())]);
            }
        }
    }

    /// The same members, the last one first.
    fn reverse_keys(&mut self, line: usize) {
        let value = self.value(line);
        let members = value.as_object().into_iter().flatten().rev();
        let members: Vec<String> =
            members.map(|(key, value)| format!("{}:{value}", json!(key))).collect();
        self.lines[line] = format!("{{{}}}", members.join(",")).into_bytes();
    }
}
