from tests.attacks.places import Places, above, flag_in, read

TITLE = "the environments of all ancestors"
TRIES = "Opens /proc/P/environ of the job's shell and of everything above it, up to PID 1."
PROMISE = "secrets"
MUST_FAIL = "Landlock refuses to look into processes outside; in a namespace they are not there."


def attack(places: Places) -> str | None:
    found = []
    for pid in above(places)[1:]:
        try:
            found.append(flag_in(read(f"/proc/{pid}/environ")))
        except OSError:
            continue
    return " ".join(filter(None, found))
