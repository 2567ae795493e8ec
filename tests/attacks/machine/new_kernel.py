from tests.attacks.places import Places, call

TITLE = "another kernel"
TRIES = "Asks for kexec and for loading a module (with nothing to load)."
PROMISE = "secrets"
MUST_FAIL = "The filter refuses the calls, and the capabilities are gone."
LOOT = "a right"
EXEC_FORMAT, BAD_ADDRESS, INVALID = 8, 14, 22


def needs(places: Places) -> None:
    assert attack(places), "this kernel takes neither"


def attack(places: Places) -> str | None:
    for name, arguments in (("init_module", (b"", 0, b"")), ("kexec_load", (0, 0, None, 0))):
        try:
            call(places, name, *arguments)
        except OSError as error:
            if error.errno not in (EXEC_FORMAT, BAD_ADDRESS, INVALID):
                continue
        return f"{name} is there"
    return None
