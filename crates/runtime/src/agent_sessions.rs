//! Which recording belongs to which session of an agent's own program.
//!
//! A hook is a process of its own for each call; what it finds again is the recording of its session.
//! The truth is the first event of a trace, which names the session; the files in `agents/` of the
//! store only say where to look. Exactly one recording of a session is open: whoever begins one does
//! so under a lock. When a recording ends is the caller's to say.

use std::path::PathBuf;

use countersign_format::event::{Event, TraceKind};
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::json;
use countersign_format::text::to_nfc;
use countersign_protocol::{Refusal, Stage};
use serde_json::{Value, json};

use crate::actions::{AgentRuntime, RuntimeOptions};
use crate::disk::{Access, DiskFile, Durability, read_full, replace_file};
use crate::inspect::first_event;
use crate::secrets::Redactor;
use crate::store::StoreError;
use crate::workspace::{Workspace, WorkspaceError};
use crate::writer::WriteError;

/// Bytes of a name that a program gives to a session or an agent.
pub const SESSION_NAME_BYTES_MAX: usize = 256;
/// Bytes of a file that says where a session's recording is: it names one trace.
const HINT_BYTES_MAX: usize = 256;

/// A session of an agent's own program, or of a sub-agent within one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AgentSession {
    client: String,
    session_id: String,
    agent_id: Option<String>,
}

/// Why a session cannot be called so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionNameFault {
    /// It has no name.
    #[error("the {of} is empty")]
    Empty {
        /// What has none.
        of: &'static str,
    },
    /// Its name is too long.
    #[error("the {of} has {bytes} bytes, the limit is {SESSION_NAME_BYTES_MAX}")]
    TooLong {
        /// Whose name.
        of: &'static str,
        /// How long it is.
        bytes: usize,
    },
    /// Its name holds something that cannot be read.
    #[error("the {of} holds characters that cannot be shown")]
    Unreadable {
        /// Whose name.
        of: &'static str,
    },
}

impl AgentSession {
    /// The session that `client` calls `session_id`; with `agent_id`, a sub-agent in it.
    ///
    /// # Errors
    /// One of the names cannot be used.
    pub fn new(
        client: &str,
        session_id: &str,
        agent_id: Option<&str>,
    ) -> Result<Self, SessionNameFault> {
        let agent_id = agent_id.filter(|id| !id.is_empty());
        Ok(Self {
            client: checked("client's name", client)?,
            session_id: checked("session id", session_id)?,
            agent_id: agent_id.map(|id| checked("agent id", id)).transpose()?,
        })
    }

    /// What the program calls the session.
    #[must_use]
    pub fn session_id(&self) -> &str {
        &self.session_id
    }

    /// What it calls the sub-agent, if it is one.
    #[must_use]
    pub fn agent_id(&self) -> Option<&str> {
        self.agent_id.as_deref()
    }

    /// The session that a sub-agent belongs to.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        self.agent_id.as_ref().map(|_| Self { agent_id: None, ..self.clone() })
    }

    /// How a recording names it.
    fn link(&self) -> Value {
        let mut link = json!({ "client": self.client, "session_id": self.session_id });
        if let (Some(link), Some(agent)) = (link.as_object_mut(), &self.agent_id) {
            link.insert("agent_id".to_owned(), json!(agent));
        }
        link
    }

    /// The session that the first event of a recording names.
    fn named_by(first: &Event) -> Option<Self> {
        let link = first.payload.pointer("/links/agent_session")?;
        let text = |name: &str| link.get(name).and_then(Value::as_str);
        Self::new(text("client")?, text("session_id")?, text("agent_id")).ok()
    }

    /// The name of its file: no text of others becomes a path.
    fn key(&self) -> String {
        Hash::of(&json::to_bytes(&self.link())).to_hex()
    }
}

fn checked(of: &'static str, name: &str) -> Result<String, SessionNameFault> {
    let name = to_nfc(name);
    if name.trim().is_empty() {
        return Err(SessionNameFault::Empty { of });
    }
    if name.len() > SESSION_NAME_BYTES_MAX {
        return Err(SessionNameFault::TooLong { of, bytes: name.len() });
    }
    let readable = !name.chars().any(char::is_control);
    if !readable || countersign_format::text::check(&name).is_err() {
        return Err(SessionNameFault::Unreadable { of });
    }
    Ok(name)
}

/// Whether the recording of a session was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entered {
    /// It was.
    Again,
    /// It was begun just now.
    Anew,
}

