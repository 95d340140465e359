//! What the binary does when it is run again to enter a sandbox.
//!
//! There are two stages, because a namespace for processes is entered by a child. The first enters
//! namespaces and stays outside to see that all inside ends; the second confines itself, starts the
//! program and waits for it. No unsafe code: nothing is done between fork and exec.

use std::io;

use super::line::Line;
use super::order::{Order, Report, Start};
use super::{platform, program, supervise};

/// Which of the two processes this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxStage {
    /// The one that the recorder starts.
    Enter,
    /// The one inside.
    Start,
}

/// Why a stage could not do its work and could not say so to the recorder.
#[derive(Debug, thiserror::Error)]
pub enum SandboxStageError {
    /// It was not started by the recorder.
    #[error("this is for the recorder to run, with its orders on standard input")]
    NoOrders,
    /// The line to the recorder is broken.
    #[error("cannot talk to the recorder")]
    Line(#[from] io::Error),
}

impl SandboxStage {
    /// The argument that names it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enter => "enter",
            Self::Start => "start",
        }
    }

    /// The stage that an argument names.
    #[must_use]
    pub fn parse(argument: &str) -> Option<Self> {
        [Self::Enter, Self::Start].into_iter().find(|stage| stage.as_str() == argument)
    }

    /// Takes its orders from standard input and carries them out. How the program ended is said
    /// there, never by how this process ends.
    ///
    /// # Errors
    /// There is nobody to be told.
    pub fn run(self) -> Result<(), SandboxStageError> {
        let mut line = Line::from_stdin()?;
        let order = line.wait().map_err(|_| SandboxStageError::NoOrders)?;
        let refused = match (self, order) {
            (Self::Enter, Some(Order::Enter(enter))) => platform::enter(&enter, &mut line),
            (Self::Start, Some(Order::Start(start))) => inside(&start, &mut line)?,
            (_, Some(_)) => return Err(SandboxStageError::NoOrders),
            // The recorder is gone before anything was begun.
            (_, None) => Ok(()),
        };
        if let Err(reason) = refused {
            line.send(&Report::Refused(reason))?;
        }
        Ok(())
    }
}

/// Everything that happens inside. The inner result is the refusal to start anything.
pub(super) fn inside(start: &Start, line: &mut Line) -> io::Result<Result<(), String>> {
    let landlock = match platform::confine(start) {
        Ok(landlock) => landlock,
        Err(reason) => return Ok(Err(reason)),
    };
    let Some(wanted) = &start.program else {
        line.send(&Report::Ready(landlock))?;
        return Ok(Ok(()));
    };
    line.send(&Report::Starting)?;
    match program::spawn(wanted, &start.bounds) {
        Ok((pid, channel)) => supervise::to_its_end(pid, channel, line)?,
        Err(reason) => line.send(&Report::Missing(reason))?,
    }
    Ok(Ok(()))
}
