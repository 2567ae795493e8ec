from pathlib import Path

from tests.attacks.places import Places, reach_unix

TITLE = "a socket file by a link"
TRIES = "Links a foreign socket into its own folder, by a symbolic and by a hard link."
PROMISE = "network"
MUST_FAIL = (
    "The monitor walks the path without following a link, and takes sockets of one name only."
)


def attack(places: Places) -> str | None:
    link, hard = Path(places.scratch, "link"), Path(places.scratch, "hard")
    link.symlink_to(places.sockets["plain"])
    try:
        return reach_unix(str(link))
    except OSError:
        hard.hardlink_to(places.sockets["plain"])
        return reach_unix(str(hard))
