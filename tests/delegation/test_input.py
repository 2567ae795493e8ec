"""Bad input: a clear error with its code, nothing changed, no agent asked."""

import json
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from gitlab_nightshift import api
from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.stages.work.delegation.payload import read_payload
from tests.support.delegation import POLICY, TASK, Done, delegations, ended

EVIL = "x'; touch EVIL; $(touch EVIL) `touch EVIL` | touch EVIL && touch EVIL #\""


def path(value: object) -> dict[str, Any]:
    return {"repo": {"type": "local_path", "value": value}}


def url(value: str) -> dict[str, Any]:
    return {"repo": {"type": "git_url", "value": value}}


def workspace(**keys: object) -> dict[str, Any]:
    return {"workspace": keys}


def execution(**keys: object) -> dict[str, Any]:
    return {"execution": keys}


CONFIG: dict[str, tuple[dict[str, Any], str]] = {
    "unknown key": ({"taks_prompt": "x"}, "taks_prompt: unknown key"),
    "unknown inner key": (execution(timeout=3), "execution.timeout: unknown key"),
    "no task": ({"task_prompt": " \n"}, "there is no task"),
    "task of another type": ({"task_prompt": 3}, "task_prompt: Input should be a valid string"),
    "NUL in the task": ({"task_prompt": "a\0b"}, "a NUL character"),
    "number as text": (execution(max_runtime_s="600"), "max_runtime_s: Input should be a valid"),
    "truth as number": (execution(max_runtime_s=True), "max_runtime_s: Input should be a valid"),
    "number as truth": (execution(dry_run=1), "execution.dry_run: Input should be a valid"),
    "no time": (execution(max_runtime_s=0), "max_runtime_s: Input should be greater"),
    "too much time": (execution(max_runtime_s=10**9), "max_runtime_s: Input should be less"),
    "a choice that is none": (execution(network="maybe"), "execution.network: Input should be"),
    "another provider": ({"provider": "patch"}, "provider: Input should be"),
    "an option as model": ({"model": "--help"}, "model: letters, digits"),
    "arguments without a test": (execution(test_args=["-s"]), "test_command_id is missing"),
    "path outside": (workspace(workspace_subdir="../secrets"), "inside the repository"),
    "absolute path": (workspace(workspace_subdir="/etc"), "inside the repository"),
    "the .git": (workspace(workspace_subdir=".git/hooks"), "inside the repository"),
    "a pattern": (workspace(workspace_subdir="*"), "none of * ?"),
    "no such folder": (workspace(workspace_subdir="nowhere"), "'nowhere' is not a folder of"),
    "a file": (workspace(workspace_subdir="shop.py"), "is not a folder of"),
    "missing ref": (workspace(base_ref="v9"), "base_ref: 'v9' is not a commit here"),
    "an option as ref": (workspace(base_ref="--output=EVIL"), "is not a commit here"),
    "shell in a ref": (workspace(base_ref=EVIL), "is not a commit here"),
    "shell in a branch": (workspace(branch_name=EVIL), "is not a valid branch name"),
    "an option as branch": (workspace(branch_name="-D"), "is not a valid branch name"),
    "a branch as refspec": (workspace(branch_name="a:b"), "is not a valid branch name"),
    "a branch that is there": (workspace(branch_name="main"), "'main' already exists"),
    "a branch below one": (workspace(branch_name="main/x"), "'main/x' already exists"),
    "a control character": (workspace(branch_name="a\nb"), "must not contain control characters"),
    "shell in a path": (path(EVIL), "is not a folder"),
    "no folder": (path("/nowhere"), "/nowhere is not a folder"),
    "no checkout": (path("/usr/share"), "/usr/share is not the top of a git checkout"),
    "NUL in a path": (path("a\0b"), "repo.value: must not contain control characters"),
    "credentials in a URL": (url("https://me:hunter2secret@h.example/x.git"), "credentials"),
    "a user in a URL": (url("https://hunter2secret@h.example/x.git"), "credentials"),
    "a file URL": (url("file:///etc"), "only https://host/path is allowed"),
    "ssh": (url("ssh://h.example/x.git"), "only https://host/path is allowed"),
    "scp": (url("git@h.example:x.git"), "only https://host/path is allowed"),
    "plain http": (url("http://h.example/x.git"), "only https://host/path is allowed"),
    "a helper of git": (url("ext::sh -c touch% EVIL"), "only https://host/path is allowed"),
    "a query": (url("https://h.example/x.git?a=b"), "expected https://host/path"),
    "a copy of a URL": (
        {**url("https://h.example/x.git"), **workspace(checkout_mode="copy")},
        "only worktree is allowed",
    ),
    "no workspaces": ({"repo": {"type": "workspace_id", "value": "x"}}, "NIGHTSHIFT_WORKSPACES"),
    "dirty worktree": (workspace(clean_before=False), "with checkout_mode copy"),
    "network without hosts": (execution(network="on"), "egress_hosts lists no host"),
}


