//! `[[steps]]`: what a built-in planner proposes, action by action.

use std::collections::BTreeMap;

use countersign_format::path::WorkspacePath;
use countersign_format::risk::RiskClass;

use super::agents::program;
use countersign_protocol::session::Confidence;

use super::choice::EvidenceSource;
use super::document::{Table, Value};
use crate::tools::{CallFault, ToolCall};

/// Exit statuses that an event can carry; a negative one is the signal that ended the program.
const EXIT_STATUS: std::ops::RangeInclusive<i64> = -255..=255;

/// Members of an action that belong to every tool.
const ANY_TOOL: [&str; 5] = ["tool", "risk", "justification", "idempotent", "retries"];
const EXEC: [&str; 6] = ["argv", "shell", "cwd", "env", "stdin", "success"];
const FILE_READ: [&str; 1] = ["path"];
const FILE_WRITE: [&str; 2] = ["path", "content"];
const FILE_DELETE: [&str; 1] = ["path"];

/// One unit of work, proposed as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Its name, unique in the task.
    pub id: String,
    /// What it is for.
    pub objective: String,
    /// What is taken for granted.
    pub assumptions: Vec<String>,
    /// What will show that it was done.
    pub expected_evidence: Vec<String>,
    /// The steps that must have succeeded before.
    pub after: Vec<String>,
    /// The step after whose failure it is proposed, and only then.
    pub fallback_for: Option<String>,
    /// What is done, in this order.
    pub actions: Vec<Action>,
    /// What is claimed once all of it succeeded.
    pub claims: Vec<ClaimTemplate>,
}

/// One use of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// What the tool is asked to do.
    pub call: ToolCall,
    /// How dangerous it is.
    pub risk: RiskClass,
    /// Why it is done.
    pub justification: String,
    /// Whether doing it twice is as good as doing it once.
    pub idempotent: bool,
    /// How often it is tried again after it failed.
    pub retries: u32,
    /// Exit statuses that count as success; `[0]` for tools that have none.
    pub success: Vec<i32>,
}

/// What is claimed of a step that succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimTemplate {
    /// The statement.
    pub text: String,
    /// How sure of it the executor is.
    pub confidence: Confidence,
    /// What it rests on.
    pub evidence: Vec<EvidenceSource>,
}

impl Step {
    const KEYS: [&'static str; 8] = [
        "id",
        "objective",
        "assumptions",
        "expected_evidence",
        "after",
        "fallback_for",
        "actions",
        "claims",
    ];

    pub(super) fn read(table: &Table<'_>) -> Self {
        table.only(&Self::KEYS);
        let objective = table.text("objective").unwrap_or_default();
        Self {
            id: table.name("id").unwrap_or_default(),
            assumptions: table.texts("assumptions"),
            expected_evidence: table.texts("expected_evidence"),
            after: table.set("after", Value::name),
            fallback_for: table.get("fallback_for").and_then(|value| value.name()),
            actions: actions(table, &objective),
            claims: claims(table),
            objective,
        }
    }
}

/// The tables of an array of tables.
pub(super) fn tables<'a>(array: &Value<'a>) -> Vec<Table<'a>> {
    let elements = array.list("an array of tables");
    elements.iter().flatten().filter_map(Value::table).collect()
}

fn actions(step: &Table<'_>, objective: &str) -> Vec<Action> {
    let Some(given) = step.required("actions", "an array of tables") else { return Vec::new() };
    if given.is_empty_list() {
        given.fault("must not be empty, a step does something");
    }
    tables(&given).iter().filter_map(|table| Action::read(table, objective)).collect()
}

fn claims(step: &Table<'_>) -> Vec<ClaimTemplate> {
    let given = step.get("claims").map(|given| tables(&given)).unwrap_or_default();
    given.iter().map(ClaimTemplate::read).collect()
}

impl Action {
    fn read(table: &Table<'_>, objective: &str) -> Option<Self> {
        let call = call(table);
        let risk = table.choice("risk", &RiskClass::NAMES, RiskClass::parse);
        let justification = table.get("justification").and_then(|value| value.text());
        let idempotent = table.flag("idempotent");
        let retries = table.integer("retries", 0..=10);
        let call = call?;
        let has_status = matches!(call, ToolCall::Exec { .. });
        let success = table.get("success").filter(|_| has_status).map(|value| statuses(&value));
        let always = matches!(call, ToolCall::FileRead { .. });
        if always && idempotent == Some(false) {
            table.fault_of("idempotent", "must be true, a `file_read` is always idempotent");
        }
        Some(Self {
            risk: risk.unwrap_or(call.usual_risk()),
            justification: justification.unwrap_or_else(|| objective.to_owned()),
            idempotent: always || idempotent.unwrap_or_default(),
            retries: retries.unwrap_or_default(),
            success: success.unwrap_or_else(|| vec![0]),
            call,
        })
    }
}

