import os

from tests.attacks.places import Places, flag_in

TITLE = "gitlab-runner's config.toml by a bare descriptor"
TRIES = "Opens the file without any right (O_PATH) and opens that again through /proc/self/fd."
PROMISE = "secrets"
MUST_FAIL = "The second opening is a full one, and is asked like any other."


def attack(places: Places) -> str | None:
    bare = os.open(places.files["runner_config"], os.O_PATH)
    full = os.open(f"/proc/self/fd/{bare}", os.O_RDONLY)
    return flag_in(os.read(full, 1000))
