//! Envelopes against the shared case files, and cases of our own beside them.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failing helper is a failing test"
)]

use countersign_format::envelope::{
    EnvelopeError, INPUT_ENVELOPE_FIELDS, InputEnvelope, InputPath, OUTPUT_ENVELOPE_FIELDS,
    OutputEnvelope, Recommendation,
};
use countersign_format::shape::{Fields, Need, Shape, document_schema};
use serde_json::{Value, json};

#[expect(clippy::disallowed_methods, reason = "the cases lie in files")]
fn cases(name: &str) -> Vec<Value> {
    let path = format!("{}/../../tests/cases/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect("case file");
    text.lines().map(|line| serde_json::from_str(line).expect("case")).collect()
}

fn text<'a>(case: &'a Value, key: &str) -> &'a str {
    case.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn input() -> Value {
    json!({
        "context": { "feature_id": "005-user-auth", "workflow": "specify", "iteration": 1 },
        "paths": { "root": "specs/005-user-auth/", "all": ["a.md", "b.md"] },
        "task": { "action": "validate", "params": { "x": [1, null, { "y": 1.5 }] } },
        "prior_context": ["Spec complete"],
    })
}

fn output() -> Value {
    json!({
        "success": true, "summary": "done", "notes": ["x"], "recommendation": "proceed",
        "artifacts": [{ "path": "a.md", "operation": "create", "content": "x" }],
    })
}

/// `document` with the member at `pointer` replaced, or removed if there is no value.
fn with(mut document: Value, pointer: &str, value: Option<Value>) -> Value {
    let (parent, key) = pointer.rsplit_once('/').expect("pointer");
    let parent = document.pointer_mut(parent).expect("parent");
    match (parent, value) {
        (Value::Object(members), Some(value)) => {
            members.insert(key.into(), value);
        }
        (Value::Object(members), None) => {
            members.remove(key).expect("member");
        }
        (Value::Array(elements), Some(value)) => {
            elements[key.parse::<usize>().expect("index")] = value;
        }
        _ => panic!("cannot change {pointer}"),
    }
    document
}

fn faults<T: std::fmt::Debug>(result: Result<T, EnvelopeError>) -> Vec<String> {
    match result {
        Ok(_) => Vec::new(),
        Err(error) => error.faults().iter().map(ToString::to_string).collect(),
    }
}

fn input_faults(document: &Value) -> Vec<String> {
    faults(InputEnvelope::from_bytes(document.to_string().as_bytes()))
}

fn output_faults(document: &Value) -> Vec<String> {
    faults(OutputEnvelope::from_bytes(document.to_string().as_bytes()))
}

fn artifact_faults(path: &str) -> Vec<String> {
    output_faults(&with(output(), "/artifacts/0/path", Some(json!(path))))
}

#[test]
fn every_shared_case_has_its_outcome() {
    let mut parsed = 0;
    for case in cases("envelope-cases.jsonl") {
        let bytes = text(&case, "json").as_bytes();
        let found = match text(&case, "kind") {
            "input" => faults(InputEnvelope::from_bytes(bytes)),
            _ => faults(OutputEnvelope::from_bytes(bytes)),
        };
        // Cases of a later stage are valid documents; what makes them fail is on the disk.
        let valid = text(&case, "stage") == "apply" || text(&case, "expect") == "ok";
        assert_eq!(found.is_empty(), valid, "{}: {found:?}", text(&case, "name"));
        parsed += 1;
    }
    assert_eq!(parsed, 104);
}

#[test]
fn every_hostile_envelope_is_refused_and_what_the_gate_decides_passes() {
    use base64::Engine as _;
    let mut seen = 0;
    for case in cases("hostile-json.jsonl") {
        if text(&case, "layer") != "schema:adr007" {
            continue;
        }
        seen += 1;
        let bytes = base64::engine::general_purpose::STANDARD.decode(text(&case, "bytes_b64"));
        let result = OutputEnvelope::from_bytes(&bytes.expect("base64"));
        let passes = text(&case, "expect") == "policy";
        assert_eq!(result.is_ok(), passes, "{}: {result:?}", text(&case, "name"));
    }
    assert_eq!(seen, 24);
}

