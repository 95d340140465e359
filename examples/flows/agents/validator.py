"""Checks a specification. It asks for another round while a section is missing.

Its report is a file, so that the flow can decide by what stands in it. Its notes tell whoever runs
next what to do; the flow never decides by them.
"""

import json

import envelope


def act(request):
    paths, task = request["paths"], request["task"]
    if task["action"] != "validate":
        return envelope.give_up(f"a validator does not {task['action']}")
    lines = envelope.text_of(paths["spec"]).splitlines()
    found = [line[3:].strip() for line in lines if line.startswith("## ")]
    missing = [name for name in task["params"]["sections"] if name not in found]
    report = {
        "iteration": request["context"]["iteration"],
        "gaps": len(missing),
        "missing": missing,
        "open_questions": sum(line.startswith("Open question: ") for line in lines),
    }
    files = [envelope.file(paths["report"], json.dumps(report, indent=2) + "\n")]
    if missing:
        # One gap at a time, so that there is something to see.
        summary = f"missing: {', '.join(missing)}"
        return envelope.answer(summary, files, [f"missing: {missing[0]}"], "retry")
    return envelope.answer("every section is there", files, [f"checked: {', '.join(found)}"])


envelope.serve(act)
