"""Drafts: writes down what is to be done."""

from pathlib import Path

from signal_exit import envelope, leave

task = envelope()["task"]["params"]
Path("build").mkdir(exist_ok=True)
Path("build/draft.md").write_text(f"# {task['title']}\n\nSay hello, politely.\n")
print("drafted build/draft.md")
leave("DRAFT", notes="the draft is in build/draft.md")
