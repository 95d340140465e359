//! The tokens of an object as almost everybody writes it, found without building anything.
//!
//! Takes only what it is certain of: no repeated or unknown keys, plain ASCII, numbers in the one
//! spelling that Python gives them. For anything else it says nothing, and the whole reader is
//! asked, whose word is the same where both speak.

use countersign_format::python::{self, PyValue};
use countersign_format::receipt::ReceiptForm;

/// The fields of an action, in the order in which their hash covers them; then those outside of it.
const FIELDS: [&str; 14] = [
    "action_id",
    "action_type",
    "duration_ms",
    "gate_decision",
    "gate_score",
    "input_hash",
    "instruction_hash",
    "output_hash",
    "parent_action_id",
    "parent_receipt_hash",
    "policy_verdict",
    "success",
    "timestamp",
    "metadata",
];
const POLICY_VERDICT: usize = 10;
const METADATA: usize = 13;
const SCORE: usize = 4;
const DURATION: usize = 2;
const SUCCESS: usize = 11;

/// An action as tokens.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Flat<'a> {
    fields: [&'a [u8]; 14],
    receipt_hash: &'a [u8],
    canonical_fields: &'a [u8],
}

impl<'a> Flat<'a> {
    /// The tokens of an action; `None` where the whole reader must be asked.
    pub(super) fn of(bytes: &'a [u8]) -> Option<Self> {
        let mut flat = Self::default();
        let mut scanner = Scanner { bytes, at: 0 };
        scanner.object(&mut |name, token| {
            let slot = match name {
                b"receipt_hash" => &mut flat.receipt_hash,
                b"canonical_fields" => &mut flat.canonical_fields,
                _ => flat.fields.get_mut(place(name)?)?,
            };
            std::mem::replace(slot, token).is_empty().then_some(())
        })?;
        flat.is_certain().then_some(flat)
    }

    fn is_certain(&self) -> bool {
        self.fields.iter().enumerate().all(|(place, token)| match place {
            SUCCESS => matches!(*token, b"true" | b"false"),
            DURATION => is_integer(token),
            SCORE => *token == b"null" || is_integer(token) || is_float(token),
            METADATA => *token == b"null" || token.first() == Some(&b'{'),
            3 | 8 | 9 | POLICY_VERDICT => *token == b"null" || token.first() == Some(&b'"'),
            _ => token.first() == Some(&b'"'),
        })
    }

    /// The text of a field that is a string; `None` for null.
    pub(super) fn text(&self, name: &str) -> Option<&'a str> {
        let token = self.fields.get(place(name.as_bytes())?)?;
        std::str::from_utf8(token.strip_prefix(b"\"")?.strip_suffix(b"\"")?).ok()
    }

    /// Whether a field is null.
    pub(super) fn is_null(&self, name: &str) -> bool {
        place(name.as_bytes()).and_then(|place| self.fields.get(place)) == Some(&&b"null"[..])
    }

    pub(super) fn success(&self) -> bool {
        self.fields.get(SUCCESS) == Some(&&b"true"[..])
    }

    pub(super) fn metadata(&self) -> &'a [u8] {
        self.fields.get(METADATA).copied().unwrap_or_default()
    }

    /// The stored receipt hash.
    pub(super) fn receipt_hash(&self) -> Option<&'a str> {
        let inner = self.receipt_hash.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        std::str::from_utf8(inner).ok()
    }

    /// Whether there is neither a receipt nor what it covers.
    pub(super) const fn is_bare(&self) -> bool {
        self.receipt_hash.is_empty() && self.canonical_fields.is_empty()
    }

    /// The text that is hashed and its form, where `canonical_fields` says exactly what the action
    /// says.
    pub(super) fn canonical(&self) -> Option<(Vec<u8>, ReceiptForm)> {
        let mut stored = [&b""[..]; 14];
        let mut scanner = Scanner { bytes: self.canonical_fields, at: 0 };
        scanner.object(&mut |name, token| {
            let slot = stored.get_mut(place(name)?)?;
            std::mem::replace(slot, token).is_empty().then_some(())
        })?;
        let twelve = stored.get(POLICY_VERDICT)?.is_empty();
        let all = self.fields.iter().zip(&stored).enumerate();
        let same = |(place, (own, stored)): (usize, (&&[u8], &&[u8]))| match place {
            METADATA => stored.is_empty(),
            POLICY_VERDICT if twelve => true,
            _ => own == stored,
        };
        let form = if twelve { ReceiptForm::Twelve } else { ReceiptForm::Thirteen };
        all.into_iter().all(same).then(|| (self.covered(form), form))
    }

    /// All that may be hashed, in Python's compact form.
    pub(super) fn covered(&self, form: ReceiptForm) -> Vec<u8> {
        let twelve = form == ReceiptForm::Twelve;
        let mut text = Vec::with_capacity(768);
        for (place, (name, token)) in FIELDS.iter().zip(&self.fields).enumerate() {
            if place == METADATA || (place == POLICY_VERDICT && twelve) {
                continue;
            }
            text.push(if place == 0 { b'{' } else { b',' });
            text.push(b'"');
            text.extend_from_slice(name.as_bytes());
            text.extend_from_slice(b"\":");
            text.extend_from_slice(token);
        }
        text.push(b'}');
        text
    }
}

