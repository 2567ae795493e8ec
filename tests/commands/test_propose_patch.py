"""``nightshift patch`` and ``nightshift execute``: the real commands, with a scripted model."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from tests.repository.tools import commit, git, repository, write
from tests.support import warm
from tests.support.model_endpoint import ModelEndpoint
from tests.support.trees import assert_same, whole_tree
from tests.support.turns import Turn, call, error, say

ROOT = Path(__file__).parents[2]
SHOP = "def total(prices):\n    return sum(prices)\n"
BLOCKS = """\
shop.py
<<<<<<< SEARCH
    return sum(prices)
=======
    return float(sum(prices))
>>>>>>> REPLACE

docs/new.md
<<<<<<< SEARCH
=======
# New
>>>>>>> REPLACE

old.txt
<<<<<<< DELETE
>>>>>>> DELETE
"""

WRITTEN = BLOCKS.replace("SEARCH\n    return", "SEARCH\ndef total(prices):\n    return", 1).replace(
    "=======\n    return float", "=======\ndef total(prices):\n    return float", 1
)
"""The same blocks as ``patch`` prints them, with a line of context."""


@dataclass(frozen=True)
class Done:
    """The result of a command."""

    status: int
    out: str
    err: str


class Shop:
    """A checkout, and the command in it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def environment(self, **env: str) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root.parent),
            "NIGHTSHIFT_MAX_TOKENS": "1000000",
            "PYTHONPATH": str(ROOT),
            "OPENAI_API_KEY": "sk-test-ByHand00000001",
            **env,
        }

    def run(self, *args: str, stdin: str | bytes = b"", folder: str = ".", **env: str) -> Done:
        with TemporaryFile() as file:
            file.write(stdin.encode() if isinstance(stdin, str) else stdin)
            file.seek(0)
            cwd, variables = self.root / folder, self.environment(**env)
            with warm.start(args, cwd=cwd, env=variables, stdin=file.fileno()) as started:
                out, err = started.communicate()
        return Done(started.wait(), out.decode(), err.decode())

    def patch(
        self, turns: list[Turn], *args: str, stdin: str = "", folder: str = ".", **env: str
    ) -> Done:
        """The command ``patch`` with a scripted model; the checkout is the same afterwards."""
        before = whole_tree(self.root)
        with ModelEndpoint(turns) as self.endpoint:
            env = {"NIGHTSHIFT_MODEL_ENDPOINT": self.endpoint.url, **env}
            command = ("patch", "--model", "m", *args)
            done = self.run(*command, stdin=stdin, folder=folder, **env)
        assert_same(whole_tree(self.root), before)
        assert "Traceback" not in done.err
        return done


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    root = tmp_path / "shop"
    repository(root, {"shop.py": SHOP, "old.txt": "old\n", "src/a.py": "a = 1\n"})
    write(root, "old.txt", "older\n")
    commit(root)
    return Shop(root)


# --- patch ------------------------------------------------------------------------------------


