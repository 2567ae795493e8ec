from pathlib import Path

from tests.attacks.git_world import Places

TITLE = "Other parents by a file"
TRIES = ".git/info/grafts gives the base commit other parents."
MUST_FAIL = "History is read from the real .git before an agent starts."
GAINS = ("other history",)
HELD_BY_GIT = "grafts change what log shows, not the objects that are pushed"


def attack(checkout: Path, places: Places) -> None:
    (checkout / ".git/info").mkdir(exist_ok=True)
    (checkout / ".git/info/grafts").write_text(f"{places.base}\n")
