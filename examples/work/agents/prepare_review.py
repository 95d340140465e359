"""Prepares a review. This one prints its signal, which is the weaker channel."""

import json

from signal_exit import envelope

envelope()
print("the change is one file")
signal = {
    "protocol": "apm2_agent_exit",
    "version": "1.0.0",
    "phase_completed": "READY_FOR_REVIEW",
    "exit_reason": "completed",
}
print(json.dumps(signal, indent=2))
