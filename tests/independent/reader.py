"""An independent reader of Countersign's ledgers, written from docs/formats alone.

usage: reader.py HOME [TRACE_ID...]     checks the workspace log and the traces of a `.countersign` directory
       reader.py --vectors DIR          checks docs/formats/vectors

Prints `warning <id> <code> <message>` for each warning and `ok <id> <events> <head>` for each ledger, and stops at the first
that is `bad <id> <code> <message>`. Needs Python 3.8 and `cryptography`. Reads schema 1.1 only. It does not know the tables
of payloads, who may record what in a trace, which event may follow which there, and what a claim needs.
"""

import base64
import datetime
import hashlib
import json
import pathlib
import re
import sys
import unicodedata

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from receipts import Receipts

GENESIS = "0" * 64
SAFE = 2**53 - 1
ULID = re.compile(r"[0-7][0-9a-hjkmnp-tv-z]{25}\Z")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z", re.ASCII)
KEY_EVENTS = ("log_opened", "key_added", "key_rotated", "key_revoked")


class Bad(Exception):
    """What is wrong, in a sentence, and its failure code."""

    def __init__(self, message, code="SCHEMA_INVALID"):
        super().__init__(message)
        self.code = code


def need(condition, message, code="SCHEMA_INVALID"):
    if not condition:
        raise Bad(message, code)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


# Strict JSON and its canonical form


def parse_number(token):
    if not re.search(r"[.eE]", token):
        need(len(token) <= 17 and abs(int(token)) <= SAFE, "integer out of range")
        return int(token)
    value = float(token)
    need(abs(value) != float("inf"), "overflow")
    need(value != 0 or not re.search(r"[1-9]", re.split("[eE]", token)[0]), "underflow")
    need(not (value == int(value) and SAFE < abs(value) < 1e21), "integer out of range")
    return value


def parse_object(pairs):
    members = dict(pairs)
    need(len(members) == len(pairs), "duplicate key")
    need(not any(key.startswith("$serde_json::private::") for key in members), "reserved key")
    return members


def refuse(token):
    raise Bad(f"{token} is no JSON")


def measure(value, depth, count):
    """Checks nesting, the number of elements and surrogates."""
    if isinstance(value, (dict, list)):
        need(depth <= 64, "too deep")
        count[0] += len(value)
        need(count[0] <= 100_000, "too many elements")
        for element in value.values() if isinstance(value, dict) else value:
            measure(element, depth + 1, count)
    texts = value.keys() if isinstance(value, dict) else [value] if isinstance(value, str) else []
    need(not any("\ud800" <= char <= "\udfff" for text in texts for char in text), "lone surrogate")


def read(data):
    need(len(data) <= 1 << 20, "too long")
    try:
        text = data.decode("utf-8")
        need(not text.startswith("\ufeff"), "byte order mark")
        value = json.loads(text, object_pairs_hook=parse_object, parse_int=parse_number,
                           parse_float=parse_number, parse_constant=refuse)
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise Bad(f"not JSON: {error}") from error
    measure(value, 1, [0])
    return value


def number(value):
    """The form that ECMAScript gives to a number."""
    if isinstance(value, int):
        return str(value)
    if value == 0:
        return "0"
    sign, text = ("-", repr(-value)) if value < 0 else ("", repr(value))
    mantissa, _, exponent = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    point = len(whole) + int(exponent or 0)
    digits = (whole + fraction).lstrip("0")
    point -= len(whole + fraction) - len(digits)
    digits = digits.rstrip("0")
    if len(digits) <= point <= 21:
        return sign + digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    rest = "." + digits[1:] if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}e{'+' if point > 0 else '-'}{abs(point - 1)}"


def string(text):
    short = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
    return '"' + "".join(short.get(c) or (f"\\u{ord(c):04x}" if c < " " else c) for c in text) + '"'


def form(value):
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return string(value)
    if isinstance(value, (int, float)):
        return number(value)
    if isinstance(value, list):
        return "[" + ",".join(map(form, value)) + "]"
    order = sorted(value, key=lambda key: key.encode("utf-16-be"))
    return "{" + ",".join(f"{string(key)}:{form(value[key])}" for key in order) + "}"


def canonical(value):
    return form(value).encode("utf-8")


def check_text(value):
    """Text in an event is NFC and without noncharacters."""
    if isinstance(value, str):
        need(value.isascii() or unicodedata.is_normalized("NFC", value), "text is not NFC")
        need(not any(ord(c) & 0xFFFE == 0xFFFE or 0xFDD0 <= ord(c) <= 0xFDEF for c in value), "noncharacter")
    elif isinstance(value, dict):
        for key, member in value.items():
            check_text(key)
            check_text(member)
    elif isinstance(value, list):
        for element in value:
            check_text(element)


