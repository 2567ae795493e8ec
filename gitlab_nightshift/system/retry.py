"""The one place where a request to another server is repeated: pauses, jitter, the deadline.

Which failures may pass is said where the server is known.
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
Again = Callable[[Any], bool]
"""Whether a failure may pass by itself."""

LONGEST_SILENCE_S = 2.0
"""Whoever waits longer is told why."""
_SECONDS = compile_lazily(r"[0-9]{1,6}(\.[0-9]{1,6})?")


class RemoteFailure(Exception):
    """What another server did not do; no other exception leads to a second try.

    ``retry_after_s``: how long it asks to wait, in seconds.
    """

    retry_after_s: float = 0.0


@dataclass(frozen=True)
class Clock:
    """Monotonic seconds and a way to wait."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def write_notice(text: str) -> None:
    """A line on stderr, for callers that have no log of a run."""
    sys.stderr.write(f"nightshift: {text}\n")
    sys.stderr.flush()


@dataclass(frozen=True)
class RetryPolicy:
    """Until when (seconds of the clock) requests are repeated, and after which pauses (seconds).

    Pauses double from ``first_s`` on, each up to a quarter longer by chance, to ``longest_s``; a
    server may ask for longer ones, which are cut to ``longest_asked_s``. None goes past the
    deadline: the last failure is raised instead. ``tell`` gets a line before each pause after
    which a caller would have waited without a word for ``LONGEST_SILENCE_S``.
    """

    until: float
    clock: Clock = Clock()
    first_s: float = 1.0
    longest_s: float = 20.0
    longest_asked_s: float = 60.0
    tell: Callable[[str], None] = write_notice

    def call_with_retries(self, call: Callable[[], Result], again: Again) -> Result:
        """``call()``, repeated while it fails in a way that ``again`` says may pass."""
        from tenacity import Retrying

        return Retrying(sleep=self.clock.sleep, **self._build_rules(again))(call)

    async def await_with_retries(
        self,
        call: Callable[[], Coroutine[Any, Any, Result]],
        again: Again,
        sleep: Callable[[float], Awaitable[None]],
    ) -> Result:
        """The same in an event loop, with its own way to wait."""
        from tenacity import AsyncRetrying

        async def call_once() -> Result:  # it does not see that a lambda is a coroutine's
            return await call()

        return await AsyncRetrying(sleep=sleep, **self._build_rules(again))(call_once)

    def _build_rules(self, again: Again) -> dict[str, Any]:
        from tenacity import retry_if_exception

        begun = self.clock.now()
        return {
            "retry": retry_if_exception(lambda e: isinstance(e, RemoteFailure) and again(e)),
            "wait": self._compute_pause,
            "stop": lambda state: self.clock.now() + state.upcoming_sleep > self.until,
            "before_sleep": lambda state: self._tell_pause(state, begun),
            "reraise": True,
        }

    def _tell_pause(self, state: "RetryCallState", begun: float) -> None:
        now, pause_s = self.clock.now(), state.upcoming_sleep
        if now + pause_s - begun >= LONGEST_SILENCE_S and state.outcome:
            self.tell(
                f"{state.outcome.exception()}; trying again in {pause_s:.0f} s,"
                f" for another {self.until - now:.0f} s at most"
            )

    def _compute_pause(self, state: "RetryCallState") -> float:
        from tenacity import wait_exponential

        # Jitter: clients that failed together must not come back together.
        first_s = self.first_s * random.uniform(1, 1.25)  # noqa: S311 - jitter
        error = state.outcome.exception() if state.outcome else None
        asked_s = error.retry_after_s if isinstance(error, RemoteFailure) else 0.0
        own_s = wait_exponential(multiplier=first_s, max=self.longest_s)(state)
        return max(own_s, min(asked_s, self.longest_asked_s))


def parse_retry_after(header: str) -> float:
    """The seconds of a ``Retry-After``; 0 for none, and for a date: the own pauses go on then."""
    return float(header) if _SECONDS.fullmatch(header) else 0.0