#[test]
fn what_is_read_is_written_again_with_unknown_members() {
    let document = with(input(), "/trace_id", Some(json!("abc")));
    let document = with(document, "/context/plugin", Some(json!({ "a": [1] })));
    let document = with(document, "/task/deadline", Some(json!(null)));
    let envelope = InputEnvelope::from_value(document.clone()).expect("valid");
    assert_eq!(envelope.paths.get("root"), Some(&InputPath::One("specs/005-user-auth/".into())));
    assert_eq!(serde_json::to_value(&envelope).expect("json"), document);

    let document = with(input(), "/context/feature_id", Some(json!(null)));
    let document = with(document, "/prior_context", None);
    let envelope = InputEnvelope::from_value(document.clone()).expect("valid");
    assert_eq!(serde_json::to_value(&envelope).expect("json"), document);

    let document = with(output(), "/tokens_used", Some(json!(1234)));
    let document = with(document, "/artifacts/0/mode", Some(json!("0755")));
    let envelope = OutputEnvelope::from_value(document.clone()).expect("valid");
    assert_eq!(serde_json::to_value(&envelope).expect("json"), document);
}

/// Pointers of all members that a table names, descending into objects and first elements.
fn pointers(fields: &Fields, prefix: &str, out: &mut Vec<(String, Need)>) {
    for field in fields.fields {
        let pointer = format!("{prefix}/{}", field.name);
        match &field.shape {
            Shape::Object(inner) => pointers(inner, &pointer, out),
            Shape::List(Shape::Object(inner)) => pointers(inner, &format!("{pointer}/0"), out),
            _ => {}
        }
        out.push((pointer, field.need));
    }
}

fn every_member_is_needed_and_typed(
    fields: &Fields,
    document: &Value,
    check: impl Fn(&Value) -> Vec<String>,
) {
    assert_eq!(check(document), Vec::<String>::new());
    let mut all = Vec::new();
    pointers(fields, "", &mut all);
    for (pointer, need) in all {
        let without = check(&with(document.clone(), &pointer, None));
        match need {
            Need::Required | Need::RequiredSince1_1 => {
                assert_eq!(without, [format!("{pointer}: missing")]);
            }
            Need::Optional => assert_eq!(without, Vec::<String>::new()),
        }
        let null = check(&with(document.clone(), &pointer, Some(Value::Null)));
        assert_eq!(null.is_empty(), pointer == "/context/feature_id", "{pointer} null");
        for wrong in
            [json!(7), json!("x"), json!(["x"]), json!([[]]), json!({ "p": {} }), json!(false)]
        {
            let now = document.pointer(&pointer).expect("there");
            if std::mem::discriminant(now) == std::mem::discriminant(&wrong) {
                continue;
            }
            let found = check(&with(document.clone(), &pointer, Some(wrong.clone())));
            assert!(!found.is_empty(), "{pointer} {wrong}");
            assert!(found[0].starts_with(&pointer), "{pointer} {wrong}: {found:?}");
        }
    }
}

#[test]
fn each_member_that_a_table_names_is_needed_and_typed() {
    every_member_is_needed_and_typed(&INPUT_ENVELOPE_FIELDS, &input(), input_faults);
    every_member_is_needed_and_typed(&OUTPUT_ENVELOPE_FIELDS, &output(), output_faults);
}

