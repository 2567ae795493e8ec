"""A bundle is hostile: what was edited, made for something else or breaks a rule is refused."""

import base64
import dataclasses
import json
import mmap
import os
import re
import resource
import string
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.records.products import Bundle, Outcome, Proposal, ProposedChange
from gitlab_nightshift.records.storage import LARGEST_BUNDLE, LARGEST_PATCH
from gitlab_nightshift.repository import bundle_reader
from gitlab_nightshift.sandbox import stage_process
from tests.support.stages import real_start
from tests.support.trees import whole_tree
from tests.support.world import ROOT, World, world

from .conftest import TEST_SHOP, Night, add_a_test, git, raw_git, ready

Json = dict[str, Any]


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """For all that is refused before GitLab is asked anything."""
    with world(tmp_path_factory.mktemp("world"), depth=5) as made:
        heads = git(made.project.bare_repository, "for-each-ref")
        yield made
        assert made.merge_requests == []
        assert git(made.project.bare_repository, "for-each-ref") == heads


@pytest.fixture
def night(untouched: World, tmp_path: Path) -> Night:
    return ready(untouched, tmp_path)


def refused(night: Night, code: Code, words: str, **changes: Any) -> None:
    """Refused in one line, before GitLab is asked anything, and the bundle stays as it is."""
    night.gitlab.requests.clear()
    before = whole_tree(night.bundle_folder)
    with pytest.raises(NightshiftError) as raised:
        night.publish(**changes)
    assert raised.value.code is code, (words, raised.value.message)
    assert words in raised.value.message
    assert "\n" not in raised.value.message
    assert night.asked() == []
    assert whole_tree(night.bundle_folder) == before


def edit(night: Night, change: Callable[[Json], object]) -> None:
    file = night.bundle_folder / "bundle.json"
    data = json.loads(file.read_text())
    change(data)
    file.write_text(json.dumps(data))


CHANGED = set[tuple[str, ...]]()
"""The fields that are edited."""


def put(*path: str, value: Any) -> Callable[[Json], object]:
    def change(data: Json) -> None:
        for name in path[:-1]:
            data = data[name]
        data[path[-1]] = value

    CHANGED.add(path)
    return change


CHANGE = ("proposal", "change")
ODD_ATTEMPT = {"category": "any text", "number": 1, "error_code": "", "why": ""}


EDITED = [
    (put("version", value=1), Code.PARSE_ERROR, "of version 1, from an older nightshift"),
    (put("outcome", value="GREAT"), Code.PARSE_ERROR, "outcome"),
    (put("proposal", value=None), Code.PARSE_ERROR, "no proposal"),
    (put("proposal", "verdict", "passed", value=False), Code.PARSE_ERROR, "not verified"),
    (put("proposal", "category", value="evil"), Code.PARSE_ERROR, "category"),
    (put("proposal", "category", value="docs"), Code.PARSE_ERROR, "(proposal.category)"),
    (put("proposal", "is_fallback", value=True), Code.PARSE_ERROR, "(proposal.is_fallback)"),
    (put("category_used", value="any text"), Code.PARSE_ERROR, "(category_used)"),
    (put("is_fallback", value=True), Code.PARSE_ERROR, "(category_used)"),
    (put("failed_attempts", value=[ODD_ATTEMPT]), Code.PARSE_ERROR, "(failed_attempts)"),
    (put("proposal", "draft", "title", value="x" * 501), Code.PARSE_ERROR, "draft.title"),
    (put("proposal", "draft", "summary", value=7), Code.PARSE_ERROR, "draft.summary"),
    (put("run_id", value="1\n/merge"), Code.PARSE_ERROR, "run_id"),
    (put("run_id", value=""), Code.PARSE_ERROR, "run_id"),
    (put("created_at", value="yesterday"), Code.PARSE_ERROR, "created_at"),
    (put("created_at", value="2026-01-01T00:00:00"), Code.PARSE_ERROR, "created_at"),
    (put("created_at", value="9998-01-01T00:00:00+00:00"), Code.PARSE_ERROR, "created_at"),
    (put("created_at", value="0001-01-01T00:00:00+14:00"), Code.PARSE_ERROR, "created_at"),
    (put("base_sha", value="0" * 40), Code.PUBLISH, "made for another commit"),
    (put("base_sha", value="HEAD"), Code.PUBLISH, "made for another commit"),
    (put("target_branch", value="release"), Code.PUBLISH, "made for a branch other than"),
    (put(*CHANGE, "tree_id", value="0" * 40), Code.PUBLISH, "edited"),
    (put(*CHANGE, "tree_id", value="HEAD^{tree}"), Code.PUBLISH, "edited"),
    (put(*CHANGE, "files", value=["README.md"]), Code.PUBLISH, "edited"),
    (put(*CHANGE, "files", value=[]), Code.PUBLISH, "edited"),
    (put(*CHANGE, "added", value=1), Code.PUBLISH, "edited"),
    (put(*CHANGE, "deleted", value=1), Code.PUBLISH, "edited"),
]


