//! The viewer: ten thousand traces and work items listed by its API, and a trace of a hundred
//! thousand events in a real browser.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use countersign_format::exit::WorkPhase;
use countersign_testkit::second_reader::{node, repository};
use serde_json::Value;

use super::clock::{Clock, best_of, milliseconds};
use super::home::Home;
use super::work::Board;
use super::{Measured, Target, long};
use crate::product;

const TRACES: usize = 10_000;
/// Traces of one request, and work items of one phase.
const PAGE: usize = 500;
const COLUMN: usize = 40;
const EVENTS: u64 = 100_000;
const LIST_MILLISECONDS_MAX: f64 = 200.0;
const PAINT_MILLISECONDS_MAX: f64 = 1_000.0;
/// How much the heap of the page may grow by much scrolling.
const HEAP_GROWTH_MAX: f64 = 16e6;

pub(super) fn measure() -> Result<Vec<Measured>, String> {
    let board = Board::with("viewer-many", TRACES)?;
    let viewer = Viewer::start(&board.store(), &board.config())?;
    let mut measured = vec![listing(&viewer)?, phases(&viewer)?];
    measured.extend(paint()?);
    Ok(measured)
}

/// All traces of a large workspace, page after page.
fn listing(viewer: &Viewer) -> Result<Measured, String> {
    // The first answer waits for the index.
    viewer.get("/traces?limit=1")?;
    let taken = best_of(5, Clock::Wall, || {
        let mut found = 0;
        while found < TRACES {
            let page = viewer.get(&format!("/traces?limit={PAGE}&offset={found}"))?;
            let items = page.get("items").and_then(Value::as_array).map_or(0, Vec::len);
            if items == 0 {
                return Err(format!("only {found} traces are listed"));
            }
            found += items;
        }
        Ok(())
    })?;
    Ok(Measured {
        name: "viewer-list",
        value: milliseconds(taken),
        unit: "ms",
        bound: LIST_MILLISECONDS_MAX,
        target: Target::AtMost(1.0),
    })
}

/// The board as the page asks for it: the first items of every phase.
fn phases(viewer: &Viewer) -> Result<Measured, String> {
    let taken = best_of(5, Clock::Wall, || {
        WorkPhase::NAMES.into_iter().try_for_each(|phase| {
            let page = viewer.get(&format!("/work?phase={phase}&limit={COLUMN}"))?;
            match page.get("total").and_then(Value::as_u64) {
                Some(total) if total == TRACES as u64 => Ok(()),
                other => Err(format!("the board has {other:?} items")),
            }
        })
    })?;
    Ok(Measured {
        name: "viewer-board",
        value: milliseconds(taken),
        unit: "ms",
        bound: LIST_MILLISECONDS_MAX,
        target: Target::AtMost(1.0),
    })
}

/// A long trace, opened in a browser.
fn paint() -> Result<Vec<Measured>, String> {
    let home = Home::new("viewer-long")?;
    let recording = long::write(&home.below("home"), EVENTS)?;
    let trace = recording.events.parent().and_then(Path::file_name).ok_or("no trace")?;
    let viewer = Viewer::start(&home.below("home"), &home.below("config"))?;
    let browser = std::env::var_os("COUNTERSIGN_TEST_BROWSER").unwrap_or_else(|| "chromium".into());
    let script = repository().join("tests/browser/large.mjs");
    let mut best: Option<Value> = None;
    for round in 0..3 {
        let profile = home.below(&format!("profile-{round}"));
        let mut look = node();
        look.arg(&script).arg(&browser).arg(&profile).arg(&viewer.url).arg(trace);
        let done = look.output().map_err(|error| format!("node: {error}"))?;
        let told: Value = serde_json::from_slice(&done.stdout)
            .map_err(|_| String::from_utf8_lossy(&done.stderr).into_owned())?;
        eprintln!("    viewer: {told}");
        let _ = fs::remove_dir_all(profile);
        let painted = |told: &Value| told.get("painted_ms").and_then(Value::as_f64);
        if best.as_ref().is_none_or(|best| painted(&told) < painted(best)) {
            best = Some(told);
        }
    }
    let best = best.ok_or("nothing was painted")?;
    let number = |name: &str| best.get(name).and_then(Value::as_f64).ok_or(format!("no {name}"));
    Ok(vec![
        Measured {
            name: "viewer-paint",
            value: number("painted_ms")?,
            unit: "ms",
            bound: PAINT_MILLISECONDS_MAX,
            target: Target::AtMost(1.0),
        },
        Measured {
            name: "viewer-heap",
            value: (number("heap_after")? - number("heap_before")?).max(0.0),
            unit: "B",
            bound: HEAP_GROWTH_MAX,
            target: Target::AtMost(1.0),
        },
    ])
}

/// A viewer that runs until this is dropped.
struct Viewer {
    child: Child,
    url: String,
}

impl Viewer {
    fn start(home: &Path, config: &Path) -> Result<Self, String> {
        let mut serve = Command::new(product::binary());
        serve.args(["serve", "--port", "0", "--json", "--home"]).arg(home);
        serve.env("COUNTERSIGN_CONFIG", config).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = serve.stderr(Stdio::null()).spawn().map_err(|error| error.to_string())?;
        let output = child.stdout.take().ok_or("no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).map_err(|error| error.to_string())?;
        let told: Value = serde_json::from_str(&line).map_err(|error| error.to_string())?;
        let url = told.get("url").and_then(Value::as_str).ok_or("no address")?.to_owned();
        Ok(Self { child, url })
    }

    /// What the API answers.
    fn get(&self, path: &str) -> Result<Value, String> {
        let rest = self.url.strip_prefix("http://").ok_or("no address")?;
        let (address, token) = rest.split_once("/#token=").ok_or("no token")?;
        let failed = |error: std::io::Error| format!("{path}: {error}");
        let mut stream = TcpStream::connect(address).map_err(failed)?;
        stream.set_read_timeout(Some(Duration::from_secs(60))).map_err(failed)?;
        let head = format!(
            "GET /api/v1{path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
             connection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).map_err(failed)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(failed)?;
        let (_, body) = answer.split_once("\r\n\r\n").ok_or("no answer")?;
        serde_json::from_str(body).map_err(|error| format!("{path}: {error}"))
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
