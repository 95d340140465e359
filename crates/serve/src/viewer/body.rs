//! Bodies that are sent as they are made: files piece by piece, and live news.
//!
//! Nobody waits with a thread for a client that does not read: a piece is made when the one before
//! was taken.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use hyper::body::Frame;
use tokio::sync::mpsc;

/// Bytes that are read and sent at once.
const PIECE_BYTES: u64 = 256 << 10;
/// Pieces that may wait for the client.
const PIECES_WAITING: usize = 2;

/// Whatever comes out of a channel.
#[derive(Debug)]
pub(super) struct Pieces {
    come: mpsc::Receiver<io::Result<Bytes>>,
}

impl Pieces {
    /// A body, and where its pieces go.
    pub(super) fn channel(waiting: usize) -> (mpsc::Sender<io::Result<Bytes>>, Body) {
        let (send, come) = mpsc::channel(waiting);
        (send, Body::new(Self { come }))
    }
}

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.come.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}

/// The bytes of a file from `from` to before `to`.
pub(super) fn of_file(file: File, from: u64, to: u64) -> Body {
    let (send, body) = Pieces::channel(PIECES_WAITING);
    tokio::spawn(async move {
        let file = Arc::new(file);
        let mut at = from;
        while at < to {
            let (file, here) = (Arc::clone(&file), at);
            let length = (to - at).min(PIECE_BYTES);
            let read = tokio::task::spawn_blocking(move || piece(&file, here, length)).await;
            let piece = read.unwrap_or_else(|error| Err(io::Error::other(error)));
            let ended = piece.is_err();
            if send.send(piece.map(Bytes::from)).await.is_err() || ended {
                return;
            }
            at += length;
        }
    });
    body
}

fn piece(file: &File, at: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, at)?;
    Ok(bytes)
}
