"""The sealed start: this program imports and runs nothing that a project's environment names.

``UNSEALED``, the control, runs the same command with the same environment without it.
"""

import json
import os
import py_compile
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift import sealed_start
from tests.support.agent import plays, sh
from tests.support.shop import GOOD, nothing
from tests.support.world import BOT_TOKEN, FILES, MODEL_KEY, ROOT, World, world

UNSEALED = """
import os, sys
from gitlab_nightshift import cli, run_folder
run_folder.refuse_installation_in = lambda checkout: None
sys.exit(cli.run(sys.argv[1:], os.environ))
"""
PLANTED = """
import gc, os, sys
with open({seen!r}, "a") as file:
    values = str([each for each in gc.get_objects() if isinstance(each, dict)])
    print(os.path.basename(__file__), {token!r} in values, file=file)
sys.path.remove(os.path.dirname(__file__))
del sys.modules[__name__]
__import__(__name__)
"""
"""Then the real module of this name is imported."""
GIT = shutil.which("git")


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[World]:
    """A project whose ``PYTHONPATH`` names folders of the checkout; git ignores ``build/``."""
    with world(tmp_path, {"analyze": nothing()}, files={**FILES, "src/app.py": "A = 1\n"}) as shop:
        shop.python = Path(sys.executable)
        folders = [shop.checkout / "src", shop.checkout / "build", ROOT]
        shop.env["PYTHONPATH"] = os.pathsep.join(map(str, folders))
        yield shop


def run_unsealed(shop: World, *arguments: str, **env: str) -> int:
    command = [sys.executable, "-P", "-c", UNSEALED, *arguments]
    return subprocess.run(
        command, cwd=shop.checkout, env={**shop.env, **env}, capture_output=True, check=False
    ).returncode


def build_planting_command(shop: World) -> str:
    """A shell command that plants modules, as an agent would; they write to ``seen``.

    A source in a folder of the project's, and a compiled one in a folder that git ignores.
    """
    folder = shop.folder / "planted"
    folder.mkdir(exist_ok=True)
    for name in ("pathspec", "gitlab"):  # imported where a change is judged, and by the token's own
        source = folder / f"{name}.py"
        source.write_text(PLANTED.format(seen=str(shop.folder / "seen"), token=BOT_TOKEN))
        py_compile.compile(str(source), str(folder / f"{name}.pyc"))
    return f"cp {folder}/*.py src/ && cp {folder}/*.pyc build/"


def test_modules_that_an_agent_writes_are_not_imported(shop: World) -> None:
    implement = [sh(build_planting_command(shop)), *GOOD["implement"]]
    shop.agent.script(
        plays({"analyze": nothing(), "analyze-tests": GOOD["analyze"], "implement": implement})
    )
    env = {"NIGHTSHIFT_MAX_IMPLEMENT_RETRIES": "0"}
    (shop.checkout / "build").mkdir()  # Python remembers where there was no folder
    assert shop.nightshift("run", "--dry-run", **env).exit_status == 0
    assert shop.agent.last("implement")
    assert not (shop.folder / "seen").exists()

    shop.checked_out_anew()
    (shop.checkout / "build").mkdir()
    subprocess.run(build_planting_command(shop), shell=True, cwd=shop.checkout, check=True)
    assert shop.nightshift("plan").exit_status == 0
    assert not (shop.folder / "seen").exists()
    run_unsealed(shop, "plan")
    seen = (shop.folder / "seen").read_text().splitlines()
    assert seen == ["gitlab.py True", "gitlab.pyc True"], "the control"


