"""What a night costs beside its agent and its commands.

    PYTHONPATH=. python benchmarks/night.py [RUNS [FILES …]]

A recorded night without its pauses, in a project of that many files with a small history, pushed
over HTTP to a GitLab stand-in that is not counted: CPU seconds of the night's whole process tree,
in turn with the git and curl commands that such a night cannot do without ("bare"). Neither counts
the project's own commands: ``verify_commands`` is ``true``, and what the planted faults' test runs
(``python3``) cost is taken off where acct(2) tells it (root); it rounds each down to 1/100 s. The
package is compiled first, as pip does: confined processes cannot keep what they compile. The goals:
1.6 s for 500 files, 1.9 for 5,000, and for 50,000 3.2 s or 4 times the bare commands.

TMPDIR decides the file system, and ext4 without a journal doubles the cost of a new file.
"""

import compileall
import ctypes
import json
import os
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree, rmtree

import gitlab_nightshift
from gitlab_nightshift.demo.demo_night import RECORDING, Demo, create_checkout, open_demo

PACKAGE = Path(gitlab_nightshift.__file__).parent
RECORDED = re.compile(r"/demo/(sample|recording)/")
"""Files of the demo's project, among which compiled ones would be copied."""
PER_FOLDER = 100
COMMANDS = (b"python3", b"true")
"""The names of the project's own commands; this program runs as another name."""
ACCOUNT = struct.Struct("<BBHIIIIIIf8H16s")
"""``struct acct_v3`` of acct(5)."""
IDENTITY = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")


def main(runs: int, counts: list[int]) -> None:
    """Print a row for each number of files."""
    compileall.compile_dir(PACKAGE, quiet=1, rx=RECORDED)
    with tempfile.TemporaryDirectory(prefix="ns-") as name:
        recording = _copy_without_pauses(Path(name))
        print("  files   night s  bare s  times   wall s")
        for files in counts:
            rows = [_measure(Path(name, "results"), recording, files) for _ in range(runs)]
            columns = zip(*rows, strict=True)
            night, bare, wall = (statistics.median(column) for column in columns)
            print(f"{files:7,}   {night:7.2f} {bare:7.2f} {night / bare:6.1f} {wall:8.2f}")


def _copy_without_pauses(folder: Path) -> Path:
    made = folder / "recording"
    copytree(RECORDING, made)
    for about in made.glob("*/bead.json"):
        about.write_text(json.dumps({**json.loads(about.read_text()), "pace_s": 0}))
    return made


def _measure(results: Path, recording: Path, files: int) -> tuple[float, float, float]:
    """CPU seconds of a night and of the bare commands, and seconds of the night."""
    with _open_night(results, files) as demo:
        bare = _run_bare(demo)
        began = time.perf_counter()
        night = _run_night(demo, recording, results / "log")
        wall = time.perf_counter() - began
        assert len(demo.project.merge_requests) == 1, (results / "log").read_text()
    return night, bare, wall


@contextmanager
def _open_night(results: Path, files: int) -> Iterator[Demo]:
    """A night in the sample project, with small files added to it."""
    with open_demo(results, os.environ) as demo:
        project = demo.project
        stream = "".join(_write_import(files)).encode()
        import_all = ("fast-import", "--quiet", "--force")
        project.git.run(*import_all, cwd=project.bare_repository, stdin=stream)
        rmtree(demo.checkout)
        commit = create_checkout(
            project, demo.checkout, layout="include", token=demo.env["CI_JOB_TOKEN"]
        )
        env = {**demo.env, "CI_COMMIT_SHA": commit}
        yield Demo(env, demo.checkout, project, demo.folder)


def _write_import(files: int) -> Iterator[str]:
    yield "commit refs/heads/main\ncommitter Ada <ada@example.org> 1700000000 +0000\ndata 4\nmore\n"
    yield "from refs/heads/main^0\n"
    for number in range(files):
        text = f"number = {number}\n" * 20
        folder = number // PER_FOLDER
        yield f"M 644 inline filler/part{folder // 20}/folder{folder}/file{number}.txt\n"
        yield f"data {len(text)}\n{text}\n"


