from pathlib import Path

from tests.attacks.git_world import Places, blob_name, plant

TITLE = "Objects from a folder of the agent's"
TRIES = (
    "objects/info/alternates lends a blob with the right name and other bytes: what is "
    "added is taken for there already, and is not what is pushed."
)
MUST_FAIL = (
    "Blobs are hashed and written in a private repository that borrows from the real one alone."
)
GAINS = ("change lost",)


def attack(checkout: Path, places: Places) -> None:
    borrowed = places.lair / "objects"
    plant(borrowed, blob_name((checkout / "shop.py").read_bytes()))
    info = checkout / ".git/objects/info"
    info.mkdir(exist_ok=True)
    with (info / "alternates").open("a") as file:
        file.write(f"{borrowed}\n")
