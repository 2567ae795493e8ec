"""Unusable files on the command line: one line of error, no traceback, no waiting."""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.support import warm
from tests.support.tables import each
from tests.support.world import ended

LONG = "x" * 300


def run(folder: Path, *words: str, stdin: str = "", **env: str) -> tuple[int, str, str]:
    with tempfile.TemporaryFile() as file:
        file.write(stdin.encode())
        file.seek(0)
        variables = {"PATH": os.environ["PATH"], "HOME": "/", **env}
        done = ended(warm.start(words, cwd=folder, env=variables, stdin=file.fileno()))
    return done.exit_status, done.stdout, done.stderr


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    top = tmp_path / "shop"
    top.mkdir()
    (top / "loop").symlink_to("loop")
    os.mkfifo(top / "pipe")
    author = ("-c", "user.name=A", "-c", "user.email=a@b.example")
    for words in (("init", "-qb", "main"), (*author, "commit", "-q", "--allow-empty", "-m", "x")):
        subprocess.run(["git", *words], cwd=top, check=True)
    return top


@each(
    ("words", "error"),
    [
        ("config show --config loop", "loop: no such file"),
        ("config show --config pipe", "pipe: no such file"),
        (f"config show --config {LONG}", "no such file"),
        ("config show --config /proc/self/mem", "cannot be read"),
        ("publish loop", "loop: not there"),
        ("check --recent -5", "--recent -5: expected a number"),
        (f"work --plan {LONG}", "not there"),
        ("work --plan pipe", "pipe: not a regular file"),
        ("work --plan /dev/zero", "/dev/zero: not a regular file"),
        (f"delegate --status {LONG}", "no delegation with that id"),
        (f"delegate --cancel delegate-{LONG}", "no delegation with that id"),
    ],
)
def test_the_error_is_one_line(words: str, error: str, checkout: Path) -> None:
    status, _, err = run(checkout, *words.split())
    assert (status, err.count("E_CONFIG")) == (2, 1)
    assert error in err.splitlines()[-1]


def test_a_selected_file_may_have_any_name(checkout: Path) -> None:
    status, _, err = run(checkout, "check", "--selected", LONG)
    assert (status, err) == (8, "")


@each(
    "repo",
    [
        {"type": "local_path", "value": f"gone/{LONG}"},
        {"type": "local_path", "value": "loop"},
        {"type": "git_url", "value": "https://[::1"},
    ],
)
def test_an_impossible_repository_is_an_error(repo: dict[str, str], checkout: Path) -> None:
    task = json.dumps({"task_prompt": "x", "repo": repo})
    status, out, err = run(checkout, "delegate", stdin=task)
    assert (status, json.loads(out)["diagnostics"]["error_code"]) == (2, "E_CONFIG")
    assert "repo.value: " in err


def test_settings_outside_a_checkout_that_are_not_text(tmp_path: Path) -> None:
    (tmp_path / "nightshift.yaml").write_bytes(b"\xff\xfe\0")
    status, _, err = run(tmp_path, "config", "show")
    assert (status, err.count("\n")) == (2, 1)
    assert "not UTF-8" in err


@each("words", ["plan", "run", "check", "execute", "init --dry-run"])
def test_a_path_with_a_line_break_is_an_error(words: str, checkout: Path) -> None:
    moved = checkout.with_name("a\nb")
    if not moved.exists():
        checkout.rename(moved)
    blocks = "a.txt\n<<<<<<< SEARCH\n=======\nx\n>>>>>>> REPLACE\n"
    status, _, err = run(moved, *words.split(), stdin=blocks)
    assert (status, err.count("E_CONFIG")) == (2, 1)
    assert "a\\nb': a line break is in the path" in err


@each("words", ["plan", "check", "run --dry-run", "init --dry-run", "doctor", "config show"])
def test_a_lost_commit_of_head_is_an_error(words: str, checkout: Path) -> None:
    shutil.rmtree(checkout / ".git/objects")
    (checkout / ".git/objects").mkdir()
    status, out, err = run(checkout, *words.split())
    assert (status, "which is not there): clone it anew" in out + err) == (2, True)


def test_a_delegation_survives_a_broken_index(checkout: Path) -> None:
    (checkout / ".git/index").write_text("none")
    status, out, _ = run(checkout, "delegate", stdin='{"task_prompt": "x"}')
    assert (status, json.loads(out)["git"]["dirty"]) == (4, True)
