//! How a command ends: its exit code, and what is said if it could not do what was asked.

use std::error::Error;
use std::fmt;
use std::io;
use std::process::ExitCode;

/// How a command ended. Every command uses the same five codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done; for a question, the answer is yes.
    Done,
    /// Could not do it.
    Failed,
    /// The arguments make no sense.
    Usage,
    /// The answer is no: not valid, verification failed, request refused.
    No,
    /// Nothing wrong was found, but the trace is open or its signer is not pinned.
    Open,
}

impl Exit {
    /// The number that the process ends with.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::No => 3,
            Self::Open => 4,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Why a command did not do what was asked, in the form in which it is printed.
///
/// Nothing in it needs to be escaped beforehand: [`crate::Output`] escapes every line.
#[derive(Debug)]
pub struct CommandError {
    /// The exit code.
    pub exit: Exit,
    /// What went wrong; its sources are printed below it.
    pub error: Box<dyn Error + Send + Sync>,
    /// Lines that belong to the error: both values, or every fault.
    pub details: Vec<String>,
    /// What can be done about it.
    pub hints: Vec<String>,
}

impl CommandError {
    /// An error with this exit code.
    pub fn new(exit: Exit, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { exit, error: error.into(), details: Vec::new(), hints: Vec::new() }
    }

    /// It could not be done.
    pub fn failed(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(Exit::Failed, error)
    }

    /// It could not be done: `doing` says what was tried, `cause` why it failed.
    pub fn failed_doing(
        doing: impl Into<String>,
        cause: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self::failed(Doing { doing: doing.into(), cause: cause.into() })
    }

    /// The arguments make no sense.
    pub fn usage(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(Exit::Usage, error)
    }

    /// The answer is no.
    pub fn no(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(Exit::No, error)
    }

    /// The same with lines that belong to the error.
    #[must_use]
    pub fn with_details(mut self, details: impl IntoIterator<Item = String>) -> Self {
        self.details.extend(details);
        self
    }

    /// The same with a hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// The texts of the error's sources, outermost first, without those that only repeat the end
    /// of what was said before.
    #[must_use]
    pub fn causes(&self) -> Vec<String> {
        let mut said = self.error.to_string();
        let mut causes = Vec::new();
        let mut next = self.error.source();
        while let Some(cause) = next {
            let text = text_of(cause);
            if !said.ends_with(&text) {
                said.clone_from(&text);
                causes.push(text);
            }
            next = cause.source();
        }
        causes
    }
}

/// What an error says; the system's own errors in the form of ours, without their number.
fn text_of(error: &(dyn Error + 'static)) -> String {
    let text = error.to_string();
    match error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
        Some(number) => {
            let text = text.trim_end_matches(&format!(" (os error {number})"));
            let mut rest = text.chars();
            rest.next().map_or_else(String::new, |first| first.to_lowercase().chain(rest).collect())
        }
        None => text,
    }
}

/// What was being done when something failed.
#[derive(Debug)]
struct Doing {
    doing: String,
    cause: Box<dyn Error + Send + Sync>,
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.doing)
    }
}

impl Error for Doing {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.cause.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_the_documented_ones() {
        let all = [Exit::Done, Exit::Failed, Exit::Usage, Exit::No, Exit::Open];
        assert_eq!(all.map(Exit::code), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn causes_are_listed_once() {
        let innermost = io::Error::other("disk on fire");
        let middle = Doing { doing: "cannot sync: disk on fire".into(), cause: innermost.into() };
        let error = CommandError::failed_doing("cannot append to `t`", middle);
        assert_eq!(error.causes(), ["cannot sync: disk on fire"]);
    }

    #[cfg(unix)]
    #[test]
    fn errors_of_the_system_read_like_ours() {
        let error = CommandError::failed_doing("cannot read `x`", io::Error::from_raw_os_error(2));
        assert_eq!(error.causes(), ["no such file or directory"]);
    }
}