impl AgentRuntime {
    /// The line of an agent's session: to its open recording, begun if there is none. A sub-agent's
    /// names the recording of the session that it belongs to, and one that follows another of the
    /// same session names that.
    ///
    /// # Errors
    /// The recording could not be found or begun.
    pub fn of_session(
        workspace: &Workspace,
        redactor: Redactor,
        options: RuntimeOptions,
        session: &AgentSession,
    ) -> Result<(Self, Entered), WorkspaceError> {
        let attach = |id: Ulid| {
            // Should somebody end it meanwhile, what follows says whose it is and what it follows.
            let links = Some(links(session, None, Some(id)));
            let options = RuntimeOptions { links, ..options.clone() };
            let runtime = Self::new(workspace.clone(), redactor.clone(), options);
            runtime.attach(id)?;
            // Its end may have begun and been interrupted: nothing more can be recorded in it then.
            let open = runtime.look(|state| state.stage == Stage::Open)?;
            Ok::<_, WorkspaceError>(open.then_some((runtime, Entered::Again)))
        };
        if let Some(id) = workspace.open_recording_of(session)?
            && let Some(entered) = attach(id)?
        {
            return Ok(entered);
        }
        // Before the lock is taken, which is not taken twice by one process.
        let parent = match session.parent() {
            Some(parent) => {
                let options = RuntimeOptions { agent: None, ..options.clone() };
                let (runtime, _) = Self::of_session(workspace, redactor.clone(), options, &parent)?;
                Some(runtime.open()?)
            }
            None => None,
        };
        let _turn = workspace.agents_turn()?;
        let mut before = workspace.hint(session);
        for id in workspace.open_of(session)? {
            if let Some(entered) = attach(id)? {
                workspace.keep_hint(session, id);
                return Ok(entered);
            }
            before = before.max(Some(id));
        }
        let options = RuntimeOptions { links: Some(links(session, parent, before)), ..options };
        let runtime = Self::new(workspace.clone(), redactor, options);
        let id = runtime.open()?;
        // If we die here, the next one looks through the open recordings and finds it by its name.
        workspace.keep_hint(session, id);
        Ok((runtime, Entered::Anew))
    }
}

fn links(session: &AgentSession, parent: Option<Ulid>, before: Option<Ulid>) -> Value {
    let mut links = json!({ "agent_session": session.link() });
    let others = [("parent", parent), ("continues", before)];
    if let Some(links) = links.as_object_mut() {
        for (name, id) in others {
            links.extend(id.map(|id| (name.to_owned(), json!({ "trace_id": id.to_string() }))));
        }
    }
    links
}

