"""Drives vaara: its pipeline in shadow mode, so that a burst of calls is recorded and not held back.

A call is several rows of its trail, and a signed receipt in a file of its own."""

import logging
import sqlite3

import drive
from vaara.audit.decision_receipts import PUBKEY_NAME, verify_receipt_file
from vaara.audit.sqlite_backend import SQLiteAuditBackend
from vaara.pipeline import InterceptionPipeline

logging.disable(logging.CRITICAL)


class Writer:
    def __init__(self, place):
        self.backend = SQLiteAuditBackend(str(place / "audit.db"))
        self.trail = self.backend.load_trail()
        self.pipeline = InterceptionPipeline(trail=self.trail, enforce=False)

    def __call__(self, number, story):
        tool, arguments, _ = drive.call(number, story)
        before = self.trail.size
        result = self.pipeline.intercept(agent_id="bench", tool_name=tool, parameters=arguments)
        self.pipeline.report_outcome(result.action_id, outcome_severity=0.0)
        return self.trail.size - before

    def close(self):
        self.backend.close()


class Vaara(drive.Peer):
    def open(self, place, story, synced):
        return drive.Told(Writer(place), story)

    def check(self, place, holder, kept):
        backend = SQLiteAuditBackend(str(place / "audit.db"))
        broken = backend.verify_chain_streaming(**(kept or {}))
        backend.close()
        rows = sqlite3.connect(place / "audit.db").execute("SELECT record_id, record_hash FROM audit_records")
        hashes = dict(rows)
        key = (holder / "receipts" / PUBKEY_NAME).read_bytes()
        receipts = list((place / "receipts").glob("*/*.json"))
        good = all(verify_receipt_file(path, public_key_pem=key, trail_hashes=hashes).ok for path in receipts)
        return broken is None and good, len(hashes), len(receipts)

    def verify(self, place, kept):
        return self.check(place, place, kept)

    def keep(self, place):
        rows = sqlite3.connect(place / "audit.db")
        seq, head = rows.execute(
            "SELECT seq, record_hash FROM audit_records ORDER BY seq DESC LIMIT 1"
        ).fetchone()
        return {"start_seq": seq + 1, "expected_previous_hash": head}

    def verify_resigned(self, other, original):
        # As it is documented, the key is read from beside the receipts.
        return self.verify(other, None)[0]

    def verify_pinned(self, other, original):
        return not self.check(other, original, None)[0]

    def edit(self, place):
        rows = sqlite3.connect(place / "audit.db")
        rows.execute("UPDATE audit_records SET tool_name = 'read_file' WHERE seq = 150")
        rows.commit()

    def cut(self, place, count):
        rows = sqlite3.connect(place / "audit.db")
        gone = rows.execute(
            "SELECT record_id FROM audit_records ORDER BY seq DESC LIMIT ?", (count,)
        ).fetchall()
        rows.executemany("DELETE FROM audit_records WHERE record_id = ?", gone)
        rows.commit()
        for (record_id,) in gone:
            for path in (place / "receipts").glob(f"*/{record_id}.json"):
                path.unlink()


drive.main(Vaara())
