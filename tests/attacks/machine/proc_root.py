from tests.attacks.places import Places, flag_in, job, read

TITLE = "files through another process's root"
TRIES = "Opens /proc/P/root/PATH, which names the file system as the job sees it."
PROMISE = "secrets"
MUST_FAIL = "Following the link asks for the right to trace; the path behind it is not allowed."


def attack(places: Places) -> str | None:
    found = []
    for pid in job(places):
        try:
            found.append(flag_in(read(f"/proc/{pid}/root{places.files['netrc']}")))
        except OSError:
            continue
    return " ".join(filter(None, found))