#[test]
fn all_faults_are_listed_at_once_with_their_places() {
    let document = json!({
        "success": 1, "summary": " ", "notes": ["a", 2, null],
        "artifacts": [{ "path": "../x", "operation": "delete" }, ["a.md", "create", "x"]],
    });
    assert_eq!(
        output_faults(&document),
        [
            "/success: must be true or false, found a number",
            "/summary: must not be empty",
            "/artifacts/0/path: path has a `..` component",
            "/artifacts/0/operation: must be one of: create, update",
            "/artifacts/0/content: missing",
            "/artifacts/1: must be an object, found an array",
            "/notes/1: must be a string, found a number",
            "/notes/2: must be a string, found null",
            "/recommendation: missing",
        ]
    );
    let document = json!({
        "context": { "feature_id": 5, "iteration": 0 }, "task": { "params": [] },
        "paths": { "a/b": ["x", ""], "c~": null, "d": {}, "e": 1 }, "prior_context": null,
    });
    assert_eq!(
        input_faults(&document),
        [
            "/context/feature_id: must be a string or null, found a number",
            "/context/workflow: missing",
            "/context/iteration: must be at least 1",
            "/paths/a~1b/1: path is empty",
            "/paths/c~0: must not be null: leave the key out instead",
            "/paths/d: must be a string or an array of strings, found an object",
            "/paths/e: must be a string or an array of strings, found a number",
            "/task/action: missing",
            "/task/params: must be an object, found an array",
            "/prior_context: must not be null: leave an optional field out instead",
        ]
    );
}

#[test]
fn documents_that_are_not_one_object_are_refused() {
    let valid = output().to_string();
    for document in [
        String::new(),
        " ".into(),
        "null".into(),
        "[]".into(),
        "true".into(),
        "1".into(),
        "\"x\"".into(),
        "{}".into(),
        format!("\u{feff}{valid}"),
        format!("{valid}{valid}"),
        format!("{valid}x"),
        format!("[{valid}]"),
        format!("Here it is:\n{valid}"),
        format!("```json\n{valid}\n```"),
        format!("{valid}\0"),
        valid.replace("\"done\"", "\"\\ud800\""),
        valid.replace("\"done\"", "\"a\nb\""),
        valid.replace("\"success\"", "\"succ\\u0065ss\":true,\"success\""),
        valid.replace("true", "True"),
        valid.replace("\"done\"", "NaN"),
        valid.replace("\"done\"", "'done'"),
        valid.replace("\"done\"", "1e400"),
    ] {
        assert!(OutputEnvelope::from_bytes(document.as_bytes()).is_err(), "{document:?}");
        assert!(InputEnvelope::from_bytes(document.as_bytes()).is_err(), "{document:?}");
    }
    assert!(OutputEnvelope::from_bytes(format!("\r\n\t {valid} \n").as_bytes()).is_ok());
    let mut bytes = valid.into_bytes();
    bytes[12] = 0xff;
    assert!(matches!(OutputEnvelope::from_bytes(&bytes), Err(EnvelopeError::Json(_))));
}

#[test]
fn an_envelope_may_be_larger_than_a_ledger_line_but_not_without_bound() {
    let large = |size: usize| with(output(), "/artifacts/0/content", Some(json!("x".repeat(size))));
    assert_eq!(output_faults(&large(15 << 20)), Vec::<String>::new());
    assert!(output_faults(&large(16 << 20))[0].contains("invalid JSON"));
    let summary = |size: usize| with(output(), "/summary", Some(json!("x".repeat(size))));
    assert_eq!(output_faults(&summary(65_536)), Vec::<String>::new());
    assert_eq!(
        output_faults(&summary(65_537)),
        ["/summary: is 65537 bytes long, the limit is 65536"]
    );
    let notes = |count: usize| with(output(), "/notes", Some(json!(vec!["x"; count])));
    assert_eq!(output_faults(&notes(1000)), Vec::<String>::new());
    assert_eq!(output_faults(&notes(1001)), ["/notes: has 1001 entries, the limit is 1000"]);
    let key = json!({ "k".repeat(256): [1, 2, 3] });
    assert_eq!(
        input_faults(&with(input(), "/paths", Some(key))),
        ["/paths: a key is 256 bytes long, the limit is 255"]
    );
}

