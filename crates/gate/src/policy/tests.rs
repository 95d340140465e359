use super::*;
use crate::risk::Features;
use countersign_format::receipt::ActionType;

/// A rule with examples that hold, and `more` annotations or another body.
fn rule(id: &str, head: &str, body: &str) -> String {
    format!(
        "{head}@id(\"{id}\")\n@justification(\"because of {id}\")\n@match(\"code_edit a\")\n\
         @no_match(\"file_read b\")\n{body};\n"
    )
}

const FORBID: &str = "forbid (principal, action == Action::\"code_edit\", resource)";

fn fault(text: &str) -> String {
    Policy::parse(text).unwrap_err().to_string()
}

fn said(policy: &Policy, request: &GateRequest) -> Vec<String> {
    let features = Features::of(request);
    let programs = request.command.as_deref().map(crate::guard::programs).unwrap_or_default();
    let known = Circumstances {
        risk: request.risk,
        programs: &programs,
        features: &features,
        paths: &request.paths,
    };
    policy.judge(request, known).reasons().iter().map(ToString::to_string).collect()
}

fn edit(path: &str) -> GateRequest {
    GateRequest {
        paths: vec![path.to_owned()],
        ..GateRequest::new("ana", "executor", ActionType::CodeEdit, "edit")
    }
}

#[test]
fn the_built_in_policy_holds_to_its_examples() {
    let policy = Policy::parse(Policy::built_in()).unwrap();
    let ids: Vec<&str> = policy.rules().iter().map(|rule| rule.id.as_str()).collect();
    let expected = [
        "recorder-and-agent-settings",
        "git-internals",
        "write-outside",
        "read-outside",
        "secrets",
        "pipeline",
        "agent-instructions",
        "deletion",
        "critical-risk",
        "looking",
        "editing",
        "other-tools",
        "everyday-commands",
        "fetching",
    ];
    assert_eq!(ids, expected);
    // Read without being proven again, it is the same.
    let again = Policy::from_bytes(Policy::built_in().as_bytes()).unwrap();
    assert_eq!(again.rules(), policy.rules());
}

#[test]
fn the_built_in_policy_lies_ready_as_it_is_read() {
    assert!(READY == Policy::made_ready().unwrap(), "run `cargo xtask vectors`");
    let read = Policy::parse(Policy::built_in()).unwrap();
    let ready = Policy::from_bytes(Policy::built_in().as_bytes()).unwrap();
    let text = |policy: &Policy| {
        let all =
            policy.set.policies().map(|rule| (rule.id().to_string(), rule.to_json().unwrap()));
        let mut all: Vec<_> = all.map(|(id, rule)| (id, rule.to_string())).collect();
        all.sort();
        all
    };
    assert_eq!(text(&ready), text(&read));
}

#[test]
fn every_rule_that_forbids_is_named_with_its_justification() {
    let text = rule("no", "", FORBID) + &rule("ask", "@decision(\"ask\")\n", FORBID);
    let policy = Policy::parse(&text).unwrap();
    let expected = ["deny by `no`: because of no", "ask by `ask`: because of ask"];
    assert_eq!(said(&policy, &edit("a")), expected);
}

#[test]
fn rules_that_permit_are_named_where_nothing_forbids() {
    let permit = "permit (principal, action == Action::\"code_edit\", resource)";
    let policy = Policy::parse(&(rule("one", "", permit) + &rule("two", "", permit))).unwrap();
    let expected = ["allow by `one`: because of one", "allow by `two`: because of two"];
    assert_eq!(said(&policy, &edit("a")), expected);
    let both = Policy::parse(&(rule("one", "", permit) + &rule("no", "", FORBID))).unwrap();
    assert_eq!(said(&both, &edit("a")), ["deny by `no`: because of no"]);
}

#[test]
fn what_no_rule_permits_a_person_decides() {
    let policy = Policy::parse(&rule("no", "", FORBID)).unwrap();
    let request = GateRequest::new("ana", "executor", ActionType::ToolCall, "x");
    let expected =
        ["ask by `policy`: no rule permits this, and what no rule permits a person decides"];
    assert_eq!(said(&policy, &request), expected);
}

#[test]
fn a_rule_that_fails_asks_and_does_not_disappear() {
    let permit = rule("ok", "", "permit (principal, action == Action::\"code_edit\", resource)");
    let body = format!(
        "{FORBID}\nwhen {{ context.risk_level < 3 || \
        context.risk_level + 9223372036854775807 > 0 }}"
    );
    let policy = Policy::parse(&(permit + &rule("sums", "", &body))).unwrap();
    let request = GateRequest { risk: countersign_format::risk::RiskClass::Critical, ..edit("a") };
    let said = said(&policy, &request);
    assert_eq!(said.len(), 2, "{said:?}");
    assert_eq!(said[0], "allow by `ok`: because of ok");
    assert!(said[1].starts_with("ask because `sums` failed: "), "{}", said[1]);
}

