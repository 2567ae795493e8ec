from tests.attacks.places import Places, call

TITLE = "the machine's input and output"
TRIES = "Asks for I/O ports and for a local descriptor table."
PROMISE = "secrets"
MUST_FAIL = "The filter refuses ioperm, iopl and modify_ldt."
LOOT = "a right"


def needs(places: Places) -> None:
    assert attack(places), "this kernel has none of it"


def attack(places: Places) -> str | None:
    for name, arguments in (("ioperm", (0x80, 1, 1)), ("iopl", (3,)), ("modify_ldt", (0, None, 0))):
        try:
            call(places, name, *arguments)
        except OSError:
            continue
        return f"{name} is there"
    return None
