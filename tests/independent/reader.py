"""An independent reader of Countersign's ledgers, written from docs/formats alone.

usage: reader.py HOME [TRACE_ID...]     checks the workspace log and the traces of a `.countersign` directory
       reader.py --vectors DIR          checks docs/formats/vectors

Prints `ok <id> <events> <head>` for each ledger and stops at the first that is `bad`. Needs Python 3.8 and
`cryptography`. Reads schema 1.1 only. It does not know the tables of payloads, nor which event may follow which.
"""

import base64
import hashlib
import json
import pathlib
import re
import sys
import unicodedata

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

GENESIS = "0" * 64
SAFE = 2**53 - 1
ULID = re.compile(r"[0-7][0-9a-hjkmnp-tv-z]{25}\Z")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z", re.ASCII)
KEY_EVENTS = ("log_opened", "key_added", "key_rotated", "key_revoked")


class Bad(Exception):
    """What is wrong, in a sentence."""


def need(condition, message):
    if not condition:
        raise Bad(message)


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


def open_checkpoint(note, keys):
    """Size and root, if one of the keys signed the note under the name of its origin."""
    try:
        whole = note.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Bad("not UTF-8") from error
    need(whole.endswith("\n") and "\n\n" in whole and len(note) <= 1 << 18, "not a note")
    need(all(char >= " " or char == "\n" for char in whole), "control character")
    text, _, signatures = whole[:-1].rpartition("\n\n")
    lines = text.split("\n")
    need(len(lines) >= 3 and all(lines), "not a checkpoint")
    origin, size, root = lines[:3]
    need(re.match(r"(0|[1-9][0-9]{0,18})\Z", size), "bad size")
    signed = False
    for line in signatures.split("\n"):
        match = re.match(r"\u2014 ([^ +]+) ([A-Za-z0-9+/]+={0,2})\Z", line)
        need(match and base64.b64encode(base64.b64decode(match[2])).decode() == match[2], "bad signature line")
        data = base64.b64decode(match[2])
        for key in keys:
            if match[1] == origin and data[:4] == key_hash(origin, key):
                need(verify(key, f"{text}\n".encode(), data[4:]), "bad signature")
                signed = True
    need(signed, "not signed by a known key")
    return origin, int(size), unbase64(root, 32).hex()


# Ledgers


class Key:
    def __init__(self, identity):
        self.agent_id, self.roles = identity["agent_id"], identity["role_capabilities"]
        self.raw = unbase64(identity["public_key"], 32)
        need(good_point(self.raw), "weak key")
        need(sha256(self.raw)[:32] == identity["key_id"], "key_id does not belong to the key")
        self.since, self.until, self.sizes = identity["created_at"], None, {}


def take_apart(line):
    """The event of a line, its computed hashes and its signed bytes."""
    event = read(line)
    need(isinstance(event, dict) and canonical(event) == line, "not the canonical bytes of an object")
    check_text(event)
    need(re.match(r"1\.1\.(0|[1-9]\d*)\Z", str(event.get("schema_version"))), "schema is not 1.1")
    without = lambda *names: {key: value for key, value in event.items() if key not in names}
    payload_hash = sha256(canonical(event["payload"]))
    signed = canonical({**without("event_hash", "signature", "payload"), "payload_hash": payload_hash})
    return event, payload_hash, signed, sha256(canonical(without("event_hash")))


def check_signature(event, signed, index, keys, trace_id):
    actor, signature = event["actor"], event["signature"]
    key = keys.get(actor["key_id"])
    need(key and key.agent_id == actor["agent_id"], "unknown key, or key of another agent")
    need(signature["algorithm"] == "ed25519", "another algorithm")
    need(verify(key.raw, signed, unbase64(signature["signature_b64"], 64)), "the signature does not verify")
    need(signature["signed_bytes_hash"] == sha256(signed), "signed_bytes_hash differs")
    need(key.since <= event["created_at"], "the key did not exist yet")
    if key.until:
        need(event["created_at"] < key.until, "the key had been retired")
        need(index < key.sizes.get(trace_id, 0), "the log did not have this event when the key was retired")
    need(actor["role"] in key.roles, "the key does not have this role")


def split_lines(data):
    lines = data.split(b"\n")
    tail = lines.pop()
    try:
        event, _, _, event_hash = take_apart(tail)
        whole = event["event_hash"] == event_hash
    except (Bad, KeyError):
        whole = False
    # What a crash leaves behind is no event; a whole one that lacks its line break is.
    return lines + [tail] if whole else lines


def walk(data, meet):
    """Checks hashes and links; calls `meet` with each event, its place and its signed bytes."""
    head, ids, hashes, trace_id = GENESIS, "", [], None
    for index, line in enumerate(split_lines(data)):
        try:
            event, payload_hash, signed, event_hash = take_apart(line)
            trace_id = trace_id or event["trace_id"]
            need(event["payload_hash"] == payload_hash, "payload_hash differs")
            need(event["event_hash"] == event_hash, "event_hash differs")
            need(event["prev_event_hash"] == head, "does not follow the event before")
            need(event["seq"] == index, "seq is not its place")
            need(ULID.match(event["event_id"]) and event["event_id"] > ids, "event ids do not increase")
            need(ULID.match(event["trace_id"]) and event["trace_id"] == trace_id, "another trace_id")
            need(TIME.match(event["created_at"]), "not a time")
            meet(event, index, signed)
        except Bad as error:
            raise Bad(f"event {index}: {error}") from error
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise Bad(f"event {index}: misshapen: {error!r}") from error
        head, ids = event_hash, event["event_id"]
        hashes.append(event_hash)
    need(hashes, "no events")
    return hashes