# Keys and signatures

FIELD = 2**255 - 19
# The five y coordinates of the eight points of small order.
SMALL = {0, 1, FIELD - 1} | {
    int.from_bytes(bytes.fromhex(y), "little")
    for y in ("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
              "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a")
}


def good_point(data):
    """Canonical, and not of small order: OpenSSL checks neither."""
    y = int.from_bytes(data, "little") & (2**255 - 1)
    return y < FIELD and y not in SMALL


def verify(key, message, signature):
    try:
        if len(signature) != 64 or not good_point(key) or not good_point(signature[:32]):
            return False
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
        return True
    except (InvalidSignature, ValueError):
        return False


def unbase64(text, length):
    data = base64.b64decode(text, validate=True)
    need(len(data) == length and base64.b64encode(data).decode() == text, "bad base64")
    return data


# Merkle tree and signed notes


def hash_children(left, right):
    return hashlib.sha256(b"\x01" + left + right).digest()


def merkle_root(leaves):
    """The root over event hashes in hexadecimal digits."""
    peaks = []
    for leaf in leaves:
        node, height = hashlib.sha256(b"\x00" + bytes.fromhex(leaf)).digest(), 0
        while peaks and peaks[-1][1] == height:
            node, height = hash_children(peaks.pop()[0], node), height + 1
        peaks.append((node, height))
    if not peaks:
        return hashlib.sha256(b"").hexdigest()
    node = peaks.pop()[0]
    while peaks:
        node = hash_children(peaks.pop()[0], node)
    return node.hex()


def check_path(old, new, start, proof):
    """Walks up as RFC 9162 says; gives the roots of both trees."""
    left = right = start
    for node in proof:
        need(new != 0, "a node too many")
        if old & 1 or old == new:
            left, right = hash_children(node, left), hash_children(node, right)
            while not old & 1 and old:
                old, new = old >> 1, new >> 1
        else:
            right = hash_children(right, node)
        old, new = old >> 1, new >> 1
    need(new == 0, "a node too few")
    return left, right


def check_inclusion(leaf, index, size, proof, root):
    need(0 <= index < size, "outside of the tree")
    start = hashlib.sha256(b"\x00" + bytes.fromhex(leaf)).digest()
    found = check_path(index, size - 1, start, [bytes.fromhex(node) for node in proof])[1]
    need(found.hex() == root, "another root")


def check_consistency(old, old_root, new, new_root, proof):
    nodes = [bytes.fromhex(node) for node in proof]
    need(old <= new, "sizes reversed")
    if old in (0, new):
        need(not nodes and old_root == (merkle_root([]) if old == 0 else new_root), "another root")
        return
    if old & (old - 1) == 0:
        nodes.insert(0, bytes.fromhex(old_root))
    need(nodes, "a node too few")
    at, last = old - 1, new - 1
    while at & 1:
        at, last = at >> 1, last >> 1
    left, right = check_path(at, last, nodes[0], nodes[1:])
    need((left.hex(), right.hex()) == (old_root, new_root), "another root")


def key_hash(name, key):
    return hashlib.sha256(name.encode() + b"\n\x01" + key).digest()[:4]


def parse_checkpoint(note):
    """Origin, size and root, the signed text, and pairs of a name and the bytes under it. Nothing is verified yet."""
    try:
        whole = note.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Bad("not UTF-8") from error
    need(whole.endswith("\n") and "\n\n" in whole[:-1] and len(note) <= 1 << 18, "not a note")
    need(all(char >= " " or char == "\n" for char in whole), "control character")
    text, _, signatures = whole[:-1].rpartition("\n\n")
    lines = text.split("\n")
    need(len(lines) >= 3 and all(lines), "not a checkpoint")
    origin, size, root = lines[:3]
    need(re.match(r"(0|[1-9][0-9]{0,18})\Z", size) and int(size) < 2**63, "bad size")
    signed = []
    need(signatures.count("\n") < 100, "too many signatures")
    for line in signatures.split("\n"):
        match = re.match(r"\u2014 ([^\s+]+) ([A-Za-z0-9+/]+={0,2})\Z", line)
        try:
            data = base64.b64decode(match[2], validate=True) if match else b""
        except ValueError:
            data = b""
        need(len(data) > 4 and base64.b64encode(data).decode() == match[2], "bad signature line")
        need(len(match[1].encode()) <= 1024, "the name of a key is too long")
        signed.append((match[1], data))
    try:
        return origin, int(size), unbase64(root, 32).hex(), f"{text}\n".encode(), signed
    except ValueError as error:
        raise Bad("bad root") from error


