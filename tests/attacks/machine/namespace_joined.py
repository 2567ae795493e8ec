import os

from tests.attacks.places import Places, checked, libc, night

TITLE = "the job's own namespaces"
TRIES = "Enters the namespaces of the process that holds the secrets by setns."
PROMISE = "secrets"
MUST_FAIL = "Opening them asks for the right to trace, and the filter refuses setns."
LOOT = "a right"
ANY = 0


def needs(places: Places) -> None:
    checked(libc.setns(os.open("/proc/self/ns/uts", os.O_RDONLY), ANY))


def attack(places: Places) -> str | None:
    there = os.open(f"/proc/{night(places)}/ns/uts", os.O_RDONLY)
    return f"entered: {checked(libc.setns(there, ANY))}"
