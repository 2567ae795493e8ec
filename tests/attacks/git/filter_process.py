from pathlib import Path

from tests.attacks.git_world import Places, configure

TITLE = "A long-running filter process"
TRIES = "filter.x.process is started once and stays alive beside git."
MUST_FAIL = "Files are read as bytes and staged with the configuration from before the agent."
GAINS = ("program", "token")


def attack(checkout: Path, places: Places) -> None:
    configure(checkout, "filter.x.process", places.program())
    (checkout / ".git/info").mkdir(exist_ok=True)
    (checkout / ".git/info/attributes").write_text("*.py filter=x\n")
