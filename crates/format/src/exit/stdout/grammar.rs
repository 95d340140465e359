//! The grammar of JSON as a machine that takes one byte at a time.
//!
//! Decides where an object or array ends, and whether the outermost object names our protocol. It
//! is laxer than the strict reader about scalars, escapes and commas before a closing bracket: what
//! comes out is read strictly afterwards, and then refused with a reason.

use crate::exit::EXIT_SIGNAL_PROTOCOL;
use crate::json::{self, DEPTH_MAX};

/// Bytes of a string that are kept to compare it: every character of the name that is looked for
/// may be written as an escape of six bytes.
const TOKEN_BYTES_MAX: usize = 6 * EXIT_SIGNAL_PROTOCOL.len();
const PROTOCOL_KEY: &str = "protocol";

/// What one byte did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::exit) enum Step {
    /// The value goes on.
    More,
    /// The value ended with this byte.
    Closed,
    /// This byte cannot stand here, or nests too deep.
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expect {
    KeyOrEnd,
    Colon,
    Value,
    ValueOrEnd,
    Scalar,
    CommaOrEnd,
    Text { role: Role, escaped: bool },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Key,
    Value,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    is_object: bool,
    at: usize,
}

/// One value that is being read.
#[derive(Debug)]
pub(in crate::exit) struct Grammar {
    open: Vec<Open>,
    expect: Expect,
    is_object: bool,
    /// The string that is being read, if it is a key or a value of the outermost object.
    token: Vec<u8>,
    key_is_protocol: bool,
    names_protocol: bool,
}

impl Grammar {
    /// A machine that has just read `bracket`, which stands at `at`: `{`, or otherwise `[`.
    pub(in crate::exit) fn opened_by(bracket: u8, at: usize) -> Self {
        let is_object = bracket == b'{';
        Self {
            open: vec![Open { is_object, at }],
            expect: if is_object { Expect::KeyOrEnd } else { Expect::ValueOrEnd },
            is_object,
            token: Vec::new(),
            key_is_protocol: false,
            names_protocol: false,
        }
    }

    /// Whether the next byte is part of a string.
    pub(in crate::exit) const fn is_in_string(&self) -> bool {
        matches!(self.expect, Expect::Text { .. })
    }

    /// Whether the outermost value is an object with a member that names our protocol.
    pub(in crate::exit) const fn names_protocol(&self) -> bool {
        self.names_protocol
    }

    /// Where the brackets stand that are still open.
    pub(in crate::exit) fn open_at(&self) -> impl Iterator<Item = usize> {
        self.open.iter().map(|open| open.at)
    }

    /// Takes the next byte, which stands at `at`.
    pub(in crate::exit) fn step(&mut self, byte: u8, at: usize) -> Step {
        if let Expect::Text { role, escaped } = self.expect {
            return self.text(byte, role, escaped);
        }
        if self.expect == Expect::Scalar {
            if is_scalar(byte) {
                return Step::More;
            }
            self.expect = Expect::CommaOrEnd;
        }
        if matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
            return Step::More;
        }
        let in_object = self.open.last().is_some_and(|open| open.is_object);
        match (self.expect, byte) {
            (Expect::KeyOrEnd | Expect::CommaOrEnd, b'}') if in_object => self.close(),
            (Expect::ValueOrEnd | Expect::CommaOrEnd, b']') if !in_object => self.close(),
            (Expect::KeyOrEnd, b'"') => self.begin_text(Role::Key),
            (Expect::Colon, b':') => self.go(Expect::Value),
            (Expect::CommaOrEnd, b',') if in_object => self.go(Expect::KeyOrEnd),
            (Expect::CommaOrEnd, b',') => self.go(Expect::ValueOrEnd),
            (Expect::Value | Expect::ValueOrEnd, b'"') => self.begin_text(Role::Value),
            (Expect::Value | Expect::ValueOrEnd, b'{' | b'[') => self.open(byte, at),
            (Expect::Value | Expect::ValueOrEnd, _) if is_scalar(byte) => self.go(Expect::Scalar),
            _ => Step::Failed,
        }
    }

    const fn go(&mut self, expect: Expect) -> Step {
        self.expect = expect;
        Step::More
    }

    fn open(&mut self, bracket: u8, at: usize) -> Step {
        if self.open.len() == DEPTH_MAX {
            return Step::Failed;
        }
        let is_object = bracket == b'{';
        self.open.push(Open { is_object, at });
        self.go(if is_object { Expect::KeyOrEnd } else { Expect::ValueOrEnd })
    }

    fn close(&mut self) -> Step {
        self.open.pop();
        self.expect = Expect::CommaOrEnd;
        if self.open.is_empty() { Step::Closed } else { Step::More }
    }

    fn begin_text(&mut self, role: Role) -> Step {
        self.token.clear();
        self.go(Expect::Text { role, escaped: false })
    }

    fn text(&mut self, byte: u8, role: Role, escaped: bool) -> Step {
        // No string spans lines. That bounds what an unclosed one can hide, and it means that a
        // bracket which is the first thing on a line is a bracket, whatever stands before it.
        if byte == b'\n' {
            return Step::Failed;
        }
        if byte == b'"' && !escaped {
            self.end_text(role);
            return self.go(match role {
                Role::Key => Expect::Colon,
                Role::Value => Expect::CommaOrEnd,
            });
        }
        // One byte over the limit is kept, so that a string that is too long is not taken for its
        // beginning.
        if self.open.len() == 1 && self.token.len() <= TOKEN_BYTES_MAX {
            self.token.push(byte);
        }
        self.go(Expect::Text { role, escaped: byte == b'\\' && !escaped })
    }

    fn end_text(&mut self, role: Role) {
        if self.open.len() != 1 || !self.is_object {
            return;
        }
        match role {
            Role::Key => self.key_is_protocol = self.token_is(PROTOCOL_KEY),
            Role::Value => {
                self.names_protocol |= self.key_is_protocol && self.token_is(EXIT_SIGNAL_PROTOCOL);
            }
        }
    }

    /// Whether the string that was read says `name`, spelt in whichever way.
    fn token_is(&self, name: &str) -> bool {
        if !self.token.contains(&b'\\') {
            return self.token == name.as_bytes();
        }
        if self.token.len() > TOKEN_BYTES_MAX {
            return false;
        }
        let quoted = [b"\"", self.token.as_slice(), b"\""].concat();
        json::read(&quoted).is_ok_and(|value| value == name)
    }
}

/// What numbers and names are made of. Which of them are JSON is for the strict reader.
const fn is_scalar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.' | b'_')
}
