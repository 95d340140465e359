//! Drives signet-core: receipts signed in this process, appended to its audit log. It speaks as
//! `drive.py` says, with the same tool calls.

use std::error::Error;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

use ed25519_dalek::{SigningKey, VerifyingKey};
use serde_json::{Value, json};
use signet_core::audit::{self, AuditFilter, AuditRecord, AuditVerifyOptions};
use signet_core::{Action, generate_keypair, sign};

/// Records whose cost is told apart, at the beginning and at the end.
const CHUNK: usize = 1000;
/// Records of a store that is attacked.
const SMALL: usize = 300;
const SHARED: usize = 100;
const KEPT: usize = 200;
const GENESIS: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

type Told = Result<Value, Box<dyn Error>>;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut told = match arguments.as_slice() {
        ["record", count, place, limit] => {
            record(count.parse()?, Path::new(place), limit.parse()?)?
        }
        ["fill", count, place] => fill(count.parse()?, Path::new(place))?,
        ["verify", place] => verify(Path::new(place))?,
        ["attack", name, place] => attack(name, Path::new(place))?,
        _ => return Err("see drive.py".into()),
    };
    told["peak_kib"] = json!(peak_kib()?);
    println!("{told}");
    Ok(())
}

fn call(number: usize, story: &str) -> Action {
    let path = format!("src/part_{}.rs", number % 97);
    let line = |what: &str| {
        format!("    let order = sorted_by_key(members, |member| member.{what}[{number}]);\n")
            .repeat(2)
    };
    Action {
        tool: "edit_file".to_owned(),
        params: json!({
            "path": path, "old": line("name"), "new": line("rank"),
            "reason": format!("the test expects another order of members, step {number} of story {story}"),
        }),
        params_hash: String::new(),
        target: "mcp://bench".to_owned(),
        transport: "stdio".to_owned(),
        session: Some("session-1".to_owned()),
        call_id: None,
        response_hash: None,
        trace_id: None,
        parent_receipt_id: None,
    }
}

fn receipt(key: &SigningKey, number: usize, story: &str) -> Told {
    Ok(serde_json::to_value(sign(key, &call(number, story), "bench", "owner")?)?)
}

fn record(count: usize, place: &Path, limit: f64) -> Told {
    let (key, _) = generate_keypair();
    let start = Instant::now();
    let mut marks = vec![(0, 0.0)];
    let mut records = 0;
    while records < count {
        audit::append(place, &receipt(&key, records, "a")?)?;
        records += 1;
        if records % CHUNK == 0 || records == count {
            marks.push((records, start.elapsed().as_secs_f64()));
            if start.elapsed().as_secs_f64() > limit {
                break;
            }
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let cost: Vec<f64> = marks
        .windows(2)
        .map(|two| (two[1].1 - two[0].1) * 1e6 / (two[1].0 - two[0].0) as f64)
        .collect();
    let bytes: u64 = fs::read_dir(place.join("audit"))?
        .map(|entry| entry.and_then(|entry| entry.metadata()).map_or(0, |found| found.len()))
        .sum();
    Ok(json!({
        "records": records, "calls": records, "seconds": seconds, "stopped": records < count,
        "first_us": cost.first(), "last_us": cost.last(), "bytes": bytes,
    }))
}

/// The same lines without reading all of them again for each.
fn fill(count: usize, place: &Path) -> Told {
    let (key, _) = generate_keypair();
    let mut before = GENESIS.to_owned();
    let first = receipt(&key, 0, "a")?;
    let day = first["ts"].as_str().and_then(|ts| ts.get(..10)).ok_or("no time")?.to_owned();
    fs::create_dir_all(place.join("audit"))?;
    let mut file =
        std::io::BufWriter::new(fs::File::create(place.join("audit").join(day + ".jsonl"))?);
    for number in 0..count {
        let receipt = receipt(&key, number, "a")?;
        let record_hash = audit::compute_record_hash(&receipt, &before)?;
        let record = AuditRecord { receipt, prev_hash: before, record_hash: record_hash.clone() };
        writeln!(file, "{}", serde_json::to_string(&record)?)?;
        before = record_hash;
    }
    file.flush()?;
    Ok(json!({ "records": count, "calls": count, "seconds": 0, "stopped": false }))
}

fn holds(place: &Path, options: &AuditVerifyOptions) -> Result<(bool, usize), Box<dyn Error>> {
    let chain = audit::verify_chain(place)?;
    let signatures =
        audit::verify_signatures_with_options(place, &AuditFilter::default(), options)?;
    Ok((chain.valid && signatures.failures.is_empty(), signatures.total))
}

fn verify(place: &Path) -> Told {
    let start = Instant::now();
    let (ok, records) = holds(place, &AuditVerifyOptions::default())?;
    let seconds = start.elapsed().as_secs_f64();
    Ok(json!({ "ok": ok, "records": records, "signatures": records, "seconds": seconds }))
}

fn write(
    place: &Path,
    key: &SigningKey,
    numbers: std::ops::Range<usize>,
    story: &str,
) -> Result<(), Box<dyn Error>> {
    for number in numbers {
        audit::append(place, &receipt(key, number, story)?)?;
    }
    Ok(())
}

/// Changes the lines of the store's only file.
fn change(place: &Path, with: impl FnOnce(&mut Vec<String>)) -> Result<(), Box<dyn Error>> {
    let files = fs::read_dir(place.join("audit"))?.collect::<Result<Vec<_>, _>>()?;
    let file = files
        .iter()
        .map(fs::DirEntry::path)
        .find(|path| path.extension().is_some_and(|it| it == "jsonl"));
    let file = file.ok_or("no file")?;
    let mut lines: Vec<String> = fs::read_to_string(&file)?.lines().map(str::to_owned).collect();
    with(&mut lines);
    Ok(fs::write(&file, lines.join("\n") + "\n")?)
}

fn attack(name: &str, base: &Path) -> Told {
    let (key, _) = generate_keypair();
    let (place, other) = (base.join("store"), base.join("other"));
    let plain = |place: &Path| holds(place, &AuditVerifyOptions::default()).map(|(ok, _)| ok);
    let noticed = match name {
        "edit" => {
            write(&place, &key, 0..SMALL, "a")?;
            change(&place, |lines| lines[150] = lines[150].replacen("edit_file", "read_file", 1))?;
            !plain(&place)?
        }
        // All that there is lies in one file: to cut it is to put back all of it.
        "tail" | "rollback" => {
            write(&place, &key, 0..SMALL, "a")?;
            change(&place, |lines| lines.truncate(if name == "tail" { SMALL - 10 } else { KEPT }))?;
            !plain(&place)?
        }
        "resign" => {
            let (another, _): (SigningKey, VerifyingKey) = generate_keypair();
            write(&other, &another, 0..SMALL, "b")?;
            let pinned = AuditVerifyOptions {
                trusted_agent_pubkeys: vec![key.verifying_key()],
                ..AuditVerifyOptions::default()
            };
            let with_pin = !holds(&other, &pinned)?.0;
            return Ok(json!({ "plain": !plain(&other)?, "kept": with_pin }));
        }
        "split" => {
            write(&other, &key, 0..SHARED, "a")?;
            write(&other, &key, SHARED..SMALL, "b")?;
            !plain(&other)?
        }
        _ => return Err(format!("no attack {name}").into()),
    };
    Ok(json!({ "plain": noticed, "kept": null }))
}

fn peak_kib() -> Result<u64, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no peak")?;
    Ok(line.trim_end_matches("kB").trim().parse()?)
}
