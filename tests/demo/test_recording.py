"""The demo's recording: it can be made again, and what its agents claim is true."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.demo.demo_night import HISTORY, RECORDING, open_demo
from tests.demo.record_night import unpaced
from tests.support import warm
from tests.support.standin import open_full_demo
from tests.support.standin_records import as_full
from tests.support.world import FEW_FAULTS, Done, ended

LIMIT = "if subtotal >= FREE_FROM"
MUTANTS = {
    "free above 50.00 only": (LIMIT, "if subtotal > FREE_FROM"),
    "free from a cent less": ('FREE_FROM = Decimal("50.00")', 'FREE_FROM = Decimal("49.99")'),
    "free from a cent more": ('FREE_FROM = Decimal("50.00")', 'FREE_FROM = Decimal("50.01")'),
    "limits excluded": ("grams <= limit", "grams < limit"),
    "500 g a gram less": ("((500,", "((499,"),
    "500 g a gram more": ("((500,", "((501,"),
    "2 kg a gram less": ("(2_000,", "(1_999,"),
    "2 kg a gram more": ("(2_000,", "(2_001,"),
    "10 kg a gram less": ("(10_000,", "(9_999,"),
    "10 kg a gram more": ("(10_000,", "(10_001,"),
}
FREE_ABROAD = ('if country != "DE":', 'if country != "DE" and subtotal < FREE_FROM:')
WRONG_PRICE = ('(10_000, Decimal("8.90"))', '(10_000, Decimal("8.95"))')


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample")
    for arguments in (["init", "-q"], ["fast-import", "--quiet", "--done"], ["checkout", "main"]):
        subprocess.run(
            ["git", *arguments],
            cwd=folder,
            input=HISTORY.read_bytes() if arguments[0] == "fast-import" else b"",
            capture_output=True,
            check=True,
        )
    return folder


Case = tuple[int, tuple[str, str] | None]
"""An attempt of the recording (0: none) and a mutation of the code."""
SUITES = """
import os, sys, unittest

for folder in sys.argv[1:]:
    print(folder, file=sys.stderr, flush=True)
    if os.fork() == 0:
        os.chdir(folder)
        sys.path.insert(0, folder)
        unittest.main(None, argv=["unittest"])
    os.wait()