def is_signed(parsed, keys):
    """Whether one of the keys signed the note under the name of its origin, and none of their signatures is wrong."""
    origin, _, _, text, signatures = parsed
    found = [verify(key, text, data[4:]) for key in keys for name, data in signatures
             if name == origin and data[:4] == key_hash(origin, key)]
    return bool(found) and all(found)


def open_checkpoint(note, keys):
    """Origin, size and root, if one of the keys signed the note."""
    parsed = parse_checkpoint(note)
    need(is_signed(parsed, keys), "bad signature, or none by a known key", "SIG_INVALID")
    return parsed[:3]


# Ledgers

MANDATORY = ("proposal_created", "tool_intent_signed", "claim_issued", "claim_challenged", "final_statement_signed",
             "verification_run_completed")
HASH = re.compile(r"[0-9a-f]{64}\Z")
MISSHAPEN = (KeyError, TypeError, AttributeError, ValueError, IndexError)
RULE = "ROLE_POLICY_VIOLATION"
TYPES = KEY_EVENTS + MANDATORY + tuple("""trace_opened trace_checkpointed trace_closed session_initialized proposal_reviewed
    tool_intent_reviewed tool_execution_started tool_execution_completed tool_execution_failed artifact_recorded
    artifact_redacted verification_run_started coverage_reported session_aborted session_failed session_recovered
    tools_listed work_opened lease_granted lease_renewed lease_released agent_session_completed exit_refused
    work_unblocked clock_confirmed flow_started step_dispatched step_skipped step_answered files_applied step_escalated flow_finished
    answer_given""".split())


NAME = re.compile(r"[a-z0-9][a-z0-9_.:@-]{0,127}\Z")
ROLES = ("planner", "executor", "critic", "auditor", "operator", "recorder")


def is_hash(value):
    return isinstance(value, str) and bool(HASH.match(value))


def is_time(value):
    if not isinstance(value, str) or not TIME.match(value):
        return False
    try:
        # Python knows no year 0, which has the days of 2000.
        datetime.datetime.strptime(value.replace("0000-", "2000-", 1), "%Y-%m-%dT%H:%M:%S.%fZ")
        return int(value[17:19]) < 60
    except ValueError:
        return False


def is_name(value):
    return isinstance(value, str) and bool(NAME.match(value))


def check_members(event):
    """The members of every event, without what is inside of artifacts and payloads."""
    actor = event["actor"]
    need(is_name(actor["agent_id"]) and is_name(actor["key_id"]) and actor["role"] in ROLES, "misshapen actor")
    need(isinstance(event["artifacts"], list) and isinstance(event["claims"], list), "artifacts and claims are lists")
    need(is_time(event["created_at"]), "not a time")
    for name in ("event_hash", "payload_hash", "prev_event_hash"):
        need(is_hash(event[name]), f"{name} is no hash")
    need(isinstance(event["payload"], dict), "payload is no object")
    need(event["payload_type"] == event["event_type"], "payload_type is not the type of the event")
    need(event["event_type"] in TYPES, "unknown type")
    need(type(event["seq"]) is int and event["seq"] >= 0, "seq is no number from 0")
    if "raw_clock" in event:
        need(is_time(event["raw_clock"]) and event["raw_clock"] < event["created_at"], "raw_clock is not before created_at")
    for name in ("event_id", "trace_id"):
        need(ULID.match(event[name]), f"{name} is no ULID")


class Findings:
    """What was found in one ledger, in order."""

    def __init__(self, failures=(), warnings=()):
        self.failures, self.warnings = list(failures), list(warnings)

    def fail(self, code, message):
        self.failures.append((code, message))

    def warn(self, code, message):
        self.warnings.append((code, message))

    def codes(self):
        """Each code once, in the order in which it is first found."""
        once = lambda found: list(dict.fromkeys(code for code, _ in found))
        return {"failures": once(self.failures), "warnings": once(self.warnings)}


class Key:
    def __init__(self, identity):
        self.agent_id, self.roles = identity["agent_id"], identity["role_capabilities"]
        self.raw = unbase64(identity["public_key"], 32)
        need(good_point(self.raw), "weak key")
        need(sha256(self.raw)[:32] == identity["key_id"], "key_id does not belong to the key")
        need("recorder" not in self.roles or len(self.roles) == 1, "a recorder key has no other role")
        self.since, self.until, self.sizes = identity["created_at"], None, {}


