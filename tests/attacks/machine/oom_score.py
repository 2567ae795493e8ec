from pathlib import Path

from tests.attacks.places import Places, night, victim

TITLE = "who dies when memory is short"
TRIES = "Marks the process of the job as the first one to be killed."
PROMISE = "lifetime"
MUST_FAIL = "/proc of other processes is read-only to agents."


def attack(places: Places) -> str | None:
    Path(f"/proc/{night(places)}/oom_score_adj").write_text("777")
    return "marked"


def seen(places: Places) -> bool:
    return Path(f"/proc/{victim(places, 'night')}/oom_score_adj").read_text() == "777\n"
