"""What CapSeal's own verifier looks at in a sealed agent session, step by step, with Python's own readers.

usage: capseal.py FILE.cap      prints the number of actions; says what is wrong and exits 20 otherwise
"""

import gzip
import json
import posixpath
import sys
import tarfile

MEMBER_BYTES_MAX = 512 << 20


class Malformed(Exception):
    pass


def want(holds, why):
    if not holds:
        raise Malformed(why)


def first_manifest(archive):
    for member in archive:
        if posixpath.basename(member.name) == "manifest.json":
            return json.load(archive.extractfile(member))
    raise Malformed("no manifest.json")


def members(archive):
    """The files, as a careful extraction takes them."""
    found = {}
    for member in archive:
        name = posixpath.normpath(member.name)
        want(not name.startswith(("/", "..")), f"{member.name}: leads out")
        want(member.isreg() or member.isdir(), f"{member.name}: no regular file")
        want(name not in found, f"{member.name}: twice")
        want(member.size <= MEMBER_BYTES_MAX, f"{member.name}: too large")
        if member.isreg():
            found[name] = archive.extractfile(member).read()
    return found


def check(path):
    want(path.endswith(".cap"), "its name does not end in .cap")
    with tarfile.open(path, "r:gz") as archive:
        manifest = first_manifest(archive)
    schema, run_type = manifest.get("schema"), manifest.get("run_type")
    want(schema == "agent_cap_v1" or (schema == "run_cap_v1" and run_type == "mcp"), "no agent session")
    with gzip.open(path) as stream:
        while stream.read(1 << 20):
            pass
    with tarfile.open(path, "r:gz") as archive:
        files = members(archive)
    want("agent_capsule.json" in files, "no agent_capsule.json")
    capsule = json.loads(files["agent_capsule.json"])
    want(capsule["verification"]["constraints_valid"] is True, "its constraints do not hold")
    actions = [json.loads(line) for line in files["actions.jsonl"].splitlines()]
    want(len(actions) == manifest["actions_count"], "not as many actions as it says")
    last = actions[-1]["receipt_hash"] if actions else None
    want(last == capsule["statement"]["public_inputs"]["final_receipt_hash"], "another last receipt")
    return len(actions)


if __name__ == "__main__":
    try:
        print(check(sys.argv[1]))
    except (Malformed, OSError, ValueError, KeyError, tarfile.TarError) as fault:
        print(f"{type(fault).__name__}: {fault}", file=sys.stderr)
        sys.exit(20)
