//! MCP over stdio and HTTP, a proxy before somebody else's MCP server, the hooks of agents, and the
//! viewer. The only async code.
//!
//! Decides how an outside agent reaches the recorder: what it can ask, how it is answered, and who may
//! ask at all. What is recorded and how it is judged is decided below, in `runtime` and `gate`.

mod arguments;
mod asking;
mod causes;
pub mod hook;
mod http;
mod lines;
mod mcp;
mod plain_call;
mod proxy;
mod question;
mod scan;
mod signals;
mod stdio;
mod viewer;

use std::io;
use std::net::SocketAddr;

pub use http::{HttpServer, PATH, Token, TokenError};
pub use mcp::{McpSetup, Recorder};
#[doc(hidden)]
pub use proxy::framing;
pub use proxy::{
    HeaderFault, HttpTarget, ProxyEnd, ProxyError, ProxySetup, ProxyTarget, TargetHeader, run_proxy,
};
pub use stdio::serve_stdio;
pub use viewer::{ViewerServer, ViewerSetup};

/// Why a server could not start, or ended before its time.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address could not be taken.
    #[error("cannot listen on {address}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The system does not give what a server needs.
    #[error("cannot start the server")]
    Start(#[source] io::Error),
    /// The client did not begin as the protocol has it.
    #[error("the client did not begin a connection: {reason}")]
    NoBeginning {
        /// What it did instead.
        reason: String,
    },
}
