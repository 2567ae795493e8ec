"""Lines of usage, and how their reader takes lines that no gateway writes."""

import subprocess
import sys
from pathlib import Path

import pytest

from gitlab_nightshift.gateway import usage_reports
from gitlab_nightshift.gateway.usage_reports import (
    LINE_BYTES,
    MOST_BEADS,
    UsageReader,
    read_line,
    to_line,
)
from gitlab_nightshift.records.codec import InvalidRecordError
from gitlab_nightshift.records.usage import Usage
from tests.gateway.tools import sum_reported_usage

ONE = Usage(0.5, 1000, 0.1, 200)


def test_the_last_line_of_a_bead_counts() -> None:
    lines = to_line(0, Usage(0.25, 10)) + to_line(1, ONE) + to_line(0, ONE)
    reader = UsageReader()
    for at in range(len(lines)):  # however a pipe cuts it
        reader.feed(lines[at : at + 1])
    assert (reader.list_usage(), reader.invalid_lines) == ((ONE, ONE), 0)
    assert sum_reported_usage(lines) == Usage(1.0, 2000, 0.2, 400)
    assert sum_reported_usage(b"") == Usage()


def test_an_unknown_cost_makes_the_sum_unknown() -> None:
    lines = to_line(0, ONE) + to_line(1, Usage(None, 7))
    assert sum_reported_usage(lines) == Usage(None, 1007, 0.1, 200)


def test_invalid_lines_are_left_out() -> None:
    valid = to_line(0, ONE)
    invalid = [
        b"",
        b"[]",
        b"null",
        b"{}",
        b"\xff",
        b"[" * 4000,
        valid[:-2],
        valid.replace(b"0.5", b"-0.5"),
        valid.replace(b"0.5", b"NaN"),
        valid.replace(b"0.5", b"1e999"),
        valid.replace(b"0.5", b"true"),
        valid.replace(b"0.5", b'"0.5"'),
        valid.replace(b"1000", b"1.5"),
        valid.replace(b'"number":0', b'"number":-1'),
        valid.replace(b'"number"', b'"more":1,"number"'),
        to_line(MOST_BEADS, ONE),
        b" " * LINE_BYTES + valid,
    ]
    assert valid not in invalid
    reader = UsageReader()
    reader.feed(valid + b"\n".join(line.rstrip(b"\n") for line in invalid) + b"\n")
    assert (reader.list_usage(), reader.invalid_lines) == ((ONE,), len(invalid))


def test_a_line_without_an_end_does_not_fill_memory() -> None:
    reader = UsageReader()
    for _ in range(100):
        reader.feed(b"x" * 100_000)
    assert len(reader._unfinished) <= LINE_BYTES
    reader.feed(b"\n" + to_line(0, ONE))
    assert (reader.list_usage(), reader.invalid_lines) == ((ONE,), 1)


def test_the_reader_imports_the_standard_library_alone() -> None:
    """The supervisor may import nothing else."""
    top = Path(usage_reports.__file__).parents[2]
    code = (
        f"import sys; sys.path.append({str(top)!r});"
        "from gitlab_nightshift.gateway import control_messages, usage_reports;"
        "print(*(n for n in sys.modules if n.partition('.')[0] not in sys.stdlib_module_names))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], check=True, capture_output=True, text=True
    )
    others = {name.partition(".")[0] for name in done.stdout.split()}
    assert others <= {"gitlab_nightshift", "__main__"}


def test_an_impossible_figure_is_refused() -> None:
    with pytest.raises(InvalidRecordError, match="so much"):
        read_line(to_line(0, Usage(1e13)).rstrip())
