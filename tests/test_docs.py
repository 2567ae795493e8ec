"""The documentation names what there is: every key, code, command, module and function."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitlab_nightshift.cli import build_parser
from gitlab_nightshift.commands.config_show import COMMON_SETTINGS
from gitlab_nightshift.errors import Code
from gitlab_nightshift.gateway.prices import KNOWN_RATES, Tokens
from gitlab_nightshift.records.products import Outcome
from gitlab_nightshift.settings.load import load_settings

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = (*sorted(DOCS.rglob("*.md")), ROOT / "README.md", ROOT / "SECURITY.md")
SETTINGS = "".join(
    (DOCS / name).read_text(encoding="utf-8") for name in ("configuration.md", "settings.md")
)
ERRORS = (DOCS / "errors.md").read_text(encoding="utf-8")
ARCHITECTURE = (DOCS / "architecture.md").read_text(encoding="utf-8")
PACKAGE = ROOT / "gitlab_nightshift"
FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
IN_CODE = re.compile(r"((?:\w+/)*\w+\.py|(?:\w+/)+)(?:: (\w+))?")
"""A module or a folder, and what is defined there."""


def test_every_key_is_documented_once() -> None:
    rows = re.findall(r"(?m)^\| `([\w.]+)[:`]", SETTINGS)
    keys = load_settings({}).flatten_values()
    assert [key for key in keys if rows.count(key) != 1] == []
    assert keys


def test_every_code_is_documented_with_its_exit_status() -> None:
    rows = [f"| `{code}` | {code.exit_status} |" for code in Code]
    assert [row for row in rows if row not in ERRORS] == []


def test_every_outcome_is_documented() -> None:
    assert [outcome for outcome in Outcome if f"| `{outcome}` |" not in ERRORS] == []


def test_every_named_command_exists() -> None:
    words = {
        match[1]
        for page in PAGES
        for match in re.finditer(r"`nightshift ([a-z]+)", page.read_text(encoding="utf-8"))
    }
    assert words
    assert words <= list_commands()


def test_the_price_in_the_readme_is_the_one_that_is_counted() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    [formula] = re.findall(r"\((I \* .*)\) / 1,000,000", readme)
    for name, kind in {"I": "input", "W": "written", "R": "cached", "O": "output"}.items():
        [(part, price)] = re.findall(rf"{name} \* ([\d.]*) ?([pq])", formula)
        times = {"p": 5, "q": 25}[price] * float(part or 1)
        assert KNOWN_RATES["claude-opus-4-6"].compute_cost(Tokens(**{kind: 1_000_000})) == times, (
            kind
        )
    assert not re.search(r"\$\d", readme), "the price of a night has not been measured"


def test_each_claim_about_another_tool_has_its_source() -> None:
    page = (DOCS / "comparison.md").read_text(encoding="utf-8")
    cells = [line.split(" | ")[2:] for line in page.splitlines() if line.startswith("| ")][1:]
    claims = [cell.removesuffix(" |") for row in cells for cell in row]
    assert claims
    assert [each for each in claims if "][" not in each and each != "not found"] == []
    named = re.findall(r"\]\[([a-z-]+)\]", page)
    assert {*named} == {*re.findall(r"(?m)^\[([a-z-]+)\]: https://", page)}
    assert re.search(r"read on \d+ \w+ 20\d\d", page)


def test_each_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["chat"]]
    names = {re.split("[<>=~!]", each)[0] for each in needed}
    page = (DOCS / "dependencies.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"(?m)^- ([\w-]+)[^(]* \([^)]+\).*: \S", page))
    grammars = {name for name in names if name.startswith("tree-sitter-")}
    assert names - grammars == listed


def test_the_readme_has_every_command() -> None:
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    listed = readme.partition("Commands of `nightshift`")[2]
    assert [name for name in list_commands() if not re.search(rf"`{name}\b", listed)] == []


def list_commands() -> set[str]:
    return set(re.findall(r"^    (\w+)(?: |$)", build_parser().format_help(), re.MULTILINE))


def test_every_link_leads_somewhere() -> None:
    links = [
        (page.name, target)
        for page in PAGES
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert links == []


# --- modules and functions ------------------------------------------------------------------------


def find_wrong_names(text: str, *, every: bool) -> Iterator[str]:
    """What a page says is in the repository and is not. ``every``: no path is a user's own, such as
    ``vendor/``; else one counts that has a folder and a module, or what is defined there."""
    for span in re.findall(r"`([^`]+)`", FENCED.sub("", text)):
        named = IN_CODE.fullmatch(" ".join(span.split()))
        if not named or not (every or re.match(r"gitlab_nightshift/|\w+/.*\.py|.*: ", named[0])):
            continue
        found = [base / named[1] for base in (PACKAGE, ROOT) if (base / named[1]).exists()]
        if not found or (named[2] and named[2] not in list_definitions(found[0])):
            yield named[0]


def list_definitions(module: Path) -> set[str]:
    """The names of a module's functions, classes and values."""
    found = set[str]()
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_every_named_module_and_function_is_there(page: Path) -> None:
    every = page.name in {"architecture.md", "CONTRIBUTING.md"}
    assert list(find_wrong_names(page.read_text(encoding="utf-8"), every=every)) == []


def test_a_wrong_name_is_found() -> None:
    frames = "`wire/channel.py`, `wire/channel.py:\nencode_frame`, `wire/channel.py: decode`"
    text = f"`host/git.py`, {frames}"
    assert list(find_wrong_names(text, every=False)) == ["host/git.py", "wire/channel.py: decode"]
    assert list(find_wrong_names("`outlets/`, `wire/`", every=True)) == ["outlets/"]
    assert list(find_wrong_names("`vendor/`, `cart.py`", every=False)) == []


def test_the_first_settings_are_those_that_config_show_prints() -> None:
    page = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([\w.]+)[:`]", page, re.M) == [*COMMON_SETTINGS]


def test_the_layout_has_every_part_of_the_package_and_no_other() -> None:
    [layout, *_] = FENCED.findall(ARCHITECTURE)
    named = set(re.findall(r"(?<![*\w])\w+(?:/|\.py\b)", layout))
    parts = {
        f"{path.name}/" if path.is_dir() else path.name
        for path in PACKAGE.iterdir()
        if not path.name.startswith("_") and (path.is_dir() or path.suffix == ".py")
    }
    assert parts - named == set()
    assert [name for name in named if not next(PACKAGE.rglob(name.rstrip("/")), None)] == []
