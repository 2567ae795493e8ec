from pathlib import Path

from tests.attacks.git_world import Places, configure

TITLE = "A filter assigned by .gitattributes"
TRIES = "The same with the assignment in a file of the change."
MUST_FAIL = "A change that needs a filter is refused by name: no filter is run here."
GAINS = ("program", "token")
REFUSED = "shop.py: it needs the filter x"


def attack(checkout: Path, places: Places) -> None:
    configure(checkout, "filter.x.clean", places.program(then="cat"))
    (checkout / ".gitattributes").write_text("*.py filter=x\n")
