//! What a terminal obeys rather than shows, taken out of a stream of bytes.
//!
//! Decides which bytes are text. No sequence goes on over a line break: one that is not finished
//! there ends there, so that an unfinished one cannot hide the rest of the output. C1 controls are
//! known by their UTF-8 form and by their one byte where that is no part of a character.

const ESC: u8 = 0x1b;
const BEL: u8 = 0x07;
const CANCEL: u8 = 0x18;
const SUBSTITUTE: u8 = 0x1a;
/// The byte with which the UTF-8 form of a C1 control begins.
const C1_LEAD: u8 = 0xc2;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Text,
    /// [`C1_LEAD`] came, of which nobody knows yet what it belongs to.
    Lead,
    Escape,
    Intermediate,
    ControlSequence,
    ControlString,
}

/// The text that came of one byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    Nothing,
    One(u8),
    Two(u8, u8),
}

/// How far into a sequence the stream is.
#[derive(Debug, Default)]
pub(super) struct Terminal {
    state: State,
    /// Bytes that the UTF-8 character which has begun still needs.
    continuation: u8,
    /// Whether the byte before was [`C1_LEAD`], inside a control string.
    after_lead: bool,
}

impl Terminal {
    /// Takes the next byte. Inside a JSON string C1 controls are characters like any other, and
    /// bytes that are no characters are for the strict reader to refuse.
    pub(super) fn step(&mut self, byte: u8, is_in_string: bool) -> Shown {
        match self.state {
            State::Text if is_in_string && byte != ESC => {
                self.continuation = 0;
                Shown::One(byte)
            }
            State::Text => self.text(byte),
            State::Lead => self.after_c1_lead(byte),
            State::Escape => match byte {
                b' '..=b'~' | ESC | CANCEL | SUBSTITUTE => self.escape(byte),
                _ => self.interrupted(byte, is_in_string),
            },
            State::Intermediate => match byte {
                b' '..=b'/' => Shown::Nothing,
                b'0'..=b'~' => self.go(State::Text),
                _ => self.interrupted(byte, is_in_string),
            },
            State::ControlSequence => match byte {
                b' '..=b'?' => Shown::Nothing,
                b'@'..=b'~' | CANCEL | SUBSTITUTE => self.go(State::Text),
                _ => self.interrupted(byte, is_in_string),
            },
            State::ControlString => self.control_string(byte, is_in_string),
        }
    }

    /// What is left when the stream ends.
    pub(super) const fn finish(self) -> Shown {
        match self.state {
            State::Lead => Shown::One(C1_LEAD),
            _ => Shown::Nothing,
        }
    }

    const fn go(&mut self, state: State) -> Shown {
        self.state = state;
        self.continuation = 0;
        self.after_lead = false;
        Shown::Nothing
    }

    /// The sequence ends before `byte`, which is no part of it.
    fn interrupted(&mut self, byte: u8, is_in_string: bool) -> Shown {
        self.go(State::Text);
        self.step(byte, is_in_string)
    }

    const fn text(&mut self, byte: u8) -> Shown {
        let continues = self.continues(byte);
        match byte {
            ESC => self.go(State::Escape),
            C1_LEAD if !continues => self.go(State::Lead),
            0x80..=0x9f if !continues => self.control(byte),
            _ => Shown::One(byte),
        }
    }

    const fn after_c1_lead(&mut self, byte: u8) -> Shown {
        match byte {
            0x80..=0x9f => return self.control(byte),
            ESC => self.go(State::Escape),
            C1_LEAD => self.go(State::Lead),
            _ => {
                self.go(State::Text);
                self.continuation = continuation_of(byte);
                return Shown::Two(C1_LEAD, byte);
            }
        };
        Shown::One(C1_LEAD)
    }

    /// A C1 control, which means the same as [`ESC`] and the byte that is 0x40 below it.
    const fn control(&mut self, c1: u8) -> Shown {
        self.escape(c1.wrapping_sub(0x40))
    }

    /// The byte after [`ESC`], or what stands for it.
    const fn escape(&mut self, byte: u8) -> Shown {
        match byte {
            ESC => self.go(State::Escape),
            b'[' => self.go(State::ControlSequence),
            b']' | b'P' | b'X' | b'^' | b'_' => self.go(State::ControlString),
            b' '..=b'/' => self.go(State::Intermediate),
            _ => self.go(State::Text),
        }
    }

    fn control_string(&mut self, byte: u8, is_in_string: bool) -> Shown {
        let continues = self.continues(byte);
        let is_terminator = byte == 0x9c && (!continues || self.after_lead);
        self.after_lead = byte == C1_LEAD && !continues;
        match byte {
            BEL | CANCEL | SUBSTITUTE => self.go(State::Text),
            // Either `ESC \`, which then is an escape of two bytes, or the next sequence.
            ESC => self.go(State::Escape),
            b'\n' => self.interrupted(byte, is_in_string),
            _ if is_terminator => self.go(State::Text),
            _ => Shown::Nothing,
        }
    }

    /// Whether `byte` belongs to the character before it.
    const fn continues(&mut self, byte: u8) -> bool {
        let continues = self.continuation > 0 && matches!(byte, 0x80..=0xbf);
        self.continuation =
            if continues { self.continuation.saturating_sub(1) } else { continuation_of(byte) };
        continues
    }
}

/// Bytes that follow `byte` in a UTF-8 character.
const fn continuation_of(byte: u8) -> u8 {
    match byte {
        0xc2..=0xdf => 1,
        0xe0..=0xef => 2,
        0xf0..=0xf4 => 3,
        _ => 0,
    }
}
