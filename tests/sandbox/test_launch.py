"""The start of a confined process: its environment, and never a weaker boundary."""

import json
import os
import socket
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.sandbox.inside.confine import STATUSES
from gitlab_nightshift.sandbox.inside.syscalls import NUMBERS
from gitlab_nightshift.sandbox.launch import prepare_launch
from gitlab_nightshift.sandbox.system_paths import INSIDE, find_interpreter
from gitlab_nightshift.sandbox.tier_choice import choose
from gitlab_nightshift.sandbox.tiers import Confinement, Features, Tier
from tests.sandbox.tools import PYTHON, Room, end


def descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def test_the_program_gets_exactly_its_environment_and_folder(any_room: Room) -> None:
    source = "import os, json; print(json.dumps([dict(os.environ), os.getcwd()]))"
    env = any_room.env(ONE="1", ODD="ä\udcff")
    done = any_room.run("/usr/bin/env", "-0", env=env)
    words = done.stdout.strip("\0").split("\0")
    assert dict(word.split("=", 1) for word in words) == env
    seen, folder = json.loads(any_room.python(source).stdout)
    assert {k: v for k, v in seen.items() if k != "LC_CTYPE"} == any_room.env()
    assert folder == str(any_room.checkout)


def test_input_output_and_exit_status_pass(any_room: Room) -> None:
    done = any_room.run("/bin/sh", "-c", "cat; echo err >&2; exit 7", stdin="hello")
    assert (done.exit_status, done.stdout, done.stderr) == (7, "hello", "err\n")
    assert done.report.ready
    assert done.report.failed == ""


def test_a_program_is_looked_up_inside(any_room: Room) -> None:
    assert any_room.run("true").exit_status == 0
    done = any_room.run("no-such-program")
    assert done.exit_status == STATUSES["program"]
    assert done.report.failed.startswith("program: ")


def test_nothing_of_the_task_is_in_the_command_line_or_environment(any_room: Room) -> None:
    command = ["/bin/sh", "-c", "sleep 60", "a-secret-argument"]
    env = any_room.env(KEY="a-secret-value")
    with prepare_launch(any_room.sandbox, command, env, any_room.confinement) as launch:
        process = launch.start()
        try:
            assert not any("secret" in word for word in launch.argv)
            assert "secret" not in Path(f"/proc/{process.pid}/environ").read_text()
        finally:
            end(process)


def test_the_launcher_leaves_no_descriptor_open(any_room: Room) -> None:
    with prepare_launch(any_room.sandbox, ["true"], {}, any_room.confinement) as launch:
        process = launch.start()
        process.communicate(timeout=60)
        before = descriptors()
    after = descriptors()
    assert len(before - after) == 1
    assert launch.read_report().ready


def test_descriptors_are_closed_inside(any_room: Room) -> None:
    done = any_room.shell("ls /proc/self/fd")
    assert done.stdout.split() == ["0", "1", "2", "3"]  # 3 is the folder that ls reads


@pytest.mark.parametrize("kind", ["socket", "folder"])
def test_a_socket_or_folder_as_input_is_refused(any_room: Room, kind: str) -> None:
    near, far = socket.socketpair()
    with near, far, prepare_launch(any_room.sandbox, ["true"], {}, any_room.confinement) as launch:
        given = near.fileno() if kind == "socket" else os.open("/", os.O_RDONLY)
        done = subprocess.run(
            launch.argv,
            pass_fds=tuple(launch._launcher_fds),
            check=False,
            stdin=given,
            capture_output=True,
            env={},
            cwd=any_room.checkout,
            start_new_session=True,
        )
        launch._close_launcher_fds()
        assert not launch.read_report().ready
        if kind == "folder":
            os.close(given)
            assert done.returncode  # Python itself refuses it
        else:
            assert done.returncode == STATUSES["descriptors"]
            assert (
                launch.read_report().failed
                == "descriptors: descriptor 0 is not a pipe, file or terminal"
            )


def test_a_landlock_older_than_promised_ends_the_launch(any_room: Room) -> None:
    """The kernel has become older since the trial."""
    features = Features(landlock=99, notify=any_room.sandbox.features.notify)
    room = replace(any_room, sandbox=replace(any_room.sandbox, features=features))
    done = room.run("/bin/echo", "ran")
    assert (done.exit_status, done.stdout) == (STATUSES["files"], "")
    assert done.report.failed.startswith("files: ")