#[test]
fn success_and_recommendation_must_not_contradict_each_other() {
    for success in [true, false] {
        for recommendation in Recommendation::NAMES {
            let document = with(output(), "/success", Some(json!(success)));
            let document = with(document, "/recommendation", Some(json!(recommendation)));
            let valid = success || recommendation != "proceed";
            assert_eq!(output_faults(&document).is_empty(), valid, "{success} {recommendation}");
        }
    }
    for other in ["", "Proceed", "proceed ", "complete", "skip", "escalated", "retry\n"] {
        let document = with(output(), "/recommendation", Some(json!(other)));
        assert_eq!(
            output_faults(&document),
            ["/recommendation: must be one of: proceed, retry, escalate"]
        );
    }
    for other in ["", "Create", "create | update", "append", "rename", "delete"] {
        let document = with(output(), "/artifacts/0/operation", Some(json!(other)));
        assert_eq!(
            output_faults(&document),
            ["/artifacts/0/operation: must be one of: create, update"]
        );
    }
}

#[test]
fn two_artifacts_cannot_be_one_file_or_lie_inside_each_other() {
    let of = |paths: &[&str]| {
        let artifacts: Vec<Value> = paths
            .iter()
            .map(|path| json!({ "path": path, "operation": "update", "content": "" }))
            .collect();
        output_faults(&with(output(), "/artifacts", Some(json!(artifacts))))
    };
    assert_eq!(of(&["a", "a-b", "a.md", "ab/c", "b/a", "b/b"]), Vec::<String>::new());
    assert_eq!(
        of(&["a", "b", "a"]),
        ["/artifacts/2/path: names the same file as `/artifacts/0/path`"]
    );
    assert_eq!(
        of(&["É.md", "é.md"]),
        ["/artifacts/1/path: names the same file as `/artifacts/0/path`"]
    );
    assert_eq!(
        of(&["a/b/c", "a-", "A"]),
        ["/artifacts/0/path: lies inside `/artifacts/2/path`, which is a file"]
    );
    assert_eq!(of(&["a", "a/b", "a/b/c", "A/B"]).len(), 3);
}

#[test]
fn content_is_any_text_and_other_text_is_kept_as_written() {
    for content in ["", "\0", "a\r\nb", "cafe\u{301}", "\u{feff}x", "\u{ffff}", "\u{202e}", "🚀"]
    {
        let document = with(output(), "/artifacts/0/content", Some(json!(content)));
        assert_eq!(output_faults(&document), Vec::<String>::new(), "{content:?}");
    }
    let document = with(output(), "/summary", Some(json!("cafe\u{301}\n\u{1b}[2J")));
    let envelope = OutputEnvelope::from_value(document).expect("valid");
    assert_eq!(envelope.summary, "cafe\u{301}\n\u{1b}[2J");
    let document = with(output(), "/notes", Some(json!(["", "\u{fffe}"])));
    assert_eq!(output_faults(&document), ["/notes/1: noncharacter U+FFFE"]);
}

#[test]
fn artifact_paths_stay_below_the_workspace() {
    for path in ["a", ".env", ".github/workflows/x.yml", "v1..2/a...md", "docs/my file.md"] {
        assert_eq!(artifact_faults(path), Vec::<String>::new(), "{path}");
    }
    for path in
        ["", "..", "/", "./a", "a/", "C:x", "a\\b", "a:b", "NUL", "a.", ".GIT/x", "e\u{301}"]
    {
        let found = artifact_faults(path);
        assert_eq!(found.len(), 1, "{path}");
        assert!(found[0].starts_with("/artifacts/0/path: "), "{path}: {found:?}");
    }
}

#[test]
fn a_feature_id_is_null_or_one_safe_component() {
    for id in
        [json!(null), json!("005"), json!("W-00042"), json!("a b"), json!("ä"), json!("v1..2")]
    {
        assert_eq!(
            input_faults(&with(input(), "/context/feature_id", Some(id))),
            Vec::<String>::new()
        );
    }
    for id in ["", " ", "..", "a/b", "a\\b", "a:b", "a\n", ".git", "CON", "a.", &"a".repeat(256)] {
        let found = input_faults(&with(input(), "/context/feature_id", Some(json!(id))));
        assert_eq!(found.len(), 1, "{id:?}");
    }
    for id in [json!(5), json!(["005"]), json!({}), json!(false)] {
        assert!(!input_faults(&with(input(), "/context/feature_id", Some(id))).is_empty());
    }
}

