"""Changes that reading alone judges wrongly, judged with their own test runners."""

import os
from pathlib import Path

import pytest

from tests.proof.running.proving import prove
from tests.proof.running.shops import GO, NODE, PYTEST
from tests.support.changes import FOLDER, read_recorded
from tests.support.programs import need_program
from tests.support.tried import Tried

READ = (
    "go/binds-its-assertions go/makes-a-table-of-two-inputs javascript/runs-a-test-on-unix"
    " python/equals-everything rust/says-that-it-panics"
)
"""Of the corpus: what runs does not change the answer."""
CASES = [
    *sorted((Path(__file__).parent / "cases").glob("*/*.change")),
    *(FOLDER / f"{name}.change" for name in READ.split()),
]
COMMANDS = {"go": GO, "javascript": NODE, "python": PYTEST, "rust": "cargo test --offline"}
RUST = {name: os.environ[name] for name in ("RUSTUP_HOME", "CARGO_HOME") if name in os.environ}


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_change_is_judged_as_expected(tried: Tried, path: Path) -> None:
    case = read_recorded(path)
    command = COMMANDS[case.language]
    need_program(command.split()[0])
    before = {name: data.decode() for name, data in case.before.items()}
    after = {name: data.decode() for name, data in case.after.items()}
    home = {"RUSTUP_HOME": str(Path.home() / ".rustup"), **RUST}
    with tried(before, after, commands=(command,), **home) as (subject, trial_checkout):
        found = prove(subject, trial_checkout)
    if case.honest:
        assert not found.failing, found.evidence
    else:
        expected = {flag for flag, _ in (*case.expect, *case.running)}
        assert found.failing >= expected, found.evidence
