"""Drives agentmesh-platform: its audit log with the file sink, which has an HMAC for each entry."""

import os

import drive
from agentmesh.governance.audit import AuditLog
from agentmesh.governance.audit_backends import FileAuditSink


def sink(place, holder):
    key = holder.with_name(holder.name + ".key")
    if not key.exists():
        key.write_bytes(os.urandom(32))
    return FileAuditSink(place / "audit.jsonl", key.read_bytes())


class Writer:
    def __init__(self, place):
        self.sink = sink(place, place)
        self.log = AuditLog(sink=self.sink)

    def __call__(self, number, story):
        tool, arguments, result = drive.call(number, story)
        self.log.log(
            event_type="tool_invocation", agent_did="did:mesh:bench", action=tool,
            resource=arguments["path"], data={"arguments": arguments, "result": result},
        )
        return 1

    def close(self):
        self.sink.close()


class Agentmesh(drive.Peer):
    def open(self, place, story, synced):
        return drive.Told(Writer(place), story)

    def check(self, place, holder):
        ok, _ = sink(place, holder).verify_integrity()
        with (place / "audit.jsonl").open() as lines:
            count = sum(1 for _ in lines)
        return ok, count, 0

    def verify(self, place, kept):
        return self.check(place, place)

    def verify_resigned(self, other, original):
        return self.check(other, original)[0]

    def edit(self, place):
        drive.edit_line(place / "audit.jsonl", '"success"', '"failure"')

    def cut(self, place, count):
        drive.cut_lines(place / "audit.jsonl", count)


drive.main(Agentmesh())
