//! Examples in a policy: one line each, short enough to be read beside the rule that they hold to
//! its word.
//!
//! `file_write .env src/a.rs risk=critical` names an action, paths and settings;
//! `shell_exec: cargo test` an action and the command that it would run.

use countersign_format::receipt::ActionType;
use countersign_format::risk::RiskClass;

use crate::GateRequest;

/// The examples that an annotation holds: its lines.
pub(super) fn lines(annotation: &str) -> impl Iterator<Item = &str> {
    annotation.lines().map(str::trim).filter(|line| !line.is_empty())
}

/// The request that an example describes.
pub(super) fn request(example: &str) -> Result<GateRequest, String> {
    let (first, rest) = example.split_once(char::is_whitespace).unwrap_or((example, ""));
    let (name, command) = match first.strip_suffix(':') {
        Some(name) => (name, Some(rest.trim().to_owned())),
        None => (first, None),
    };
    let action_type = ActionType::from_name(name)
        .ok_or_else(|| format!("no action type `{name}`, there are: {}", names()))?;
    let mut request = GateRequest::new("agent", "executor", action_type, name);
    if command.is_some() {
        return Ok(GateRequest { command, ..request });
    }
    for word in rest.split_whitespace() {
        match word.split_once('=') {
            Some(("agent", value)) => value.clone_into(&mut request.agent),
            Some(("role", value)) => value.clone_into(&mut request.role),
            Some(("tool", value)) => value.clone_into(&mut request.tool),
            Some(("risk", value)) => {
                request.risk =
                    RiskClass::parse(value).ok_or_else(|| format!("no risk class `{value}`"))?;
            }
            _ => request.paths.push(word.to_owned()),
        }
    }
    Ok(request)
}

fn names() -> String {
    ActionType::NAMES.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_is_an_action_with_paths_and_settings_or_with_a_command() {
        let expected = GateRequest {
            paths: vec![".env".into(), "src/a.rs".into()],
            risk: RiskClass::Critical,
            role: "planner".into(),
            ..GateRequest::new("agent", "executor", ActionType::FileWrite, "file_write")
        };
        assert_eq!(request("file_write .env risk=critical src/a.rs role=planner"), Ok(expected));
        let expected = GateRequest {
            command: Some("A=1 cargo test | tail".into()),
            ..GateRequest::new("agent", "executor", ActionType::ShellExec, "shell_exec")
        };
        assert_eq!(request("shell_exec: A=1 cargo test | tail"), Ok(expected));
        assert!(request("write .env").unwrap_err().starts_with("no action type `write`"));
        assert_eq!(request("command risk=high"), Err("no risk class `high`".into()));
    }

    #[test]
    fn every_line_is_an_example() {
        let found: Vec<_> = lines("file_read a\n\n   file_read b \n").collect();
        assert_eq!(found, ["file_read a", "file_read b"]);
    }
}
