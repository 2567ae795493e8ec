"""What a bead's line says, and what a reader makes of lines that nobody honest has written."""

import subprocess
import sys
from pathlib import Path

import pytest

from gitlab_nightshift.gateway import cost_totals
from gitlab_nightshift.gateway.cost_totals import (
    BEADS,
    LINE_BYTES,
    Totals,
    UsageFigures,
    to_line,
)
from tests.gateway.tools import read_totals

ONE = UsageFigures(0.5, 1000, 0.1, 200, 0.25, 3000)


def test_the_last_line_of_a_bead_counts() -> None:
    lines = to_line(0, "analyze", UsageFigures(0.25, 10)) + to_line(1, "verify", ONE)
    lines += to_line(0, "analyze", ONE)
    reader = Totals()
    for at in range(len(lines)):  # however a pipe cuts it
        reader.feed(lines[at : at + 1])
    assert reader.list_beads() == (("analyze", ONE), ("verify", ONE))
    assert (
        reader.compute_sum()
        == read_totals(lines)
        == ONE + ONE
        == UsageFigures(1.0, 2000, 0.2, 400, 0.5, 6000)
    )
    assert reader.bad == 0
    assert read_totals(b"") == UsageFigures()


def test_a_cost_that_is_unknown_stays_so() -> None:
    lines = to_line(0, "analyze", ONE) + to_line(1, "verify", UsageFigures(None, 7))
    assert read_totals(lines) == UsageFigures(None, 1007, 0.1, 200, 0.25, 3000)


def test_what_is_no_line_is_left_out() -> None:
    good = to_line(0, "analyze", ONE)
    bad = [
        b"",
        b"[]",
        b"null",
        b"{}",
        b"\xff",
        b"[" * 4000,
        good[:-2],
        good.replace(b"0.5", b"-0.5"),
        good.replace(b"0.5", b"NaN"),
        good.replace(b"0.5", b"1e999"),
        good.replace(b"0.5", b"true"),
        good.replace(b"0.5", b'"0.5"'),
        good.replace(b"1000", b"1.5"),
        good.replace(b'"analyze"', b"7"),
        good.replace(b'"name"', b'"more": 1, "name"'),
        to_line(BEADS, "one too many", ONE),
        b" " * LINE_BYTES + good,
    ]
    reader = Totals()
    reader.feed(good + b"\n".join(line.rstrip(b"\n") for line in bad) + b"\n")
    assert (reader.compute_sum(), reader.bad) == (ONE, len(bad))


def test_a_line_without_an_end_fills_no_memory() -> None:
    reader = Totals()
    for _ in range(100):
        reader.feed(b"x" * 100_000)
    assert len(reader._rest) <= LINE_BYTES
    reader.feed(b"\n" + to_line(0, "analyze", ONE))
    assert (reader.compute_sum(), reader.bad) == (ONE, 1)


def test_the_reader_imports_the_standard_library_alone() -> None:
    """A supervisor is to import nothing else."""
    top = Path(cost_totals.__file__).parents[2]
    code = (
        f"import sys; sys.path.append({str(top)!r});"
        "import gitlab_nightshift.gateway.cost_totals, gitlab_nightshift.gateway.control_messages;"
        "print(*(n for n in sys.modules if n.partition('.')[0] not in sys.stdlib_module_names))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], check=True, capture_output=True, text=True
    )
    ours = {"gitlab_nightshift", "__main__"}
    assert {name.partition(".")[0] for name in done.stdout.split()} <= ours


def test_a_figure_that_no_run_has_is_none() -> None:
    with pytest.raises(ValueError, match="figure"):
        cost_totals.read_line(to_line(0, "analyze", UsageFigures(1e300)))
