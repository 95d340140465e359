"""The envelopes of an agent: one JSON object comes in, one goes out.

An agent reads the files that `paths` names and returns those it wants written. It writes nothing
itself: the flow does, if the step may write them.
"""

import json
import os
import sys


def serve(act):
    """Reads the input envelope, lets `act` make an answer of it, and prints that."""
    request = json.load(sys.stdin)
    try:
        output = act(request)
    except KeyError as name:
        output = give_up(f"nobody said what {name} is")
    except OSError as error:
        output = give_up(f"cannot read {error.filename}: {error.strerror}")
    json.dump(output, sys.stdout)


def answer(summary, files=(), notes=(), recommendation="proceed", **more):
    """An output envelope that says: done."""
    return {
        "success": True,
        "summary": summary,
        "artifacts": list(files),
        "notes": list(notes),
        "recommendation": recommendation,
        **more,
    }


def give_up(summary):
    """An output envelope that says: a person is needed. Nothing is written."""
    return {"success": False, "summary": summary, "artifacts": [], "recommendation": "escalate"}


def file(path, content):
    """A file to be written. The flow refuses to create what is there, and to update what is not."""
    operation = "update" if os.path.exists(path) else "create"
    return {"path": path, "operation": operation, "content": content}


def text_of(path):
    with open(path, encoding="utf-8") as opened:
        return opened.read()
