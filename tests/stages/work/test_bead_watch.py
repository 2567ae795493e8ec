"""How often a bead's progress is logged."""

from gitlab_nightshift.stages.work.bead_watch import HEARTBEAT_S, LONGEST_TEXT, PACE_S, Pace


def told(times: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """What is logged of a bead that does something (or "" for nothing) at these seconds."""
    now = 0.0
    pace, out = Pace(lambda: now), []
    for now, text in times:
        if text:
            pace.note(text)
        if line := pace.take_due_text():
            out.append((now, line))
    return out


def test_the_first_is_told_at_once_then_one_in_two_seconds_the_newest() -> None:
    said = [(n / 1000, str(n)) for n in range(10_000)]
    lines = told(said)
    assert lines == [(0.0, "0"), (2.0, "2000"), (4.0, "4000"), (6.0, "6000"), (8.0, "8000")]


def test_what_came_too_early_is_told_when_it_is_time() -> None:
    assert told([(0, "a"), (1, "b"), (1.5, ""), (PACE_S, ""), (9, "")]) == [(0, "a"), (PACE_S, "b")]


def test_silence_is_told_once_a_minute() -> None:
    ticks = [(n / 5, "") for n in range(int(5 * HEARTBEAT_S * 2) + 1)]
    assert told(ticks) == [(HEARTBEAT_S, "…"), (2 * HEARTBEAT_S, "…")]
    assert told([(1, "a"), *ticks[10:]]) == [(1, "a"), (1 + HEARTBEAT_S, "…")]


def test_a_text_is_bounded() -> None:
    assert told([(0, "x" * 10**6)]) == [(0, "x" * LONGEST_TEXT)]
