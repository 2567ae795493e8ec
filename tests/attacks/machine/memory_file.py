from tests.attacks.places import Places, flag_in, night

TITLE = "memory through /proc/P/mem"
TRIES = "Opens the memory of the process that holds a token and reads it at its address."
PROMISE = "secrets"
MUST_FAIL = "Opening it asks for the right to trace, which Landlock and other users lack."


def attack(places: Places) -> str | None:
    with open(f"/proc/{night(places)}/mem", "rb", buffering=0) as memory:  # noqa: PTH123
        memory.seek(places.memory)
        return flag_in(memory.read(64))
