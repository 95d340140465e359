"""Decides by the reviews. It counts what stands in their files, and only repeats the notes."""

import json

import envelope


def act(request):
    paths, most = request["paths"], request["task"]["params"]["most"]
    reviews = [json.loads(envelope.text_of(path)) for path in paths["reviews"]]
    findings = sum(len(review["findings"]) for review in reviews)
    decision = {
        "findings": findings,
        "decision": "accept" if findings <= most else "reject",
        "notes": request.get("prior_context", []),
    }
    return envelope.answer(
        f"{decision['decision']}, findings: {findings}",
        [envelope.file(paths["decision"], json.dumps(decision, indent=2) + "\n")],
    )


envelope.serve(act)
