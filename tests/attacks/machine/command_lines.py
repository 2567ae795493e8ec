from tests.attacks.places import Places, everyone, flag_in, read

TITLE = "command lines"
TRIES = "Reads /proc/P/cmdline of every process: some programs are told a password there."
PROMISE = "secrets"
MUST_FAIL = "In a namespace they are not there. This program never puts a secret into one."
OPEN_IN = {
    "uid": "command lines of other processes",
    "landlock": "command lines of other processes",
}


def attack(places: Places) -> str | None:
    found = set()
    for pid in everyone():
        try:
            found.add(flag_in(read(f"/proc/{pid}/cmdline")))
        except OSError:
            continue
    return " ".join(sorted(filter(None, found)))
