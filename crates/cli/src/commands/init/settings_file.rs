//! Our hooks in the settings of Claude Code.
//!
//! The file is somebody else's: what is written, replaced or taken away are our hooks, and every other
//! byte stays. A hook is ours by the program that it runs and the store that it names.

use serde_json::{Value, json};

use super::json_text::{
    JsonFault, Layout, Node, Shape, inserted, made_of, plain, read, removed, spliced, without,
};
use super::our_command::OurCommand;

/// The member that lists hooks, at the top and within a group.
const HOOKS: &str = "hooks";
/// The member that keeps Claude Code from running any hook.
const DISABLED: &str = "disableAllHooks";

/// One of our hooks: for which event, and the group that runs it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct OurHook {
    pub(super) event: &'static str,
    pub(super) group: Value,
}

/// The text with our hooks in it, as they are to be.
pub(super) fn with_hooks(
    text: &str,
    ours: &[OurHook],
    known: &OurCommand,
) -> Result<String, JsonFault> {
    let mut text = match (text.trim().is_empty(), ours.first()) {
        (true, Some(first)) => made_for(first),
        _ => text.to_owned(),
    };
    for hook in ours {
        text = with_hook(&text, hook, known)?;
    }
    Ok(text)
}

/// A file that holds one hook.
fn made_for(hook: &OurHook) -> String {
    made_of(&json!({ HOOKS: { hook.event: [hook.group] } }))
}

/// Whether the settings keep Claude Code from running any hook.
pub(crate) fn hooks_are_disabled(text: &str) -> bool {
    let value: Option<Value> = serde_json::from_str(&plain(text)).ok();
    value.is_some_and(|value| value.get(DISABLED) == Some(&Value::Bool(true)))
}

fn with_hook(text: &str, hook: &OurHook, known: &OurCommand) -> Result<String, JsonFault> {
    let root = read(text)?;
    let Some(hooks) = root.object(HOOKS)? else {
        let value = json!({ hook.event: [hook.group] });
        return Ok(inserted(text, &root, Some(HOOKS), &value));
    };
    let Some(list) = hooks.only(hook.event)?.map(|member| &member.value) else {
        return Ok(inserted(text, hooks, Some(hook.event), &json!([hook.group])));
    };
    let Shape::List(groups) = &list.shape else {
        return Err(JsonFault::Wrong(hook.event.to_owned(), "a list"));
    };
    let found: Vec<&Node> = groups.iter().filter(|group| ours_in(text, group, known) > 0).collect();
    match found.as_slice() {
        [] => Ok(inserted(text, list, None, &hook.group)),
        [group] if group.value(text).as_ref() == Some(&hook.group) => Ok(text.to_owned()),
        // One of ours from another time.
        [group] if ours_in(text, group, known) == 1 && hooks_of(group).len() == 1 => {
            let layout = Layout::of(text, list);
            Ok(spliced(text, group.span.clone(), &layout.value(&hook.group)))
        }
        // Somebody moved ours among others, or doubled it: out, and in again.
        [group, ..] => match without_one(text, &[&root, hooks, list, group], known)? {
            Some(text) => with_hook(&text, hook, known),
            None => Ok(made_for(hook)),
        },
    }
}

/// The text without our hooks; none where it was made for them.
pub(super) fn without_hooks(text: &str, known: &OurCommand) -> Result<Option<String>, JsonFault> {
    let mut text = text.to_owned();
    if text.trim().is_empty() {
        return Ok(Some(text));
    }
    loop {
        let root = read(&text)?;
        let Some(hooks) = root.object(HOOKS)? else { return Ok(Some(text)) };
        let lists = hooks.members().iter().map(|member| &member.value);
        let found = lists.clone().find_map(|list| {
            let Shape::List(groups) = &list.shape else { return None };
            groups.iter().find(|group| ours_in(&text, group, known) > 0).map(|group| (list, group))
        });
        let Some((list, group)) = found else { return Ok(Some(text)) };
        match without_one(&text, &[&root, hooks, list, group], known)? {
            Some(less) => text = less,
            None => return Ok(None),
        }
    }
}

