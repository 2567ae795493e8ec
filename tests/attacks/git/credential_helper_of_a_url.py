from pathlib import Path

from tests.attacks.git_world import Places, configure

TITLE = "A credential helper for one URL, from a file that is included"
TRIES = "credential.<url>.helper, in a file that .git/config includes: easy to overlook."
MUST_FAIL = "The push has an empty list of helpers, and no configuration of the agent's."
GAINS = ("program", "token")


def attack(checkout: Path, places: Places) -> None:
    keep = f"cat >> {places.loot}/stored"
    places.lair.mkdir()
    program = places.program(then=keep)
    (places.lair / "more").write_text(f'[credential "{places.project}"]\n\thelper = {program}\n')
    configure(checkout, "include.path", places.lair / "more")
