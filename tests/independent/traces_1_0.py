"""Sessions of schema 1.0, built by hand from the specification's lists of members and rules.

usage: traces_1_0.py DIR            writes the traces, their keys and artifacts, and what a verifier says of them
       traces_1_0.py --check DIR    says whether DIR holds exactly that

Shares no code with the implementation: canonical bytes are those of reader.py. Needs Python 3.8 and `cryptography`.
"""

import base64
import copy
import json
import pathlib
import sys

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from reader import canonical, sha256

GENESIS = "0" * 64
AGENTS = {"planner": 11, "executor": 12, "critic": 13, "auditor": 14}
# Another key of the executor, and a key that may do the work of two.
SEEDS = {**AGENTS, "executor-2": 15, "jack-of-all-trades": 16}


def secret(name):
    return Ed25519PrivateKey.from_private_bytes(bytes([SEEDS[name]]) * 32)


def public(name):
    return secret(name).public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)


def key_id(name):
    return "key_" + sha256(public(name))[:16]


def at(second):
    return f"2026-01-31T12:{second // 60:02}:{second % 60:02}.000Z"


def identity(name, agent=None, roles=None, **more):
    """The nine members of an AgentIdentity."""
    agent = agent or name
    record = {
        "agent_id": f"{agent}-agent", "display_name": f"The {agent}", "role_capabilities": roles or [agent],
        "key_id": key_id(name), "public_key": base64.b64encode(public(name)).decode(), "key_algorithm": "ed25519",
        "status": "active", "created_at": "2026-01-01T00:00:00.000Z", "updated_at": "2026-01-01T00:00:00.000Z",
    }
    return {**record, **more}


KEYS = [identity(name) for name in AGENTS]
INPUT, OUTPUT, REPORT = b'{"command":["make","test"]}', "42 tests passed, café included\n".encode(), b"verification report\n"
ERRORS, MORE, NOTE = b"make: *** [test] Error 2\n", b"coverage: 97 %\n", b'{"purpose":"kept elsewhere"}'
CLAIM, CLAIM_2 = ("claim_01KG9YS7G0" + "0" * 12 + "CA" + digits for digits in ("01", "02"))


def descriptor(data, producer, status="none"):
    digest = sha256(data)
    return {
        "artifact_hash": digest, "hash_algorithm": "sha256", "media_type": "text/plain", "encoding": "utf-8",
        "byte_size": len(data), "created_at": at(0), "producer_event_id": producer["id"],
        "storage_uri": f"artifacts/sha256/{digest[:2]}/{digest[2:4]}/{digest}", "redaction_status": status,
    }


