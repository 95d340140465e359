//! Deciding again: what the gate would say today of a recorded question.
//!
//! Takes the recorded request, policy and model, whoever keeps them, and compares the decision and
//! every reason; and holds the request against the intent that was reviewed, and the review against
//! what the gate said. Whether the record itself can be trusted is the verifier's question.

use countersign_format::event::{Event, EventType};
use countersign_format::hash::Hash;
use countersign_gate::risk::MODEL_BYTES_MAX;
use countersign_gate::{Gate, GateRequest, Opinion, REQUEST_BYTES_MAX};
use serde::Serialize;
use serde_json::Value;

/// What the gate said, as it stands in a review.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecordedDecision {
    /// The place of the review.
    pub seq: u64,
    /// Its id.
    pub event_id: String,
    /// The place of the intent that it is about.
    pub intent: Option<u64>,
    /// The id of that intent: what a question is known by.
    pub intent_id: String,
    /// What the review says.
    pub review: String,
    /// What the gate said.
    pub decision: String,
    /// Whether that was enforced.
    pub enforced: bool,
    /// Its reasons.
    pub reasons: Vec<String>,
    /// The score that it gave.
    pub score: Option<f64>,
    /// The cell of the model.
    pub cell: Option<u64>,
    request: Option<Hash>,
    policy: Option<Hash>,
    model: Option<Hash>,
    #[serde(skip)]
    asked: Option<AskedIntent>,
    /// Whether somebody besides the gate had a say, who may have been stricter.
    #[serde(skip)]
    shared: bool,
    #[serde(skip)]
    listed: Vec<Hash>,
}

/// What an intent says of the action that the gate was asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedIntent {
    event_id: String,
    action_type: String,
    tool: String,
    description: String,
    paths: Vec<String>,
    artifacts: Vec<Hash>,
}

impl AskedIntent {
    /// What this event asks for, if it is an intent.
    #[must_use]
    pub fn of(event: &Event) -> Option<Self> {
        if event.event_type != EventType::ToolIntentSigned {
            return None;
        }
        let text = |name: &str| {
            let text = event.payload.get(name).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let paths = event.payload.get("paths").and_then(Value::as_array);
        let paths = paths.into_iter().flatten().filter_map(Value::as_str);
        Some(Self {
            event_id: event.event_id.clone(),
            action_type: text("action_type"),
            tool: text("tool_name"),
            description: text("justification"),
            paths: paths.map(str::to_owned).collect(),
            artifacts: event.artifacts.iter().map(|artifact| artifact.artifact_hash).collect(),
        })
    }

    /// By what it is known.
    #[must_use]
    pub fn event_id(&self) -> &str {
        &self.event_id
    }
}

/// Something in which the replay is not what was recorded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Deviation {
    /// Something that the decision rests on is not there.
    #[error("the {part} is not there, its hash is {hash}")]
    Missing {
        /// What.
        part: &'static str,
        /// By what it is known.
        hash: String,
    },
    /// Something that the decision rests on is other bytes than were recorded.
    #[error("the {part} was changed: recorded {recorded}, found {found}")]
    Changed {
        /// What.
        part: &'static str,
        /// The hash that was recorded.
        recorded: String,
        /// The hash of what is there.
        found: String,
    },
    /// The request cannot be read.
    #[error("the request cannot be read: {what}")]
    Request {
        /// What is wrong with it.
        what: String,
    },
    /// The decision, the score or the cell is another.
    #[error("the {part} differs: recorded {recorded}, now {now}")]
    Differs {
        /// Which.
        part: &'static str,
        /// As it was recorded.
        recorded: String,
        /// As it is now.
        now: String,
    },
    /// The intent or the review says one thing, what the gate was asked or said another.
    #[error("the {part} contradicts what the gate was asked or said: {recorded}, there {now}")]
    Contradicts {
        /// What.
        part: &'static str,
        /// In the intent or the review.
        recorded: String,
        /// In what the gate was asked or said.
        now: String,
    },
    /// A reason that is not given any more.
    #[error("a reason is gone: {reason}")]
    Gone {
        /// Which.
        reason: String,
    },
    /// A reason that was not given.
    #[error("a reason is new: {reason}")]
    New {
        /// Which.
        reason: String,
    },
    /// The same reasons in another order.
    #[error("the reasons come in another order")]
    Order,
}

