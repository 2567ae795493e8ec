"""What is logged: without control characters, the end last, whatever cannot be written."""

import errno

from gitlab_nightshift.records.events import Event, Note, RunEnded
from gitlab_nightshift.records.products import Outcome
from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.run.event_output import EventDispatcher, replace_control_characters

END = RunEnded(RunResult("1", Outcome.FAILED))


def test_a_sink_that_fails_costs_no_other() -> None:
    told: list[Event] = []

    def broken(event: Event) -> None:
        raise OSError(errno.EIO, "Input/output error")

    telling = EventDispatcher({"the job log": broken, "events.jsonl": told.append}, str)
    telling(Note("first"))
    telling(Note("second"))
    why = Note("the job log cannot be written any more: Input/output error", warning=True)
    assert told[-1] == Note("second")
    assert sorted(told[:-1], key=str) == sorted([why, Note("first")], key=str)


def test_nothing_comes_after_the_end_and_there_is_one() -> None:
    told: list[Event] = []
    telling = EventDispatcher({"a": told.append}, lambda text: text.replace("x", "y"))
    telling.end()
    for event in (END, Note("x"), RunEnded(RunResult("2", Outcome.MR_CREATED))):
        telling(event)
    telling.end()
    telling(Note("late"))
    telling.end()
    assert told == [Note("y"), END]


def test_control_characters_are_seen_and_do_nothing() -> None:
    assert replace_control_characters("a\tb\nc\r\nd ü \u2028") == "a\tb\nc\nd ü \u2028"
    odd = [chr(code) for code in (*range(32), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"]
    assert [replace_control_characters(each) for each in odd] == ["\ufffd"] * len(odd)
