//! What the recorder tells the process that enters a sandbox, and what that answers.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::plan::Plan;

/// From the recorder.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// The first: enter the namespaces of the plan.
    Enter(Enter),
    /// Answers [`Report::Unmapped`]: whether the recorder has mapped the users.
    Mapped(bool),
    /// For the process inside: confine yourself as planned and start the program.
    Start(Start),
    /// Ask everything that the call started to end.
    Terminate,
}

/// What is needed to enter namespaces.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Enter {
    pub(crate) plan: Plan,
    pub(crate) bounds: Bounds,
}

/// What is needed to start a program.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Start {
    pub(crate) plan: Plan,
    pub(crate) bounds: Bounds,
    /// None when the recorder only wants to know what can be had.
    pub(crate) program: Option<Program>,
}

/// Where a program may go. Paths are canonical; they are `OsString`s because serde would refuse a
/// path that is not UTF-8.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Bounds {
    pub(crate) root: OsString,
    /// Whether the root may only be read.
    pub(crate) read_only: bool,
    /// Further directories that may be written.
    pub(crate) write: Vec<OsString>,
    /// What must be neither readable nor writable.
    pub(crate) hidden: Vec<OsString>,
    /// The directory for temporary files, where there is no private one.
    pub(crate) scratch: Option<OsString>,
    pub(crate) network: bool,
    pub(crate) memory_bytes: u64,
}

impl Bounds {
    /// Every directory below which may be written, apart from temporary files.
    pub(crate) fn writable(&self) -> impl Iterator<Item = &Path> {
        let root = (!self.read_only).then_some(&self.root);
        root.into_iter().chain(&self.write).map(Path::new)
    }

    /// The root, if it may only be read.
    pub(crate) fn read_only_root(&self) -> Option<&Path> {
        self.read_only.then(|| Path::new(&self.root))
    }

    /// The hidden paths, without those inside another.
    pub(crate) fn hidden(&self) -> Vec<PathBuf> {
        let all = || self.hidden.iter().map(Path::new);
        let inside = |path: &Path| all().any(|other| path != other && path.starts_with(other));
        let mut outermost: Vec<_> =
            all().filter(|path| !inside(path)).map(Path::to_path_buf).collect();
        outermost.sort();
        outermost.dedup();
        outermost
    }
}

/// What is run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Program {
    pub(crate) argv: Vec<OsString>,
    pub(crate) directory: OsString,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) stdin: Option<String>,
    /// The variable that tells the program on which descriptor it may signal, if it may.
    pub(crate) signals: Option<String>,
}

/// To the recorder.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Report {
    /// A new user namespace waits for its users to be mapped from outside.
    Unmapped,
    /// The namespaces are entered; the process inside waits for [`Order::Start`].
    Entered,
    /// Nothing was to be started: the plan can be had, with this version of Landlock.
    Ready(i32),
    /// The isolation that was planned is reached, and the program is about to run. Said before, so
    /// that no program can have run of which it was not said.
    Starting,
    /// The plan cannot be had, for this reason. Nothing was started.
    Refused(String),
    /// The program cannot be run after all, for this reason. Nothing was started.
    Missing(String),
    /// What the program wrote to the descriptor for signals.
    Signal(Vec<u8>),
    /// The program ended by itself.
    Exited(i32),
    /// The program was ended by a signal.
    Signalled(i32),
    /// The process inside was ended by a signal, and everything with it.
    Lost(i32),
}
