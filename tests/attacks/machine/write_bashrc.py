from tests.attacks.places import Places, plant, planted

TITLE = "~/.bashrc"
TRIES = "Appends to what the job's next shell runs."
PROMISE = "files"
MUST_FAIL = "The real home can neither be read nor written."


def attack(places: Places) -> str | None:
    return plant(f"{places.home}/.bashrc")


def seen(places: Places) -> bool:
    return planted(f"{places.home}/.bashrc")