DENIED: dict[str, tuple[dict[str, Any], str]] = {
    "test": (execution(test_command_id="deploy"), "'deploy' is not in policy.test_commands (unit)"),
    "shell as test": (execution(test_command_id=EVIL), "is not in policy.test_commands"),
    "flag": (execution(test_command_id="unit", test_args=["-s", "-k"]), "test_args: '-k' is not"),
    "shell as flag": (execution(test_command_id="unit", test_args=[EVIL]), "test_args: "),
    "two flags in one": (execution(test_command_id="unit", test_args=["-s --quiet"]), "test_args:"),
    "network": (execution(dependency_policy="allow_install"), "network: dependency_policy"),
    "in_place": (workspace(checkout_mode="in_place"), "needs profile: development"),
    "not cleaned": (workspace(clean_after=False), "needs profile: development"),
    "own command": ({"debug": {"codex_command": ["sh", "-c", EVIL]}}, "needs profile: development"),
}


WHOLE = {
    # wrong in themselves
    *("unknown key", "NUL in the task", "the .git", "NUL in a path", "dirty worktree"),
    # wrong where the repository or the policy is known
    *("shell in a ref", "shell in a path", "shell as test", "own command"),
    # what must not be told
    *("credentials in a URL", "a user in a URL"),
}
"""What the whole command is asked; of the others, the process that decides."""


def refused(payload: bytes) -> str:
    """What is wrong with a payload in itself, "" for nothing: no process has to be asked."""
    try:
        read_payload(payload)
    except NightshiftError as error:
        assert error.code is Code.CONFIG
        return str(error)
    return ""


def assert_refused(done: Done, name: str, code: str, text: str) -> None:
    """By the whole command, before anything was done, in one short line."""
    done.failed(code, Code(code).exit_status, text)
    result = done.result
    assert "\n" not in result["error"], name
    assert len(result["error"]) < 500, name
    assert result["rollback_performed"] is False, name
    assert "hunter2secret" not in done.stdout + done.log, name


@pytest.mark.parametrize(("code", "cases"), [("E_CONFIG", CONFIG), ("E_POLICY_DENY", DENIED)])
def test_bad_input(tmp_path: Path, code: str, cases: dict[str, tuple[dict[str, Any], str]]) -> None:
    with delegations(tmp_path) as context:
        for name, (payload, text) in cases.items():
            said = refused(context.payload(**payload))
            if name in WHOLE:
                done = context.ask(**payload)
                assert_refused(done, name, code, text)
                assert done.result["error"].startswith(said), name
            elif said:
                assert (code, text in said) == ("E_CONFIG", True), (name, said)
                assert "\n" not in said, name
                assert len(said) < 500, name
            else:
                made = context.prepare(**payload)
                made.failed(code, Code(code).exit_status, text)
                assert "work" not in made.answer, name
        assert context.agent.seen == []
        assert list(tmp_path.rglob("EVIL*")) == []
        context.assert_untouched()


