"""The template's install step: a package registry on this machine, and a real npm."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import sys
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import gitlab_nightshift
from tests.ci.conftest import INCLUDE, NIGHT, Recorder, RunPipeline, SampleRepository, program

VERSION = gitlab_nightshift.__version__
NAME = f"nightshift-{VERSION}-x86_64.tar.gz"
LOOKED_FOR = {"nightshift", "claude", "codex"}
BASE = f"{sys.base_prefix}/bin/python3"
PYTHON = f'exec "{BASE}" "$@"\n'
SHELL = "#!/bin/sh\n"
TOKEN = "glcbt-TokenOfTheJob"
ANSWER = """\
#!/bin/sh
[ "$1" != --version ] || exit 0
echo "nightshift from $0"
echo "claude is $(command -v claude)"
echo "python3 is $(command -v python3)"
"""


class Registry:
    """A GitLab that has one version in the package registry of ``group/nightshift``."""

    def __init__(self, hash_of: bytes | None = None, storage: Registry | None = None) -> None:
        """``storage`` is another address, which has the files that this one redirects to."""
        self.bundle = _build_bundle()
        self.hash = hashlib.sha256(hash_of or self.bundle).hexdigest()
        self.asked: list[tuple[str, str | None]] = []
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append((self.path, self.headers.get("JOB-TOKEN")))
                body = registry.read(self.path)
                self.send_response((302 if storage else 200) if body else 404)
                if storage:
                    self.send_header(
                        "Location", f"{storage.url.removesuffix('/api/v4')}{self.path}"
                    )
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/api/v4"

    def read(self, path: str) -> bytes:
        """A file of the package, b"" for anything else."""
        files = {NAME: self.bundle, "SHA256SUMS": f"{self.hash}  {NAME}\n".encode()}
        folder = f"/api/v4/projects/group%2Fnightshift/packages/generic/nightshift/{VERSION}/"
        return files.get(path.removeprefix(folder), b"") if path.startswith(folder) else b""

    def __enter__(self) -> Registry:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def variables(self) -> dict[str, str]:
        return {
            **NIGHT,
            "CI_API_V4_URL": self.url,
            "CI_JOB_TOKEN": TOKEN,
            "NIGHTSHIFT_SOURCE": "group/nightshift",
        }


def _build_bundle() -> bytes:
    """A bundle whose program prints what it finds on PATH."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        entry = tarfile.TarInfo(f"nightshift-{VERSION}/bin/nightshift")
        entry.size, entry.mode = len(ANSWER), 0o755
        tar.addfile(entry, io.BytesIO(ANSWER.encode()))
    return archive.getvalue()


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


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("linked")
    _link_programs(folder)
    (folder / "python3").unlink(missing_ok=True)
    return folder


@pytest.fixture
def bare_machine(linked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The first folder on PATH of a machine with curl, npm, and no nightshift or agents."""
    system = tmp_path / "system"
    program(system, "python3", SHELL + PYTHON)
    monkeypatch.setenv("PATH", f"{system}{os.pathsep}{linked}")
    return system


@pytest.mark.parametrize("without", ["", "curl"])
def test_the_bundle_comes_from_the_package_registry_by_the_jobs_token(
    without: str,
    run_pipeline: RunPipeline,
    sample_repository: SampleRepository,
    bare_machine: Path,
    linked: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if without:
        places = [path for path in linked.iterdir() if path.name != without]
        (tmp_path / "less").mkdir()
        for path in places:
            (tmp_path / "less" / path.name).symlink_to(path.readlink())
        monkeypatch.setenv("PATH", f"{bare_machine}{os.pathsep}{tmp_path / 'less'}")
    agent = {"NIGHTSHIFT_AGENT_PACKAGE": str(_agent_package(tmp_path / "agent"))}
    with Registry() as storage, Registry(storage=storage) as registry:
        variables = {**registry.variables, **agent}
        done = run_pipeline(sample_repository(INCLUDE), "schedule", variables)
    assert done.status == 0, done.log
    # Clients send a header of one's own wherever they are sent to.
    assert len(storage.asked) == 2
    assert not {token for _, token in storage.asked} - {None, ""}
    tools = tmp_path / "tools"
    said = re.findall(r"^nightshift +> (.*)$", done.log, re.MULTILINE)
    assert said[0].startswith(f"This image lacks nightshift {VERSION} (from group/nightshift), an")
    assert f"claude is {tools}/bin/claude" in said
    assert f"python3 is {bare_machine}/python3" in said
    assert {token for _, token in registry.asked} == {TOKEN}
    assert [path.rpartition("/")[2] for path, _ in registry.asked] == [NAME, "SHA256SUMS"]
    assert not (tools / NAME).exists()


def test_a_bundle_that_is_not_the_pinned_one_never_runs(
    run_pipeline: RunPipeline,
    sample_repository: SampleRepository,
    bare_machine: Path,
    tmp_path: Path,
) -> None:
    for registry, version in (
        (Registry(), f"{VERSION}@sha256:{'0' * 64}"),
        (Registry(hash_of=b"another"), VERSION),
    ):
        with registry:
            variables = {**registry.variables, "NIGHTSHIFT_VERSION": version}
            done = run_pipeline(sample_repository(INCLUDE), "schedule", variables)
        assert done.jobs == {"nightshift": "FAIL"}, done.log
        assert "it is not what was pinned" in done.log
        assert not (tmp_path / "tools/bin/nightshift").exists()


def test_a_version_that_is_nowhere_is_one_line(
    run_pipeline: RunPipeline, sample_repository: SampleRepository, bare_machine: Path
) -> None:
    with Registry() as registry:
        variables = {**registry.variables, "NIGHTSHIFT_VERSION": "9.9.9"}
        done = run_pipeline(sample_repository(INCLUDE), "schedule", variables)
    assert done.jobs == {"nightshift": "FAIL"}
    assert "is 9.9.9 published there" in done.log


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
