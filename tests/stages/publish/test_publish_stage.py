"""A bundle becomes one branch, one commit and one merge request, however often it is published."""

import dataclasses
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import pytest

from gitlab_nightshift.demo.demo_night import Layout
from gitlab_nightshift.demo.standin_state import Credential
from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.gitlab.marker import read_marker
from gitlab_nightshift.job.job_facts import JobFacts
from gitlab_nightshift.records.events import Note
from gitlab_nightshift.records.products import Bundle as BundleRecord
from gitlab_nightshift.records.products import Outcome, Publication
from gitlab_nightshift.records.storage import read_record
from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.repository.git import CommitIdentity
from gitlab_nightshift.stages.publish import publish_stage
from gitlab_nightshift.stages.publish.publish_context import find_commit_date
from tests.support.trees import whole_tree
from tests.support.world import BOT_TOKEN, GO_ON, JOB_TOKEN, world

from .conftest import SLUG, TEST_SHOP, TITLE, Night, add_a_test, git

BRANCH = f"night-shift/{SLUG}"


def failure(night: Night, code: Code = Code.PUBLISH, **changes: object) -> str:
    """Publish, which fails; the message is one line and holds no token."""
    before = whole_tree(night.bundle_folder)
    with pytest.raises(NightshiftError) as raised:
        night.publish(**changes)
    assert raised.value.code is code, raised.value.message
    assert BOT_TOKEN not in raised.value.message
    assert "\n" not in raised.value.message
    assert whole_tree(night.bundle_folder) == before, "a failed publish keeps the bundle"
    return raised.value.message


@dataclass(frozen=True)
class Published:
    """A night's first publish from a shallow checkout, which several tests look at."""

    night: Night
    bundle: BundleRecord
    publication: Publication
    private: Path


@pytest.fixture(scope="module", params=get_args(Layout))
def first(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Published]:
    folder = tmp_path_factory.mktemp("first")
    with world(folder / "world", layout=request.param, depth=2) as shop:
        night = Night(shop, folder)
        bundle = night.make(add_a_test)
        shop.gitlab.credentials_seen.clear()
        yield Published(night, bundle, night.publish(), folder / "private")


def test_the_first_publish_opens_a_merge_request(first: Published) -> None:
    published, found = first.publication, first.night.merge_request
    assert published.outcome is Outcome.MR_CREATED
    assert (published.mr_url, published.mr_iid) == (found.web_url, 1)
    assert published.branch == found.source_branch == BRANCH
    assert published.title == found.title == f"[night-shift/tests] {TITLE}"
    assert published.warnings == ()
    assert (found.target_branch, found.remove_source_branch) == ("main", True)
    assert found.labels == ["night-shift", "tests"]
    assert [each.username for each in found.reviewers] == ["rita"]
    assert [each.username for each in found.assignees] == ["rita"]


def test_the_merge_request_names_its_run_and_pipeline(first: Published) -> None:
    found = first.night.merge_request
    marker = read_marker(found.description)
    assert marker and marker.run_id == "4711"
    assert f"({first.night.world.env['CI_PIPELINE_URL']})" in (found.description or "")


def test_the_branch_has_one_commit_of_the_verified_tree(first: Published) -> None:
    shop, commit = first.night.world, first.publication.commit_sha
    assert first.night.heads() == {"main": shop.sha, BRANCH: commit}
    assert first.bundle.proposal
    form = "--format=%P|%T|%an <%ae>|%cn <%ce>|%aI|%cI|%B"
    shown = git(shop.project.bare_repository, "show", "-s", form, commit)
    person, date = "Olga Owner <olga@example.org>", "2026-11-16T01:00:00+00:00"
    tree_id = first.bundle.proposal.change.tree_id
    message = f"{TITLE}\n\nIt had no test."
    assert shown.split("|") == [shop.sha, tree_id, person, person, date, date, message]
    pushes = [(each.ref, each.options) for each in shop.project.pushes]
    assert pushes == [(f"refs/heads/{BRANCH}", ())]


