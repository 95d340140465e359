//! The only place that prints: data to standard output, talk to standard error. (`watch` draws its
//! live screen itself, from lines that it has escaped.)
//!
//! Every line is escaped here, whoever wrote it, so that nothing an agent, a tool or a file said
//! can move a cursor, hide text or forge another line. Only exact bytes for a pipe or a file are
//! left alone.

use std::fmt::{self, Display};
use std::io::{self, BufWriter, IsTerminal, Write};

use countersign_format::text::{escape, escape_block};
use rustix::termios::tcgetwinsize;
use serde::Serialize;

use crate::{CommandError, Exit};

/// In which form answers are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON document for a program.
    Json,
}

/// Where answers and talk go.
pub struct Output {
    data: Stream,
    talk: Stream,
    format: Format,
    status_shown: bool,
}

/// Characters of a status line where the width is not known: a line that wraps cannot be taken away.
const STATUS_CHARACTERS_MAX: usize = 76;

struct Stream {
    writer: Box<dyn Write>,
    target: Target,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    /// A pipe or a file.
    Bytes,
    /// A terminal without colours.
    Terminal,
    /// A terminal with colours.
    ColourTerminal,
}

/// Whoever read the answer has closed the pipe. There is nobody left to be told.
#[derive(Debug, thiserror::Error)]
#[error("nobody reads the answer any more")]
struct ReaderGone;

#[derive(Debug, Clone, Copy)]
enum Colour {
    Red = 31,
    Green = 32,
    Yellow = 33,
    Cyan = 36,
}

impl Output {
    /// The standard streams of the process.
    #[must_use]
    pub fn standard(format: Format) -> Self {
        let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            && std::env::var_os("TERM").is_none_or(|value| value != "dumb");
        let target = |is_terminal: bool| match (is_terminal, colours) {
            (false, _) => Target::Bytes,
            (true, false) => Target::Terminal,
            (true, true) => Target::ColourTerminal,
        };
        let (data, talk) = (io::stdout(), io::stderr());
        Self {
            data: Stream {
                target: target(data.is_terminal()),
                writer: Box::new(BufWriter::new(data)),
            },
            talk: Stream { target: target(talk.is_terminal()), writer: Box::new(talk) },
            format,
            status_shown: false,
        }
    }

    /// The form in which answers are wanted.
    #[must_use]
    pub const fn format(&self) -> Format {
        self.format
    }

    /// Answers with one line.
    pub fn line(&mut self, line: impl Display) -> Result<(), CommandError> {
        let line = format!("{}\n", escape(&line.to_string()));
        self.write(line.as_bytes())
    }

    /// Answers with a text of several lines.
    pub fn block(&mut self, text: impl Display) -> Result<(), CommandError> {
        let text = escape_block(&text.to_string()).to_string();
        self.write(text.as_bytes())?;
        if text.is_empty() || text.ends_with('\n') { Ok(()) } else { self.write(b"\n") }
    }

    /// Answers with exactly these bytes; on a terminal, with a text that shows what they are.
    pub fn data_bytes(&mut self, bytes: &[u8]) -> Result<(), CommandError> {
        if self.data.target == Target::Bytes {
            self.write(bytes)
        } else {
            self.block(String::from_utf8_lossy(bytes))
        }
    }

    /// Answers with a JSON document on one line. What a reader could not see is written as `\u…`.
    pub fn json(&mut self, answer: &impl Serialize) -> Result<(), CommandError> {
        let document = serde_json::to_string(answer).map_err(|error| {
            CommandError::failed_doing("cannot write the answer as JSON", error)
        })?;
        let line = format!("{}\n", visible_json(&document));
        self.write(line.as_bytes())
    }

    /// Says something beside the answer.
    pub fn note(&mut self, note: impl Display) {
        self.say(&escape(&note.to_string()));
    }

    /// Shows on a terminal what is under way, on a line that the next words replace.
    pub fn status(&mut self, status: impl Display) {
        if self.talk.target == Target::Bytes {
            return;
        }
        let _ = self.data.writer.flush();
        let text = escape(&status.to_string()).to_string();
        let width = tcgetwinsize(io::stderr()).map_or(0, |size| usize::from(size.ws_col));
        let width = if width == 0 { STATUS_CHARACTERS_MAX } else { width.saturating_sub(1) };
        let line: String = text.chars().take(width).collect();
        self.status_shown = true;
        let _ = self.talk.writer.write_all(format!("\r{line}\u{1b}[K").as_bytes());
        let _ = self.talk.writer.flush();
    }