impl Workspace {
    /// The open recording of a session, if there is one that can be found at once.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn open_recording_of(
        &self,
        session: &AgentSession,
    ) -> Result<Option<Ulid>, WorkspaceError> {
        match self.hint(session) {
            Some(id) if self.is_open(id)? => Ok(Some(id)),
            _ => Ok(None),
        }
    }

    /// Every open recording of a session: those of its sub-agents, then its own.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn open_recordings_of(
        &self,
        session: &AgentSession,
    ) -> Result<Vec<(AgentSession, Ulid)>, WorkspaceError> {
        let mut found: Vec<(AgentSession, Ulid)> = self
            .open_sessions()?
            .into_iter()
            .filter(|(other, _)| {
                (&other.client, &other.session_id) == (&session.client, &session.session_id)
                    && (session.agent_id.is_none() || other.agent_id == session.agent_id)
            })
            .collect();
        found.sort_by_key(|(other, id)| (other.agent_id.is_none(), *id));
        Ok(found)
    }

    /// Ends a recording, unless somebody else has.
    ///
    /// # Errors
    /// It could not be ended.
    pub fn end_recording(&self, id: Ulid, verdict: &str) -> Result<(), WorkspaceError> {
        match self.recording(id)?.conclude(&to_nfc(verdict)) {
            Ok(_) | Err(WorkspaceError::Write(WriteError::Refused(Refusal::Ended { .. }))) => {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Every open recording of exactly this session, the newest first.
    fn open_of(&self, session: &AgentSession) -> Result<Vec<Ulid>, WorkspaceError> {
        let open = self.open_sessions()?.into_iter().filter(|(other, _)| other == session);
        let mut open: Vec<Ulid> = open.map(|(_, id)| id).collect();
        open.sort_by_key(|id| std::cmp::Reverse(*id));
        Ok(open)
    }

    /// The sessions whose recordings are open. One that cannot be read is nobody's.
    fn open_sessions(&self) -> Result<Vec<(AgentSession, Ulid)>, WorkspaceError> {
        let open = self.open_traces()?;
        let open = open.iter().filter(|(_, open)| open.kind == TraceKind::Recording);
        let ids = open.filter_map(|(id, _)| id.parse::<Ulid>().ok());
        Ok(ids.filter_map(|id| Some((self.session_of(id)?, id))).collect())
    }

    fn is_open(&self, id: Ulid) -> Result<bool, WorkspaceError> {
        Ok(self.open_trace(id)?.is_some_and(|open| open.kind == TraceKind::Recording))
    }

    /// The session that a trace's first event names.
    fn session_of(&self, id: Ulid) -> Option<AgentSession> {
        let first = first_event(&self.trace_file(id)).ok().flatten()?;
        AgentSession::named_by(&first)
    }

    fn agents_dir(&self) -> PathBuf {
        self.home().join("agents")
    }

    /// The trace that the session's file names, if it is of that session.
    fn hint(&self, session: &AgentSession) -> Option<Ulid> {
        let path = self.agents_dir().join(session.key()).with_extension("json");
        let file = self.store().disk().open(&path, Access::Read).ok()?;
        let mut bytes = vec![0; HINT_BYTES_MAX];
        let length = read_full(&*file, 0, &mut bytes).ok()?;
        let hint: Value = serde_json::from_slice(bytes.get(..length)?).ok()?;
        let id: Ulid = hint.get("trace_id")?.as_str()?.parse().ok()?;
        (self.session_of(id).as_ref() == Some(session)).then_some(id)
    }

    /// Keeps where the recording of a session is. A cache: failing to is no loss.
    fn keep_hint(&self, session: &AgentSession, id: Ulid) {
        let path = self.agents_dir().join(session.key()).with_extension("json");
        let bytes = json::to_bytes(&json!({ "trace_id": id.to_string() }));
        let _ = replace_file(&**self.store().disk(), &path, &bytes, Durability::Cached);
    }

    /// Others that begin a recording for a session at the same time wait, and find it begun.
    fn agents_turn(&self) -> Result<Box<dyn DiskFile>, WorkspaceError> {
        let dir = self.agents_dir();
        self.store().ensure_dir(&dir)?;
        let lock = self.store().disk().open(&dir.join("lock"), Access::Create);
        let lock = lock.map_err(StoreError::from)?;
        lock.lock_exclusive().map_err(StoreError::from)?;
        Ok(lock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(session: &str, agent: Option<&str>) -> Result<AgentSession, SessionNameFault> {
        AgentSession::new("claude-code", session, agent)
    }

    #[test]
    fn a_session_needs_a_name_that_can_be_shown() {
        let of = "session id";
        assert_eq!(named(" ", None), Err(SessionNameFault::Empty { of }));
        assert_eq!(named("a\u{1b}b", None), Err(SessionNameFault::Unreadable { of }));
        assert_eq!(named("a\u{fffe}", None), Err(SessionNameFault::Unreadable { of }));
        let long = "x".repeat(SESSION_NAME_BYTES_MAX);
        assert!(named(&long, None).is_ok());
        let bytes = SESSION_NAME_BYTES_MAX + 1;
        assert_eq!(named(&format!("{long}x"), None), Err(SessionNameFault::TooLong { of, bytes }));
        assert_eq!(named("s", Some("")), named("s", None));
    }

    #[test]
    fn every_session_and_sub_agent_has_a_file_of_its_own() {
        let keys: std::collections::BTreeSet<String> =
            [named("a", None), named("a", Some("b")), named("ab", None), named("../a", None)]
                .map(|session| session.unwrap().key())
                .into();
        assert_eq!(keys.len(), 4);
        assert!(keys.iter().all(|key| key.bytes().all(|byte| byte.is_ascii_hexdigit())));
    }

    #[test]
    fn a_recording_names_what_it_belongs_to_and_follows() {
        let [parent, before] = ["01m8qk3z9t00000000000000aa", "01m8qk3z9t00000000000000bb"];
        let session = named("s", Some("helper")).unwrap();
        let links = links(&session, parent.parse().ok(), before.parse().ok());
        let expected = json!({
            "agent_session": { "client": "claude-code", "session_id": "s", "agent_id": "helper" },
            "parent": { "trace_id": parent },
            "continues": { "trace_id": before },
        });
        assert_eq!(links, expected);
    }
}
