import os
import signal
import time
from pathlib import Path

from tests.attacks.places import Places, waited_for

TITLE = "a signal to everybody"
TRIES = "Calls kill(-1), with a signal that does nothing to whoever does not wait for it."
PROMISE = "lifetime"
MUST_FAIL = "It reaches only the sender's own tree."
SOON_S = 0.5


def attack(places: Places) -> str | None:
    Path(places.scratch, "sent_at").write_text(str(time.monotonic()))
    os.kill(-1, signal.SIGURG)
    return "sent"


def seen(places: Places) -> bool:
    """Only a signal of that time counts: somebody else on this machine may try the same."""
    heard, sent = Path(places.outside, "hits/signal_everybody"), Path(places.scratch, "sent_at")
    if not sent.exists():
        return False
    at, wait_s = float(sent.read_text()), max(places.arrives_s, SOON_S)

    def arrived() -> bool:
        times = heard.read_text().split() if heard.exists() else []
        return any(at <= float(each) <= at + wait_s for each in times)

    return waited_for(arrived, time.monotonic() + places.arrives_s)
