from pathlib import Path

from tests.attacks.git_world import Places, configure

TITLE = "A URL that is a command"
TRIES = "An ext:: URL with protocol.ext.allow runs a command as the transport."
MUST_FAIL = "Pushed to an http(s) URL only, with GIT_ALLOW_PROTOCOL for that scheme alone."
GAINS = ("program", "token")


def attack(checkout: Path, places: Places) -> None:
    configure(checkout, "protocol.ext.allow", "always")
    configure(checkout, "remote.origin.pushurl", f"ext::{places.program()} %S")
