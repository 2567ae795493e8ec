from tests.attacks.places import Places, call

TITLE = "userfaultfd"
TRIES = "Takes over its own page faults: exploits of the kernel stop it at will with that."
PROMISE = "secrets"
MUST_FAIL = "The filter refuses the call."
LOOT = "a right"
USER_MODE_ONLY = 1


def needs(places: Places) -> None:
    attack(places)


def attack(places: Places) -> str | None:
    return f"descriptor {call(places, 'userfaultfd', USER_MODE_ONLY)}"
