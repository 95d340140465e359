//! Files of CapSeal's: real ones, and what can be done to them.

use countersign_format::hash::Hash;
use countersign_format::python::{self, PyString, PyValue};
use countersign_verify::cap::CapOwner;
use countersign_verify::render_cap;

use crate::archive::{Members, interop, member, members, packed, replace};
use crate::{answer, nothing_kept, verdict_on};

#[test]
fn real_files_hold_and_are_said_to_be_unsigned() {
    for (name, actions) in [("interop/small-normal.cap", 3), ("interop/gated.cap", 10)] {
        assert_eq!(answer(&interop(name), &[]), (4, vec![]), "{name}");
        let (verdict, _) = verdict_on(&interop(name), &[], &nothing_kept());
        assert_eq!(verdict.owner, CapOwner::CapSeal { actions });
        let text = render_cap(&verdict);
        for words in [
            &format!("sealed by CapSeal: {actions} actions with unsigned receipts"),
            "they are unsigned, and anyone could have written them",
            "descriptions, file names and other metadata: they lie outside the hashes",
            "signer: unpinned",
        ] {
            assert!(text.contains(words), "{text}");
        }
        // Packed by somebody else, it is the same session.
        assert_eq!(answer(&packed(&members(&interop(name))), &[]), (4, vec![]));
    }
}

/// The first reason for which a file fails.
fn first(file: &[u8]) -> String {
    let (status, messages) = answer(file, &[]);
    assert_eq!(status, 3, "{messages:?}");
    messages[0].clone()
}

#[test]
fn attacks_that_the_original_accepts_are_refused_with_what_is_wrong() {
    for (name, expected) in [
        ("interop/attacks/atk_bad_jsonl_line.cap", "`actions.jsonl` record 10: "),
        (
            "interop/attacks/atk_edit_actions_json.cap",
            "action 3 is not the same in `actions.json` and in `actions.jsonl`",
        ),
        ("interop/attacks/atk_edit_jsonl_top.cap", "`actions.jsonl` record "),
        (
            "interop/attacks/atk_metadata.cap",
            "action 3 is not the same in `actions.json` and in `actions.jsonl`",
        ),
        (
            "interop/attacks/atk_no_proof.cap",
            "member `proof.json` is missing: `agent_capsule.json` names it",
        ),
        (
            "interop/attacks/atk_remove_all_actions.cap",
            "member `actions.jsonl` is missing: every session has it",
        ),
        (
            "interop/attacks/atk_tail_drop_jsonl.cap",
            "`actions.json` has 10 actions, `actions.jsonl` has 7",
        ),
        ("interop/attacks/atk_trailgz.cap", "a second gzip member follows the first one, at byte "),
        (
            "interop/attacks/atk_truncate_both.cap",
            "`manifest.json` has the `actions_count` 10, the actions give 4",
        ),
    ] {
        let found = first(&interop(name));
        assert!(found.contains(expected), "{name}: {found}");
    }
}

fn gated() -> Members {
    members(&interop("interop/gated.cap"))
}