def hashes_of(event):
    """The payload's hash, the signed bytes and the event's hash, all computed."""
    without = lambda *names: {key: value for key, value in event.items() if key not in names}
    payload_hash = sha256(canonical(event["payload"])) if event.get("payload") is not None else None
    signed = without("event_hash", "signature", "payload")
    if payload_hash and is_hash(event.get("payload_hash")):
        signed["payload_hash"] = payload_hash
    return payload_hash, canonical(signed), sha256(canonical(without("event_hash")))


def check_line(event, line):
    need(canonical(event) == line, "not the canonical bytes of an object")
    check_form(event)


def check_form(event):
    check_text(event)
    need(re.match(r"1\.1\.(0|[1-9]\d{0,8})\Z", str(event.get("schema_version"))), "schema is not 1.1")


def take_apart(line):
    """The event of a line, its computed hashes and its signed bytes."""
    event = read(line)
    need(isinstance(event, dict), "not an object")
    check_line(event, line)
    payload_hash, signed, event_hash = hashes_of(event)
    return event, payload_hash, signed, event_hash


def check_signature(event, signed, index, keys, trace_id):
    """Raises unless the signature verifies and counts. The log itself has no `trace_id` here."""
    signature, code = event["signature"], "SIG_INVALID"
    actor = event.get("actor") if isinstance(event.get("actor"), dict) else {}
    try:
        need(signature["algorithm"] == "ed25519", "another algorithm", code)
        data = unbase64(signature["signature_b64"], 64)
        need(HASH.match(signature["signed_bytes_hash"]), "no hash of the signed bytes", code)
    except (Bad,) + MISSHAPEN as error:
        raise Bad(f"the signature is misshapen: {error}", code) from error
    key = keys.get(str(actor.get("key_id")))
    need(key and key.agent_id == actor.get("agent_id"), "unknown key, or key of another agent", code)
    need(verify(key.raw, signed, data), "the signature does not verify", code)
    need(signature["signed_bytes_hash"] == sha256(signed), "signed_bytes_hash differs", code)
    need(is_time(event.get("created_at")), "the event has no time", None)
    need(key.since <= event["created_at"], "the key did not exist yet", code)
    if key.until:
        need(event["created_at"] < key.until, "the key had been retired", code)
        need(trace_id is None or index < key.sizes.get(trace_id, 0),
             "the log did not have this event when the key was retired", code)
    return key


def judge_signature(event, signed, index, keys, trace_id, findings):
    """Whether the event is signed with a key that counts; what is wrong with it is put into the findings."""
    if event.get("signature") is None:
        # Every entry of a log is signed, whatever its type.
        if trace_id is None or event.get("event_type") in MANDATORY or event.get("event_type") not in TYPES:
            findings.fail("SIG_MISSING", f"event {index}: not signed")
        else:
            findings.warn("SIG_ABSENT", f"event {index}: not signed")
        return False
    try:
        key = check_signature(event, signed, index, keys, trace_id)
    except Bad as error:
        # An event without a time was named before.
        if error.code:
            findings.fail(error.code, f"event {index}: {error}")
        return False
    if event["actor"].get("role") not in key.roles:
        findings.fail(RULE, f"event {index}: the key does not have this role")
    return True


def split_lines(data, findings):
    lines = data.split(b"\n")
    tail = lines.pop()
    if not tail:
        return lines
    try:
        event, _, _, event_hash = take_apart(tail)
        whole = event["event_hash"] == event_hash
    except (Bad, KeyError):
        whole = False
    # What a crash leaves behind is no event; a whole one that lacks its line break is.
    if whole:
        findings.warn("MISSING_FINAL_NEWLINE", "the last line has no line break")
        return lines + [tail]
    findings.warn("TORN_TAIL", "an incomplete line at the end")
    return lines


