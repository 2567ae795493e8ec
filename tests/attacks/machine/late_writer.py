import os
import time
from pathlib import Path

from tests.attacks.places import LIVING_S, Places, begun, hold, waited_for

TITLE = "a writer after the bead"
TRIES = "Goes on writing to the checkout when the bead is over: the change would not be the proven."
PROMISE = "lifetime"
MUST_FAIL = "Every descendant is ended before the tree is read."


def attack(places: Places) -> str | None:
    if os.fork() == 0:
        os.setsid()
        hold(places, "late_writer")
        until = time.monotonic() + LIVING_S
        while time.monotonic() < until:
            with Path(places.checkout, "late").open("a") as file:
                file.write("still here\n")
            time.sleep(0.02)
        os._exit(0)
    return begun(places, "late_writer")


def seen(places: Places) -> bool:
    late = Path(places.checkout, "late")
    if not late.exists():
        return False
    before = late.stat().st_size
    until = time.monotonic() + max(places.arrives_s, 0.2)
    return waited_for(lambda: late.stat().st_size > before, until)
