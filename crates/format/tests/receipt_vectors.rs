//! Receipts as CapSeal and the specification compute them, and the ways in which they can be wrong.

#![cfg(test)]

use countersign_format::hash::Hash;
use countersign_format::json;
use countersign_format::python::{PyValue, dumps, loads};
use countersign_format::receipt::{
    ActionType, AgentAction, CheckedReceipt, GateDecision, GateScore, PolicyVerdict, ReceiptForm,
    ReceiptKind, Record, check, check_with,
};
use countersign_format::shape::{Fault, Unknown};

const VECTORS: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cases/receipt-vectors.json"));

/// A canonical text of either form with its hash.
fn vectors() -> Vec<(String, ReceiptForm, String, Hash)> {
    let vectors: Vec<serde_json::Value> = serde_json::from_str(VECTORS).unwrap();
    let text = |vector: &serde_json::Value, key: &str| vector[key].as_str().unwrap().to_owned();
    let forms = [("spec12", ReceiptForm::Twelve), ("code13", ReceiptForm::Thirteen)];
    let each_form = |vector: &serde_json::Value| {
        forms.map(|(key, form)| {
            let hash = text(vector, &format!("{key}_sha256")).parse().unwrap();
            (text(vector, "name"), form, text(vector, key), hash)
        })
    };
    let vectors: Vec<_> = vectors.iter().flat_map(each_form).collect();
    assert!(vectors.len() >= 26);
    vectors
}

fn action() -> AgentAction {
    AgentAction {
        action_id: "act_0001".into(),
        action_type: ActionType::ToolCall,
        instruction_hash: Hash::of(b"i").to_hex().into(),
        input_hash: Hash::of(b"in").to_hex().into(),
        output_hash: Hash::of(b"out").to_hex().into(),
        parent_action_id: None,
        parent_receipt_hash: None,
        gate_score: None,
        gate_decision: None,
        policy_verdict: None,
        success: true,
        duration_ms: 45.into(),
        timestamp: "2024-01-15T10:30:00Z".into(),
        metadata: None,
    }
}

fn faults(document: &str) -> Vec<String> {
    lines(&check(document.as_bytes()).unwrap_err())
}

fn lines(faults: &[Fault]) -> Vec<String> {
    faults.iter().map(ToString::to_string).collect()
}

/// A document whose unknown members are left alone.
fn kept(document: &str) -> CheckedReceipt {
    check_with(document.as_bytes(), Unknown::Kept)
        .unwrap_or_else(|faults| panic!("{document}: {:?}", faults.into_vec()))
}

/// The line with a piece of its text exchanged.
fn edited(line: &str, old: &str, new: &str) -> String {
    assert!(line.contains(old), "{old} in {line}");
    line.replacen(old, new, 1)
}

#[test]
fn canonical_fields_alone_hash_as_the_vectors_say() {
    for (name, form, text, hash) in vectors() {
        let checked = check(text.as_bytes()).unwrap_or_else(|faults| panic!("{name}: {faults:?}"));
        assert_eq!(checked.hash, hash, "{name}");
        assert_eq!(checked.canonical, text, "{name}");
        assert_eq!((checked.kind, checked.form), (ReceiptKind::CanonicalFields, form), "{name}");
        assert_eq!(checked.action.canonical(form), text, "{name}");
    }
}

#[test]
fn every_vector_as_a_whole_record_agrees_with_itself() {
    for (name, form, text, hash) in vectors() {
        let fields = text.strip_prefix('{').unwrap();
        let line = format!(
            r#"{{"metadata": {{"k": [1.0]}}, "receipt_hash": "{hash}", "canonical_fields": {text}, {fields}"#
        );
        let checked = check(line.as_bytes()).unwrap_or_else(|faults| panic!("{name}: {faults:?}"));
        assert_eq!((checked.kind, checked.form), (ReceiptKind::Record, form), "{name}");
        assert_eq!((checked.hash, checked.canonical), (hash, text), "{name}");
    }
}

