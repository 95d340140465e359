//! `docs/benchmarks.md`: what was found in one run, as a page. The text is in `page.txt`.

mod machine;

use std::fs;

use xtask::place::root;

use super::load::{self, Load};
use super::peers::{
    self, ATTACKS, Comparison, FEW, MANY, Noticed, Recorded, SECONDS_AGAIN, SECONDS_MAX, Standing,
};
use super::{FIGURES, Measured};
use machine::Machine;

const TEXT: &str = include_str!("page.txt");
const PATH: &str = "docs/benchmarks.md";
/// The figures of ours that stand on the page.
const SHOWN: &[&str] =
    &["seal", "append-one", "append-64", "growth", "gate", "mcp", "hook", "proxy", "start"];
/// What the attacks are called on the page.
const ATTACK_NAMES: [&str; 5] = ["edit", "tail", "rollback", "new key", "split view"];

/// Everything that is on the page.
#[derive(Debug, Clone)]
struct Findings {
    machine: Machine,
    compared: Comparison,
    ours: Vec<Measured>,
    load: Load,
}

/// Measures everything and writes the page; gives what was measured against a target.
pub(super) fn write() -> Result<Vec<Measured>, String> {
    let machine = Machine::look()?;
    let mut ours = Vec::new();
    for (figure, measure) in FIGURES.iter().filter(|(figure, _)| SHOWN.contains(figure)) {
        eprintln!("    page: {figure}");
        ours.extend(measure().map_err(|why| format!("figure `{figure}`: {why}"))?);
    }
    let compared = peers::compare()?;
    // Last: the disk is busy for some time with what it leaves.
    eprintln!("    page: load");
    let load = load::full()?;
    let findings = Findings { machine, compared, ours, load };
    let path = root().join(PATH);
    fs::write(&path, page(&findings)).map_err(|error| format!("cannot write `{PATH}`: {error}"))?;
    Ok(findings.targets())
}

impl Findings {
    fn targets(&self) -> Vec<Measured> {
        let compared = peers::targets(&self.compared);
        compared
            .into_iter()
            .chain(self.ours.iter().copied())
            .chain(load::targets(&self.load))
            .collect()
    }
}

fn page(findings: &Findings) -> String {
    let compared = &findings.compared;
    let parts = [
        ("{machine}", findings.machine.to_string()),
        ("{bounds}", bounds(compared)),
        ("{who}", who(&compared.all)),
        ("{recording}", recording(&compared.all)),
        ("{verifying}", verifying(compared)),
        ("{attacks}", attacks(&compared.all)),
        ("{targets}", measured(&peers::targets(compared))),
        ("{ours}", measured(&findings.ours)),
        ("{load}", load(&findings.load)),
        ("{few}", grouped(FEW as f64)),
        ("{many}", grouped(MANY as f64)),
        ("{limit}", SECONDS_MAX.to_string()),
        ("{again}", format!("{SECONDS_AGAIN:.0}")),
    ];
    parts.iter().fold(TEXT.to_owned(), |text, (name, part)| text.replace(name, part.trim_end()))
}

/// A table in Markdown: the first column to the left, the others to the right.
fn table(heading: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: Vec<&str>| format!("| {} |\n", cells.join(" | "));
    let mut text = line(heading.to_vec());
    let rule = heading.iter().enumerate().map(|(at, _)| if at == 0 { "---" } else { "--:" });
    text.push_str(&line(rule.collect()));
    for row in rows {
        text.push_str(&line(row.iter().map(String::as_str).collect()));
    }
    text
}

fn bounds(compared: &Comparison) -> String {
    let bounds = &compared.bounds;
    let row = |name: &str, value: f64, unit: &str| {
        vec![name.to_owned(), format!("{} {unit}", grouped(value))]
    };
    let cores = compared.cores;
    table(
        &["bound", "rate"],
        &[
            row("sign 800 bytes (Ed25519), one core: `ed25519-dalek`", bounds.sign, "/s"),
            row("the same: AWS-LC, with which we sign", bounds.sign_ours, "/s"),
            row("verify strictly, one core", bounds.strict_one, "/s"),
            row(&format!("verify strictly, {cores} cores"), bounds.strict_all, "/s"),
            row("SHA-256, one core", bounds.sha256, "MiB/s"),
            row("append 800 bytes and `fdatasync`, one after the other", bounds.syncs, "/s"),
        ],
    )
}

