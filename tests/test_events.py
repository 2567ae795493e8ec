"""Events as lines of JSON, and what takes secrets out of texts, records and files."""

import dataclasses
import json
import random
import time
import typing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gitlab_nightshift import events
from gitlab_nightshift.events import (
    BeadEnded,
    CommandEnded,
    Event,
    Note,
    Progress,
    Redactor,
    RunEnded,
    RunStarted,
    StepEnded,
    StepStarted,
    cost,
    elapsed,
    json_lines,
    redacted,
    to_all,
    to_line,
)
from gitlab_nightshift.records import (
    BeadResult,
    BeadStatus,
    CommandResult,
    Outcome,
    RunResult,
    Usage,
    Verdict,
)

NOW = datetime(2025, 11, 24, 2, 0, 0, 123456, tzinfo=UTC)
ODD = "two\nlines \u2028 \x1b[31m \ud800 ü"
BEAD = BeadResult(
    "verify", "tests", 1, "m", BeadStatus.OK, Usage(None, 5), 1.0, ODD, Verdict(True, ODD), (ODD,)
)
EVENTS: list[Event] = [
    RunStarted("acme/shop", (ODD,)),
    StepStarted("plan", ODD),
    StepEnded("plan", True, ODD),
    Progress(ODD, 1.5, None, 7),
    BeadEnded(BEAD),
    CommandEnded(CommandResult("make test", None, 1.0, ODD)),
    Note(ODD, warning=True),
    RunEnded(RunResult("1", Outcome.FAILED, reason=ODD, beads=(BEAD,))),
]


def test_every_event_is_tried() -> None:
    assert {type(event) for event in EVENTS} == set(typing.get_args(Event))


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_is_one_line_of_json(event: Event) -> None:
    line = to_line(event, NOW)
    assert line.isascii()
    assert line.isprintable()
    data = json.loads(line)
    assert data.pop("time") == "2025-11-24T02:00:00.123+00:00"
    assert data.pop("event").replace("_", "") == type(event).__name__.lower()
    assert data == json.loads(json.dumps(dataclasses.asdict(event)))


def test_events_are_appended_as_they_happen_without_secrets(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    secret = 'two\nlines "quoted" ü'
    emit = json_lines(file, Redactor((secret,)))
    emit(Note(f"it is {secret}!"))
    assert json.loads(file.read_text())["text"] == "it is [redacted]!"
    emit(RunEnded(RunResult("1", Outcome.FAILED, beads=(dataclasses.replace(BEAD, error=secret),))))
    names = [json.loads(line)["event"] for line in file.read_text().splitlines()]
    assert names == ["note", "run_ended"]
    assert "quoted" not in file.read_text()


def test_to_all_passes_each_event_to_each_sink() -> None:
    first: list[Event] = []
    second: list[Event] = []
    emit = to_all(sink for sink in (first.append, second.append))
    for event in EVENTS:
        emit(event)
    assert first == second == EVENTS


# --- redaction ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "text", "expected"),
    [
        ((), "a secret", "a secret"),
        (("",), "a secret", "a secret"),
        (("", "secret"), "a secret", "a [redacted]"),
        (("abc", "abcdef"), "abcdef abc", "[redacted] [redacted]"),
        (("abcdef", "defghi"), "-abcdefghi-", "-[redacted]-"),
        (("aXa",), "aXaXa", "[redacted]"),
        (("abc",), "abcabc", "[redacted][redacted]"),
        (("a.c", "x|y", "(", "\\d", "[z]"), "abc a.c xy x|y ( 5 \\d [z]", "abc X xy X X 5 X X"),
        (("one\ntwo",), "it is one\ntwo.", "it is X."),
        (("one\ntwo",), json.dumps({"x": "one\ntwo"}), '{"x": "X"}'),
        (('pä"ss\\word',), json.dumps('pä"ss\\word'), '"X"'),
        (('pä"ss\\word',), json.dumps('pä"ss\\word', ensure_ascii=False), '"X"'),
        (("x\udcffy",), "an x\udcffy", "an X"),
    ],
)
def test_secrets_in_a_text(values: tuple[str, ...], text: str, expected: str) -> None:
    assert Redactor(values)(text) == expected.replace("X", "[redacted]")


