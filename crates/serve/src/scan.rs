//! The parts of a JSON text as they were written: what is passed on or stored is found, not written anew.

/// Walks over JSON that is known to be valid.
pub(crate) struct Scan<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scan<'a> {
    /// At the first byte of the value.
    pub(crate) fn new(text: &'a str) -> Self {
        let mut scan = Self { text, at: 0 };
        scan.space();
        scan
    }

    /// The byte that it stands before.
    pub(crate) fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while self.byte().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// Past an opening bracket or a comma, to what follows; none at the end.
    fn step_in(&mut self) -> Option<()> {
        self.space();
        match self.byte()? {
            b'{' | b'[' | b',' => self.at += 1,
            _ => return None,
        }
        self.space();
        (!matches!(self.byte()?, b'}' | b']')).then_some(())
    }

    /// The next member of an object: its name as it is written, with its quotes, and its value.
    pub(crate) fn next_member(&mut self) -> Option<(&'a str, &'a str)> {
        self.step_in()?;
        let key = self.value()?;
        self.space();
        self.at += 1;
        self.space();
        Some((key, self.value()?))
    }

    /// The next element of an array.
    pub(crate) fn next_element(&mut self) -> Option<&'a str> {
        self.step_in()?;
        self.value()
    }

    fn value(&mut self) -> Option<&'a str> {
        let from = self.at;
        let mut depth = 0_usize;
        while let Some(byte) = self.byte() {
            match byte {
                b'"' => {
                    self.string();
                    if depth == 0 {
                        break;
                    }
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth <= 1 => {
                    // The end of this value, or of what it lies in.
                    self.at += depth;
                    break;
                }
                b'}' | b']' => depth -= 1,
                b',' if depth == 0 => break,
                byte if depth == 0 && byte.is_ascii_whitespace() => break,
                _ => {}
            }
            self.at += 1;
        }
        self.text.get(from..self.at)
    }

    fn string(&mut self) {
        self.at += 1;
        while let Some(byte) = self.byte() {
            self.at += if byte == b'\\' { 2 } else { 1 };
            if byte == b'"' {
                return;
            }
        }
    }
}
