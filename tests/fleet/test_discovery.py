"""A fleet's projects, found in pages of a GitLab that counts how complex a query is."""

from pathlib import Path

import pytest

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.fleet.discovery import (
    discover,
    discover_all,
    includes_template,
    read_night_settings,
)
from gitlab_nightshift.fleet.fleet_settings import FleetFile, read_fleet_file
from gitlab_nightshift.gitlab import fleet_api
from gitlab_nightshift.gitlab.api_error import ApiError
from gitlab_nightshift.records.fleet_records import NightSettings
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.settings.notations import WEEKDAYS
from tests.fleet.conftest import connect
from tests.support import graphql_nodes
from tests.support.fleet_standin import ACCOUNT, FleetStandin
from tests.support.standin_records import FullProject


def read(tmp_path: Path, text: str) -> FleetFile:
    path = tmp_path / "fleet.yaml"
    path.write_text(f"{text}budget: {{night_usd: 50}}\n")
    return read_fleet_file(path)


def test_projects_of_groups_and_lists_are_found_each_once(
    gitlab: FleetStandin, tmp_path: Path
) -> None:
    gitlab.add_fleet("acme", 230)
    gitlab.add_fleet("other", 3)
    gitlab.add_past_nights(2)
    file = read(tmp_path, "groups: [acme]\nprojects: [other/team-0/project-1]\n")
    found = discover(connect(gitlab), file.settings)
    assert found.account == ACCOUNT
    assert len(found.projects) == len({each.id for each in found.projects}) == 231
    one = found.projects[0]
    assert (len(one.nights), one.set_up, one.empty, one.branch) == (2, True, False, "main")
    assert one.settings.limit_usd == 2
    assert one.nights[0].created > one.nights[1].created
    assert len([each for each in gitlab.requests if each.path == "/api/graphql"]) == 4


def test_topics_and_patterns_choose_among_a_groups_projects(
    gitlab: FleetStandin, tmp_path: Path
) -> None:
    for name, topics in (("a/api", ["x"]), ("b/api", []), ("c/web", ["x"]), ("old/api", ["x"])):
        gitlab.add_light_project(f"acme/{name}", topics=topics)
    file = read(tmp_path, "groups: [acme]\ntopics: [x]\ninclude: [api]\nexclude: [acme/old]\n")
    found = discover(connect(gitlab), file.settings)
    assert [each.path for each in found.projects] == ["acme/a/api"]


def test_all_missing_groups_and_projects_are_named_with_their_lines(
    gitlab: FleetStandin, tmp_path: Path
) -> None:
    gitlab.add_fleet("acme", 1)
    file = read(tmp_path, "groups:\n- acme\n- gone\nprojects:\n- acme2/none\n")
    with pytest.raises(NightshiftError) as caught:
        discover_all(connect(gitlab), file)
    why = "does not exist, or this token does not see it"
    assert caught.value.lines == [
        f"fleet.yaml:3: groups: gone: {why}",
        f"fleet.yaml:5: projects: acme2/none: {why}",
    ]


def test_a_field_that_an_older_gitlab_does_not_have_is_left_out(
    gitlab: FleetStandin, tmp_path: Path
) -> None:
    gitlab.add_fleet("acme", 1)
    why = [{"message": "Field 'isForked' doesn't exist on type 'Project'"}]
    gitlab.fail_next("POST", "graphql", 200, {"errors": why})
    found = discover(connect(gitlab), read(tmp_path, "groups: [acme]\n").settings)
    assert [each.forked for each in found.projects] == [None]
    assert found.unknown == ("which projects are forks",)


def test_a_page_that_takes_too_long_is_requested_in_smaller_ones(
    gitlab: FleetStandin, tmp_path: Path
) -> None:
    gitlab.add_fleet("acme", 60)
    why = [{"message": "Timeout on Project.repository"}]
    gitlab.fail_next("POST", "graphql", 200, {"errors": why})
    found = discover(connect(gitlab), read(tmp_path, "groups: [acme]\n").settings)
    assert len(found.projects) == 60
    bodies = [each.body for each in gitlab.requests if each.path == "/api/graphql" and each.body]
    assert [each["variables"]["first"] for each in bodies] == [50, 50]