def test_publish_touches_no_checkout_and_leaves_no_token(first: Published) -> None:
    shop = first.night.world
    assert shop.tree() == shop.before, "nothing in the checkout was touched"
    assert Credential("basic", "oauth2", BOT_TOKEN) in shop.gitlab.credentials_seen
    assert JOB_TOKEN not in {each.secret for each in shop.gitlab.credentials_seen}
    left = [path for path in first.private.rglob("*") if path.is_file()]
    assert not [path for path in left if BOT_TOKEN.encode() in path.read_bytes()]
    assert [path.name for path in first.private.iterdir()] == ["home"]


@pytest.mark.parametrize("believed", [False, True])
def test_the_commits_date_is_not_the_bundles(
    night: Night, monkeypatch: pytest.MonkeyPatch, *, believed: bool
) -> None:
    """In a pipeline it is that one's beginning by GitLab's clock, else when the bundle was written
    here: the same each time. The control believes the bundle."""
    old, written = datetime(2001, 2, 3, tzinfo=UTC), 1_700_000_000
    night.make(add_a_test, created_at=old.isoformat())
    if believed:
        monkeypatch.setattr(publish_stage, "find_commit_date", lambda *_: old)
    job = dataclasses.replace(night.job, pipeline_created_at="")
    os.utime(night.bundle_folder / "bundle.json", (written, written))
    commit = night.publish(job=job).commit_sha
    shown = git(night.project.bare_repository, "show", "-s", "--format=%at %ct", commit)
    assert len(set(shown.split())) == 1
    assert int(shown.split()[0]) == (old.timestamp() if believed else written)


def test_a_commits_date_is_no_later_than_now(tmp_path: Path) -> None:
    (tmp_path / "bundle.json").touch()
    os.utime(tmp_path / "bundle.json", (1e11, 1e11))
    before, job = datetime.now(UTC), JobFacts()
    late = ("", "9999-01-01T00:00:00Z", "no time", "9999-12-31T23:59:59-14:00")
    for created in late:
        made = dataclasses.replace(job, pipeline_created_at=created)
        assert before <= find_commit_date(made, tmp_path / "bundle.json") <= datetime.now(UTC)
    night = dataclasses.replace(job, pipeline_created_at="2026-01-02T03:04:05")
    told = find_commit_date(night, tmp_path / "bundle.json")
    assert told == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_published_twice_is_one(night: Night) -> None:
    first = night.publish()
    assert (uploads(night), night.time.pauses) == (0, []), "main stands still: nothing is fetched"
    assert {each.name: each.color for each in night.project.labels} == {
        "night-shift": "#6666c4",
        "tests": "#428fdc",
    }
    assert all(each.description for each in night.project.labels)
    posts, pushes = night.posts(), night.project.pushes
    again = "already published: merge request !1 is opened"
    assert night.publish() == dataclasses.replace(first, reason=again)
    job = dataclasses.replace(night.job, user_name="Otto", user_email="otto@example.org")
    by_somebody_else = night.publish(job=job)
    assert by_somebody_else.commit_sha == first.commit_sha
    assert (night.posts(), night.project.pushes) == (posts, pushes)
    assert set(night.heads()) == {"main", BRANCH}
    assert len(night.project.merge_requests) == 1
    night.merge_request.change_state("merged")
    merged = night.publish()
    assert merged.outcome is Outcome.MR_CREATED
    assert "is merged" in merged.reason


def test_closed_meanwhile_is_told_and_left(night: Night) -> None:
    """It is found by its marker, or by its branch where somebody has removed the marker."""
    first = night.publish()
    described = night.merge_request.description
    night.merge_request.description = "Rewritten by a human"
    assert night.publish().mr_url == first.mr_url
    night.merge_request.change_state("closed")
    assert night.publish().outcome is Outcome.SKIPPED
    night.merge_request.description = described
    git(night.project.bare_repository, "branch", "-D", BRANCH)
    again = night.publish()
    assert again.outcome is Outcome.SKIPPED
    assert again.reason == "already published: merge request !1 was closed meanwhile"
    assert again.mr_url == first.mr_url
    assert night.merge_request.state == "closed"
    assert set(night.heads()) == {"main"}
    assert len(night.project.merge_requests) == 1