class Walk:
    """One line after the other: bytes, hashes, chain."""

    def __init__(self, findings, trace_id=None):
        self.findings, self.trace_id = findings, trace_id
        self.head, self.last_id, self.last_at = GENESIS, "", ""
        self.hashes, self.index, self.broken, self.sound = [], 0, False, True

    def fail(self, code, message):
        self.sound = False
        self.findings.fail(code, f"event {self.index}: {message}")

    def identity(self, event):
        self.trace_id = self.trace_id or event["trace_id"]
        last, self.last_id = self.last_id, event["event_id"]
        need(event["trace_id"] == self.trace_id, "another trace_id")
        need(event["event_id"] > last, "event ids do not increase")

    def line(self, line):
        """The event of the line, its signed bytes and whether it has the form of an event, if the line can be read."""
        try:
            event = read(line)
            need(isinstance(event, dict), "not an object")
            payload_hash, signed, event_hash = hashes_of(event)
        except Bad as error:
            self.fail("SCHEMA_INVALID", error)
            self.index += 1
            return None
        faults, valid = [], True
        if canonical(event) != line:
            faults.append("not the canonical bytes of an object")
        for check in (check_form, check_members, self.identity):
            try:
                check(event)
            except (Bad,) + MISSHAPEN as error:
                faults.append(str(error))
                valid &= check == self.identity
        if faults:
            # One event that is wrong in two ways is one finding.
            self.fail("SCHEMA_INVALID", "; ".join(faults))
        # What is no hash at all is a fault of the form, and compared with nothing.
        stated, differs = event.get("event_hash"), lambda stated, found: is_hash(stated) and stated != found
        if payload_hash and differs(event.get("payload_hash"), payload_hash):
            self.fail("HASH_MISMATCH", "payload_hash differs")
        elif differs(stated, event_hash):
            self.fail("HASH_MISMATCH", "event_hash differs")
        self.chain(event, event_hash)
        at = event.get("created_at")
        if is_time(at):
            if at < self.last_at:
                self.findings.warn("CLOCK_REGRESSION", f"event {self.index}: time runs backwards")
            self.last_at = max(self.last_at, at)
        self.index += 1
        return event, signed, valid

    def chain(self, event, event_hash):
        """Only the first break is reported: what follows is out of order for the same reason."""
        previous, seq, stated = (event.get(name) for name in ("prev_event_hash", "seq", "event_hash"))
        if not self.broken and is_hash(previous) and previous != self.head:
            self.broken = True
            self.fail("CHAIN_BREAK", "does not follow the event before")
        elif not self.broken and type(seq) is int and seq >= 0 and seq != self.index:
            self.broken = True
            self.fail("CHAIN_BREAK", "seq is not its place")
        self.head = stated if is_hash(stated) else event_hash
        self.hashes.append(self.head)


