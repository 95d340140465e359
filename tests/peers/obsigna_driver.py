"""Drives obsigna: receipts signed in this process, kept in its SQLite store."""

import sqlite3

import drive
from obsigna import (
    ActionInput, ChainEmitInput, Issuer, Outcome, Principal, ReceiptChain, canonicalize,
    generate_key_pair, hash_receipt, sha256, verify_chain,
)
from obsigna.store.store import open_store
from obsigna.store.verify import verify_stored_chain

CHAIN = "session-1"


class StoreEmitter:
    def __init__(self, store):
        self.store = store

    def emit(self, receipt):
        self.store.insert(receipt, hash_receipt(receipt))


class Writer:
    def __init__(self, place, synced):
        self.store = open_store(str(place / "receipts.db"))
        if not synced:
            self.store._conn.execute("PRAGMA synchronous=OFF")
        last = self.store._conn.execute(
            "SELECT sequence, receipt_hash FROM receipts ORDER BY sequence DESC LIMIT 1"
        ).fetchone()
        self.chain = ReceiptChain(
            chain_id=CHAIN, private_key=private_key(place), verification_method="did:agent:bench#key-1",
            emitter=StoreEmitter(self.store), start_sequence=last[0] + 1 if last else 1,
            previous_receipt_hash=last[1] if last else None,
        )

    def __call__(self, number, story):
        _, arguments, result = drive.call(number, story)
        self.chain.emit(ChainEmitInput(
            issuer=Issuer(id="did:agent:bench"), principal=Principal(id="did:user:alice"),
            action=ActionInput(
                type="filesystem.file.modify", risk_level="low",
                parameters_hash=sha256(canonicalize(arguments)),
            ),
            outcome=Outcome(status="success"), response_body=result,
        ))
        return 1

    def close(self):
        self.store.close()


def private_key(place):
    key = place.with_name(place.name + ".key")
    if not key.exists():
        keys = generate_key_pair()
        key.write_text(keys.private_key)
        key.with_name(key.name + ".pub").write_text(keys.public_key)
    return key.read_text()


def public_key(place):
    return place.with_name(place.name + ".key.pub").read_text()


class Obsigna(drive.Peer):
    def open(self, place, story, synced):
        return drive.Told(Writer(place, synced), story)

    def check(self, place, key, kept):
        store = open_store(str(place / "receipts.db"))
        if kept is None:
            found = verify_stored_chain(store, CHAIN, key)
        else:
            found = verify_chain(store.get_chain(CHAIN), key, **kept)
        store.close()
        return found.valid, found.length, found.length

    def verify(self, place, kept):
        return self.check(place, public_key(place), kept)

    def keep(self, place):
        store = open_store(str(place / "receipts.db"))
        receipts = store.get_chain(CHAIN)
        store.close()
        return {"expected_length": len(receipts), "expected_final_hash": hash_receipt(receipts[-1])}

    def verify_resigned(self, other, original):
        return self.check(other, public_key(original), None)[0]

    def edit(self, place):
        rows = sqlite3.connect(place / "receipts.db")
        rows.execute(
            "UPDATE receipts SET receipt_json = replace(receipt_json, '\"success\"', '\"failure\"') "
            "WHERE sequence = 150"
        )
        rows.commit()

    def cut(self, place, count):
        rows = sqlite3.connect(place / "receipts.db")
        rows.execute("DELETE FROM receipts WHERE sequence > (SELECT max(sequence) - ? FROM receipts)", (count,))
        rows.commit()


drive.main(Obsigna())