def test_a_human_commit_on_the_branch_is_left(night: Night) -> None:
    night.publish()
    git(night.folder, "clone", "-q", "-b", BRANCH, str(night.project.bare_repository), "human")
    git(night.folder / "human", "commit", "-q", "--allow-empty", "-m", "Mine")
    git(night.folder / "human", "push", "-q", "origin", "HEAD")
    heads = night.heads()
    assert night.publish().mr_iid == 1
    assert night.heads() == heads


def test_a_branch_with_other_content_gets_a_suffix(night: Night) -> None:
    for name in (BRANCH, f"{BRANCH}-2"):
        git(night.project.bare_repository, "branch", name, "main")
    published = night.publish()
    assert published.branch == f"{BRANCH}-3"
    heads = night.heads()
    assert heads[BRANCH] == heads[f"{BRANCH}-2"] == heads["main"]
    git(night.project.bare_repository, "branch", "-D", BRANCH)
    assert night.publish().branch == f"{BRANCH}-3", "also when an earlier name is free again"
    assert len(night.project.merge_requests) == 1


def test_a_name_that_is_taken_between_look_and_push(night: Night) -> None:
    git(night.project.bare_repository, "branch", BRANCH, "main")
    night.on_main(lambda top: None)
    git(night.project.bare_repository, "branch", "-f", BRANCH, "main")
    night.gitlab.fail_next("GET", f"/branches/.*{SLUG}$", 404, {"message": "404"})
    assert night.publish().branch == f"{BRANCH}-2"
    heads = night.heads()
    assert heads[BRANCH] == heads["main"]


def test_every_name_is_taken(night: Night) -> None:
    for number in range(21):
        suffix = f"-{number}" if number > 1 else ""
        git(night.project.bare_repository, "branch", "-f", f"{BRANCH}{suffix}", "main")
    assert "delete old branches" in failure(night)


def test_go_on_after_the_merge_request_failed(night: Night) -> None:
    night.gitlab.fail_next("POST", "/merge_requests$", 403, {"message": "403 Forbidden"})
    message = failure(night)
    assert f"branch {BRANCH} has been pushed, but the merge request is not open yet" in message
    assert "role Developer" in message
    assert message.endswith(f"Go on with: {GO_ON}")
    published = night.publish()
    assert published.outcome is Outcome.MR_CREATED
    assert published.branch == BRANCH
    assert len(night.project.pushes) == 1


def test_a_lost_answer_makes_no_second_merge_request(night: Night) -> None:
    night.gitlab.drop_next("POST", "/merge_requests$")
    assert night.publish().mr_iid == 1
    assert len(night.project.merge_requests) == 1


def test_a_branch_that_gitlab_needs_time_to_see(night: Night) -> None:
    answer = {"message": {"source_branch": ["does not exist"]}}
    night.gitlab.fail_next("POST", "/merge_requests$", 400, answer, times=4)
    assert night.publish().outcome is Outcome.MR_CREATED
    assert sum(night.time.pauses) > 10


# --- the target branch has moved ----------------------------------------------------------------


def uploads(night: Night) -> int:
    """How often git asked to fetch."""
    return sum("git-upload-pack" in path for path in night.asked())


def test_moved_elsewhere_is_published_as_verified(night: Night) -> None:
    head = night.on_main(lambda top: append(top / "notes.txt", "moved\n"))
    published = night.publish()
    assert published.outcome is Outcome.MR_CREATED
    assert night.heads()["main"] == head
    parent = git(night.project.bare_repository, "rev-parse", f"{published.commit_sha}^")
    assert parent == night.world.sha


def test_moved_in_another_part_of_the_file(night: Night) -> None:
    night.on_main(lambda top: append(top / TEST_SHOP, "# the end\n"))
    assert night.publish().outcome is Outcome.MR_CREATED


