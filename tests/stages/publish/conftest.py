"""A checkout as a GitLab job finds it, a bundle made for it, and the context to publish it."""

import dataclasses
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.demo.standin_state import StandinMergeRequest
from gitlab_nightshift.gitlab.project import open_project
from gitlab_nightshift.job.job_facts import JobFacts, read_job
from gitlab_nightshift.records.bead_results import (
    AnalysisCandidate,
    AnalysisResult,
    CommandResult,
    Draft,
    Verdict,
)
from gitlab_nightshift.records.events import Event
from gitlab_nightshift.records.products import (
    Bundle,
    Outcome,
    Proposal,
    ProposedChange,
    Publication,
)
from gitlab_nightshift.records.storage import write_record
from gitlab_nightshift.repository.git import Git, build_isolated_git
from gitlab_nightshift.repository.known_checkout import KnownCheckout
from gitlab_nightshift.stages.publish.publish_context import (
    PublishContext,
    SourceCheckout,
    read_source,
)
from gitlab_nightshift.stages.publish.publish_stage import publish
from gitlab_nightshift.system.file_names import format_path
from tests.support import kept
from tests.support.clock import FakeTime
from tests.support.publish_session import build_session
from tests.support.standin import FullStandin
from tests.support.standin_records import FullProject
from tests.support.world import BOT_TOKEN, World, world

BEFORE = "class TotalTest(unittest.TestCase):\n"
TEST_SHOP = "test_shop.py"
TITLE = "Test the discount of total()"
SLUG = "test-discount"
CHOSEN = AnalysisCandidate((TEST_SHOP,), "Test the discount", 1, "It was never tested")


