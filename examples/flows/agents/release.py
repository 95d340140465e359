"""Opens a release, writes its notes, and publishes it."""

import os

import envelope


def open_release(directory):
    """Gives the flow its feature, the next free number. Only a scaffold step may."""
    taken = os.listdir(directory) if os.path.isdir(directory) else []
    number = 1
    while f"release-{number}" in taken:
        number += 1
    name = f"release-{number}"
    page = envelope.file(f"{directory}{name}/README.md", f"# {name}\n")
    return envelope.answer(f"opened {name}", [page], feature_id=name)


def write_notes(paths, iteration, answers):
    text = f"# Changes\n\nDraft {iteration}.\n\n- The calculator divides.\n"
    # What a person said to an earlier draft comes with the question that was asked.
    text += "".join(f"- {said['question']} {said['answer']}\n" for said in answers)
    return envelope.answer(f"wrote draft {iteration}", [envelope.file(paths["notes"], text)])


def publish(paths):
    notes = envelope.text_of(paths["notes"])
    return envelope.answer("published", [envelope.file(paths["published"], notes)])


def act(request):
    task, paths = request["task"], request["paths"]
    if task["action"] == "open":
        return open_release(paths["releases"])
    if task["action"] == "write_notes":
        answers = task["params"].get("answers", [])
        return write_notes(paths, request["context"]["iteration"], answers)
    if task["action"] == "publish":
        return publish(paths)
    return envelope.give_up(f"nobody here can {task['action']}")


envelope.serve(act)