def test_another_filter_with_a_listener_ends_the_launch(monitored_room: Room) -> None:
    """EBUSY: under a container runtime's own listener ours fails, and nothing is run."""
    nested = (
        "import ctypes, struct, os, sys\n"
        "code = struct.pack('=HBBI', 6, 0, 0, 0x7fff0000)\n"
        "b = ctypes.create_string_buffer(code, 8); libc = ctypes.CDLL(None)\n"
        "libc.prctl(38, 1, 0, 0, 0)\n"
        "fd = libc.syscall(%d, 1, 8, struct.pack('=HxxxxxxQ', 1, ctypes.addressof(b)))\n"
        "if os.fork() == 0: import time; time.sleep(60); os._exit(0)\n"  # who holds it open
        "os.execv(sys.argv[1], sys.argv[1:])\n"
    )
    sandbox, confinement = monitored_room.sandbox, monitored_room.confinement
    out = (monitored_room.root / "out").open("wb")
    with out, prepare_launch(sandbox, ["/bin/echo", "ran"], {}, confinement) as launch:
        source = nested % NUMBERS["seccomp"]
        done = subprocess.run(
            [PYTHON, "-S", "-c", source, *launch.argv],
            pass_fds=tuple(launch._launcher_fds),
            check=False,
            stdout=out,
            env={},
            timeout=60,
        )
        launch._close_launcher_fds()
        failed = launch.read_report().failed
    assert (monitored_room.root / "out").read_bytes() == b""
    assert done.returncode == STATUSES["calls"] or "user" in failed
    assert failed.startswith(("calls: ", "user: "))


def test_a_bad_spec_ends_the_launch() -> None:
    status, theirs = os.pipe()
    spec = os.memfd_create("spec")
    os.write(spec, b'{"argv": []}')
    os.lseek(spec, 0, os.SEEK_SET)
    command = [str(find_interpreter()), "-I", "-S", str(INSIDE / "launcher.py"), "confine"]
    done = subprocess.run(
        [*command, str(spec), str(theirs)], pass_fds=(spec, theirs), env={}, check=False
    )
    os.close(theirs)
    with os.fdopen(status, "rb") as report:
        assert report.read().startswith(b"failed spec: ")
    os.close(spec)
    assert done.returncode == STATUSES["spec"]


def test_statuses_are_distinct() -> None:
    assert len(set(STATUSES.values())) == len(STATUSES)


def test_names_in_refusals_are_escaped(monitored_room: Room) -> None:
    source = (
        "import socket; socket.socket(socket.AF_UNIX).connect_ex('/no\\x1b[31m\\nready\\nfailed x')"
    )
    done = monitored_room.python(source)
    assert done.report.failed == ""
    assert done.report.refused == ("connect to UNIX socket /no\\x1b[31m ready failed x",)


def test_only_forty_refusals_are_reported(monitored_room: Room) -> None:
    source = "import socket\nfor i in range(1, 99): socket.socket().connect_ex(('192.0.2.1', i))"
    assert len(monitored_room.python(source).report.refused) == 40


def test_the_boundary_must_not_lie_where_an_agent_may_write(any_room: Room) -> None:
    inside = replace(any_room.confinement, writable=(any_room.checkout, INSIDE.parent))
    with pytest.raises(NightshiftError) as caught:
        replace(any_room, confinement=inside).run("true")
    assert caught.value.code is Code.CONFIG
    gone = replace(any_room.confinement, writable=(any_room.root / "gone",))
    with pytest.raises(NightshiftError, match="is not a folder"):
        replace(any_room, confinement=gone).run("true")


def test_the_tier_none_confines_nothing(tmp_path: Path) -> None:
    sandbox = choose("none", tmp_path)
    assert not any(g.held for g in vars(sandbox.guarantees).values())
    confinement = Confinement(tmp_path, (tmp_path,))
    with prepare_launch(
        sandbox, ["/bin/sh", "-c", "pwd; echo $A"], {"A": "b"}, confinement
    ) as launch:
        process = launch.start()
        out, _ = process.communicate(timeout=60)
    assert out.decode().split() == [str(tmp_path), "b"]
    assert launch.read_report().ready
    assert sandbox.tier is Tier.NONE
