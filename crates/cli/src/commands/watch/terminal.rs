//! The screen that is drawn on, and given back as it was.
//!
//! The one place beside `output` that writes to the terminal: a screen is drawn over, not printed
//! line by line. Nothing reaches it but lines of [`Drawn`], which are escaped. It is given back when
//! this is dropped, and before a panic is told.

use std::io::{self, Write as _};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::frame::{Drawn, Ink, Size};
use crate::CommandError;

/// Another screen than the shell's, without a cursor and without wrapping.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l\u{1b}[?7l\u{1b}[2J";
const LEAVE: &str = "\u{1b}[?7h\u{1b}[?25h\u{1b}[?1049l";
/// The size where the terminal does not tell.
const SIZE: Size = Size { columns: 79, rows: 24 };

/// A terminal that is drawn on until this is dropped.
pub(super) struct Terminal {
    before: Termios,
    quiet: Termios,
    colours: bool,
}

impl Terminal {
    /// Takes the screen.
    pub(super) fn begin() -> Result<Self, CommandError> {
        let before = tcgetattr(io::stdin()).map_err(|error| unusable(error.into()))?;
        let mut quiet = before.clone();
        // Keys are read one by one and not shown; Ctrl-C and Ctrl-Z stay signals.
        quiet.local_modes &= !(LocalModes::ECHO | LocalModes::ICANON);
        let told = std::panic::take_hook();
        let after = before.clone();
        std::panic::set_hook(Box::new(move |panic| {
            give_back(&after);
            told(panic);
        }));
        let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            && std::env::var_os("TERM").is_none_or(|value| value != "dumb");
        let terminal = Self { before, quiet, colours };
        terminal.take()?;
        Ok(terminal)
    }

    fn take(&self) -> Result<(), CommandError> {
        tcsetattr(io::stdin(), OptionalActions::Now, &self.quiet)
            .map_err(|error| unusable(error.into()))?;
        put(ENTER)
    }

    /// Gives the screen back while this process is stopped, and takes it again when it goes on.
    pub(super) fn suspend(&self) -> Result<(), CommandError> {
        give_back(&self.before);
        signal_hook::low_level::raise(signal_hook::consts::SIGSTOP).map_err(unusable)?;
        self.take()
    }

    /// What can be drawn on now.
    pub(super) fn size(&self) -> Size {
        match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                // The last column stays free: behind a full line, erasing the rest would erase its
                // last character.
                Size { columns: usize::from(size.ws_col) - 1, rows: usize::from(size.ws_row) }
            }
            _ => SIZE,
        }
    }

    /// Draws over what is there.
    pub(super) fn draw(&self, lines: &[Drawn]) -> Result<(), CommandError> {
        let mut out = String::from("\u{1b}[H");
        for (row, line) in lines.iter().enumerate() {
            if row > 0 {
                out.push_str("\r\n");
            }
            out.push_str(&self.inked(line));
            out.push_str("\u{1b}[K");
        }
        out.push_str("\u{1b}[J");
        put(&out)
    }

    fn inked(&self, line: &Drawn) -> String {
        let code = match line.ink {
            Ink::Plain => return line.text.clone(),
            Ink::Bold => "1",
            Ink::Dim => "2",
            Ink::Red => "31",
            Ink::Yellow => "33",
        };
        match self.colours {
            true => format!("\u{1b}[{code}m{}\u{1b}[0m", line.text),
            false => line.text.clone(),
        }
    }

    /// Whether somebody pressed `q`, or the terminal is gone.
    pub(super) fn wants_to_end(&self) -> Result<bool, CommandError> {
        let stdin = io::stdin();
        let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(false),
            Ok(_) => {}
            Err(error) => return Err(unusable(error.into())),
        }
        let mut keys = [0; 64];
        match rustix::io::read(&stdin, &mut keys) {
            // Ready, and nothing there: the other side has hung up.
            Ok(0) => Ok(true),
            Ok(count) => Ok(keys.iter().take(count).any(|key| matches!(key, b'q' | b'Q'))),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(_) => Ok(true),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // After a panic the screen is back already, and its message stands on it.
        if !std::thread::panicking() {
            let _ = std::panic::take_hook();
            give_back(&self.before);
        }
    }
}

/// If that fails there is no screen left to be given back.
fn give_back(before: &Termios) {
    let _ = put(LEAVE);
    let _ = tcsetattr(io::stdin(), OptionalActions::Flush, before);
}

fn put(text: &str) -> Result<(), CommandError> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| CommandError::failed_doing("cannot write to the terminal", error))
}

fn unusable(error: io::Error) -> CommandError {
    CommandError::failed_doing("cannot use the terminal", error)
        .with_hint("`countersign watch --once` prints it once")
}
