//! What a trace is judged against, and who else looks on.

use std::io;

use countersign_format::event::Event;
use countersign_protocol::LogPin;

use crate::findings::Findings;
use crate::log::LogView;
use crate::pipeline::Ledger;

/// Whether artifacts are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Evidence {
    Read,
    Left,
}

/// A ledger that was opened, and what the log says of it.
pub(crate) struct Against<'a> {
    pub(crate) ledger: Ledger<'a>,
    pub(crate) pin: Option<LogPin>,
    pub(crate) view: Option<LogView>,
    pub(crate) onlooker: Option<&'a mut dyn Onlooker>,
}

/// Somebody who holds something else against the events of a trace.
pub(crate) trait Onlooker {
    /// The next line: an event, or nothing that could be read as one. An error ends the reading.
    fn line(&mut self, event: Option<&Event>) -> io::Result<()>;

    /// There are no more; the artifacts were not looked at yet.
    fn end(&mut self, findings: &mut Findings) -> io::Result<()>;
}