class Session:
    """Events that are still to be sealed. Each is a draft, which a case may change."""

    def __init__(self):
        self.drafts, self.made = [], 0

    def add(self, kind, role, payload, artifacts=(), claims=(), before=None, **more):
        self.made += 1
        draft = {"id": f"01KG9YS7G0{self.made:016}", "kind": kind, "role": role, "payload": payload, "claims": list(claims), **more}
        draft["artifacts"] = [descriptor(data, draft) if isinstance(data, bytes) else data for data in artifacts]
        self.drafts.insert(len(self.drafts) if before is None else self.drafts.index(before), draft)
        return draft

    def the(self, kind, nth=0):
        return [draft for draft in self.drafts if draft["kind"] == kind][nth]

    def drop(self, kind):
        self.drafts.remove(self.the(kind))

    # What the roles do, one after the other

    def begin(self, **more):
        participants = [{"role": role, "agent_id": f"{role}-agent"} for role in AGENTS]
        payload = {"task_id": "task-1", "objective": "run the tests of the café", "participants": participants}
        return self.add("session_initialized", "planner", {**payload, **more})

    def propose(self, **more):
        payload = {"objective": "run the tests of the café", "assumptions": ["the tools are there"],
                   "required_tools": ["make"], "expected_evidence": ["what the tests print"]}
        return self.add("proposal_created", "planner", {**payload, **more})

    def review(self, status="approved", **more):
        payload = {"proposal_status": status, "rationale": "harmless enough"}
        return self.add("proposal_reviewed", "critic", {**payload, **more})

    def intend(self, risk="standard", **more):
        payload = {"tool_name": "make", "normalized_input_hash": sha256(INPUT), "safety_classification": risk,
                   "justification": "as proposed"}
        return self.add("tool_intent_signed", "executor", {**payload, **more})

    def start(self, **more):
        started = self.add("tool_execution_started", "executor", {"tool_name": "make", **more})
        self.add("artifact_recorded", "executor", {"purpose": "input"}, [INPUT])
        return started

    def complete(self, output=OUTPUT, **more):
        ended = self.add("tool_execution_completed", "executor", {"output_artifacts": [sha256(output)], "exit_status": 0, **more})
        self.add("artifact_recorded", "executor", {"purpose": "output"}, [descriptor(output, ended)])
        return ended

    def claim(self, claim_id=CLAIM, evidence=(OUTPUT,), **more):
        payload = {"claim_id": claim_id, "claim_text": "all tests of the café pass", "confidence": 0.9,
                   "evidence_artifacts": [sha256(data) for data in evidence]}
        listed = [descriptor(data, self.drafts[-1]) for data in evidence]
        return self.add("claim_issued", "executor", {**payload, **more}, listed, [claim_id])

    def conclude(self, claims=(CLAIM,), **more):
        payload = {"consolidated_claim_ids": list(claims), "final_verdict": "the tests pass"}
        return self.add("final_statement_signed", "executor", {**payload, **more}, claims=claims)

    def audit(self):
        self.add("verification_run_started", "auditor", {})
        return self.add("verification_run_completed", "auditor", {"verification_status": "pass", "report_id": "01KG9YS7G0" + "0" * 15 + "R"},
                        [REPORT])

    def act(self, **more):
        self.intend(**more)
        self.start()
        return self.complete()

    def seal(self):
        """The lines, hashed, chained and signed, with the members in the order of the specification's lists."""
        lines, head = [], GENESIS
        for second, draft in enumerate(self.drafts):
            name = draft.get("key", draft["role"])
            agent = draft.get("agent", draft["role"])
            payload = draft["payload"]
            event = {
                "schema_version": "1.0.0", "trace_id": draft.get("trace", TRACE), "event_id": draft["id"], "event_type": draft["kind"],
                "created_at": at(draft.get("second", second)),
                "actor": {"agent_id": f"{agent}-agent", "role": draft["role"], "key_id": key_id(name)},
                "payload_hash": draft.get("payload_hash") or sha256(canonical(payload)), "prev_event_hash": head,
                "event_hash": None, "signature": None, "payload_type": draft["kind"], "payload": payload,
                "claims": draft["claims"], "artifacts": draft["artifacts"],
            }
            lacks = lambda *names: {key: value for key, value in event.items() if key not in names}
            if draft.get("signed", True):
                signed = canonical(lacks("event_hash", "signature", "payload"))
                event["signature"] = {"algorithm": "ed25519", "signature_b64": base64.b64encode(secret(name).sign(signed)).decode(),
                                      "signed_bytes_hash": sha256(signed)}
            head = event["event_hash"] = sha256(canonical(lacks("event_hash")))
            lines.append(json.dumps(event, ensure_ascii=False))
        return lines


TRACE = "01KG9YS7G0" + "0" * 11 + "TRACE"


def whole():
    session = Session()
    session.begin()
    session.propose()
    session.review()
    session.act()
    session.claim()
    session.conclude()
    session.audit()
    return session


CASES = {}


def case(name, why, failures=(), warnings=(), closed="yes", strict=None):
    """What is expected: codes under the profile `default`, and under `strict` where those differ."""
    def keep(make):
        expected = {"why": why, "failures": list(failures), "warnings": list(warnings), "closed": closed}
        if strict is not None:
            expected["strict"] = list(strict)
        CASES[name] = (make, expected)
        return make
    return keep


