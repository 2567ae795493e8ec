"""The image's steps, as a builder without SHELL runs them: by a plain ``sh -c``."""

import hashlib
import io
import os
import re
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.ci.conftest import ROOT, program

DOCKERFILE = ROOT / "ci/image/Dockerfile"
CURL = '#!/bin/sh\nwhile [ "$1" != --output ]; do shift; done\ncp "$SERVED" "$2"\n'
PROGRAM = b"#!/bin/sh\necho started\n"


def read_steps() -> list[str]:
    """What each RUN hands to the shell."""
    lines = (line for line in DOCKERFILE.read_text().splitlines() if not line.startswith("#"))
    joined = "\n".join(lines).replace("\\\n", " ")
    return re.findall(r"^RUN (.*)$", joined, re.MULTILINE)


def run_step(folder: Path, marker: str, **env: str) -> int:
    """The exit status of the step with ``marker``; its places are below ``folder``."""
    [step] = [step for step in read_steps() if marker in step]
    for place in ("/tmp", "/opt", "/usr/local/bin"):
        (folder / place[1:]).mkdir(parents=True, exist_ok=True)
        step = re.sub(rf"(?<=[ >]){place}(?=[/ ;])", str(folder / place[1:]), step)
    path = f"{folder}/usr/local/bin:{os.environ['PATH']}"
    return subprocess.run(["sh", "-c", step], env={"PATH": path, **env}, check=False).returncode


def pack(archive: Path, name: str) -> bytes:
    """An archive with one program, and its bytes."""
    with tarfile.open(archive, "w:gz") as tar:
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = len(PROGRAM), 0o755
        tar.addfile(entry, io.BytesIO(PROGRAM))
    return archive.read_bytes()


def test_each_step_stops_at_what_fails_under_any_builder() -> None:
    assert "SHELL" not in [line.split(" ")[0] for line in DOCKERFILE.read_text().splitlines()]
    for step in read_steps():
        assert step.startswith("set -eux; ")
        assert "|" not in step, "sh has no pipefail"


@pytest.mark.parametrize("right", [True, False])
def test_an_agent_of_another_hash_gets_into_no_image(tmp_path: Path, right: bool) -> None:
    served = pack(tmp_path / "agent.tgz", "package/claude")
    program(tmp_path / "usr/local/bin", "curl", CURL)
    status = run_step(
        tmp_path,
        "$AGENT_HASH",
        AGENT="1.0.0",
        AGENT_HASH=hashlib.sha512(served).hexdigest() if right else "00",
        NPM_REGISTRY="https://registry.example",
        SERVED=str(tmp_path / "agent.tgz"),
    )
    assert ((status == 0), (tmp_path / "usr/local/bin/claude").exists()) == (right, right)


@pytest.mark.parametrize("right", [True, False])
def test_a_bundle_of_another_hash_gets_into_no_image(tmp_path: Path, right: bool) -> None:
    dist, name = tmp_path / "tmp/dist", "nightshift-1.0.0-x86_64.tar.gz"
    dist.mkdir(parents=True)
    packed = pack(dist / name, "nightshift-1.0.0/bin/nightshift")
    known = hashlib.sha256(packed if right else b"another").hexdigest()
    (dist / "SHA256SUMS").write_text(f"{known}  {name}\n")
    status = run_step(tmp_path, "SHA256SUMS")
    started = tmp_path / "usr/local/bin/nightshift"
    assert ((status == 0), started.exists()) == (right, right)