def test_execute_applies_what_patch_proposes(shop: Shop) -> None:
    turns = [
        call("read", path="shop.py"),
        call("edit", path="shop.py", old="return sum(prices)", new="return float(sum(prices))"),
        call("edit", path="docs/new.md", old="", new="# New\n"),
        say("old.txt\n<<<<<<< DELETE\n>>>>>>> DELETE\n"),
        call("finish", summary="Done."),
    ]
    proposed = shop.patch(turns, "--task", "Mend it", "shop.py")
    assert (proposed.status, proposed.out) == (0, WRITTEN)
    assert proposed.err.splitlines()[-1] == "nightshift: m: 3 files (cost not known, 6k tokens)"
    done = subprocess.run(
        [sys.executable, "-m", "gitlab_nightshift", "execute"],
        cwd=shop.root,
        env=shop.environment(),
        input=proposed.out.encode(),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == (
        b"edited shop.py (+1 -1)\ncreated docs/new.md (+1 -0)\ndeleted old.txt (+0 -1)\n"
    )
    assert git(shop.root, "status", "--short", "-uall").splitlines() == [
        "D old.txt",
        " M shop.py",
        "?? docs/new.md",
    ]


def test_the_prompt_has_the_task_and_the_files(shop: Shop) -> None:
    shop.patch([say("NO CHANGE: x")], "--task", "-", "a.py", stdin="Name the value\n", folder="src")
    [request] = shop.endpoint.messages
    assert "<task>\nName the value\n</task>" in request.prompt
    assert request.prompt.endswith("Files to begin with:\n\n- src/a.py\n")
    assert request.tools == ["read", "search", "edit", "finish"], "no command is run"
    assert "# What counts as an instruction" in request.prompt
    assert request.headers["authorization"] == "Bearer sk-test-ByHand00000001"


def test_a_diff_or_json_can_replace_the_blocks(shop: Shop) -> None:
    diff = shop.patch([say(BLOCKS), say("Done.")], "--task", "x", "--diff").out
    assert diff == (
        "--- a/shop.py\n+++ b/shop.py\n@@ -1,2 +1,2 @@\n def total(prices):\n"
        "-    return sum(prices)\n+    return float(sum(prices))\n"
        "--- /dev/null\n+++ b/docs/new.md\n@@ -0,0 +1 @@\n+# New\n"
        "--- a/old.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-older\n"
    )
    git(shop.root, "apply", "--check", "-", stdin=diff.encode())
    price = {"NIGHTSHIFT_PRICES": '{"m": {"input": 1, "output": 10}}'}
    printed = json.loads(
        shop.patch([say(BLOCKS), say("Done.")], "--task", "x", "--json", **price).out
    )
    assert printed["files"][0] == {"path": "shop.py", "action": "edited", "added": 1, "deleted": 1}
    assert (printed["model"], printed["tokens"], printed["reason"]) == ("m", 2200, "")
    assert printed["cost_usd"] == pytest.approx(0.004)
    assert printed["blocks"] == WRITTEN


def test_a_model_may_change_nothing(shop: Shop) -> None:
    done = shop.patch([say("NO CHANGE: it is right")], "--task", "x")
    assert (done.status, done.out) == (0, "")
    assert "no change: it is right" in done.err


def test_control_characters_of_a_model_are_replaced(shop: Shop) -> None:
    done = shop.patch([say("NO CHANGE: \x1b[2Jit is \x9bright")], "--task", "x")
    assert "no change: ?[2Jit is ?right" in done.err


def test_the_task_may_come_from_the_settings(shop: Shop) -> None:
    assert shop.patch([say(BLOCKS), say("Done.")], NIGHTSHIFT_TASK="Mend it").status == 0
    assert "Mend it" in shop.endpoint.messages[0].prompt


WRONG = BLOCKS.replace("sum(prices)\n=", "sum(price)\n=")


REFUSED: list[tuple[list[Turn], tuple[str, ...], int, str]] = [
    ([call("guess")] * 6, (), 10, "E_PARSE_ERROR: the same call of guess 6 times"),
    ([call(f"x{n}") for n in range(10)], (), 10, "10 mistakes, the last: an unknown tool"),
    ([say(WRONG)] * 10, (), 10, "10 mistakes, the last: no tool call: block 1 (shop.py): SEARCH"),
    ([error(401)], (), 5, "the model endpoint refused the key"),
    ([error(400, message="no")] * 9, (), 5, "HTTP 400: no"),
    ([], ("--task", " "), 2, "E_CONFIG: --task: say what is to be done"),
    ([], ("../x",), 2, "outside the checkout"),
    ([], ("nothing.py",), 2, "nothing.py: no such file"),
    ([], (".env",), 2, "no model is shown it"),
    ([], ("--set", "max_tokens=1000"), 7, "does not fit into the budget"),
    ([], ("--model", "a b"), 2, "models.implement: expected the id of a model, without spaces"),
    ([], ("--model", ""), 2, "models.implement: name the model of your endpoint"),
    ([say(BLOCKS), say("x")], ("--set", "paths=src/"), 9, "shop.py: outside the settings' paths"),
]


def test_each_error_has_its_exit_status(shop: Shop) -> None:
    failures = []
    for turns, args, status, text in REFUSED:
        done = shop.patch(turns, "--task", "x", *args)
        outcome = (done.status, done.out, text in done.err, shop.endpoint.unscripted)
        if outcome != (status, "", True, []):
            failures.append((text, done))
    assert failures == []


def test_the_model_may_correct_blocks_that_do_not_fit(shop: Shop) -> None:
    assert shop.patch([say(WRONG), say(BLOCKS), say("Done.")], "--task", "x").out == WRITTEN


def test_the_model_sees_no_files_of_secrets(shop: Shop) -> None:
    write(shop.root, ".env", "PASSWORD=never-shown\n")
    commit(shop.root)
    turns = [
        call("read", path=".env"),
        call("search", pattern="never-shown"),
        call("read", path="."),
        call("edit", path=".env", old="PASSWORD=", new="X="),
        say("NO CHANGE: x"),
    ]
    assert shop.patch(turns, "--task", "x").status == 0
    read, searched, listed, edited = shop.endpoint.messages[-1].tool_results
    assert read == edited == "error: .env: its name says that it holds secrets; it is not shown"
    assert searched == "nothing found"
    assert ".env" not in listed.split()


# --- execute ----------------------------------------------------------------------------------


def execute_unchanged(shop: Shop, text: str | bytes, *args: str) -> Done:
    """Run ``execute``, which must not change the checkout."""
    before = whole_tree(shop.root)
    done = shop.run("execute", *args, stdin=text)
    assert_same(whole_tree(shop.root), before)
    assert "Traceback" not in done.err
    return done


def test_a_dry_run_lists_what_would_change(shop: Shop) -> None:
    done = execute_unchanged(shop, BLOCKS, "--dry-run")
    assert done.out.splitlines()[0] == "would be edited shop.py (+1 -1)"
    printed = json.loads(execute_unchanged(shop, BLOCKS, "--dry-run", "--json").out)
    assert (printed["applied"], printed["dry_run"], len(printed["files"])) == (False, True, 3)


def test_blocks_from_a_file_in_a_subfolder_and_json(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "change.txt").write_text(BLOCKS)
    done = shop.run("execute", str(tmp_path / "change.txt"), "--json", folder="src")
    assert json.loads(done.out)["files"][2] == {
        "path": "old.txt",
        "action": "deleted",
        "added": 0,
        "deleted": 1,
    }
    assert "float" in (shop.root / "shop.py").read_text()


UNUSABLE: list[tuple[str | bytes, int, str]] = [
    ("", 10, "the text holds no SEARCH/REPLACE block"),
    (BLOCKS.removesuffix(">>>>>>> DELETE\n"), 10, "block 3 (old.txt): it has no end"),
    (b"\xff" + BLOCKS.encode(), 10, "-: not UTF-8 text"),
    (BLOCKS.replace("old.txt", ".git/config"), 9, "the path leads into .git"),
    (BLOCKS.replace("old.txt", "../shop2/x"), 9, "block 3 (../shop2/x): the path is not plain"),
    (BLOCKS.replace("old.txt", "/etc/hostname"), 9, "the path is absolute"),
    (BLOCKS + BLOCKS.replace("float", "int"), 9, "overlaps with block 1"),
    (WRONG, 9, "block 1 (shop.py): SEARCH does not occur in the file"),
]


def test_unusable_blocks_change_nothing(shop: Shop) -> None:
    failures = []
    for text, status, why in [*UNUSABLE, (b"x" * 4_000_001, 10, "larger than 4000000 bytes")]:
        done = execute_unchanged(shop, text)
        if (done.status, done.out, why in done.err) != (status, "", True):
            failures.append((why, done))
    assert failures == []


def test_uncommitted_changes_are_refused(shop: Shop) -> None:
    write(shop.root, "shop.py", f"{SHOP}# mine\n")
    done = execute_unchanged(shop, BLOCKS)
    assert done.status == 11
    assert done.err == (
        "nightshift: E_WORKSPACE_DIRTY: shop.py: changed and not committed; commit first, or say"
        " --allow-dirty\n"
    )
    assert shop.run("execute", "--allow-dirty", stdin=BLOCKS).status == 0
    assert (shop.root / "shop.py").read_text().endswith("float(sum(prices))\n# mine\n")


def test_execute_needs_a_checkout(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    done = shop.run("execute", stdin=BLOCKS)
    assert (done.status, done.out) == (2, "")
    assert "is not in a git checkout" in done.err
    assert shop.run("execute", "nothing.txt").status == 2


def test_the_help_has_examples(shop: Shop) -> None:
    assert "nightshift patch --task 'Mend the typo in the README' | nightshift execute" in (
        shop.run("patch", "--help").out
    )
    assert "--dry-run --json < change.txt" in shop.run("execute", "--help").out