def test_edited_json(night: Night) -> None:
    file = night.bundle_folder / "bundle.json"
    honest = file.read_bytes()
    for change, code, words in EDITED:
        edit(night, change)
        refused(night, code, words)
        file.write_bytes(honest)


TABLE = (ROOT / "docs/bundle.md").read_text().partition("\n## ")[0]
ELSEWHERE = {"Bundle.task"}
"""What the supervisor compares with the plan: ``supervisor/test_failure_records.py``."""


def read_rows() -> Iterator[tuple[str, str]]:
    """Each field with what is done, from the table of the documentation."""
    record = ""
    for line in TABLE.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) == 3 and (fields := re.findall(r"`(\w+)`", cells[0])):
            record = fields.pop(0) if fields[0][0].isupper() else record
            yield from ((f"{record}.{field}", cells[1]) for field in fields)


def list_records(kind: Any, found: dict[type[Any], None]) -> dict[type[Any], None]:
    """A record and all below it."""
    if dataclasses.is_dataclass(kind) and isinstance(kind, type) and kind not in found:
        found[kind] = None
        for part in get_type_hints(kind).values():
            list_records(part, found)
    for part in get_args(kind):
        list_records(part, found)
    return found


def test_each_field_is_checked_measured_or_a_claim() -> None:
    """A new one needs a row."""
    rows, records = list(read_rows()), list(list_records(Bundle, {}))
    own = (Bundle, Proposal, ProposedChange)
    fields = [f"{kind.__name__}.{each.name}" for kind in own for each in dataclasses.fields(kind)]
    assert sorted(name for name, _ in rows) == sorted(fields)
    assert {done for _, done in rows} == {"checked", "measured", "claim"}
    claims = TABLE.partition("are claims as a whole")[2]
    assert {kind.__name__ for kind in records if kind not in own} == set(
        re.findall(r"`(\w+)`", claims.partition(":")[2])
    )


def test_what_is_said_to_be_checked_is_refused_where_it_was_edited() -> None:
    names = {
        f"{('Bundle', 'Proposal', 'ProposedChange')[len(path) - 1]}.{path[-1]}"
        for path in CHANGED
        if path[:-1] in ((), ("proposal",), CHANGE)
    }
    checked = {name for name, done in read_rows() if done == "checked"} - ELSEWHERE
    assert checked - {"Proposal.change"} <= names


def test_bad_json(night: Night) -> None:
    for text in ("", "{", "[]", "null", "[" * 100_000, '{"version": 1}', "\xff"):
        (night.bundle_folder / "bundle.json").write_bytes(text.encode("latin-1"))
        refused(night, Code.PARSE_ERROR, "bundle.json")


def test_no_bundle(night: Night) -> None:
    (night.bundle_folder / "bundle.json").unlink()
    refused(night, Code.CONFIG, "bundle.json: No such file")


def test_no_patch(night: Night) -> None:
    night.patch.unlink()
    refused(night, Code.CONFIG, "change.patch: No such file")


@pytest.mark.parametrize("name", ["bundle.json", "change.patch"])
def test_a_link_is_not_followed(night: Night, name: str) -> None:
    file = night.bundle_folder / name
    file.rename(night.folder / name)
    file.symlink_to(night.folder / name)
    refused(night, Code.PARSE_ERROR, "not a plain file")


@pytest.mark.parametrize(
    ("name", "size"), [("bundle.json", LARGEST_BUNDLE), ("change.patch", LARGEST_PATCH)]
)
def test_huge_files_are_not_read(night: Night, name: str, size: int) -> None:
    os.truncate(night.bundle_folder / name, size + 1)
    refused(night, Code.PARSE_ERROR, "at most")


def test_a_flipped_byte_in_the_patch(night: Night) -> None:
    patch = bytearray(night.patch.read_bytes())
    at = patch.index(b"test_half")
    patch[at] ^= 1
    night.patch.write_bytes(patch)
    refused(night, Code.PUBLISH, "edited")


def test_a_patch_that_is_none(night: Night) -> None:
    for patch in (b"", b"rubbish\n", b"\0" * 100):
        night.patch.write_bytes(patch)
        refused(night, Code.PUBLISH, "not published")


def test_a_patch_cut_short(night: Night) -> None:
    night.patch.write_bytes(night.patch.read_bytes()[:-40])
    refused(night, Code.PUBLISH, "edited")


