from pathlib import Path

from tests.attacks.git_world import Places

TITLE = "A branch with the name of an option"
TRIES = "HEAD and a packed ref are called --upload-pack=…: a program that reads names runs them."
MUST_FAIL = "Names come from this program alone, and stand behind refs/heads/."
GAINS = ("program",)
HELD_BY_GIT = "HEAD:refs/… names no branch"


def attack(checkout: Path, places: Places) -> None:
    name = f"refs/heads/--receive-pack={places.program()}"
    (checkout / ".git/packed-refs").write_text(f"{places.base} {name}\n")
    (checkout / ".git/HEAD").write_text(f"ref: {name}\n")
