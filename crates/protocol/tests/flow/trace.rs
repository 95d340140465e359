//! A flow as the recorder keeps it, and short ways to say what happens to it.

use countersign_format::envelope::Recommendation;
use countersign_format::event::{
    Actor, ArtifactDescriptor, Event, EventRef, EventType, RedactionStatus, SCHEMA_VERSION,
};
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::role::Role;
use countersign_format::time::Timestamp;
use countersign_protocol::flow::{
    FileFact, FlowCommand, FlowOpening, FlowPlan, FlowState, StepPhase, StepReturn,
};
use countersign_protocol::{By, Context, LogPin, Refusal, State as _};
use serde_json::{Map, Value, json};

const START: i64 = 1_770_091_506_000;

#[derive(Debug, Clone)]
pub(crate) struct Flow {
    pub(crate) state: FlowState,
    pub(crate) events: Vec<Event>,
    /// What the clock says, in milliseconds.
    pub(crate) now: i64,
}

pub(crate) fn artifact(text: &str) -> ArtifactDescriptor {
    ArtifactDescriptor {
        artifact_hash: Hash::of(text.as_bytes()),
        hash_algorithm: "sha256".to_owned(),
        media_type: "text/plain".to_owned(),
        encoding: "utf-8".to_owned(),
        byte_size: text.len() as u64,
        created_at: Timestamp::from_millis(START),
        producer_event_id: String::new(),
        storage_uri: String::new(),
        redaction_status: RedactionStatus::None,
        unknown: Map::new(),
    }
}

/// What an agent gives back when nothing is wrong.
pub(crate) fn returned(success: bool, recommendation: Recommendation) -> StepReturn {
    StepReturn {
        dispatch: EventRef { event_id: String::new(), seq: 0 },
        success,
        recommendation,
        summary: "so".to_owned(),
        protocol_error: None,
        files: Vec::new(),
        files_refused: None,
        undeclared: Vec::new(),
        elapsed_millis: 1_000,
        feature_id: None,
        answer: artifact("answer"),
        beside: Vec::new(),
        links: None,
    }
}

impl Flow {
    pub(crate) fn begun(plan: Value) -> Result<Self, Refusal> {
        Self::begun_for(plan, Some("005"))
    }

    pub(crate) fn begun_for(plan: Value, feature_id: Option<&str>) -> Result<Self, Refusal> {
        let plan: FlowPlan = serde_json::from_value(plan).unwrap();
        let mut flow = Self { state: FlowState::default(), events: Vec::new(), now: START };
        flow.submit(FlowCommand::Open(Box::new(FlowOpening {
            log: LogPin {
                origin: "countersign/test".to_owned(),
                size: 1,
                head: Hash::GENESIS,
                keys_head: Hash::GENESIS,
            },
            workflow: "specify".to_owned(),
            feature_id: feature_id.map(str::to_owned),
            plan,
            definition: artifact("file"),
            links: None,
        })))?;
        Ok(flow)
    }

    fn context(&self) -> Context {
        let seq = self.events.len() as u64;
        let now = Timestamp::from_millis(self.now);
        let next_id = Ulid::from_parts(Timestamp::from_millis(START), u128::from(seq) + 1);
        Context { now, raw: now, next_id, next_seq: seq }
    }

    pub(crate) fn event(&self, role: Role, event_type: EventType, payload: Value) -> Event {
        let context = self.context();
        Event {
            actor: Actor {
                agent_id: role.as_str().to_owned(),
                key_id: "key".to_owned(),
                role,
                unknown: Map::new(),
            },
            artifacts: Vec::new(),
            claims: Vec::new(),
            created_at: context.now,
            event_hash: Hash::GENESIS,
            event_id: context.next_id.to_string(),
            event_type,
            payload,
            payload_hash: Hash::GENESIS,
            payload_type: event_type.as_str().to_owned(),
            prev_event_hash: Hash::GENESIS,
            raw_clock: None,
            schema_version: SCHEMA_VERSION.to_owned(),
            seq: Some(context.next_seq),
            signature: Value::Null,
            trace_id: "01".to_owned(),
            unknown: Map::new(),
        }
    }

