import os
from pathlib import Path

from tests.attacks.places import Places

TITLE = "the mode of a foreign file by a hard link"
TRIES = "Gives the file a name in the checkout, by its path and by a descriptor, and changes that."
PROMISE = "files"
MUST_FAIL = "Landlock refuses to link across its rules; in a namespace the file is not there."


def attack(places: Places) -> str | None:
    victim, name = places.files["project_tmp"], Path(places.checkout, "other_name")
    for source in (victim, f"/proc/self/fd/{os.open(victim, os.O_PATH)}"):
        try:
            os.link(source, name, follow_symlinks=True)
        except OSError:
            continue
        name.chmod(0o644)
        return "changed"
    return None


def seen(places: Places) -> bool:
    return Path(places.files["project_tmp"]).stat().st_mode & 0o777 == 0o644
