//! How many sessions there are at once, and which one has to go when there are too many: the one that
//! was silent for the longest time. Clients that die never say so.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use rmcp::transport::streamable_http_server::session::SessionManager as _;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;

/// Sessions at once.
const SESSIONS_MAX: usize = 64;
/// How long a session must have been silent to make room for another.
const SILENT_MIN: Duration = Duration::from_secs(60);
/// The header that names a session.
const SESSION: &str = "mcp-session-id";

/// The sessions of a server, and when each was heard of last.
#[derive(Debug)]
pub(super) struct Sessions {
    all: Arc<LocalSessionManager>,
    heard: Mutex<HashMap<String, Instant>>,
}

impl Sessions {
    pub(super) fn new(all: Arc<LocalSessionManager>) -> Self {
        Self { all, heard: Mutex::default() }
    }

    fn hear(&self, headers: &HeaderMap, now: Instant) {
        if let Some(id) = headers.get(SESSION).and_then(|id| id.to_str().ok()) {
            let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
            // Ids that clients make up must not fill the table.
            if heard.contains_key(id) || heard.len() < 4 * SESSIONS_MAX {
                heard.insert(id.to_owned(), now);
            }
        }
    }

    /// Makes room for one more session, if there has to be room; says whether there is.
    async fn make_room(&self, now: Instant) -> bool {
        let there: Vec<_> = self.all.sessions.read().await.keys().cloned().collect();
        let silent = {
            let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
            heard.retain(|id, _| there.iter().any(|session| **session == **id));
            for session in &there {
                heard.entry(session.to_string()).or_insert(now);
            }
            longest_silent(&heard, now)
        };
        if there.len() < SESSIONS_MAX {
            return true;
        }
        match there.iter().find(|session| silent.as_deref() == Some(&***session)) {
            // What it recorded stays, and can be sealed.
            Some(session) => self.all.close_session(session).await.is_ok(),
            None => false,
        }
    }
}

/// The session that was silent for the longest time, if that is long enough.
fn longest_silent(heard: &HashMap<String, Instant>, now: Instant) -> Option<String> {
    let (id, last) = heard.iter().min_by_key(|(_, last)| **last)?;
    (now.saturating_duration_since(*last) >= SILENT_MIN).then(|| id.clone())
}

/// Turns away who would begin a session where there are too many that are in use.
pub(super) async fn bound(
    State(sessions): State<Arc<Sessions>>,
    request: Request,
    next: Next,
) -> Response {
    let begins = !request.headers().contains_key(SESSION);
    if begins && !sessions.make_room(Instant::now()).await {
        let reason = "too many sessions; end one, or try again in a minute\n";
        return (StatusCode::SERVICE_UNAVAILABLE, reason).into_response();
    }
    sessions.hear(request.headers(), Instant::now());
    let response = next.run(request).await;
    sessions.hear(response.headers(), Instant::now());
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_silent_longest_goes_and_nobody_who_spoke_lately() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let heard: HashMap<_, _> = [("new", at(50)), ("old", at(10)), ("older", at(5))]
            .map(|(id, last)| (id.to_owned(), last))
            .into();
        assert_eq!(longest_silent(&heard, at(64)), None);
        assert_eq!(longest_silent(&heard, at(65)), Some("older".to_owned()));
        assert_eq!(longest_silent(&HashMap::new(), at(65)), None);
    }
}