class Log:
    """The workspace log: keys, and what it says of each trace."""

    def __init__(self, home):
        self.keys, self.root, self.keys_head, self.origin = {}, None, None, None
        self.first, self.extents, self.open, self.known = {}, {}, {}, {}
        self.closed, self.recorders, self.findings = set(), [], Findings()
        # By size: hashes up to there, the last key event, and whether all could be taken at its word.
        self.at = {}
        walk = Walk(self.findings)
        for line in split_lines((home / "log/events.jsonl").read_bytes(), self.findings):
            index, found = walk.index, walk.line(line)
            if found:
                self.meet(*found, index, walk.sound)
                self.at[walk.index] = len(walk.hashes), self.keys_head, walk.sound
        self.hashes, self.entries = walk.hashes, walk.index
        if not walk.index:
            self.findings.fail("SCHEMA_INVALID", "no events")
        note = home / "log/checkpoint"
        if note.exists() and note.stat().st_size:
            self.check_checkpoint(note.read_bytes())

    def check_checkpoint(self, note):
        try:
            parsed = parse_checkpoint(note)
        except Bad as error:
            # It is never synced: power loss may tear it. It then counts as missing.
            self.findings.warn("CHECKPOINT_UNREADABLE", f"the checkpoint cannot be read: {error}")
            return
        origin, size, root = parsed[:3]
        if size > self.entries:
            self.findings.fail("CHAIN_BREAK", "the checkpoint is of a longer log")
        elif origin != self.origin:
            self.findings.fail("CHAIN_BREAK", "the checkpoint is of another log")
        elif not is_signed(parsed, self.recorders):
            self.findings.fail("SIG_INVALID", "the checkpoint has a bad signature, or none by a recorder key")
        elif size in self.at and merkle_root(self.hashes[:self.at[size][0]]) != root:
            self.findings.fail("CHAIN_BREAK", "the checkpoint has another root")

    def meet(self, event, signed, valid, index, sound):
        try:
            if valid and index == 0 and event["event_type"] == "log_opened":
                self.root = event["payload"]["identity"]["key_id"]
                self.keys[self.root] = Key(event["payload"]["identity"])
                self.origin = event["payload"]["origin"] if sound else None
            counts = judge_signature(event, signed, index, self.keys, None, self.findings)
            if sound:
                try:
                    self.rules(event, index)
                except Bad as error:
                    self.findings.fail(error.code, f"event {index}: {error}")
            if valid:
                self.apply(event, counts)
            if sound:
                self.learn_recorders()
        except Bad as error:
            self.findings.fail(RULE, f"event {index}: {error}")
        except MISSHAPEN as error:
            self.findings.fail("SCHEMA_INVALID", f"event {index}: misshapen: {error!r}")

    def active(self, key_id):
        return key_id in self.keys and not self.keys[key_id].until

    def rules(self, event, index):
        """Whether the event may follow."""
        kind, payload, key_id = event["event_type"], event["payload"], event["actor"]["key_id"]
        rule = lambda condition, message: need(condition, message, RULE)
        rule((kind == "log_opened") == (index == 0), "a log begins with log_opened, once")
        rule(event["actor"]["role"] == "recorder", "only the recorder writes a log")
        rule(kind in KEY_EVENTS or kind.startswith("trace_") or kind in ("session_recovered", "artifact_redacted"),
             "a log holds no such event")
        if kind in KEY_EVENTS:
            rule(key_id == self.root, "a key event is signed by the root")
            rule(index == 0 or payload["prev_key_event"] == self.keys_head, "prev_key_event differs")
        else:
            rule(payload.get("keys_head") == self.keys_head, "keys_head differs")
            rule(key_id != self.root and self.active(key_id), "signed with a key that is not active, or with the root")
        if kind == "log_opened":
            rule(self.origin == "countersign/" + sha256(self.keys[self.root].raw), "another origin")
        if kind in ("key_added", "key_rotated"):
            rule(payload["identity"]["key_id"] not in self.keys, "key added twice")
        if kind in ("key_rotated", "key_revoked"):
            old, at = self.ends(kind, payload)
            rule(old != self.root and self.active(old), "the key cannot be retired")
            rule(at >= event["created_at"], "a key cannot end before the event that ends it")
            rule(kind == "key_revoked" or self.keys[old].agent_id == payload["identity"]["agent_id"], "another agent")
        if kind.startswith("trace_"):
            trace, size = payload["trace_id"], payload.get("size", 1)
            if kind == "trace_opened":
                rule(trace not in self.first, "opened twice")
            else:
                rule(kind != "trace_closed" or trace in self.open, "closed, but not open")
                rule(size >= self.known.get(trace, 0), "has become shorter")
                rule(kind == "trace_closed" or size > self.open.get(trace, 0), "has not grown")

    @staticmethod
    def ends(kind, payload):
        if kind == "key_rotated":
            return payload["rotated_key_id"], payload["rotated_at"]
        return payload["key_id"], payload["revoked_at"]

    def apply(self, event, counts):
        """Takes the event in, allowed or not. Only what the root signed changes which keys count."""
        kind, payload = event["event_type"], event["payload"]
        if kind in KEY_EVENTS:
            self.keys_head = event["event_hash"]
            if counts and event["actor"]["key_id"] == self.root:
                self.change_keys(kind, payload)
        elif kind == "trace_opened":
            self.first.setdefault(payload["trace_id"], payload["first_event_hash"])
            self.open[payload["trace_id"]] = 1
        elif kind in ("trace_checkpointed", "trace_closed"):
            trace = payload["trace_id"]
            extent = tuple(payload[name] for name in ("size", "head", "merkle_root", "last_event_at"))
            self.extents.setdefault(trace, []).append(extent)
            self.known[trace] = max(extent[0], self.known.get(trace, 0))
            if kind == "trace_closed":
                self.open.pop(trace, None)
                self.closed.add(trace)
            elif trace in self.open:
                self.open[trace] = max(extent[0], self.open[trace])

    def change_keys(self, kind, payload):
        if kind in ("key_rotated", "key_revoked"):
            old, at = self.ends(kind, payload)
            if old in self.keys:
                key = self.keys[old]
                key.until = at
                key.sizes = {trace: 1 for trace in self.first}
                key.sizes.update({trace: max(e[0] for e in extents) for trace, extents in self.extents.items()})
        if kind in ("key_added", "key_rotated"):
            self.keys[payload["identity"]["key_id"]] = Key(payload["identity"])

    def learn_recorders(self):
        """Keys that may have signed a checkpoint. Those that were retired since count too."""
        self.recorders = [key.raw for key_id, key in self.keys.items() if "recorder" in key.roles and key_id != self.root]


def ends_trace(event):
    kind, payload = event["event_type"], event["payload"]
    return (kind in ("verification_run_completed", "session_aborted", "session_failed", "flow_finished")
            or kind == "agent_session_completed" and payload.get("next_phase") == "COMPLETED")


