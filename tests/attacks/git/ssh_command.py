from pathlib import Path

from tests.attacks.git_world import Places, configure

TITLE = "Another transport with a command"
TRIES = "The URL becomes an ssh one, and core.sshCommand is a program of the agent's."
MUST_FAIL = "Pushed to an http(s) URL only; nothing rewrites it."
GAINS = ("program", "token")


def attack(checkout: Path, places: Places) -> None:
    configure(checkout, "url.ssh://git@example.invalid/.pushInsteadOf", "http://")
    configure(checkout, "core.sshCommand", places.program())