/// Takes the first of our hooks out of a group, and whatever would be left empty by that; none if that
/// is everything. `path` leads from the root to the group.
fn without_one(
    text: &str,
    path: &[&Node; 4],
    known: &OurCommand,
) -> Result<Option<String>, JsonFault> {
    let [root, hooks, list, group] = path;
    let inner = group.only(HOOKS)?.map(|member| &member.value);
    let at = hooks_of(group).iter().position(|hook| is_ours(text, hook, known)).unwrap_or_default();
    match inner {
        Some(inner) if inner.children().len() > 1 => Ok(Some(removed(text, inner, at))),
        _ => Ok(without(text, &group.span, &[list, hooks, root])),
    }
}

/// How many of our hooks a group runs.
fn ours_in(text: &str, group: &Node, known: &OurCommand) -> usize {
    hooks_of(group).iter().filter(|hook| is_ours(text, hook, known)).count()
}

fn is_ours(text: &str, hook: &Node, known: &OurCommand) -> bool {
    let value = hook.value(text);
    let command = value.as_ref().and_then(|hook| hook.get("command")).and_then(Value::as_str);
    command.is_some_and(|command| known.begins(command))
}

/// The hooks of a group.
fn hooks_of(group: &Node) -> &[Node] {
    let hooks = group.members().iter().find(|member| member.key == HOOKS);
    hooks.map(|member| member.value.elements()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hook(event: &'static str, program: &str) -> OurHook {
        let command = format!("'{program}' --home '/w/.countersign' hook claude-code");
        OurHook { event, group: json!({ "hooks": [{ "command": command, "type": "command" }] }) }
    }

    fn ours() -> Vec<OurHook> {
        vec![hook("PreToolUse", "/bin/countersign"), hook("SessionEnd", "/bin/countersign")]
    }

    fn known() -> OurCommand {
        OurCommand { program: "/bin/countersign".into(), home: "'/w/.countersign'".into() }
    }

    fn with_hooks(text: &str, ours: &[OurHook]) -> Result<String, JsonFault> {
        super::with_hooks(text, ours, &known())
    }

    fn without_hooks(text: &str) -> Result<Option<String>, JsonFault> {
        super::without_hooks(text, &known())
    }

    #[test]
    fn a_new_file_holds_our_hooks_alone_and_goes_with_them() {
        let made = with_hooks("", &ours()[..1]).unwrap();
        let expected = r#"{
  "hooks": {
    "PreToolUse": [
      {
        "hooks": [
          {
            "command": "'/bin/countersign' --home '/w/.countersign' hook claude-code",
            "type": "command"
          }
        ]
      }
    ]
  }
}
"#;
        assert_eq!(made, expected);
        assert_eq!(without_hooks(&made), Ok(None));
    }

    /// Every byte that was there is there afterwards, and when ours go, the old text is back.
    #[test]
    fn whatever_else_is_in_a_file_stays_as_it_was() {
        let theirs = r#"{"matcher":"Bash","hooks":[{"type":"command","command":"lint  --x","timeout":5.0}]}"#;
        let texts = [
            format!("{{\n    \"b\" : 1.50,\n    \"hooks\": {{\n        \"PreToolUse\": [\n            {theirs}\n        ],\n        \"Stop\": []\n    }},\n    \"a\": [ ]\n}}"),
            format!("{{\"z\": \"a \\\" }} , {{\", \"hooks\":{{\"PreToolUse\":[{theirs}]}},\"y\":-0.0}}\n\n"),
            "{\n\t\"model\": \"x\",\n\t\"permissions\": {\n\t\t\"allow\": [\"Bash(ls:*)\"]\n\t}\n}\n".to_owned(),
            "{\"big\":123456789012345678901234567890,\"hooks\":{\"Stop\":[1]}}".to_owned(),
            "{}".to_owned(),
            "{ }\n".to_owned(),
            "{\n}\n".to_owned(),
            "{\"hooks\":{}}".to_owned(),
            "{\n  \"hooks\": {\n    \"PreToolUse\": []\n  }\n}\n".to_owned(),
            "{\"hooks\":{\"PreToolUse\":[ ],\"SessionEnd\":[\n]}}".to_owned(),
            "// mine\n{\n  \"a\": 1, // one\n  \"hooks\": {\n    /* none */ \"PreToolUse\": [ // yet\n    ],\n  },\n}\n".to_owned(),
            format!("{{\"hooks\": {{\"PreToolUse\": [{theirs}, /* last */ ], // end\n}} }}"),
            "{ // nothing\n}\n".to_owned(),
        ];
        for text in &texts {
            let made = with_hooks(text, &ours()).unwrap();
            let value: Value = serde_json::from_str(&plain(&made)).unwrap();
            for hook in ours() {
                let list = value["hooks"][hook.event].as_array().unwrap();
                assert_eq!(list.last(), Some(&hook.group), "{made}");
            }
            assert_eq!(with_hooks(&made, &ours()).unwrap(), made);
            assert_eq!(without_hooks(&made), Ok(Some(text.clone())), "{made}");
            assert_eq!(without_hooks(text), Ok(Some(text.clone())));
        }
    }

    #[test]
    fn an_older_hook_of_ours_is_replaced_where_it_stands() {
        let text = |group: &Value| {
            format!(r#"{{"hooks":{{"PreToolUse":[{{"a": 1}}, {group},{{"b":2}}]}}}}"#)
        };
        let [old, new] =
            ["/old/countersign", "/new/countersign"].map(|program| hook("PreToolUse", program));
        let made = with_hooks(&text(&old.group), std::slice::from_ref(&new));
        assert_eq!(made, Ok(text(&new.group)));
    }

    #[test]
    fn ours_among_others_goes_alone() {
        let group =
            |hooks: &str| format!(r#"{{"hooks":{{"PreToolUse":[{{"hooks":[{hooks}]}}]}}}}"#);
        let our_one = r#"{"command":"/x/countersign --home '/w/.countersign' hook claude-code"}"#;
        let text = group(&format!(r#"{{"command":"a"}},{our_one}"#));
        assert_eq!(without_hooks(&text), Ok(Some(group(r#"{"command":"a"}"#))));
        // Moved among others it is an old one, and doubled it would record everything twice.
        for text in [text, group(&format!("{our_one},{our_one}"))] {
            let made = with_hooks(&text, &ours()[..1]).unwrap();
            let value: Value = serde_json::from_str(&made).unwrap();
            assert_eq!(value.to_string().matches("hook claude-code").count(), 1, "{made}");
            assert_eq!(
                value["hooks"]["PreToolUse"].as_array().unwrap().last(),
                Some(&ours()[0].group)
            );
        }
    }

    #[test]
    fn a_hook_of_somebody_else_that_sounds_like_ours_stays() {
        for command in [
            "log.sh hook claude-code",
            "'/bin/countersign' --home '/other' hook claude-code",
            "'/bin/countersign' --home '/w/.countersign' hook claude-codex",
            "'/bin/countersign' --home '/w/.countersign' hook generic",
            "true; '/bin/countersign' --home '/w/.countersign' hook claude-code",
            "'/bin/countersign --home' '/w/.countersign' hook claude-code",
            "'/bin/not-countersign' --home '/w/.countersign' hook claude-code",
        ] {
            let theirs = json!({ "hooks": [{ "command": command, "type": "command" }] });
            let text = format!(r#"{{"hooks":{{"PreToolUse":[{theirs}]}}}}"#);
            let made = with_hooks(&text, &ours()).unwrap();
            let value: Value = serde_json::from_str(&made).unwrap();
            assert_eq!(value["hooks"]["PreToolUse"], json!([theirs, ours()[0].group]), "{made}");
            assert_eq!(without_hooks(&made), Ok(Some(text)));
        }
    }

    #[test]
    fn what_are_no_settings_is_left_alone() {
        use JsonFault as F;
        for (text, fault) in [
            ("[]", F::NotAnObject),
            ("{\"hooks\": []}", F::Wrong("hooks".into(), "an object")),
            ("{\"hooks\": {\"PreToolUse\": {}}}", F::Wrong("PreToolUse".into(), "a list")),
            ("{\"hooks\": {}, \"hooks\": {}}", F::Twice("hooks".into())),
            ("{\"hooks\": {\"PreToolUse\":[],\"PreToolUse\":[]}}", F::Twice("PreToolUse".into())),
        ] {
            assert_eq!(with_hooks(text, &ours()), Err(fault), "{text}");
        }
        for text in ["{", "{} # comment", "\u{feff}{}", "{'a': 1}"] {
            assert!(matches!(with_hooks(text, &ours()), Err(F::NotJson(_))), "{text}");
        }
    }
}
