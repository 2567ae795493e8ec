"""Any bundle is refused in one line, or it is the change that was verified."""

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.job.job_facts import read_job
from gitlab_nightshift.records.products import Plan, Publication
from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.records.storage import read_record, to_json
from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.repository.bundle_reader import RebuildTask, build_answer
from gitlab_nightshift.repository.capture import MAX_CHANGE_BYTES, MAX_FILE_BYTES
from gitlab_nightshift.repository.git import build_isolated_git, find_repository_paths
from gitlab_nightshift.repository.private_repository import (
    Repository,
    create_private_repository,
    list_diff_files,
)
from gitlab_nightshift.repository.rebuilt_change import LARGEST_LINE, read_answer, write_change
from gitlab_nightshift.settings.load import build_settings
from gitlab_nightshift.stages.publish.bundle_check import (
    build_publish_error,
    check_bundle,
    check_claims,
    check_policy,
    read_bundle_files,
)
from gitlab_nightshift.stages.publish.publish_stage import clean_record
from tests.attacks.text_places import bundle
from tests.fuzz.strategies import json_of, places_in, spoiled, spoiled_bytes, steady
from tests.repository.tools import commit, git, repository, write

FILES: dict[str, str | bytes] = {
    "shop.py": "one\ntwo\nthree\n",
    "logo.bin": bytes(range(256)) * 4,
    "run.sh": "#!/bin/sh\n",
}
REFUSED = {Code.PARSE_ERROR, Code.CONFIG, Code.PUBLISH, Code.POLICY_DENY}
SETTINGS = build_settings({})
WORDS = frozenset(
    name for place in places_in(json.loads(to_json(bundle("x")))) for name in place if name
)


class Real:
    """A repository, and a bundle with an honest change of it."""

    def __init__(self, folder: Path) -> None:
        self.base = repository(folder / "shop", FILES)
        write(folder / "shop", "shop.py", "one\ntwo\nand a half\nthree\n")
        write(folder / "shop", "logo.bin", bytes(range(256)) * 4 + b"more\n")
        (folder / "shop/run.sh").chmod(0o755)
        git(folder / "shop", "add", "-A")
        self.tree = git(folder / "shop", "write-tree")
        self.patch = (git(folder / "shop", "diff", "--cached", "--binary", "--full-index")).encode()
        self.patch += b"\n\n"
        commit(folder / "shop")
        tool = build_isolated_git(folder / "home", os.environ["PATH"])
        there = find_repository_paths(tool, folder / "shop")
        self.repository: Repository = create_private_repository(tool, folder / "private", there)
        self.task = RebuildTask(
            folder=Path(),
            objects=(),
            object_format="",
            attributes=b"",
            config={},
            base=self.base,
            ci_config="",
            search_path="",
            sizes=(0, 0),
            largest=(LARGEST_LINE, MAX_FILE_BYTES, MAX_CHANGE_BYTES),
        )
        self.data = json.loads(to_json(bundle("words")))
        self.data |= {"base_sha": self.base, "created_at": "2026-11-16T01:23:45+00:00"}
        self.data["category_used"] = "tests"
        files = list_diff_files(self.repository, self.base, self.tree)
        self.data["proposal"]["change"] = {
            "tree_id": self.tree,
            "files": [file.path for file in files],
            "added": sum(file.added for file in files),
            "deleted": sum(file.deleted for file in files),
        }
        self.folder = folder / "bundle"
        self.folder.mkdir()

    def accepted(self, data: Any, patch: bytes) -> bool:
        """Whether publish would go on. Anything but a NightshiftError fails the test."""
        raw = data if isinstance(data, bytes) else json.dumps(data).encode()
        (self.folder / "bundle.json").write_bytes(raw)
        (self.folder / "change.patch").write_bytes(patch)
        try:
            files = read_bundle_files(self.folder)
            assert isinstance(files.patch, bytes)
            answer, blobs = build_answer(self.repository, self.task, files.bundle, files.patch)
            lines = (json.dumps(part).encode() for part in ({"ci": ()}, answer))
            told = read_answer(b"\n".join((*lines, b"".join(blobs))), files.path)
            now = datetime(2026, 11, 17, tzinfo=UTC)
            proposal = check_bundle(told.bundle, SETTINGS, base=self.base, target="main", now=now)
            clean_record(told.bundle, Redactor(("hunter2",)))
            if told.refused:
                raise build_publish_error(told.refused)
            check_claims(proposal, told.tree, told.files)
            check_policy(
                told.files,
                told.tool_settings,
                SETTINGS,
                (),
                read_job({}).ci_config_path,
            )
            write_change(self.repository, told, self.base)
        except NightshiftError as error:
            assert error.code in REFUSED and "\n" not in error.message, error.message
            return False
        assert proposal.change.tree_id == self.tree
        return True


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    yield Real(tmp_path_factory.mktemp("real"))


def test_the_honest_bundle_is_accepted(real: Real) -> None:
    assert real.accepted(real.data, real.patch)


@steady(30)
@given(data=json_of(WORDS) | st.binary(max_size=100) | st.text().map(str.encode))
def test_any_json_is_refused(real: Real, data: Any) -> None:
    assert not real.accepted(data, real.patch)
    versioned = {"version": 2, **data} if isinstance(data, dict) else data
    assert not real.accepted(versioned, real.patch)


@steady(20)
@given(data=st.data())
def test_a_bundle_with_other_values(real: Real, data: st.DataObject) -> None:
    real.accepted(data.draw(spoiled(real.data, WORDS)), real.patch)


@steady(25)
@given(data=st.data())
def test_a_bundle_with_other_bytes(real: Real, data: st.DataObject) -> None:
    real.accepted(data.draw(spoiled_bytes(json.dumps(real.data).encode())), real.patch)


@steady(15)
@given(data=st.data())
def test_a_patch_with_other_bytes(real: Real, data: st.DataObject) -> None:
    real.accepted(real.data, data.draw(spoiled_bytes(real.patch)))


@steady(40)
@given(kind=st.sampled_from([Plan, Publication, RunResult]), data=json_of(WORDS))
def test_other_records_are_refused_in_one_line(real: Real, kind: Any, data: Any) -> None:
    file = real.folder / "record.json"
    versioned = {"version": kind.version, **data} if isinstance(data, dict) else data
    file.write_text(json.dumps(versioned))
    with pytest.raises(NightshiftError) as raised:
        read_record(kind, file)
    assert raised.value.code is Code.PARSE_ERROR and "\n" not in raised.value.message
