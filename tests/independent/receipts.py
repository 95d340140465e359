"""Receipts of actions in a trace of schema 1.1, checked by docs/formats/receipts.md alone."""

import hashlib
import json
import re

ENDS = ("tool_execution_completed", "tool_execution_failed")
HASHED = ("action_id action_type instruction_hash input_hash output_hash parent_action_id parent_receipt_hash gate_score "
          "gate_decision success duration_ms timestamp").split()


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def receipt_hash(action):
    fields = {name: action.get(name) for name in HASHED}
    # Canonical JSON has written 1.0 as 1; a score is a float.
    fields["gate_score"] = score_of(fields["gate_score"])
    return sha256(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode())


def score_of(value):
    return None if value is None else float(value)


def judged(event, before):
    """What an intent comes to after a review: the decision, the score, and whether it binds."""
    payload, before = event["payload"], before or (None, None, None)
    gate = payload.get("gate", {})
    said = gate.get("decision") if gate.get("enforced") is False else None
    if said == "deny" or payload["decision"] == "blocked":
        decision = "skip"
    elif said == "ask" or payload["decision"] == "asked":
        decision = "human_review"
    else:
        decision = "human_approved" if event["actor"]["role"] == "operator" else "pass"
    score = score_of(gate.get("score"))
    binds = gate.get("enforced", True if before[2] is None else before[2])
    return decision, before[1] if score is None else score, binds


class Receipts:
    """The receipts of a trace so far, and the intents that they are about."""

    def __init__(self, findings):
        self.findings, self.count, self.bare = findings, 0, []
        # Number, id and hash of the last receipt; None where it is wrong or missing.
        self.head = (0, None, None)
        self.intents, self.running, self.recording = {}, {}, False

    def meet(self, event, index, doubt):
        """Takes in an event that did not fail; where one before it did, only what the event says itself is compared."""
        if index == 0:
            self.recording = event["payload"].get("kind") == "recording"
        wrong = self.look(event, index, doubt)
        if wrong:
            self.head = None
            self.findings.fail(wrong[0][0], f"event {index}: {'; '.join(message for _, message in wrong)}")
        if not doubt:
            self.follow(event, index)

    def finish(self):
        if self.count and self.bare:
            self.findings.fail("SCHEMA_INVALID", f"event {self.bare[0]}: {len(self.bare)} actions without a receipt")

    def look(self, event, index, doubt):
        payload, kind = event["payload"], event["event_type"]
        refused = kind == "tool_intent_reviewed" and payload.get("decision") == "blocked"
        action, stated = payload.get("action"), payload.get("receipt_hash")
        if action is None and stated is None:
            if refused or kind in ENDS:
                self.bare.append(index)
                self.head = None
            return []
        if not refused and kind not in ENDS:
            return [("SCHEMA_INVALID", "a receipt of nothing")] if kind == "tool_intent_reviewed" else []
        if action is None or stated is None:
            return [("SCHEMA_INVALID", "an action without its receipt hash, or the other way round")]
        self.count += 1
        wrong = []

        def compare(code, wanted):
            wrong.extend((code, f"{name} is not {value}") for name, value in wanted.items() if action.get(name) != value)

        if receipt_hash(action) != stated:
            wrong.append(("HASH_MISMATCH", "the action has another receipt hash"))
        if not doubt and self.head:
            number, last, parent = self.head
            compare("CHAIN_BREAK", {"parent_receipt_hash": parent, "parent_action_id": last,
                                    "action_id": f"act_{number + 1:04}"})
        named = payload.get("subject" if refused else "execution", {}).get("seq")
        intent = None if doubt else (self.intents if refused else self.running).get(named)
        if intent:
            self.compare_intent(event, action, intent, refused, compare)
        output = payload.get("stdout") or (payload.get("output_artifacts") or [sha256(b"")])[0]
        compare("HASH_MISMATCH", {"output_hash": output})
        compare("SCHEMA_INVALID", {"success": kind == ENDS[0], "timestamp": event["created_at"],
                                   "duration_ms": payload.get("elapsed_ms", 0)})
        if refused or action.get("policy_verdict") != "PROOF_ONLY":
            compare("SCHEMA_INVALID", {"policy_verdict": "POLICY_ENFORCED"})
        if refused:
            compare("SCHEMA_INVALID", {"gate_decision": "skip"})
        if not wrong:
            digits = re.match(r"act_([0-9]+)\Z", action["action_id"])
            self.head = (int(digits[1]), action["action_id"], stated) if digits else None
        return wrong

    @staticmethod
    def compare_intent(event, action, intent, refused, compare):
        compare("HASH_MISMATCH", {"input_hash": intent["input"], "instruction_hash": intent["instruction"]})
        compare("SCHEMA_INVALID", {"action_type": intent["type"]})
        decision, score, binds = intent["standing"] or (None, None, False)
        if refused:
            score = judged(event, intent["standing"])[1]
        else:
            given_up = event["event_type"] == ENDS[1] and action.get("gate_decision") == "skipped"
            compare("SCHEMA_INVALID", {"policy_verdict": "POLICY_ENFORCED" if binds else "PROOF_ONLY"})
            compare("SCHEMA_INVALID", {} if given_up else {"gate_decision": decision})
        compare("SCHEMA_INVALID", {"gate_score": score})

    def follow(self, event, index):
        """Takes in what the event says of intents and tools."""
        payload, kind = event["payload"], event["event_type"]
        seq = lambda name: payload.get(name, {}).get("seq")
        if kind == "tool_intent_signed":
            standing = self.use_up(payload.get("despite")) if self.recording else None
            self.intents[index] = {
                "type": payload.get("action_type", "tool_call"),
                "input": payload.get("input_artifact", payload["normalized_input_hash"]),
                "instruction": sha256(payload["justification"].encode()), "standing": standing, "verdict": None,
            }
        elif kind == "tool_intent_reviewed" and seq("subject") in self.intents:
            intent = self.intents[seq("subject")]
            intent["standing"] = judged(event, intent["standing"])
            if self.recording and "gate" in payload:
                intent["verdict"] = {"event_id": event["event_id"], "seq": index}
            if payload["decision"] == "blocked" and not intent["verdict"]:
                del self.intents[seq("subject")]
        elif kind == "tool_execution_started":
            self.running[index] = self.intents.pop(seq("intent"), None)
        elif kind in ENDS:
            self.running.pop(seq("execution"), None)

    def use_up(self, verdict):
        """What was said of the action that was done despite this verdict."""
        for seq, intent in list(self.intents.items()):
            if verdict and intent["verdict"] == verdict:
                return self.intents.pop(seq)["standing"]
        return None
