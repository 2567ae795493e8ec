from pathlib import Path

from tests.attacks.git_world import Places

TITLE = "A submodule's command"
TRIES = ".gitmodules with an update command and a URL that looks like an option."
MUST_FAIL = "The policy denies .gitmodules; a submodule is never updated here."
GAINS = ("program",)
REFUSED = ".gitmodules is a dependency manifest"
HELD_BY_GIT = "add, commit and push run no update command"


def attack(checkout: Path, places: Places) -> None:
    (checkout / ".gitmodules").write_text(
        f'[submodule "x"]\n\tpath = x\n\turl = -u{places.program()}\n'
        f"\tupdate = !{places.program()}\n"
    )