def _wait(process: subprocess.Popen[bytes]) -> float:
    """CPU seconds of a process and all that it has waited for."""
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, process.args
    return usage.ru_utime + usage.ru_stime


@contextmanager
def _record_processes(file: Path) -> Iterator[None]:
    """Have the kernel write a record of each process that ends, where this user may."""
    file.touch()
    libc = ctypes.CDLL(None)
    libc.acct(bytes(file))
    try:
        yield
    finally:
        libc.acct(None)


def _sum_commands(file: Path, night: int) -> float:
    """CPU seconds of the project's own commands below this process."""
    records = list(ACCOUNT.iter_unpack(file.read_bytes()))
    parents = {record[6]: record[7] for record in records}

    def is_below(pid: int) -> bool:
        return pid == night or (pid in parents and is_below(parents[pid]))

    commands = (each for each in records if each[-1].rstrip(b"\0") in COMMANDS)
    ticks = (each[10:12] for each in commands if is_below(each[6]))
    return sum(_unpack_ticks(each) for pair in ticks for each in pair) / 100


def _unpack_ticks(packed: int) -> int:
    """A ``comp_t``: an exponent of 8 in the upper 3 bits."""
    return int((packed & 0x1FFF) << 3 * (packed >> 13))


def _run_night(demo: Demo, recording: Path, log: Path) -> float:
    """CPU seconds of a night."""
    env = {
        **demo.env,
        "PYTHONPATH": str(PACKAGE.parent),
        "NIGHTSHIFT_REPLAY_DIR": str(recording),
        "NIGHTSHIFT_VERIFY_COMMANDS": "true",
    }
    command = [sys.executable, "-P", "-m", "gitlab_nightshift", "run"]
    records = log.with_name("processes")
    with log.open("wb") as file, _record_processes(records):
        night = subprocess.Popen(command, cwd=demo.checkout, env=env, stdout=file, stderr=file)
        used = _wait(night)
    return used - _sum_commands(records, night.pid)


def _run_bare(demo: Demo) -> float:
    """Look at the tree, make a commit, push it, and ask GitLab what a night has to ask. CPU seconds
    of the commands."""
    env = {**demo.env, "GIT_CONFIG_GLOBAL": "/dev/null"}
    url = f"{demo.env['CI_SERVER_URL']}/api/v4/projects/{demo.env['CI_PROJECT_ID']}"
    token = f'header = "PRIVATE-TOKEN: {demo.env["GITLAB_TOKEN"]}"'

    used: list[float] = []

    def run(*command: str, stdin: str = "") -> str:
        with subprocess.Popen(
            command, cwd=demo.checkout, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            assert process.stdin and process.stdout
            process.stdin.write(stdin.encode())
            process.stdin.close()
            output = process.stdout.read()
            used.append(_wait(process))
            process.returncode = 0
        return str(output.decode()).strip()

    for path in ("", "/merge_requests?state=opened", "/repository/branches/main"):
        run("curl", "-sSf", "-K", "-", "-o", "/dev/null", url + path, stdin=token)
    run("git", "rev-parse", "HEAD")
    run("git", "status", "--porcelain")
    env["GIT_INDEX_FILE"] = str(demo.folder / "index")
    run("git", "read-tree", "HEAD")
    (demo.checkout / "bare.txt").write_text("bare\n")
    run("git", "update-index", "--add", "bare.txt")
    (demo.checkout / "bare.txt").unlink()
    tree = run("git", "write-tree")
    commit = run("git", *IDENTITY, "commit-tree", "-p", "HEAD", "-m", "bare", tree)
    run("git", "diff-tree", "-r", "--numstat", "HEAD", commit)
    user = f"://oauth2:{demo.env['GITLAB_TOKEN']}@"
    address = demo.env["CI_PROJECT_URL"].replace("://", user)
    run("git", "push", "-q", f"{address}.git", f"{commit}:refs/heads/bare")
    return sum(used)


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    main(numbers[0] if numbers else 7, numbers[1:] or [500, 5_000, 50_000])
