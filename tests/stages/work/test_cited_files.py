"""Paths that agents cite are resolved, or dropped with a note; a candidate with wrong evidence is
dropped."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitlab_nightshift.agents.agent import BeadReport
from gitlab_nightshift.records.bead_results import (
    AnalysisCandidate,
    AnalysisResult,
    BeadStatus,
    Draft,
)
from gitlab_nightshift.records.usage import Usage
from gitlab_nightshift.repository.tree_snapshot import scan
from gitlab_nightshift.stages.work.cited_files import PathResolver, drop_unfounded
from gitlab_nightshift.stages.work.handoff import HandoffResult, accept_handoff
from gitlab_nightshift.system.file_names import is_dot_git
from tests.fuzz.strategies import steady
from tests.support.tables import each

ROOT, LINKED = "/builds/acme/shop", "/mnt/acme/shop"
FILES = ("shop.py", "docs/a b.md", "-rf", "a:7", "new\nline", "docs/näme.md", "src/:(top)x")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> PathResolver:
    top = tmp_path_factory.mktemp("shop")
    for name in FILES:
        (top / name).parent.mkdir(exist_ok=True)
        (top / name).write_text("x\n")
    (top / "link").symlink_to("/etc")
    (top / "alias.py").symlink_to("shop.py")
    return PathResolver((ROOT, LINKED), scan(top))


RESOLVABLE = [
    *((name, name) for name in FILES),
    (f"{ROOT}/shop.py", "shop.py"),
    (f"{LINKED}/docs/a b.md", "docs/a b.md"),
    (f"{ROOT}//./docs//a b.md", "docs/a b.md"),
    ("./shop.py", "shop.py"),
    ("shop.py/", "shop.py"),
    ("shop.py:12", "shop.py"),
    (f"{ROOT}/shop.py:12:7", "shop.py"),
    ("shop.py:12-30", "shop.py"),
    ("tests/new.py", "tests/new.py"),
    (f"{ROOT}/tests/new.py", "tests/new.py"),
    (".gitignore", ".gitignore"),
    (".github/x", ".github/x"),
    ("...", "..."),
    ("tests/new.py:12", "tests/new.py:12"),
    ("x" * 255, "x" * 255),
]
UNRESOLVABLE = [
    *("", ".", "/", "./", "..", "../..", "../shop/shop.py", "docs/../shop.py", "/etc/shadow"),
    *(ROOT, f"{ROOT}/", f"{ROOT}/../x", f"{ROOT}-other/shop.py", f"{ROOT}//etc/../x"),
    *("docs", "docs/", "src", "link", "link/passwd", "alias.py", "shop.py/x", "-rf/x/y"),
    *(".git", ".git/config", "docs/.git/x", ".GIT/config", "git~1/x", ".git\u200c/x", ".git /x"),
    *("a\0b", "\0", "a\nb", "\x1b[31m", "a\u202eb", "a\ud800b", "a\x7fb", "docs\\..\\.git\\x"),
    *("x" * 256, "ä" * 128, "/".join(["x" * 200] * 21), "x/" * 3000),
]


@pytest.mark.parametrize(("text", "path"), RESOLVABLE)
def test_a_file_that_exists_or_could_be_created_is_resolved(
    tree: PathResolver, text: str, path: str
) -> None:
    assert tree.resolve(text) == path


@pytest.mark.parametrize("text", UNRESOLVABLE)
def test_other_texts_are_not_resolved(tree: PathResolver, text: str) -> None:
    assert tree.resolve(text) is None


ODD = ("\0", "\\", "~", "$HOME", ":(glob)**", "\n", "\u202e", "\ud800", "x" * 300, "--force")
PARTS = st.sampled_from(
    [ROOT, LINKED, *FILES, "..", ".", "", "/", "//", "docs", "link", ".git", "GIT~1", ":12", *ODD]
)
NAMES = st.lists(PARTS | st.text(max_size=4), max_size=7).map("".join)


@steady(2_000)
@given(NAMES | st.lists(PARTS, max_size=5).map("/".join))
def test_no_resolved_path_leads_out_of_the_checkout(tree: PathResolver, text: str) -> None:
    path = tree.resolve(text)
    if path is None or path in FILES:
        return
    assert path.isprintable() and len(path.encode()) <= 4095
    assert not {"", ".", ".."} & {*path.split("/")}
    assert not is_dot_git(path)
    assert path not in tree.entries and not tree.is_behind_link(path)


@steady(300)
@given(st.text("`'\" \n", max_size=3), NAMES)
def test_evidence_is_made_relative_only_at_its_beginning(
    tree: PathResolver, before: str, text: str
) -> None:
    made = tree.make_evidence_relative(f"{before}{ROOT}/{text}")
    assert made in (f"{before}{text}", f"{before}{ROOT}/{text}")
    said = f"shop.py:1: `open('{ROOT}/{text}')`"
    assert tree.make_evidence_relative(said) == said


SELECTED = {"files": ["shop.py"], "description": "Do it."}


def accept(bead: str, data: dict[str, Any], tree: PathResolver) -> HandoffResult:
    return accept_handoff(
        bead, BeadReport(BeadStatus.OK, Usage(), structured=data), Path("/x"), tree
    )


def analyze(tree: PathResolver, *files: str, **more: object) -> HandoffResult:
    selected = {**SELECTED, "files": files}
    return accept("analyze", {"result": "IMPROVEMENT_FOUND", "selected": selected, **more}, tree)


def test_the_paths_of_an_analysis(tree: PathResolver) -> None:
    """A candidate without a file of the tree is dropped: selected, it would mean any file."""
    rest = [{**SELECTED, "files": files} for files in (["/etc/shadow"], [f"{ROOT}/shop.py"], [])]
    named = ("./shop.py", f"{ROOT}/shop.py", "..", "tests/new.py")
    read = analyze(tree, *named, candidates=rest)
    analysis = read.handoff
    assert isinstance(analysis, AnalysisResult) and analysis.selected
    assert analysis.selected.files == ("shop.py", "tests/new.py")
    assert [candidate.files for candidate in analysis.candidates] == [("shop.py",)]
    assert read.note == "no files of this project, so left out: /etc/shadow, .."


def test_the_paths_of_evidence_and_of_answers(tree: PathResolver) -> None:
    evidence = [f"{LINKED}/shop.py:1: `x`", "shop.py:1"]
    selected = {**SELECTED, "evidence": evidence}
    read = accept("analyze", {"result": "IMPROVEMENT_FOUND", "selected": selected}, tree)
    assert isinstance(read.handoff, AnalysisResult) and read.handoff.selected
    assert read.handoff.selected.evidence == ("shop.py:1: `x`", "shop.py:1")
    answer = {"thread": 1, "text": "Done.", "files": [f"{ROOT}/shop.py", "/etc/shadow"]}
    told = accept("mr", {"title": "T", "summary": "S", "answers": [answer]}, tree)
    assert isinstance(told.handoff, Draft)
    assert [each.files for each in told.handoff.answers] == [("shop.py",)]
    assert told.note.endswith(": /etc/shadow")


def test_a_selection_without_a_file_of_the_project_is_refused(tree: PathResolver) -> None:
    read = analyze(tree, "/etc/shadow", "a\0b", *(f"../{n}" for n in range(98)))
    why = "selected: none of its files is one of this project: /etc/shadow, a\\x00b, ../0, ../1, "
    assert (read.status, read.error) == (BeadStatus.NO_HANDOFF, f"{why}../2 and 95 more")
    assert analyze(tree).error == "selected: files and description are required"


def test_paths_do_not_matter_if_nothing_was_found(tree: PathResolver) -> None:
    nothing = {"result": "NO_IMPROVEMENT", "selected": {**SELECTED, "files": ["/etc/shadow"]}}
    assert accept("analyze", nothing, tree).status is BeadStatus.OK


def test_the_note_on_thousands_of_dropped_paths_is_short(tree: PathResolver) -> None:
    read = analyze(tree, "shop.py", *(f"/{n}/{'x' * 1000}" for n in range(2_000)))
    analysis = read.handoff
    assert isinstance(analysis, AnalysisResult) and analysis.selected
    assert analysis.selected.files == ("shop.py",)
    assert read.note.endswith(" and 194 more") and len(read.note) < 1_200


@each("text", ["x" * 4095, "x" * 5000, f"{ROOT}/" + "x/" * 3000])
def test_a_path_that_is_too_long_is_not_shortened_to_another(text: str, tree: PathResolver) -> None:
    assert not analyze(tree, text).handoff


def test_paths_are_resolved_in_the_tree_before_the_agent(tmp_path: Path) -> None:
    """What an agent puts in a file's place will be removed."""
    (tmp_path / "shop.py").write_text("x")
    tree = PathResolver((str(tmp_path),), scan(tmp_path))
    (tmp_path / "shop.py").unlink()
    (tmp_path / "shop.py").symlink_to("/etc/shadow")
    assert tree.resolve("shop.py") == "shop.py"
    assert json.dumps(dataclasses.asdict(analyze(tree, "shop.py"))["handoff"])