def bomb(base: bytes, size: int) -> bytes:
    """A patch that makes a file of ``size`` bytes out of itself, copied over and over."""

    def number(value: int) -> bytes:
        low = bytes([value & 127 | (128 if value > 127 else 0)])
        return low + (number(value >> 7) if value > 127 else b"")

    copy = b"\xb0" + len(base).to_bytes(2, "little")
    made = zlib.compress(number(len(base)) + number(size) + copy * (size // len(base)))
    rows = [made[at : at + 52] for at in range(0, len(made), 52)]
    letters = string.ascii_uppercase + string.ascii_lowercase
    lines = [letters[len(row) - 1].encode() + base64.b85encode(row, pad=True) for row in rows]
    length = len(zlib.decompress(made))
    return b"delta %d\n%s\n\ndelta 0\nHc$@<O00001\n\n" % (length, b"\n".join(lines))


def test_a_patch_that_grows_without_end(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some kilobytes that would become 600 megabytes, or any number."""
    monkeypatch.setattr(stage_process, "start_stage", real_start)
    base = os.urandom(60_000)

    def logo(top: Path) -> None:
        (top / "logo.bin").write_bytes(base)

    night.make(logo)
    made = night.patch.read_bytes()
    blob = git(night.folder / "copy", "hash-object", "logo.bin")
    size = 60_000 * 10_000
    more = f"diff --git a/logo.bin b/logo.bin\nindex {blob}..{'1' * 40} 100644\n"
    night.patch.write_bytes(made + f"{more}GIT binary patch\n".encode() + bomb(base, size))
    assert len(night.patch.read_bytes()) < 200_000
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    refused(night, Code.PUBLISH, "does not apply")
    after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Kilobytes. A child counts what this process held when it was forked, too.
    assert after <= max(before, own, 450_000)


def test_a_bundle_is_read_whatever_the_tests_hold(night: Night) -> None:
    """The limit of memory is the reader's own."""
    night.patch.write_bytes(b"no patch\n" * 300_000)
    with mmap.mmap(-1, 1 << 30, flags=mmap.MAP_PRIVATE):
        refused(night, Code.PUBLISH, "does not apply")


@pytest.mark.parametrize("sizes", [(5_000_001,), (4_000_000,) * 6])
def test_files_that_are_larger_than_their_patch(night: Night, sizes: tuple[int, ...]) -> None:
    """Zeros pack well, and a file of them is one line."""

    def large(top: Path) -> None:
        for number, size in enumerate(sizes):
            (top / f"large{number}.bin").write_bytes(bytes(size - 1) + bytes([number]))

    night.make(large)
    assert night.patch.stat().st_size < 200_000
    refused(night, Code.PUBLISH, "more than 5000000 bytes")


def test_a_change_of_nothing(night: Night) -> None:
    """A file taken away and put back within one patch."""
    night.make(lambda top: (top / "shop.py").unlink())
    gone, copy = night.patch.read_bytes(), night.folder / "copy"
    back = raw_git(copy, "diff", "--cached", "--binary", "--full-index", "-R")
    night.patch.write_bytes(gone + back)
    tree = git(night.world.checkout, "rev-parse", "HEAD^{tree}")
    edit(night, put(*CHANGE, value={"tree_id": tree, "files": [], "added": 0, "deleted": 0}))
    refused(night, Code.PUBLISH, "changes nothing")


ESCAPING = (
    "../evil",
    "/tmp/evil",
    ".git/hooks/post-checkout",
    "a/.GIT/config",
    "a/../../evil",
    "git~1/config",
    ".git\u200c/config",
)


def test_paths_that_escape(night: Night) -> None:
    for path in ESCAPING:
        text = (
            f"diff --git a/{path} b/{path}\nnew file mode 100755\nindex {'0' * 40}..{'1' * 40}\n"
            f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+evil\n"
        )
        night.patch.write_bytes(text.encode())
        refused(night, Code.PUBLISH, "does not apply")
        assert not Path("/tmp/evil").exists(), path
        assert not (night.folder / "evil").exists(), path


def test_another_patch_with_its_own_tree(night: Night) -> None:
    """Somebody changed patch and tree id together, but not the list of files."""
    listed = json.loads((night.bundle_folder / "bundle.json").read_text())["proposal"]["change"]
    night.make(lambda top: rewrite(top / "shop.py"))
    edit(night, put(*CHANGE, "files", value=listed["files"]))
    refused(night, Code.PUBLISH, "edited")


def rewrite(path: Path) -> None:
    path.write_text("evil = 1\n")


def test_a_bundle_of_another_checkout(night: Night) -> None:
    job = dataclasses.replace(night.job, commit_sha="1" * 40)
    refused(night, Code.PUBLISH, "made for another commit", job=job)


# --- rules are held once more -------------------------------------------------------------------


def test_too_many_lines(night: Night) -> None:
    night.settings["max_diff_lines"] = 2
    refused(night, Code.POLICY_DENY, "at most 2")


@pytest.mark.parametrize("path", ["package-lock.json", "sub/pom.xml", "sub/ruff.toml"])
def test_files_that_no_night_changes(night: Night, path: str) -> None:
    def add(top: Path) -> None:
        (top / path).parent.mkdir(exist_ok=True)
        (top / path).write_text("x\n")

    night.make(add)
    refused(night, Code.POLICY_DENY, path)


def skip_tests(top: Path) -> None:
    (top / "Makefile").write_text("test:\n\ttrue\n")


def test_settings_of_tools_in_a_shared_file(
    shop: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    night = Night(shop, tmp_path)
    night.make(skip_tests)
    refused(night, Code.POLICY_DENY, "Makefile contains tool settings (test:)")
    night.settings["policy"] = {"flags": {"tool-settings": "warn"}}
    assert night.publish().commit_sha
    night.settings["policy"] = {}
    monkeypatch.setattr(bundle_reader, "list_changed_settings", lambda _sides: {})
    assert night.publish().commit_sha, "without the look at its tables it gets through"


def link(top: Path, target: str = "test_shop.py") -> None:
    (top / "link").symlink_to(target)


def file_to_link(top: Path) -> None:
    (top / "shop.py").unlink()
    (top / "shop.py").symlink_to("/etc/passwd")


def submodule(top: Path) -> None:
    git(top, "init", "-q", "link")
    git(top / "link", "commit", "-q", "--allow-empty", "-m", "x")


@pytest.mark.parametrize("change", [link, file_to_link, submodule])
def test_only_plain_files(night: Night, change: Callable[[Path], None]) -> None:
    """Work never makes such a bundle: it was edited, and its tree id with it."""
    night.make(change)
    name = "shop.py" if change is file_to_link else "link"
    refused(night, Code.POLICY_DENY, f"{name} is a symbolic link or a submodule")


def test_a_new_program_is_a_plain_file(shop: World, tmp_path: Path) -> None:
    night = Night(shop, tmp_path)

    def tool(top: Path) -> None:
        (top / "tool.sh").write_text("#!/bin/sh\n")
        (top / "tool.sh").chmod(0o755)

    night.make(tool)
    assert night.publish().commit_sha


def test_a_path_outside(night: Night) -> None:
    night.settings["paths"] = ["docs/"]
    refused(night, Code.POLICY_DENY, TEST_SHOP)


def test_a_recent_file(night: Night) -> None:
    refused(night, Code.POLICY_DENY, TEST_SHOP, recent_files=frozenset({TEST_SHOP}))


# --- what is not published ----------------------------------------------------------------------


def test_a_quiet_night_is_only_reported(night: Night) -> None:
    reason = "All categories exhausted. \x1b[31m\u202e"
    for outcome in set(Outcome) - {Outcome.MR_READY}:
        night.make(add_a_test, outcome=outcome, reason=reason, error_code="E_TIMEOUT")
        night.patch.unlink()
        night.gitlab.requests.clear()
        published = night.publish()
        assert published.outcome is outcome
        assert published.run_id == "4711"
        assert published.reason == "All categories exhausted. [31m"
        assert published.error_code == "E_TIMEOUT"
        assert published.mr_url == ""
        assert night.asked() == []


# --- odd files ----------------------------------------------------------------------------------


def odd(top: Path) -> None:
    """Names with spaces, newlines and no UTF-8, binary, mode, deletion, no newline at the end."""
    names = (b"a b.txt", b"new\nline", b"\xff\xfe.bin", b'quo"te', b"-dash", "ümlaut".encode())
    for name in names:
        (top / os.fsdecode(name)).write_bytes(b"\0\1" + name)
    (top / "run.sh").chmod(0o644)
    (top / "shop.py").unlink()
    (top / TEST_SHOP).write_text("no newline")


def test_odd_files_arrive_byte_for_byte(shop: World, tmp_path: Path) -> None:
    night = Night(shop, tmp_path)
    bundle = night.make(odd)
    assert bundle.proposal
    # A binary file counts all of its lines: what git's numstat leaves out.
    binary = 7
    change = bundle.proposal.change
    edit(night, put(*CHANGE, "added", value=change.added + binary))
    published = night.publish()
    bare = shop.project.bare_repository
    tree = git(bare, "rev-parse", f"{published.commit_sha}^{{tree}}")
    assert tree == change.tree_id
    body = night.merge_request.description or ""
    assert "`\\xff\\xfe.bin`" in body
    assert "`new\\nline`" in body
    assert "`ümlaut`" in body
