"""The one place where a request is tried again: pauses, the deadline, what may pass by itself."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from gitlab_nightshift.gitlab.errors import ApiError

if TYPE_CHECKING:
    from tenacity import RetryCallState

Result = TypeVar("Result")

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 20.0
JITTER_S = 1.0
LONGEST_RETRY_AFTER_S = 60.0
"""GitLab may ask for any pause; longer ones than this are cut."""


@dataclass(frozen=True)
class Clock:
    """Monotonic seconds and a way to wait."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True)
class Patience:
    """Until when (seconds of the clock) requests are tried again."""

    until: float
    clock: Clock = Clock()

    def tries(
        self,
        call: Callable[[], Result],
        again: Callable[[ApiError], bool],
        *,
        until: float | None = None,
    ) -> Result:
        """``call()``, repeated while it fails with an error that ``again`` says may pass.

        Pauses grow from one second and never go past the deadline (or ``until``, if that is
        earlier): the last error is raised instead.
        """
        from tenacity import Retrying, retry_if_exception

        end = min(self.until, self.until if until is None else until)
        retrying = Retrying(
            sleep=self.clock.sleep,
            stop=lambda state: self.clock.now() + state.upcoming_sleep > end,
            wait=_pause,
            retry=retry_if_exception(lambda error: isinstance(error, ApiError) and again(error)),
            reraise=True,
        )
        return retrying(call)


def _pause(state: "RetryCallState") -> float:
    from tenacity import wait_exponential_jitter

    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after_s if isinstance(error, ApiError) else 0.0
    own = wait_exponential_jitter(initial=FIRST_PAUSE_S, max=LONGEST_PAUSE_S, jitter=JITTER_S)
    return max(own(state), min(asked, LONGEST_RETRY_AFTER_S))


def not_performed(error: ApiError) -> bool:
    """GitLab said that it did nothing and to come again: safe to repeat whatever the request."""
    return error.status == 429 or (error.status == 409 and "resource lock" in error.reason.lower())


def transient(error: ApiError) -> bool:
    """It may pass by itself. The request may have been performed all the same."""
    if error.lasting:
        return False
    return not_performed(error) or error.status is None or 500 <= error.status != 501
