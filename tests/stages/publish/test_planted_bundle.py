"""Code that a bundle has planted in the process that reads it: what it says is a hostile record, as
the bundle is."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.records.products import Outcome
from gitlab_nightshift.repository import rebuilt_change
from gitlab_nightshift.sandbox import stage_process
from gitlab_nightshift.sandbox.process_table import BUNDLE_READER
from gitlab_nightshift.system.processes import list_own_children
from tests.support.stages import real_start
from tests.support.trees import wait_for

from .conftest import TEST_SHOP, Night, add_a_test, git

PLANTED = dataclasses.replace(BUNDLE_READER, module="tests.support.planted")


@pytest.fixture(autouse=True)
def _planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuilt_change, "BUNDLE_READER", PLANTED)


def plant(night: Night, way: str, **more: Any) -> None:
    file = night.bundle_folder / "bundle.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "planted": way, **more}))


def failure(night: Night, code: Code = Code.PUBLISH) -> str:
    """It fails before GitLab is asked anything."""
    night.gitlab.requests.clear()
    with pytest.raises(NightshiftError) as raised:
        night.publish()
    assert raised.value.code is code, raised.value.message
    assert "\n" not in raised.value.message
    assert night.asked() == []
    assert list(night.private.iterdir()) == [night.private / "home"]
    return raised.value.message


def row(path: str, mode: str, blob: str, status: str = "A") -> tuple[str, str, str, str, int, int]:
    return (os.fsencode(path).hex(), status, mode, blob, 1, 0)


def agree(night: Night, *paths: str) -> None:
    """The bundle says of itself what the code will say."""
    file = night.bundle_folder / "bundle.json"
    data = json.loads(file.read_text())
    data["proposal"]["change"] |= {"files": paths, "added": len(paths), "deleted": 0}
    file.write_text(json.dumps(data))


def test_names_and_modes_are_judged_here(night: Night) -> None:
    """Code and bundle say the same."""
    blob = git(night.world.checkout, "rev-parse", "HEAD:shop.py")
    for path, mode, code, words in (
        (".git/hooks/pre-push", "100755", Code.PUBLISH, "git cannot make a tree of these files"),
        ("a/../../b", "100644", Code.PUBLISH, "git cannot make a tree of these files"),
        ("link", "120000", Code.POLICY_DENY, "is a symbolic link or a submodule"),
        ("package-lock.json", "100644", Code.POLICY_DENY, "package-lock.json"),
        ("ruff.toml", "100644", Code.POLICY_DENY, "ruff.toml contains tool settings"),
        ("other.py", "100644", Code.PUBLISH, "its files give a different tree"),
    ):
        agree(night, path)
        plant(night, "say", say={"files": [row(path, mode, blob)]})
        assert words in failure(night, code), path


def test_a_file_that_is_not_declared(night: Night) -> None:
    blob = git(night.world.checkout, "rev-parse", "HEAD:shop.py")
    files = [row(TEST_SHOP, "100644", blob, "M"), row("more.py", "100644", blob)]
    plant(night, "say", say={"files": files})
    assert "its list of files or lines is not git's" in failure(night)
    agree(night, TEST_SHOP)
    plant(night, "say", say={"files": files[:1]})
    assert "its files give a different tree" in failure(night)


def test_pipeline_files_are_known_before_it_runs(night: Night) -> None:
    """The code cannot undo the base's ``include``, and may not say so: the tree needs an
    approval."""
    night.on_main(include_build_file)
    git(night.world.checkout, "fetch", "-q", "--depth=1", str(night.project.bare_repository))
    base = git(night.world.checkout, "rev-parse", "FETCH_HEAD")
    night.world.sha = base
    bundle = night.make(build_file, base_sha=base)
    plant(night, "say", say={"ci": []})
    job = dataclasses.replace(night.job, commit_sha=base)
    with pytest.raises(NightshiftError, match="its answer is invalid"):
        night.publish(job=job)
    plant(night, "say", say={})
    published = night.publish(job=job)
    assert published.outcome is Outcome.APPROVAL_REQUIRED
    assert "ci/build.yml is pipeline configuration" in published.reason
    assert bundle.proposal


def include_build_file(top: Path) -> None:
    (top / ".gitlab-ci.yml").write_text("include: ci/build.yml\n")


def build_file(top: Path) -> None:
    (top / "ci").mkdir()
    (top / "ci/build.yml").write_text("build: {script: [make]}\n")


def test_an_invalid_answer_is_refused(night: Night) -> None:
    blob = "1" * 40
    change = {"tree": blob, "files": [], "sizes": [], "settings": []}
    for answer in (
        b"",
        b"{}\n",
        b"\xff\n\xff\n",
        b"[" * 100_000 + b"\n",
        b'{"ci": []}\n',
        b'{"ci": []}\n[]\n',
        line(bundle=night_bundle(night), change=None),
        line(bundle=night_bundle(night), change={**change, "tree": "HEAD"}),
        line(bundle=night_bundle(night), change={**change, "sizes": [10**20]}),
        line(bundle=night_bundle(night), change={**change, "sizes": [-1]}),
        line(bundle=night_bundle(night), change={**change, "settings": [["61", "x" * 501]]}),
        line(bundle=night_bundle(night), change={**change, "settings": [["00", "x"]]}),
        line(bundle=night_bundle(night), change={**change, "settings": {}}),
        line(bundle=night_bundle(night), change={**change, "files": [["00", "A", "100644"]]}),
        line(bundle=night_bundle(night), change={**change, "files": [row("a\0b", "100644", blob)]}),
        line(bundle=night_bundle(night), change={**change, "files": [row("a", "100644", "-x")]}),
        line(bundle=night_bundle(night), change={**change, "files": [row("a", "0", blob)]}),
        line(bundle=night_bundle(night), change=change) + b"more",
    ):
        with pytest.raises(NightshiftError) as raised:
            rebuilt_change.read_answer(b'{"ci": []}\n' + answer, "bundle.json")
        assert raised.value.code in (Code.PUBLISH, Code.PARSE_ERROR), answer
        assert "\n" not in raised.value.message
    plant(night, "print_bytes", bytes=b"{}\n".hex())
    assert "can be used" in failure(night, Code.PARSE_ERROR)


def line(**parts: Any) -> bytes:
    return json.dumps(parts).encode() + b"\n"


def night_bundle(night: Night) -> Any:
    return json.loads((night.bundle_folder / "bundle.json").read_text())


def test_a_reader_that_fails_is_reported(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_process, "start_stage", real_start)  # a fork has no limits
    for way, words in (
        ("die", "it ended with exit status -9"),
        ("grow", "it ended with exit status"),
        ("flood", "it was ended: output limit"),
    ):
        plant(night, way)
        assert words in failure(night), way
    hasty = dataclasses.replace(PLANTED, wall_s=1.0)
    monkeypatch.setattr(rebuilt_change, "BUNDLE_READER", hasty)
    plant(night, "hang")
    assert "it was ended: timeout" in failure(night)


def test_nothing_of_it_stays(night: Night) -> None:
    plant(night, "stay")
    before = list_own_children()
    assert night.publish().outcome is Outcome.MR_CREATED
    # The stand-in's git may need a moment after its answer; what was planted would stay for good.
    wait_for(lambda: list_own_children() <= before, "all children to end")


def skip_tests(top: Path) -> None:
    (top / "Makefile").write_text("test:\n\ttrue\n")


def test_a_quiet_bundle_and_an_honest_one(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real process, as the program starts it."""
    monkeypatch.undo()
    monkeypatch.setattr(stage_process, "start_stage", real_start)
    assert night.publish().outcome is Outcome.MR_CREATED
    night.make(add_a_test, outcome=Outcome.NO_IMPROVEMENT)
    assert night.publish().outcome is Outcome.NO_IMPROVEMENT
    night.make(skip_tests)
    assert "Makefile contains tool settings (test:)" in failure(night, Code.POLICY_DENY)
