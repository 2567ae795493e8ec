from pathlib import Path

from tests.attacks.places import Places, above, flag_in, job, read

TITLE = "open files of other processes"
TRIES = "Opens every /proc/P/fd/N of the job, files without a name among them."
PROMISE = "secrets"
MUST_FAIL = "Following such a link asks for the right to trace."


def attack(places: Places) -> str | None:
    found = set()
    for pid in {*job(places), *above(places)}:
        try:
            for entry in Path(f"/proc/{pid}/fd").iterdir():
                target = str(entry.readlink())
                if target.startswith(("/memfd", places.outside)):
                    found.add(flag_in(read(entry)))
        except OSError:
            continue
    return " ".join(sorted(filter(None, found)))
