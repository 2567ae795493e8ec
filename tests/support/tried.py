"""A change in a real checkout, and a tree runner to try it in."""

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from gitlab_nightshift.proof.evidence.evidence_records import EvidenceSubject
from gitlab_nightshift.proof.proof_commands import Runner
from gitlab_nightshift.proof.reviewed_change import Context, read_change
from gitlab_nightshift.proof.running.trial import TrialCheckout
from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.repository.checkout import open_checkout
from gitlab_nightshift.repository.tree_objects import write_tree_with_files
from gitlab_nightshift.sandbox.process import ProcessLimits
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.system.raw_logs import build_logs
from tests.repository.tools import remove_all, repository

Files = Mapping[str, str]
GO_CACHE = os.environ.get("GOCACHE") or str(Path.home() / ".cache/go-build")
LIGHT = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "GOCACHE": GO_CACHE}
"""Half of the time in which pytest starts here is that of plugins which no trial uses; Go would
compile its own library anew in each home."""
NO_LIMITS = ProcessLimits()
Tried = Callable[..., contextlib.AbstractContextManager[tuple[EvidenceSubject, TrialCheckout]]]


@pytest.fixture
def tried(tmp_path: Path) -> Iterator[Tried]:
    """``with tried(before, after) as (subject, trial_checkout)``: ``after`` are changed files."""

    numbers = itertools.count()

    @contextlib.contextmanager
    def opened(
        before: Files,
        after: Mapping[str, str | None],
        *,
        category: str = "tests",
        selected: tuple[str, ...] = (),
        claim: str = "",
        commands: tuple[str, ...] = (),
        by_people: bool = False,
        limits: ProcessLimits = NO_LIMITS,
        **more_env: str,
    ) -> Iterator[tuple[EvidenceSubject, TrialCheckout]]:
        folder = tmp_path / str(next(numbers))
        root = folder / "builds" / "shop"
        base = repository(root, before)
        private, scratch = (folder / name for name in ("private", "scratch"))
        for folder in (private, scratch):
            folder.mkdir(mode=0o700)
        with open_checkout(
            root,
            output_dir="nightshift",
            private=private,
            search_path=os.environ["PATH"],
            run_id="4711",
            warn=print,
        ) as checkout:
            files = {path: None if text is None else text.encode() for path, text in after.items()}
            tree = write_tree_with_files(checkout.repository, base, files)
            context = Context(Settings(), category, selected, by_people=by_people)
            change = read_change(checkout.repository, base, tree)
            env = {"PATH": os.environ["PATH"], "HOME": str(scratch / "home"), **LIGHT, **more_env}
            logs = build_logs(private, Redactor(()))
            runner = Runner(root, env, scratch, logs, lambda: limits, lambda _event: None)
            runner.renew()
            trial_checkout = TrialCheckout(
                checkout, runner, commands, "evidence", time.monotonic() + 3600
            )
            yield EvidenceSubject(base, tree, change, context, claim), trial_checkout

    yield opened
    remove_all(tmp_path)
