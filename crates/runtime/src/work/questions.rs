//! Blocked items as questions: may it go on?

use countersign_format::event::TraceKind;
use countersign_format::exit::WorkPhase;
use countersign_format::id::Ulid;
use countersign_protocol::work::WorkState;

use crate::questions::Question;
use crate::workspace::{Workspace, WorkspaceError};

impl Workspace {
    /// The blocked items, each as a question. Found by the index, read from their own ledgers.
    pub(crate) fn blocked_items(&self) -> Result<(Vec<Question>, Vec<String>), WorkspaceError> {
        let rows = self.index().and_then(|mut index| index.work_items());
        // Without an index the other questions are still to be seen.
        let rows = rows.unwrap_or_default();
        let blocked = rows.iter().filter(|row| row.phase == WorkPhase::Blocked);
        let (mut questions, mut unreadable) = (Vec::new(), Vec::new());
        for row in blocked {
            match self.work(row.id).and_then(|item| Ok(item.look(|state| question(row.id, state))?))
            {
                Ok(question) => questions.extend(question),
                Err(_) => unreadable.push(row.id.to_string()),
            }
        }
        Ok((questions, unreadable))
    }
}

fn question(id: Ulid, state: &WorkState) -> Option<Question> {
    let from = state.blocked_from?;
    let (_, past) = state.exits.last_key_value()?;
    let handed = state.handed.get(&from);
    let name = state.label.clone().unwrap_or_else(|| id.to_string());
    let why = handed.and_then(|handed| handed.notes.clone());
    Some(Question {
        id: past.event.event_id.clone(),
        trace_id: id.to_string(),
        subject: past.event.clone(),
        title: format!("unblock work item {name}, back to {from}: {}", state.title),
        risk: String::new(),
        justification: why.unwrap_or_else(|| "the agent did not say why".to_owned()),
        reasons: handed
            .map(|handed| format!("{} left {from} with `{}`", handed.holder, handed.exit_reason))
            .into_iter()
            .collect(),
        input: None,
        call: None,
        request: None,
        form: None,
        default: None,
        kind: TraceKind::Work,
        asked_at: state.phase_since,
        deadline: None,
    })
}
