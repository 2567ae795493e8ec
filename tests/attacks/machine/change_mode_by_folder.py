import os
from pathlib import Path

from tests.attacks.places import Places

TITLE = "the mode of a foreign file, from its folder"
TRIES = "Opens the file to everybody by a path relative to a folder that it holds, and to its own."
PROMISE = "files"
MUST_FAIL = "The monitor goes the same way from the same folder, and sees where it ends."


def attack(places: Places) -> str | None:
    victim = Path(places.files["crontab"])
    folder = os.open(victim.parent, os.O_PATH)
    for path, start in ((victim.name, folder), (os.path.relpath(victim), None)):
        try:
            os.chmod(path, 0o644, dir_fd=start)
        except OSError:
            continue
        return "changed"
    return None


def seen(places: Places) -> bool:
    return Path(places.files["crontab"]).stat().st_mode & 0o777 == 0o644
