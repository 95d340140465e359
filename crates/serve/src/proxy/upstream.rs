//! Where a client's messages go.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::head::Head;
use super::http::HttpUpstream;
use super::process::{ServerProcess, told};
use super::relay::Relay;

/// A server.
#[derive(Debug)]
pub(super) enum Upstream {
    /// A process that we started.
    Process(ServerProcess),
    /// One that somebody else runs.
    Http(HttpUpstream),
}

impl Upstream {
    /// Sends one line. Its head says what may be expected in return; a batch has none.
    pub(super) fn send(
        &self,
        relay: &Arc<Relay>,
        line: &[u8],
        head: Option<&Head<'_>>,
    ) -> io::Result<()> {
        match self {
            Self::Process(process) => process.send(line),
            Self::Http(http) => {
                http.send(relay, line, head);
                Ok(())
            }
        }
    }

    /// Whether it has not taken a message for this long. Then it takes no other one either.
    pub(super) fn is_stuck(&self, patience: Duration) -> bool {
        matches!(self, Self::Process(process) if process.is_stuck(patience))
    }

    /// Ends it, or our part in it; says how it ended.
    pub(super) fn end(&self) -> String {
        match self {
            Self::Process(process) => told(process.end()),
            Self::Http(http) => {
                http.end();
                "the connection to the server has ended".to_owned()
            }
        }
    }
}
