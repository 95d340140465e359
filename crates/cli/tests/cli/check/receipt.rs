//! `check receipt`: the hash of both field sets.

use serde_json::{Value, json};

use crate::binary::run;
use crate::cases::{each, text, text_of};

fn vectors() -> Vec<Value> {
    let vectors: Vec<Value> = serde_json::from_str(&text_of("receipt-vectors.json")).unwrap();
    assert!(vectors.len() >= 13);
    vectors
}

const FORMS: [(&str, u64); 2] = [("spec12", 12), ("code13", 13)];

fn assert_hash(document: &str, hash: &str, form: u64, receipt_kind: &str, canonical: &str) {
    let screen = run(&["check", "receipt"], document);
    assert_eq!((screen.code, screen.stderr.as_str()), (0, ""), "{document}");
    assert_eq!(screen.stdout(), format!("{hash}\n"), "{document}");
    assert_eq!(
        run(&["check", "receipt", "--json"], document).answer(),
        json!({
            "valid": true, "kind": "receipt", "hash": hash, "form": form,
            "receipt_kind": receipt_kind, "canonical": canonical,
        }),
        "{document}"
    );
}

#[test]
fn hashed_fields_have_the_hashes_of_the_vectors_in_both_forms() {
    each(&vectors(), |vector| {
        for (key, form) in FORMS {
            let (canonical, hash) = (text(vector, key), text(vector, &format!("{key}_sha256")));
            assert_hash(canonical, hash, form, "canonical_fields", canonical);
        }
    });
}

#[test]
fn whole_records_and_bare_actions_have_the_hashes_of_the_vectors() {
    each(&vectors(), |vector| {
        for (key, form) in FORMS {
            let (canonical, hash) = (text(vector, key), text(vector, &format!("{key}_sha256")));
            let fields = canonical.strip_prefix('{').unwrap();
            let record = format!(
                r#"{{"metadata":{{}},"receipt_hash":"{hash}","canonical_fields":{canonical},{fields}"#
            );
            assert_hash(&record, hash, form, "record", canonical);
            let wrong = record.replacen(hash, &"0".repeat(64), 1);
            let screen = run(&["check", "receipt"], wrong);
            assert_eq!((screen.code, screen.stdout()), (3, ""));
            assert!(screen.stderr.contains("\n  /receipt_hash: "), "{screen}");
            let (twelve, hash) = (text(vector, "spec12"), text(vector, "spec12_sha256"));
            assert_hash(&format!("{{\"metadata\":null,{fields}"), hash, 12, "action", twelve);
        }
    });
}

#[test]
fn the_fields_as_others_write_them_hash_alike() {
    each(&vectors(), |vector| {
        // The file spells out what JSON has no token for; Python writes the token.
        let pretty = serde_json::to_string_pretty(&vector["fields"]).unwrap();
        let pretty = pretty.replace("\"nan\"", "NaN");
        let screen = run(&["check", "receipt"], &pretty);
        let hash = format!("{}\n", text(vector, "code13_sha256"));
        assert_eq!(screen.stdout(), hash, "{}", text(vector, "name"));
    });
}

#[test]
fn faulty_receipts_are_refused_with_every_place() {
    for (document, count) in
        [("", 1), ("[]", 1), ("{}", 8), ("{\"receipt_hash\":1}", 10), ("\0", 1)]
    {
        let answer = run(&["check", "receipt", "--json"], document);
        assert_eq!(answer.code, 3, "{document}");
        let faults = answer.answer()["faults"].as_array().unwrap().len();
        assert_eq!(faults, count, "{document}: {answer}");
        let screen = run(&["check", "receipt"], document);
        assert_eq!(screen.stderr.lines().count(), 1 + count, "{screen}");
    }
}

/// The hash does not change, and whoever misspelled a name is told.
#[test]
fn unknown_members_are_kept_and_told() {
    let vector = &vectors()[0];
    let (canonical, hash) = (text(vector, "spec12"), text(vector, "spec12_sha256"));
    let fields = canonical.strip_prefix('{').unwrap();
    let record = format!(r#"{{"receipt_hash":"{hash}","canonical_fields":{canonical},{fields}"#);
    for document in [canonical, &record] {
        let document = document.replacen('{', r#"{"gate_scor":0.5,"#, 1);
        let screen = run(&["check", "receipt"], &document);
        let hint = "hint: /gate_scor: unknown field, which no receipt hash covers\n";
        assert_eq!((screen.code, &*screen.stderr), (0, hint), "{document}");
        assert_eq!(screen.stdout(), format!("{hash}\n"), "{document}");
        let answer = run(&["check", "receipt", "--json"], &document).answer();
        assert_eq!((&answer["valid"], &answer["hash"]), (&json!(true), &json!(hash)));
        assert_eq!(answer["hints"][0]["pointer"], "/gate_scor");
    }
}

#[test]
fn any_number_of_members_and_any_length_of_a_name_is_told_in_short() {
    let members: String = (0..40_000).map(|it| format!("\"{it}\":1,")).collect();
    let document = format!("{{{members}\"canonical_fields\":{{{members}\"a\":1}}}}");
    let screen = run(&["check", "receipt"], &document);
    let lines: Vec<&str> = screen.stderr.lines().collect();
    // Eight fields of the action, the hash, the hashed fields that are missing, and those that are too many.
    assert_eq!(lines[0], format!("error: not a valid receipt: {} faults", 8 + 1 + 12 + 40_001));
    assert_eq!(lines.len(), 1 + 8 + 1 + 12 + 1_000 + 1, "{}", lines.len());
    assert_eq!(lines.last(), Some(&"  (document): and 39001 more faults, which are not listed"));
    let document = format!("{{\"canonical_fields\":{{\"{}\":1}}}}", "k".repeat(900_000));
    let screen = run(&["check", "receipt"], &document);
    assert!(screen.code == 3 && screen.stderr.len() < 5_000, "{}", screen.stderr.len());
}
