"""Ten nights in a row on one project, with people who merge, close, comment, push and ignore."""

import itertools
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.demo import standin_state
from gitlab_nightshift.demo.standin_state import DEVELOPER, StandinMergeRequest, User
from tests.support.agent import Play, answer, append, plays
from tests.support.listeners import Listener, listening
from tests.support.shop import DRAFT, FOUND, GOOD, NOTE, nothing
from tests.support.standin_pipelines import add_pipeline
from tests.support.standin_records import PipelineJob, StandinPipeline
from tests.support.standin_threads import add_comment, tick_box
from tests.support.world import FILES, PLAIN, SECRETS, Done, World, git, world

CONFIG = f"{PLAIN}log_issue: auto\nnotify: [$TEAM_CHAT]\nnotify_on: [changes]\n"
QUIETLY = f"{CONFIG}avoid_recent_commits: 0\n"
"""What one night has changed, the next may change as well: the project is small."""
PROJECT = {**FILES, "README.md": "# Shop\n", "test_more.py": "# More tests.\n"}
TRY, ALLOW = "try refactoring at the next night", "allow the idea of merge request 2 again"


@dataclass(frozen=True)
class Idea:
    """What a night may find, and do."""

    file: str
    text: str
    words: str
    slug: str

    def play(self, category: str) -> dict[str, Play]:
        selected = {"rank": 1, "files": [self.file], "description": self.words, "rationale": "x"}
        found = {**FOUND, "category_used": category, "candidates": [selected], "selected": selected}
        return {
            f"analyze-{category}": [answer(found)],
            f"implement-{category}": [append(self.file, self.text)],
            f"mr-{category}": [answer({**DRAFT, "title": self.words, "branch_slug": self.slug})],
        }


DISCOUNT = Idea("test_shop.py", NOTE, "Test the discount of total().", "test-discount")
PERCENT = Idea("shop.py", "\n# In percent.\n", "Name the percentage.", "name-percent")
RENAMED = replace(PERCENT, words="Say what the number in the formula stands for.", slug="formula")
README = Idea("README.md", "\nIt sells.\n", "Say what the shop does.", "readme")
MORE = Idea("test_more.py", "# And more.\n", "Describe the further tests.", "more-tests")
SCRIPT = Idea("run.sh", "# Runs the tests.\n", "Say what run.sh runs.", "run-sh")


@dataclass
class Team:
    """The project, its people, and what they were told."""

    shop: World
    chat: Listener
    clock: list[str]
    heads: dict[str, list[str]] = field(default_factory=dict)

    def sleep(self, day: str, *found: dict[str, Play], **env: str) -> Done:
        """A night, as GitLab starts it, and its artifacts afterwards."""
        shop, number = self.shop, 4700 + len(self.shop.project.jobs)
        self.clock[0] = f"{day}T01:00:00+00:00"
        shop.checked_out_anew()
        shop.agent.script(plays(GOOD, {"analyze": nothing()}, *found))
        url = f"{shop.project.web_url}/-/pipelines/{number}"
        env |= {"CI_PIPELINE_ID": str(number), "CI_PIPELINE_CREATED_AT": f"{day}T01:00:00Z"}
        done = shop.nightshift("run", CI_JOB_NAME="nightshift", CI_PIPELINE_URL=url, **env)
        kept = shop.folder / f"kept-{number}"
        shutil.copytree(shop.checkout / "nightshift", kept / "nightshift")
        bot = shop.gitlab.users[0]
        made = StandinPipeline(number, "main", shop.sha, url, bot, {}, "schedule")
        shop.project.pipelines.append(made)
        shop.project.jobs.append(PipelineJob(number * 10, number, "nightshift", kept))
        for each in shop.merge_requests:
            self.heads.setdefault(each.source_branch, []).append(self.find_head(each))
        self.clock[0] = f"{day}T09:00:00+00:00"  # then people come to work
        return done

    def find_head(self, request: StandinMergeRequest) -> str:
        name = f"refs/heads/{request.source_branch}"
        return git(
            self.shop.project.bare_repository, "for-each-ref", "--format=%(objectname)", name
        )

    def add_person(self, name: str, level: int = DEVELOPER) -> User:
        made = self.shop.gitlab.add_user(name, name.title())
        self.shop.project.members[made.id] = level
        return made

    def merge(self, request: StandinMergeRequest) -> None:
        bare, branch = self.shop.project.bare_repository, request.source_branch
        git(bare, "update-ref", "refs/heads/main", self.find_head(request).strip())
        git(bare, "branch", "-qD", branch)
        request.change_state("merged")

    def push(self, who: str, request: StandinMergeRequest) -> str:
        bare, branch = self.shop.project.bare_repository, request.source_branch
        identity = ("-c", f"user.name={who}", "-c", f"user.email={who}@example.com")
        tree = git(bare, "rev-parse", f"{branch}^{{tree}}").strip()
        made = git(bare, *identity, "commit-tree", tree, "-p", branch, "-m", "Mine").strip()
        git(bare, "update-ref", f"refs/heads/{branch}", made)
        return made

    @property
    def news(self) -> list[str]:
        """What the chat was told since it was asked last."""
        told, self.chat.came[:] = [body for _, body in self.chat.came], []
        return told

    @property
    def page(self) -> str:
        [issue] = self.shop.project.issues
        assert issue.notes == [] or all(note.system for note in issue.notes)
        return issue.description or ""


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Team]:
    clock = ["2026-11-16T01:00:00+00:00"]

    class GitLabsClock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> "GitLabsClock":
            return cls.fromisoformat(clock[0]).astimezone(tz or UTC)

    monkeypatch.setattr(standin_state, "datetime", GitLabsClock)
    with listening() as chat, world(tmp_path, config=QUIETLY, files=PROJECT) as shop:
        shop.env["TEAM_CHAT"] = f"json://127.0.0.1:{chat.port}/"
        yield Team(shop, chat, clock)


