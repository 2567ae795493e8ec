from pathlib import Path

from tests.attacks.git_world import Places, configure

TITLE = "A program that is asked for passwords"
TRIES = "core.askPass comes before the SSH_ASKPASS that a program set for its token."
MUST_FAIL = "GIT_ASKPASS is set, and core.askPass empty."
GAINS = ("program", "token")
TOKEN_BY = "ssh_askpass"


def attack(checkout: Path, places: Places) -> None:
    configure(checkout, "core.askPass", places.program(then="echo x"))
