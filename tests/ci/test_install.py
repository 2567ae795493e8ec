"""The template's install step: a real venv, pip and npm, without a network."""

from __future__ import annotations

import json
import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pytest

import gitlab_nightshift
from tests.ci.conftest import (
    INCLUDE,
    NIGHT,
    Recorder,
    RunPipeline,
    SampleRepository,
    program,
)

LOOKED_FOR = {"nightshift", "claude", "codex", "pip", "apt-get"}
BASE = f"{sys.base_prefix}/bin/python3"
PYTHON = f'exec "{BASE}" "$@"\n'
SHELL = "#!/bin/sh\n"
LINKS_PIP = """\
if [ "$1 $2" = "-m venv" ]; then
  "{base}" -m venv --without-pip "$3"
  ln -s "{pip}" "$3"/lib/python3*/site-packages/
  printf '#!/bin/sh\\nexec "%s/bin/python" -m pip "$@"\\n' "$3" >"$3/bin/pip"
  exec chmod +x "$3/bin/pip"
fi
"""
"""To unpack and compile a pip of its own is nearly all the work of a new virtual environment."""


def _wheel(folder: Path) -> Path:
    """A tiny wheel under the product's name whose program tells what it finds on PATH."""
    name, version = "gitlab_nightshift", gitlab_nightshift.__version__
    info = f"{name}-{version}.dist-info"
    main = "import shutil, sys\nprint('python3 is', shutil.which('python3'))\n"
    main += "print('claude is', shutil.which('claude'))\nprint('isolated', sys.flags.isolated)\n"
    files = {
        f"{name}.py": main,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }
    folder.mkdir()
    with ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
    return folder


def _agent_package(folder: Path) -> Path:
    program(folder, "claude", f"{SHELL}exit 0\n")
    package = {"name": "agent", "version": "1.0.0", "bin": {"claude": "claude"}}
    (folder / "package.json").write_text(json.dumps(package))
    return folder


def _linking_pip() -> str:
    """Part of a python3 that makes virtual environments with this one's pip, where it has one."""
    found = find_spec("pip")
    if found is None or found.origin is None:
        return ""
    return LINKS_PIP.format(base=BASE, pip=Path(found.origin).parent)


def _link_programs(folder: Path) -> None:
    """Links to all programs of this machine but those that the install step looks for."""
    for place in map(Path, os.environ["PATH"].split(os.pathsep)):
        for found in place.iterdir() if place.is_dir() else ():
            link = folder / found.name
            if found.name not in LOOKED_FOR and not link.is_symlink():
                link.symlink_to(found)


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("linked")
    _link_programs(folder)
    (folder / "python3").unlink(missing_ok=True)
    return folder


@pytest.fixture
def bare_machine(linked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The first folder on PATH of a machine with python3, npm, and no nightshift or agents."""
    system = tmp_path / "system"
    program(system, "python3", SHELL + _linking_pip() + PYTHON)
    program(system, "apt-get", f"{SHELL}echo apt-get $*\nexit 98\n")
    monkeypatch.setenv("PATH", f"{system}{os.pathsep}{linked}")
    return system


def test_missing_programs_are_installed_beside_the_projects_python(
    run_pipeline: RunPipeline,
    sample_repository: SampleRepository,
    bare_machine: Path,
    tmp_path: Path,
) -> None:
    pytest.importorskip("ensurepip", reason="this Python makes no virtual environments")
    variables = {
        **NIGHT,
        "PIP_FIND_LINKS": str(_wheel(tmp_path / "wheels")),
        "NIGHTSHIFT_AGENT_PACKAGE": str(_agent_package(tmp_path / "agent")),
    }
    done = run_pipeline(sample_repository(INCLUDE), "schedule", variables)
    assert done.status == 0, done.log
    assert f"python3 is {bare_machine}/python3" in done.log, done.log
    assert f"claude is {tmp_path}/tools/bin/claude" in done.log
    assert "isolated 1" in done.log, "no PYTHONPATH of the project's counts"


def test_python_without_venv_gets_it_from_apt_and_a_failure_ends_the_job(
    run_pipeline: RunPipeline,
    sample_repository: SampleRepository,
    bare_machine: Path,
    tmp_path: Path,
) -> None:
    program(
        bare_machine, "python3", f'{SHELL}[ "$*" != "-c import ensurepip" ] || exit 1\n{PYTHON}'
    )
    program(bare_machine, "apt-get", f"{SHELL}echo apt-get $*\n[ $1 = update ]\n")
    done = run_pipeline(sample_repository(INCLUDE), "schedule", NIGHT)
    assert done.jobs == {"nightshift": "FAIL"}
    called = re.findall(r"^nightshift +> apt-get (\w+) .*?(\S+)$", done.log, re.MULTILINE)
    assert called == [("update", "-qq"), ("install", "python3-venv")]
    assert not (tmp_path / "tools/venv").exists()


def test_install_goes_home_where_the_tools_folder_cannot_be_made(
    run_pipeline: RunPipeline,
    sample_repository: SampleRepository,
    nightshift: Recorder,
    bare_machine: Path,
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("in the way")
    (nightshift.programs / "claude").unlink()
    (nightshift.programs / "npm").unlink()
    variables = {
        **NIGHT,
        "NIGHTSHIFT_AGENT_PACKAGE": str(_agent_package(tmp_path / "agent")),
        "NIGHTSHIFT_TOOLS": str(tmp_path / "file/tools"),
    }
    repository = sample_repository(INCLUDE)
    done = run_pipeline(repository, "schedule", variables, programs=nightshift.programs)
    assert done.status == 0, done.log
    assert (tmp_path / "home/.nightshift/bin/claude").exists()


@pytest.mark.parametrize("agent", ["codex", None])
def test_no_agent_is_installed_beside_another_or_where_none_is_named(
    agent: str | None,
    run_pipeline: RunPipeline,
    sample_repository: SampleRepository,
    nightshift: Recorder,
    bare_machine: Path,
) -> None:
    (nightshift.programs / "claude").unlink()
    if agent:
        program(nightshift.programs, agent, f"{SHELL}exit 0\n")
    variables = NIGHT if agent else {**NIGHT, "NIGHTSHIFT_AGENT_PACKAGE": ""}
    repository = sample_repository(INCLUDE)
    done = run_pipeline(repository, "schedule", variables, programs=nightshift.programs)
    assert done.status == 0, done.log
    assert nightshift.called
