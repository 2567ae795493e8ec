from pathlib import Path

from tests.attacks.places import Places, flag_in, night, read

TITLE = "the environment by way of a thread"
TRIES = "Opens /proc/P/task/T/environ instead of /proc/P/environ."
PROMISE = "secrets"
MUST_FAIL = "The kernel asks the same question for a thread as for its process."


def attack(places: Places) -> str | None:
    threads = Path(f"/proc/{night(places)}/task").iterdir()
    return flag_in(b"".join(read(thread / "environ") for thread in threads))
