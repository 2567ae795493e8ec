from pathlib import Path

from tests.attacks.git_world import Places, blob_name, plant

TITLE = "The right name, another content"
TRIES = "A loose object with the name of the coming blob, and other bytes in it."
MUST_FAIL = (
    "Blobs are hashed and written in a private repository that never saw the agent's objects."
)
GAINS = ("change lost",)


def attack(checkout: Path, places: Places) -> None:
    plant(checkout / ".git/objects", blob_name((checkout / "shop.py").read_bytes()))
