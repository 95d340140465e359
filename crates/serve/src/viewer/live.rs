//! News: what changed in the workspace, told to whoever listens.
//!
//! Decides when to look (when the store tells of a change, and now and then) and what is told. News
//! are hints: a listener that falls behind is told to look for itself, and nothing is kept for one
//! that went away.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use countersign_format::event::TraceKind;
use countersign_format::id::Ulid;
use countersign_format::report::VerificationReport;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::mpsc;

use super::answer::ApiFailure;
use super::asked::Asked;
use super::body::Pieces;
use super::desk::Desk;
use super::events::since;
use super::traces::TraceBrief;
use super::verdicts::brief;

/// How long to wait for news before looking all the same.
const LOOK_LONGEST: Duration = Duration::from_secs(2);
/// Changes that come so close together are told together.
const TOGETHER: Duration = Duration::from_millis(100);
/// News that wait for a listener.
const NEWS_WAITING: usize = 64;
/// Rows of one message; of more, the listener asks.
const ROWS_MAX: usize = 200;
/// How often a silent line says that it is alive.
const PING: Duration = Duration::from_secs(15);
/// Listeners at once.
const LISTENERS_MAX: usize = 64;

/// Something that everybody may want to know.
#[derive(Debug, Clone)]
enum News {
    /// These traces changed.
    Traces(Arc<Vec<TraceBrief>>, Arc<Vec<Ulid>>),
    /// So many questions wait.
    Questions(usize),
    /// The board changed.
    Work,
    /// A verdict was reached.
    Verdict(String, Value),
}

/// Where news come from.
#[derive(Debug)]
pub(super) struct Newsroom {
    tell: broadcast::Sender<News>,
    closed: AtomicBool,
}

impl Default for Newsroom {
    fn default() -> Self {
        Self { tell: broadcast::channel(NEWS_WAITING).0, closed: AtomicBool::new(false) }
    }
}

impl Newsroom {
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    /// A verdict was reached.
    pub(super) fn verdict(&self, id: Ulid, report: &VerificationReport) {
        let verdict = serde_json::to_value(brief(report)).unwrap_or_default();
        let _ = self.tell.send(News::Verdict(id.to_string(), verdict));
    }
}

/// Looks for changes as long as the server runs.
pub(super) fn begin(desk: &Arc<Desk>) -> io::Result<()> {
    let desk = Arc::clone(desk);
    // Known before anybody listens: whatever changes later is news to them.
    let seen = desk.workspace.store().changes_seen();
    let known = desk.index(|index| index.trace_lengths()).unwrap_or_default();
    let known = known.into_iter().collect();
    std::thread::Builder::new()
        .name("news".into())
        .spawn(move || watch(&desk, known, seen))
        .map(drop)
}

fn watch(desk: &Desk, mut known: HashMap<Ulid, i64>, mut seen: u64) {
    let store = desk.workspace.store();
    let mut asked = None;
    while !desk.news.closed.load(Ordering::Relaxed) {
        store.wait_for_changes(seen, LOOK_LONGEST);
        std::thread::sleep(TOGETHER);
        seen = store.changes_seen();
        let Ok(lengths) = desk.index(|index| index.trace_lengths()) else { continue };
        let differs = lengths.iter().filter(|(id, bytes)| known.get(id) != Some(bytes));
        let mut changed: Vec<Ulid> = differs.map(|(id, _)| *id).collect();
        let now: HashMap<Ulid, i64> = lengths.into_iter().collect();
        changed.extend(known.keys().filter(|id| !now.contains_key(id)));
        known = now;
        if desk.news.tell.receiver_count() == 0 {
            asked = None;
            continue;
        }
        if !changed.is_empty() {
            tell_of(desk, changed);
        }
        // A deadline passes without any event.
        // One that is answered while another comes leaves as many as before.
        let waiting = desk.workspace.questions().map(|(questions, _)| {
            questions.into_iter().map(|question| question.id).collect::<Vec<String>>()
        });
        let waiting = waiting.ok();
        if waiting != asked {
            let count = waiting.as_ref().map_or(0, Vec::len);
            let _ = desk.news.tell.send(News::Questions(count));
            asked = waiting;
        }
    }
}

fn tell_of(desk: &Desk, changed: Vec<Ulid>) {
    let mut rows = Vec::new();
    for id in changed.iter().rev().take(ROWS_MAX) {
        if let Ok(Some(row)) = desk.index(|index| index.find_trace(*id)) {
            rows.push(row);
        }
    }
    // A trace that still grows is verified when somebody asks, not after each of its events.
    desk.verdicts.want(rows.iter().filter(|row| row.closed).map(|row| (row.id, row.bytes)));
    let work = rows.iter().any(|row| row.kind == Some(TraceKind::Work));
    let briefs = rows.iter().map(|row| TraceBrief::of(row, desk)).collect();
    let _ = desk.news.tell.send(News::Traces(Arc::new(briefs), Arc::new(changed)));
    if work {
        let _ = desk.news.tell.send(News::Work);
    }
}

