//! JSON-RPC messages as lines of a pair of streams.
//!
//! Decides what is a message, what is answered to a line that is none, and when a connection is over:
//! not at the end of input, but when every call that came before it has been answered. The transport
//! that comes with the library drops what is still under way.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::RoleServer;
use rmcp::model::{ClientNotification, ErrorCode, ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use crate::plain_call;

/// Bytes of one message: the largest arguments that a tool takes, in JSON's longest spelling.
const LINE_BYTES_MAX: usize = 32 << 20;
/// Calls of one connection that may be under way at once.
const OPEN_CALLS_MAX: usize = 256;

/// What was received of one connection.
type Received = RxJsonRpcMessage<RoleServer>;
/// What is sent on one connection.
type Sent = TxJsonRpcMessage<RoleServer>;

/// A transport of lines.
#[derive(Debug)]
pub(crate) struct LineTransport<R, W> {
    lines: Lines<R>,
    writer: Arc<tokio::sync::Mutex<W>>,
    open: Arc<OpenCalls>,
    /// True once no further message is read; read by whoever waits for an answer from the client.
    over: watch::Sender<bool>,
    /// Set to true by whoever wants the connection to end.
    stop: watch::Receiver<bool>,
    refusal: Option<JoinHandle<()>>,
}

impl<R: AsyncRead + Unpin, W> LineTransport<R, W> {
    pub(crate) fn new(
        reader: R,
        writer: W,
        over: watch::Sender<bool>,
        stop: watch::Receiver<bool>,
    ) -> Self {
        Self {
            lines: Lines { reader: BufReader::new(reader), line: Vec::new(), too_long: false },
            writer: Arc::new(tokio::sync::Mutex::new(writer)),
            open: Arc::default(),
            over,
            stop,
            refusal: None,
        }
    }
}

impl<R, W> Transport<RoleServer> for LineTransport<R, W>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: Sent,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let (writer, open) = (Arc::clone(&self.writer), Arc::clone(&self.open));
        async move {
            let written = write(&writer, &message).await;
            if let JsonRpcMessage::Response(response) = &message {
                open.end(&response.id);
            } else if let JsonRpcMessage::Error(error) = &message
                && let Some(id) = &error.id
            {
                open.end(id);
            }
            written
        }
    }

    /// The next message. Dropping the future loses nothing: it is called anew after every message
    /// that is sent.
    async fn receive(&mut self) -> Option<Received> {
        loop {
            if let Some(refusal) = &mut self.refusal {
                let _ = refusal.await;
                self.refusal = None;
            }
            if *self.over.borrow() {
                self.open.all_ended().await;
                return None;
            }
            let read = tokio::select! {
                read = self.lines.next() => read,
                _ = self.stop.wait_for(|stop| *stop) => LineRead::End,
            };
            let refused = match read {
                LineRead::End => {
                    self.over.send_replace(true);
                    continue;
                }
                LineRead::TooLong => Refused::of(
                    ErrorCode::INVALID_REQUEST,
                    format!("a message has at most {LINE_BYTES_MAX} bytes"),
                ),
                LineRead::Line(line) => match self.admit(&line) {
                    Ok(Some(message)) => return Some(message),
                    Ok(None) => continue,
                    Err(refused) => *refused,
                },
            };
            let writer = Arc::clone(&self.writer);
            // In a task of its own: this future may be dropped at any point, and half a line must
            // never be written.
            self.refusal = Some(tokio::spawn(async move {
                let _ = write(&writer, &Sent::error(refused.error, refused.id)).await;
            }));
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.writer.lock().await.shutdown().await
    }
}

impl<R, W> LineTransport<R, W> {
    /// The message in a line, if there is one, once its call is noted.
    fn admit(&self, line: &[u8]) -> Result<Option<Received>, Box<Refused>> {
        let Some(message) = parse(line)? else { return Ok(None) };
        match &message {
            JsonRpcMessage::Request(request) => self.open.begin(&request.id)?,
            JsonRpcMessage::Notification(notification) => {
                // A cancelled call is not answered.
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.open.end(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        Ok(Some(message))
    }
}

async fn write<W: AsyncWrite + Unpin>(
    writer: &tokio::sync::Mutex<W>,
    message: &Sent,
) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let mut writer = writer.lock().await;
    writer.write_all(&line).await?;
    writer.flush().await
}

/// A line that is answered with an error at once.
#[derive(Debug, PartialEq)]
struct Refused {
    id: Option<RequestId>,
    error: ErrorData,
}

impl Refused {
    fn of(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { id: None, error: ErrorData::new(code, message.into(), None) }
    }
}

fn parse(line: &[u8]) -> Result<Option<Received>, Box<Refused>> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    if let Some(call) = plain_call::read(line) {
        return Ok(Some(call));
    }
    let fault = match serde_json::from_slice::<Received>(line) {
        Ok(message) => return Ok(Some(message)),
        Err(fault) => fault,
    };
    let Ok(value) = serde_json::from_slice::<Value>(line) else {
        let message = format!("not a JSON document: {fault}");
        return Err(Box::new(Refused::of(ErrorCode::PARSE_ERROR, message)));
    };
    let message = if value.is_array() {
        "batches are not part of this protocol; send one message per line"
    } else {
        "not a JSON-RPC 2.0 request, notification or response"
    };
    let id = value.get("id").and_then(|id| serde_json::from_value(id.clone()).ok());
    Err(Box::new(Refused { id, ..Refused::of(ErrorCode::INVALID_REQUEST, message) }))
}

/// The message in a line, as JSON, if it is one.
pub(crate) fn read_message(line: &[u8]) -> Option<Value> {
    serde_json::to_value(parse(line).ok()??).ok()
}

/// The calls of one connection that have not been answered.
#[derive(Debug, Default)]
struct OpenCalls {
    ids: Mutex<HashSet<RequestId>>,
    ended: Notify,
}

impl OpenCalls {
    fn begin(&self, id: &RequestId) -> Result<(), Box<Refused>> {
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        let fault = if ids.len() >= OPEN_CALLS_MAX {
            format!("{OPEN_CALLS_MAX} calls are under way on this connection; wait for one to end")
        } else if ids.insert(id.clone()) {
            return Ok(());
        } else {
            format!("a call with the id {id} is under way already")
        };
        let refused = Refused::of(ErrorCode::INVALID_REQUEST, fault);
        Err(Box::new(Refused { id: Some(id.clone()), ..refused }))
    }

