"""What is read out of a webhook's body and out of a comment."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.records.request import CommentAddress, TaskCommand
from gitlab_nightshift.settings import setting_groups as parts
from gitlab_nightshift.stages.plan import comment_request
from gitlab_nightshift.stages.plan.comment_request import (
    LONGEST_TASK,
    EditedIssue,
    IgnoredTrigger,
    is_command,
    parse_command,
    read_webhook,
)
from tests.support.tables import each

THREAD = "6a9c1750b37d513a43987b574953fceb50b03ce7"
BODY: dict[str, Any] = {
    "object_kind": "note",
    "event_type": "note",
    "project_id": 42,
    "object_attributes": {
        "id": 1241,
        "note": "/nightshift anything",
        "noteable_type": "Issue",
        "noteable_id": 92,
        "discussion_id": THREAD,
    },
    "issue": {"id": 92, "iid": 17},
    "id": "42",
    "ref": "main",
    "variables": {"NIGHTSHIFT": "true"},
}
KNOWN = {"unit": parts.TestCommand(command=["npx", "vitest"], args=["-k", "a b", "--coverage"])}


def changed(**parts: Any) -> bytes:
    return json.dumps({**BODY, **parts}).encode()


def noted(**parts: Any) -> bytes:
    return changed(object_attributes={**BODY["object_attributes"], **parts})


def test_a_comment_on_an_issue() -> None:
    assert read_webhook(changed(), "42") == CommentAddress("issues", 17, 1241, THREAD)


@pytest.mark.parametrize("kind", ["issue", "work_item"])
def test_an_edited_issue_by_either_of_its_names(kind: str) -> None:
    body = {
        "object_kind": kind,
        "event_type": kind,
        "project": {"id": 42},
        "object_attributes": {"iid": 17},
        "changes": {"description": {"previous": "", "current": "- [x] docs"}},
    }
    assert read_webhook(json.dumps(body).encode(), "42") == EditedIssue(17)


def test_a_comment_on_a_merge_request() -> None:
    body = {**BODY, "merge_request": {"iid": 5}}
    body["object_attributes"] = {**BODY["object_attributes"], "noteable_type": "MergeRequest"}
    place = read_webhook(json.dumps(body).encode(), "42")
    assert place == CommentAddress("merge_requests", 5, 1241, THREAD)


@each("body", [{"ref": "main", "id": "42", "variables": {"NIGHTSHIFT": "true"}}, {}, {"a": 1}])
def test_a_trigger_without_a_webhook_is_an_ordinary_run(body: dict[str, Any]) -> None:
    assert read_webhook(json.dumps(body).encode(), "42") is None


@each(
    "body",
    [
        b"",
        b"nonsense",
        b"\xff\xfe",
        b"[]",
        b"null",
        b"[" * 100_000,
        b'{"object_kind": "note", "project_id": ' + b"9" * 6000 + b"}",
        changed(object_kind="push"),
        changed(object_kind=["note"]),
        json.dumps({"event_name": "project_create"}).encode(),
        changed(project_id=43),
        changed(project_id="42"),
        changed(project_id=True),
        changed(issue=None),
        changed(issue={"iid": "17"}),
        changed(issue={"iid": -1}),
        changed(issue={"iid": True}),
        changed(issue={"iid": 17.0}),
        changed(object_attributes=None),
        changed(object_attributes=[]),
        noted(id=None),
        noted(id="../../1"),
        noted(id=2**70),
        noted(noteable_type="Commit"),
        noted(noteable_type="Snippet"),
        noted(noteable_type={"a": 1}),
        noted(noteable_type="MergeRequest"),
    ],
)
def test_anything_else_is_ignored(body: bytes) -> None:
    assert isinstance(read_webhook(body, "42"), IgnoredTrigger)


@each("thread", [None, 7, "../x", "ABC", "6a9c\n1750", "g" * 40, "a" * 65])
def test_an_invalid_thread_id_is_dropped(thread: object) -> None:
    assert read_webhook(noted(discussion_id=thread), "42") == CommentAddress("issues", 17, 1241, "")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
keys = st.sampled_from([*BODY, "merge_request"])
bodies = st.dictionaries(keys, values).map(lambda parts: {**BODY, **parts})
notes = st.dictionaries(st.sampled_from([*BODY["object_attributes"], "x"]), values).map(
    lambda parts: {**BODY, "object_attributes": {**BODY["object_attributes"], **parts}}
)


@given(st.binary() | (bodies | notes | values).map(lambda v: json.dumps(v).encode()))
def test_any_webhook_gives_a_valid_address_or_nothing(body: bytes) -> None:
    found = read_webhook(body, "42")
    if isinstance(found, CommentAddress):
        assert found.where in ("issues", "merge_requests")
        assert all(type(n) is int and n > 0 for n in (found.iid, found.note))
        assert set(found.thread) <= set("0123456789abcdef")
    elif isinstance(found, EditedIssue):
        assert type(found.iid) is int and found.iid > 0
    else:
        assert found is None or found.why


# --- the comment ------------------------------------------------------------------------------


@each(
    "text",
    [
        "/nightshift x",
        " \n/nightshift x",
        "/nightshift\nx",
        "please /nightshift x",
        "> not this\n\n/nightshift x",
        "x /nightshift",
    ],
)
def test_a_command(text: str) -> None:
    assert is_command(text)
    assert parse_command(text).task == "x"


@each(
    "text",
    [
        "",
        "> /nightshift x",
        "a/nightshift x",
        "```\n/nightshift x\n```",
        "``a /nightshift x``",
        "`/nightshift x`",
        "/nightshifts x",
        "nightshift",
    ],
)
def test_no_command(text: str) -> None:
    assert not is_command(text)


def test_flags_and_words_and_further_lines() -> None:
    asked = parse_command(
        "/nightshift don't touch `a;b` $(id) --provider codex --model gpt-6.1-sol --dry-run"
        " --test unit -k --coverage\n\nand --test\nstays text"
    )
    assert asked == TaskCommand(
        task="don't touch `a;b` $(id)\nand --test\nstays text",
        provider="codex",
        model="gpt-6.1-sol",
        dry_run=True,
        test_id="unit",
        test_args=("-k", "--coverage"),
    )


@each(
    ("text", "why"),
    [
        ("", "there is no task"),
        ("--dry-run", "there is no task"),
        ("x --dryrun", "did you mean --dry-run?"),
        ("x --provider gpt", "--provider: one of"),
        ("x --model", "a model id is expected"),
        ("x --model -rf", "expected the id of a model"),
        ("x --model a;b", "expected the id of a model"),
        ("x --model ../../a\u202eb", "visible characters"),
        ("x \u2014dry-run", "two hyphens"),
        ("x \u2013\u2013dry-run", "two hyphens"),
        ("x" * (LONGEST_TASK + 1), "more than"),
    ],
)
def test_an_invalid_command_is_explained(text: str, why: str) -> None:
    with pytest.raises(NightshiftError, match=why.replace("?", r"\?")) as error:
        parse_command(f"/nightshift {text}")
    assert "\n" not in error.value.message


def test_a_dash_within_the_text_is_allowed() -> None:
    assert (
        parse_command("/nightshift mend this \u2014 and dry-run").task
        == "mend this \u2014 and dry-run"
    )


def test_without_a_test_id_there_is_no_test_command() -> None:
    assert comment_request.build_test_command(TaskCommand("x"), KNOWN) == ""


def test_a_test_by_its_id() -> None:
    asked = TaskCommand("x", test_id="unit", test_args=("-k", "a b"))
    assert comment_request.build_test_command(asked, KNOWN) == "npx vitest -k 'a b'"


@each(
    ("test_id", "args", "why"),
    [
        ("e2e", (), "no such test; known are: unit"),
        ("unit;id", (), "no such test"),
        ("unit", ("-k;id",), "not on its list"),
        ("unit", ("-k", "$(id)"), "not on its list"),
        ("unit", ("--cov",), "allowed: -k, a b, --coverage"),
    ],
)
def test_a_test_that_is_not_listed(test_id: str, args: tuple[str, ...], why: str) -> None:
    with pytest.raises(NightshiftError, match=why):
        comment_request.build_test_command(TaskCommand("x", test_id=test_id, test_args=args), KNOWN)