/// Whom a listener wants to hear of, and from where on.
struct Followed {
    id: Ulid,
    next: u64,
}

pub(super) fn listen(desk: Arc<Desk>, asked: &Asked) -> Result<Response, ApiFailure> {
    let trace: Option<Ulid> = asked.parsed("trace")?;
    let from: Option<u64> = asked.parsed("from")?;
    if from.is_some() && trace.is_none() {
        return Err(ApiFailure::bad("`from` is a place in a trace: name it with `trace`"));
    }
    if let Some(id) = trace {
        super::traces::row(&desk, id)?;
    }
    if desk.news.tell.receiver_count() >= LISTENERS_MAX {
        let status = axum::http::StatusCode::SERVICE_UNAVAILABLE;
        return Err(ApiFailure::new(status, "failed", "too many listen already"));
    }
    let hears = desk.news.tell.subscribe();
    let followed = trace.map(|id| Followed { id, next: from.unwrap_or(0) });
    let (send, body) = Pieces::channel(NEWS_WAITING);
    tokio::spawn(async move {
        let mut listener = Listener { desk, send, followed };
        // It went away: there is nobody to tell.
        let _ = listener.attend(hears).await;
    });
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    Ok(response)
}

/// The listener is no longer there.
struct Gone;

struct Listener {
    desk: Arc<Desk>,
    send: mpsc::Sender<io::Result<Bytes>>,
    followed: Option<Followed>,
}

impl Listener {
    async fn attend(&mut self, mut hears: broadcast::Receiver<News>) -> Result<(), Gone> {
        self.greet().await?;
        self.follow().await?;
        loop {
            let news = tokio::select! {
                news = hears.recv() => news,
                () = tokio::time::sleep(PING) => {
                    self.line(": still here\n\n".to_owned()).await?;
                    continue;
                }
                () = self.send.closed() => return Err(Gone),
            };
            match news {
                Ok(News::Traces(briefs, changed)) => {
                    self.say("traces", &json!({ "items": &*briefs })).await?;
                    // What has no row here, because it is gone or one too many, must be looked for.
                    if briefs.len() < changed.len() {
                        self.greet().await?;
                    }
                    if self.followed.as_ref().is_some_and(|it| changed.contains(&it.id)) {
                        self.follow().await?;
                    }
                }
                Ok(News::Questions(count)) => {
                    self.say("questions", &json!({ "count": count })).await?
                }
                Ok(News::Work) => self.say("work", &json!({ "changed": true })).await?,
                Ok(News::Verdict(trace_id, verdict)) => {
                    let verdict = json!({ "trace_id": trace_id, "verdict": verdict });
                    self.say("verdict", &verdict).await?;
                }
                // Whatever was missed, looking again shows it.
                Err(RecvError::Lagged(_)) => {
                    self.greet().await?;
                    self.follow().await?;
                }
                Err(RecvError::Closed) => return Err(Gone),
            }
            if self.desk.news.closed.load(Ordering::Relaxed) {
                return Err(Gone);
            }
        }
    }

    /// Says that everything is worth a look.
    async fn greet(&mut self) -> Result<(), Gone> {
        self.say("hello", &json!({ "now": self.desk.workspace.now() })).await
    }

    /// Tells what is new in the trace that is followed.
    async fn follow(&mut self) -> Result<(), Gone> {
        let Some(Followed { id, next }) = self.followed.as_ref().map(|it| Followed { ..*it })
        else {
            return Ok(());
        };
        let desk = Arc::clone(&self.desk);
        let read = tokio::task::spawn_blocking(move || since(&desk, id, next)).await;
        // A trace that cannot be read now is asked for again with the next news.
        let Ok(Ok((items, total))) = read else { return Ok(()) };
        // A ledger that has become shorter is news, too.
        if total == next {
            return Ok(());
        }
        self.followed = Some(Followed { id, next: total });
        let told = json!({ "trace_id": id.to_string(), "total": total, "items": items });
        self.say("events", &told).await
    }

    async fn say<T: Serialize>(&mut self, name: &str, what: &T) -> Result<(), Gone> {
        let mut message = String::new();
        let data = serde_json::to_string(what).unwrap_or_default();
        // JSON of ours has no line breaks.
        let _ = write!(message, "event: {name}\ndata: {data}\n\n");
        self.line(message).await
    }

    async fn line(&mut self, text: String) -> Result<(), Gone> {
        self.send.send(Ok(Bytes::from(text))).await.map_err(|_| Gone)
    }
}
