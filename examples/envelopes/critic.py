"""A critic: approves what only reads, and doubts claims that nothing was printed for."""

import envelope


def review(step):
    harmless = all("calculator" in " ".join(action.get("argv", [])) for action in step["actions"])
    return {
        "subject": step["id"],
        "decision": "conditional" if harmless else "rejected",
        "conditions": [{"id": "read-only", "text": "nothing is written"}] if harmless else [],
        "rationale": "it only asks the calculator" if harmless else "it does something else",
    }


def doubts(params):
    printed = {
        execution["stdout"]["hash"]
        for outcome in params["outcomes"]
        for execution in outcome["executions"]
        if execution.get("stdout", {}).get("bytes", 0) > 0
    }
    return [
        {"claim_id": claim["claim_id"], "reason": "nothing was printed that shows it"}
        for claim in params["claims"]
        if claim["kind"] == "result" and not printed.intersection(claim["evidence"])
    ]


action, params = envelope.read()
if action == "review_proposals":
    envelope.answer(params, [review(step) for step in params["proposals"]], "reviewed")
elif action == "review_intent":
    envelope.answer(params, {"decision": "approved", "reasons": ["as proposed"]}, "approved")
elif action == "review_claims":
    envelope.answer(params, doubts(params), "looked at the evidence")
else:
    envelope.give_up(f"a critic does not {action}")
