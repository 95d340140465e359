use serde_json::json;

use super::*;

fn proof() -> EventProof {
    let path = vec![Hash::of(b"a"), Hash::of(b"b")];
    EventProof {
        countersign: "proof".into(),
        // The text of the line is not NFC, that of the event is.
        event: "{\"a\":\"\u{e9}\\n\u{301}\"}".into(),
        extents: vec![ExtentPaths { entry: 3, event_path: path.clone(), first_path: Vec::new() }],
        first: "{}".into(),
        log: LogExtract {
            checkpoint: "countersign/x\n1\n".into(),
            entries: vec![ExtractEntry { index: 0, line: "{}".into(), path }],
        },
        schema_version: "1.1.0".into(),
    }
}

#[test]
fn a_proof_survives_its_bytes() {
    let bytes = proof().to_bytes();
    assert!(bytes.starts_with(PROOF_PREFIX));
    let expected = Ok(PortableProof::Event(Box::new(proof())));
    assert_eq!(PortableProof::read(&bytes), expected);
    assert_eq!(PortableProof::read(bytes.strip_suffix(b"\n").unwrap()), expected);
    for equivocation in [equivocation(), prefix(2)] {
        let bytes = equivocation.to_bytes();
        assert!(bytes.starts_with(PROOF_PREFIX));
        let expected = Ok(PortableProof::Equivocation(Box::new(equivocation)));
        assert_eq!(PortableProof::read(&bytes), expected);
    }
}

fn equivocation() -> Equivocation {
    Equivocation {
        countersign: "equivocation".into(),
        first: "a".into(),
        form: EquivocationForm::Checkpoints,
        keys: vec!["{}".into()],
        leaves: None,
        schema_version: "1.1.0".into(),
        second: "b".into(),
    }
}

fn prefix(leaves: usize) -> Equivocation {
    let leaves = Some(LeafHashes(vec![Hash::of(b"a"); leaves]));
    Equivocation { form: EquivocationForm::Prefix, leaves, ..equivocation() }
}

#[test]
fn leaves_stand_where_they_belong_and_have_one_form() {
    let fault = |equivocation: Equivocation| {
        PortableProof::read(&equivocation.to_bytes()).unwrap_err().to_string()
    };
    let text = |leaves: &str| {
        let mut value = serde_json::to_value(prefix(1)).unwrap();
        value["leaves"] = json!(leaves);
        PortableProof::read(&json::to_bytes(&value)).unwrap_err().to_string()
    };
    let one = String::from(LeafHashes(vec![Hash::of(b"a")]));
    assert_eq!(
        [
            fault(Equivocation { form: EquivocationForm::Events, ..prefix(1) }),
            fault(Equivocation { leaves: None, ..prefix(1) }),
            fault(prefix(0)),
            text(one.trim_end_matches('=')),
            text(&one[4..]),
            // The last digit before the padding has bits that no byte takes.
            text(&format!("{}t=", &one[..42])),
        ],
        [
            "not a proof: /leaves: only the form `prefix` has leaves",
            "not a proof: /leaves: missing",
            "not a proof: /leaves: must not be empty",
            "not a proof: (document): leaves are base64 of 32 bytes each",
            "not a proof: (document): leaves are base64 of 32 bytes each",
            "not a proof: (document): leaves are base64 of 32 bytes each",
        ]
    );
}

#[test]
fn as_many_leaves_as_a_proof_may_hold_can_be_read() {
    let most = prefix(LEAVES_MAX);
    assert!(PortableProof::read(&most.to_bytes()).is_ok());
    let refused = PortableProof::read(&prefix(LEAVES_MAX + 1).to_bytes());
    assert_eq!(refused, Err(NoProof::TooMany { what: "leaves", max: LEAVES_MAX }));
}

/// What is wrong with the proof once `change` was made to it.
fn fault_of(change: impl FnOnce(&mut Value)) -> String {
    let mut value = serde_json::to_value(proof()).unwrap();
    change(&mut value);
    PortableProof::read(&json::to_bytes(&value)).unwrap_err().to_string()
}

#[test]
fn only_the_canonical_bytes_of_a_proof_are_one() {
    let mut spaced = proof().to_bytes();
    spaced.insert(1, b' ');
    assert_eq!(PortableProof::read(&spaced), Err(NoProof::NotCanonical));
    let twice = [proof().to_bytes(), b"\n".to_vec()].concat();
    assert_eq!(PortableProof::read(&twice), Err(NoProof::NotCanonical));
    for cut in 0..proof().to_bytes().len() - 1 {
        assert!(PortableProof::read(&proof().to_bytes()[..cut]).is_err(), "{cut}");
    }
    let faults = [
        fault_of(|it| it["countersign"] = json!("capsule")),
        fault_of(|it| it["more"] = json!(1)),
        fault_of(|it| it["log"]["entries"][0]["index"] = json!(-1)),
        fault_of(|it| it["schema_version"] = json!("1.2.0")),
        fault_of(|it| it["extents"][0]["event_path"] = json!(["AA"])),
        fault_of(|it| it["extents"][0]["event_path"] = json!(vec![Hash::of(b""); 65])),
    ];
    assert_eq!(
        faults,
        [
            "not a proof: `countersign` is neither `proof` nor `equivocation`",
            "not a proof: /more: unknown field",
            "not a proof: /log/entries/0/index: must be between 0 and 9007199254740991",
            "not a proof: /schema_version: this reader knows schema 1.1",
            "not a proof: /extents/0/event_path/0: a hash is 64 lowercase hexadecimal digits",
            "a proof holds at most 64 nodes in a path",
        ]
    );
}

#[test]
fn a_proof_may_hold_more_elements_than_a_line() {
    let mut large = proof();
    let entry = large.log.entries[0].clone();
    large.log.entries = vec![entry; 30_000];
    let bytes = large.to_bytes();
    assert_eq!(PortableProof::read(&bytes), Ok(PortableProof::Event(Box::new(large))));
    let many = Value::Array(vec![json!(0); PROOF_ELEMENTS_MAX + 1]);
    let refused = PortableProof::read(&json::to_bytes(&many));
    assert!(matches!(refused, Err(NoProof::Unreadable(_))));
}
