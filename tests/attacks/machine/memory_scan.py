from pathlib import Path

from tests.attacks.places import Places, flag_in, night

TITLE = "memory, without knowing where to look"
TRIES = "Takes the places of all data from /proc/P/maps and searches them."
PROMISE = "secrets"
MUST_FAIL = "Neither maps nor mem of a process outside can be opened."


def attack(places: Places) -> str | None:
    pid = night(places)
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()  # one read gives a page of them
    data = [line.split() for line in lines if " rw-p " in line]
    spans = [words[0].split("-") for words in data if words[4] == "0"]
    found = set()
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:  # noqa: PTH123
        for start, end in spans:
            memory.seek(int(start, 16))
            found.add(flag_in(memory.read(int(end, 16) - int(start, 16))))
    return " ".join(sorted(filter(None, found)))
