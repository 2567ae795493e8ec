from tests.attacks.places import Places, read

TITLE = "capabilities"
TRIES = "Looks whether root's rights are still there, or can come back by starting a program."
PROMISE = "secrets"
MUST_FAIL = (
    "All are dropped, the bounding set is emptied, uid 0 means nothing, no_new_privs is set."
)
LOOT = "a right"


def needs(places: Places) -> None:
    assert attack(places), "an ordinary user has none"


def attack(places: Places) -> str | None:
    lines = [line.split() for line in read("/proc/self/status").splitlines()]
    sets = (b"CapPrm:", b"CapEff:", b"CapAmb:")
    held = [b" ".join(words).decode() for words in lines if words and words[0] in sets]
    return ", ".join(line for line in held if int(line.split()[1], 16))
