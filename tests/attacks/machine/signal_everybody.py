import os
import signal
import time
from pathlib import Path

from tests.attacks.places import Places

TITLE = "a signal to everybody"
TRIES = "Calls kill(-1), with a signal that does nothing to whoever does not wait for it."
PROMISE = "lifetime"
MUST_FAIL = "It reaches the own tree only."
SOON_S = 0.5


def attack(places: Places) -> str | None:
    Path(places.scratch, "sent_at").write_text(str(time.monotonic()))
    os.kill(-1, signal.SIGURG)
    return "sent"


def seen(places: Places) -> bool:
    """At that time: somebody else on this machine may try the same."""
    heard, sent = Path(places.outside, "hits/signal_everybody"), Path(places.scratch, "sent_at")
    if not (heard.exists() and sent.exists()):
        return False
    at = float(sent.read_text())
    return any(at <= float(line) <= at + SOON_S for line in heard.read_text().split())