def test_an_import_path_into_the_checkout_is_a_warning(shop: World) -> None:
    """The next such start would import what agents left there: only ``-I`` prevents that."""
    warning = f"Python was started with {shop.checkout}/src on its import path, where agents write"
    first = shop.nightshift("publish", PYTHONPATH=f"{shop.checkout}/src:{ROOT}")
    assert warning in first.stderr
    assert f"use {sys.executable} -I -m gitlab_nightshift" in first.stderr
    (shop.checkout / "src/sitecustomize.py").write_text("print('planted', flush=True)")
    for flags, planted in (("-P", True), ("-I", False)):
        command = [sys.executable, flags, "-m", "gitlab_nightshift", "publish"]
        done = subprocess.run(
            command, cwd=shop.checkout, env=shop.env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        assert (done.stdout.startswith("planted"), warning in done.stderr) == (planted, planted)
    assert warning not in shop.nightshift("config", "show").stderr, "no agent comes before or after"


def test_the_command_line_imports_little_before_the_sealed_start() -> None:
    """Everything that it imports is imported twice."""
    code = "import sys; before = set(sys.modules); import gitlab_nightshift.cli; "
    code += "print(*set(sys.modules) - before)"
    command = [sys.executable, "-P", "-c", code]
    done = subprocess.run(command, env={"PYTHONPATH": str(ROOT)}, capture_output=True, check=True)
    assert not {"typing", "dataclasses", "inspect", "tempfile"} & set(done.stdout.decode().split())


def test_own_processes_have_only_known_variables(shop: World) -> None:
    """The job's environment, with its secrets, is only data."""
    programs = shop.folder / "bin"
    programs.mkdir()
    note = f'#!/bin/sh\ncat /proc/$PPID/environ >> {programs}/seen\nexec {GIT} "$@"\n'
    (programs / "git").write_text(note)
    (programs / "git").chmod(0o755)
    env = {"PATH": f"{programs}:{shop.env['PATH']}", "GIT_DIR": "x", "LD_DEBUG": "", "XDG_A": "b"}
    assert shop.nightshift("plan", **env).exit_status == 0
    names = {part.partition("=")[0] for part in (programs / "seen").read_text().split("\0")}
    assert names - {""} == {"PATH", "HOME", "TMPDIR", "LANG", "PYDANTIC_DISABLE_PLUGINS"}


def test_an_installation_in_the_checkout_is_refused(shop: World) -> None:
    """By commands that use the token or a model key; others run."""
    shutil.copytree(ROOT / "gitlab_nightshift", shop.checkout / "build/gitlab_nightshift")
    repo = {"type": "local_path", "value": str(shop.checkout)}
    (shop.folder / "task").write_text(json.dumps({"task_prompt": "Test it.", "repo": repo}))
    installation = f"{shop.checkout}/build"
    shop.patch = f"import sys; sys.path.append({installation!r})"
    for command in (["plan"], ["publish"], ["delegate", "--payload", str(shop.folder / "task")]):
        done = shop.nightshift(*command)
        shop.python = None  # forks from an installation elsewhere, which the patch moves there
        assert done.exit_status == 2, command
        error = f"nightshift runs from {installation}, in the checkout, where agents write: install"
        assert f"{error} it" in done.stderr + done.stdout, command
        assert "Traceback" not in done.stderr
    assert shop.agent.seen == []
    assert shop.nightshift("check").exit_status == 0
    assert shop.nightshift("config", "show").exit_status == 0


def test_paths_into_a_checkout_are_removed_from_the_environment(tmp_path: Path) -> None:
    top, other = tmp_path / "shop", tmp_path / "other"
    for folder in (top / "bin", other):
        folder.mkdir(parents=True)
    (tmp_path / "link").symlink_to(top / "bin")
    env = {
        "PATH": f"{top}/bin:bin::{tmp_path}/link:{other}:{other}/../shop/bin",
        "LD_LIBRARY_PATH": f"{top}/lib",
        "HOME": f"{top}/home",
        "TMPDIR": str(other),
        "SSL_CERT_FILE": "ca.pem",
        "LANG": "C.UTF-8",
        "LD_PRELOAD": "/usr/lib/x.so",
        "PYTHONPATH": str(other),
        "GITLAB_TOKEN": BOT_TOKEN,
    }
    variables = sealed_start.build_own_environment(env, [top])
    assert variables.pop("PYDANTIC_DISABLE_PLUGINS") == "__all__"
    assert variables == {"PATH": str(other), "TMPDIR": str(other), "LANG": "C.UTF-8", "HOME": "/"}


def test_checkouts_are_that_of_the_job_and_the_one_around_the_folder(tmp_path: Path) -> None:
    (tmp_path / "shop/.git").mkdir(parents=True)
    (tmp_path / "shop/inner").mkdir()
    found = sealed_start.find_checkouts(tmp_path / "shop/inner", {"CI_PROJECT_DIR": "/builds/a"})
    assert set(found) == {tmp_path / "shop", Path("/builds/a")}
    assert sealed_start.find_checkouts(tmp_path, {}) == ()
    (tmp_path / "shop/.git").rmdir()
    assert sealed_start.find_checkouts(tmp_path / "shop/inner", {}) == (), "the control"
    (tmp_path / "shop.nightshift").mkdir()  # agents have removed it, and all was killed
    assert sealed_start.find_checkouts(tmp_path / "shop/inner", {}) == (tmp_path / "shop",)


def test_home_and_tmpdir_in_the_checkout_are_not_used(shop: World) -> None:
    """Git would read an agent's settings there, and run the programs that they name."""
    home = shop.checkout / "build/home"
    home.mkdir(parents=True)
    (home / ".gitconfig").write_text(f"[user]\n\tname = A\n\temail = {MODEL_KEY}\n")
    done = shop.nightshift("run", "--dry-run", HOME=str(home), TMPDIR=str(home))
    assert done.exit_status == 0
    assert "HOME leads into the checkout, where agents write, so it is not used" in done.stderr
    assert "TMPDIR leads into the checkout, where agents write, so it is not used" in done.stderr
    assert [path.name for path in home.iterdir()] == [".gitconfig"]


def test_a_dependency_that_only_pythonpath_has_is_an_error(tmp_path: Path) -> None:
    package = tmp_path / "gitlab_nightshift"
    shutil.copytree(ROOT / "gitlab_nightshift", package, ignore=shutil.ignore_patterns("*.pyc"))
    (package / "cli.py").unlink()
    data: dict[str, Any] = {"path": [str(tmp_path)], "env": {}, "arguments": []}
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(package / "sealed_entry.py"), "0"],
        input=json.dumps(data),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert line.startswith("nightshift: E_CONFIG: ")
    assert line.endswith("install nightshift and what it needs into one environment")
