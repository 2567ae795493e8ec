"""Paths as agents write them become paths of the checkout, or are left out and told."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitlab_nightshift.agents.agent import BeadReport
from gitlab_nightshift.records.bead_results import BeadStatus
from gitlab_nightshift.records.handoffs import AnalysisResult, Draft
from gitlab_nightshift.records.usage import Usage
from gitlab_nightshift.repository.tree_snapshot import scan
from gitlab_nightshift.stages.work.handoff import ReadHandoff, accept_handoff
from gitlab_nightshift.stages.work.named_paths import PathResolver
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


FILE_NAMES = [
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
NO_FILES = [
    *("", ".", "/", "./", "..", "../..", "../shop/shop.py", "docs/../shop.py", "/etc/shadow"),
    *(ROOT, f"{ROOT}/", f"{ROOT}/../x", f"{ROOT}-other/shop.py", f"{ROOT}//etc/../x"),
    *("docs", "docs/", "src", "link", "link/passwd", "alias.py", "shop.py/x", "-rf/x/y"),
    *(".git", ".git/config", "docs/.git/x", ".GIT/config", "git~1/x", ".git\u200c/x", ".git /x"),
    *("a\0b", "\0", "a\nb", "\x1b[31m", "a\u202eb", "a\ud800b", "a\x7fb", "docs\\..\\.git\\x"),
    *("x" * 256, "ä" * 128, "/".join(["x" * 200] * 21), "x/" * 3000),
]


@pytest.mark.parametrize(("text", "path"), FILE_NAMES)
def test_a_name_of_a_file_or_of_one_that_could_be_made(
    tree: PathResolver, text: str, path: str
) -> None:
    assert tree.resolve(text) == path


@pytest.mark.parametrize("text", NO_FILES)
def test_what_is_no_name_of_a_file(tree: PathResolver, text: str) -> None:
    assert tree.resolve(text) is None


ODD = ("\0", "\\", "~", "$HOME", ":(glob)**", "\n", "\u202e", "\ud800", "x" * 300, "--force")
PARTS = st.sampled_from(
    [ROOT, LINKED, *FILES, "..", ".", "", "/", "//", "docs", "link", ".git", "GIT~1", ":12", *ODD]
)
NAMES = st.lists(PARTS | st.text(max_size=4), max_size=7).map("".join)


@steady(2_000)
@given(NAMES | st.lists(PARTS, max_size=5).map("/".join))
def test_no_name_leads_out_of_the_checkout(tree: PathResolver, text: str) -> None:
    path = tree.resolve(text)
    if path is None or path in FILES:
        return
    assert path.isprintable() and len(path.encode()) <= 4095
    assert not {"", ".", ".."} & {*path.split("/")}
    assert not is_dot_git(path)
    assert path not in tree.entries and not tree.is_behind_link(path)


@steady(300)
@given(st.text("`'\" \n", max_size=3), NAMES)
def test_evidence_is_shortened_at_its_beginning_alone(
    tree: PathResolver, before: str, text: str
) -> None:
    made = tree.make_evidence_relative(f"{before}{ROOT}/{text}")
    assert made in (f"{before}{text}", f"{before}{ROOT}/{text}")
    said = f"shop.py:1: `open('{ROOT}/{text}')`"
    assert tree.make_evidence_relative(said) == said


SELECTED = {"files": ["shop.py"], "description": "Do it."}


def accept(bead: str, data: dict[str, Any], tree: PathResolver) -> ReadHandoff:
    return accept_handoff(
        bead, BeadReport(BeadStatus.OK, Usage(), structured=data), Path("/x"), tree
    )


def analyze(tree: PathResolver, *files: str, **more: object) -> ReadHandoff:
    selected = {**SELECTED, "files": files}
    return accept("analyze", {"result": "IMPROVEMENT_FOUND", "selected": selected, **more}, tree)


def test_the_paths_of_an_analysis(tree: PathResolver) -> None:
    """Of a candidate that names none of the tree nothing is left: chosen, it would hold for all."""
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


def test_where_nothing_was_found_no_name_matters(tree: PathResolver) -> None:
    nothing = {"result": "NO_IMPROVEMENT", "selected": {**SELECTED, "files": ["/etc/shadow"]}}
    assert accept("analyze", nothing, tree).status is BeadStatus.OK


def test_of_thousands_of_names_the_first_count_and_the_note_is_short(tree: PathResolver) -> None:
    read = analyze(tree, "shop.py", *(f"/{n}/{'x' * 1000}" for n in range(2_000)))
    analysis = read.handoff
    assert isinstance(analysis, AnalysisResult) and analysis.selected
    assert analysis.selected.files == ("shop.py",)
    assert read.note.endswith(" and 194 more") and len(read.note) < 1_200


@each("text", ["x" * 4095, "x" * 5000, f"{ROOT}/" + "x/" * 3000])
def test_a_name_that_is_cut_is_not_another_file(text: str, tree: PathResolver) -> None:
    assert not analyze(tree, text).handoff


def test_the_tree_is_that_of_before_the_agent(tmp_path: Path) -> None:
    """What an agent puts into a file's place meanwhile is taken away again."""
    (tmp_path / "shop.py").write_text("x")
    tree = PathResolver((str(tmp_path),), scan(tmp_path))
    (tmp_path / "shop.py").unlink()
    (tmp_path / "shop.py").symlink_to("/etc/shadow")
    assert tree.resolve("shop.py") == "shop.py"
    assert json.dumps(dataclasses.asdict(analyze(tree, "shop.py"))["handoff"])
