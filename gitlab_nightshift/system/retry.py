"""The only module that repeats requests to other servers: with pauses, jitter and a deadline.

Each caller knows which failures of its server are transient.
"""

import random
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from gitlab_nightshift.text.lazy_patterns import compile_lazily

if TYPE_CHECKING:
    from tenacity import RetryCallState

Result = TypeVar("Result")
IsTransient = Callable[[Any], bool]

LONGEST_SILENCE_S = 2.0
"""Seconds: a longer wait is explained (``tell``)."""
_SECONDS = compile_lazily(r"[0-9]{1,6}(\.[0-9]{1,6})?")


class RemoteFailure(Exception):
    """A failed request; only these are repeated.

    ``retry_after_s``: how long the server asks to wait, in seconds.
    """

    retry_after_s: float = 0.0


@dataclass(frozen=True)
class Clock:
    """Monotonic seconds and a way to wait."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def write_notice(text: str) -> None:
    """Write a line to stderr, for callers without a run's log."""
    sys.stderr.write(f"nightshift: {text}\n")
    sys.stderr.flush()


@dataclass(frozen=True)
class RetryPolicy:
    """The deadline of requests, on ``clock``, and the pauses between them.

    Pauses double from ``first_s``, each with up to a quarter of jitter, to at most ``longest_s``. A
    server may ask for longer ones, up to ``longest_asked_s``. Pauses of ``longest_s`` and those
    that a server asks for have no jitter. If the next pause would end after the deadline, the last
    failure is raised. ``tell`` gets a line before each pause that ends ``LONGEST_SILENCE_S`` or
    more after the first request.
    """

    deadline_s: float
    clock: Clock = Clock()
    first_s: float = 1.0
    longest_s: float = 20.0
    longest_asked_s: float = 60.0
    tell: Callable[[str], None] = write_notice

    def call_with_retries(self, call: Callable[[], Result], is_transient: IsTransient) -> Result:
        """Return ``call()``, repeated while its failures are transient."""
        from tenacity import Retrying

        return Retrying(sleep=self.clock.sleep, **self._build_rules(is_transient))(call)

    async def await_with_retries(
        self,
        call: Callable[[], Coroutine[Any, Any, Result]],
        is_transient: IsTransient,
        sleep: Callable[[float], Awaitable[None]],
    ) -> Result:
        """As ``call_with_retries``, for a coroutine; ``sleep`` waits in its event loop."""
        from tenacity import AsyncRetrying

        # Not ``call``: tenacity recognizes a coroutine function, not a lambda that returns its
        # result.
        async def call_once() -> Result:
            return await call()

        return await AsyncRetrying(sleep=sleep, **self._build_rules(is_transient))(call_once)

    def _build_rules(self, is_transient: IsTransient) -> dict[str, Any]:
        from tenacity import retry_if_exception

        started_s = self.clock.now()
        return {
            "retry": retry_if_exception(lambda e: isinstance(e, RemoteFailure) and is_transient(e)),
            "wait": self._compute_pause,
            "stop": lambda state: self.clock.now() + state.upcoming_sleep > self.deadline_s,
            "before_sleep": lambda state: self._explain_pause(state, started_s),
            "reraise": True,
        }

    def _explain_pause(self, state: "RetryCallState", started_s: float) -> None:
        now_s, pause_s = self.clock.now(), state.upcoming_sleep
        if now_s + pause_s - started_s >= LONGEST_SILENCE_S and state.outcome:
            self.tell(
                f"{state.outcome.exception()}; trying again in {pause_s:.0f} s,"
                f" for another {self.deadline_s - now_s:.0f} s at most"
            )

    def _compute_pause(self, state: "RetryCallState") -> float:
        from tenacity import wait_exponential

        # Jitter: clients that failed together must not come back together.
        first_s = self.first_s * random.uniform(1, 1.25)  # noqa: S311 - jitter
        error = state.outcome.exception() if state.outcome else None
        asked_s = error.retry_after_s if isinstance(error, RemoteFailure) else 0.0
        backoff_s = wait_exponential(multiplier=first_s, max=self.longest_s)(state)
        return max(backoff_s, min(asked_s, self.longest_asked_s))


def parse_retry_after(header: str) -> float:
    """The seconds in a ``Retry-After`` header; 0 for none, and for a date."""
    return float(header) if _SECONDS.fullmatch(header) else 0.0
