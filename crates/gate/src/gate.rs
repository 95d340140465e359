//! The gate: policy, learned risk and guards asked about the same request, the strictest winning.

use std::borrow::Cow;
use std::collections::BTreeSet;

use countersign_format::receipt::ActionType;
use countersign_format::risk::RiskClass;

use crate::guard::{self, Proposed};
use crate::path::PlainPath;
use crate::policy::{Circumstances, Policy, PolicyFault};
use crate::risk::{self, Cell, DiffCounts, Estimate, Features, ModelFault, Referee, RiskModel};
use crate::{Decision, GateRequest, Reason, Verdict};

/// Under which names the gate says that something it needs cannot be used.
const POLICY: &str = "policy";
const MODEL: &str = "risk-model";
const REQUEST: &str = "request";
/// Under which name it says that the tool itself waits for a person.
const HELD: &str = "tool-held";
/// Under which names it says that what an action touches is not what it says that it touches, or
/// cannot be told.
const UNNAMED: &str = "unnamed-file";
const NO_FILE: &str = "no-file";
const DIFF: &str = "diff";
const SPELLING: &str = "odd-path";
const OUTSIDE: &str = "outside-words";

/// A policy and a model, ready to decide.
///
/// One whose policy or model cannot be used still answers: it asks, and says why.
#[derive(Debug, Clone)]
pub struct Gate {
    policy: Result<Policy, PolicyFault>,
    model: Result<Option<RiskModel>, ModelFault>,
}

/// What the gate thinks of a request, and what it saw in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Opinion {
    /// The decision and everything that was said.
    pub verdict: Verdict,
    /// The class that the decision was made with: as declared, or as the guards raised it.
    pub risk: RiskClass,
    /// The change in numbers.
    pub features: Features,
    /// Its cell in the model.
    pub cell: Cell,
    /// What the model knows of that cell; nothing where there is no model. A model that has seen no
    /// such change gives an estimate without observations.
    pub estimate: Option<Estimate>,
    /// The change in a few words.
    pub label: String,
}

impl Opinion {
    /// The score that a receipt carries: the expected rate of failures, where it rests on anything.
    #[must_use]
    pub fn score(&self) -> Option<f64> {
        self.estimate.filter(|estimate| estimate.observations > 0).map(|estimate| estimate.q)
    }
}

impl Gate {
    /// A gate of this policy and model.
    #[must_use]
    pub const fn new(policy: Policy, model: Option<RiskModel>) -> Self {
        Self { policy: Ok(policy), model: Ok(model) }
    }

    /// The gate of these bytes. What is wrong with them becomes part of every verdict, so that a
    /// broken file never allows anything, and a replay of the same bytes says the same.
    #[must_use]
    pub fn from_bytes(policy: &[u8], model: Option<&[u8]>) -> Self {
        Self {
            policy: Policy::from_bytes(policy),
            model: model.map(RiskModel::from_bytes).transpose(),
        }
    }

    /// Its policy.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub const fn policy(&self) -> Result<&Policy, &PolicyFault> {
        self.policy.as_ref()
    }

    /// Its model, if it has one.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub const fn model(&self) -> Result<Option<&RiskModel>, &ModelFault> {
        match &self.model {
            Ok(model) => Ok(model.as_ref()),
            Err(fault) => Err(fault),
        }
    }

    /// May this action run? The same request, policy and model give the same opinion, always.
    #[must_use]
    pub fn decide(&self, request: &GateRequest) -> Opinion {
        let checked = request.check();
        // Something too large to be looked at is not looked at in part either.
        let diff = request.diff.as_deref().filter(|_| checked.is_ok()).map(DiffCounts::of);
        let features = match checked {
            Ok(()) => Features::counted(request, diff.as_ref()),
            Err(_) => Features::default(),
        };
        let cell = features.cell();
        let known = self.model().ok().flatten();
        let estimate = known.map(|model| Estimate::of(model.outcomes(cell)));
        let label = risk::label(&features);
        let (verdict, risk) = match checked {
            Ok(()) => self.judge(request, &features, diff.as_ref()),
            Err(fault) => (Reason::failed(REQUEST, &fault).into(), request.risk),
        };
        Opinion { verdict, risk, features, cell, estimate, label }
    }

    fn judge(
        &self,
        request: &GateRequest,
        features: &Features,
        diff: Option<&DiffCounts<'_>>,
    ) -> (Verdict, RiskClass) {
        let added = request.diff.as_deref().filter(|_| request.content.is_none()).map(added_lines);
        let (paths, doubts) = reach(request, diff);
        let proposed = proposed(request, &paths, added.as_deref());
        let (guarded, class) = guard::weigh(&proposed, request.session.unwrap_or_default());
        let programs = request.command.as_deref().map(guard::programs).unwrap_or_default();
        let known = Circumstances { risk: class, programs: &programs, features, paths: &paths };
        let by_policy = match &self.policy {
            Ok(policy) => policy.judge(request, known),
            Err(fault) => Reason::failed(POLICY, fault).into(),
        };
        let learned = match &self.model {
            Ok(model) => {
                let referee = match request.session {
                    Some(_) if features.files_touched == 0 => Referee::CriticAlone,
                    Some(_) => Referee::Critic,
                    None => Referee::RiskClass,
                };
                risk::judge(model.as_ref(), features.cell(), class, referee)
            }
            Err(fault) => Reason::failed(MODEL, fault),
        };
        let held = request.held.as_deref();
        let held = held.map(|why| Reason::answered(HELD, Decision::Ask, why).into());
        let doubts = doubts.into_iter().map(Verdict::from);
        let all = [by_policy, learned.into(), guarded].into_iter().chain(doubts).chain(held);
        (Verdict::strictest(all), class)
    }
}