fn who(all: &[Standing]) -> String {
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|one| {
            vec![
                format!("{} {}", one.who.name, one.version),
                one.who.language.to_owned(),
                one.who.signs.name().to_owned(),
                one.who.stores.to_owned(),
                one.syncs.map_or_else(|| "not counted".to_owned(), |syncs| format!("{syncs:.2}")),
                format!("{:.0}", one.long.records as f64 / one.long.calls as f64),
                grouped(one.long.bytes as f64 / one.long.records as f64),
            ]
        })
        .collect();
    let heading =
        ["who", "in", "signature", "stores", "syncs a record", "records a call", "bytes a record"];
    table(&heading, &rows)
}

fn recording(all: &[Standing]) -> String {
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|one| {
            vec![
                one.who.name.to_owned(),
                grouped(one.long.rate()),
                grouped(one.long.rate() * calls_a_record(&one.long)),
                grouped(one.short_us),
                grouped(one.long.last_us),
                reached(&one.long),
                format!("{:.0}", one.long.peak_mib),
                durable(one).to_owned(),
            ]
        })
        .collect();
    let heading = [
        "who",
        "records/s",
        "calls/s",
        "µs each, first",
        "µs each, last",
        "reached",
        "MiB",
        "synced",
    ];
    table(&heading, &rows)
}

/// What part of a tool call a record is.
fn calls_a_record(long: &Recorded) -> f64 {
    long.calls as f64 / long.records as f64
}

fn reached(long: &Recorded) -> String {
    match long.stopped {
        true => format!("stopped at {}", grouped(long.records as f64)),
        false => "all".to_owned(),
    }
}

/// Whether a record is durable when its caller is told so.
fn durable(one: &Standing) -> &'static str {
    match one.syncs {
        // What many callers share is waited for by each of them.
        Some(syncs) if one.who.package == "countersign" && syncs > 0.0 => match syncs < 0.9 {
            true => "each, shared",
            false => "each",
        },
        Some(syncs) if syncs >= 1.0 => "each",
        Some(syncs) if syncs > 0.0 => "now and then",
        Some(_) => "never",
        None => "not counted",
    }
}

fn verifying(compared: &Comparison) -> String {
    let mut rows = Vec::new();
    for one in &compared.all {
        let Some(checked) = one.verified else { continue };
        let name = match checked.one_core {
            Some(_) => format!("countersign, {} cores", compared.cores),
            None => one.who.name.to_owned(),
        };
        let row = |name: String, short: String, long: &peers::Verified| {
            vec![
                name,
                grouped(long.rate()),
                grouped(long.rate() * calls_a_record(&one.long)),
                short,
                format!("{:.0}", long.seconds * 1e6 / long.records as f64),
                format!("{:.0}", long.peak_mib),
            ]
        };
        rows.push(row(name, format!("{:.0}", checked.short_us), &checked.long));
        if let Some(one_core) = &checked.one_core {
            rows.push(row("countersign, one core".to_owned(), String::new(), one_core));
        }
    }
    let heading = ["who", "records/s", "calls/s", "µs each, few", "µs each, many", "MiB"];
    table(&heading, &rows)
}

fn attacks(all: &[Standing]) -> String {
    let rows: Vec<Vec<String>> = all
        .iter()
        .filter(|one| one.noticed.len() == ATTACKS.len())
        .map(|one| {
            let name = one.who.name.split(',').next().unwrap_or_default().to_owned();
            [name].into_iter().chain(one.noticed.iter().copied().map(noticed)).collect()
        })
        .collect();
    let heading: Vec<&str> = ["who"].into_iter().chain(ATTACK_NAMES).collect();
    table(&heading, &rows)
}

fn noticed(noticed: Noticed) -> String {
    match noticed {
        Noticed { plain: true, .. } => "yes",
        Noticed { kept: Some(true), .. } => "with a note",
        Noticed { .. } => "no",
    }
    .to_owned()
}

fn measured(all: &[Measured]) -> String {
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|one| {
            vec![
                format!("`{}`", one.name),
                format!("{} {}", short(one.value), one.unit),
                short(one.bound),
                format!("{:.2}", one.ratio()),
                one.target.to_string(),
                if one.is_met() { one.mark().to_owned() } else { format!("**{}**", one.mark()) },
            ]
        })
        .collect();
    table(&["figure", "found", "against", "ratio", "target", ""], &rows)
}

