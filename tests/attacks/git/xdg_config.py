from pathlib import Path

from tests.attacks.git_world import Places

TITLE = "The other configuration of the user"
TRIES = ".config/git/config is read as well as .gitconfig: a credential helper."
MUST_FAIL = "The HOME of git here is a private folder."
GAINS = ("program", "token")


def attack(checkout: Path, places: Places) -> None:
    keep = f"cat >> {places.loot}/stored"
    folder = places.home / ".config/git"
    folder.mkdir(parents=True)
    (folder / "config").write_text(f"[credential]\n\thelper = {places.program(then=keep)}\n")
