//! What the specification says of the order of events, checked over the plain events.
//!
//! Shares nothing with the rules that it watches: it reads types, roles and payloads as text, and
//! remembers whatever ever happened.

use countersign_format::event::Event;
use serde_json::Value;

/// What happened so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    begun: bool,
    proposals: Vec<Proposed>,
    intents: Vec<Intended>,
    executions: Vec<Executed>,
    claims: Vec<Claimed>,
    artifacts: Vec<String>,
    /// The last event of planner, executor or critic was the final statement.
    concluded: bool,
    auditing: bool,
    ended: Option<&'static str>,
}

#[derive(Debug, Clone)]
struct Proposed {
    event_id: String,
    decision: String,
    ever_approved: bool,
    conditions: Vec<String>,
}

#[derive(Debug, Clone)]
struct Intended {
    event_id: String,
    proposal: usize,
    risky: bool,
    input: String,
    acknowledged: Vec<String>,
    decision: String,
    asked: bool,
    by_operator: bool,
    blocked: bool,
    started: bool,
}

#[derive(Debug, Clone)]
struct Executed {
    event_id: String,
    input: String,
    outcome: Option<&'static str>,
}

#[derive(Debug, Clone)]
struct Claimed {
    event_id: String,
    claim_id: String,
    superseded: bool,
    challenged: bool,
}

/// The part of a claim or a rule that must hold, in the specification's words.
fn must(holds: bool, words: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(words.to_owned()) }
}

fn text<'a>(event: &'a Event, pointer: &str) -> &'a str {
    event.payload.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn texts(event: &Event, pointer: &str) -> Vec<String> {
    let list = event.payload.pointer(pointer).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Who may record what, as the specification has it.
fn roles(event_type: &str) -> &'static [&'static str] {
    match event_type {
        "session_initialized" | "proposal_created" => &["planner"],
        "proposal_reviewed" | "claim_challenged" => &["critic"],
        "tool_intent_reviewed" => &["critic", "operator"],
        "tool_intent_signed"
        | "tool_execution_started"
        | "tool_execution_completed"
        | "tool_execution_failed"
        | "claim_issued"
        | "final_statement_signed" => &["executor"],
        "verification_run_started" | "verification_run_completed" => &["auditor"],
        "session_aborted" => &["operator"],
        "session_failed" => &["recorder"],
        _ => &[],
    }
}

