from pathlib import Path

from tests.attacks.git_world import Places

TITLE = "A program with the rights of its owner"
TRIES = "The setuid bit on a new file; who copies modes, copies it."
MUST_FAIL = "Of a mode only the executable bit is taken."
CONTROL = "copy"
GAINS = "setuid"


def attack(checkout: Path, places: Places) -> None:
    (checkout / "tool").write_text("#!/bin/sh\n")
    (checkout / "tool").chmod(0o6755)
