//! `[[steps]]`: what is done, by whom, and what it may write.

use std::collections::BTreeMap;

use countersign_format::envelope::{InputPath, LABEL_BYTES_MAX};
use countersign_format::path::check_readable;
use countersign_protocol::flow::{
    AgentStep, AnswerForm, ApprovalStep, FlowStep, OnEscalate, OnNo, OnRetry, StepBy, WritePattern,
};
use serde_json::{Map, Value as Json};

use super::agents::{FlowAgent, FlowAgentKind};
use super::{StepOrder, check_braces, conditions};
use crate::task::bounds::SECONDS;
use crate::task::document::{Table, Value};

/// Iterations of a step where nothing is said.
const ITERATIONS: u64 = 3;
const ITERATIONS_MAX: i64 = 1_000;
/// Attempts at an answer where nothing is said.
const ATTEMPTS: u64 = 2;
const ATTEMPTS_MAX: i64 = 100;
/// Seconds that an approval waits where nothing is said: a day.
const DEADLINE_SECONDS: u64 = 86_400;
/// Answers that a person can choose from.
const CHOICES_MAX: usize = 100;

const AGENT_KEYS: [&str; 15] = [
    "id",
    "agent",
    "action",
    "params",
    "paths",
    "optional",
    "writes",
    "needs",
    "when",
    "on_retry",
    "on_escalate",
    "max_iterations",
    "attempts",
    "time_seconds",
    "scaffold",
];
const APPROVAL_STEP_KEYS: [&str; 5] = ["id", "needs", "when", "max_iterations", "approval"];
const APPROVAL_KEYS: [&str; 7] =
    ["question", "answers", "reject", "deadline_seconds", "reminder_seconds", "default", "on_no"];

/// The tables of the steps.
pub(super) fn tables<'a>(root: &Table<'a>) -> Vec<Table<'a>> {
    let given = root.required("steps", "an array of tables");
    let Some(given) = given else { return Vec::new() };
    if given.is_empty_list() {
        given.fault("must not be empty");
    }
    let elements = given.list("an array of tables").unwrap_or_default();
    elements.iter().filter_map(Value::table).collect()
}

/// A step, and what it asks its agent for.
pub(super) fn read(
    table: &Table<'_>,
    agents: &BTreeMap<String, FlowAgent>,
) -> (FlowStep, Option<StepOrder>) {
    let bound = table.integer("max_iterations", 1..=ITERATIONS_MAX);
    let (by, order) = match table.get("approval") {
        Some(value) => {
            table.only(&APPROVAL_STEP_KEYS);
            (StepBy::Approval(approval(&value)), None)
        }
        None => {
            table.only(&AGENT_KEYS);
            let (order, agent) = order(table, agents);
            (StepBy::Agent(agent_step(table, agent)), Some(order))
        }
    };
    let step = FlowStep {
        id: table.name("id").unwrap_or_default(),
        needs: table.set("needs", Value::name),
        when: table.get("when").and_then(|value| conditions::read(&value)),
        max_iterations: bound.unwrap_or(ITERATIONS),
        by,
    };
    (step, order)
}

fn order<'a>(
    table: &Table<'_>,
    agents: &'a BTreeMap<String, FlowAgent>,
) -> (StepOrder, Option<&'a FlowAgent>) {
    let name = table.required("agent", "the name of an agent, or write an `approval`");
    let name = name.and_then(|value| {
        let name = value.any_string()?;
        if agents.contains_key(name) {
            return Some(name.to_owned());
        }
        let known: Vec<&str> = agents.keys().map(String::as_str).collect();
        value.refuse(match known.is_empty() {
            true => format!("no agent is called `{name}`: write `[agents.{name}]`"),
            false => format!("no agent is called `{name}`, there are: {}", known.join(", ")),
        })
    });
    let name = name.unwrap_or_default();
    let action = table.text("action").unwrap_or_default();
    if action.len() > LABEL_BYTES_MAX {
        let bytes = action.len();
        table.fault_of("action", format!("has {bytes} bytes, the limit is {LABEL_BYTES_MAX}"));
    }
    let params = table.get("params").filter(|value| value.table().is_some());
    let params = match params.and_then(|value| value.json()) {
        Some(Json::Object(params)) => params,
        _ => Map::new(),
    };
    if params.contains_key("answers") {
        table.fault_of("params", "`answers` is where people's answers stand");
    }
    let paths = paths(table);
    let optional = table.set("optional", |value| {
        let name = value.any_string()?;
        if !paths.contains_key(name) {
            return value.refuse(format!("`{name}` is none of the names in `paths`"));
        }
        Some(name.to_owned())
    });
    let agent = agents.get(&name);
    for key in ["params", "paths"] {
        if agent.is_some_and(|agent| agent.kind == FlowAgentKind::Session)
            && table.get(key).is_some()
        {
            table.fault_of(key, "a session has its task file instead");
        }
    }
    (StepOrder { agent: name, action, params, paths, optional }, agent)
}