@dataclass
class Night:
    """Everything of one publication."""

    world: World
    folder: Path
    time: FakeTime = field(default_factory=lambda: FakeTime(0.0))
    events: list[Event] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=lambda: {"reviewer": "rita"})
    token: str = BOT_TOKEN

    @property
    def gitlab(self) -> FullStandin:
        return self.world.gitlab

    @property
    def project(self) -> FullProject:
        return self.world.project

    @property
    def bundle_folder(self) -> Path:
        return self.folder / "bundle"

    @property
    def patch(self) -> Path:
        return self.bundle_folder / "change.patch"

    @property
    def merge_request(self) -> StandinMergeRequest:
        [found] = self.project.merge_requests
        return found

    @property
    def job(self) -> JobFacts:
        return read_job(self.world.env)

    @property
    def private(self) -> Path:
        return self.folder / "private"

    @cached_property
    def git(self) -> Git:
        self.private.mkdir(exist_ok=True)
        return build_isolated_git(self.private / "home", os.environ["PATH"])

    @cached_property
    def source(self) -> SourceCheckout:
        """The checkout, as it is when it is first asked for."""
        return read_source(KnownCheckout(self.git, self.git, self.world.checkout))

    def context(self, **changes: Any) -> PublishContext:
        job = changes.get("job", self.job)
        project = open_project(
            job.server_url, job.project_id, self.token, clock=self.time.clock, patience_s=300
        )
        session = build_session(
            self.world.checkout,
            self.private,
            job,
            self.git,
            self.events.append,
            self.settings,
            self.token,
        )
        known = {name: value for name, value in changes.items() if hasattr(session, name)}
        return dataclasses.replace(
            PublishContext(
                session=dataclasses.replace(session, **known),
                project=project,
                source=self.source,
                clock=self.time.clock,
            ),
            **{name: value for name, value in changes.items() if name not in known},
        )

    def publish(self, **changes: Any) -> Publication:
        return publish(self.bundle_folder, self.context(**changes))

    def make(self, edit: Callable[[Path], None], **changes: Any) -> Bundle:
        """Write a bundle whose change is what ``edit`` does to a copy of the base."""
        copy = self.folder / "copy"
        if not copy.exists():
            bare = str(self.project.bare_repository)
            git(self.folder, "clone", "-q", "--no-checkout", bare, str(copy))
        git(copy, "checkout", "-q", "-f", "--detach", self.world.sha)
        edit(copy)
        git(copy, "add", "-A", "-f")
        patch = raw_git(copy, "diff", "--cached", "--binary", "--full-index", "--no-renames")
        proposal = Proposal(
            change=self._change(copy),
            category="tests",
            is_fallback=False,
            analysis=AnalysisResult("IMPROVEMENT_FOUND", candidates=(CHOSEN,), selected=CHOSEN),
            draft=Draft(
                title=TITLE,
                summary="A discount was never tested.",
                branch_slug=SLUG,
                commit_message=f"{TITLE}\n\nIt had no test.",
                reasoning="It matters.",
                changes="One test.",
            ),
            verdict=Verdict(True),
            commands=(CommandResult("make test", 0, 1.25),),
        )
        bundle = Bundle(
            run_id="4711",
            created_at="2026-11-16T01:23:45+00:00",
            base_sha=self.world.sha,
            target_branch="main",
            outcome=Outcome.MR_READY,
            category_used="tests",
            proposal=proposal,
        )
        self.write(dataclasses.replace(bundle, **changes), patch)
        return bundle

    def _change(self, copy: Path) -> ProposedChange:
        counts = raw_git(copy, "diff", "--cached", "--numstat", "-z", "--no-renames").split(b"\0")
        rows = [os.fsdecode(row).split("\t", 2) for row in counts if row]
        numbers = [(int(a), int(d)) for a, d, _ in rows if a != "-"]
        return ProposedChange(
            tree_id=git(copy, "write-tree"),
            files=tuple(sorted(format_path(path) for _, _, path in rows)),
            added=sum(a for a, _ in numbers),
            deleted=sum(d for _, d in numbers),
        )

    def write(self, bundle: Bundle, patch: bytes) -> None:
        self.bundle_folder.mkdir(exist_ok=True)
        write_record(self.bundle_folder / "bundle.json", bundle)
        self.patch.write_bytes(patch)

    def redraft(self, bundle: Bundle, **draft: Any) -> None:
        """The same bundle with other words of the agent."""
        assert bundle.proposal
        words = dataclasses.replace(bundle.proposal.draft, **draft)
        proposal = dataclasses.replace(bundle.proposal, draft=words)
        write_record(
            self.bundle_folder / "bundle.json", dataclasses.replace(bundle, proposal=proposal)
        )

    def on_main(self, edit: Callable[[Path], None], *, onto: str = "main") -> str:
        """Somebody else's commit on the default branch of the project."""
        seed = self.folder / "somebody"
        if not seed.exists():
            git(self.folder, "clone", "-q", str(self.project.bare_repository), str(seed))
        git(seed, "checkout", "-q", "-B", "main", onto)
        edit(seed)
        git(seed, "add", "-A")
        git(seed, "commit", "-q", "--allow-empty", "-m", "By somebody else")
        git(seed, "push", "-q", "-f", "origin", "main")
        return git(seed, "rev-parse", "HEAD")

    def heads(self) -> dict[str, str]:
        """Branch → commit, as the server has them."""
        out = git(
            self.project.bare_repository,
            "for-each-ref",
            "--format=%(refname:lstrip=2) %(objectname)",
            "refs/heads",
        )
        return dict(line.split(" ") for line in out.splitlines())

    def posts(self) -> list[str]:
        """Everything that was written by REST."""
        found = (each for each in self.gitlab.requests if each.path.startswith("/api/"))
        return [each.path for each in found if each.method in ("POST", "PUT", "DELETE")]

    def asked(self) -> list[str]:
        """Every path that was asked for, git's too."""
        return [each.path for each in self.gitlab.requests]


def raw_git(folder: Path, *args: str) -> bytes:
    env: Mapping[str, str] = {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{who}_NAME": "Ada" for who in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{who}_EMAIL": "ada@example.invalid" for who in ("AUTHOR", "COMMITTER")},
    }
    quiet = ("-c", "core.quotePath=false", "-c", "advice.detachedHead=false")
    command = ["git", *quiet, *args]
    return subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True).stdout


def git(folder: Path, *args: str) -> str:
    return raw_git(folder, *args).decode().strip()


def add_a_test(top: Path) -> None:
    """The change of most bundles here: three lines more in one file."""
    file = top / TEST_SHOP
    added = "    def test_half(self):\n        self.assertEqual(total([10], 50), 5)\n\n"
    file.write_text(file.read_text().replace(BEFORE, BEFORE + added))


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path / "world", depth=5) as made:
        yield made
        assert made.gitlab.errors == []


@pytest.fixture
def night(shop: World, tmp_path: Path) -> Night:
    return ready(shop, tmp_path)


def ready(shop: World, folder: Path) -> Night:
    """A night whose bundle is ready; it is made once for a commit, and copied."""
    made = Night(shop, folder)
    if shop.sha not in _bundles:
        kept_at = Path(tempfile.mkdtemp(prefix="bundle-", dir=kept.folder))
        Night(shop, kept_at).make(add_a_test)
        _bundles[shop.sha] = kept_at / "bundle"
    shutil.copytree(_bundles[shop.sha], made.bundle_folder)
    shop.gitlab.requests.clear()
    return made


_bundles: dict[str, Path] = {}
