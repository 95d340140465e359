"""Reviews a file under one aspect, which `task.params.aspect` names."""

import json

import envelope

SIGNS = {
    "safety": [("eval(", "runs text as code"), ("except:", "hides every error")],
    "style": [("\t", "is indented by tabs"), ("import *", "imports everything")],
    "docs": [],
}


def undocumented(text):
    functions, documented = text.count("\ndef "), text.count('):\n    """')
    if documented < functions:
        return [f"{functions - documented} of {functions} functions have no docstring"]
    return []


def act(request):
    aspect, paths = request["task"]["params"]["aspect"], request["paths"]
    if aspect not in SIGNS:
        return envelope.give_up(f"nobody here reviews {aspect}")
    text = envelope.text_of(paths["subject"])
    findings = [what for sign, what in SIGNS[aspect] if sign in text]
    if aspect == "docs":
        findings += undocumented(text)
    review = {"aspect": aspect, "findings": findings}
    return envelope.answer(
        f"{aspect}, findings: {len(findings)}",
        [envelope.file(paths["review"], json.dumps(review, indent=2) + "\n")],
        [f"{aspect}: {finding}" for finding in findings],
    )


envelope.serve(act)
