"""When a request is tried again, and for how long."""

import pytest

from gitlab_nightshift.gitlab import ApiError, Patience
from gitlab_nightshift.gitlab.retry import not_performed, transient

from .conftest import FakeTime


class Failing:
    """Fails with the errors given, then answers."""

    def __init__(self, *errors: ApiError) -> None:
        self.errors, self.calls = list(errors), 0

    def __call__(self) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "answer"


def error(status: int | None, reason: str = "", after: float = 0.0) -> ApiError:
    return ApiError("x", status=status, reason=reason, retry_after_s=after)


def test_pauses_grow(time: FakeTime) -> None:
    call = Failing(*(error(503) for _ in range(6)))
    assert Patience(time.at + 1000, time.clock).tries(call, transient) == "answer"
    for pause, least in zip(time.pauses, (1, 2, 4, 8, 16, 20), strict=True):
        assert least <= pause <= min(least + 1, 20)


def test_the_deadline_holds(time: FakeTime) -> None:
    start, call = time.at, Failing(*(error(503) for _ in range(100)))
    with pytest.raises(ApiError) as raised:
        Patience(start + 30, time.clock).tries(call, transient)
    assert raised.value.status == 503
    assert time.at <= start + 30
    assert call.calls == len(time.pauses) + 1 > 3


def test_no_patience_is_one_try(time: FakeTime) -> None:
    call = Failing(error(503))
    with pytest.raises(ApiError):
        Patience(time.at - 5, time.clock).tries(call, transient)
    assert (call.calls, time.pauses) == (1, [])


def test_retry_after_is_obeyed_and_cut(time: FakeTime) -> None:
    patience = Patience(time.at + 1000, time.clock)
    patience.tries(Failing(error(429, after=17), error(429, after=86400)), transient)
    assert time.pauses == [17, 60]


def test_retry_after_past_the_deadline_is_not_waited_for(time: FakeTime) -> None:
    with pytest.raises(ApiError):
        Patience(time.at + 30, time.clock).tries(Failing(error(429, after=40)), transient)
    assert time.pauses == []


@pytest.mark.parametrize(
    ("failure", "passes", "safe"),
    [
        (error(None), True, False),
        (error(500), True, False),
        (error(502), True, False),
        (error(520), True, False),
        (error(429), True, True),
        (error(409, "Resource lock"), True, True),
        (error(409, "Label already exists"), False, False),
        (error(501), False, False),
        (error(400), False, False),
        (error(401), False, False),
        (error(404), False, False),
        (ApiError("x", lasting=True), False, False),
    ],
)
def test_what_may_pass(failure: ApiError, passes: bool, safe: bool) -> None:
    assert transient(failure) is passes
    assert not_performed(failure) is safe


def test_other_exceptions_pass_through(time: FakeTime) -> None:
    def broken() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        Patience(time.at + 30, time.clock).tries(broken, transient)
    assert time.pauses == []
