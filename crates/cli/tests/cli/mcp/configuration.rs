//! `init --mcp`: the configuration of a client.

use std::fs;

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::workspace;
use crate::place::Place;

fn configured(place: &Place) -> Value {
    let text = fs::read_to_string(place.path().join(".mcp.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_client_is_told_of_the_recorder_in_a_new_or_an_old_workspace() {
    for place in [Place::empty(), workspace()] {
        let told = place.run(&["init", "--mcp"]);
        assert_eq!(told.code, 0, "{told}");
        let home = place.path().canonicalize().unwrap().join(".countersign");
        let expected = json!({ "mcpServers": { "countersign": {
            "command": env!("CARGO_BIN_EXE_countersign"), "args": ["--home", home, "mcp"],
        } } });
        assert_eq!(configured(&place), expected);
        let before = fs::read(place.path().join(".mcp.json")).unwrap();
        let again = place.run(&["init", "--mcp"]);
        assert_eq!((again.code, &*again.stderr), (0, "nothing to change\n"));
        assert_eq!(fs::read(place.path().join(".mcp.json")).unwrap(), before);
        assert_eq!(place.run(&["init", "--mcp", "--undo"]).code, 0);
        assert!(!place.path().join(".mcp.json").exists());
    }
}

#[test]
fn other_entries_of_a_client_stay_byte_for_byte() {
    let place = workspace();
    let file = place.path().join("settings.json");
    let theirs = "{\n    \"theme\" : \"dark\",\n    \"mcpServers\": {\n        \"x\": {\"n\": 1.0}\n    }\n}";
    fs::write(&file, theirs).unwrap();
    let told = place.run(&["init", "--mcp", "--client", "settings.json"]);
    assert_eq!(told.code, 0, "{told}");
    let made = fs::read_to_string(&file).unwrap();
    let head = "{\n    \"theme\" : \"dark\",\n    \"mcpServers\": {\n        \"x\": {\"n\": 1.0},\n        \"countersign\": {";
    assert!(made.starts_with(head), "{made}");
    let undone = place.run(&["init", "--mcp", "--client", "settings.json", "--undo"]);
    assert_snapshot!(undone, @r"
    exit 0
    --- stdout
    client  $PLACE/settings.json

    --- stderr
    our entry was taken out
    ");
    assert_eq!(fs::read_to_string(&file).unwrap(), theirs);
}

#[test]
fn a_file_that_is_no_configuration_is_left_as_it_is() {
    let place = workspace();
    fs::write(place.path().join(".mcp.json"), "[1, 2]").unwrap();
    assert_snapshot!(place.run(&["init", "--mcp"]), @r"
    exit 1
    --- stdout

    --- stderr
    error: left `$PLACE/.mcp.json` as it is
      caused by: it is not a JSON object
    ");
    assert_eq!(fs::read_to_string(place.path().join(".mcp.json")).unwrap(), "[1, 2]");
}

#[test]
fn undo_makes_no_workspace() {
    let place = Place::empty();
    let undone = place.run(&["init", "--mcp", "--undo"]);
    assert_eq!(undone.code, 0, "{undone}");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}