RULE, SCHEMA, CLAIMS = ["ROLE_POLICY_VIOLATION"], ["SCHEMA_INVALID"], ["CLAIM_UNPROVEN"]


# What holds

@case("whole", "twelve events, from the beginning to the audit")
def _(case):
    return whole()


@case("linked", "the same, with links that schema 1.0 does not ask for")
def _(case):
    session = whole()
    the = session.the
    the("proposal_reviewed")["payload"].update(subject_type="proposal", subject_event_id=the("proposal_created")["id"])
    the("tool_intent_signed")["payload"].update(proposal_event_id=the("proposal_created")["id"])
    the("tool_execution_started")["payload"].update(intent_event_id=the("tool_intent_signed")["id"], normalized_input_hash=sha256(INPUT))
    the("tool_execution_completed")["payload"].update(execution_event_id=the("tool_execution_started")["id"])
    the("claim_issued")["payload"].update(execution_event_ids=[the("tool_execution_started")["id"]])
    return session


@case("retry", "the tool fails; a new intent runs it again")
def _(case):
    session = Session()
    session.begin()
    session.propose()
    session.review()
    session.intend()
    session.start()
    failed = session.add("tool_execution_failed", "executor", {"failure_context": "exit status 2"})
    session.add("artifact_recorded", "executor", {"purpose": "output"}, [descriptor(ERRORS, failed)])
    session.act()
    session.claim()
    session.conclude()
    session.audit()
    return session


@case("fallback", "the tool fails; another proposal is made and reviewed")
def _(case):
    session = Session()
    session.begin()
    session.propose()
    session.review()
    session.intend()
    session.start()
    session.add("tool_execution_failed", "executor", {"failure_context": "exit status 2"})
    session.propose(objective="run them once more")
    session.review()
    session.act()
    session.claim()
    session.conclude()
    session.audit()
    return session


@case("parallel", "of two proposals the critic rejects one; the other one is carried out, with two tools")
def _(case):
    session = Session()
    session.begin()
    session.propose(objective="first")
    session.propose(objective="second")
    session.review("rejected")
    session.review("approved")
    session.intend()
    session.start()
    session.intend()
    session.start()
    session.complete()
    session.complete(MORE)
    session.claim(evidence=(OUTPUT, MORE))
    session.conclude()
    session.audit()
    return session


@case("conditional", "the critic sets a condition, and the intent acknowledges it")
def _(case):
    session = whole()
    session.the("proposal_reviewed")["payload"].update(proposal_status="conditional", conditions=[{"id": "offline", "text": "no network"}])
    session.the("tool_intent_signed")["payload"].update(acknowledged_conditions=["offline"])
    return session


@case("elevated", "a dangerous intent, approved by the critic before it runs")
def _(case):
    session = whole()
    session.the("tool_intent_signed")["payload"].update(safety_classification="elevated")
    session.add("proposal_reviewed", "critic", {"subject_type": "tool_intent", "decision": "approved"},
                before=session.the("tool_execution_started"))
    return session


def challenged(session):
    session.begin()
    session.propose()
    session.review()
    session.act()
    session.claim()
    session.add("claim_challenged", "critic", {"challenged_claim_id": CLAIM, "reason": "one test was skipped"}, claims=[CLAIM])


@case("challenge-superseded", "a claim is challenged, and another one takes its place")
def _(case):
    session = Session()
    challenged(session)
    session.claim(CLAIM_2, supersedes=CLAIM)
    session.conclude([CLAIM_2], claim_resolutions=[{"claim_id": CLAIM, "status": "superseded"}])
    session.audit()
    return session


@case("challenge-answered", "a claim is challenged, and upheld with something new")
def _(case):
    session = Session()
    challenged(session)
    session.add("artifact_recorded", "executor", {"purpose": "answer"}, [MORE])
    session.conclude(claim_resolutions=[{"claim_id": CLAIM, "status": "upheld"}])
    session.audit()
    return session


