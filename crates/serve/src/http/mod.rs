//! MCP over streamable HTTP, on this machine.
//!
//! Decides what one client can take from the others: how long it may take to say something, how much
//! it may send, how many connections and sessions there are. Every session is a connection of its own
//! to the recorder. Who may come in at all is decided at the `door`.

mod crowd;
mod door;
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
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::ServeError;
use crate::mcp::{Connection, Recorder};
use crate::signals;
use crowd::{Crowd, Guest, Place};
use door::{BODY_BYTES_MAX, Door};
use sessions::Sessions;
pub use token::{Token, TokenError};

/// Where MCP is spoken.
pub const PATH: &str = "/mcp";

/// How long the head of a request may take, and a connection may idle between two requests.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);
/// How long the body may take, and the answer until it begins.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);
/// After how long without a word a session is over. What it recorded stays, and can be sealed.
const SESSION_IDLE_MAX: Duration = Duration::from_secs(60 * 60);
/// Bytes of the head of a request.
const HEAD_BYTES_MAX: usize = 32 << 10;
/// How long calls under way may take once the server is to end.
const END_TIME_MAX: Duration = Duration::from_secs(10);

/// A server that has its address and is not yet answering.
#[derive(Debug)]
pub struct HttpServer {
    recorder: Arc<Recorder>,
    listener: std::net::TcpListener,
    address: SocketAddr,
    door: Door,
}

impl HttpServer {
    /// Takes the address.
    ///
    /// # Errors
    /// Somebody else has it, or it is none of this machine.
    pub fn bind(recorder: Recorder, address: SocketAddr, token: Token) -> Result<Self, ServeError> {
        let failed = |source| ServeError::Bind { address, source };
        let listener = std::net::TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let door = Door::new(address, token);
        Ok(Self { recorder: Arc::new(recorder), listener, address, door })
    }

    /// The address that was taken.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
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
        let mut stop = signals::told_to_end().map_err(ServeError::Start)?;
        let listener = TcpListener::from_std(self.listener).map_err(ServeError::Start)?;
        let crowd = Crowd::new();
        let mut config = StreamableHttpServerConfig::default()
            .with_max_request_body_bytes(BODY_BYTES_MAX)
            // The door has looked already, and more closely.
            .disable_allowed_hosts();
        config.legacy_session_mode = true;
        let streams = config.cancellation_token.clone();
        let router = router(Arc::clone(&self.recorder), self.door, config);
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stop.wait_for(|stop| *stop) => break,
            };
            while connections.try_join_next().is_some() {}
            match accepted {
                Ok((stream, _)) => {
                    if let Some(place) = crowd.enter() {
                        connections.spawn(attend(stream, place, router.clone(), stop.clone()));
                    }
                }
                // Out of descriptors, or a client that went away: neither is for ever.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
        drop(listener);
        let _ = tokio::time::timeout(END_TIME_MAX, self.recorder.all_calls_ended()).await;
        // Clients keep a stream open for what a server might tell them: those end now.
        streams.cancel();
        let all_gone = async { while connections.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(Duration::from_secs(1), all_gone).await;
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

/// Serves one connection until its client or the server is done with it.
async fn attend(stream: TcpStream, place: Place, router: Router, mut stop: watch::Receiver<bool>) {
    // Answers are small and waited for.
    let _ = stream.set_nodelay(true);
    let guest = Arc::clone(&place.guest);
    let (known, inner) = (Arc::clone(&guest), TowerToHyperService::new(router));
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(Arc::clone(&known));
        inner.call(request)
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .keep_alive(true);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        () = guest.told_to_leave() => return,
        _ = stop.wait_for(|stop| *stop) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}