#[test]
fn roles_tools_and_agents_can_be_named() {
    let text = "@id(\"r\") @justification(\"j\") @match(\"code_edit a role=critic\")\n\
         @no_match(\"code_edit a role=executor\")\n\
         forbid (principal in Role::\"critic\", action, resource);\n\
         @id(\"t\") @justification(\"j\") @match(\"tool_call tool=mcp__git__push\")\n\
         @no_match(\"tool_call tool=mcp__fs__read\")\n\
         forbid (principal, action, resource) when { resource.name like \"mcp__git__*\" };\n\
         @id(\"a\") @justification(\"j\") @match(\"decision agent=eve\") @no_match(\"decision\")\n\
         forbid (principal == Agent::\"eve\", action, resource);\n\
         @id(\"w\") @justification(\"j\") @match(\"code_edit docs/a docs/b\")\n\
         @no_match(\"code_edit docs/a src/b\")\n\
         permit (principal, action, resource) when { context.within.contains(\"docs\") };";
    assert_eq!(Policy::parse(text).unwrap().rules().len(), 4);
}

#[test]
fn a_rule_that_lacks_something_is_refused_by_name() {
    let without = |line: &str| fault(&rule("x", "", FORBID).replace(line, ""));
    assert_eq!(without("@id(\"x\")"), "line 2: the rule has no `@id(\"…\")`");
    let table = [
        ("@justification(\"because of x\")", "justification"),
        ("@match(\"code_edit a\")", "match"),
        ("@no_match(\"file_read b\")", "no_match"),
    ];
    for (line, name) in table {
        assert_eq!(without(line), format!("line 1: rule `x` has no `@{name}(\"…\")`"));
    }
}

#[test]
fn a_rule_that_does_not_keep_to_its_examples_is_refused() {
    let wrong = rule("fine", "", FORBID) + &rule("x", "", "forbid (principal, action, resource)");
    assert_eq!(fault(&wrong), "line 6: rule `x` must not match `file_read b`, but does");
    let body = "forbid (principal, action in Action::\"run\", resource)";
    assert_eq!(
        fault(&rule("x", "", body)),
        "line 1: rule `x` must match `code_edit a`, but does not"
    );
    let bad = rule("x", "", FORBID).replace("file_read b", "read b");
    let start = "line 1: rule `x` has the example `read b`: no action type `read`, there are: ";
    assert!(fault(&bad).starts_with(start), "{}", fault(&bad));
    let body = format!("{FORBID}\nwhen {{ context.risk_level + 9223372036854775807 > 0 }}");
    let start = "line 1: rule `x` fails on `code_edit a`: ";
    assert!(fault(&rule("x", "", &body)).starts_with(start), "{}", fault(&rule("x", "", &body)));
}

#[test]
fn a_rule_that_speaks_of_what_there_is_not_is_refused() {
    for condition in [
        "context.path == \"a\"",
        "context.outside == \"yes\"",
        "context.command like \"x*\"",
        "principal.colour == \"red\"",
        "resource in Folder::\"a\"",
    ] {
        let text = rule("x", "", &format!("{FORBID} when {{ {condition} }}"));
        let start = "line 1: rule `x` does not fit what a request has: ";
        assert!(fault(&text).starts_with(start), "{condition}: {}", fault(&text));
    }
}

#[test]
fn annotations_that_mean_nothing_are_refused() {
    let misspelt = fault(&rule("x", "@descision(\"ask\")\n", FORBID));
    let expected = "line 1: rule `x` has `@descision(\"ask\")`: must be one of: id, justification, \
                    decision, match, no_match";
    assert_eq!(misspelt, expected);
    let wrong = fault(&rule("x", "@decision(\"maybe\")\n", FORBID));
    assert_eq!(wrong, "line 1: rule `x` has `@decision(\"maybe\")`: must be `ask` or `deny`");
    let permit = FORBID.replace("forbid", "permit");
    let wrong = fault(&rule("x", "@decision(\"ask\")\n", &permit));
    assert_eq!(wrong, "line 1: rule `x` has `@decision(\"ask\")`: a `permit` always allows");
}

#[test]
fn what_is_no_policy_is_refused_with_its_line() {
    assert_eq!(fault(""), "the policy has no rules");
    assert_eq!(fault("// nothing\n"), "the policy has no rules");
    assert!(fault("\n\npermit all;").starts_with("line 3: "), "{}", fault("\n\npermit all;"));
    let twice = rule("x", "", FORBID) + &rule("x", "", FORBID);
    assert_eq!(fault(&twice), "line 6: there is another rule `x`");
    let template = rule("x", "", "forbid (principal == ?principal, action, resource)");
    assert!(matches!(Policy::parse(&template), Err(PolicyFault::Syntax { line: 1, .. })));
    assert_eq!(Policy::from_bytes(&[0xff]).unwrap_err(), PolicyFault::NotText);
}

#[test]
fn a_policy_made_to_exhaust_the_stack_is_answered() {
    let long = |part: &str, count: usize| {
        rule("x", "", &format!("{FORBID} when {{ {}true }}", part.repeat(count)))
    };
    for text in [
        long("true && ", 1_900),
        long("if true then true else ", 650),
        long("!", 10_000),
        long("-", 10_000),
        long("(", 10_000),
        long("[[[", 5_000),
        long("context.", 1_900),
        long("{\"a\":", 2_000),
    ] {
        let _ = Policy::parse(&text);
    }
}