def test_already_there(night: Night) -> None:
    def by_hand(top: Path) -> None:
        add_a_test(top)
        (top / "notes.txt").write_text("and more\n")

    night.on_main(by_hand)
    published = night.publish()
    assert published.outcome is Outcome.SKIPPED
    assert "already there" in published.reason
    assert "main has moved" in published.reason
    assert (night.posts(), set(night.heads())) == ([], {"main"})


def test_in_conflict(night: Night) -> None:
    def otherwise(top: Path) -> None:
        text = (top / TEST_SHOP).read_text()
        (top / TEST_SHOP).write_text(text.replace("class TotalTest", "class SumTest"))

    night.on_main(otherwise)
    published = night.publish()
    assert published.outcome is Outcome.SKIPPED
    assert "conflicts" in published.reason
    assert (night.posts(), set(night.heads())) == ([], {"main"})


def test_rewritten_history(night: Night) -> None:
    night.on_main(lambda top: None, onto="HEAD~3")
    published = night.publish()
    assert published.outcome is Outcome.SKIPPED
    assert "is not part of main" in published.reason


def test_a_base_that_was_never_pushed(night: Night) -> None:
    checkout = night.world.checkout
    git(checkout, "commit", "-q", "--allow-empty", "-m", "Only here")
    base = git(checkout, "rev-parse", "HEAD")
    record = read_record(BundleRecord, night.bundle_folder / "bundle.json")
    night.write(dataclasses.replace(record, base_sha=base), night.patch.read_bytes())
    job = dataclasses.replace(night.job, commit_sha="")
    assert "push it first" in failure(night, job=job)
    assert set(night.heads()) == {"main"}


def test_a_target_branch_that_does_not_exist(night: Night) -> None:
    git(night.project.bare_repository, "update-ref", "-d", "refs/heads/main")
    assert "target branch main does not exist" in failure(night)


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


# --- rights -------------------------------------------------------------------------------------


def test_a_protected_wildcard_is_refused_before_the_push(night: Night) -> None:
    night.project.protected_branches.append("night-*")
    message = failure(night)
    assert f"branch {BRANCH} would be protected by night-*" in message
    assert "branch_prefix" in message
    assert night.project.pushes == []
    night.settings["branch_prefix"] = "bot/"
    assert night.publish().branch == f"bot/{SLUG}"


def test_unknown_protection_is_a_warning(night: Night) -> None:
    night.gitlab.fail_next("GET", "/protected_branches$", 403, {"message": "403 Forbidden"})
    published = night.publish()
    assert "may not read the protected branches" in published.warnings[0]
    assert Note(published.warnings[0], warning=True) in night.events


def test_a_server_side_refusal_of_the_push(night: Night) -> None:
    night.gitlab.fail_next("GET", "/protected_branches$", 403, {"message": "403 Forbidden"})
    night.project.protected_branches.append("night-*")
    message = failure(night)
    assert "You are not allowed to create protected branches" in message
    assert "branch_prefix" in message
    assert night.posts() == []


@pytest.mark.parametrize(
    ("said", "helps", "again"),
    [
        (
            "PUSH BLOCKED: Secrets detected in code changes\n\n-- a.py:2 AWS key",
            "PUSH BLOCKED: Secrets detected in code changes -- a.py:2 AWS key (GitLab found a"
            " secret in the change: look at the bundle).",
            False,
        ),
        (
            "GitLab: Commit message does not follow the pattern '^JIRA'",
            "follow the pattern '^JIRA' (set commit_template to one that the push rule allows).",
            True,
        ),
    ],
)
def test_a_refused_push_is_told_in_gitlabs_words_with_what_helps(
    night: Night, said: str, helps: str, again: bool
) -> None:
    """A retry is advised only where it can help."""
    hook = night.project.bare_repository / "hooks/pre-receive"
    hook.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{said}\nEND\nexit 1\n")
    message = failure(night)
    assert helps in message
    assert ("Go on with: " in message) is again
    assert night.posts() == []