/// The members of a tool, among them the exit statuses that only programs have.
fn members(tool: &str) -> Option<&'static [&'static str]> {
    match tool {
        "exec" => Some(&EXEC),
        "file_read" => Some(&FILE_READ),
        "file_write" => Some(&FILE_WRITE),
        "file_delete" => Some(&FILE_DELETE),
        _ => None,
    }
}

/// What the tool is asked to do. Nothing is said of its members where the tool is not known.
fn call(table: &Table<'_>) -> Option<ToolCall> {
    let before = table.faults_so_far();
    let tool = table.required("tool", &format!("one of: {}", ToolCall::NAMES.join(", ")))?;
    let (tool, own) =
        tool.choice(&ToolCall::NAMES, |name| Some((tool.string()?, members(name)?)))?;
    only_own(table, tool, own);
    let call = match tool {
        "exec" => exec(table),
        "file_read" => ToolCall::FileRead { path: file(table) },
        "file_write" => {
            let content = table.required("content", "a string");
            let content = content.and_then(|value| value.any_string());
            ToolCall::FileWrite {
                path: file(table),
                content: content.unwrap_or_default().to_owned(),
            }
        }
        _ => ToolCall::FileDelete { path: file(table) },
    };
    match call.check() {
        // What was said of the members already says why the call cannot be carried out.
        Err(fault) if table.faults_so_far() == before => table.fault(fault.to_string()),
        _ => {}
    }
    Some(call)
}

/// Notes members that belong to another tool, or to none.
fn only_own(table: &Table<'_>, tool: &str, own: &[&str]) {
    let foreign = [&EXEC[..], &FILE_READ, &FILE_WRITE, &FILE_DELETE].concat();
    let foreign: Vec<&str> = foreign.into_iter().filter(|key| !own.contains(key)).collect();
    for (key, place, _) in table.entries().filter(|(key, ..)| foreign.contains(key)) {
        let own = own.join(", ");
        place.fault(format!("`{tool}` takes no `{key}`, it takes: {own}"));
    }
    let met = table.entries().map(|(key, ..)| key).filter(|key| foreign.contains(key));
    let known: Vec<&str> = own.iter().chain(&ANY_TOOL).copied().chain(met).collect();
    table.only(&known);
}

fn exec(table: &Table<'_>) -> ToolCall {
    let argv = table.get("argv").and_then(|given| {
        let entries = given.list("an array of strings")?;
        Some(program(&given, &entries))
    });
    let shell = table.get("shell").and_then(|given| match given.passable()? {
        "" => given.refuse("must not be empty, it is a script"),
        script => Some(script.to_owned()),
    });
    if table.get("argv").is_some() == table.get("shell").is_some() {
        table.fault(CallFault::ArgvOrShell.to_string());
    }
    let stdin = table.get("stdin").and_then(|value| value.any_string());
    ToolCall::Exec {
        argv: argv.unwrap_or_default(),
        shell,
        cwd: table.get("cwd").and_then(|value| path(&value)),
        env: environment(table),
        stdin: stdin.map(str::to_owned),
    }
}

fn environment(table: &Table<'_>) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    let Some(table) = table.table("env") else { return variables };
    for (name, place, value) in table.entries() {
        if name.is_empty() || name.contains(['\0', '=']) {
            place.fault("a variable's name must not be empty or hold `=` or a NUL character");
        }
        if let Some(value) = value.passable() {
            variables.insert(name.to_owned(), value.to_owned());
        }
    }
    variables
}

fn file(table: &Table<'_>) -> String {
    table.required("path", "a string").and_then(|value| path(&value)).unwrap_or_default()
}

/// A path below the workspace that tools may use.
fn path(value: &Value<'_>) -> Option<String> {
    match WorkspacePath::parse(value.any_string()?) {
        Ok(path) => Some(path.as_str().to_owned()),
        Err(fault) => value.refuse(fault.to_string()),
    }
}

fn statuses(given: &Value<'_>) -> Vec<i32> {
    let entries = given.list("an array of integers").unwrap_or_default();
    if given.is_empty_list() {
        given.fault("must not be empty, some exit status is success");
    }
    let mut statuses = Vec::new();
    for entry in entries {
        let Some(status) = entry.integer(EXIT_STATUS) else { continue };
        if statuses.contains(&status) {
            entry.fault(format!("{status} is listed twice"));
        } else {
            statuses.push(status);
        }
    }
    statuses
}

impl ClaimTemplate {
    const KEYS: [&'static str; 3] = ["text", "confidence", "evidence"];

    fn read(table: &Table<'_>) -> Self {
        table.only(&Self::KEYS);
        let confidence = table.choice("confidence", &Confidence::NAMES, Confidence::parse);
        let evidence = table.get("evidence").map(|given| {
            if given.is_empty_list() {
                given.fault("must not be empty, a claim rests on something");
            }
            table.set("evidence", |value| {
                value.choice(&EvidenceSource::NAMES, EvidenceSource::parse)
            })
        });
        Self {
            text: table.text("text").unwrap_or_default(),
            confidence: confidence.unwrap_or_default(),
            evidence: evidence.unwrap_or_else(|| EvidenceSource::OUTPUTS.to_vec()),
        }
    }
}
