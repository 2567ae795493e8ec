"""Comments and threads, against the stand-in."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gitlab_nightshift.demo.standin_state import StandinNote, User
from gitlab_nightshift.gitlab.api_error import ApiError
from gitlab_nightshift.gitlab.project import open_project
from gitlab_nightshift.gitlab.resources import PAGE_SIZE
from gitlab_nightshift.gitlab.threads import MOST_THREADS, Threads
from gitlab_nightshift.records.request import CommentAddress
from tests.support.standin import FullStandin
from tests.support.standin_records import Issue
from tests.support.standin_threads import add_comment, add_issue

TOKEN = "glpat-secret-token-0001"


@dataclass
class Scene:
    gitlab: FullStandin
    threads: Threads
    ada: User
    issue: Issue

    def add_comment(self, text: str = "Hello", **more: bool) -> StandinNote:
        return add_comment(self.gitlab, self.issue, self.ada, text, **more)

    def place(self, note: StandinNote, thread: str = "") -> CommentAddress:
        return CommentAddress("issues", self.issue.iid, note.id, thread)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with FullStandin(tmp_path) as gitlab:
        bot = gitlab.add_user("bot", "Bot", bot=True)
        gitlab.add_token(TOKEN, bot)
        project = gitlab.add_project("acme/shop")
        ada = gitlab.add_user("ada", "Ada")
        project.members[ada.id] = 30
        issue = add_issue(gitlab, project, ada, "A title", "A text")
        threads = open_project(gitlab.url, str(project.id), TOKEN).threads
        yield Scene(gitlab, threads, ada, issue)
        assert gitlab.errors == []


def test_a_comment_is_read_with_its_author(scene: Scene) -> None:
    found = scene.threads.find_comment(
        scene.place(scene.add_comment("/nightshift x", internal=True))
    )
    assert found
    assert (found.body, found.author_id, found.author_name) == (
        "/nightshift x",
        scene.ada.id,
        "Ada",
    )
    assert (found.system, found.internal) == (False, True)


def test_missing_comments_threads_and_users_are_none(scene: Scene) -> None:
    place = CommentAddress("issues", scene.issue.iid, 7)
    assert scene.threads.find_comment(place) is None
    assert scene.threads.find_thread(place) is None
    assert scene.threads.find_noteable(CommentAddress("issues", 9, 7)) is None
    assert scene.threads.find_comment(CommentAddress("merge_requests", scene.issue.iid, 7)) is None
    assert scene.threads.read_level(7) == 0
    assert scene.threads.is_bot(7) is False


def test_an_issue_is_read_with_its_confidentiality(scene: Scene) -> None:
    scene.issue.confidential = True
    found = scene.threads.find_noteable(scene.place(scene.add_comment()))
    assert found
    assert (found.title, found.description, found.confidential) == ("A title", "A text", True)
    assert found.web_url == scene.issue.web_url


def test_a_users_level_and_bots_are_known(scene: Scene) -> None:
    assert scene.threads.read_level(scene.ada.id) == 30
    assert scene.threads.is_bot(scene.threads.read_own_id()) is True
    assert scene.threads.is_bot(scene.ada.id) is False


def test_a_thread_is_found_by_its_comment_whatever_the_hint(scene: Scene) -> None:
    notes = [scene.add_comment(str(number)) for number in range(PAGE_SIZE + 5)]
    last, first = notes[-1], notes[0]
    for hint in ("", last.thread, first.thread, "0123456789abcdef"):
        thread = scene.threads.find_thread(scene.place(last, hint))
        assert thread
        assert thread.id == last.thread
        assert [each.body for each in thread.comments] == [str(PAGE_SIZE + 4)]
    assert PAGE_SIZE < MOST_THREADS


def test_a_reply_is_added_to_the_thread(scene: Scene) -> None:
    first, _ = scene.add_comment("first"), scene.add_comment("second")
    scene.threads.reply(scene.place(first), first.thread, "an answer")
    found = scene.threads.find_thread(scene.place(first))
    assert found
    assert [each.body for each in found.comments] == ["first", "an answer"]


def test_a_refusal_is_an_error(scene: Scene) -> None:
    note = scene.add_comment()
    scene.gitlab.fail_next("GET", "/notes/", 403, {"message": "403 Forbidden"})
    with pytest.raises(ApiError, match="403"):
        scene.threads.find_comment(scene.place(note))
    with pytest.raises(ApiError, match="404"):
        scene.threads.reply(scene.place(note), "0123456789abcdef", "x")
