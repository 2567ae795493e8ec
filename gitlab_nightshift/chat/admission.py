"""Admits requests which Discord has signed, that are recent, new and not too many of a person."""

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

WINDOW_S = 300.0
"""Seconds. A request is signed with its time; if that is further off than this, it is refused."""
MOST_REMEMBERED = 20_000
TASKS = 10
PERIOD_S = 3600.0
"""A person may start ``TASKS`` tasks in ``PERIOD_S`` seconds."""


@dataclass
class RequestVerifier:
    """Checks requests; ``fits`` verifies a signature, ``now`` is the time of day in seconds."""

    fits: Callable[[bytes, bytes], bool]
    now: Callable[[], float]
    _seen: dict[bytes, float] = field(default_factory=dict)

    def is_valid(self, signature: str, timestamp: str, body: bytes) -> bool:
        """True for a signed, recent request that was not sent before."""
        now = self.now()
        if not re.fullmatch(r"[0-9a-fA-F]{128}", signature):
            return False
        if not re.fullmatch(r"[0-9]{1,12}", timestamp) or abs(now - int(timestamp)) > WINDOW_S:
            return False
        message = timestamp.encode() + body
        return self.fits(bytes.fromhex(signature), message) and self._first(message, now)

    def _first(self, message: bytes, now: float) -> bool:
        """Remember the message for as long as its time would be accepted; True if it is new.

        By message, not by signature: a message may have more than one valid Ed25519 signature. If
        the memory is full, nothing is admitted: a forgotten message could be replayed.
        """
        from hashlib import sha256

        self._seen = {known: until for known, until in self._seen.items() if until > now}
        digest = sha256(message).digest()
        if digest in self._seen or len(self._seen) >= MOST_REMEMBERED:
            return False
        self._seen[digest] = now + 2 * WINDOW_S
        return True


@dataclass
class RateLimiter:
    """Counts the tasks that each person has started; ``now`` are monotonic seconds."""

    now: Callable[[], float]
    _started: dict[str, deque[float]] = field(default_factory=dict)

    def passes(self, user: str) -> bool:
        """Count a task and return True, unless the person has started ``TASKS`` lately."""
        since = self.now() - PERIOD_S
        times = self._started.setdefault(user, deque())
        while times and times[0] <= since:
            times.popleft()
        if len(times) >= TASKS:
            return False
        times.append(self.now())
        return True