class Log:
    """The workspace log: keys, and what it says of each trace."""

    def __init__(self, home):
        self.keys, self.root, self.keys_head, self.origin = {}, None, None, None
        self.first, self.extents, self.keys_heads = {}, {}, []
        self.hashes = walk((home / "log/events.jsonl").read_bytes(), self.meet)
        note = home / "log/checkpoint"
        if note.exists() and note.stat().st_size:
            recorders = [key.raw for key_id, key in self.keys.items() if "recorder" in key.roles and key_id != self.root]
            origin, size, root = open_checkpoint(note.read_bytes(), recorders)
            need(origin == self.origin, "the checkpoint is of another log")
            need(size <= len(self.hashes), "the checkpoint is of a longer log")
            need(merkle_root(self.hashes[:size]) == root, "the checkpoint has another root")

    def add(self, identity):
        need(identity["key_id"] not in self.keys, "key added twice")
        self.keys[identity["key_id"]] = Key(identity)

    def retire(self, key_id, at):
        key = self.keys[key_id]
        need(key_id != self.root and not key.until, "the key cannot be retired")
        key.until = at
        key.sizes = {trace: 1 for trace in self.first}
        key.sizes.update({trace: max(e[0] for e in extents) for trace, extents in self.extents.items()})

    def meet(self, event, index, signed):
        kind, payload, key_id = event["event_type"], event["payload"], event["actor"]["key_id"]
        need((kind == "log_opened") == (index == 0), "a log begins with log_opened, once")
        if index == 0:
            self.root = payload["identity"]["key_id"]
            self.add(payload["identity"])
            self.origin = payload["origin"]
            need(self.origin == "countersign/" + sha256(self.keys[self.root].raw), "another origin")
        need(key_id in self.keys and not self.keys[key_id].until, "signed with a key that is not active")
        check_signature(event, signed, index, self.keys, None)
        if kind in KEY_EVENTS:
            need(key_id == self.root, "a key event is signed by the root")
            need(index == 0 or payload["prev_key_event"] == self.keys_head, "prev_key_event differs")
            if kind == "key_rotated":
                self.retire(payload["rotated_key_id"], payload["rotated_at"])
                need(self.keys[payload["rotated_key_id"]].agent_id == payload["identity"]["agent_id"], "another agent")
            if kind == "key_revoked":
                self.retire(payload["key_id"], payload["revoked_at"])
            elif index:
                self.add(payload["identity"])
            self.keys_head = event["event_hash"]
        elif kind.startswith("trace_"):
            need(payload["keys_head"] == self.keys_head, "keys_head differs")
            trace = payload["trace_id"]
            if kind == "trace_opened":
                need(trace not in self.first, "opened twice")
                self.first[trace] = payload["first_event_hash"]
            else:
                extent = tuple(payload[name] for name in ("size", "head", "merkle_root", "last_event_at"))
                self.extents.setdefault(trace, []).append(extent)
        self.keys_heads.append(self.keys_head)


def check_trace(home, log, trace_id):
    path = home / "traces" / trace_id / "events.jsonl"
    need(path.exists(), "the log knows this trace, but it is not there")

    times = [""]

    def meet(event, index, signed):
        need(event["trace_id"] == trace_id, "another trace_id")
        times.append(max(times[-1], event["created_at"]))
        if index == 0:
            pin = event["payload"]["log"]
            need(pin["origin"] == log.origin, "the trace belongs to another log")
            need(0 < pin["size"] <= len(log.hashes), "the trace knows a longer log")
            at = pin["size"] - 1
            need((pin["head"], pin["keys_head"]) == (log.hashes[at], log.keys_heads[at]), "the log was rewritten")
        check_signature(event, signed, index, log.keys, trace_id)

    hashes = walk(path.read_bytes(), meet)
    need(log.first.get(trace_id, hashes[0]) == hashes[0], "the log opened it with another event")
    for size, head, root, last in log.extents.get(trace_id, []):
        need(size <= len(hashes), f"the log knows {size} events, here are {len(hashes)}")
        need(size > 0 and head == hashes[size - 1], f"the log has another head at {size}")
        need(root == merkle_root(hashes[:size]), f"the log has another root at {size}")
        need(last == times[size], f"the log has another time at {size}")
    return hashes


def check_home(home, trace_ids):
    """Yields one line per ledger; raises at the first that does not hold."""
    name = "log"
    try:
        log = Log(home)
        yield f"ok log {len(log.hashes)} {log.hashes[-1]}"
        found = [path.name for path in (home / "traces").glob("*") if ULID.match(path.name)]
        for name in trace_ids or sorted(set(found) | set(log.first)):
            hashes = check_trace(home, log, name)
            yield f"ok {name} {len(hashes)} {hashes[-1]}"
    except (Bad, OSError) as error:
        raise Bad(f"bad {name} {error}") from error


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
