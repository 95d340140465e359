//! The flows under `examples/flows` do what they say.

use std::path::Path;

use super::ran;
use crate::place::Place;

fn copied() -> Place {
    let place = Place::empty();
    assert_eq!(place.run(&["init"]).code, 0);
    for name in ["flows", "calculator"] {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
        crate::work::copy(&example, &place.path().join("examples").join(name));
    }
    place
}

#[test]
fn every_example_is_in_order_and_completes() {
    let place = copied();
    let mut tried = 0;
    for entry in std::fs::read_dir(place.path().join("examples/flows")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        if path.extension().is_none_or(|it| it != "toml") || !text.contains("workflow =") {
            continue;
        }
        let name = format!("examples/flows/{}", path.file_name().unwrap().to_str().unwrap());
        let checked = place.run(&["flow", "check", &name]);
        assert_eq!(checked.code, 0, "{name}: {checked}");
        let ran = ran(&place, place.run(&["flow", "run", &name, "--json"]));
        assert_eq!((ran.screen.code, ran.outcome()), (0, "completed"), "{name}: {}", ran.screen);
        ran.holds(&place, 0);
        tried += 1;
    }
    assert!(tried >= 3, "{tried}");
}

#[test]
fn the_envelopes_beside_the_examples_are_valid() {
    let place = copied();
    for (kind, file) in [("input-envelope", "input.json"), ("output-envelope", "output.json")] {
        let checked = place.run(&["check", kind, &format!("examples/flows/{file}")]);
        assert_eq!(checked.code, 0, "{checked}");
    }
}