VALUES = st.lists(st.text("ab\n", min_size=1, max_size=6), max_size=4).map(tuple)
TEXTS = st.text("abc\n", max_size=60)


@given(VALUES, TEXTS)
@example(("aab", "aba"), "aababa")
def test_of_no_secret_a_part_is_left(values: tuple[str, ...], text: str) -> None:
    secret = [False] * len(text)
    for value in values:
        for start in range(len(text)):
            if text.startswith(value, start):
                secret[start : start + len(value)] = [True] * len(value)
    plain = "".join(char for char, gone in zip(text, secret, strict=True) if not gone)
    assert Redactor(values)(text).replace("[redacted]", "") == plain


@pytest.mark.parametrize("seed", range(20))
def test_a_file_is_redacted_like_a_text_wherever_it_is_cut(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target, pick = tmp_path / "a", tmp_path / "b", random.Random(seed)
    for _ in range(100):
        monkeypatch.setattr(events, "CHUNK", pick.randint(1, 9))
        values = ["".join(pick.choices("ab", k=pick.randint(1, 6))) for _ in range(3)]
        text = "".join(pick.choices("abc", k=pick.randint(0, 40)))
        source.write_text(text)
        Redactor(tuple(values)).file(source, target)
        assert target.read_text() == Redactor(tuple(values))(text), (values, text)


@pytest.mark.parametrize("before", [0, 3, 7])
def test_a_secret_across_the_boundary_of_two_chunks(before: int, tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    pad = b"." * (events.CHUNK - before)
    source.write_bytes(pad + b"hunter2\xff" + pad + b"hunter22 \xff")
    Redactor(("hunter2", "hunter22")).file(source, target)
    assert target.read_bytes() == pad + b"[redacted]\xff" + pad + b"[redacted] \xff"


def test_a_file_full_of_secrets_is_done_in_time(tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"hunter2 " * 500_000)
    started = time.monotonic()
    Redactor(("hunter2", *(f"other secret {n}" for n in range(60)))).file(source, target)
    assert time.monotonic() - started < 20
    assert target.read_bytes() == b"[redacted] " * 500_000


def test_a_redactor_without_secrets_copies(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(range(256)))
    Redactor(()).file(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == bytes(range(256))


def test_a_redactor_shows_none_of_them() -> None:
    assert "hunter2" not in repr(Redactor(("hunter2",)))


def test_a_record_is_redacted_to_its_depth() -> None:
    result = RunResult("hunter2", Outcome.FAILED, reason="x hunter2", beads=(BEAD,))
    bead = dataclasses.replace(
        BEAD, handoff=Verdict(True, "hunter2", ("cat hunter2",)), denied=("hunter2",)
    )
    clean = redacted(dataclasses.replace(result, beads=(bead,)), Redactor(("hunter2", "FAILED")))
    assert "hunter2" not in str(clean)
    assert clean.outcome is Outcome.FAILED, "a word of ours is no secret"
    assert clean.beads[0].handoff == Verdict(True, "[redacted]", ("cat [redacted]",))
    assert (clean.beads[0].usage, clean.beads[0].status) == (BEAD.usage, BEAD.status)


# --- words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (59.9, "0:59"), (61, "1:01"), (3661, "1:01:01"), (90000, "25:00:00")],
)
def test_elapsed(seconds: float, text: str) -> None:
    assert elapsed(seconds) == text


@pytest.mark.parametrize(
    ("usd", "tokens", "text"),
    [
        (None, None, "cost unknown"),
        (None, 1500, "cost unknown, 2k tokens"),
        (0.0, 0, "$0.00, 0 tokens"),
        (1.234, 999, "$1.23, 999 tokens"),
        (1.5, None, "$1.50"),
        (10.0, 312_400, "$10.00, 312k tokens"),
    ],
)
def test_unknown_cost_is_said_to_be_unknown(
    usd: float | None, tokens: int | None, text: str
) -> None:
    assert cost(usd, tokens) == text
