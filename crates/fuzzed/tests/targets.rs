//! Every target, without a fuzzer: the kept corpus, and seeded changes of it; and every twin is caught.

#![cfg(test)]

use std::path::Path;

use countersign_fuzzed::hunt::{Caught, corpus, hunt};
use countersign_fuzzed::{TARGETS, Target};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The seed of a run; another one can be given in this variable.
const SEED: u64 = 20_261_117;
const SEED_VARIABLE: &str = "COUNTERSIGN_FUZZ_SEED";

/// What may be kept of a target.
const FILES_MAX: usize = 200;
const BYTES_MAX: usize = 400 << 10;

fn seed() -> u64 {
    std::env::var(SEED_VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or(SEED)
}

fn kept(target: &Target) -> Vec<Vec<u8>> {
    let kept = corpus(Path::new(ROOT), target).unwrap();
    assert!(!kept.is_empty(), "nothing is kept for `{}`", target.name);
    kept
}

fn told(target: &Target, caught: &Caught) -> String {
    format!(
        "{}: try {} with {SEED_VARIABLE}={}: {}\ninput: {}",
        target.name,
        caught.number,
        seed(),
        caught.message,
        caught.input.escape_ascii()
    )
}

/// Runs `work` for every target, on two threads, and gathers what it says.
fn each(work: fn(&Target) -> Option<String>) -> Vec<String> {
    let half =
        |odd: usize| TARGETS.iter().skip(odd).step_by(2).filter_map(work).collect::<Vec<_>>();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| half(1));
        let mut said = half(0);
        said.extend(other.join().unwrap());
        said
    })
}

#[test]
fn what_must_hold_holds_for_the_corpus_and_for_changes_of_it() {
    let said = each(|target| {
        let started = std::time::Instant::now();
        let caught = hunt(target, target.holds, &kept(target), seed());
        println!("{}: {} tries in {:?}", target.name, target.tries, started.elapsed());
        caught.map(|caught| told(target, &caught))
    });
    assert!(said.is_empty(), "{}", said.join("\n\n"));
}

#[test]
fn every_broken_twin_is_caught() {
    let said = each(|target| {
        let caught = hunt(target, target.twin, &kept(target), seed());
        match caught {
            Some(caught) => {
                println!("{}: {}", target.name, told(target, &caught));
                None
            }
            None => Some(format!("the twin of `{}` gets through", target.name)),
        }
    });
    assert!(said.is_empty(), "{}", said.join("\n"));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let target = TARGETS.iter().find(|target| target.name == "merkle").unwrap();
    let run = |seed| hunt(target, target.twin, &[b"seed".to_vec()], seed);
    assert_eq!(run(7), run(7));
}

#[test]
fn what_is_kept_is_small_and_belongs_to_a_target() {
    for target in TARGETS {
        let kept = kept(target);
        let bytes: usize = kept.iter().map(Vec::len).sum();
        assert!(kept.len() <= FILES_MAX && bytes <= BYTES_MAX, "{}: {bytes}", target.name);
    }
    for entry in std::fs::read_dir(Path::new(ROOT).join("fuzz/corpus")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(TARGETS.iter().any(|target| target.name == name), "no target `{name}`");
    }
}

#[test]
fn every_target_has_its_program_for_the_fuzzer() {
    let manifest = std::fs::read_to_string(Path::new(ROOT).join("fuzz/Cargo.toml")).unwrap();
    for target in TARGETS {
        let program = Path::new(ROOT).join(format!("fuzz/fuzz_targets/{}.rs", target.name));
        let text = std::fs::read_to_string(program).unwrap();
        assert!(text.contains(&format!("check(\"{}\", data)", target.name)), "{text}");
        assert!(manifest.contains(&format!("name = \"{}\"", target.name)), "{}", target.name);
    }
}