/// Every file that a request would touch, as far as it can be told, and what is to be asked about
/// that. An agent that names one file and brings the diff of another is judged by both.
fn reach<'r>(
    request: &'r GateRequest,
    diff: Option<&DiffCounts<'_>>,
) -> (Cow<'r, [String]>, Vec<Reason>) {
    let ask = |rule, because: String| Reason::answered(rule, Decision::Ask, because);
    let mut doubts = Vec::new();
    let mut paths = Cow::Borrowed(request.paths.as_slice());
    if let Some(diff) = diff {
        let key = |path: &str| {
            let plain = PlainPath::of(path);
            (plain.outside, plain.text())
        };
        let named: BTreeSet<_> = request.paths.iter().map(|path| key(path)).collect();
        let unnamed = diff.written.iter().filter(|file| !named.contains(&key(file)));
        let unnamed: Vec<String> = unnamed.map(|file| file.clone().into_owned()).collect();
        if let Some(first) = unnamed.first() {
            let because = format!("its diff changes a file that it does not name: {first}");
            doubts.push(ask(UNNAMED, because));
            paths.to_mut().extend(unnamed);
        }
        if diff.unfinished {
            let because = "a hunk of its diff is shorter than it says".to_owned();
            doubts.push(ask(DIFF, because));
        }
    }
    let changes = matches!(
        request.action_type,
        ActionType::CodeEdit | ActionType::CodeGen | ActionType::FileWrite | ActionType::FileDelete
    );
    if changes && paths.is_empty() {
        doubts.push(ask(NO_FILE, "it would change files and names none".to_owned()));
    }
    if let Some(odd) = paths.iter().find(|path| PlainPath::of(path).odd) {
        let because = format!("some system takes this name for another file: {odd}");
        doubts.push(ask(SPELLING, because));
    }
    let command = request.command.as_deref().filter(|_| request.session.is_none());
    let found = command.and_then(|text| guard::names_outside(text, request.directory.as_deref()));
    if let Some(found) = found {
        doubts.push(ask(OUTSIDE, format!("names something outside of the workspace: {found}")));
    }
    (paths, doubts)
}

/// The action as the guards look at it. They know three tools; whatever else there is may write.
fn proposed<'r>(
    request: &'r GateRequest,
    paths: &'r [String],
    added: Option<&'r str>,
) -> Proposed<'r> {
    let tool = match request.action_type {
        ActionType::FileRead | ActionType::Observation | ActionType::Decision => "file_read",
        ActionType::ShellExec | ActionType::Command => "exec",
        _ => "file_write",
    };
    Proposed {
        tool,
        argv: &[],
        shell: request.command.as_deref(),
        paths,
        content: request.content.as_deref().or(added),
        stdin: None,
        env: None,
        risk: request.risk,
        network_granted: request.network_granted,
    }
}

/// What a diff would write.
fn added_lines(diff: &str) -> String {
    let mut text = String::with_capacity(diff.len());
    for line in diff.lines().filter_map(|line| line.strip_prefix('+')) {
        text.push_str(line);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests;
