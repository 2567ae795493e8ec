from pathlib import Path

from tests.attacks.git_world import Places, hidden

TITLE = ".git with a zero-width sign"
TRIES = "A folder .git<U+200C> with a hook: macOS takes it for .git."
MUST_FAIL = "A name that is .git anywhere is refused by name."
GAINS = ("other content",)
REFUSED = "/hooks/post-checkout: git reserves such names"


def attack(checkout: Path, places: Places) -> None:
    hidden(checkout, ".git\u200c")