"""


def prepared(sample: Path, folder: Path, case: Case) -> Path:
    attempt, mutation = case
    shutil.copytree(sample, folder, ignore=shutil.ignore_patterns(".git", "__pycache__"))
    if attempt:
        change = RECORDING / f"implement-tests-{attempt}" / "files"
        shutil.copytree(change, folder, dirs_exist_ok=True)
    if mutation:
        code = folder / "basket" / "shipping.py"
        old, new = mutation
        assert code.read_text().count(old) == 1
        code.write_text(code.read_text().replace(old, new))
    return folder


def results(sample: Path, folder: Path, cases: Mapping[str, Case]) -> dict[str, tuple[bool, int]]:
    """Whether the tests of each case pass, and how many ran: what ``make test`` runs, forked."""
    assert (sample / "Makefile").read_text().endswith("\tpython3 -m unittest\n")
    folders = [prepared(sample, folder / name, case) for name, case in cases.items()]
    command = [sys.executable, "-B", "-c", SUITES, *map(str, folders)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    found = {}
    for name, place in zip(cases, folders, strict=True):
        output = output.partition(f"{place}\n")[2]
        own = output.partition(f"\n{folder}/")[0]
        ran = re.search(r"Ran (\d+) tests", own)
        assert ran, own
        found[name] = (own.rstrip().endswith("OK"), int(ran[1]))
    return found


def test_the_sample_and_both_attempts_pass(sample: Path, tmp_path: Path) -> None:
    cases: dict[str, Case] = {str(attempt): (attempt, None) for attempt in (0, 1, 2)}
    found = results(sample, tmp_path, cases)
    assert found == {"0": (True, 21), "1": (True, 24), "2": (True, 25)}
    done = subprocess.run(["make", "test"], cwd=tmp_path / "2", capture_output=True, check=True)
    assert b"Ran 25 tests" in done.stderr


def test_a_limit_that_moves_fails_a_test_now_and_did_not_before(
    sample: Path, tmp_path: Path
) -> None:
    before = results(sample, tmp_path / "0", {name: (0, each) for name, each in MUTANTS.items()})
    now = results(sample, tmp_path / "2", {name: (2, each) for name, each in MUTANTS.items()})
    assert before == dict.fromkeys(MUTANTS, (True, 21))
    assert now == dict.fromkeys(MUTANTS, (False, 25))


def test_what_verify_says_of_the_first_attempt_is_true(sample: Path, tmp_path: Path) -> None:
    cases: dict[str, Case] = {
        "limit": (1, MUTANTS["free above 50.00 only"]),
        "price": (1, WRONG_PRICE),
    }
    assert results(sample, tmp_path, cases) == dict.fromkeys(cases, (True, 24))


def test_other_countries_never_ship_free(sample: Path, tmp_path: Path) -> None:
    found = results(sample, tmp_path, {str(n): (n, FREE_ABROAD) for n in (0, 1, 2)})
    assert [passed for passed, _ in found.values()] == [True, False, False]


def test_the_history_lets_the_change_through(sample: Path) -> None:
    """The changed file is old enough, the refused candidates are recent, as the analysis says."""
    walk = ["log", "--first-parent", "--diff-merges=first-parent", "--min-parents=1", "-10"]
    shown = subprocess.run(
        ["git", *walk, "--name-only", "--format="],
        cwd=sample,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert "tests/test_shipping.py" not in shown
    assert {"basket/receipt.py", "tests/test_receipt.py"} <= set(shown)


def test_a_recorded_night_can_be_recorded_again(tmp_path: Path) -> None:
    """Replaying and recording are each other's reverse, wherever the checkout is."""
    recording, again = unpaced(tmp_path / "recording"), tmp_path / "again"
    with open_full_demo(tmp_path, {"PATH": os.environ["PATH"]}) as demo:
        env = {
            **demo.env,
            "NIGHTSHIFT_REPLAY_DIR": str(recording),
            "NIGHTSHIFT_RECORD_DIR": str(again),
        }
        assert _run(env, demo.checkout).exit_status == 0
        assert len(demo.project.merge_requests) == 1
        assert [push.ref for push in as_full(demo.project).pushes] == [
            "refs/heads/night-shift/test-shipping-limits"
        ]
    assert _recorded(again) == _recorded(recording)


def _run(env: Mapping[str, str], checkout: Path) -> Done:
    """All that its tests are worth is shown in ``test_demo_night.py``."""
    env = {**env, "no_proxy": "127.0.0.1"}
    return ended(warm.start(["run"], cwd=checkout, env=env, before=FEW_FAULTS))


def _recorded(folder: Path) -> dict[str, Any]:
    beads = {path.parent.name: json.loads(path.read_bytes()) for path in folder.glob("*/bead.json")}
    files = (path for path in folder.glob("*/**/*") if path.is_file() and path.name != "bead.json")
    return {**beads, **{str(path.relative_to(folder)): path.read_bytes() for path in files}}


def test_a_night_is_not_recorded_over_something_else(tmp_path: Path) -> None:
    with open_demo(tmp_path, {"PATH": os.environ["PATH"]}) as demo:
        for folder in (demo.checkout / "basket", tmp_path / "mine"):
            folder.mkdir(exist_ok=True)
            kept = folder / "__init__.py"
            kept.write_text('"""Prices of a basket in the Harbour Books shop."""\n')
            done = _run({**demo.env, "NIGHTSHIFT_RECORD_DIR": str(folder)}, demo.checkout)
            assert kept.exists()
            result = json.loads((demo.checkout / "nightshift/result.json").read_text())
            assert done.exit_status == 2
            assert (result["error_code"], result["beads"]) == ("E_CONFIG", [])
            assert "record_dir" in result["reason"]