@case("challenge-ignored", "a claim is challenged, and stands as if it were not", (), ["CLAIM_DISPUTED"], strict=CLAIMS)
def _(case):
    session = Session()
    challenged(session)
    session.conclude()
    session.audit()
    return session


@case("rotated-keys", "the executor's key is rotated on the way, the critic's is revoked when its work is done")
def _(case):
    session = whole()
    for draft in session.drafts[7:]:
        if draft["role"] == "executor":
            draft["key"] = "executor-2"
    retired = {"executor": dict(status="rotated", updated_at=at(7), rotated_at=at(7)), "critic": dict(status="revoked", updated_at=at(5))}
    case["keys"] = [identity(name, **retired.get(name, {})) for name in AGENTS]
    case["keys"].append(identity("executor-2", "executor", created_at=at(6)))
    return session


@case("another-audit", "a second audit follows, and a record that an artifact was redacted", (), ["REDACTION_LIMITED"])
def _(case):
    session = whole()
    session.audit()
    record = {"redaction_status": "redacted", "reason": "a customer's name", "policy_tag": "privacy"}
    session.add("artifact_recorded", "auditor", record, [descriptor(OUTPUT, session.the("tool_execution_completed"), "redacted")])
    case["absent"] = [OUTPUT]
    return session


@case("stored-payload", "a payload lies in the store, and its event lists it")
def _(case):
    session = whole()
    recorded = session.the("artifact_recorded")
    recorded.update(payload=None, payload_hash=sha256(NOTE))
    recorded["artifacts"].append(descriptor(NOTE, recorded))
    return session


@case("unsigned-review", "an event is not signed that need not be", (), ["SIG_ABSENT"], strict=["SIG_MISSING"])
def _(case):
    session = whole()
    session.the("proposal_reviewed")["signed"] = False
    return session


@case("cut", "the last four events are missing", closed="no")
def _(case):
    session = whole()
    del session.drafts[8:]
    return session


@case("torn", "a crash left half a line at the end", (), ["TORN_TAIL"], closed="no")
def _(case):
    case["edit"] = lambda lines: lines[:-1] + [lines[-1][:100]]
    case["ending"] = ""
    return whole()


# What does not

@case("rejected", "a proposal that was rejected is carried out", RULE)
def _(case):
    session = whole()
    session.the("proposal_reviewed")["payload"].update(proposal_status="rejected")
    return session


@case("rejected-later", "a second proposal is rejected, and carried out", RULE)
def _(case):
    session = Session()
    session.begin()
    session.propose()
    session.review()
    session.act()
    session.propose(objective="something else")
    session.review("rejected")
    session.act()
    session.claim()
    session.conclude()
    session.audit()
    return session


@case("unreviewed", "a proposal that nobody reviewed is carried out", RULE)
def _(case):
    session = whole()
    session.drop("proposal_reviewed")
    return session


@case("condition-ignored", "the intent does not acknowledge the critic's condition", RULE)
def _(case):
    session = whole()
    session.the("proposal_reviewed")["payload"].update(proposal_status="conditional", conditions=[{"id": "offline", "text": "no network"}])
    return session


@case("no-intent", "a tool runs without an intent", RULE)
def _(case):
    session = whole()
    session.drop("tool_intent_signed")
    return session


@case("no-start", "an execution completes that never started", RULE)
def _(case):
    session = whole()
    session.drop("tool_execution_started")
    return session


@case("elevated-unapproved", "a dangerous intent runs without approval", RULE)
def _(case):
    session = whole()
    session.the("tool_intent_signed")["payload"].update(safety_classification="critical")
    return session


@case("blocked", "the critic blocks an intent, and it runs", RULE)
def _(case):
    session = whole()
    session.add("proposal_reviewed", "critic", {"subject_type": "tool_intent", "decision": "blocked"},
                before=session.the("tool_execution_started"))
    return session


