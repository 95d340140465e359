//! An action as somebody writes it down: our own request, an action record, or what an MCP client
//! sends. The names of all three are taken; what has none of them is said, not guessed.

use countersign_format::json::{Map, Value};
use countersign_format::risk::RiskClass;
use countersign_format::text::to_nfc;
use countersign_gate::{FindingLevel, GateRequest};
use countersign_runtime::actions::action_type;

/// An action, and the members of the document that mean nothing to the gate.
#[derive(Debug)]
pub(super) struct AskedAction {
    pub(super) request: GateRequest,
    pub(super) ignored: Vec<String>,
}

/// Names that an action record has and the gate has no use for.
const OF_RECORDS: [&str; 16] = [
    "action_id",
    "canonical_fields",
    "duration_ms",
    "gate_decision",
    "gate_score",
    "input_hash",
    "instruction_hash",
    "metadata",
    "output_hash",
    "parent_action_id",
    "parent_receipt_hash",
    "policy_verdict",
    "receipt_hash",
    "schema_version",
    "success",
    "timestamp",
];

/// Reads an action.
pub(super) fn read(document: &Value) -> Result<AskedAction, String> {
    let Value::Object(members) = document else {
        return Err("an action is a JSON object".to_owned());
    };
    let mut asked = Asked { members, metadata: members.get("metadata"), used: Vec::new() };
    let kind = asked.text(&["action_type", "type"])?;
    let kind = kind.ok_or("an action has an `action_type`, such as `code_edit`")?;
    let tool = asked.text(&["tool", "tool_name"])?;
    let agent = asked.text(&["agent", "agent_id"])?.unwrap_or_else(|| "agent".to_owned());
    let role = asked.text(&["role"])?.unwrap_or_else(|| "executor".to_owned());
    let action = action_type(&kind);
    let tool = tool.unwrap_or(kind);
    let mut request = GateRequest::new(&agent, &role, action, &tool);
    request.description = asked.text(&["description"])?.unwrap_or_default();
    request.paths = asked.texts(&["paths", "files_affected", "files", "path", "file"])?;
    request.diff = asked.text(&["diff", "diff_text"])?;
    request.command = asked.text(&["command"])?;
    request.content = asked.text(&["content"])?;
    if let Some(risk) = asked.text(&["risk", "safety_classification"])? {
        let known = RiskClass::NAMES.join(", ");
        request.risk = RiskClass::parse(&risk)
            .ok_or_else(|| format!("no risk class `{risk}`, there are: {known}"))?;
    }
    if let Some(severity) = asked.member(&["finding_severity"]) {
        request.finding_severity = serde_json::from_value::<FindingLevel>(severity.clone())
            .map_err(|error| format!("`finding_severity`: {error}"))?;
    }
    if let Some(granted) = asked.member(&["network_granted"]) {
        request.network_granted =
            granted.as_bool().ok_or("`network_granted` must be true or false")?;
    }
    let known = |name: &str| asked.used.contains(&name) || OF_RECORDS.contains(&name);
    let ignored = members.keys().filter(|name| !known(name)).cloned().collect();
    Ok(AskedAction { request, ignored })
}

struct Asked<'d> {
    members: &'d Map<String, Value>,
    metadata: Option<&'d Value>,
    used: Vec<&'static str>,
}

impl<'d> Asked<'d> {
    /// The first of these members that is there, or that the metadata of a record have.
    fn member(&mut self, names: &[&'static str]) -> Option<&'d Value> {
        self.used.extend(names);
        let given = |value: &&Value| !value.is_null();
        let own = names.iter().find_map(|name| self.members.get(*name).filter(given));
        own.or_else(|| names.iter().find_map(|name| self.metadata?.get(name).filter(given)))
    }

    fn text(&mut self, names: &[&'static str]) -> Result<Option<String>, String> {
        match self.member(names) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(to_nfc(text))),
            Some(_) => Err(format!("`{}` must be text", names.join("` or `"))),
        }
    }

    fn texts(&mut self, names: &[&'static str]) -> Result<Vec<String>, String> {
        let wrong = || format!("`{}` must be a list of texts", names.join("` or `"));
        match self.member(names) {
            None => Ok(Vec::new()),
            Some(Value::String(text)) => Ok(vec![to_nfc(text)]),
            Some(Value::Array(elements)) => {
                let texts = elements.iter().map(|it| it.as_str().map(to_nfc).ok_or_else(wrong));
                texts.collect()
            }
            Some(_) => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use countersign_format::receipt::ActionType;
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_records_and_calls_of_clients_all_mean_the_same() {
        let expected = GateRequest {
            description: "fix it".into(),
            paths: vec!["a.rs".into()],
            diff: Some("+x".into()),
            ..GateRequest::new("agent", "executor", ActionType::CodeEdit, "edit")
        };
        let documents = [
            json!({ "action_type": "code_edit", "tool": "edit", "description": "fix it",
                "paths": ["a.rs"], "diff": "+x" }),
            json!({ "action_type": "edit", "description": "fix it", "files_affected": ["a.rs"],
                "diff_text": "+x" }),
            json!({ "action_type": "code_edit", "action_id": "act_0001", "success": true,
                "diff": "+x", "metadata": { "tool_name": "edit", "description": "fix it",
                "files_affected": ["a.rs"] } }),
        ];
        for document in documents {
            let asked = read(&document).unwrap();
            assert_eq!((asked.request, asked.ignored), (expected.clone(), Vec::<String>::new()));
        }
    }

    #[test]
    fn what_means_nothing_is_named_and_what_is_wrong_is_refused() {
        let asked = read(&json!({ "action_type": "edit", "pathes": ["a"] })).unwrap();
        assert_eq!(asked.ignored, ["pathes"]);
        let table = [
            (json!([]), "an action is a JSON object"),
            (json!({}), "an action has an `action_type`, such as `code_edit`"),
            (json!({ "action_type": 1 }), "`action_type` or `type` must be text"),
            (
                json!({ "action_type": "x", "risk": "high" }),
                "no risk class `high`, there are: low, standard, elevated, critical",
            ),
        ];
        for (document, expected) in table {
            assert_eq!(read(&document).unwrap_err(), expected);
        }
    }
}