#[test]
fn iterations_are_integers_from_one() {
    let of = |token: &str| {
        let text =
            input().to_string().replace("\"iteration\":1", &format!("\"iteration\":{token}"));
        InputEnvelope::from_bytes(text.as_bytes())
    };
    for (token, iteration) in [("1", 1), ("2", 2), ("9007199254740991", 9_007_199_254_740_991)] {
        assert_eq!(of(token).expect(token).context.iteration, iteration);
    }
    for token in [
        "0",
        "-0",
        "-1",
        "1.0",
        "1e0",
        "1E0",
        "1.5",
        "01",
        "+1",
        "\"1\"",
        "true",
        "null",
        "[1]",
        "{}",
        "9007199254740992",
        "18446744073709551617",
        "1e400",
        "Infinity",
        "0x1",
        "",
    ] {
        assert!(of(token).is_err(), "{token}");
    }
}

#[test]
fn given_paths_are_relative_but_may_be_directories_and_read_only_places() {
    let of = |path: &str| input_faults(&with(input(), "/paths/root", Some(json!(path))));
    for path in ["specs/005/", ".claude/skills/x.md", ".humaninloop/memory/constitution.md", "."] {
        assert_eq!(of(path), Vec::<String>::new(), "{path}");
    }
    for path in ["", "/etc/passwd", "../x", "a\\b", "C:/x", "a//b", "\0", "https://x/y"] {
        assert_eq!(of(path).len(), 1, "{path}");
    }
    for list in [json!([]), json!(["a"])] {
        assert_eq!(input_faults(&with(input(), "/paths/all", Some(list))), Vec::<String>::new());
    }
    for list in [json!([1]), json!([null]), json!([["a"]]), json!(["a", "/b"])] {
        assert_eq!(input_faults(&with(input(), "/paths/all", Some(list))).len(), 1);
    }
}

#[test]
fn former_field_names_get_a_hint() {
    let document = with(
        with(output(), "/recommendation", None),
        "/next_recommendation",
        Some(json!("proceed")),
    );
    assert_eq!(
        output_faults(&document),
        ["/recommendation: missing: write `recommendation` instead of `next_recommendation`"]
    );
    let document = with(with(output(), "/artifacts", None), "/state_updates", Some(json!({})));
    assert_eq!(
        output_faults(&document),
        ["/artifacts: missing: return the updated file in `artifacts` instead of `state_updates`"]
    );
    let document = with(output(), "/artifacts/0/operation", Some(json!("overwrite")));
    assert_eq!(
        output_faults(&document),
        [
            "/artifacts/0/operation: must be one of: create, update; write `update` instead of `overwrite`"
        ]
    );
    let document = with(with(input(), "/task/action", None), "/task/mode", Some(json!("validate")));
    assert_eq!(
        input_faults(&document),
        ["/task/action: missing: write `action` instead of `mode`"]
    );
    let flat = json!({ "feature_id": "005", "spec_path": "specs/005/spec.md", "iteration": 1, "mode": "x" });
    assert_eq!(
        input_faults(&flat),
        [
            "/context: missing: write `feature_id`, `workflow` and `iteration` inside `context`",
            "/paths: missing: write file paths as members of `paths`",
            "/task: missing: write `action` and `params` inside `task`",
        ]
    );
    let document = with(output(), "/state_updates", Some(json!({})));
    let hints = OutputEnvelope::from_value(document).expect("tolerated").legacy_hints();
    assert_eq!(
        hints.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["/state_updates: return the updated file in `artifacts` instead of `state_updates`"]
    );
    let document = with(input(), "/task/mode", Some(json!("x")));
    let hints = InputEnvelope::from_value(document).expect("tolerated").legacy_hints();
    assert_eq!(hints[0].to_string(), "/task/mode: write `action` instead of `mode`");
}