class Evidence:
    """The artifacts that a trace names, and the reports of its audits."""

    def __init__(self, home, trace_id, findings):
        self.home, self.trace_id, self.findings = home, trace_id, findings
        self.named, self.redacted, self.contradicted, self.run = {}, set(), set(), None
        self.passed, self.concluded = None, False

    def stored(self, digest):
        """The bytes under a hash, or None. A link is not followed, below the workspace nowhere."""
        for place in (f"sha256/{digest[:2]}/{digest[2:4]}/{digest}", f"new/{digest}"):
            path = self.home / "artifacts" / place
            if any(it.is_symlink() for it in (path, *path.parents) if it.is_relative_to(self.home / "artifacts")):
                return None
            if path.is_file():
                return path.read_bytes()
        return None

    def meet(self, event, index, head, sound, vouched):
        for artifact in event["artifacts"]:
            digest, size = artifact["artifact_hash"], artifact["byte_size"]
            if self.named.setdefault(digest, (index, size))[1] != size and digest not in self.contradicted:
                self.contradicted.add(digest)
                self.findings.fail("ARTIFACT_HASH_MISMATCH", f"event {index}: {digest} had another size before")
        kind = event["event_type"]
        if vouched and kind == "artifact_redacted" and event["payload"]["artifact_hash"] in self.named:
            self.redacted.add(event["payload"]["artifact_hash"])
        if kind == "verification_run_completed":
            self.passed = index if event["payload"]["verification_status"] != "fail" else None
        if not sound:
            return
        self.concluded |= kind == "final_statement_signed"
        if kind == "verification_run_started" and not self.concluded:
            self.findings.fail("SCHEMA_INVALID", f"event {index}: an audit without a final statement")
        if kind == "verification_run_completed" and self.run:
            self.audit(event, index, self.run)
            self.run = None
        elif kind == "verification_run_started":
            self.run = {index + 1: head}
        elif self.run:
            self.run[index + 1] = head

    def audit(self, event, index, heads):
        payload = event["payload"]
        digest = payload["report_artifact"]
        if all(artifact["artifact_hash"] != digest for artifact in event["artifacts"]):
            return self.findings.fail(RULE, f"event {index}: the report is not listed")
        data = self.stored(digest)
        if data is None or sha256(data) != digest:
            return None
        try:
            report = read(data)
            stated = [report[name] for name in ("trace_id", "report_id", "verification_status", "head")]
            events = report["metrics"]["events"]
        except (Bad,) + MISSHAPEN as error:
            return self.findings.fail("SCHEMA_INVALID", f"event {index}: misshapen report: {error!r}")
        wanted = [self.trace_id, payload["report_id"], payload["verification_status"], heads.get(events)]
        if stated != wanted:
            self.findings.fail(RULE, f"event {index}: the report says {stated}, not {wanted}")
        return None

    def check(self):
        stale = False
        for digest, (index, size) in sorted(self.named.items(), key=lambda item: item[1]):
            data = self.stored(digest)
            if data is None and digest in self.redacted:
                self.findings.warn("REDACTION_LIMITED", f"event {index}: {digest} was redacted")
                continue
            if data is not None and (sha256(data), len(data)) == (digest, size):
                continue
            stale |= self.passed is not None and index < self.passed
            if data is None:
                self.findings.fail("ARTIFACT_MISSING", f"event {index}: {digest} is not in the store")
            elif digest not in self.contradicted:
                self.findings.fail("ARTIFACT_HASH_MISMATCH", f"event {index}: {digest} has other bytes")
        if stale:
            self.findings.warn("RECORDED_VERDICT_STALE", f"event {self.passed}: the audit saw it whole")


