"""Failed requests are repeated with pauses, until a deadline."""

import asyncio

import pytest

from gitlab_nightshift.gitlab.api_error import ApiError, not_performed, transient
from gitlab_nightshift.system.retry import RetryPolicy, parse_retry_after
from tests.support.clock import FakeTime


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


class Failing:
    """Fails with these errors, then answers."""

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
    assert RetryPolicy(time.at + 1000, time.clock).call_with_retries(call, transient) == "answer"
    for pause, least in zip(time.pauses, (1, 2, 4, 8, 16, 20), strict=True):
        assert least <= pause <= min(least * 1.25, 20)


def test_a_wait_of_two_seconds_is_explained(time: FakeTime) -> None:
    lines: list[str] = []
    patience = RetryPolicy(time.at + 60, time.clock, tell=lines.append)
    with pytest.raises(ApiError):
        patience.call_with_retries(Failing(*(error(503) for _ in range(9))), transient)
    starts = [1000.0 + sum(time.pauses[:number]) for number in range(len(time.pauses))]
    expected = [
        f"x; trying again in {pause:.0f} s, for another {1060 - at:.0f} s at most"
        for at, pause in zip(starts, time.pauses, strict=True)
    ]
    assert lines == expected[1:]
    assert len(lines) >= 3


def test_a_pause_after_a_slow_failure_is_explained(
    time: FakeTime, capsys: pytest.CaptureFixture[str]
) -> None:
    failing = Failing(error(503))

    def fail_slowly() -> str:
        time.at += 30
        return failing()

    RetryPolicy(time.at + 60, time.clock).call_with_retries(fail_slowly, transient)
    assert capsys.readouterr().err.startswith(
        "nightshift: x; trying again in 1 s, for another 30 s"
    )


def test_a_coroutine_is_retried_with_its_own_sleep(time: FakeTime) -> None:
    call = Failing(error(503), error(429, after=300), *(error(503) for _ in range(20)))

    async def ask() -> str:
        return call()

    async def sleep(seconds: float) -> None:
        time.sleep(seconds)

    deadline_s = time.at + 500
    patience = RetryPolicy(deadline_s, time.clock, first_s=4, longest_s=30, longest_asked_s=400)
    with pytest.raises(ApiError):
        asyncio.run(patience.await_with_retries(ask, transient, sleep))
    for pause, least in zip(time.pauses, (4, 300, 16, 30, 30, 30, 30), strict=False):
        assert least <= pause <= max(least * 1.25, 300 if least == 300 else 0)
    assert deadline_s - 30 < time.at <= deadline_s
    assert call.calls == len(time.pauses) + 1


ASKED = {"7": 7, "1.5": 1.5, "": 0, "-1": 0, "inf": 0, "nan": 0, "9999999": 0, "٣": 0}
A_DATE = "Wed, 21 Oct 2026 07:28:00 GMT"


def test_retry_after_is_parsed() -> None:
    for header, seconds in {**ASKED, A_DATE: 0}.items():
        assert parse_retry_after(header) == seconds, header


def test_the_deadline_holds(time: FakeTime) -> None:
    start, call = time.at, Failing(*(error(503) for _ in range(100)))
    with pytest.raises(ApiError) as raised:
        RetryPolicy(start + 30, time.clock).call_with_retries(call, transient)
    assert raised.value.status == 503
    assert time.at <= start + 30
    assert call.calls == len(time.pauses) + 1 > 3


def test_after_the_deadline_there_is_one_try(time: FakeTime) -> None:
    call = Failing(error(503))
    with pytest.raises(ApiError):
        RetryPolicy(time.at - 5, time.clock).call_with_retries(call, transient)
    assert (call.calls, time.pauses) == (1, [])


def test_retry_after_is_obeyed_up_to_a_limit(time: FakeTime) -> None:
    patience = RetryPolicy(time.at + 1000, time.clock)
    patience.call_with_retries(Failing(error(429, after=17), error(429, after=86400)), transient)
    assert time.pauses == [17, 60]


def test_retry_after_past_the_deadline_is_not_waited_for(time: FakeTime) -> None:
    with pytest.raises(ApiError):
        RetryPolicy(time.at + 30, time.clock).call_with_retries(
            Failing(error(429, after=40)), transient
        )
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
def test_transient_failures(failure: ApiError, passes: bool, safe: bool) -> None:
    assert transient(failure) is passes
    assert not_performed(failure) is safe


def test_other_exceptions_pass_through(time: FakeTime) -> None:
    def broken() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        RetryPolicy(time.at + 30, time.clock).call_with_retries(broken, transient)
    assert time.pauses == []