impl Facts {
    /// The state of the session, by the list of transitions.
    pub(crate) fn lifecycle(&self) -> &'static str {
        if let Some(ended) = self.ended {
            ended
        } else if self.concluded {
            "auditing"
        } else if self.executions.iter().any(|it| it.outcome.is_some()) {
            "claiming"
        } else if self.proposals.iter().any(|it| it.ever_approved) {
            "executing"
        } else if !self.proposals.is_empty() {
            "reviewing"
        } else if self.begun {
            "planning"
        } else {
            "initialized"
        }
    }

    /// Takes an event in, or says which sentence of the specification it breaks.
    pub(crate) fn take(&mut self, event: &Event) -> Result<(), String> {
        let (event_type, role) = (event.event_type.as_str(), event.actor.role.as_str());
        must(roles(event_type).contains(&role), "only designated roles emit each event type")?;
        must(self.begun == (event_type != "session_initialized"), "a session begins once")?;
        self.begun = true;
        if self.ended.is_some() {
            let permitted = ["verification_run_started", "verification_run_completed"];
            must(permitted.contains(&event_type), "after the end only audits follow")?;
        }
        if self.concluded {
            let agent = ["planner", "executor", "critic"].contains(&role);
            must(!agent, "the final statement is the last role event before the audit ends")?;
        }
        match event_type {
            "proposal_created" => self.propose(event),
            "proposal_reviewed" => self.judge(event),
            "tool_intent_signed" => self.intend(event),
            "tool_intent_reviewed" => self.review(event),
            "tool_execution_started" => self.start(event),
            "tool_execution_completed" | "tool_execution_failed" => self.end(event),
            "claim_issued" => self.claim(event),
            "claim_challenged" => {
                let id = text(event, "/claim/event_id");
                let claim = self.claims.iter_mut().find(|it| it.event_id == id);
                let claim = claim.ok_or("a challenge needs its claim")?;
                claim.challenged = true;
                Ok(())
            }
            "final_statement_signed" => self.conclude(event),
            _ => self.finish(event),
        }?;
        self.artifacts.extend(event.artifacts.iter().map(|it| it.artifact_hash.to_hex()));
        self.artifacts.sort_unstable();
        self.artifacts.dedup();
        Ok(())
    }

    fn propose(&mut self, event: &Event) -> Result<(), String> {
        let failed = text(event, "/fallback_for/event_id");
        if !failed.is_empty() {
            let failure = self.executions.iter().find(|it| it.event_id == failed);
            let failure = failure.and_then(|it| it.outcome);
            must(matches!(failure, Some("failed" | "unknown")), "a fallback follows a failure")?;
        }
        self.proposals.push(Proposed {
            event_id: event.event_id.clone(),
            decision: String::new(),
            ever_approved: false,
            conditions: Vec::new(),
        });
        Ok(())
    }

    fn judge(&mut self, event: &Event) -> Result<(), String> {
        let id = text(event, "/subject/event_id");
        let proposal = self.proposals.iter_mut().find(|it| it.event_id == id);
        let proposal = proposal.ok_or("a review needs its proposal")?;
        let decision = text(event, "/decision");
        must(proposal.decision != "rejected", "rejected proposals cannot proceed")?;
        proposal.decision = decision.to_owned();
        proposal.ever_approved |= decision != "rejected";
        let conditions = event.payload.get("conditions").and_then(Value::as_array);
        let ids = conditions.into_iter().flatten().filter_map(|it| it.get("id")?.as_str());
        proposal.conditions = ids.map(str::to_owned).collect();
        Ok(())
    }

    fn intend(&mut self, event: &Event) -> Result<(), String> {
        let id = text(event, "/proposal/event_id");
        let proposal = self.proposals.iter().position(|it| it.event_id == id);
        let proposal = proposal.ok_or("an intent needs its proposal")?;
        let acknowledged = texts(event, "/acknowledged_conditions");
        self.authorised(proposal, &acknowledged)?;
        let input = text(event, "/normalized_input_hash").to_owned();
        let stored = event.artifacts.iter().any(|it| it.artifact_hash.to_hex() == input);
        must(stored, "every execution has a stored input")?;
        self.intents.push(Intended {
            event_id: event.event_id.clone(),
            proposal,
            risky: ["elevated", "critical"].contains(&text(event, "/safety_classification")),
            input,
            acknowledged,
            decision: String::new(),
            asked: false,
            by_operator: false,
            blocked: false,
            started: false,
        });
        Ok(())
    }

    fn authorised(&self, proposal: usize, acknowledged: &[String]) -> Result<(), String> {
        let proposal = &self.proposals[proposal];
        must(!proposal.decision.is_empty(), "nothing is done under an unreviewed proposal")?;
        must(proposal.decision != "rejected", "rejected proposals cannot proceed to execution")?;
        let met = proposal.conditions.iter().all(|it| acknowledged.contains(it));
        must(met, "only an intent that acknowledges all conditions is authorised")
    }

    fn review(&mut self, event: &Event) -> Result<(), String> {
        let id = text(event, "/subject/event_id");
        let intent = self.intents.iter_mut().find(|it| it.event_id == id);
        let intent = intent.ok_or("a review needs its intent")?;
        let decision = text(event, "/decision");
        let by_operator = event.actor.role.as_str() == "operator";
        must(!intent.blocked, "a blocked intent stays blocked")?;
        must(!intent.started, "an intent is judged before it runs")?;
        if decision == "approved" && intent.asked {
            must(by_operator, "once a person was asked, a person answers")?;
        }
        intent.asked |= decision == "asked";
        intent.blocked |= decision == "blocked";
        intent.by_operator = by_operator && decision == "approved";
        intent.decision = decision.to_owned();
        Ok(())
    }

    fn start(&mut self, event: &Event) -> Result<(), String> {
        let id = text(event, "/intent/event_id");
        let at = self.intents.iter().position(|it| it.event_id == id);
        let at = at.ok_or("an intent precedes any tool execution event")?;
        let intent = &self.intents[at];
        must(!intent.started, "an intent starts once")?;
        must(!intent.blocked, "a blocked intent never starts")?;
        self.authorised(intent.proposal, &intent.acknowledged)?;
        must(!intent.risky || intent.decision == "approved", "risky tools require approval")?;
        must(!intent.asked || intent.by_operator, "what a person was asked about waits for them")?;
        must(intent.input == text(event, "/normalized_input_hash"), "what runs was approved")?;
        let unknown = |it: &&Executed| it.outcome == Some("unknown") && it.input == intent.input;
        let repeats = self.executions.iter().any(|it| unknown(&it));
        must(!repeats || intent.by_operator, "what ended unknown is repeated if a person says so")?;
        let input = intent.input.clone();
        let event_id = event.event_id.clone();
        self.executions.push(Executed { event_id, input, outcome: None });
        self.intents[at].started = true;
        Ok(())
    }

    fn end(&mut self, event: &Event) -> Result<(), String> {
        let id = text(event, "/execution/event_id");
        let execution = self.executions.iter_mut().find(|it| it.event_id == id);
        let execution = execution.ok_or("an execution begins before it ends")?;
        must(execution.outcome.is_none(), "an execution ends once")?;
        execution.outcome = Some(match (event.event_type.as_str(), text(event, "/outcome")) {
            ("tool_execution_completed", _) => "completed",
            (_, "unknown") => "unknown",
            _ => "failed",
        });
        Ok(())
    }

    fn claim(&mut self, event: &Event) -> Result<(), String> {
        let executions = event.payload.get("executions").and_then(Value::as_array);
        let ids: Vec<_> = executions
            .into_iter()
            .flatten()
            .filter_map(|it| it.get("event_id")?.as_str())
            .collect();
        let ended = |id: &&str| {
            self.executions.iter().any(|it| it.event_id == **id && it.outcome.is_some())
        };
        let all = !ids.is_empty() && ids.iter().all(ended);
        must(all, "the end of an execution precedes the related claim")?;
        let evidence = texts(event, "/evidence_artifacts");
        must(!evidence.is_empty(), "claims require artifact references")?;
        let listed = |hash: &String| {
            let own = event.artifacts.iter().find(|it| it.artifact_hash.to_hex() == *hash);
            own.is_some_and(|it| {
                self.artifacts.contains(hash) || it.producer_event_id == event.event_id
            })
        };
        must(evidence.iter().all(listed), "evidence was produced at or before the claim")?;
        let superseded = text(event, "/supersedes");
        for earlier in self.claims.iter_mut().filter(|it| it.claim_id == superseded) {
            must(!earlier.superseded, "a claim is superseded once")?;
            earlier.superseded = true;
        }
        let claim_id = text(event, "/claim_id").to_owned();
        must(event.claims.contains(&claim_id), "the claims list includes the claim's id")?;
        must(self.claims.iter().all(|it| it.claim_id != claim_id), "a claim is one signed event")?;
        let event_id = event.event_id.clone();
        self.claims.push(Claimed { event_id, claim_id, superseded: false, challenged: false });
        Ok(())
    }

    fn conclude(&mut self, event: &Event) -> Result<(), String> {
        let open = self.executions.iter().any(|it| it.outcome.is_none());
        must(!open, "nothing runs after the final statement")?;
        must(!self.claims.is_empty(), "auditing comes after at least one claim")?;
        let resolutions = event.payload.get("claim_resolutions").and_then(Value::as_array);
        let resolved = |id: &str| {
            let of = |it: &&Value| it.get("claim_id").and_then(Value::as_str) == Some(id);
            resolutions.into_iter().flatten().find(of)?.get("status")?.as_str()
        };
        let standing = self.claims.iter().filter(|it| !it.superseded);
        let mut bundle = Vec::new();
        for claim in standing {
            let status = resolved(&claim.claim_id);
            must(!claim.challenged || status.is_some(), "a challenge is answered")?;
            if status != Some("retracted") {
                bundle.push(claim.claim_id.clone());
            }
        }
        let named = texts(event, "/consolidated_claim_ids");
        must(named == bundle, "the final claim bundle is in the final statement")?;
        self.concluded = true;
        Ok(())
    }

    fn finish(&mut self, event: &Event) -> Result<(), String> {
        let end = match event.event_type.as_str() {
            "verification_run_started" => {
                must(self.concluded || self.ended.is_some(), "an audit follows the statement")?;
                must(!self.auditing, "one audit at a time")?;
                self.auditing = true;
                return Ok(());
            }
            "verification_run_completed" => {
                must(self.auditing, "an audit begins before it ends")?;
                let passed = text(event, "/verification_status").starts_with("pass");
                if passed { "completed" } else { "failed" }
            }
            "session_aborted" => "aborted",
            "session_failed" => "failed",
            _ => return Ok(()),
        };
        self.auditing = false;
        self.ended = self.ended.or(Some(end));
        Ok(())
    }

    /// What can still matter, things of one sort by their order. Of an intent that is done with it
    /// does not matter what it was, of an execution only what must not be repeated.
    pub(crate) fn key(&self) -> Vec<u8> {
        let mark = |text: &str| [text.bytes().next().unwrap_or(0), text.len() as u8];
        let mut key = vec![u8::from(self.concluded), u8::from(self.auditing)];
        key.extend(mark(self.ended.unwrap_or_default()));
        if self.concluded || self.ended.is_some() {
            return key;
        }
        key.push(u8::from(self.proposals.iter().any(|it| it.ever_approved)));
        for it in &self.proposals {
            key.extend(mark(&it.decision));
            key.push(it.conditions.len() as u8);
        }
        for it in &self.intents {
            key.extend([it.blocked, it.started].map(u8::from));
            if !it.blocked && !it.started {
                key.extend([it.risky, it.asked, it.by_operator].map(u8::from));
                key.extend([it.proposal as u8, it.acknowledged.len() as u8]);
                key.extend([mark(&it.decision), mark(&it.input)].concat());
            }
        }
        for it in &self.executions {
            key.extend(mark(it.outcome.unwrap_or_default()));
            if matches!(it.outcome, None | Some("unknown")) {
                key.extend(mark(&it.input));
            }
        }
        for it in &self.claims {
            key.push(u8::from(it.superseded) * 2 + u8::from(it.challenged && !it.superseded));
        }
        key
    }
}