    /// Takes the line of [`Output::status`] away.
    pub fn clear_status(&mut self) {
        if std::mem::take(&mut self.status_shown) {
            let _ = self.talk.writer.write_all(b"\r\x1b[K");
        }
    }

    /// Asks something and stays on the line, for the answer.
    pub fn ask(&mut self, question: impl Display) {
        self.clear_status();
        let text = escape(&question.to_string()).to_string();
        let _ = self.talk.writer.write_all(text.as_bytes());
        let _ = self.talk.writer.flush();
    }

    /// Says that something went well.
    pub fn success(&mut self, what: impl Display) {
        let what = escape(&what.to_string()).to_string();
        let what = self.talk.coloured(Colour::Green, &what);
        self.say(&what);
    }

    /// Warns of something that the reader can act on.
    pub fn warning(&mut self, warning: impl Display) {
        self.labelled(Colour::Yellow, "warning", &warning.to_string());
    }

    /// Says what can be done next.
    pub fn hint(&mut self, hint: impl Display) {
        self.labelled(Colour::Cyan, "hint", &hint.to_string());
    }

    /// Says what went wrong, why, and what can be done about it.
    pub fn error(&mut self, error: &CommandError) {
        if error.error.is::<ReaderGone>() {
            return;
        }
        self.labelled(Colour::Red, "error", &error.error.to_string());
        for detail in &error.details {
            self.say(&format_args!("  {}", escape(detail)));
        }
        for cause in error.causes() {
            self.say(&format_args!("  caused by: {}", escape(&cause)));
        }
        for hint in &error.hints {
            self.hint(hint);
        }
    }

    /// Hands everything written so far to the system; for answers that come bit by bit.
    pub fn flush(&mut self) -> Result<(), CommandError> {
        self.data.writer.flush().map_err(cannot_write)
    }

    /// Says what went wrong, if anything did, and gives the exit code.
    pub(crate) fn end(&mut self, ended: Result<Exit, CommandError>) -> Exit {
        let flushed = self.flush();
        match ended.and_then(|exit| flushed.map(|()| exit)) {
            Ok(exit) => exit,
            Err(error) => {
                self.error(&error);
                error.exit
            }
        }
    }

    /// Prints what the argument parser has to say: help, version, or a usage error.
    pub(crate) fn arguments_answer(&mut self, answer: &clap::Error) -> Result<Exit, CommandError> {
        let text = answer.render().to_string();
        if answer.use_stderr() {
            self.say(&escape_block(text.trim_end()));
            return Ok(Exit::Usage);
        }
        self.block(text)?;
        Ok(Exit::Done)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), CommandError> {
        let stream = &mut self.data;
        let written = stream.writer.write_all(bytes).and_then(|()| match stream.target {
            Target::Bytes => Ok(()),
            Target::Terminal | Target::ColourTerminal => stream.writer.flush(),
        });
        written.map_err(cannot_write)
    }

    fn labelled(&mut self, colour: Colour, label: &str, text: &str) {
        let label = self.talk.coloured(colour, label);
        self.say(&format_args!("{label}: {}", escape(text)));
    }

    /// Prints a line to standard error. If that fails there is no place left to say so.
    fn say(&mut self, line: &dyn Display) {
        // What was answered before comes first, where both go to the same place. A failure shows
        // again at the end.
        let _ = self.data.writer.flush();
        let _ = self.talk.writer.write_all(format!("{line}\n").as_bytes());
    }
}

impl Stream {
    fn coloured(&self, colour: Colour, text: &str) -> String {
        match self.target {
            Target::ColourTerminal => format!("\u{1b}[1;{}m{text}\u{1b}[0m", colour as u8),
            Target::Bytes | Target::Terminal => text.to_owned(),
        }
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output")
            .field("data", &self.data.target)
            .field("talk", &self.talk.target)
            .field("format", &self.format)
            .finish()
    }
}

fn cannot_write(error: io::Error) -> CommandError {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return CommandError::failed(ReaderGone);
    }
    CommandError::failed_doing("cannot write to standard output", error)
}

/// The same document with every character that [`escape`] would change as `\u` and four digits.
/// Outside of strings a document without white space has none.
fn visible_json(document: &str) -> String {
    let mut visible = String::with_capacity(document.len());
    let mut utf8 = [0; 4];
    let mut utf16 = [0; 2];
    for character in document.chars() {
        let text = character.encode_utf8(&mut utf8);
        if character.is_ascii_graphic() || character == ' ' || escape(text).to_string() == *text {
            visible.push(character);
        } else {
            for unit in character.encode_utf16(&mut utf16) {
                visible.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    visible
}

#[cfg(test)]
mod tests;