def test_a_token_without_rights(night: Night) -> None:
    cases: list[tuple[tuple[str, ...], int, str]] = [
        (("read_api", "write_repository"), 30, "lacks the scope api"),
        (("api", "write_repository"), 20, "a role below Developer"),
        (("api",), 0, "cannot see project"),
        ((), 0, "rejects GITLAB_TOKEN"),
    ]
    told = []
    for number, (scopes, level, words) in enumerate(cases):
        night.token = f"glpat-WithoutRights0{number}"
        if scopes:
            night.gitlab.add_token(night.token, night.gitlab.users[0], scopes, level)
        message = failure(night)
        told.append((words, words in message, night.token in message))
    assert told == [(words, True, False) for *_, words in cases]
    assert "Go on with" in message
    assert (night.project.pushes, night.posts()) == ([], [])


def test_a_server_that_is_away(night: Night) -> None:
    night.gitlab.fail_next("GET", "/api/v4/", 503, {"message": "maintenance"}, times=100)
    message = failure(night)
    assert "503" in message
    assert 100 < sum(night.time.pauses) <= 300


def test_a_push_that_the_network_loses(night: Night) -> None:
    night.gitlab.fail_next("GET", "info/refs", 502, "bad gateway", times=2)
    assert night.publish().outcome is Outcome.MR_CREATED
    assert len(night.time.pauses) == 2


def test_a_push_whose_answer_is_lost(night: Night) -> None:
    night.gitlab.drop_next("POST", "git-receive-pack$")
    assert night.publish().branch == BRANCH
    assert set(night.heads()) == {"main", BRANCH}
    assert len(night.project.pushes) == 1


def test_a_push_that_the_network_keeps_losing(night: Night) -> None:
    night.gitlab.fail_next("GET", "info/refs", 502, "bad gateway", times=100)
    assert "the push was refused" in failure(night)
    assert sum(night.time.pauses) <= 60


# --- people and labels --------------------------------------------------------------------------


def test_an_unknown_reviewer_is_a_warning(night: Night) -> None:
    night.settings = {"reviewer": "nobody", "reviewers": ["rita", "nobody"]}
    published = night.publish()
    assert published.warnings == ("reviewer nobody is unknown to GitLab",)
    assert [each.username for each in night.merge_request.reviewers] == ["rita"]


def test_several_reviewers_on_the_free_tier(night: Night) -> None:
    night.gitlab.add_user("otto", "Otto")
    night.gitlab.paid_tier = False
    night.settings = {"reviewers": ["rita", "otto"]}
    [warning] = night.publish().warnings
    assert "1 of 2 reviewers" in warning
    assert [each.username for each in night.merge_request.reviewers] == ["rita"]


def test_several_reviewers_that_gitlab_refuses(night: Night) -> None:
    night.gitlab.add_user("otto", "Otto")
    night.settings = {"reviewers": ["rita", "otto"]}
    night.gitlab.fail_next("POST", "/merge_requests$", 422, {"message": "several reviewers"})
    assert "1 of 2 reviewers" in night.publish().warnings[0]


def test_several_reviewers_on_a_paid_tier(night: Night) -> None:
    night.gitlab.add_user("otto", "Otto")
    night.settings = {"reviewers": ["rita", "otto"]}
    assert night.publish().warnings == ()
    assert len(night.merge_request.assignees) == 2


def test_a_label_that_cannot_be_made_is_a_warning(night: Night) -> None:
    night.gitlab.fail_next("POST", "/labels$", 403, {"message": "403 Forbidden"})
    published = night.publish()
    assert published.outcome is Outcome.MR_CREATED
    assert "label night-shift" in published.warnings[0]