/// A recorded decision, and what came of making it again.
#[derive(Debug, Clone)]
pub struct Replay {
    /// What was recorded.
    pub recorded: RecordedDecision,
    /// The request, if it could be read.
    pub request: Option<GateRequest>,
    /// What the gate says now, if it could be asked.
    pub opinion: Option<Opinion>,
    /// Everything in which that is not what was recorded.
    pub deviations: Vec<Deviation>,
}

impl RecordedDecision {
    /// What the gate said in this event, if it is a review of the gate.
    #[must_use]
    pub fn of(event: &Event) -> Option<Self> {
        let gate = event.payload.get("gate")?;
        if event.event_type != EventType::ToolIntentReviewed {
            return None;
        }
        let text = |place: &str| {
            let text = event.payload.pointer(place).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let hash = |name: &str| gate.get(name).and_then(Value::as_str)?.parse().ok();
        // A critic's reasons stand in the review beside the gate's; the gate's own then in its record.
        let own = gate.get("reasons");
        let reasons = own.or_else(|| event.payload.get("reasons")).and_then(Value::as_array);
        let reasons = reasons.into_iter().flatten().filter_map(Value::as_str);
        Some(Self {
            seq: event.seq.unwrap_or_default(),
            event_id: event.event_id.clone(),
            intent: event.payload.pointer("/subject/seq").and_then(Value::as_u64),
            intent_id: text("/subject/event_id"),
            review: text("/decision"),
            decision: gate.get("decision").and_then(Value::as_str).unwrap_or_default().to_owned(),
            enforced: gate.get("enforced").and_then(Value::as_bool).unwrap_or_default(),
            reasons: reasons.map(str::to_owned).collect(),
            score: gate.get("score").and_then(Value::as_f64),
            cell: gate.get("cell").and_then(Value::as_u64),
            request: hash("request"),
            policy: hash("policy"),
            model: hash("model"),
            asked: None,
            shared: own.is_some(),
            listed: event.artifacts.iter().map(|artifact| artifact.artifact_hash).collect(),
        })
    }

    /// The same with the intent that it is about.
    #[must_use]
    pub fn about(self, asked: Option<AskedIntent>) -> Self {
        Self { asked, ..self }
    }

    /// Everything in which the review is not what the gate said, and the intent not what the gate was
    /// asked: whoever swaps one of them leaves the others.
    fn contradictions(&self, request: Option<&GateRequest>) -> Vec<Deviation> {
        let mut found = Vec::new();
        let mut differ = |part: &'static str, recorded: &str, now: &str| {
            if recorded != now {
                let (recorded, now) = (recorded.to_owned(), now.to_owned());
                found.push(Deviation::Contradicts { part, recorded, now });
            }
        };
        let follows = match (self.enforced, self.decision.as_str()) {
            (false, _) | (true, "allow") => "approved",
            (true, "ask") => "asked",
            (true, _) => "blocked",
        };
        let stricter = match self.review.as_str() {
            "blocked" => true,
            "asked" => follows == "approved",
            _ => false,
        };
        if !(self.shared && stricter) {
            differ("review", &self.review, follows);
        }
        let Some(asked) = &self.asked else {
            differ("intent", &self.intent_id, "nothing");
            return found;
        };
        // In a session the review itself brings what the gate was asked.
        let brought = |hash: &Hash| {
            asked.artifacts.contains(hash) || (self.shared && self.listed.contains(hash))
        };
        if let Some(hash) = self.request.filter(|hash| !brought(hash)) {
            differ("request", "none of its artifacts", &hash.to_string());
        }
        if let Some(request) = request {
            differ("action type", &asked.action_type, request.action_type.as_str());
            differ("tool", &asked.tool, &request.tool);
            differ("description", &asked.description, &request.description);
            differ("paths", &asked.paths.join(" "), &request.paths.join(" "));
        }
        found
    }