#[test]
fn every_vector_as_a_bare_action_hashes_twelve_fields() {
    let all = vectors();
    for pair in all.chunks(2) {
        let [(name, _, twelve, hash), (_, _, thirteen, _)] = pair else { panic!("two forms each") };
        for text in [twelve, thirteen] {
            let bare = edited(text, "{", r#"{"metadata":null,"#);
            let checked = check(bare.as_bytes()).unwrap();
            assert_eq!(checked.kind, ReceiptKind::Action, "{name}");
            assert_eq!((checked.form, checked.hash), (ReceiptForm::Twelve, *hash), "{name}");
        }
    }
}

/// A document that somebody extended. `policy_verdic` stands for every misspelled name: it is told.
#[test]
fn unknown_members_change_no_hash_and_are_told() {
    for (name, form, text, hash) in vectors() {
        let bare = kept(&edited(&text, "{", r#"{"policy_verdic":"x","a/b":[NaN],"#));
        let record = Record::new(bare.action.clone(), form);
        assert_eq!(bare.kind, ReceiptKind::Action, "{name}");
        assert_eq!(bare.hash, bare.action.receipt_hash(ReceiptForm::Twelve), "{name}");
        assert_eq!(
            lines(&bare.unknown),
            [
                "/a~1b: unknown field, which no receipt hash covers",
                "/policy_verdic: unknown field, which no receipt hash covers",
            ]
        );
        let fields = text.strip_prefix('{').unwrap();
        let whole = kept(&format!(
            r#"{{"note":1,"receipt_hash":"{hash}","canonical_fields":{text},{fields}"#
        ));
        assert_eq!((whole.kind, whole.form, whole.hash), (ReceiptKind::Record, form, hash));
        assert_eq!(lines(&whole.unknown), ["/note: unknown field, which no receipt hash covers"]);
        assert_eq!(record.verify(), [], "{name}");
        // The hashed fields alone are still known for what they are.
        let alone = kept(&text);
        assert_eq!(
            (alone.kind, alone.form, alone.hash),
            (ReceiptKind::CanonicalFields, form, hash)
        );
        assert!(alone.unknown.is_empty(), "{name}");
    }
}

#[test]
fn the_hashed_fields_have_no_others_among_them() {
    let line = Record::new(action(), ReceiptForm::Twelve).to_line().unwrap();
    let more = edited(&line, r#""canonical_fields": {"#, r#""canonical_fields": {"note": 1, "#);
    let faults = check_with(more.as_bytes(), Unknown::Kept).unwrap_err();
    assert_eq!(lines(&faults.into_vec()), ["/canonical_fields/note: unknown field"]);
}

#[test]
fn an_action_in_an_event_may_have_members_that_are_not_known() {
    let mut value = action().to_json().unwrap();
    value["note"] = serde_json::json!({ "gate_score": 1 });
    let read = AgentAction::from_json(&value).unwrap();
    assert_eq!(read.canonical_12(), action().canonical_12());
    assert_eq!(
        countersign_format::receipt::recompute(&value),
        Some(action().receipt_hash(ReceiptForm::Twelve))
    );
}

#[test]
fn a_document_with_any_number_of_faults_is_told_of_a_thousand() {
    let keys: String = (0..50_000).map(|it| format!("\"{it}\":1,")).collect();
    let document = edited(&action().canonical_12(), "{", &format!("{{{keys}"));
    let told = faults(&document);
    assert_eq!((told.len(), &*told[0]), (1_001, "/0: unknown field"));
    assert_eq!(told[1_000], "(document): and 49000 more faults, which are not listed");
    let hints = kept(&document).unknown;
    assert_eq!(hints.len(), 1_001);
    assert_eq!(hints[1_000].message, "and 49000 more hints, which are not listed");
    let faulty = check_with(edited(&document, ":45", ":[]").as_bytes(), Unknown::Refused);
    let faulty = faulty.unwrap_err();
    assert_eq!(faulty.count(), 50_001);
    assert_eq!(faulty.listed().next().map(|fault| &*fault.pointer), Some("/duration_ms"));

    let line = Record::new(action(), ReceiptForm::Twelve).to_line().unwrap();
    let start = r#""canonical_fields": {"#;
    let told = faults(&edited(&line, start, &format!("{start}{keys}")));
    assert_eq!((told.len(), &*told[0]), (1_001, "/canonical_fields/0: unknown field"));
    let long = edited(&line, "{", &format!("{{\"{}\":1,", "k".repeat(900_000)));
    assert!(faults(&long)[0].len() < 1_100);
    assert!(kept(&long).unknown[0].pointer.len() < 1_100);
}

/// Members of an action that differ from [`action`], its hash over twelve fields and over thirteen.
const CAPSEAL_HASHES: &str = r#"
"gate_score":0.1,"gate_decision":"pass"
03776b7ca8ea7a121d9bb52d62b3048b69960046b0e97e6c1abdfdfd08b163e0
fac33bccd95320c33044db988b5ca39b2ad5bca68dd63ca3df1a3fa0ccd58c1c
"gate_score":1,"gate_decision":"skip"
30d73b29094acc885873314fe3e81bdcb772ab3193bd0b2ea0a33bfdfcce10b1
b57101ab4c08415190762d0df64aeea16947112f69a8da891446d9dc5084bdc9
"gate_score":0.30000000000000004,"gate_decision":"human_review"
f0b384fd36aa902dc84bc173f1e920058aad9fedbc7aee83be919848cfb016bb
dff4404c674826632108e40c67cddc77ef6d11d203ab85ac000b40e71e6390b3
"action_id":"act_\ud83d\ude80\ud835\udcb3"
77950d121ae1362a1d07285ef3d4804f6b17c03de9cea530edd98be8bff45234
8bd19d5186bf6fd6df4c73bae7f62fbcd8124423f024d44b354bd0f020221457
"gate_score":-0.0,"gate_decision":"pass"
4a298b920e6d606ecb74a681664c5828a8a1b09d63d90ac1be5ffa8fc127a0e6
f6e83dee16428196cd4360ca86353bbbb1da2537da0ef3929c65e028e8078bcc
"gate_score":1.2345678901234568e+17
aaf43773a27f5dee2a3d92502293b8c635bdd001310563b918b6b21253713f7e
fdd657a7faa66979e1f4c0382c032b3d296d38809485ff8ac65df463814e6d86
"gate_score":0.0001
c89340eb0eefc25635678ee1927d4820cf5dedb2a4a7582f8bcd772cccd2eca6
1c777ff18b697add918074a46edee9467ff365490f3070a078eab96560efc6e8
"gate_score":Infinity
d7e576e08614813c7a9d9c875686349c40056e88592ea0fac8d9e65c4d78ffee
9e83b00b96ee0457a0302fdd85edc76359c1f59a305e3fe56c58022c650c8c45
"action_id":"x\ud800y"
51fff988dc5e305840954feb813f600354a52688dc79599199d093dcf42ab870
f792fbdf369bf4ce18b35ab6b7f98aba62c899d682aaf7088dbbe9200daf715c
"action_id":"act_0002","parent_action_id":"act_0001","parent_receipt_hash":"8a98009764967bab898113045807ed19a3f2a81d70bf5b25986cdb86bf50aaf5"
c5c2ed3759b70bc855ebfb69346a7fd0bfb364b26649b2e2dabfc647936c5c62
af5b04e10ac4c7d71fa83a3760c94323312e7596d40ce274b9a1f0cf339b09ca
"gate_score":5e-324
67d5dbde4b34f87f579f73cda5c1bd0eb2c943447343c3b768da97defa8e1420
22173422836fb82aa42775f86fe368a73d8da969cf213242c44a302cb4632a2c
"duration_ms":9007199254740993
85e3d27844537989b04eac7b7542a36107692b2bffbec8d77f09ac759ef43047
674c5e7f115794b9a3a51618a6679837ceb30835e613359a39d837b6d75f3b07
"gate_score":9007199254740992.0
7f92aa0f1bb7d11eb244b6fc837350ac6105de93626877f958fd4be82b47f815
48378b0581c7c352c075db51118c054e20f38fce315d2f1e5c917778cc60292b
"#;

#[test]
fn spelled_out_values_have_the_hashes_that_capseal_gave_them() {
    let lines: Vec<&str> = CAPSEAL_HASHES.trim().lines().collect();
    assert_eq!(lines.len(), 3 * 13);
    for row in lines.chunks(3) {
        for (text, hash) in [(action().canonical_12(), row[1]), (action().canonical_13(), row[2])] {
            // The last of repeated keys counts.
            let document = format!("{},{}}}", text.trim_end_matches('}'), row[0]);
            let checked = check(document.as_bytes()).unwrap();
            assert_eq!(checked.hash.to_hex(), hash, "{}", row[0]);
        }
    }
}

#[test]
fn an_action_that_is_built_hashes_like_one_that_is_read() {
    let built = AgentAction {
        gate_score: Some(0.12.into()),
        gate_decision: Some(GateDecision::Pass),
        policy_verdict: Some(PolicyVerdict::FullyVerified),
        ..action()
    };
    assert_eq!(
        built.receipt_hash(ReceiptForm::Thirteen).to_hex(),
        "5fae283c19204bf2166b6aa224bd0843f191302e040b39d6590354be38510962"
    );
    assert_eq!(
        built.receipt_hash(ReceiptForm::Twelve).to_hex(),
        "3ca6795d6ea5cf03b174aead9a5bbf6afc06e3073766b16078d5131e4baff84e"
    );
    assert_ne!(
        AgentAction { gate_score: Some(GateScore::Float(1.0)), ..action() }.canonical_12(),
        AgentAction { gate_score: Some(GateScore::Integer(1.into())), ..action() }.canonical_12(),
    );
}

#[test]
fn absent_optional_fields_count_as_null() {
    let sparse = r#"{"action_id":"act_0001","action_type":"tool_call","duration_ms":45,
        "input_hash":"582967534d0f909d196b97f9e6921342777aea87b46fa52df165389db1fb8ccf",
        "instruction_hash":"de7d1b721a1e0632b7cf04edf5032c8ecffa9f9a08492152b926f1a5a7e765d7",
        "output_hash":"762069bc07a6e1b5df123a5ae7bd91c10daa04694fbaa17fba0cd6a8dcce8f22",
        "success":true,"timestamp":"2024-01-15T10:30:00Z"}"#;
    let checked = check(sparse.as_bytes()).unwrap();
    assert_eq!(checked.kind, ReceiptKind::Action);
    assert_eq!(checked.canonical, action().canonical_12());
}

#[test]
fn a_line_is_written_in_capseals_order_and_read_back() {
    let metadata = loads(br#"{"b":"\u00e9","a":[1,2.50]}"#).unwrap();
    let PyValue::Object(metadata) = metadata else { panic!("object") };
    let record =
        Record::new(AgentAction { metadata: Some(metadata), ..action() }, ReceiptForm::Twelve);
    let line = record.to_line().unwrap();
    let hashes = concat!(
        r#""instruction_hash": "de7d1b721a1e0632b7cf04edf5032c8ecffa9f9a08492152b926f1a5a7e765d7", "#,
        r#""input_hash": "582967534d0f909d196b97f9e6921342777aea87b46fa52df165389db1fb8ccf", "#,
        r#""output_hash": "762069bc07a6e1b5df123a5ae7bd91c10daa04694fbaa17fba0cd6a8dcce8f22", "#,
    );
    let canonical = record.canonical().replace(",\"", ", \"").replace("\":", "\": ");
    assert_eq!(
        line,
        format!(
            concat!(
                r#"{{"action_id": "act_0001", "action_type": "tool_call", {}"#,
                r#""parent_action_id": null, "parent_receipt_hash": null, "gate_score": null, "#,
                r#""gate_decision": null, "policy_verdict": null, "success": true, "#,
                r#""duration_ms": 45, "timestamp": "2024-01-15T10:30:00Z", "#,
                r#""metadata": {{"a": [1, 2.5], "b": "\u00e9"}}, "#,
                r#""receipt_hash": "4bd6cf3e9e9c1038585dc8650e7b529fe47bb66b5d403fa04efcfc4d20faf56d", "#,
                r#""canonical_fields": {}}}"#
            ),
            hashes, canonical
        )
    );
    assert_eq!(Record::read(line.as_bytes()), Ok(record));
}

#[test]
fn what_only_python_reads_is_never_written() {
    let lone = |text: &str| match loads(text.as_bytes()).unwrap() {
        PyValue::String(text) => text,
        other => panic!("{}", dumps(&other)),
    };
    let big = || check(edited(&action().canonical_12(), ":45,", ":9007199254740992,").as_bytes());
    let metadata = [(lone(r#""\udead""#), PyValue::Null)];
    for (action, fault) in [
        (
            AgentAction { gate_score: Some(f64::NAN.into()), ..action() },
            "/gate_score: must be a finite number",
        ),
        (
            AgentAction { gate_score: Some(f64::NEG_INFINITY.into()), ..action() },
            "/gate_score: must be a finite number",
        ),
        (big().unwrap().action, "/duration_ms: integer beyond ±9007199254740991"),
        (
            AgentAction { timestamp: lone(r#""a\ud800""#), ..action() },
            "/timestamp: holds a lone surrogate",
        ),
        (
            AgentAction { metadata: Some(metadata.into()), ..action() },
            "/metadata/\u{fffd}: holds a lone surrogate",
        ),
    ] {
        let written = Record::new(action.clone(), ReceiptForm::Twelve).to_line().unwrap_err();
        assert_eq!(written.iter().map(ToString::to_string).collect::<Vec<_>>(), [fault]);
        let in_event = action.to_json().unwrap_err();
        assert_eq!(in_event.iter().map(ToString::to_string).collect::<Vec<_>>(), [fault]);
    }
}

#[test]
fn the_receipt_hash_survives_a_stay_in_an_event() {
    for score in [None, Some(0.0), Some(1.0), Some(0.666_667), Some(1e-7), Some(0.1 + 0.2)] {
        let action = AgentAction {
            gate_score: score.map(GateScore::Float),
            policy_verdict: Some(PolicyVerdict::ProofOnly),
            ..action()
        };
        let bytes = json::to_bytes(&action.to_json().unwrap());
        let event = json::read(&bytes).unwrap();
        assert_eq!(AgentAction::from_json(&event), Ok(action));
    }
    for score in [GateScore::Integer(1.into()), GateScore::Float(-0.0)] {
        let faults = AgentAction { gate_score: Some(score), ..action() }.to_json().unwrap_err();
        assert_eq!(faults[0].to_string(), "/gate_score: must be a float other than -0.0");
    }
}

#[test]
fn faulty_documents_are_refused_with_every_reason() {
    let twelve = action().canonical_12();
    let thirteen = action().canonical_13();
    for (document, expected) in [
        ("[]".to_owned(), vec!["(document): must be an object, found an array"]),
        (
            "{\"a\":1".to_owned(),
            vec!["(document): unexpected end of input, expected `,` or `}` at line 1 column 7"],
        ),
        (
            "{}".to_owned(),
            vec![
                "/action_id: missing",
                "/action_type: missing",
                "/instruction_hash: missing",
                "/input_hash: missing",
                "/output_hash: missing",
                "/success: missing",
                "/duration_ms: missing",
                "/timestamp: missing",
            ],
        ),
        (
            edited(&twelve, "act_0001\"", "act_0001\",\"extra/~\":1,\"b\":2"),
            vec!["/b: unknown field", "/extra~1~0: unknown field"],
        ),
        (edited(&twelve, ":true", ":1"), vec!["/success: must be true or false, found an integer"]),
        (edited(&twelve, ":45", ":45.0"), vec!["/duration_ms: must be an integer, found a float"]),
        (
            edited(&twelve, ":45", ":true"),
            vec!["/duration_ms: must be an integer, found true or false"],
        ),
        (edited(&twelve, "\"act_0001\"", "null"), vec!["/action_id: must be a string, found null"]),
        (
            edited(
                &edited(&twelve, "gate_score\":null", "gate_score\":\"0.1\""),
                "gate_decision\":null",
                "gate_decision\":\"approve\"",
            ),
            vec![
                "/gate_score: must be a number or null, found a string",
                "/gate_decision: must be one of: pass, skip, human_review, human_approved, skipped",
            ],
        ),
        (
            edited(&thirteen, "policy_verdict\":null", "policy_verdict\":\"proof_only\""),
            vec!["/policy_verdict: must be one of: PROOF_ONLY, POLICY_ENFORCED, FULLY_VERIFIED"],
        ),
        (
            edited(&twelve, "{", "{\"metadata\":[],"),
            vec!["/metadata: must be an object or null, found an array"],
        ),
    ] {
        assert_eq!(faults(&document), expected, "{document}");
    }
    let unknown_type = faults(&edited(&twelve, "tool_call", r"tool\ud800"));
    assert_eq!(unknown_type.len(), 1);
    assert!(unknown_type[0].starts_with("/action_type: must be one of: tool_call, code_gen, "));
}

#[test]
fn faulty_records_are_refused_with_every_reason() {
    let line = Record::new(action(), ReceiptForm::Twelve).to_line().unwrap();
    let line_13 = Record::new(action(), ReceiptForm::Thirteen).to_line().unwrap();
    let hash = "4bd6cf3e9e9c1038585dc8650e7b529fe47bb66b5d403fa04efcfc4d20faf56d";
    let fields_at = line.find("\"canonical_fields\"").unwrap();
    let (own, canonical) = line.split_at(fields_at);
    for (document, expected) in [
        (
            edited(&line, &format!(r#", "receipt_hash": "{hash}""#), ""),
            vec!["/receipt_hash: missing"],
        ),
        (
            edited(&line, hash, &hash.to_uppercase()),
            vec!["/receipt_hash: a hash is 64 lowercase hexadecimal digits"],
        ),
        (
            edited(&line, &format!("\"{hash}\""), "7"),
            vec!["/receipt_hash: must be a string, found an integer"],
        ),
        (format!("{}}}", own.trim_end_matches(", ")), vec!["/canonical_fields: missing"]),
        (
            format!("{own}\"canonical_fields\": null}}"),
            vec!["/canonical_fields: must be an object, found null"],
        ),
        (edited(&line, "\"metadata\"", "\"note\": 1, \"metadata\""), vec!["/note: unknown field"]),
        (
            format!("{own}{}", edited(canonical, "\"success\": true", "\"metadata\": null")),
            vec!["/canonical_fields/success: missing", "/canonical_fields/metadata: unknown field"],
        ),
        (
            edited(&line, "\"duration_ms\": 45", "\"duration_ms\": 46"),
            vec!["/canonical_fields/duration_ms: differs from the record's own `duration_ms`"],
        ),
        (
            format!(
                "{own}{}",
                edited(canonical, "\"action_id\": \"act_0001\"", "\"action_id\": \"act_0002\"")
            ),
            vec![
                "/canonical_fields/action_id: differs from the record's own `action_id`",
                "/receipt_hash: stored 4bd6cf3e9e9c1038585dc8650e7b529fe47bb66b5d403fa04efcfc4d20faf56d, computed HASH",
            ],
        ),
        (
            edited(&line_13, "\"policy_verdict\": null", "\"policy_verdict\": \"FULLY_VERIFIED\""),
            vec![
                "/canonical_fields/policy_verdict: differs from the record's own `policy_verdict`",
            ],
        ),
        (
            edited(&edited(&line, hash, &"0".repeat(64)), "tool_call", "tool_cal"),
            vec![
                "/action_type: must be one of: tool_call, code_gen, code_edit, api_request, decision, observation, file_read, file_write, file_delete, shell_exec, command, browser_action, web_request, action, unknown",
            ],
        ),
    ] {
        let found = faults(&document);
        let computed = AgentAction { action_id: "act_0002".into(), ..action() };
        let computed = computed.receipt_hash(ReceiptForm::Twelve).to_hex();
        let found: Vec<_> = found.iter().map(|fault| fault.replace(&computed, "HASH")).collect();
        assert_eq!(found, expected, "{document}");
    }
}

#[test]
fn a_number_of_another_kind_is_another_value() {
    let one = AgentAction { gate_score: Some(1.0.into()), ..action() };
    let line = Record::new(one, ReceiptForm::Thirteen).to_line().unwrap();
    assert_eq!(
        faults(&edited(&line, "\"gate_score\": 1.0", "\"gate_score\": 1")),
        ["/canonical_fields/gate_score: differs from the record's own `gate_score`"]
    );
    check(edited(&line, "\"gate_score\": 1.0", "\"gate_score\": 10e-1").as_bytes()).unwrap();
}
