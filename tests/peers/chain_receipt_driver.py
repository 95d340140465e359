"""Drives chain-receipt-core: receipts of interactions, built and signed one after the other. The
library stores nothing; this driver writes each receipt as a line, and syncs none."""

import copy
import json

import drive
from chain_receipt_core import (
    ClientInfo, Interaction, Receipt, ReceiptBuilder, compute_text_hash, compute_tool_calls_hash,
    generate_keypair, verify_chain,
)

BUILDERS = {}  # There is no way to continue a chain that was stored: forks are made in memory.


class Writer:
    def __init__(self, place):
        self.file = (place / "receipts.jsonl").open("a")
        if place not in BUILDERS:
            BUILDERS[place] = begin()
        self.builder = BUILDERS[place]

    def __call__(self, number, story):
        tool, arguments, result = drive.call(number, story)
        receipt = self.builder.build(interaction=Interaction(
            vendor="bench", model="none", temperature=0.0,
            system_prompt_hash=compute_text_hash("make the tests pass"),
            prompt_hash=compute_text_hash(arguments["reason"]),
            response_hash=compute_text_hash(json.dumps(result)),
            tool_calls_hash=compute_tool_calls_hash([{"name": tool, "arguments": arguments}]),
            n_tool_calls=1, latency_ms=5,
        ))
        self.file.write(receipt.model_dump_json() + "\n")
        self.file.flush()
        return 1

    def close(self):
        self.file.close()


def begin():
    secret, public = generate_keypair()
    client = ClientInfo(name="bench", version="1", platform="python", emitter_pubkey=f"ed25519:{public}")
    return ReceiptBuilder(client=client, private_key=secret, chain_seed=public.encode())


class ChainReceipt(drive.Peer):
    def open(self, place, story, synced):
        return drive.Told(Writer(place), story)

    def copied(self, place, to):
        BUILDERS[to] = copy.copy(BUILDERS[place])

    def verify(self, place, kept):
        with (place / "receipts.jsonl").open() as lines:
            receipts = [Receipt.model_validate_json(line) for line in lines]
        return verify_chain(receipts).ok, len(receipts), len(receipts)

    def verify_resigned(self, other, original):
        # There is no place to say which key is the right one.
        return self.verify(other, None)[0]

    def edit(self, place):
        drive.edit_line(place / "receipts.jsonl", '"latency_ms":5', '"latency_ms":6')

    def cut(self, place, count):
        drive.cut_lines(place / "receipts.jsonl", count)


drive.main(ChainReceipt())