    /// Decides, admits and applies, as the recorder does.
    pub(crate) fn submit(&mut self, command: FlowCommand) -> Result<(), Refusal> {
        for act in self.state.decide(command, &self.context())? {
            let By::Role(role) = act.by else { panic!("the root signs nothing here") };
            let event = self.event(role, act.draft.event_type, act.draft.payload);
            self.state.admit(&event)?;
            self.state.apply(&event);
            self.events.push(event);
        }
        Ok(())
    }

    pub(crate) fn at(&self, step: &str) -> usize {
        self.state.route.place(step).unwrap()
    }

    pub(crate) fn phase(&self, step: &str) -> &StepPhase {
        self.state.phase(self.at(step)).unwrap()
    }

    pub(crate) fn stands(&self, step: &str) -> &'static str {
        self.phase(step).as_str()
    }

    pub(crate) fn call(&mut self, step: &str) -> Result<(), Refusal> {
        self.call_knowing(step, Vec::new())
    }

    pub(crate) fn call_knowing(&mut self, step: &str, facts: Vec<FileFact>) -> Result<(), Refusal> {
        let agent = self.state.route.agent(self.at(step)).map_or(1, |agent| agent.time_seconds);
        let now = Timestamp::from_millis(self.now);
        let left = self.state.millis_left_for(self.at(step), now);
        let left = left.map_or(u64::MAX, |left| left / 1_000);
        self.submit(FlowCommand::Dispatch {
            step: step.to_owned(),
            envelope: Box::new(artifact("envelope")),
            facts,
            seconds: agent.min(left).max(1),
            isolation: None,
        })
    }

    pub(crate) fn give(&mut self, step: &str, mut back: StepReturn) -> Result<(), Refusal> {
        let StepPhase::Running { dispatch, .. } = self.phase(step) else {
            panic!("{step} is {}", self.stands(step));
        };
        back.dispatch = dispatch.clone();
        self.submit(FlowCommand::Answer(Box::new(back)))
    }

    /// Calls a step and lets its agent answer.
    pub(crate) fn run(
        &mut self,
        step: &str,
        success: bool,
        says: Recommendation,
    ) -> Result<(), Refusal> {
        self.call(step)?;
        self.give(step, returned(success, says))
    }

    pub(crate) fn ask(&mut self, step: &str) -> Result<(), Refusal> {
        let step = step.to_owned();
        self.submit(FlowCommand::Ask { step, question: None, facts: Vec::new() })
    }

    pub(crate) fn question(&self, step: &str) -> EventRef {
        match self.phase(step) {
            StepPhase::Asked(open) => open.event.clone(),
            other => panic!("{step} is {}", other.as_str()),
        }
    }

    pub(crate) fn reply(&mut self, step: &str, answer: Value) -> Result<(), Refusal> {
        self.submit(FlowCommand::Reply {
            question: self.question(step),
            answer,
            channel: "unprotected-key".to_owned(),
            reason: None,
        })
    }

    pub(crate) fn types(&self) -> Vec<&'static str> {
        self.events.iter().map(|event| event.event_type.as_str()).collect()
    }
}

/// An agent's step with these members besides its usual ones.
pub(crate) fn step(id: &str, needs: &[&str], more: Value) -> Value {
    let mut agent = json!({
        "on_retry": "self", "on_escalate": "ask", "attempts": 2, "time_seconds": 10,
        "writes": ["out/**"],
    });
    let mut step = json!({ "id": id, "needs": needs, "max_iterations": 3 });
    for (name, value) in more.as_object().cloned().unwrap_or_default() {
        let to = if ["when", "max_iterations"].contains(&name.as_str()) {
            &mut step
        } else {
            &mut agent
        };
        to.as_object_mut().unwrap().insert(name, value);
    }
    step.as_object_mut().unwrap().insert("agent".to_owned(), agent);
    step
}

pub(crate) fn approval(id: &str, needs: &[&str], more: Value) -> Value {
    let mut approval = json!({
        "question": "go on?", "answers": "yes-no", "deadline_seconds": 60, "on_no": "stop",
    });
    for (name, value) in more.as_object().cloned().unwrap_or_default() {
        approval.as_object_mut().unwrap().insert(name, value);
    }
    json!({ "id": id, "needs": needs, "max_iterations": 3, "approval": approval })
}

pub(crate) fn plan(steps: &[Value]) -> Value {
    json!({ "steps": steps })
}
