"""Records as the redactor stores them: redacted, except what publish compares."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.errors import Code
from gitlab_nightshift.records.codec import InvalidRecordError
from gitlab_nightshift.records.delegation_records import DelegationResult
from gitlab_nightshift.records.products import Bundle, Outcome, ProposedChange
from gitlab_nightshift.records.storage import LARGEST_PATCH, read_record, to_json
from gitlab_nightshift.records.verdicts import GatedFile
from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.run.received_files import KINDS, RecordStore, redact_bundle
from gitlab_nightshift.stages.report.page import read_beginning
from gitlab_nightshift.system.disk_reserve import Reserve
from tests.support.disks import fill, small_disk
from tests.support.samples import BUNDLE, PLAN, PROPOSAL, PUBLISHED, QUIET, RESULT
from tests.support.tables import each

SECRET = "hunter2-is-the-secret-of-this-job"
REDACT = Redactor((SECRET,))
GATES = (GatedFile("ci/x.yml", "draft", "is CI"), GatedFile("y", "deny", "is y"))
WHOLE = dataclasses.replace(
    BUNDLE, task="t", proposal=dataclasses.replace(PROPOSAL, gates=GATES, notes=("n",))
)
NAME, PATCH = "bundle/bundle.json", "bundle/change.patch"


def records(folder: Path) -> RecordStore:
    return RecordStore(folder, REDACT, REDACT, Reserve(folder / "reserve"))


def store_and_read(folder: Path, kind: str, record: Any) -> Any:
    """A record as it is stored on disk."""
    name = f"{kind}.json"
    records(folder).store(name, kind, to_json(record).encode())
    return json.loads((folder / name).read_bytes())


def list_texts(value: Any, parent: str = "") -> dict[str, str]:
    """The texts in JSON data, by their paths."""
    if isinstance(value, str):
        return {parent[1:]: value}
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    found: dict[str, str] = {}
    for key, part in pairs:
        if isinstance(part, str | dict | list):
            found |= list_texts(part, f"{parent}.{key}")
    return found


def split_by_redaction(record: Any, data: Any) -> tuple[set[str], set[str]]:
    """The paths of the texts that were redacted, and of those that still have the secret."""
    sent, stored = list_texts(json.loads(to_json(record))), list_texts(data)
    assert stored.keys() == sent.keys()
    paths = {path for path in sent if sent[path].endswith(SECRET)}
    redacted = {path for path in paths if stored[path].endswith("[redacted]")}
    exact = {path for path in paths if stored[path] == sent[path]}
    assert redacted | exact == paths
    return redacted, exact


def insert_secret(record: Any) -> Any:
    """The record with the secret in every text that is not an enumeration."""
    if type(record) is str:
        return f"{record} {SECRET}"
    if isinstance(record, tuple):
        return tuple(insert_secret(part) for part in record)
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        words = ("result", "decision", "level", "test_result", "where")
        parts = {
            field.name: insert_secret(getattr(record, field.name))
            for field in dataclasses.fields(record)
            if field.name not in words
        }
        return dataclasses.replace(record, **parts)
    return record


def test_only_ids_and_paths_of_a_bundle_are_not_redacted() -> None:
    bundle = insert_secret(WHOLE)
    data = json.loads(to_json(redact_bundle(bundle, REDACT)))
    redacted, exact = split_by_redaction(bundle, data)
    assert exact == {
        *("run_id", "created_at", "base_sha", "target_branch", "category_used"),
        *("proposal.category", "proposal.change.tree_id", "proposal.change.files.0"),
        *("proposal.gates.0.path", "proposal.gates.1.path"),
    }
    assert {"reason", "summary", "task", "isolation", "error_code", "beads.3.error"} < redacted
    assert {"proposal.commands.0.command", "proposal.commands.1.error"} < redacted
    assert {"proposal.draft.title", "proposal.analysis.selected.files.0"} < redacted
    assert redact_bundle(WHOLE, REDACT) == WHOLE


@each(
    ("kind", "record", "exact"),
    [
        ("result", RESULT, set()),
        ("delegation", DelegationResult(True, summary="x", files_changed=("a",)), set()),
        ("published", PUBLISHED, {"run_id", "branch", "commit_sha"}),
        (
            "plan",
            dataclasses.replace(PLAN, verify_commands=("make",)),
            {
                *("run_id", "date", "base_sha", "target_branch", "scheduled"),
                *("categories.0", "categories.1", "recent_files.0", "verify_commands.0"),
            },
        ),
    ],
)
def test_only_fields_that_are_compared_are_not_redacted(
    kind: str, record: Any, exact: set[str], tmp_path: Path
) -> None:
    secret_record = insert_secret(record)
    redacted, unchanged = split_by_redaction(
        secret_record, store_and_read(tmp_path, kind, secret_record)
    )
    assert redacted and unchanged == exact
    assert store_and_read(tmp_path, kind, record) == json.loads(to_json(record))


def test_a_bundle_with_a_secret_in_a_path_or_an_id_loses_its_proposal(tmp_path: Path) -> None:
    change = ProposedChange(("src/a.py", f"docs/{SECRET}.md"), 1, 1, "a" * 40)
    bundle = dataclasses.replace(BUNDLE, proposal=dataclasses.replace(PROPOSAL, change=change))
    for other in (bundle, dataclasses.replace(BUNDLE, base_sha=SECRET)):
        records(tmp_path).store(NAME, "bundle", to_json(other).encode())
        assert SECRET not in (tmp_path / NAME).read_text()
        made = read_record(Bundle, tmp_path / NAME)
        assert (made.outcome, made.error_code) == (Outcome.FAILED, Code.POLICY_DENY)
        assert "a path or an id of the change holds" in made.reason
        assert made.proposal is None


def test_a_refused_patch_fails_the_bundle_beside_it(tmp_path: Path) -> None:
    store = records(tmp_path)
    sent = to_json(BUNDLE).encode()
    for patch, code, why in (
        (f"+a = '{SECRET}'\n".encode(), "E_POLICY_DENY", "the value of a secret variable"),
        (b"+" * (LARGEST_PATCH + 1), "E_PARSE_ERROR", "has more than 8388608 bytes"),
    ):
        store.store(PATCH, "patch", b"+fine\n")
        with pytest.raises(InvalidRecordError, match=why):
            store.store(PATCH, "patch", patch)
        store.store(NAME, "bundle", sent)
        store.store("other/bundle.json", "bundle", sent)
        made = read_record(Bundle, tmp_path / NAME)
        assert (made.outcome, made.error_code) == (Outcome.FAILED, code)
        assert why in made.reason
        assert not (tmp_path / PATCH).exists(), "nor the one before"
        assert read_record(Bundle, tmp_path / "other/bundle.json") == BUNDLE
    store.store(PATCH, "patch", f" {SECRET}\n-{SECRET}\n+fine\n".encode())
    store.store(NAME, "bundle", sent)
    assert read_record(Bundle, tmp_path / NAME) == BUNDLE, "what was there is no leak"


@each(
    ("kind", "data"),
    [
        ("bundle", b"{}"),
        ("bundle", to_json(PLAN).encode()),
        ("bundle", to_json(dataclasses.replace(QUIET, version=3)).encode()),
        (
            "bundle",
            to_json(QUIET).encode().replace(b'"files_scanned": 0', b'"files_scanned": true'),
        ),
        ("bundle", to_json(QUIET).encode().replace(b'"beads"', b'"usage"')),
        ("plan", to_json(QUIET).encode()),
        ("result", b"\xff"),
    ],
)
def test_invalid_records_are_refused(kind: str, data: bytes, tmp_path: Path) -> None:
    with pytest.raises(InvalidRecordError):
        records(tmp_path).store(NAME, kind, data)
    assert list(tmp_path.iterdir()) == []


@each(("kind", "byte"), [("text", b"x"), ("bundle", b" ")])
def test_records_that_are_too_large_are_refused(kind: str, byte: bytes, tmp_path: Path) -> None:
    with pytest.raises(InvalidRecordError):
        records(tmp_path).store(NAME, kind, byte * (16 * 1024 * 1024 + 1))
    assert list(tmp_path.iterdir()) == []


def test_a_page_without_the_ban_on_scripts_is_refused(tmp_path: Path) -> None:
    store = records(tmp_path)
    with pytest.raises(InvalidRecordError, match="no page of this program"):
        store.store("report.html", "page", b"<!DOCTYPE html><script>alert(1)</script>")
    assert "default-src 'none'" in read_beginning()
    store.store("report.html", "page", f"{read_beginning()}<title>x</title>".encode())
    assert (tmp_path / "report.html").exists()


def test_a_report_is_redacted_as_bytes(tmp_path: Path) -> None:
    records(tmp_path).store("report.html", "text", f"<b>{SECRET}</b>\xff".encode("latin-1"))
    assert (tmp_path / "report.html").read_bytes() == b"<b>[redacted]</b>\xff"
    assert (tmp_path / "report.html").stat().st_mode & 0o044, "others may read it, as any artifact"


def test_a_full_disk_leaves_the_old_record(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        store = records(disk)
        store.store(NAME, "bundle", to_json(QUIET).encode())
        fill(disk)
        large = dataclasses.replace(BUNDLE, summary="x" * 100_000)
        with pytest.raises(InvalidRecordError, match="no space left"):
            store.store(NAME, "bundle", to_json(large).encode())
        assert read_record(Bundle, disk / NAME) == QUIET
        assert [path.name for path in (disk / "bundle").iterdir()] == ["bundle.json"]


def test_the_reserve_makes_space_for_a_record(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "12m") as disk:
        Reserve(disk / "reserve").allocate()
        fill(disk)
        records(disk).store(NAME, "bundle", to_json(BUNDLE).encode())
        assert read_record(Bundle, disk / NAME) == BUNDLE


def test_all_kinds_are_tested() -> None:
    plain = {"plan", "published", "result", "delegation"}
    assert set(KINDS) == {"bundle", "patch", "text", "page", *plain}
