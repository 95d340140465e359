//! Asking for a passphrase without showing it.

use std::io::{self, BufRead, IsTerminal, Write};

use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use zeroize::Zeroizing;

use crate::CommandError;

/// Bytes that a passphrase may have.
const PASSPHRASE_BYTES_MAX: u64 = 4096;

/// Asks for the passphrase that a key has.
pub(crate) fn ask(prompt: &str) -> Result<Zeroizing<String>, CommandError> {
    let passphrase = read(prompt)?;
    if passphrase.is_empty() {
        return Err(CommandError::failed("no passphrase was given")
            .with_hint("it is asked for on the terminal, else read from standard input"));
    }
    Ok(passphrase)
}

/// Asks for the passphrase that a key is to get: twice on a terminal, where a slip of the finger
/// would lock the key for good.
pub(crate) fn ask_new(prompt: &str) -> Result<Zeroizing<String>, CommandError> {
    let first = read(prompt)?;
    if first.is_empty() {
        return Err(CommandError::failed("an empty passphrase protects nothing"));
    }
    if io::stdin().is_terminal() && *read("once more")? != *first {
        return Err(CommandError::failed("the two passphrases differ"));
    }
    Ok(first)
}

fn read(prompt: &str) -> Result<Zeroizing<String>, CommandError> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return read_line(&mut stdin.lock());
    }
    let hidden = Hidden::begin(&stdin)?;
    say(&format!("{prompt}: "));
    let line = read_line(&mut stdin.lock());
    drop(hidden);
    say("\n");
    line
}

fn read_line(reader: &mut impl BufRead) -> Result<Zeroizing<String>, CommandError> {
    let mut line = Zeroizing::new(String::new());
    io::Read::take(reader, PASSPHRASE_BYTES_MAX)
        .read_line(&mut line)
        .map_err(|error| CommandError::failed_doing("cannot read the passphrase", error))?;
    let length = line.trim_end_matches(['\n', '\r']).len();
    line.truncate(length);
    Ok(line)
}

/// Prompts go to the terminal itself; if it cannot be written to, reading fails next.
fn say(text: &str) {
    let mut terminal = io::stderr().lock();
    let _ = terminal.write_all(text.as_bytes()).and_then(|()| terminal.flush());
}

/// What is typed does not show while this lives.
struct Hidden<'a> {
    stdin: &'a io::Stdin,
    before: rustix::termios::Termios,
}

impl<'a> Hidden<'a> {
    fn begin(stdin: &'a io::Stdin) -> Result<Self, CommandError> {
        let doing = |error: rustix::io::Errno| {
            CommandError::failed_doing("cannot hide what is typed", io::Error::from(error))
        };
        let before = tcgetattr(stdin).map_err(doing)?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO);
        tcsetattr(stdin, OptionalActions::Flush, &quiet).map_err(doing)?;
        Ok(Self { stdin, before })
    }
}

impl Drop for Hidden<'_> {
    fn drop(&mut self) {
        let _ = tcsetattr(self.stdin, OptionalActions::Flush, &self.before);
    }
}