    /// The artifacts that it rests on.
    pub fn artifacts(&self) -> impl Iterator<Item = Hash> {
        [self.request, self.policy, self.model].into_iter().flatten()
    }
}

/// Makes a recorded decision again. `artifact` gives the bytes that are kept under a hash, up to a
/// length, whatever they are; or nothing.
///
/// # Errors
/// `artifact` failed.
pub fn replay<E>(
    recorded: RecordedDecision,
    mut artifact: impl FnMut(&Hash, u64) -> Result<Option<Vec<u8>>, E>,
) -> Result<Replay, E> {
    let mut deviations = Vec::new();
    let mut take = |part: &'static str, hash: Option<Hash>, max: usize| {
        let Some(hash) = hash else { return Ok(None) };
        let found = artifact(&hash, max as u64)?;
        match &found {
            None => deviations.push(Deviation::Missing { part, hash: hash.to_string() }),
            Some(bytes) if Hash::of(bytes) != hash => deviations.push(Deviation::Changed {
                part,
                recorded: hash.to_string(),
                found: Hash::of(bytes).to_string(),
            }),
            Some(_) => {}
        }
        Ok(found)
    };
    let request = take("request", recorded.request, REQUEST_BYTES_MAX)?;
    // One byte more than a policy may have, so that one that is too long is told by the same words.
    let policy = take("policy", recorded.policy, countersign_gate::policy::POLICY_BYTES_MAX + 1)?;
    let model = take("model", recorded.model, MODEL_BYTES_MAX + 1)?;
    let incomplete = recorded.model.is_some() && model.is_none();
    let request = request.and_then(|bytes| match GateRequest::from_bytes(&bytes) {
        Ok(request) => Some(request),
        Err(fault) => {
            deviations.push(Deviation::Request { what: fault.to_string() });
            None
        }
    });
    let opinion = match (&request, policy) {
        (Some(request), Some(policy)) if !incomplete => {
            Some(Gate::from_bytes(&policy, model.as_deref()).decide(request))
        }
        _ => None,
    };
    if let Some(opinion) = &opinion {
        compare(&recorded, opinion, &mut deviations);
    }
    deviations.extend(recorded.contradictions(request.as_ref()));
    Ok(Replay { recorded, request, opinion, deviations })
}

fn compare(recorded: &RecordedDecision, opinion: &Opinion, deviations: &mut Vec<Deviation>) {
    let mut differ = |part: &'static str, recorded: String, now: String| {
        if recorded != now {
            deviations.push(Deviation::Differs { part, recorded, now });
        }
    };
    let number = |number: Option<f64>| number.map_or("none".to_owned(), |it| format!("{it:.6}"));
    let cell = |cell: Option<u64>| cell.map_or("none".to_owned(), |it| it.to_string());
    let now = opinion.verdict.decision().to_string();
    differ("decision", recorded.decision.clone(), now);
    differ("score", number(recorded.score), number(opinion.score()));
    differ("cell", cell(recorded.cell), cell(Some(u64::from(opinion.cell))));
    let now: Vec<String> = opinion.verdict.reasons().iter().map(ToString::to_string).collect();
    let gone = recorded.reasons.iter().filter(|reason| !now.contains(reason));
    let new = now.iter().filter(|reason| !recorded.reasons.contains(reason));
    let before = deviations.len();
    deviations.extend(gone.map(|reason| Deviation::Gone { reason: reason.clone() }));
    deviations.extend(new.map(|reason| Deviation::New { reason: reason.clone() }));
    if deviations.len() == before && now != recorded.reasons {
        deviations.push(Deviation::Order);
    }
}