#[test]
fn no_list_hides_the_faults_of_other_members_and_what_is_not_listed_is_counted() {
    let artifact = json!({ "path": "../x", "operation": "create", "content": "x" });
    let document = with(output(), "/artifacts", Some(vec![artifact; 9_000].into()));
    let document = with(document, "/notes", Some(vec![json!(1); 1_000].into()));
    let document = with(document, "/recommendation", Some(json!("merge")));
    let error = OutputEnvelope::from_value(document).expect_err("faulty");
    let EnvelopeError::Faults(all) = &error else { panic!("{error}") };
    assert_eq!(all.count(), 9_000 + 1_000 + 1);
    let faults = error.faults();
    assert_eq!(faults.len(), 1_000 + 1_000 + 1 + 1);
    assert_eq!(faults[2_000].pointer, "/recommendation");
    assert_eq!(faults[2_001].to_string(), "(document): and 8000 more faults, which are not listed");
    // What is told to the agent and recorded stays short.
    let said = error.to_string();
    assert!(said.ends_with("; and 9801 more") && said.len() < 20_000, "{}", said.len());

    let document = with(input(), "/paths/all", Some(vec![json!("/x"); 10_000].into()));
    let faults = input_faults(&with(document, "/task", Some(json!(1))));
    assert_eq!(faults.len(), 1_002);
    assert_eq!(faults[1_000], "/task: must be an object, found a number");
    let files: serde_json::Map<_, _> = (0..5_000).map(|it| (it.to_string(), json!(1))).collect();
    assert_eq!(input_faults(&with(input(), "/paths", Some(files.into()))).len(), 1_001);
}

#[test]
fn artifacts_that_collide_in_number_do_not_hide_what_comes_after_them() {
    let artifact = json!({ "path": "a.md", "operation": "create", "content": "x" });
    let document = with(output(), "/artifacts", Some(vec![artifact; 9_000].into()));
    let faults = output_faults(&with(document, "/notes", Some(json!(null))));
    assert_eq!(faults.len(), 1_002);
    assert!(faults[1_000].starts_with("/notes: must not be null"), "{}", faults[1_000]);
}

#[test]
fn keys_of_any_length_and_number_are_told_in_short() {
    let long = "k".repeat(4 << 20);
    let twice = output().to_string().replacen('{', &format!("{{\"{long}\":1,\"{long}\":2,"), 1);
    let told = faults(OutputEnvelope::from_bytes(twice.as_bytes()));
    assert_eq!(told.len(), 1);
    assert!(told[0].contains("duplicate key `kkk") && told[0].len() < 400, "{}", told[0].len());

    let mut document = output();
    document[format!("{long}_report")] = json!(1);
    let hints = OutputEnvelope::from_value(document.clone()).expect("tolerated").legacy_hints();
    assert!(hints.len() == 1 && hints[0].pointer.len() < 1_100);
    for number in 0..3_000 {
        document[format!("{number}_report")] = json!(1);
    }
    let hints = OutputEnvelope::from_value(document).expect("tolerated").legacy_hints();
    assert_eq!(hints.len(), 1_001);
    assert_eq!(hints[1_000].message, "and 2001 more hints, which are not listed");
}

#[test]
fn artifacts_that_a_sharp_s_tells_apart_are_one_file() {
    let artifact = |path| json!({ "path": path, "operation": "create", "content": "x" });
    for (one, other) in [("ß", "ẞ"), ("ẞ", "ss"), ("a/Straße", "A/STRASSE")] {
        let document = with(output(), "/artifacts", Some(json!([artifact(one), artifact(other)])));
        assert_eq!(
            output_faults(&document),
            ["/artifacts/1/path: names the same file as `/artifacts/0/path`"],
            "{one} {other}"
        );
    }
}

#[test]
fn tables_give_schemas_that_tolerate_unknown_fields() {
    let schema = document_schema(&OUTPUT_ENVELOPE_FIELDS, "output-envelope");
    assert_eq!(schema["required"], json!(["success", "summary", "artifacts", "recommendation"]));
    assert_eq!(schema.get("additionalProperties"), None);
    let schema = document_schema(&INPUT_ENVELOPE_FIELDS, "input-envelope");
    assert_eq!(schema["required"], json!(["context", "paths", "task"]));
}