def test_a_query_that_is_too_complex_is_refused(
    gitlab: FleetStandin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stand-in counts as GitLab does: what passes here is below the limit."""
    gitlab.add_fleet("acme", 1)
    more = " ".join(f"n{n}: pipelines(first: 100) {{ nodes {{ id }} }}" for n in range(9))
    monkeypatch.setattr(fleet_api, "OPTIONAL_FIELDS", (more,))
    with pytest.raises(ApiError, match="exceeds max complexity of 250"):
        discover(connect(gitlab), read(tmp_path, "groups: [acme]\n").settings)


def test_an_error_in_one_project_is_reported_for_that_project(
    gitlab: FleetStandin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gitlab.add_fleet("acme", 3)
    real = graphql_nodes.show_repository

    def fail_for_one(project: FullProject) -> object:
        if project.path.endswith("project-1"):
            raise RuntimeError("4:Deadline Exceeded")
        return real(project)

    monkeypatch.setattr(graphql_nodes, "show_repository", fail_for_one)
    found = discover(connect(gitlab), read(tmp_path, "groups: [acme]\n").settings)
    assert [each.settings.error for each in found.projects] == [
        "",
        "GitLab could not show it: 4:Deadline Exceeded",
        "",
    ]


def test_an_error_in_the_whole_page_is_raised(gitlab: FleetStandin, tmp_path: Path) -> None:
    gitlab.add_fleet("acme", 3)
    answer = {"data": {"group": None}, "errors": [{"message": "boom", "path": ["group"]}]}
    gitlab.fail_next("POST", "graphql", 200, answer)
    with pytest.raises(ApiError, match="refused the query: boom"):
        discover(connect(gitlab), read(tmp_path, "groups: [acme]\n").settings)


def test_refusals_and_lost_answers_are_repeated(gitlab: FleetStandin, tmp_path: Path) -> None:
    gitlab.add_fleet("acme", 500)
    gitlab.failing = 0.3
    found = discover(connect(gitlab), read(tmp_path, "groups: [acme]\n").settings)
    assert len(found.projects) == 500


def test_defaults_are_those_of_a_nights_own_settings() -> None:
    settings, found = Settings(), NightSettings()
    assert (found.limit_usd, found.output_dir, found.max_open, found.weekdays, found.timezone) == (
        settings.max_budget_usd,
        settings.output_dir,
        settings.max_open_mrs.total,
        tuple(settings.category_schedule),
        settings.timezone,
    )


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (None, NightSettings()),
        ("", NightSettings(found=True)),
        ("[1]", NightSettings(found=True)),
        ("a: [", NightSettings(found=True, error="its nightshift.yaml is not YAML")),
        ("enabled: false", NightSettings(found=True, enabled=False)),
        ("enabled: off", NightSettings(found=True, enabled=False)),
        ("code_agent: {max_budget_usd: 3}", NightSettings(found=True, limit_usd=3.0)),
        ("max_budget_usd: -1", NightSettings(found=True)),
        ("max_budget_usd: true", NightSettings(found=True)),
        ("labels: [robot]", NightSettings(found=True, labels=("robot",))),
        (
            "reviewer: '@rita'\nreviewers: [ada]",
            NightSettings(found=True, reviewers=("rita", "ada")),
        ),
        ("max_open_mrs: {total: 9}", NightSettings(found=True, max_open=9)),
        (
            "category_schedule: {Monday: tests, sat: docs}",
            NightSettings(found=True, weekdays=("mon", "sat")),
        ),
        ("category: docs", NightSettings(found=True, weekdays=WEEKDAYS)),
    ],
)
def test_the_settings_that_a_fleet_needs_are_read(text: str | None, wanted: NightSettings) -> None:
    """The night itself checks them all."""
    assert read_night_settings(text) == wanted


@pytest.mark.parametrize(
    ("text", "included"),
    [
        ("include:\n  - project: acme/tools\n    file: /ci/templates/.gitlab-ci.yml\n", True),
        ("include:\n  - component: $CI_SERVER_FQDN/a/gitlab-nightshift/nightshift@1\n", True),
        ("unit:\n  script: [make test]\n", False),
    ],
)
def test_a_projects_include_of_the_template_is_seen(text: str, included: bool) -> None:
    assert includes_template(text) is included