def assert_told(team: Team, *parts: str) -> None:
    """One message, with all of this in it and no secret."""
    [told] = team.news
    assert [part for part in parts if part not in told] == [], told
    assert not any(secret in told for secret in SECRETS)


def test_ten_nights(team: Team) -> None:
    review_and_push(team)
    refuse(team)
    ignore(team)
    assert_all_is_told(team)
    assert_nothing_is_lost(team)


def review_and_push(team: Team) -> None:
    """A review is answered by one commit more; whoever pushes has taken the branch over."""
    shop, bare = team.shop, team.shop.project.bare_repository
    done = team.sleep("2026-11-16", DISCOUNT.play("tests"))
    assert done.exit_status == 0, done.log + done.stderr
    [first] = shop.merge_requests
    assert_told(team, "A merge request is open", "tests: ", first.web_url)
    add_comment(shop.gitlab, first, team.add_person("rosa"), "Say of what.", resolvable=True)

    answers = [{"thread": 1, "text": "It says so.", "files": ["test_shop.py"]}]
    mended: dict[str, Play] = {
        "implement-task": [append("test_shop.py", "    # Of the sum.\n")],
        "mr-task": [answer({**DRAFT, "answers": answers})],
    }
    before = team.find_head(first)
    team.sleep("2026-11-17", PERCENT.play("refactoring"), mended)
    assert shop.result["upkeep"]["mr_url"] == first.web_url
    assert git(bare, "rev-parse", f"{first.source_branch}^") == before
    _, second = shop.merge_requests
    assert_told(team, "A merge request is open", "refactoring: ", second.web_url)
    team.merge(first)
    mine = team.push("ada", second)
    failed = PipelineJob(0, 0, "unit", shop.folder, status="failed", log="AssertionError")
    add_pipeline(shop.gitlab, shop.project, second.source_branch, [failed])

    team.sleep("2026-11-18", README.play("docs"), mended)
    assert team.find_head(second).strip() == mine, "what ada pushed stays, and she mends it"
    assert shop.result["upkeep"] is None
    assert_told(team, "A merge request is open", "docs: ", shop.merge_requests[2].web_url)


