from tests.attacks.places import Places, everyone, flag_in, read

TITLE = "the environment of every process"
TRIES = "Walks through /proc and opens each environ: siblings and other jobs as well."
PROMISE = "secrets"
MUST_FAIL = "Landlock refuses to look into processes outside; in a namespace they are not there."


def attack(places: Places) -> str | None:
    found = set()
    for pid in everyone():
        try:
            found.add(flag_in(read(f"/proc/{pid}/environ")))
        except OSError:
            continue
    return " ".join(sorted(filter(None, found)))
