"""How each test runner is asked for a report: ``runner_styles.toml`` lists them.

None of it changes which tests run or when they fail. A variable reaches a runner through Make, npm
or tox; words on the command line reach only one that a command names itself.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gitlab_nightshift.proof.rule_tables import RuleTable


@dataclass(frozen=True)
class RunnerStyle:
    """``names`` finds the runner in a command or in the recipes behind it.

    ``variables`` are added to what the environment holds already; ``words`` to
    the command line behind ``after``, at its end where that is "". ``hooks`` are this program's own
    files that the runner loads. ``left`` are the files that it writes anyway, as globs below the
    checkout. ``{reports}`` and ``{hooks}`` are folders. ``printed``: the report is what it prints,
    in the form of that file name ending.
    ``lists``: it reports nothing, and lists all tests, then the ignored ones, with these words
    behind ``--``. ``left_out`` are words of its command line that hide what it prints.
    """

    names: re.Pattern[str]
    variables: Mapping[str, str] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    after: str = ""
    hooks: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    printed: str = ""
    lists: tuple[tuple[str, ...], ...] = ()
    left_out: tuple[str, ...] = ()


def _read_style(table: RuleTable, row: Mapping[str, Any]) -> RunnerStyle:
    lists = {key: tuple(row[key]) for key in ("words", "hooks", "left", "left_out") if key in row}
    lists["lists"] = tuple(map(tuple, row.get("lists", ())))
    return RunnerStyle(**{**row, **lists, "names": table.compile(row["names"])})


_TABLE = RuleTable(__file__)
STYLES = {name: _read_style(_TABLE, row) for name, row in _TABLE.entries.items()}
