"""Reviews. It waits for a person where nobody has named the reader of the greeting yet."""

from pathlib import Path

from signal_exit import envelope, leave

work = envelope()
if not Path("build/audience.txt").exists():
    leave("REVIEW", "blocked", notes="who is greeted? write a name into build/audience.txt")
print("greets", Path("build/audience.txt").read_text().strip())
for note in work["prior_context"]:
    print("was told:", note)
leave("REVIEW", notes="code review approved, no issues found")
