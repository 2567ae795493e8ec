from pathlib import Path

from tests.attacks.git_world import Places, configure

TITLE = "A program that makes text for a diff"
TRIES = "diff.x.textconv runs as soon as somebody looks at the change."
MUST_FAIL = "The diff is made in a private repository, with --no-textconv."
GAINS = ("program", "token")


def attack(checkout: Path, places: Places) -> None:
    configure(checkout, "diff.x.textconv", places.program(then='cat "$1"'))
    (checkout / ".git/info").mkdir(exist_ok=True)
    (checkout / ".git/info/attributes").write_text("* diff=x\n")