@case("other-input", "what runs is not what was intended", RULE)
def _(case):
    session = whole()
    session.the("tool_execution_started")["payload"].update(normalized_input_hash=sha256(MORE))
    return session


@case("link-to-nothing", "an intent names a proposal that is not there", RULE)
def _(case):
    session = whole()
    session.the("tool_intent_signed")["payload"].update(proposal_event_id="01KG9YS7G0" + "0" * 15 + "X")
    return session


@case("no-evidence", "a claim without evidence", CLAIMS)
def _(case):
    session = whole()
    claim = session.the("claim_issued")
    claim["payload"]["evidence_artifacts"], claim["artifacts"] = [], []
    return session


@case("evidence-not-listed", "a claim whose evidence is not among its artifacts", CLAIMS)
def _(case):
    session = whole()
    session.the("claim_issued")["artifacts"] = []
    return session


@case("evidence-from-the-future", "a claim rests on what only comes later", CLAIMS)
def _(case):
    session = whole()
    claim = session.the("claim_issued")
    later = session.add("artifact_recorded", "executor", {"purpose": "more"}, [MORE], before=session.the("final_statement_signed"))
    claim["payload"]["evidence_artifacts"] = [sha256(MORE)]
    claim["artifacts"] = [descriptor(MORE, later)]
    return session


@case("claim-too-early", "a claim before anything was executed", RULE)
def _(case):
    session = whole()
    claim = session.the("claim_issued")
    session.drafts.remove(claim)
    early = session.add("artifact_recorded", "executor", {"purpose": "guess"}, [OUTPUT], before=session.the("tool_intent_signed"))
    session.drafts.insert(session.drafts.index(early) + 1, claim)
    return session


@case("no-final-statement", "the audit begins without a final statement", SCHEMA)
def _(case):
    session = whole()
    session.drop("final_statement_signed")
    return session


@case("two-final-statements", "there are two final statements", RULE)
def _(case):
    session = whole()
    second = copy.deepcopy(session.the("final_statement_signed"))
    second["id"] = "01KG9YS7G0" + "0" * 14 + "22"
    session.drafts.insert(10, second)
    return session


@case("claim-after-the-end", "a claim after the audit", RULE)
def _(case):
    session = whole()
    session.claim(CLAIM_2)
    return session


@case("claim-after-the-final-statement", "claims between the final statement and the audit", RULE)
def _(case):
    session = whole()
    for _ in range(2):
        claim = session.claim(CLAIM_2)
        session.drafts.remove(claim)
        session.drafts.insert(session.drafts.index(session.the("verification_run_started")), claim)
    return session


@case("unknown-claim", "the final statement stands by a claim that nobody made", RULE)
def _(case):
    session = whole()
    session.the("final_statement_signed")["payload"]["consolidated_claim_ids"] = [CLAIM_2]
    return session


@case("nothing-stored", "nothing that a tool was given or gave is stored", SCHEMA)
def _(case):
    session = Session()
    session.begin()
    session.propose()
    session.review()
    session.intend()
    session.add("tool_execution_started", "executor", {})
    session.add("tool_execution_completed", "executor", {"output_artifacts": [], "exit_status": 0})
    claim = session.claim()
    claim["artifacts"] = [descriptor(OUTPUT, claim)]
    session.conclude()
    session.audit()
    return session


@case("two-roles", "only two roles take part", SCHEMA)
def _(case):
    session = whole()
    session.the("session_initialized")["payload"]["participants"] = [
        {"role": "planner", "agent_id": "planner-agent"}, {"role": "executor", "agent_id": "executor-agent"}]
    return session


@case("no-beginning", "the first event is missing", SCHEMA, closed="no")
def _(case):
    session = whole()
    session.drop("session_initialized")
    return session


@case("wrong-role", "the auditor proposes", RULE)
def _(case):
    session = whole()
    session.the("proposal_created")["role"] = "auditor"
    return session


