import os

from tests.attacks.places import Places, read

TITLE = "/etc/shadow"
TRIES = "Reads the system's passwords: settings may be read, but not those."
PROMISE = "secrets"
MUST_FAIL = "Settings that not everybody may read are left out, also where the job is root."
LOOT = "a right"


def needs(places: Places) -> None:
    assert os.geteuid() == 0, "needs root"
    assert read("/etc/shadow", 1), "no passwords here"


def attack(places: Places) -> str | None:
    return f"{len(read('/etc/shadow'))} bytes of passwords" if read("/etc/shadow", 1) else None
