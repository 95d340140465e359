"""What the drivers of all peers share: the tool calls, the protocol, the attacks.

    DRIVER record N PLACE SECONDS   records N records of tool calls; stops after SECONDS
    DRIVER fill N PLACE             the same store without syncs, to be verified
    DRIVER verify PLACE             verifies as the documentation says
    DRIVER attack NAME PLACE        does the attack on a small store, and verifies

Each prints one line of JSON. Time is taken after everything is imported: what an interpreter needs
to start is not counted against anybody.
"""

import json
import shutil
import sys
import time
from pathlib import Path

CHUNK = 1000  # Records whose cost is told apart, at the beginning and at the end.
SMALL, SHARED, KEPT = 300, 100, 200  # Records of a store that is attacked.


def call(number, story="a"):
    """A tool call: the same for every peer."""
    path = f"src/part_{number % 97}.rs"
    arguments = {
        "path": path,
        "old": f"    let order = sorted_by_key(members, |member| member.name[{number}]);\n" * 2,
        "new": f"    let order = sorted_by_key(members, |member| member.rank[{number}]);\n" * 2,
        "reason": f"the test expects another order of members, step {number} of story {story}",
    }
    return "edit_file", arguments, {"changed": 2, "path": path, "step": number}


class Peer:
    """How one peer is driven. A store lies in a directory of its own; keys lie beside it.

    `open(place, story, synced)` gives a writer with `call(number) -> records` and `close()`.
    `verify(place, kept)` gives (whether it holds, records, signatures). `keep(place)` gives what its
    interface lets a reader keep elsewhere, or None. `edit(place)` and `cut(place, count)` tamper.
    """

    def keep(self, place):
        return None

    def copied(self, place, to):
        """The store was copied: whoever holds more of it in memory copies that too."""

    def verify_pinned(self, place, original):
        """Verifies `place` holding the key of `original`, where that is an option."""
        return None


class Told:
    """A writer that is told which story its calls belong to."""

    def __init__(self, writer, story):
        self.writer, self.story, self.close = writer, story, writer.close

    def call(self, number):
        return self.writer(number, self.story)


def edit_line(path, old, new):
    """Changes a record in the middle."""
    lines = path.read_text().splitlines(keepends=True)
    at = next(at for at in range(len(lines) // 2, len(lines)) if old in lines[at])
    lines[at] = lines[at].replace(old, new, 1)
    path.write_text("".join(lines))


def cut_lines(path, count):
    """Drops the last records."""
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-count]))


def record(peer, count, place, limit, synced=True):
    place.mkdir(parents=True)
    writer = peer.open(place, "a", synced)
    records = calls = 0
    start = time.perf_counter()
    marks = [(0, start)]
    while records < count:
        records += writer.call(calls)
        calls += 1
        if records - marks[-1][0] >= CHUNK or records >= count:
            marks.append((records, time.perf_counter()))
            if marks[-1][1] - start > limit:
                break
    writer.close()
    seconds = time.perf_counter() - start
    cost = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in zip(marks, marks[1:])]
    size = sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
    return {
        "records": records, "calls": calls, "seconds": seconds, "stopped": records < count,
        "first_us": cost[0] * 1e6, "last_us": cost[-1] * 1e6, "bytes": size,
    }


def verify(peer, place):
    start = time.perf_counter()
    ok, records, signatures = peer.verify(place, None)
    seconds = time.perf_counter() - start
    return {"ok": ok, "records": records, "signatures": signatures, "seconds": seconds}


def write(peer, place, first, count, story):
    place.mkdir(parents=True, exist_ok=True)
    writer = peer.open(place, story, False)
    records, number = 0, first
    while records < count:
        records += writer.call(number)
        number += 1
    writer.close()


def copy(peer, place, name):
    """A copy of the store with the keys beside it."""
    to = place.with_name(name)
    shutil.copytree(place, to)
    for key in place.parent.glob(f"{place.name}.key*"):
        shutil.copy(key, to.with_name(key.name.replace(place.name, name, 1)))
    peer.copied(place, to)
    return to


def attack(peer, name, base):
    base.mkdir(parents=True)
    place = base / "store"
    holds = lambda place, kept=None: bool(peer.verify(place, kept)[0])
    if name == "edit":
        write(peer, place, 0, SMALL, "a")
        assert holds(place)
        peer.edit(place)
        return {"plain": not holds(place), "kept": None}
    if name == "tail":
        write(peer, place, 0, SMALL, "a")
        assert holds(place)
        kept = peer.keep(place)
        peer.cut(place, 10)
        return {"plain": not holds(place), "kept": None if kept is None else not holds(place, kept)}
    if name == "rollback":
        write(peer, place, 0, KEPT, "a")
        earlier = copy(peer, place, "earlier")
        write(peer, place, KEPT, SMALL - KEPT, "a")
        assert holds(place)
        kept = peer.keep(place)
        return {"plain": not holds(earlier), "kept": None if kept is None else not holds(earlier, kept)}
    if name == "resign":
        write(peer, place, 0, SMALL, "a")
        other = base / "other"
        write(peer, other, 0, SMALL, "b")
        noticed = not peer.verify_resigned(other, place)
        return {"plain": noticed, "kept": peer.verify_pinned(other, place)}
    if name == "split":
        write(peer, place, 0, SHARED, "a")
        fork = copy(peer, place, "fork")
        write(peer, place, SHARED, KEPT - SHARED, "a")
        kept = peer.keep(place)
        write(peer, place, KEPT, SMALL - KEPT, "a")
        write(peer, fork, SHARED, SMALL - SHARED, "b")
        assert holds(place), "the first view does not hold"
        if kept is None:
            return {"plain": not holds(fork), "kept": None}
        # What refuses honest growth as well notices nothing.
        return {"plain": not holds(fork), "kept": holds(place, kept) and not holds(fork, kept)}
    raise SystemExit(f"no attack {name}")


def peak_kib():
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1])


def main(peer):
    match sys.argv[1:]:
        case ["record", count, place, limit]:
            told = record(peer, int(count), Path(place), float(limit))
        case ["fill", count, place]:
            told = record(peer, int(count), Path(place), float("inf"), synced=False)
        case ["verify", place]:
            told = verify(peer, Path(place))
        case ["attack", name, place]:
            told = attack(peer, name, Path(place))
        case _:
            raise SystemExit(__doc__)
    print(json.dumps({**told, "peak_kib": peak_kib()}))
