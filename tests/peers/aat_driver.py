"""Drives aat-mcp: a wrapped tool handler. The library keeps records in memory only; this driver
writes each of them as a line, and syncs none."""

import copy
import json

import drive
from aat import core
from aat.mcp import MCPRecorder
from cryptography.hazmat.primitives import serialization

RECORDERS = {}  # There is no way to continue a trail that was stored: forks are made in memory.


class Writer:
    def __init__(self, place):
        self.file = (place / "records.jsonl").open("a")
        if place not in RECORDERS:
            RECORDERS[place] = begin(place)
        self.recorder = RECORDERS[place]
        self.written = len(self.recorder.records)

    def __call__(self, number, story):
        tool, arguments, result = drive.call(number, story)
        if self.recorder._last_id is None:
            self.recorder.open_session()
        handler = self.recorder.wrap(lambda name, given: result)
        handler(tool, arguments)
        new = self.recorder.records[self.written:]
        self.written += len(new)
        for record in new:
            self.file.write(json.dumps(record) + "\n")
        self.file.flush()
        return len(new)

    def close(self):
        self.file.close()


def begin(place):
    recorder = MCPRecorder(
        agent_id="urn:agent:bench", agent_version="1.0.0", private_key=core.gen_key(), trust_level="L2",
    )
    public = recorder.public_key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    place.with_name(place.name + ".key").write_bytes(public)
    return recorder


class Aat(drive.Peer):
    def open(self, place, story, synced):
        return drive.Told(Writer(place), story)

    def copied(self, place, to):
        RECORDERS[to] = copy.copy(RECORDERS[place])
        RECORDERS[to].records = list(RECORDERS[place].records)

    def check(self, place, holder):
        public = serialization.load_pem_public_key(holder.with_name(holder.name + ".key").read_bytes())
        with (place / "records.jsonl").open() as lines:
            records = [json.loads(line) for line in lines]
        ok, _ = core.verify_chain(records, {core.kid_for(public): public})
        return ok, len(records), len(records)

    def verify(self, place, kept):
        return self.check(place, place)

    def verify_resigned(self, other, original):
        return self.check(other, original)[0]

    def edit(self, place):
        drive.edit_line(place / "records.jsonl", '"edit_file"', '"read_file"')

    def cut(self, place, count):
        drive.cut_lines(place / "records.jsonl", count)


drive.main(Aat())
