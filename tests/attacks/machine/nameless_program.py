import os
import sys

from tests.attacks.places import Places, begun, lives

TITLE = "a program without a file"
TRIES = "Runs a daemon from a file in memory, under a name of its choice."
PROMISE = "lifetime"
MUST_FAIL = "Descendants are found by who started them, not by name or file."
SCRIPT = """#!/bin/sh
exec {python} -c "import sys; sys.path.insert(0, sys.argv[1]); sys.dont_write_bytecode = True
from tests.attacks.places import Places, live_on
live_on(Places('', '{scratch}', '', '', ''), 'nameless_program')" "{root}"
"""


def attack(places: Places) -> str | None:
    if os.fork() == 0:
        os.setsid()
        root = __file__.rpartition("/tests/")[0]
        text = SCRIPT.format(python=sys.executable, scratch=places.scratch, root=root)
        memory = os.memfd_create("kworker", 0)
        os.write(memory, text.encode())
        os.execv(f"/proc/self/fd/{memory}", ["[kworker/0:1]"])
    return begun(places, "nameless_program")


def seen(places: Places) -> bool:
    return lives(places, "nameless_program")
