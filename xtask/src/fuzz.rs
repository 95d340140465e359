//! Runs the fuzz targets of `fuzz/` one after the other, each for some minutes.
//!
//! What the fuzzer finds interesting is kept under `target/`, not in the repository: its corpus is
//! chosen by hand. No sanitizer is used, since there is no unsafe code to sanitize; so a stable
//! toolchain is enough.

use std::fs::{self, File};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::place::{cargo, root, succeed, target};

const MINUTES: u64 = 10;
const SEED: u64 = 1;
/// Seconds that one input may take before it counts as a finding.
const INPUT_SECONDS: u64 = 10;
/// Mebibytes that the program may have in memory before the input counts as a finding. Memory without
/// bounds is a fault; what readers are allowed to keep, and the fuzzer's own, are far below.
const MEMORY_MIB: u64 = 1_024;

/// What decides a run.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wish {
    target: Option<String>,
    minutes: u64,
    seed: u64,
}

/// A target, as its manifest has it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Program {
    name: String,
    /// Whether it needs more of the product than its formats.
    needs_product: bool,
}

/// Fuzzes the target that is named, or all.
pub(crate) fn run(options: &[&str]) -> Result<(), Failure> {
    let wish = parse(options)?;
    let manifest = fs::read_to_string(root().join("fuzz/Cargo.toml"))
        .map_err(|error| format!("cannot read `fuzz/Cargo.toml`: {error}"))?;
    let all = programs(&manifest);
    let chosen: Vec<_> =
        all.iter().filter(|it| wish.target.as_ref().is_none_or(|name| it.name == *name)).collect();
    if chosen.is_empty() {
        let known: Vec<_> = all.iter().map(|it| it.name.as_str()).collect();
        let message = format!("no such target, there are: {}", known.join(", "));
        return Err(Failure::Usage(message));
    }
    if !cargo(&["fuzz", "--version"]).output().is_ok_and(|output| output.status.success()) {
        let message = "cargo-fuzz is not installed\nhint: run `cargo install cargo-fuzz`";
        return Err(Failure::Chore(message.to_owned()));
    }
    let mut broken = Vec::new();
    for program in chosen {
        succeed(&mut fuzzer("build", program))?;
        if !fuzz(program, &wish)? {
            broken.push(program.name.as_str());
        }
    }
    match broken.as_slice() {
        [] => Ok(()),
        names => Err(Failure::Chore(format!("something does not hold: {}", names.join(", ")))),
    }
}

fn parse(options: &[&str]) -> Result<Wish, Failure> {
    let mut wish = Wish { target: None, minutes: MINUTES, seed: SEED };
    let mut options = options.iter();
    while let Some(&option) = options.next() {
        let mut number = || {
            let value = options.next().and_then(|value| value.parse::<u64>().ok());
            value.ok_or_else(|| Failure::Usage(format!("`{option}` needs a number")))
        };
        match option {
            "--minutes" => wish.minutes = number()?,
            "--seed" => wish.seed = number()?,
            _ if wish.target.is_none() && !option.starts_with('-') => {
                wish.target = Some(option.to_owned());
            }
            _ => return Err(Failure::Usage(format!("unknown option: `{option}`"))),
        }
    }
    Ok(wish)
}

/// The programs of the manifest.
fn programs(manifest: &str) -> Vec<Program> {
    let of = |section: &str| {
        let name = section.lines().find_map(|line| line.strip_prefix("name = "))?;
        let name = name.trim_matches('"').to_owned();
        Some(Program { name, needs_product: section.contains("required-features") })
    };
    manifest.split("[[bin]]").skip(1).filter_map(of).collect()
}

/// A command of cargo-fuzz for a program.
fn fuzzer(command: &str, program: &Program) -> Command {
    let mut fuzzer = cargo(&["fuzz", command, "--sanitizer", "none", "--target-dir"]);
    fuzzer.arg(target().join("fuzz"));
    if !program.needs_product {
        // The rest of the product takes minutes to build.
        fuzzer.arg("--no-default-features");
    }
    fuzzer.arg(&program.name);
    fuzzer
}

