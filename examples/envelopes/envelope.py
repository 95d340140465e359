"""Reading an input envelope and printing an output envelope."""

import json
import sys


def read():
    """The action that is asked for, and its parameters."""
    envelope = json.load(sys.stdin)
    return envelope["task"]["action"], envelope["task"]["params"]


def answer(params, value, summary):
    """Prints the answer in the file that the request names."""
    json.dump(
        {
            "success": True,
            "summary": summary,
            "artifacts": [
                {
                    "path": params["answer_file"],
                    "operation": "create",
                    "content": json.dumps(value),
                }
            ],
            "recommendation": "proceed",
        },
        sys.stdout,
    )


def give_up(summary):
    """Says that somebody else is needed."""
    json.dump(
        {"success": False, "summary": summary, "artifacts": [], "recommendation": "escalate"},
        sys.stdout,
    )