    fn end(&self, id: &RequestId) {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        self.ended.notify_waiters();
    }

    async fn all_ended(&self) {
        loop {
            let ended = self.ended.notified();
            if self.ids.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
                return;
            }
            ended.await;
        }
    }
}

#[derive(Debug)]
enum LineRead {
    Line(Vec<u8>),
    TooLong,
    End,
}

#[derive(Debug)]
struct Lines<R> {
    reader: BufReader<R>,
    /// What has come of the next line.
    line: Vec<u8>,
    /// Whether the rest of the line is passed over.
    too_long: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// The next line. What has come of it is kept where the future is dropped. A line that the end of
    /// input cuts off is none; a stream that cannot be read has ended.
    async fn next(&mut self) -> LineRead {
        loop {
            let buffer = match self.reader.fill_buf().await {
                Ok([]) | Err(_) => return LineRead::End,
                Ok(buffer) => buffer,
            };
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let (piece, _) = buffer.split_at(end.unwrap_or(buffer.len()));
            let used = piece.len() + usize::from(end.is_some());
            if self.line.len() + piece.len() > LINE_BYTES_MAX {
                self.too_long = true;
                self.line = Vec::new();
            }
            if !self.too_long {
                self.line.extend_from_slice(piece);
            }
            self.reader.consume(used);
            if end.is_some() {
                let line = std::mem::take(&mut self.line);
                let too_long = std::mem::take(&mut self.too_long);
                return if too_long { LineRead::TooLong } else { LineRead::Line(line) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(line: &str) -> (Option<RequestId>, i32) {
        let refused = parse(line.as_bytes()).unwrap_err();
        (refused.id, refused.error.code.0)
    }

    #[test]
    fn what_is_no_message_is_refused_with_the_code_and_id_that_it_has() {
        let seven = Some(RequestId::Number(7));
        for (line, expected) in [
            ("{", (None, -32700)),
            ("\u{feff}{}", (None, -32700)),
            ("[]", (None, -32600)),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, (None, -32600)),
            ("7", (None, -32600)),
            (r#"{"jsonrpc":"2.0","id":7}"#, (seven.clone(), -32600)),
            (r#"{"id":7,"method":"ping"}"#, (seven, -32600)),
        ] {
            assert_eq!(refusal(line), expected, "{line}");
        }
        assert!(parse(b" \r").unwrap().is_none());
        assert!(parse(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r").unwrap().is_some());
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_passed_over_and_the_next_one_is_read() {
        let long = vec![b'x'; LINE_BYTES_MAX + 1];
        let input = [&long[..], b"\nshort\ncut off"].concat();
        let mut lines =
            Lines { reader: BufReader::new(&input[..]), line: Vec::new(), too_long: false };
        assert!(matches!(lines.next().await, LineRead::TooLong));
        assert!(matches!(lines.next().await, LineRead::Line(line) if line == b"short"));
        assert!(matches!(lines.next().await, LineRead::End));
    }

    #[test]
    fn an_id_is_used_by_one_open_call_at_a_time() {
        let (open, id) = (OpenCalls::default(), RequestId::Number(1));
        open.begin(&id).unwrap();
        let refused = open.begin(&id).unwrap_err();
        assert_eq!(refused.error.message, "a call with the id 1 is under way already");
        open.end(&id);
        open.begin(&id).unwrap();
    }

    #[test]
    fn so_many_calls_are_open_at_once_and_no_more() {
        let open = OpenCalls::default();
        for id in 0..256 {
            open.begin(&RequestId::Number(id)).unwrap();
        }
        assert!(open.begin(&RequestId::Number(256)).is_err());
    }
}
