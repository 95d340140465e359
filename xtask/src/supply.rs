//! What we build from, and whether the same comes out of it twice.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Failure;
use crate::place::{cargo, root, succeed, target};

/// The one version that is installed where none is.
const DENY_VERSION: &str = "0.20.2";
/// What the repository alone decides.
const OFFLINE_CHECKS: &[&str] = &["bans", "licenses", "sources"];

/// Checks licences, sources and versions of all dependencies, and whether advisories name them.
pub(crate) fn deny() -> Result<(), Failure> {
    if !answers(&mut cargo(&["deny", "--version"])) {
        eprintln!("installing cargo-deny {DENY_VERSION}");
        succeed(&mut cargo(&["install", "--locked", "cargo-deny", "--version", DENY_VERSION]))?;
    }
    // What other systems would build from is looked at too, and may not be here yet.
    succeed(&mut cargo(&["fetch", "--locked"]))?;
    let mut check = cargo(&["deny", "--offline", "check"]);
    succeed(check.args(OFFLINE_CHECKS))?;
    // The database of advisories comes from outside; without it the rest still counts.
    if !answers(cargo(&["deny", "fetch", "db"]).stderr(Stdio::null())) {
        println!("advisories: not checked, their database cannot be reached");
        return Ok(());
    }
    Ok(succeed(&mut cargo(&["deny", "check", "advisories"]))?)
}

/// Builds what is committed twice, in two directories, and compares the programs. The one that others
/// can build as well is left to be handed out.
pub(crate) fn reproduce() -> Result<(), Failure> {
    let place = target().join("reproduce");
    let mut built = Vec::new();
    for name in ["one", "another-with-a-longer-name"] {
        let program = build_in(&place.join(name))?;
        let bytes = fs::read(&program)
            .map_err(|error| format!("cannot read `{}`: {error}", program.display()))?;
        println!("{name}: {} bytes", bytes.len());
        built.push(bytes);
    }
    let [first, second] = built.as_slice() else { return Ok(()) };
    let differs = difference(first, second);
    if let Some(at) = differs {
        return Err(Failure::Chore(format!("the two builds differ from byte {at} on")));
    }
    let kept = target().join("reproduced/countersign");
    let keep = || {
        fs::create_dir_all(target().join("reproduced"))?;
        fs::copy(place.join("one/target/release/countersign"), &kept)?;
        fs::remove_dir_all(&place)
    };
    keep().map_err(|error| format!("cannot keep the program: {error}"))?;
    println!("the two builds are the same; one is kept as `{}`", kept.display());
    Ok(())
}

/// Builds the committed tree in a directory of its own; gives the program.
fn build_in(dir: &Path) -> Result<PathBuf, String> {
    if dir.exists() {
        fs::remove_dir_all(dir)
            .map_err(|error| format!("cannot empty `{}`: {error}", dir.display()))?;
    }
    let mut clone = Command::new("git");
    succeed(clone.args(["clone", "--quiet", "--local"]).arg(root()).arg(dir))?;
    let mut build =
        cargo(&["build", "--quiet", "--release", "--locked", "--package", "countersign"]);
    build.current_dir(dir).env("CARGO_TARGET_DIR", dir.join("target"));
    build.env("CARGO_INCREMENTAL", "0").env("SOURCE_DATE_EPOCH", "0");
    let maps = mapped(dir, &cargo_home());
    build.env("CARGO_ENCODED_RUSTFLAGS", rust_flags(&maps)).env("CFLAGS", c_flags(&maps));
    succeed(&mut build)?;
    Ok(dir.join("target/release/countersign"))
}

/// Directories of this machine, and what stands for them in a program.
fn mapped(dir: &Path, cargo_home: &Path) -> Vec<(PathBuf, &'static str)> {
    vec![(cargo_home.to_owned(), "/cargo"), (dir.to_owned(), "/countersign")]
}

fn rust_flags(maps: &[(PathBuf, &str)]) -> String {
    let flags =
        maps.iter().map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()));
    // The separator that cargo takes: paths may have blanks.
    flags.collect::<Vec<_>>().join("\u{1f}")
}

fn c_flags(maps: &[(PathBuf, &str)]) -> String {
    let flags = maps.iter().map(|(from, to)| format!("-ffile-prefix-map={}={to}", from.display()));
    flags.collect::<Vec<_>>().join(" ")
}

fn cargo_home() -> PathBuf {
    let home = || env::var_os("HOME").map_or_else(PathBuf::new, PathBuf::from).join(".cargo");
    env::var_os("CARGO_HOME").map_or_else(home, PathBuf::from)
}

/// The first place where two programs are not the same.
fn difference(first: &[u8], second: &[u8]) -> Option<usize> {
    let at = first.iter().zip(second).position(|(one, other)| one != other);
    at.or_else(|| (first.len() != second.len()).then(|| first.len().min(second.len())))
}

fn answers(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_programs_differ_at_the_first_byte_that_is_another_or_missing() {
        assert_eq!(difference(b"same", b"same"), None);
        assert_eq!(difference(b"same", b"some"), Some(1));
        assert_eq!(difference(b"same", b"samed"), Some(4));
        assert_eq!(difference(b"", b"x"), Some(0));
    }

    #[test]
    fn no_directory_of_the_machine_stays_in_the_flags_but_as_what_is_mapped() {
        let maps = mapped(Path::new("/a b/dir"), Path::new("/u/.cargo"));
        assert_eq!(
            rust_flags(&maps),
            "--remap-path-prefix=/u/.cargo=/cargo\u{1f}--remap-path-prefix=/a b/dir=/countersign"
        );
        assert!(c_flags(&maps).starts_with("-ffile-prefix-map=/u/.cargo=/cargo "));
    }

    /// Without it a build could take something that nobody pinned.
    #[test]
    fn every_dependency_is_pinned_by_hash_and_comes_from_the_registry() {
        let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
        let packages: Vec<_> = lock.split("[[package]]").skip(1).collect();
        assert!(packages.len() > 50, "{}", packages.len());
        for package in packages {
            let name = package.lines().find(|line| line.starts_with("name = ")).unwrap();
            let foreign = package.contains("\nsource = ");
            assert_eq!(foreign, package.contains("\nchecksum = "), "{name}");
            let ours = name.contains("\"countersign") || name.contains("\"xtask\"");
            assert!(foreign || ours, "{name}");
            assert!(!package.contains("source = \"git"), "{name}");
        }
    }
}