fn load(load: &Load) -> String {
    let Load { agents, seconds, pairs, events, p50_ms, p99_ms, memory, descriptors, .. } = load;
    let text = format!(
        "{agents} agents, each with a connection of its own for every request, ask the gate and record what they did over MCP on HTTP, on the\n\
         machine that serves them, for {seconds:.0} seconds: {} pairs were acknowledged, {} events, of which each was durable before its agent was\n\
         told. Half of the pairs took {p50_ms:.0} ms or less, 99 of 100 took {p99_ms:.0} ms or less. Once it was warm, the server had {:.0} MiB of memory and\n\
         {:.0} open files in the first third of the time that was left, {:.0} MiB and {:.0} in the last. Then it was killed, and everything verified.\n\n",
        grouped(*pairs as f64),
        grouped(*events as f64),
        memory.first,
        descriptors.first,
        memory.last,
        descriptors.last,
    );
    text + &measured(&load::targets(load))
}

/// With as many digits as one can take in.
fn short(value: f64) -> String {
    if value.abs() < 100.0 { format!("{value:.2}") } else { grouped(value) }
}

/// A whole number with its thousands apart.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) && text != "-" {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::Target;
    use super::*;

    fn findings() -> Findings {
        let machine = Machine {
            cores: 2,
            processor: "Some CPU".to_owned(),
            memory_gib: 23.5,
            kernel: "6.1.0".to_owned(),
            file_system: "ext4".to_owned(),
            date: "2026-11-17".to_owned(),
        };
        let seal = Measured {
            name: "seal",
            value: 25_000.0,
            unit: "events/s",
            bound: 50_000.0,
            target: Target::AtLeast(0.8),
        };
        let load = load::tests::EXAMPLE;
        Findings { machine, compared: peers::tests::example(), ours: vec![seal], load }
    }

    #[test]
    fn recording_is_told_with_growth_limit_and_syncs() {
        let expected = "\
| who | records/s | calls/s | µs each, first | µs each, last | reached | MiB | synced |
| --- | --: | --: | --: | --: | --: | --: | --: |
| countersign, 1 caller | 2,000 | 667 | 510 | 500 | all | 20 | each |
| countersign, 64 callers | 25,000 | 8,333 | 510 | 500 | all | 20 | each, shared |
| signet-core | 331 | 331 | 250 | 6,000 | stopped at 20,000 | 20 | never |
| obsigna | 500 | 500 | 2,000 | 500 | all | 20 | each |
";
        assert_eq!(recording(&findings().compared.all), expected);
    }

    #[test]
    fn verifying_is_told_for_all_cores_and_for_one() {
        let expected = "\
| who | records/s | calls/s | µs each, few | µs each, many | MiB |
| --- | --: | --: | --: | --: | --: |
| countersign, 2 cores | 40,000 | 13,333 | 60 | 25 | 12 |
| countersign, one core | 20,000 | 6,667 |  | 50 | 11 |
| signet-core | 10,000 | 10,000 | 110 | 100 | 50 |
| obsigna | 10,000 | 10,000 | 500 | 100 | 50 |
";
        assert_eq!(verifying(&findings().compared), expected);
    }

    #[test]
    fn what_needs_a_note_is_told_apart_from_what_is_noticed_anyway() {
        let expected = "\
| who | edit | tail | rollback | new key | split view |
| --- | --: | --: | --: | --: | --: |
| countersign | yes | yes | with a note | yes | yes |
| signet-core | yes | no | no | with a note | no |
| obsigna | yes | with a note | no | yes | no |
";
        assert_eq!(attacks(&findings().compared.all), expected);
    }

    #[test]
    fn a_missed_target_stands_out() {
        let table = measured(&findings().ours);
        let row = "| `seal` | 25,000 events/s | 50,000 | 0.50 | >= 0.80 | **missed** |\n";
        assert!(table.ends_with(row), "{table}");
    }

    #[test]
    fn every_place_in_the_text_is_filled() {
        let page = page(&findings());
        assert!(!page.contains('{') && !page.contains('}'), "{page}");
        assert!(page.contains("2 cores of a Some CPU"), "{page}");
        assert_eq!(grouped(1_234_567.4), "1,234,567");
        assert_eq!(grouped(-123.0), "-123");
    }
}