fn lines(members: &mut Members) -> Vec<String> {
    let text = String::from_utf8(member(members, "actions.jsonl").clone()).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn put_lines(members: &mut Members, lines: &[String]) {
    *member(members, "actions.jsonl") = (lines.join("\n") + "\n").into_bytes();
}

/// A capsule whose hashes are made to fit again.
fn refit_capsule(members: &mut Members) {
    let capsule = member(members, "agent_capsule.json");
    let Ok(PyValue::Object(mut fields)) = python::loads(capsule) else { panic!("a capsule") };
    let hash = |value: &PyValue| {
        let hash = Hash::of(python::dumps_spaced(value).as_bytes()).to_hex();
        PyValue::String(hash.into())
    };
    let statement = fields[&PyString::from("statement")].clone();
    fields.insert("statement_hash".into(), hash(&statement));
    fields.remove(&PyString::from("capsule_hash"));
    let own = hash(&PyValue::Object(fields.clone()));
    fields.insert("capsule_hash".into(), own);
    *capsule = python::dumps_spaced(&PyValue::Object(fields)).into_bytes();
}

type Attack = (&'static str, fn(&mut Members), &'static str);

const LAST: &str = "01f77946fdb5fe728b5e11564570a2abcc04b5b53dac92889b879a7d22472574";

const ATTACKS: &[Attack] = &[
    (
        "a field and its copy",
        |m| {
            let mut all = lines(m);
            all[4] = all[4].replace("\"success\": true", "\"success\": false");
            put_lines(m, &all);
        },
        "`actions.jsonl` record 4 has `receipt_hash` ",
    ),
    (
        "canonical fields and receipt hash",
        |m| {
            let mut all = lines(m);
            let start = all[4].find("\"canonical_fields\": ").unwrap() + 20;
            let forged =
                all[4][start..all[4].len() - 1].replace("\"success\": true", "\"success\": false");
            let receipt =
                Hash::of(python::dumps(&python::loads(forged.as_bytes()).unwrap()).as_bytes());
            let before = all[4][..start].to_owned();
            let at = before.find("\"receipt_hash\": \"").unwrap() + 17;
            all[4] = format!("{}{receipt}{}{forged}}}", &before[..at], &before[at + 64..]);
            put_lines(m, &all);
        },
        "`actions.jsonl` record 4 gives `success` as true, its `canonical_fields` as false",
    ),
    (
        "an action forged as a whole",
        |m| {
            let mut all = lines(m);
            let end = all[9].find(", \"receipt_hash\"").unwrap();
            let own = all[9][..end].replace("\"success\": false", "\"success\": true");
            let start = all[9].find("\"canonical_fields\": ").unwrap() + 20;
            let fields =
                all[9][start..all[9].len() - 1].replace("\"success\": false", "\"success\": true");
            let receipt =
                Hash::of(python::dumps(&python::loads(fields.as_bytes()).unwrap()).as_bytes());
            all[9] =
                format!("{own}, \"receipt_hash\": \"{receipt}\", \"canonical_fields\": {fields}}}");
            put_lines(m, &all);
        },
        "action 9 is not the same in `actions.json` and in `actions.jsonl`",
    ),
    (
        "two lines swapped",
        |m| {
            let mut all = lines(m);
            all.swap(2, 3);
            put_lines(m, &all);
        },
        "`actions.jsonl` record 2 does not follow record 1: ",
    ),
    (
        "a line twice",
        |m| {
            let mut all = lines(m);
            all.push(all[9].clone());
            put_lines(m, &all);
        },
        "`actions.jsonl` record 10 does not follow record 9: ",
    ),
    (
        "the first line gone",
        |m| {
            let mut all = lines(m);
            all.remove(0);
            put_lines(m, &all);
        },
        "`actions.jsonl` record 0 has `parent_receipt_hash` ",
    ),
    ("a blank line", |m| member(m, "actions.jsonl").push(b'\n'), "`actions.jsonl` record 10: "),
    (
        "a torn line",
        |m| member(m, "actions.jsonl").truncate(12_903),
        "`actions.jsonl`: its last line has no end",
    ),
    (
        "an unknown field",
        |m| {
            replace(member(m, "actions.jsonl"), "{\"action_id\"", "{\"x\": 1, \"action_id\"");
        },
        "`actions.jsonl` record 0: /x: unknown field",
    ),
    (
        "a field listed only",
        |m| {
            replace(member(m, "actions.json"), "\"duration_ms\": 3", "\"duration_ms\": 4");
        },
        "action 3 is not the same in `actions.json` and in `actions.jsonl`",
    ),
    (
        "metadata",
        |m| {
            replace(member(m, "actions.jsonl"), "change 5", "nothing");
        },
        "action 5 is not the same in `actions.json` and in `actions.jsonl`",
    ),
    (
        "listed no array",
        |m| *member(m, "actions.json") = b"{}".to_vec(),
        "`actions.json`: it is no array of objects",
    ),
    (
        "count in the manifest",
        |m| {
            replace(
                member(m, "manifest.json"),
                "\"actions_count\": 10",
                "\"actions_count\": 999999",
            );
        },
        "`manifest.json` has the `actions_count` 999999, the actions give 10",
    ),
    (
        "root in the manifest",
        |m| {
            replace(member(m, "manifest.json"), "\"root_hex\": \"01", "\"root_hex\": \"02");
        },
        "`manifest.json` has the `root_hex` \"02f77946",
    ),
    (
        "chain in the manifest",
        |m| {
            replace(member(m, "manifest.json"), "\"chain_hash\": \"01", "\"chain_hash\": \"02");
        },
        "`manifest.json` has the `chain_hash` \"02f77946",
    ),
    (
        "capsule id",
        |m| {
            replace(member(m, "manifest.json"), "\"capsule_id\": \"01", "\"capsule_id\": \"02");
        },
        "`manifest.json` has the `capsule_id` \"02f77946",
    ),
    (
        "agent",
        |m| {
            replace(member(m, "run_metadata.json"), "sample-agent", "another");
        },
        "`run_metadata.json` has the `agent` \"another\", `manifest.json` \"sample-agent\"",
    ),
    (
        "count in the metadata",
        |m| {
            replace(member(m, "run_metadata.json"), "\"num_actions\": 10", "\"num_actions\": 11");
        },
        "`run_metadata.json` has the `num_actions` 11, the actions give 10",
    ),
    (
        "final receipt in the metadata",
        |m| {
            replace(member(m, "run_metadata.json"), LAST, &"0".repeat(64));
        },
        "`run_metadata.json` has the `final_receipt_hash` \"00000",
    ),
    (
        "capsule edited",
        |m| {
            replace(
                member(m, "agent_capsule.json"),
                "\"timestamp\": \"2026",
                "\"timestamp\": \"2027",
            );
        },
        "`agent_capsule.json` has the `capsule_hash` ",
    ),
    (
        "statement edited",
        |m| {
            replace(
                member(m, "agent_capsule.json"),
                "\"trace_spec_hash\": \"aa",
                "\"trace_spec_hash\": \"bb",
            );
        },
        "`agent_capsule.json` has the `statement_hash` ",
    ),
    (
        "final receipt in a capsule that fits",
        |m| {
            replace(member(m, "agent_capsule.json"), LAST, &"0".repeat(64));
            refit_capsule(m);
        },
        "`agent_capsule.json` has the `statement/public_inputs/final_receipt_hash` \"0000",
    ),
    (
        "half of it",
        |m| {
            replace(member(m, "agent_capsule.json"), "8286260463822042881", "8286260463822042882");
            refit_capsule(m);
        },
        "`agent_capsule.json` has the `statement/public_inputs/final_receipt_lo` 8286260463822042882",
    ),
    (
        "count in a capsule that fits",
        |m| {
            replace(member(m, "agent_capsule.json"), "\"num_actions\": 10", "\"num_actions\": 12");
            refit_capsule(m);
        },
        "`agent_capsule.json` has the `statement/public_inputs/num_actions` 12, the actions give 10",
    ),
    (
        "constraints that do not hold",
        |m| {
            let capsule = member(m, "agent_capsule.json");
            let text = String::from_utf8(capsule.clone()).unwrap();
            *capsule =
                text.replace("\"constraints_valid\": true", "\"constraints_valid\": false").into();
            refit_capsule(m);
        },
        "`agent_capsule.json` does not say that `verification/constraints_valid` is true",
    ),
    (
        "root in a capsule that fits",
        |m| {
            let capsule = member(m, "agent_capsule.json");
            *capsule =
                String::from_utf8(capsule.clone()).unwrap().replace("bf32c1b3", "bf32c1b4").into();
            refit_capsule(m);
        },
        "`agent_capsule.json` has the `commitment/row_root` \"bf32c1b4",
    ),
    (
        "proof edited",
        |m| {
            replace(member(m, "proof.json"), "\"version\": \"1.0\"", "\"version\": \"1.1\"");
        },
        "`agent_capsule.json` has the `proof/proof_hash` ",
    ),
    (
        "a row",
        |m| {
            replace(member(m, "row_archive/rows.json"), ", 15]", ", 14]");
        },
        "`row_archive/rows.json` does not hold the rows that the actions give",
    ),
    (
        "a row too many",
        |m| {
            replace(member(m, "row_archive/rows.json"), "]]", "], [0,0,0,0,0,0,0,0,0,0,0,0,0,0]]");
        },
        "`row_archive/rows.json` does not hold the rows that the actions give",
    ),
    (
        "a node",
        |m| {
            replace(member(m, "row_archive/merkle_levels.json"), "a0b28358", "a0b28359");
        },
        "`row_archive/merkle_levels.json`: one of its levels does not follow from the one below",
    ),
    (
        "a leaf",
        |m| {
            replace(member(m, "row_archive/merkle_levels.json"), "6bb7b01a", "6bb7b01b");
        },
        "`row_archive/merkle_levels.json`: one of its levels does not follow from the one below",
    ),
    (
        "no rows",
        |m| m.retain(|(name, _)| name != "row_archive/rows.json"),
        "member `row_archive/rows.json` is missing: `agent_capsule.json` commits to it",
    ),
    (
        "no list",
        |m| m.retain(|(name, _)| name != "actions.json"),
        "member `actions.json` is missing: every session has it",
    ),
    (
        "no capsule",
        |m| m.retain(|(name, _)| name != "agent_capsule.json"),
        "member `agent_capsule.json` is missing: every session has it",
    ),
    (
        "no metadata",
        |m| m.retain(|(name, _)| name != "run_metadata.json"),
        "member `run_metadata.json` is missing: every session has it",
    ),
    (
        "two members",
        |m| m.retain(|(name, _)| name == "manifest.json" || name == "agent_capsule.json"),
        "member `actions.jsonl` is missing: every session has it",
    ),
    (
        "an empty session",
        |m| {
            member(m, "actions.jsonl").clear();
            *member(m, "actions.json") = b"[]".to_vec();
        },
        "there are no actions",
    ),
    (
        "a learning run",
        |m| {
            replace(member(m, "manifest.json"), "\"run_type\": \"mcp\"", "\"run_type\": \"learn\"");
        },
        "a run of the kind `learn`: nothing in it can be checked",
    ),
    (
        "a fix",
        |m| {
            replace(member(m, "manifest.json"), "\"run_type\": \"mcp\"", "\"run_type\": \"fix\"");
        },
        "a run of the kind `fix`: nothing in it can be checked",
    ),
    (
        "a capsule of old",
        |m| {
            replace(member(m, "manifest.json"), "run_cap_v1", "cap_manifest_v1");
        },
        "a file of the schema `cap_manifest_v1`: nothing in it can be checked",
    ),
    (
        "no manifest",
        |m| *member(m, "manifest.json") = b"[]".to_vec(),
        "`manifest.json` is an array, not an object",
    ),
];

#[test]
fn every_copy_of_a_fact_must_agree() {
    for (name, attack, expected) in ATTACKS {
        let mut members = gated();
        attack(&mut members);
        let found = first(&packed(&members));
        assert!(found.contains(expected), "{name}: {found}");
    }
}

#[test]
fn a_session_holds_in_whatever_order_its_members_come() {
    let good = gated();
    for turn in 1..good.len() {
        let mut members = good.clone();
        members[1..].rotate_left(turn - 1);
        assert_eq!(answer(&packed(&members), &[]), (4, vec![]), "{turn}");
    }
    let mut other = good;
    replace(member(&mut other, "manifest.json"), "run_cap_v1", "agent_cap_v1");
    assert_eq!(answer(&packed(&other), &[]), (4, vec![]));
}