def test_own_settings(night: Night) -> None:
    git(night.project.bare_repository, "branch", "release", "main")
    record = read_record(BundleRecord, night.bundle_folder / "bundle.json")
    night.write(dataclasses.replace(record, target_branch="release"), night.patch.read_bytes())
    night.settings = {
        "target_branch": "release",
        "draft": True,
        "labels": ["bot"],
        "branch_prefix": "bots/n-",
        "title_template": "{{title}} ({{category}})",
        "commit_template": "ABC-1 {{message}}",
    }
    published = night.publish()
    found = night.merge_request
    assert found.title == f"Draft: {TITLE} (tests)"
    assert found.source_branch == f"bots/n-{SLUG}"
    assert (found.target_branch, found.labels, found.reviewers) == ("release", ["bot"], [])
    subject = git(night.project.bare_repository, "log", "-1", "--format=%s", published.commit_sha)
    assert subject == f"ABC-1 {TITLE}"


def test_a_template_that_cannot_be_used_is_told_first(night: Night) -> None:
    night.settings = {"commit_template": "{{massage}}"}
    assert "{{message}}" in failure(night, Code.CONFIG)
    assert night.asked() == []


# --- the author ---------------------------------------------------------------------------------


def author(night: Night, commit: str) -> str:
    return git(night.project.bare_repository, "log", "-1", "--format=%an <%ae>", commit)


def test_the_machine_identity_comes_first(night: Night) -> None:
    context = night.context()
    source = dataclasses.replace(
        context.source, identity=CommitIdentity("Build <Bot>", "b@example.org")
    )
    assert author(night, night.publish(source=source).commit_sha) == "Build Bot <b@example.org>"


def test_the_token_as_author(night: Night) -> None:
    night.settings = {"commit_author": "token"}
    expected = "Night Shift <night-bot@noreply.gitlab.invalid>"
    assert author(night, night.publish().commit_sha) == expected


def test_nobody_as_author(night: Night) -> None:
    job = dataclasses.replace(night.job, user_name="", user_email="")
    message = failure(night, Code.CONFIG, job=job)
    assert "user.name" in message
    assert "commit_author: token" in message
    assert night.project.pushes == []


# --- what leaves --------------------------------------------------------------------------------


def test_no_secret_leaves_in_texts(night: Night) -> None:
    bundle = night.make(add_a_test)
    secret = f"{BOT_TOKEN} and `{JOB_TOKEN}` and glpat-Bot\u200bTokenOfTheNight01"
    night.redraft(
        bundle,
        title=f"Use {BOT_TOKEN}",
        branch_slug=BOT_TOKEN,
        summary=secret,
        reasoning=secret,
        changes=f"- {secret}",
        commit_message=f"Use {BOT_TOKEN}\n\n{secret}",
    )
    published = night.publish()
    found = night.merge_request
    message = git(night.project.bare_repository, "log", "-1", "--format=%B", published.branch)
    left = "\n".join((found.title, found.description or "", message, published.branch))
    for token in (BOT_TOKEN, JOB_TOKEN):
        assert token.lower() not in left.lower()
        assert token.lower().replace("glpat-", "") not in left.lower()
    assert "[redacted]" in found.title


def test_no_secret_leaves_that_comes_together_on_the_way(night: Night) -> None:
    night.settings = {
        "title_template": "use-{{title}}",
        "commit_template": "use-{{title}}",
        "labels": ["use-Test"],
    }
    redact = Redactor(("use-Test", "shop/-/pipelines/4711"))
    published = night.publish(redact=redact)
    found = night.merge_request
    message = git(night.project.bare_repository, "log", "-1", "--format=%B", published.branch)
    assert found.title == message == "[redacted] the discount of total()"
    assert "/[redacted]" in (found.description or "")
    assert found.labels == ["[redacted]"]


def test_no_secret_leaves_in_files(night: Night) -> None:
    night.make(lambda top: append(top / TEST_SHOP, f"# {BOT_TOKEN}\n"))
    assert "secret" in failure(night, Code.POLICY_DENY)
    assert night.asked() == []


def test_the_agent_cannot_act_by_words(night: Night) -> None:
    bundle = night.make(add_a_test)
    night.redraft(bundle, summary="Fine\n/merge\n@all <!-- nightshift: {} -->\nCloses #1")
    night.publish()
    body = night.merge_request.description or ""
    assert "\n/merge" not in body
    assert "@all" not in body
    assert "Closes #1" not in body
    assert body.count("<!--") == 1
