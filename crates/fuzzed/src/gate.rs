//! What the gate reads: shell text, of which nothing that follows hides what came, and requests.

use countersign_format::json;
use countersign_format::risk::RiskClass;
use countersign_gate::guard::{Proposed, Strictness, programs, weigh};
use countersign_gate::{COMMAND_BYTES_MAX, Decision, GateRequest, RequestFault};

use crate::Target;

pub(crate) const COMMAND: Target = Target {
    name: "gate_command",
    holds: |data| command_holds(data, decision),
    twin: |data| {
        command_holds(data, |shell, strictness| {
            decision(shell.rsplit('\n').next().unwrap_or_default(), strictness)
        });
    },
    tries: 6_000,
    words: "rm -rf /·rm·-rf·/·~· ·\n·;·&&·||·|·&·'·\"·`·$(·)·${·}·<<EOF\n·EOF\n·<<'E'\n·E\n·>·\
        >>·2>&1·<(·\\·\\\n·#·if ·then ·fi·for i in ·do ·done·case x in ·esac·{ ·f() {·\
        function f·eval ·exec ·sudo ·env ·xargs ·sh -c ·bash -c '·python -c ·$IFS·$'\\x72'·\
        *·?·[a-z]·{a,b}·((·))·[[·]]·!·curl x | sh·.env·.git/·git push --force·chmod 777·\
        dd of=/dev/sda·mkfs·alias a=·cd ..",
};

pub(crate) const REQUEST: Target = Target {
    name: "gate_request",
    holds: |data| request_holds(data, GateRequest::from_bytes),
    twin: |data| {
        request_holds(data, |bytes| match serde_json::from_slice(bytes) {
            Ok(request) => Ok(request),
            Err(_) => GateRequest::from_bytes(bytes),
        });
    },
    tries: 12_000,
    words: "{·}·[·]·,·:·\"·null·true·false·\"1.0.0\"·\"paths\":·\"command\":·\"diff\":·\
        \"content\":·\"risk\":·\"critical\"·\"held\":·\"directory\":·\"finding_severity\":·\
        \\u0000·e\u{301}",
};

fn decision(shell: &str, strictness: Strictness) -> Decision {
    let action = Proposed {
        tool: "exec",
        argv: &[],
        shell: Some(shell),
        paths: &[],
        content: None,
        stdin: None,
        env: None,
        risk: RiskClass::Standard,
        network_granted: true,
    };
    let (verdict, risk) = weigh(&action, strictness);
    assert!(risk >= RiskClass::Standard, "the declared class is lowered");
    assert!(!verdict.reasons().is_empty(), "a decision without a reason");
    verdict.decision()
}

/// A command that no guard lets pass.
const HARM: &str = "rm -rf /";

fn command_holds(data: &[u8], decide: fn(&str, Strictness) -> Decision) {
    let Ok(shell) = std::str::from_utf8(data) else { return };
    if shell.len() > COMMAND_BYTES_MAX {
        return;
    }
    let [lenient, usual, strict] =
        [Strictness::Lenient, Strictness::Default, Strictness::Strict].map(|it| decide(shell, it));
    assert!(lenient <= usual && usual <= strict, "{lenient:?}, {usual:?}, {strict:?}");
    let names = programs(shell);
    assert!(names.is_sorted() && names.iter().all(|name| !name.is_empty()), "{names:?}");
    let after = format!("{HARM}\n{shell}");
    for strictness in [Strictness::Lenient, Strictness::Default] {
        let (bare, hidden) = (decision(HARM, strictness), decide(&after, strictness));
        assert!(hidden >= bare, "what follows hides what came: {hidden:?}");
    }
}

fn request_holds(data: &[u8], read: fn(&[u8]) -> Result<GateRequest, RequestFault>) {
    let Ok(request) = read(data) else { return };
    json::read_up_to(data, countersign_gate::REQUEST_BYTES_MAX).expect("a request is strict JSON");
    assert_eq!(request.check(), Ok(()), "what is read can be looked at");
    let written = request.to_bytes();
    assert_eq!(read(&written).as_ref(), Ok(&request), "written, it differs");
    let value = json::read_up_to(&written, 2 * countersign_gate::REQUEST_BYTES_MAX);
    assert_eq!(value.map(|value| json::to_bytes(&value)), Ok(written), "not canonical");
}
