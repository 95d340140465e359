"""Writes a specification, and fills in what somebody has found missing.

It does three things, and `task.action` says which. It keeps nothing between its calls: what it
knows comes from its files, from `prior_context` and from people's answers.
"""

import os

import envelope

TEXTS = {
    "Purpose": "People sign in with an e-mail address and a password.",
    "Limits": "After five wrong passwords an account is locked for fifteen minutes.",
    "Edge cases": "- The address is written in capitals.\n- The password has 200 characters.",
}
QUESTION = "Who may unlock an account before its time?"


def headings(path):
    if not os.path.exists(path):
        return []
    lines = envelope.text_of(path).splitlines()
    return [line[3:].strip() for line in lines if line.startswith("## ")]


def create(title, paths, notes, answers):
    """The first draft has one section. Each call adds those that notes say are missing."""
    missing = [note.removeprefix("missing: ") for note in notes if note.startswith("missing: ")]
    # Without notes and answers this is a new run, whatever an earlier one left behind.
    known = headings(paths["spec"]) if missing or answers else []
    wanted = [name for name in TEXTS if name == "Purpose" or name in known or name in missing]
    text = f"# {title}\n"
    for name in wanted:
        text += f"\n## {name}\n\n{TEXTS[name]}\n"
    for said in answers:
        text += f"\n> {said['question']} {said['answer']}\n"
    text += f"\nOpen question: {QUESTION}\n"
    written = ", ".join(wanted)
    index = f"# Index\n\n- spec.md: {written}\n"
    return envelope.answer(
        f"wrote a specification: {written}",
        [envelope.file(paths["spec"], text), envelope.file(paths["index"], index)],
        [f"written: {written}"],
    )


def list_questions(paths):
    mark = "Open question: "
    lines = envelope.text_of(paths["spec"]).splitlines()
    found = [line.removeprefix(mark) for line in lines if line.startswith(mark)]
    text = "".join(f"- {question}\n" for question in found)
    return envelope.answer("listed the open questions", [envelope.file(paths["questions"], text)])


def accept(paths, answers):
    # Who was asked what stands in `task.params.answers`, never in notes.
    said = "; ".join(f"{answer['question']} {answer['answer']}" for answer in answers)
    text = envelope.text_of(paths["index"]) + f"- accepted: {said}\n"
    return envelope.answer("marked as accepted", [envelope.file(paths["index"], text)])


def act(request):
    task, paths = request["task"], request["paths"]
    answers = task["params"].get("answers", [])
    if task["action"] == "create":
        notes = request.get("prior_context", [])
        return create(task["params"]["title"], paths, notes, answers)
    if task["action"] == "list_questions":
        return list_questions(paths)
    if task["action"] == "accept":
        return accept(paths, answers)
    return envelope.give_up(f"a writer does not {task['action']}")


envelope.serve(act)
