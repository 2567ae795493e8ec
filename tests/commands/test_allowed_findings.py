"""What authors say to findings, and whose word counts."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gitlab_nightshift.commands.allowed_findings import (
    Allowance,
    apply_allowances,
    read_allowances,
    read_description,
)
from gitlab_nightshift.demo.standin_state import StandinMergeRequest, User
from gitlab_nightshift.records.verdicts import Finding
from gitlab_nightshift.settings.model import Settings
from tests.support.standin import FullStandin
from tests.support.standin_records import FullProject
from tests.support.tables import each

TOKEN = "glpat-secret-token-0001"
LINE = "nightshift: allow test-deleted because the importer is gone"
FOUND = Finding("test-deleted", "fail", "tests/test_import.py", 3, "test_import is gone.")


@each(
    "text, flags",
    [
        (LINE, ["test-deleted"]),
        (f"Remove it\n\n- {LINE}\n> {LINE}\n", ["test-deleted", "test-deleted"]),
        ("nightshift: allow test-deleted", []),
        ("nightshift: allow test-deleted because ", []),
        (f"we do not write {LINE}", []),
    ],
)
def test_lines_are_read(text: str, flags: list[str]) -> None:
    assert [each.flag for each in read_allowances(text, "commit 1")] == flags


def test_a_reason_is_short_and_steers_no_terminal() -> None:
    [said] = read_allowances(f"{LINE} \x1b[2J\u202e{'x' * 999}", "commit 1")
    assert said.reason.isprintable()
    assert len(said.reason) == 200


@each("confirmed, level", [(True, "warn"), (False, "fail")])
def test_only_a_confirmed_line_lowers_a_finding(confirmed: bool, level: str) -> None:
    other = Finding("test-skipped", "fail", "tests/test_import.py", 9, "A test is skipped.")
    said = Allowance("test-deleted", "it is meant", "commit 1", confirmed)
    first, second = apply_allowances([FOUND, other], [said])
    assert (first.level, second) == (level, other)
    assert "Allowed because it is meant (commit 1" in first.detail
    assert ("not confirmed" in first.detail) is not confirmed


@dataclass
class Scene:
    gitlab: FullStandin
    project: FullProject
    author: User

    def read(self, branch: str = "remove-importer", **env: str) -> list[Allowance]:
        """What is read of a merge request that the author opened from this branch."""
        request = StandinMergeRequest(
            id=1,
            iid=1,
            web_url=f"{self.gitlab.url}/team/app/-/merge_requests/1",
            title="Remove",
            author=self.author,
            source_branch=branch,
            target_branch="main",
            description=LINE,
        )
        self.project.merge_requests[:] = [request]
        job = {
            "CI_MERGE_REQUEST_DESCRIPTION": LINE,
            "CI_MERGE_REQUEST_IID": str(request.iid),
            "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": "remove-importer",
            "CI_PROJECT_ID": str(self.project.id),
            "CI_SERVER_URL": self.gitlab.url,
            "GITLAB_TOKEN": TOKEN,
        }
        return list(read_description({**job, **env}, Settings()))


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with FullStandin(tmp_path / "gitlab") as gitlab:
        gitlab.add_token(TOKEN, gitlab.add_user("reader", "Reader"))
        project = gitlab.add_project("team/app")
        yield Scene(gitlab, project, gitlab.add_user("ada", "Ada"))


@each("level, confirmed", [(30, True), (50, True), (20, False), (0, False)])
def test_a_developers_description_counts(scene: Scene, level: int, confirmed: bool) -> None:
    scene.project.members[scene.author.id] = level
    assert [each.confirmed for each in scene.read()] == [confirmed]


def test_a_bot_confirms_nothing(scene: Scene) -> None:
    scene.author = scene.gitlab.add_user("night-bot", "Night Shift", bot=True)
    scene.project.members[scene.author.id] = 40
    assert [each.confirmed for each in scene.read()] == [False]


@each("branch", ["night-shift/tests", "nightshift/4711"])
def test_a_nights_branch_confirms_nothing_whatever_the_job_says(scene: Scene, branch: str) -> None:
    scene.project.members[scene.author.id] = 40
    assert [each.confirmed for each in scene.read(branch)] == [False]
    assert scene.read(branch, CI_MERGE_REQUEST_SOURCE_BRANCH_NAME=branch) == []


@each(
    "env",
    [
        {"GITLAB_TOKEN": ""},
        {"GITLAB_TOKEN": "glpat-unknown"},
        {"CI_MERGE_REQUEST_IID": "1/../2"},
        {"CI_MERGE_REQUEST_IID": "9" * 5000},
    ],
)
def test_without_an_answer_a_line_is_shown_alone(scene: Scene, env: dict[str, str]) -> None:
    scene.project.members[scene.author.id] = 40
    assert [each.confirmed for each in scene.read(**env)] == [False]
