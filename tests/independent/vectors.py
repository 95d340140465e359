"""Checks docs/formats/vectors with the independent reader; run it as `reader.py --vectors DIR`."""

import json

from reader import (Bad, canonical, check_consistency, check_inclusion, judge_home, key_hash, merkle_root, need,
                    open_checkpoint, read, sha256, take_apart, unbase64, verify)


def fails(check, *arguments):
    try:
        check(*arguments)
    except (Bad, ValueError):
        return True
    return False


def case_input(case):
    if "input" in case:
        return case["input"].encode("utf-8")
    if "input_hex" in case:
        return bytes.fromhex(case["input_hex"])
    return "".join(piece * times for piece, times in case["input_parts"]).encode("utf-8")


def check_codes(line, key):
    """The codes that a verifier gives to one event by itself."""
    event, payload_hash, signed, event_hash = take_apart(line)
    signature, codes = event["signature"], set()
    if (event["payload_hash"], event["event_hash"]) != (payload_hash, event_hash):
        codes.add("HASH_MISMATCH")
    fits = verify(key, signed, unbase64(signature["signature_b64"], 64))
    if not fits or signature["signed_bytes_hash"] != sha256(signed):
        codes.add("SIG_INVALID")
    return sorted(codes)


def check_vectors(directory):
    load = lambda name: json.loads((directory / name).read_text(encoding="utf-8"))
    cases = load("canonical.json")
    for case in cases["accepted"]:
        found = canonical(read(case_input(case)))
        need(sha256(found) == case["sha256"], f"canonical.json: {case['name']}: {found[:200]!r}")
    for case in cases["refused"]:
        need(fails(read, case_input(case)), f"canonical.json: {case['name']} is not refused")
    for case in cases["not_canonical_lines"]:
        need(canonical(read(case["line"].encode())) == case["canonical"].encode() != case["line"].encode()
             or case["name"] == "not-an-object", f"canonical.json: {case['name']}")
    yield "ok canonical.json"
    for case in load("ed25519.json")["cases"]:
        key, message, signature = (bytes.fromhex(case[name + "_hex"]) for name in ("public_key", "message", "signature"))
        need(verify(key, message, signature) == case["valid"], f"ed25519.json: {case['name']}")
    yield "ok ed25519.json"
    vectors = load("event.json")
    key = unbase64(vectors["public_key"], 32)
    need((sha256(key), sha256(key)[:32]) == (vectors["fingerprint"], vectors["key_id"]), "event.json: key")
    for case in vectors["events"]:
        event, payload_hash, signed, event_hash = take_apart(case["line"].encode())
        found = (payload_hash, signed.hex(), sha256(signed), event_hash, canonical(event["payload"]).decode())
        wanted = tuple(case[name] for name in
                       ("payload_hash", "signed_bytes_hex", "signed_bytes_hash", "event_hash", "payload"))
        need(found == wanted and not check_codes(case["line"].encode(), key), "event.json: events")
    for case in vectors["tampered"]:
        need(check_codes(case["line"].encode(), key) == case["codes"], f"event.json: {case['changed']}")
    yield "ok event.json"
    tree = load("merkle.json")
    for size, root in enumerate(tree["roots"]):
        need(merkle_root(tree["leaves"][:size]) == root, f"merkle.json: root of {size}")
    for case in tree["inclusion"]:
        check_inclusion(tree["leaves"][case["index"]], case["index"], case["size"], case["proof"], tree["roots"][case["size"]])
    for case in tree["consistency"]:
        old, new = case["old_size"], case["new_size"]
        check_consistency(old, tree["roots"][old], new, tree["roots"][new], case["proof"])
    for case in tree["bad_inclusion"]:
        arguments = [case[name] for name in ("leaf", "index", "size", "proof", "root")]
        need(fails(check_inclusion, *arguments), f"merkle.json: {case['name']} holds")
    for case in tree["bad_consistency"]:
        arguments = [case[name] for name in ("old_size", "old_root", "new_size", "new_root", "proof")]
        need(fails(check_consistency, *arguments), f"merkle.json: {case['name']} holds")
    yield "ok merkle.json"
    vector = load("checkpoint.json")
    name, _, encoded = vector["verifier_key"].split("+", 2)
    key = unbase64(encoded, 33)[1:]
    need(key_hash(name, key).hex() == vector["key_hash_hex"], "checkpoint.json: key hash")
    for note in ((directory / "checkpoint.txt").read_bytes(), vector["with_a_witness"].encode()):
        found = open_checkpoint(note, [key])
        need(found == (vector["origin"], vector["size"], vector["root"]), "checkpoint.json: note")
    for case in vector["refused"]:
        need(fails(open_checkpoint, case["note"].encode(), [key]), f"checkpoint.json: {case['name']} is not refused")
    yield "ok checkpoint.json"
    for name, wanted in load("homes/expected.json").items():
        found = {ledger: findings.codes() for ledger, _, findings in judge_home(directory / "homes" / name, [])}
        need(found == wanted, f"homes/{name}: {found}")
    yield "ok homes"
