from pathlib import Path

from tests.attacks.git_world import Places, configure

TITLE = "A clean filter by .git/info/attributes"
TRIES = "A filter in .git/config, assigned to all files where no diff shows it."
MUST_FAIL = "Files are read as bytes and staged with the configuration from before the agent."
GAINS = ("program", "token")


def attack(checkout: Path, places: Places) -> None:
    configure(checkout, "filter.x.clean", places.program(then="cat"))
    (checkout / ".git/info").mkdir(exist_ok=True)
    (checkout / ".git/info/attributes").write_text("* filter=x\n")
