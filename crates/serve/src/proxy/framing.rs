//! How messages are read, for those who try to break it: no part of what this crate offers.

use std::io::BufRead;

use countersign_runtime::secrets::Redactor;
use rmcp::RoleServer;
use rmcp::service::RxJsonRpcMessage;
use serde_json::Value;

use super::head::{self, Head, Line, Outcome};
use super::lines::{self, LineRead};
use super::{listing, sse};
use crate::plain_call;

/// What sort of message something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageSort {
    /// Wants an answer.
    Request,
    /// Wants none.
    Notification,
    /// Is one.
    Response,
    /// An error about something that had no id.
    Orphan,
}

/// A message, as far as the proxy looks at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageHead {
    /// What it is.
    pub sort: MessageSort,
    /// Its id.
    pub id: Option<Value>,
    /// What it asks for, or tells.
    pub method: Option<String>,
    /// Its parameters, result or error, as they came.
    pub carried: Option<String>,
}

/// The messages of a line.
///
/// # Errors
/// What could be read in two ways.
pub fn heads(line: &[u8]) -> Result<Vec<MessageHead>, String> {
    let found = match head::read(line).map_err(|faulty| faulty.fault.to_string())? {
        Line::Blank => Vec::new(),
        Line::One(head) => vec![head],
        Line::Batch(heads) => heads,
    };
    Ok(found.into_iter().map(plain).collect())
}

fn plain(head: Head<'_>) -> MessageHead {
    let carried = |text: Option<&str>| text.map(str::to_owned);
    match head {
        Head::Request { id, method, params } => MessageHead {
            sort: MessageSort::Request,
            id: Some(id.to_json()),
            method: Some(method),
            carried: carried(params),
        },
        Head::Notification { method, params } => MessageHead {
            sort: MessageSort::Notification,
            id: None,
            method: Some(method),
            carried: carried(params),
        },
        Head::Response { id, outcome: Outcome::Result(text) | Outcome::Error(text) } => {
            MessageHead {
                sort: MessageSort::Response,
                id: Some(id.to_json()),
                method: None,
                carried: carried(Some(text)),
            }
        }
        Head::Orphan => {
            MessageHead { sort: MessageSort::Orphan, id: None, method: None, carried: None }
        }
    }
}

/// The lines of a stream with their breaks; of one that is too long, the id in it.
pub fn lines(stream: &mut impl BufRead, max: usize) -> Vec<Result<Vec<u8>, Option<Value>>> {
    let mut found = Vec::new();
    loop {
        found.push(match lines::next(stream, max) {
            LineRead::Line(line) => Ok(line),
            LineRead::TooLong(id) => Err(id.map(|id| id.to_json())),
            LineRead::End => return found,
        });
    }
}

/// The messages of a stream of events, each as one line.
pub fn messages_of_events(stream: &mut impl BufRead, max: usize) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| sse::next_message(stream, max)).collect()
}

/// The id of a response that is looked for without reading all of it.
#[must_use]
pub fn message_id(line: &[u8]) -> Option<Value> {
    lines::id_in(line).map(|id| id.to_json())
}

/// The names of the tools in the result of `tools/list`, which is JSON; none if there is no list.
///
/// # Errors
/// What could be read in two ways.
pub fn tool_names(result: &str) -> Result<Option<Vec<String>>, String> {
    let page = listing::page(result, &Redactor::none()).map_err(|fault| fault.to_string())?;
    Ok(page.map(|page| page.tools.into_iter().map(|tool| tool.name).collect()))
}

/// What a line asks our own server for.
#[must_use]
pub fn method_at_server(line: &[u8]) -> Option<String> {
    let message = crate::lines::read_message(line)?;
    Some(message.get("method")?.as_str()?.to_owned())
}

/// The call in a line that our own server reads in one pass, as it would be written.
#[must_use]
pub fn plain_call(line: &[u8]) -> Option<String> {
    written(&plain_call::read(line)?)
}

/// What the library reads in a line, as it would be written.
#[must_use]
pub fn call_by_the_library(line: &[u8]) -> Option<String> {
    written(&serde_json::from_slice(line).ok()?)
}

fn written(message: &RxJsonRpcMessage<RoleServer>) -> Option<String> {
    serde_json::to_string(message).ok()
}