@case("unfit-key", "the planner's key signs as the executor", RULE)
def _(case):
    session = whole()
    session.the("tool_intent_signed").update(key="planner", agent="planner")
    return session


@case("one-for-two", "who executes also reviews", RULE)
def _(case):
    session = whole()
    for draft in session.drafts:
        if draft["role"] in ("executor", "critic"):
            draft.update(key="jack-of-all-trades", agent="jack")
    case["keys"] = KEYS + [identity("jack-of-all-trades", "jack", ["executor", "critic"])]
    return session


@case("revoked-key", "the critic's key was revoked before it reviewed", ["SIG_INVALID"])
def _(case):
    case["keys"] = [identity(name, **({"status": "revoked", "updated_at": at(2)} if name == "critic" else {})) for name in AGENTS]
    return whole()


@case("same-id", "an id is used twice", SCHEMA)
def _(case):
    session = whole()
    session.drafts[5]["id"] = session.drafts[4]["id"]
    return session


@case("edited-payload", "the objective of a proposal was edited", ["HASH_MISMATCH", "SIG_INVALID"])
def _(case):
    edit = lambda line: line.replace('"the tools are there"', '"the tools are not there"')
    case["edit"] = lambda lines: [edit(line) for line in lines]
    return whole()


@case("deleted-event", "the review was taken out of the file", ["CHAIN_BREAK"])
def _(case):
    case["edit"] = lambda lines: lines[:2] + lines[3:]
    return whole()


@case("unsigned-proposal", "a proposal is not signed", ["SIG_MISSING"])
def _(case):
    session = whole()
    session.the("proposal_created")["signed"] = False
    return session


@case("missing-artifact", "the input of the tool is not in the store", ["ARTIFACT_MISSING"], ["RECORDED_VERDICT_STALE"])
def _(case):
    case["absent"] = [INPUT]
    return whole()


@case("changed-artifact", "the input of the tool has other bytes in the store", ["ARTIFACT_HASH_MISMATCH"], ["RECORDED_VERDICT_STALE"])
def _(case):
    case["changed"] = {INPUT: b'{"command":["make","fest"]}'}
    return whole()


# Writing it all down


def store(blobs):
    """The files of a store that holds these bytes, by the bytes whose hash they are named after."""
    for named_after, data in sorted(blobs.items()):
        digest = sha256(named_after)
        yield f"artifacts/sha256/{digest[:2]}/{digest[2:4]}/{digest}", data


def document(value):
    return (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode()


def files():
    """Every file, by its path."""
    every = {data: data for data in (INPUT, OUTPUT, REPORT, ERRORS, MORE, NOTE)}
    found = {"keys.json": document(KEYS), **dict(store(every))}
    expected = {}
    for name, (make, wanted) in CASES.items():
        case = {}
        lines = make(case).seal()
        lines = case.get("edit", lambda lines: lines)(lines)
        found[f"traces/{name}/events.jsonl"] = ("\n".join(lines) + case.get("ending", "\n")).encode()
        if "keys" in case:
            found[f"traces/{name}/keys.json"] = document(case["keys"])
        # A store beside the trace goes before the one that all share.
        if "absent" in case or "changed" in case:
            own = {data: case.get("changed", {}).get(data, data) for data in every if data not in case.get("absent", [])}
            found.update((f"traces/{name}/{path}", data) for path, data in store(own))
        expected[name] = wanted
    found["expected.json"] = document(expected)
    return found


def main(arguments):
    checks = arguments[:1] == ["--check"]
    directory = pathlib.Path(arguments[-1])
    wanted = files()
    stray = {path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()} - wanted.keys()
    differ = {name for name, data in wanted.items()
              if not (directory / name).is_file() or (directory / name).read_bytes() != data}
    if checks:
        for name in sorted(stray | differ):
            print(f"{'unexpected' if name in stray else 'differs'} {name}")
        return 1 if stray | differ else 0
    for name in stray:
        (directory / name).unlink()
    for name in differ:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(wanted[name])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
