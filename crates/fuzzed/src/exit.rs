//! Exit signals, and what is found of them in what an agent prints.

use countersign_format::exit::{
    ExitSignal, ExitSignalError, StdoutScanner, StdoutSignal, WorkPhase, read_descriptor,
};
use countersign_format::json::{self, Value};

use crate::Target;
use crate::hunt::pieces;

pub(crate) const SIGNAL: Target = Target {
    name: "exit_signal",
    holds: |data| signal_holds(data, ExitSignal::from_json_bytes),
    twin: |data| {
        signal_holds(data, |bytes| {
            let value: Option<Value> = serde_json::from_slice(bytes).ok();
            value.map_or_else(|| ExitSignal::from_json_bytes(bytes), ExitSignal::try_from)
        });
    },
    tries: 30_000,
    words: WORDS,
};

pub(crate) const STDOUT: Target = Target {
    name: "exit_stdout",
    holds: |data| stdout_holds(data, scan),
    twin: |data| stdout_holds(data, |pieces| scan(pieces.last().copied().into_iter().collect())),
    tries: 10_000,
    words: WORDS,
};

const WORDS: &str = "{\"protocol\":\"apm2_agent_exit\",\"version\":\"1.0.0\",\"phase_completed\":\"REVIEW\",\"exit_reason\":\"completed\"}·\
        \"protocol\":\"apm2_agent_exit\"·\"version\":·\"1.0.0\"·\"phase_completed\":·\
        \"CI_PENDING\"·\"exit_reason\":·\"blocked\"·\"notes\":·\"pr_url\":·\
        \"evidence_bundle_ref\":·null·```·```json\n·~~~·\n·\r\n·\u{1b}[0m·\u{1b}]0;x\u{7}·\
        \u{feff}·{·}·[·]·\"·\\·\\u0061·\u{8}·../·https://github.com/a/b/pull/1·nonce ·\u{9b}";

const NONCE: &str = "5b1f0c9ad2";

fn signal_holds(data: &[u8], read: fn(&[u8]) -> Result<ExitSignal, ExitSignalError>) {
    if let Ok(signal) = read(data) {
        let document = json::read(data).expect("a signal is strict JSON");
        assert_eq!(document.get("protocol").and_then(Value::as_str), Some(&*signal.protocol));
        signal.validate().expect("what is read is valid");
        signal.next_phase().expect("what is read leads somewhere");
        let written = serde_json::to_vec(&signal).expect("a signal can be written");
        assert_eq!(read(&written).as_ref(), Ok(&signal), "written, it reads otherwise");
        for phase in WorkPhase::ALL {
            let moved = signal.check_for_phase(Some(phase));
            assert!(moved.is_err() || phase == signal.phase_completed, "of another phase");
            assert!(moved.is_err() || moved == signal.check_for_ci_runner(Some(phase)));
        }
    }
    descriptor_holds(data);
}

/// Nothing counts without the nonce, and no error tells of it.
fn descriptor_holds(data: &[u8]) {
    let bare = read_descriptor(NONCE, data);
    let begins = data.trim_ascii_start().starts_with(NONCE.as_bytes());
    assert!(begins || matches!(bare, Ok(None) | Err(_)), "taken without the nonce");
    let told = read_descriptor(NONCE, &[NONCE.as_bytes(), b" ", data].concat());
    if let Ok(Some(signal)) = &told {
        let place = data.windows(signal.len()).any(|window| window == signal.as_slice());
        assert!(place && signal.first() == Some(&b'{'), "not an object of the text");
    }
    for error in [bare.err(), told.err()].into_iter().flatten() {
        let shown = error.to_string();
        let leaks = |run: &[u8]| shown.as_bytes().windows(4).any(|window| window == run);
        assert!(!NONCE.as_bytes().windows(4).any(leaks), "`{shown}` tells of the nonce");
    }
}

fn scan(pieces: Vec<&[u8]>) -> StdoutSignal {
    let mut scanner = StdoutScanner::new();
    pieces.into_iter().for_each(|piece| scanner.push(piece));
    scanner.finish()
}

fn stdout_holds(data: &[u8], scan: fn(Vec<&[u8]>) -> StdoutSignal) {
    let whole = scan(vec![data]);
    assert_eq!(scan(data.chunks(1).collect()), whole, "byte by byte it says otherwise");
    assert_eq!(scan(pieces(data)), whole, "in pieces it says otherwise");
    let after = [b"all done\n", data].concat();
    assert_eq!(scan(vec![&after]), whole, "a line before it changes it");
    if let StdoutSignal::Last(text) = &whole {
        assert_eq!(scan(vec![text]), whole, "the signal by itself says otherwise");
        let value: Result<Value, _> = serde_json::from_slice(text);
        assert!(value.is_ok_and(|value| value.is_object()) || json::read(text).is_err());
        let more = [data, b"\n{\"a\":1}\n"].concat();
        assert!(!matches!(scan(vec![&more]), StdoutSignal::Last(_)), "it is not the last thing");
    }
}