fn paths(table: &Table<'_>) -> BTreeMap<String, InputPath> {
    let mut paths = BTreeMap::new();
    let Some(table) = table.table("paths") else { return paths };
    for (name, place, value) in table.entries() {
        if name.len() > LABEL_BYTES_MAX {
            let bytes = name.len();
            place.fault(format!("has {bytes} bytes, the limit is {LABEL_BYTES_MAX}"));
        }
        let found = if value.is_list() {
            let elements = value.list("an array of strings").unwrap_or_default();
            Some(InputPath::Many(elements.iter().filter_map(readable).collect()))
        } else {
            readable(&value).map(InputPath::One)
        };
        paths.extend(found.map(|path| (name.to_owned(), path)));
    }
    paths
}

fn readable(value: &Value<'_>) -> Option<String> {
    let path = value.any_string()?;
    check_braces(value, path);
    match check_readable(path) {
        Ok(()) => Some(path.to_owned()),
        Err(fault) => value.refuse(fault.to_string()),
    }
}

fn agent_step(table: &Table<'_>, agent: Option<&FlowAgent>) -> AgentStep {
    let usual = agent.cloned().unwrap_or_default();
    let on_escalate =
        table.choice("on_escalate", &["ask", "continue", "stop"], |word| match word {
            "ask" => Some(OnEscalate::Ask),
            "continue" => Some(OnEscalate::Continue),
            "stop" => Some(OnEscalate::Stop),
            _ => None,
        });
    let on_retry = table.get("on_retry").and_then(|value| value.name());
    AgentStep {
        writes: table.set("writes", |value| {
            let text = value.any_string()?;
            check_braces(value, text);
            match WritePattern::parse(text) {
                Ok(pattern) => Some(pattern),
                Err(fault) => value.refuse(fault.to_string()),
            }
        }),
        on_retry: on_retry.map_or(OnRetry::Itself, OnRetry::from),
        on_escalate: on_escalate.unwrap_or(OnEscalate::Ask),
        attempts: table.integer("attempts", 1..=ATTEMPTS_MAX).unwrap_or(ATTEMPTS),
        time_seconds: table.integer("time_seconds", SECONDS).unwrap_or(usual.time_seconds),
        scaffold: table.flag("scaffold").unwrap_or_default(),
    }
}

fn approval(value: &Value<'_>) -> ApprovalStep {
    let usual = ApprovalStep {
        question: String::new(),
        answers: AnswerForm::YesNo,
        reject: Vec::new(),
        deadline_seconds: DEADLINE_SECONDS,
        reminder_seconds: None,
        default: None,
        on_no: OnNo::Stop,
    };
    let Some(table) = value.table() else { return usual };
    table.only(&APPROVAL_KEYS);
    let answers = table.get("answers").and_then(|value| answers(&value)).unwrap_or(usual.answers);
    let reject = table.set("reject", |value| {
        let word = value.any_string()?;
        match &answers {
            AnswerForm::Choice(choices) if choices.iter().any(|it| it == word) => {
                Some(word.to_owned())
            }
            AnswerForm::Choice(_) => value.refuse(format!("`{word}` is none of the answers")),
            _ => value.refuse("only an answer that is chosen can be listed here"),
        }
    });
    let deadline = table.integer("deadline_seconds", SECONDS).unwrap_or(usual.deadline_seconds);
    let reminder: Option<u64> = table.integer("reminder_seconds", SECONDS);
    if reminder.is_some_and(|reminder| reminder >= deadline) {
        let message = format!("must be less than the deadline of {deadline} seconds");
        table.fault_of("reminder_seconds", message);
    }
    let default = table.get("default").and_then(|value| {
        let given = value.json()?;
        match answers.check(&given) {
            Ok(()) => Some(given),
            Err(reason) => value.refuse(reason),
        }
    });
    let on_no = table.get("on_no").and_then(|value| value.name());
    ApprovalStep {
        question: table.text("question").unwrap_or_default(),
        answers,
        reject,
        deadline_seconds: deadline,
        reminder_seconds: reminder,
        default,
        on_no: on_no.map_or(usual.on_no, OnNo::from),
    }
}

fn answers(value: &Value<'_>) -> Option<AnswerForm> {
    if !value.is_list() {
        return value.choice(&["yes-no", "text", "number"], |word| match word {
            "yes-no" => Some(AnswerForm::YesNo),
            "text" => Some(AnswerForm::Text),
            "number" => Some(AnswerForm::Number),
            _ => None,
        });
    }
    let choices: Vec<String> =
        value.list("an array of strings")?.iter().filter_map(Value::text).collect();
    let mut distinct = choices.clone();
    distinct.sort();
    distinct.dedup();
    match choices.len() {
        0 | 1 => value.refuse("must have at least two answers to choose from"),
        found if found > CHOICES_MAX => {
            value.refuse(format!("has {found} answers, the limit is {CHOICES_MAX}"))
        }
        found if found != distinct.len() => value.refuse("an answer is listed twice"),
        _ => Some(AnswerForm::Choice(choices)),
    }
}
