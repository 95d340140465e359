"""How an agent says that it is done with a phase, for the agents of this directory.

It writes the exit signal to the descriptor that it was given, with the nonce before it. What the agent
or its tools print cannot be mistaken for that.
"""

import json
import os
import sys


def envelope():
    """The input envelope: what to do, and where the work item stands."""
    return json.load(sys.stdin)


def leave(phase, reason="completed", **more):
    """Says why the session ends, and ends it."""
    signal = {
        "protocol": "apm2_agent_exit",
        "version": "1.0.0",
        "phase_completed": phase,
        "exit_reason": reason,
        **more,
    }
    line = f"{os.environ['COUNTERSIGN_EXIT_NONCE']} {json.dumps(signal)}\n"
    os.write(int(os.environ["COUNTERSIGN_EXIT_FD"]), line.encode())
    sys.exit(0)
