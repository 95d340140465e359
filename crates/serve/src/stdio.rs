//! MCP on the standard streams of the process: one client, one connection.

use std::sync::Arc;

use rmcp::service::{ServerInitializeError, ServiceExt as _};
use rmcp::transport::stdio_pipes;
use tokio::sync::watch;

use crate::lines::LineTransport;
use crate::mcp::{Connection, Recorder};
use crate::{ServeError, signals};

/// Answers the client on the standard streams until it hangs up or the process is told to end. Calls
/// that came before that are finished and answered.
///
/// # Errors
/// The system gives no thread or no signals, or the client does not speak the protocol.
pub fn serve_stdio(recorder: Recorder) -> Result<(), ServeError> {
    // One thread: calls are begun in the order in which they came. The disk is waited for elsewhere.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(ServeError::Start)?;
    let ended = runtime.block_on(serve(Arc::new(recorder)));
    // A thread may sit in a read of standard input that never returns.
    runtime.shutdown_background();
    ended
}

async fn serve(recorder: Arc<Recorder>) -> Result<(), ServeError> {
    let stop = signals::told_to_end().map_err(ServeError::Start)?;
    let (over, is_over) = watch::channel(false);
    let connection = Connection::until(Arc::clone(&recorder), is_over);
    let (reader, writer) = stdio_pipes();
    let transport = LineTransport::new(reader, writer, over, stop);
    match connection.serve(transport).await {
        Ok(running) => {
            let _ = running.waiting().await;
        }
        // A client that only looked whether there is a server.
        Err(ServerInitializeError::ConnectionClosed(_)) => {}
        Err(ServerInitializeError::InitializeFailed(error)) => {
            return Err(ServeError::NoBeginning { reason: error.message.into_owned() });
        }
        Err(ServerInitializeError::TransportError { error, .. }) => {
            return Err(ServeError::NoBeginning { reason: error.error.to_string() });
        }
        Err(_) => {
            let reason = "its first messages were not those of the protocol".to_owned();
            return Err(ServeError::NoBeginning { reason });
        }
    }
    recorder.all_calls_ended().await;
    Ok(())
}
