"""Every hand-off of any agent, from its words to the texts of the merge request and the report."""

import dataclasses
import functools
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from gitlab_nightshift.agents.agent import BeadReport
from gitlab_nightshift.job.job_facts import JobFacts
from gitlab_nightshift.records.bead_results import (
    AnalysisResult,
    BeadResult,
    BeadStatus,
    Draft,
    Handoff,
    Verdict,
)
from gitlab_nightshift.records.codec import decode_record
from gitlab_nightshift.records.products import Bundle, KnownMergeRequest, Proposal
from gitlab_nightshift.records.request import CommentAddress, TaskRequest
from gitlab_nightshift.records.storage import build_record, limit_record
from gitlab_nightshift.records.usage import Usage
from gitlab_nightshift.repository.tree_snapshot import scan
from gitlab_nightshift.settings.load import build_settings
from gitlab_nightshift.stages.publish import merge_request
from gitlab_nightshift.stages.publish.description import render_description
from gitlab_nightshift.stages.publish.publish_stage import clean_record
from gitlab_nightshift.stages.report.page import render_page
from gitlab_nightshift.stages.report.report_files import render_junit
from gitlab_nightshift.stages.report.run_result import build_run_result
from gitlab_nightshift.stages.work.bead_prompt import build_bead_values
from gitlab_nightshift.stages.work.cited_files import PathResolver, drop_unfounded
from gitlab_nightshift.stages.work.handoff import accept_handoff
from gitlab_nightshift.stages.work.night import (
    choose_new_idea,
    draft_from_analysis,
    format_earlier,
    select_answers,
)
from gitlab_nightshift.stages.work.night_ending import CategoryResult, encode_bundle
from tests.fuzz.odd_words import ANALYSES, DRAFTS, VERDICTS, fill_in
from tests.fuzz.strategies import steady
from tests.support.samples import BUNDLE, PROPOSAL
from tests.support.world import FILES, git, write_files

SETTINGS = build_settings({})
REQUEST = TaskRequest(CommentAddress("issues", 1, 1), "Do it.")
KNOWN = (
    KnownMergeRequest(7, "T", "https://g/7", "tests", "n/x", files=("test_shop.py",)),
    KnownMergeRequest(8, "U", "https://g/8", "tests", "n/y", ("total",), ("shop.py",)),
)


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with a commit."""
    folder = tmp_path_factory.mktemp("shop")
    write_files(folder, FILES)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qm", "x")
    return folder


@functools.cache
def build_tree(top: Path) -> PathResolver:
    return PathResolver((str(top),), scan(top))


def accept(bead: str, value: Any, top: Path) -> Handoff | None:
    """As a bead of the night does it."""
    report = BeadReport(BeadStatus.OK, Usage(), structured=fill_in(value, str(top)))
    read = accept_handoff(bead, report, top / "none.json", build_tree(top))
    assert (read.handoff is None) is bool(read.error)
    assert "\n" not in read.note and len(read.note) < 5_000
    return read.handoff


@steady(150)
@given(value=ANALYSES)
def test_an_analysis_to_the_next_prompt(top: Path, value: Any) -> None:
    analysis = accept("analyze", value, top)
    if not isinstance(analysis, AnalysisResult):
        return
    analysis, _ = drop_unfounded(analysis, top, build_tree(top))
    rows = [CategoryResult("tests", analysis.reason, analysis)]
    assert format_earlier(rows).encode()
    if analysis.result == "NO_IMPROVEMENT":
        return
    assert choose_new_idea("tests", analysis, KNOWN)
    chosen, _ = choose_new_idea("tests", analysis, ())
    assert chosen.selected and chosen.selected.files
    values = build_bead_values({}, SETTINGS, "tests", left_s=None, analysis=chosen)
    assert json.dumps([values, dataclasses.asdict(chosen)]).encode()
    ask_git(top, chosen.selected.files)
    show(analysis, draft_from_analysis(chosen), Verdict(passed=True))


def ask_git(top: Path, files: tuple[str, ...]) -> None:
    """Git takes every one of these names, and the system, too."""
    argv = ("git", "--literal-pathspecs", "ls-tree", "-z", "--full-tree", "HEAD", "--", *files)
    assert subprocess.run(argv, check=False, cwd=top, capture_output=True).returncode == 0
    for name in files:
        assert (top / name).is_file() or not (top / name).exists()


@steady(150)
@given(verdict=VERDICTS, draft=DRAFTS)
def test_a_verdict_and_a_draft_to_the_merge_request(top: Path, verdict: Any, draft: Any) -> None:
    verified = accept("verify", verdict, top)
    drafted = accept("mr", draft, top)
    assert not isinstance(verified, Verdict) or verified.passed is verdict["passed"]
    if isinstance(drafted, Draft):
        said = verified if isinstance(verified, Verdict) else Verdict(passed=True)
        show(PROPOSAL.analysis, drafted, said)
        kept = select_answers(drafted.answers, REQUEST, ("test_shop.py",))
        assert {name for answer in kept for name in answer.files} <= {"test_shop.py"}


def show(analysis: AnalysisResult, draft: Draft, verdict: Verdict) -> None:
    """Through the bundle, which publish reads as hostile, to all texts that people see."""
    proposal = dataclasses.replace(PROPOSAL, analysis=analysis, draft=draft, verdict=verdict)
    beads = tuple(
        BeadResult(bead, "tests", 1, "m", BeadStatus.OK, Usage(), 1.0, handoff=handoff)
        for bead, handoff in (("analyze", analysis), ("verify", verdict), ("mr", draft))
    )
    whole = dataclasses.replace(BUNDLE, proposal=limit_record(proposal), beads=limit_record(beads))
    data = encode_bundle(whole)
    bundle = decode_record(Bundle, data)
    assert bundle == build_record(Bundle, json.loads(data), "x")
    assert bundle.proposal
    result = build_run_result(bundle, None)
    assert render_page(result, "").encode() and render_junit(result).encode()
    plain: Proposal = clean_record(bundle.proposal, lambda text: text)
    mark = merge_request.build_marker(bundle, plain)
    title = merge_request.format_title(bundle, plain, SETTINGS)
    assert title.splitlines() == [title] and len(title) <= 255
    assert render_description(bundle, plain, JobFacts(), mark, None).encode()
    assert merge_request.build_commit_message(bundle, plain, SETTINGS, ()).encode()
    slug = merge_request.build_branch_slug(bundle, plain, SETTINGS)
    assert slug and slug.isascii() and not {*slug} & {*" ~^:?*[\\\0"} and ".." not in slug