def test_what_is_denied_is_told(tmp_path: Path) -> None:
    with delegations(tmp_path) as context:
        done = context.ask(execution={"test_command_id": "deploy"})
        done.failed("E_POLICY_DENY", 3, "'deploy' is not in policy.test_commands (unit)")
        assert [e["gate"] for e in context.events if e["event"] == "gate_denied"] == ["exec"]


def test_a_flag_that_is_listed_stays_one_word(tmp_path: Path) -> None:
    evil = json.dumps(EVIL)
    config = POLICY.replace('args: ["-s",', f'args: ["-s", {evil},')
    with delegations(tmp_path, config=config) as context:
        context.env["NIGHTSHIFT_MAX_IMPLEMENT_RETRIES"] = "0"
        done = context.ask(execution={"test_command_id": "unit", "test_args": [EVIL]})
        done.failed("E_TEST_FAILED", 8)
        assert list(tmp_path.rglob("EVIL*")) == []
        context.assert_untouched()


BROKEN = {
    "nothing": (b"", "not JSON"),
    "no JSON": (b"task_prompt: x", "not JSON"),
    "no object": (b'["x"]', "Input should be an object"),
    "twice": (b'{"task_prompt": "a", "task_prompt": "b"}', "a key appears twice"),
    "no text": (b"\xff\xfe{", "not JSON"),
    "deep": (b"[" * 900_000, "not JSON"),
    "half a character": (b'{"task_prompt": "\\ud800"}', "Invalid JSON"),
    "a document": (json.dumps({"task_prompt": "x" * 20_001}).encode(), "at most 20000 characters"),
}


def test_what_is_no_payload(tmp_path: Path) -> None:
    with delegations(tmp_path) as context:
        huge = json.dumps({"task_prompt": "x" * 10_000_000}).encode()
        too_large = (huge, "more than 1,000,000 bytes")
        for raw, text in (*BROKEN.values(), too_large):
            done = context.called(raw)
            done.failed("E_CONFIG", 2, text)
            assert len(done.stdout) < 2000, text
        ended(context.start(huge)).failed("E_CONFIG", 2, too_large[1])
        assert list(context.context.iterdir()) == []
        context.assert_untouched()


def test_a_payload_in_a_file_that_is_not_there(tmp_path: Path) -> None:
    """One that is there: test_in_a_job.py."""
    with delegations(tmp_path) as context:
        done = ended(context.start(b"", "--payload", "nowhere.json"))
        done.failed("E_CONFIG", 2, "--payload: nowhere.json: No such file or directory")


def test_a_tracked_output_folder_and_one_that_cannot_be_written(tmp_path: Path) -> None:
    with delegations(tmp_path) as context:
        context.env["NIGHTSHIFT_OUTPUT_DIR"] = "docs"
        context.ask().failed("E_CONFIG", 2, "output_dir: docs is tracked by git")
        del context.env["NIGHTSHIFT_OUTPUT_DIR"]
        for none in ("/nowhere", "/proc"):
            context.env["TMPDIR"] = none
            context.ask().failed("E_CONFIG", 2, f"TMPDIR: {none} is not a writable folder")


def test_the_schemas_are_printed(tmp_path: Path) -> None:
    with delegations(tmp_path) as context:
        schemas = ended(context.start(b"", "--schema")).result
        assert schemas["payload"]["required"] == ["task_prompt"]
        jsonschema.validate(json.loads(context.payload()), schemas["payload"])
        assert schemas == api.build_schemas(), "test_success.py has a result for it"
        mistakes: list[dict[str, Any]] = [
            {"task_prompt": TASK, "more": 1},
            {"repo": {}},
            {"task_prompt": 1},
        ]
        for wrong in mistakes:
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate(wrong, schemas["payload"])