class Trace:
    """One trace, checked against the log. What was found in the log counts here too."""

    def __init__(self, home, log, trace_id):
        self.log, self.trace_id = log, trace_id
        self.findings = Findings(log.findings.failures, log.findings.warnings)
        self.pin, self.ended, self.contradicted = None, False, False
        self.extents = list(log.extents.get(trace_id, []))
        self.walk = Walk(self.findings, trace_id)
        self.evidence = Evidence(home, trace_id, self.findings)
        self.receipts, self.doubt = Receipts(self.findings), False
        path = home / "traces" / trace_id / "events.jsonl"
        # A ledger that is not there is one without lines.
        data = path.read_bytes() if path.exists() else b""
        trace_keys = {key_id: key for key_id, key in log.keys.items() if key_id != log.root}
        for line in split_lines(data, self.findings):
            index, told = self.walk.index, len(self.findings.failures)
            found = self.walk.line(line)
            failed = len(self.findings.failures) > told
            if found:
                self.meet(*found, index, trace_keys, failed)
            self.doubt |= failed
        self.receipts.finish()
        self.hashes = self.walk.hashes
        if not self.walk.index:
            self.findings.fail("SCHEMA_INVALID", "no events: the trace is not there" if not data else "no events")
        self.against_log()
        self.evidence.check()

    def meet(self, event, signed, valid, index, keys, failed):
        try:
            told = len(self.findings.failures)
            vouched = judge_signature(event, signed, index, keys, self.trace_id, self.findings)
            # A key without the role is a broken rule, and no doubt about the line.
            unsigned = not vouched and len(self.findings.failures) > told
            self.ended |= valid and vouched and ends_trace(event)
            if valid and index == 0:
                self.pin = event["payload"]["log"]
            if valid:
                self.evidence.meet(event, index, self.walk.head, self.walk.sound, vouched)
            if valid and not failed and not unsigned:
                self.receipts.meet(event, index, self.doubt)
            self.doubt |= unsigned
        except MISSHAPEN as error:
            self.findings.fail("SCHEMA_INVALID", f"event {index}: misshapen: {error!r}")
        while self.extents and self.extents[0][0] <= self.walk.index:
            self.check_extent(*self.extents.pop(0))

    def break_with_log(self, message):
        self.findings.fail("CHAIN_BREAK", message)

    def check_extent(self, size, head, root, last):
        walk = self.walk
        if not self.contradicted and (size, head, last) != (walk.index, walk.head, walk.last_at):
            self.contradicted = True
            self.break_with_log(f"the log has another head or time at {size}")
        elif not self.contradicted and root != merkle_root(walk.hashes):
            self.contradicted = True
            self.break_with_log(f"the log has another root at {size}")

    def against_log(self):
        log, first = self.log, self.log.first.get(self.trace_id)
        if self.pin is not None:
            self.check_pin(self.pin)
        if first is not None and self.hashes and first != self.hashes[0]:
            self.break_with_log("the log opened it with another event")
        longest = max([extent[0] for extent in log.extents.get(self.trace_id, [])], default=0)
        if longest > self.walk.index and not self.contradicted:
            self.break_with_log(f"the log knows {longest} events, here are {self.walk.index}")
        if first is None:
            self.findings.warn("LOG_ENTRY_MISSING", "the log does not say that this trace was opened")
        if self.ended and self.trace_id not in log.closed:
            self.findings.warn("LOG_ENTRY_MISSING", "the trace has ended, but the log does not say so")

    def check_pin(self, pin):
        try:
            if pin["origin"] != self.log.origin:
                self.break_with_log("the trace belongs to another log")
            elif pin["size"] not in self.log.at:
                self.break_with_log("the trace knows a longer log")
            else:
                count, keys_head, sound = self.log.at[pin["size"]]
                if pin["head"] != self.log.hashes[count - 1] or sound and pin["keys_head"] != keys_head:
                    self.break_with_log("the log was rewritten")
        except MISSHAPEN as error:
            self.findings.fail("SCHEMA_INVALID", f"misshapen pin: {error!r}")


def judge_home(home, trace_ids):
    """Yields the name of each ledger, its events and what was found in it."""
    log = Log(home)
    yield "log", log.hashes, log.findings
    found = [path.name for path in (home / "traces").glob("*") if ULID.match(path.name)]
    for name in trace_ids or sorted(set(found) | set(log.first)):
        trace = Trace(home, log, name)
        yield name, trace.hashes, trace.findings


def check_home(home, trace_ids):
    """Yields lines about each ledger; raises at the first that does not hold."""
    try:
        for name, hashes, findings in judge_home(home, trace_ids):
            yield from (f"warning {name} {code} {message}" for code, message in findings.warnings)
            for code, message in findings.failures:
                raise Bad(f"bad {name} {code} {message}", code)
            yield f"ok {name} {len(hashes)} {hashes[-1]}"
    except OSError as error:
        raise Bad(f"bad home {error}") from error


def main(arguments):
    if not arguments or arguments[0] in ("-h", "--help") or arguments == ["--vectors"]:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    if arguments[0] == "--vectors":
        # What `vectors` imports as `reader` is the script that runs, not a second copy of it.
        sys.modules["reader"], sys.dont_write_bytecode = sys.modules[__name__], True
        from vectors import check_vectors
        report = check_vectors(pathlib.Path(arguments[1]))
    else:
        report = check_home(pathlib.Path(arguments[0]), arguments[1:])
    try:
        for line in report:
            print(line, flush=True)
    except Bad as error:
        print(error if str(error).startswith("bad ") else f"bad {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
