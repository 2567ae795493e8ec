"""The template's install step: a real venv, pip and npm, without a network."""

from __future__ import annotations

import json
import os
import re
import sys
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
PYTHON = f'exec "{sys.base_prefix}/bin/python3" "$@"\n'
SHELL = "#!/bin/sh\n"


def _wheel(folder: Path) -> Path:
    """A tiny wheel under the product's name whose program tells what it finds on PATH."""
    name, version = "gitlab_nightshift", gitlab_nightshift.__version__
    info = f"{name}-{version}.dist-info"
    main = "import shutil\ndef main():\n    print('python3 is', shutil.which('python3'))\n"
    main += "    print('claude is', shutil.which('claude'))\n"
    files = {
        f"{name}.py": main,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\nnightshift = {name}:main\n",
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


def _link_programs(folder: Path) -> None:
    """Links to all programs of this machine but those that the install step looks for."""
    for place in map(Path, os.environ["PATH"].split(os.pathsep)):
        for found in place.iterdir() if place.is_dir() else ():
            link = folder / found.name
            if found.name not in LOOKED_FOR and not link.is_symlink():
                link.symlink_to(found)


@pytest.fixture
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one folder on PATH of a machine with python3 and npm, without nightshift and agents."""
    system = tmp_path / "system"
    system.mkdir()
    _link_programs(system)
    (system / "python3").unlink(missing_ok=True)
    program(system, "python3", SHELL + PYTHON)
    program(system, "apt-get", f"{SHELL}echo apt-get $*\nexit 98\n")
    monkeypatch.setenv("PATH", str(system))
    return system


def test_nothing_is_installed_where_the_image_has_it(
    run_pipeline: RunPipeline,
    sample_repository: SampleRepository,
    nightshift: Recorder,
    tmp_path: Path,
) -> None:
    repository = sample_repository(INCLUDE)
    done = run_pipeline(repository, "schedule", NIGHT, programs=nightshift.programs)
    assert done.status == 0, done.log
    assert "Installing" not in done.log
    assert not (tmp_path / "tools/venv").exists()


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
    assert f"python3 is {bare_machine}/python3" in done.log
    assert f"claude is {tmp_path}/tools/bin/claude" in done.log


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