def refuse(team: Team) -> None:
    """What is closed does not come back, in no words and in no category; a night that failed is
    told, and the first that is fine again, though it opens nothing."""
    shop, second = team.shop, team.shop.merge_requests[1]
    ada, mallory = team.add_person("ada"), team.add_person("mallory", 0)
    add_comment(shop.gitlab, second, ada, "Formulas stay short here.")
    add_comment(shop.gitlab, second, mallory, "Do it all the same.")
    second.change_state("closed")
    assert team.sleep("2026-11-19", ANTHROPIC_API_KEY="").exit_status == 5
    assert_told(team, "The night failed", "no model key")

    beads = len(shop.agent.seen)
    team.sleep("2026-11-20", RENAMED.play("performance"), RENAMED.play("refactoring"))
    assert shop.result["outcome"] == "NO_IMPROVEMENT", shop.result["summary"]
    prompt = shop.agent.seen[beads].prompt
    assert "Formulas stay short here." in prompt and "Do it all the same." not in prompt
    names = [each.name for each in shop.agent.seen[beads:]]
    assert "implement-refactoring-1" not in names and "verify-performance-1" not in names
    assert shop.result["summary"].count("it repeats !2, closed without a merge") == 2
    assert_told(team, "Nothing was proposed")

    team.sleep("2026-11-23", MORE.play("tests"))
    assert_told(team, "A merge request is open", "tests: ")
    team.sleep("2026-11-24", RENAMED.play("refactoring"), SCRIPT.play("security"))
    assert_told(team, "A merge request is open", "security (fallback from refactoring): ")
    assert [each.state for each in shop.merge_requests[2:]] == ["opened"] * 3


def ignore(team: Team) -> None:
    """Nobody looks at three of them for two weeks: nights pause, which is told once. Then one is
    merged, and the boxes of the dashboard are used."""
    shop, beads = team.shop, len(team.shop.agent.seen)
    ada = next(user for user in shop.gitlab.users if user.username == "ada")
    team.sleep("2026-12-09")
    assert_told(team, "The night was skipped", "nobody has looked at !5, !4, !3 for two weeks")
    team.sleep("2026-12-10")
    assert team.news == []
    assert len(shop.agent.seen) == beads
    paused = [note for each in shop.merge_requests[2:] for note in each.notes]
    assert [note.body.startswith("The night shift pauses: ") for note in paused] == [True]
    assert "**Paused**: nobody has looked at " in team.page
    team.merge(shop.merge_requests[3])
    for box in (TRY, ALLOW):
        assert f"- [ ] {box}" in team.page
        tick_box(shop.gitlab, shop.project.issues[0], ada, box)

    team.sleep("2026-12-11", RENAMED.play("refactoring"))
    last = shop.merge_requests[-1]
    assert_told(team, "A merge request is open", "refactoring: ", last.web_url)


def assert_all_is_told(team: Team) -> None:
    """One page, without a comment: what is open, ten nights, what is refused, what comes when."""
    head, _, rest = team.page.partition("## Open merge requests")
    opened, _, rest = rest.partition("## Last nights")
    nights, _, rest = rest.partition("## Categories")
    categories, _, rejected = rest.partition("## Rejected ideas")
    assert "**Paused**" not in head
    assert f"{TRY}: accepted, ticked by ada" in head and f"{ALLOW}: accepted" in head
    assert [f"[!{n}](" in opened for n in range(1, 7)] == [False, False, True, False, True, True]
    rows = [line.split(" | ") for line in nights.splitlines() if line.startswith("| [2026-")]
    assert [f"{row[0][3:13]} {row[1]} {row[2]}" for row in rows] == [
        "2026-12-11 MR_CREATED refactoring",
        "2026-12-10 SKIPPED security",
        "2026-12-09 SKIPPED docs",
        "2026-11-24 MR_CREATED security (fallback from refactoring)",
        "2026-11-23 MR_CREATED tests",
        "2026-11-20 NO_IMPROVEMENT performance",
        "2026-11-19 FAILED security",
        "2026-11-18 MR_CREATED docs",
        "2026-11-17 MR_CREATED refactoring",
        "2026-11-16 MR_CREATED tests",
    ]
    assert "- **tests**: next on 2026-12-14\n" in categories
    assert "- **docs**: next on 2026-12-16; skipped for now: open merge requests: " in categories
    assert "None." in rejected.partition("<!--")[0], "ada allows the only one again"
    assert not any(secret in team.page for secret in SECRETS)


def assert_nothing_is_lost(team: Team) -> None:
    """No merge request twice, and every branch only ever went forward."""
    shop, bare = team.shop, team.shop.project.bare_repository
    assert [each.title.rpartition("] ")[2] for each in shop.merge_requests] == [
        each.words.rstrip(".") for each in (DISCOUNT, PERCENT, README, MORE, SCRIPT, RENAMED)
    ]
    for heads in team.heads.values():
        seen = [head.strip() for head in heads if head]
        for older, newer in itertools.pairwise(seen):
            git(bare, "merge-base", "--is-ancestor", older, newer)
