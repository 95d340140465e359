"""A planner: proposes to add and to divide, and has nothing better where one of them fails."""

import envelope

SNIPPET = "from calculator import {name}; print({name}(7, 2))"


def step(name, word):
    return {
        "id": name,
        "objective": f"{word} 7 and 2",
        "assumptions": ["python3 is installed"],
        "required_tools": ["exec"],
        "expected_evidence": ["the number that is printed"],
        "actions": [
            {
                "tool": "exec",
                "argv": ["python3", "-B", "-c", SNIPPET.format(name=name)],
                "cwd": "examples/calculator",
                "justification": "the calculator itself knows best",
                "idempotent": True,
            }
        ],
        "claims": [{"text": f"The calculator can {name}", "evidence": ["stdout"]}],
    }


action, params = envelope.read()
if action == "plan":
    envelope.answer(params, [step("add", "Add"), step("divide", "Divide")], "two steps")
elif action in ("revise", "recover"):
    envelope.answer(params, [], "there is no other way")
else:
    envelope.give_up(f"a planner does not {action}")