TEXT = 'def total(prices):\n    return  sum(prices)\n# `x` and "y"\n'


@pytest.fixture
def top(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/shop.py").write_text(TEXT)
    return tmp_path


def resolver(top: Path) -> PathResolver:
    return PathResolver((str(top),), scan(top))


def candidate(name: str, *evidence: str, rank: int = 1) -> AnalysisCandidate:
    return AnalysisCandidate(("src/shop.py",), name, rank, "", 2, evidence)


def analysed(*candidates: AnalysisCandidate) -> AnalysisResult:
    return AnalysisResult("IMPROVEMENT_FOUND", "tests", "", 3, candidates, candidates[0])


@each(
    "evidence",
    [
        "src/shop.py:1",
        "./src/shop.py:3",
        "`src/shop.py:2`",
        "src/shop.py:2: `return sum(prices)`",
        "src/shop.py:2: `return sum(...)`",
        "src/shop.py:1-2: `def total(prices): return sum(prices)`",
        'src/shop.py:3: `# `x` and "y"`',
        "src/shop.py:1: `def total` returns `sum(prices)`",
        "src/shop.py:2: no test calls it",
        "src/shop.py:2:11: `sum`",
    ],
)
def test_right_evidence(evidence: str, top: Path) -> None:
    given = analysed(candidate("a", evidence))
    assert drop_unfounded(given, top, resolver(top)) == (given, [])


@each(
    ("evidence", "why"),
    [
        ("src/gone.py:1: `x`", "src/gone.py:1 is quoted, but there is no such file"),
        ("src:1", "src:1 is quoted, but there is no such file"),
        ("../top/src/shop.py:1", "../top/src/shop.py:1 is quoted, but there is no such file"),
        ("/etc/passwd:1", "/etc/passwd:1 is quoted, but there is no such file"),
        ("a\0b:1", "a\\x00b:1 is quoted, but there is no such file"),
        ("src/shop.py:4", "src/shop.py:4 is quoted, but the file has 3 lines"),
        ("src/shop.py:0", "src/shop.py:0 is quoted, but the file has 3 lines"),
        (
            "src/shop.py:2: `return max(prices)`",
            "src/shop.py:2 is quoted, but the quoted text is not in that file",
        ),
        ("it is obvious", "evidence does not name a file and line: it is obvious"),
        ("", "evidence does not name a file and line: "),
    ],
)
def test_wrong_evidence(evidence: str, why: str, top: Path) -> None:
    analysis, dropped = drop_unfounded(analysed(candidate("a", evidence)), top, resolver(top))
    assert dropped == [why]
    assert analysis == AnalysisResult("NO_IMPROVEMENT", "tests", why, 3)


def test_a_cited_path_that_is_too_long(top: Path) -> None:
    [why] = drop_unfounded(analysed(candidate("a", f"{'x' * 4000}:1")), top, resolver(top))[1]
    assert why.endswith(":1 is quoted, but there is no such file")


def test_the_best_candidate_with_right_evidence_replaces_the_selected_one(top: Path) -> None:
    wrong, silent = candidate("wrong", "src/gone.py:1"), candidate("silent", rank=2)
    fourth, third = candidate("4", "src/shop.py:1", rank=4), candidate("3", "src/shop.py:1", rank=3)
    analysis, dropped = drop_unfounded(analysed(wrong, silent, fourth, third), top, resolver(top))
    assert len(dropped) == 1
    assert analysis.selected == third
    assert analysis.candidates == (silent, fourth, third)


def test_a_candidate_without_evidence_stays(top: Path) -> None:
    given = analysed(candidate("a"))
    assert drop_unfounded(given, top, resolver(top)) == (given, [])
    nothing = AnalysisResult("NO_IMPROVEMENT", reason="all is well")
    assert drop_unfounded(nothing, top, resolver(top)) == (nothing, [])


def test_no_link_is_followed(top: Path) -> None:
    (top / "link").symlink_to("/etc/hostname")
    given = analysed(candidate("a", "link:99999"))
    assert drop_unfounded(given, top, resolver(top)) == (given, []), (
        "not read, so not held against it"
    )
