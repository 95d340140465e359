//! MCP over streamable HTTP, on this machine.
//!
//! Decides what one client can take from the others: how long it may take to say something, how much
//! it may send, how many connections and sessions there are. Every session is a connection of its own
//! to the recorder. Who may come in at all is decided at the `door`.

pub(crate) mod crowd;
pub(crate) mod door;
pub(crate) mod listen;
mod sessions;
mod token;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};

use crate::ServeError;
use crate::mcp::{Connection, Recorder};
use crate::signals;
use crowd::Guest;
use door::{BODY_BYTES_MAX, Door};
use listen::Listening;
use sessions::Sessions;
pub use token::{Token, TokenError};

/// Where MCP is spoken.
pub const PATH: &str = "/mcp";

/// How long the body may take, and the answer until it begins.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);
/// After how long without a word a session is over. What it recorded stays, and can be sealed.
const SESSION_IDLE_MAX: Duration = Duration::from_secs(60 * 60);
/// How long calls under way may take once the server is to end.
const END_TIME_MAX: Duration = Duration::from_secs(10);

/// A server that has its address and is not yet answering.
#[derive(Debug)]
pub struct HttpServer {
    recorder: Arc<Recorder>,
    listening: Listening,
    door: Door,
}

impl HttpServer {
    /// Takes the address.
    ///
    /// # Errors
    /// Somebody else has it, or it is none of this machine.
    pub fn bind(recorder: Recorder, address: SocketAddr, token: Token) -> Result<Self, ServeError> {
        let listening = Listening::on(address)?;
        let door = Door::new(listening.address(), token);
        Ok(Self { recorder: Arc::new(recorder), listening, door })
    }

    /// The address that was taken.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.listening.address()
    }

    /// Answers until the process is told to end; calls under way are finished first.
    ///
    /// # Errors
    /// The system gives no thread or no signals.
    pub fn run(self) -> Result<(), ServeError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(ServeError::Start)?;
        runtime.block_on(self.serve())
    }

    async fn serve(self) -> Result<(), ServeError> {
        let stop = signals::told_to_end().map_err(ServeError::Start)?;
        let mut config = StreamableHttpServerConfig::default()
            .with_max_request_body_bytes(BODY_BYTES_MAX)
            // The door has looked already, and more closely.
            .disable_allowed_hosts();
        config.legacy_session_mode = true;
        let streams = config.cancellation_token.clone();
        let router = router(Arc::clone(&self.recorder), self.door, config);
        let guests = self.listening.until(router, stop).await?;
        let _ = tokio::time::timeout(END_TIME_MAX, self.recorder.all_calls_ended()).await;
        // Clients keep a stream open for what a server might tell them: those end now.
        streams.cancel();
        guests.leave().await;
        Ok(())
    }
}

fn router(recorder: Arc<Recorder>, door: Door, config: StreamableHttpServerConfig) -> Router {
    let mut sessions = LocalSessionManager::default();
    sessions.session_config = SessionConfig::default();
    sessions.session_config.keep_alive = Some(SESSION_IDLE_MAX);
    let sessions = Arc::new(sessions);
    let connect = move || Ok::<_, io::Error>(Connection::new(Arc::clone(&recorder)));
    let service = StreamableHttpService::new(connect, Arc::clone(&sessions), config);
    Router::new()
        .route_service(PATH, service)
        .layer(from_fn_with_state(Arc::new(Sessions::new(sessions)), sessions::bound))
        .layer(from_fn_with_state(Arc::new(door), ask_at_the_door))
}

/// Turns away who does not belong here, and bounds the time of who does.
async fn ask_at_the_door(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response {
    if let Err(refused) = door.admit(request.uri(), request.headers()) {
        return refused.into_response();
    }
    if let Some(guest) = request.extensions().get::<Arc<Guest>>() {
        guest.is_known_now();
    }
    let answered = tokio::time::timeout(REQUEST_TIME_MAX, next.run(request)).await;
    answered.unwrap_or_else(|_| {
        (StatusCode::REQUEST_TIMEOUT, "the request took too long to arrive\n").into_response()
    })
}
