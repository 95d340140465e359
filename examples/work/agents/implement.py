"""Implements. Its first attempt at an item crashes, as agents do; the next one goes through."""

import os
import sys
from pathlib import Path

from signal_exit import envelope, leave

work = envelope()
if work["context"]["iteration"] == 1:
    print("out of memory", file=sys.stderr)
    os.abort()
Path("build/hello.py").write_text('print("good morning")\n')
print("wrote build/hello.py on attempt", work["context"]["iteration"])
leave(
    "IMPLEMENTATION",
    pr_url="https://github.com/example/hello/pull/1",
    notes="says good morning; CI can run build/hello.py",
)
