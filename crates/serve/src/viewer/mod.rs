//! The viewer: a read-only API over a workspace, and the page that shows it.
//!
//! Decides what can be asked and how it is answered. Everything is read from the files of the
//! workspace as they are; the one thing that changes anything is the answer to a question, which is
//! signed with the operator's key. The page does not believe the verdicts of this server: it has a
//! verifier of its own.

mod answer;
mod api;
mod asked;
mod assets;
mod body;
mod desk;
mod event;
mod events;
mod files;
mod flows;
mod ledger;
mod live;
mod log;
mod questions;
mod range;
mod traces;
mod verdicts;
mod work;

use std::net::SocketAddr;
use std::sync::Arc;

use countersign_runtime::Workspace;
use countersign_runtime::secrets::Redactor;

use crate::ServeError;
use crate::http::Token;
use crate::http::door::Door;
use crate::http::listen::Listening;
use crate::signals;
use desk::Desk;

/// What a viewer shows, and to whom.
#[derive(Debug)]
pub struct ViewerSetup {
    /// The workspace.
    pub workspace: Workspace,
    /// Takes secrets out of what people answer.
    pub redactor: Redactor,
    /// What opens the API.
    pub token: Token,
}

/// A viewer that has its address and is not yet answering.
#[derive(Debug)]
pub struct ViewerServer {
    desk: Arc<Desk>,
    listening: Listening,
    door: Door,
}

impl ViewerServer {
    /// Takes the address.
    ///
    /// # Errors
    /// Somebody else has it, or it is none of this machine.
    pub fn bind(setup: ViewerSetup, address: SocketAddr) -> Result<Self, ServeError> {
        let listening = Listening::on(address)?;
        let door = Door::new(listening.address(), setup.token);
        let desk = Arc::new(Desk::new(setup.workspace, setup.redactor));
        Ok(Self { desk, listening, door })
    }

    /// The address that was taken.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.listening.address()
    }

    /// Answers until the process is told to end.
    ///
    /// # Errors
    /// The system gives no thread or no signals.
    pub fn run(self) -> Result<(), ServeError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(ServeError::Start)?;
        let ended = runtime.block_on(self.serve());
        // A verification under way is not waited for: it writes nothing.
        runtime.shutdown_background();
        ended
    }

    async fn serve(self) -> Result<(), ServeError> {
        let stop = signals::told_to_end().map_err(ServeError::Start)?;
        desk::begin(&self.desk).map_err(ServeError::Start)?;
        let router = api::router(Arc::clone(&self.desk), self.door);
        let guests = self.listening.until(router, stop).await?;
        self.desk.close();
        guests.leave().await;
        Ok(())
    }
}