fn place(name: &[u8]) -> Option<usize> {
    FIELDS.iter().position(|field| field.as_bytes() == name)
}

fn is_integer(token: &[u8]) -> bool {
    let digits = token.strip_prefix(b"-").unwrap_or(token);
    let plain = matches!(digits, [b'0'] if digits.len() == token.len())
        || matches!(digits, [b'1'..=b'9', ..]);
    plain && digits.len() <= 18 && digits.iter().all(u8::is_ascii_digit)
}

/// Whether this is how Python writes the float that it reads here.
fn is_float(token: &[u8]) -> bool {
    let text = std::str::from_utf8(token).unwrap_or_default();
    let spelled = text.len() <= 32 && text.bytes().any(|byte| matches!(byte, b'.' | b'e'));
    let float = text.parse().ok().filter(|float: &f64| spelled && float.is_finite());
    float.is_some_and(|float| python::dumps(&PyValue::Float(float)) == text)
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// What is done with each member's name and value; nothing ends it.
type Meet<'f, 'a> = dyn FnMut(&[u8], &'a [u8]) -> Option<()> + 'f;

impl<'a> Scanner<'a> {
    /// All of an object, with nothing before or behind it.
    fn object(&mut self, member: &mut Meet<'_, 'a>) -> Option<()> {
        self.expect(b'{')?;
        loop {
            let name = self.plain_string()?;
            let name = name.get(1..name.len() - 1)?;
            self.expect(b':')?;
            self.space();
            member(name, self.value()?)?;
            self.space();
            match self.take()? {
                b',' => {}
                b'}' => break,
                _ => return None,
            }
        }
        self.space();
        (self.at == self.bytes.len()).then_some(())
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.space();
        (self.take()? == byte).then_some(())
    }

    /// A string without escapes, quotes included.
    fn plain_string(&mut self) -> Option<&'a [u8]> {
        self.space();
        let start = self.at;
        if self.take()? != b'"' {
            return None;
        }
        let rest = self.bytes.get(self.at..)?;
        let text = rest.get(..memchr::memchr2(b'"', b'\\', rest)?)?;
        // Not `all`: looking at every byte is faster than stopping early.
        if !text.iter().fold(true, |plain, byte| plain & (b' '..=b'~').contains(byte)) {
            return None;
        }
        self.at += text.len();
        (self.take()? == b'"').then_some(())?;
        self.bytes.get(start..self.at)
    }

    fn value(&mut self) -> Option<&'a [u8]> {
        let start = self.at;
        match self.peek()? {
            b'"' => return self.plain_string(),
            b'{' => self.nested()?,
            b'[' => return None,
            _ => {
                let rest = self.bytes.get(start..)?;
                let ends = |byte: &u8| matches!(byte, b',' | b'}' | b' ' | b'\n' | b'\r' | b'\t');
                self.at += rest.iter().position(ends)?;
            }
        }
        self.bytes.get(start..self.at)
    }

    /// An object of which only the end is looked for.
    fn nested(&mut self) -> Option<()> {
        let mut depth = 0u32;
        loop {
            match self.take()? {
                b'"' => self.string_end()?,
                b'{' => depth += 1,
                b'}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Some(());
            }
        }
    }

    /// Passes over the rest of a string.
    fn string_end(&mut self) -> Option<()> {
        loop {
            let rest = self.bytes.get(self.at..)?;
            self.at += memchr::memchr2(b'"', b'\\', rest)?;
            if self.take()? == b'"' {
                return Some(());
            }
            self.take()?;
        }
    }
}
