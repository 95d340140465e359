//! Connections: taken while there is room, each served until its client or the server is done.
//!
//! Decides how long a client may take to say something, and how a server stops. What is answered is
//! decided by the router.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::crowd::{Crowd, Place};
use crate::ServeError;

/// How long the head of a request may take, and a connection may idle between two requests.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);
/// Bytes of the head of a request.
const HEAD_BYTES_MAX: usize = 32 << 10;
/// How long connections may take to end once they must.
const LEAVE_TIME_MAX: Duration = Duration::from_secs(1);

/// An address that was taken.
#[derive(Debug)]
pub(crate) struct Listening {
    listener: std::net::TcpListener,
    address: SocketAddr,
}

/// Connections that are still open when nobody new comes in.
#[derive(Debug)]
pub(crate) struct LastGuests {
    connections: JoinSet<()>,
}

impl Listening {
    /// Takes the address.
    pub(crate) fn on(address: SocketAddr) -> Result<Self, ServeError> {
        let failed = |source| ServeError::Bind { address, source };
        let listener = std::net::TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// The address that was taken.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets connections in until the process is told to end.
    pub(crate) async fn until(
        self,
        router: Router,
        mut stop: watch::Receiver<bool>,
    ) -> Result<LastGuests, ServeError> {
        let listener = TcpListener::from_std(self.listener).map_err(ServeError::Start)?;
        let crowd = Crowd::new();
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stop.wait_for(|stop| *stop) => return Ok(LastGuests { connections }),
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
    }
}

impl LastGuests {
    /// Waits for the last answers, not for long.
    pub(crate) async fn leave(mut self) {
        let all_gone = async { while self.connections.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(LEAVE_TIME_MAX, all_gone).await;
    }
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
