from tests.attacks.places import Places, checked, libc

TITLE = "another personality"
TRIES = "Switches off address randomization for what it starts."
PROMISE = "secrets"
MUST_FAIL = "The filter lets the default through, and asking."
LOOT = "a right"
NO_RANDOMIZE = 0x0040000


def attack(places: Places) -> str | None:
    return f"was {checked(libc.personality(NO_RANDOMIZE))}"