/// Says what came of a run; false if something was found.
fn fuzz(program: &Program, wish: &Wish) -> Result<bool, String> {
    let name = &program.name;
    let fail = |error: std::io::Error| format!("cannot fuzz `{name}`: {error}");
    let grown = target().join("fuzz/corpus").join(name);
    let findings = root().join("fuzz/artifacts").join(name);
    let log = target().join("fuzz").join(format!("{name}.log"));
    fs::create_dir_all(&grown).map_err(fail)?;
    fs::create_dir_all(&findings).map_err(fail)?;
    let started = Instant::now();
    let status = fuzzer("run", program)
        .args([&grown, &root().join("fuzz/corpus").join(name)])
        .arg("--")
        .arg(format!("-max_total_time={}", wish.minutes * 60))
        .arg(format!("-seed={}", wish.seed))
        .arg(format!("-timeout={INPUT_SECONDS}"))
        .arg(format!("-rss_limit_mb={MEMORY_MIB}"))
        .arg(format!("-artifact_prefix={}/", findings.display()))
        .arg("-print_final_stats=1")
        .stderr(File::create(&log).map_err(fail)?)
        .status()
        .map_err(fail)?;
    let said = fs::read(&log).map_err(fail)?;
    let said = String::from_utf8_lossy(&said);
    println!("{name}: {}", summary(&said, started.elapsed()));
    if status.success() {
        return Ok(true);
    }
    let lines: Vec<_> = said.lines().collect();
    let from = lines.iter().position(|line| line.contains("panicked at")).unwrap_or(lines.len());
    lines.iter().skip(from).take(6).for_each(|line| println!("  {line}"));
    for finding in lines.iter().filter_map(|line| line.split("Test unit written to ").nth(1)) {
        println!("  found: {finding}");
        println!(
            "  once more: cargo fuzz run --sanitizer none {name} {finding} -- \
             -rss_limit_mb={MEMORY_MIB} -timeout={INPUT_SECONDS}"
        );
    }
    println!(
        "  the whole run: cargo xtask fuzz {name} --minutes {} --seed {}",
        wish.minutes, wish.seed
    );
    println!("  its log: {}", log.display());
    Ok(false)
}

/// What the fuzzer counted.
fn summary(said: &str, took: Duration) -> String {
    let stat = |name: &str| {
        let line = said.lines().rev().find_map(|line| line.strip_prefix(name));
        line.map_or("?", |rest| rest.trim_start_matches(':').trim())
    };
    let covered = said.lines().rev().find_map(|line| {
        let mut words = line.split_whitespace().skip_while(|word| *word != "cov:");
        words.nth(1)
    });
    format!(
        "{} runs in {} s, {} places covered, slowest input {} s, peak {} MiB",
        stat("stat::number_of_executed_units"),
        took.as_secs(),
        covered.unwrap_or("?"),
        stat("stat::slowest_unit_time_sec"),
        stat("stat::peak_rss_mb"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_minutes_and_a_seed_are_options() {
        let wish = |target: Option<&str>, minutes, seed| Wish {
            target: target.map(str::to_owned),
            minutes,
            seed,
        };
        assert_eq!(parse(&[]).ok(), Some(wish(None, MINUTES, SEED)));
        assert_eq!(parse(&["event", "--minutes", "1"]).ok(), Some(wish(Some("event"), 1, SEED)));
        assert_eq!(parse(&["--seed", "7"]).ok(), Some(wish(None, MINUTES, 7)));
        for wrong in [&["--minutes"][..], &["--seed", "x"], &["a", "b"], &["--fast"]] {
            assert!(matches!(parse(wrong), Err(Failure::Usage(_))), "{wrong:?}");
        }
    }

    #[test]
    fn programs_are_read_from_the_manifest() {
        let manifest = "[package]\nname = \"p\"\n\n[[bin]]\nname = \"a\"\npath = \"a.rs\"\n\n\
                        [[bin]]\nname = \"b\"\nrequired-features = [\"product\"]\n";
        let named = |name: &str, needs_product| Program { name: name.to_owned(), needs_product };
        assert_eq!(programs(manifest), [named("a", false), named("b", true)]);
    }

    #[test]
    fn what_the_fuzzer_counted_is_told() {
        let said = "#8 INITED cov: 5 ft: 6\n#9\tDONE   cov: 1072 ft: 2 corp: 3/4b\n\
                    stat::number_of_executed_units: 123\nstat::slowest_unit_time_sec: 0\n\
                    stat::peak_rss_mb: 41\n";
        assert_eq!(
            summary(said, Duration::from_secs(60)),
            "123 runs in 60 s, 1072 places covered, slowest input 0 s, peak 41 MiB"
        );
    }
}
