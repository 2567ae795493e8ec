"""The broker of a process that reads what agents write: the changes and starts that it allows.

That process is a real one, confined as work is; each attempt is repeated without the defence.
"""

import errno
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.sandbox.confinement import (
    ConfinementChoice,
    ConfinementMode,
    ConfinementPaths,
)
from gitlab_nightshift.sandbox.inside import broker_service, landlock
from gitlab_nightshift.sandbox.inside.broker_service import LaunchTerms
from gitlab_nightshift.sandbox.inside.seccomp import build_attribute_filter
from gitlab_nightshift.sandbox.inside.syscalls import (
    ATTRIBUTES,
    MOUNTING,
    NEWER_ATTRIBUTES,
    NUMBERS,
)
from gitlab_nightshift.sandbox.system_paths import INSIDE
from tests.sandbox.filter_machine import decide
from tests.sandbox.tools import PYTHON, open_folder
from tests.support.stages import PLAIN_STAGE, real_start
from tests.support.tables import each

pytestmark = pytest.mark.skipif(landlock.read_abi() < 2, reason="Landlock is missing or too old")

CONFINED = """
import contextlib
import json
from dataclasses import replace
from pathlib import Path
from gitlab_nightshift import errors
from gitlab_nightshift.sandbox import broker_client, launch, self_confinement, system_paths
from gitlab_nightshift.sandbox.inside import seccomp
from gitlab_nightshift.sandbox.tier_choice import choose
from gitlab_nightshift.sandbox.tiers import Confinement

inside, top = Path(data["inside"]), Path(data["top"])
checkout, scratch, outside = top / "checkout", top / "scratch", top / "outside"
sandbox = choose("landlock", scratch)
own = self_confinement.confine(data["confined"], lambda: None)
if data["heard"]:
    other = seccomp.install(seccomp.build_attribute_filter(), listening=True)
system_paths.INSIDE = inside
needs = self_confinement.WorkNeeds(sandbox.machine, (str(inside), str(outside)))
broker = own.complete(replace(needs, keep_owners=True, monitored=data["monitored"]))
sandbox = replace(sandbox, broker=broker)

build = launch._build_spec

def error_of(attempt):
    try:
        attempt()
    except OSError as error:
        return error.errno
    except errors.NightshiftError as error:
        return str(error.code)
    return 0

def run(source, folders=(checkout, scratch), spec=()):
    launch._build_spec = lambda *words: {**build(*words), **dict(spec)}
    argv = [data["python"], "-c", source]
    with launch.prepare_launch(sandbox, argv, {}, Confinement(checkout, folders)) as prepared:
        process = prepared.start()
        out, err = process.communicate()
        report = prepared.read_report()
    return [process.returncode, out.decode() + err.decode(), *report.refused]
"""


@pytest.fixture
def top() -> Iterator[Path]:
    """A job's folders: two that it may write, and one outside."""
    with open_folder() as folder:
        for name in ("checkout", "scratch", "outside"):
            (folder / name).mkdir()
            (folder / name / "file").write_text("x")
            (folder / name / "file").chmod(0o600)
        yield folder


def run_work(
    top: Path, code: str, *, monitored: bool = True, heard: bool = False, inside: Path = INSIDE
) -> Any:
    """The output of a process that is confined as work is, and then runs this code. ``heard``:
    there is another listener above it."""
    writable = tuple(str(top / name) for name in ("checkout", "scratch"))
    places = ConfinementPaths(writable, (), (), "", "", (), {}, search_path="/usr/bin")
    data = {
        "code": CONFINED + code,
        "confined": ConfinementChoice(ConfinementMode.LANDLOCK).describe(places),
        "monitored": monitored,
        "heard": heard,
        "inside": str(inside),
        "python": PYTHON,
        "top": str(top),
    }
    process = real_start(PLAIN_STAGE, data, {"PATH": "/usr/bin"})
    out, err = process.communicate()
    assert process.returncode == 0, err.decode()
    return json.loads(out)


def copy_inside_without(top: Path, module: str, defence: str, nothing: str) -> Path:
    """A copy of the broker's modules without a defence."""
    copy = top / "inside"
    shutil.copytree(INSIDE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    text = (copy / module).read_text()
    assert defence in text
    (copy / module).write_text(text.replace(defence, nothing))
    return copy


CHANGES = """
def by_descriptor(file):
    fd = os.open(file, os.O_RDONLY)
    os.fchmod(fd, 0o640)
    os.close(fd)

ways = (
    lambda file: os.chmod(file, 0o640),
    by_descriptor,
    lambda file: os.utime(file, (1, 1)),
    lambda file: os.setxattr(file, "user.there", b"x"),
    lambda file: os.removexattr(file, "user.there"),
    lambda file: os.chown(file, os.getuid(), os.getgid()),
)
files = (checkout / "file", scratch / "file", outside / "file")
print(json.dumps([[error_of(lambda: way(file)) for way in ways] for file in files]))
"""


def test_work_changes_attributes_only_in_its_folders(top: Path) -> None:
    done, refused = [0] * 6, [errno.EPERM] * 6
    assert run_work(top, CHANGES) == [done, done, refused]
    assert (top / "checkout/file").stat().st_mode & 0o777 == 0o640
    assert (top / "outside/file").stat().st_mode & 0o777 == 0o600
    assert run_work(top, CHANGES, monitored=False) == [done, done, done]
    assert (top / "outside/file").stat().st_mode & 0o777 == 0o640


CHILD = """
import subprocess
command = ["/bin/sh", "-c", "chmod 640 $0", str(outside / "file")]
print(json.dumps(subprocess.run(command, stderr=subprocess.DEVNULL).returncode))
"""


def test_a_child_of_work_changes_no_attributes_outside(top: Path) -> None:
    assert run_work(top, CHILD) != 0
    assert run_work(top, CHILD, monitored=False) == 0


PROBES = """
own.probes.update(dict.fromkeys(("read", "write", "same", "processes"), ()), socket="none")
own.probes["change"] = [str(outside / "file")]
found = self_confinement.try_own_access(own, broker)
print(json.dumps([each.promised for each in found if each.name.startswith("change the mode of")]))
"""


def test_without_a_listener_nothing_is_promised(top: Path) -> None:
    assert run_work(top, PROBES) == [True]
    assert run_work(top, PROBES, monitored=False) == [False]
    assert run_work(top, f"assert broker is None; os.close(other){PROBES}", heard=True) == [False]


AGENT = """
source = "import os\\nfor file in {!r}: os.chmod(file, 0o640)"
print(json.dumps(run(source.format([str(checkout / "file"), str(outside / "file")]))))
"""


def test_a_process_that_the_broker_starts_has_a_monitor(top: Path) -> None:
    """It behaves and reports as without a broker."""
    for monitored in (True, False):
        (top / "checkout/file").chmod(0o600)
        status, said, *refused = run_work(top, AGENT, monitored=monitored)
        assert (status, refused) == (1, [f"chmod of {top}/outside/file"])
        assert "PermissionError" in said
        assert (top / "checkout/file").stat().st_mode & 0o777 == 0o640


GONE = """
process = broker._process if broker else None
if process:
    process.kill()
    process.wait()
file = checkout / "file"
change = lambda: os.chmod(file, 0o640)

def explained():
    with broker.explain_end(OSError) if broker else contextlib.nullcontext():
        change()

print(json.dumps([error_of(change), error_of(lambda: run("")), error_of(explained)]))
"""


def test_without_its_broker_work_changes_and_starts_nothing(top: Path) -> None:
    assert run_work(top, GONE) == [errno.ENOSYS, "E_TERMINATED", "E_TERMINATED"]
    assert run_work(top, GONE, monitored=False) == [0, 0, 0]


OTHER = """
broker_client.END_S = 0.0

def fail():
    with broker.explain_end(OSError):
        os.stat(top / "missing")

print(json.dumps(error_of(fail)))
"""


def test_while_the_broker_lives_errors_are_unchanged(top: Path) -> None:
    assert run_work(top, OTHER) == errno.ENOENT


FORGED = """
source = "import os; os.chmod({!r}, 0o640)"
free = {"notify": False, "own_network": True, "gates": [], "landlock": 0}
attempts = {"file": lambda name: run(name, (outside,)), "other": lambda name: run(name, spec=free)}
print(json.dumps([
    error_of(lambda: attempt(source.format(f"{outside}/{name}")))
    for name, attempt in attempts.items()
]))
"""


def test_the_broker_refuses_a_forged_spec(top: Path) -> None:
    """Neither a monitor for other folders nor a process without a monitor can be started."""
    files = [top / "outside/file", top / "outside/other"]
    files[1].touch(0o600)
    assert run_work(top, FORGED) == [errno.EPERM, errno.EPERM]
    assert [file.stat().st_mode & 0o777 for file in files] == [0o600, 0o600]
    check = "if violation := terms.find_violation(parse_json(data)):"
    inside = copy_inside_without(top, "broker_service.py", check, "if violation := '':")
    assert run_work(top, FORGED, inside=inside) == [0, 0]
    assert [file.stat().st_mode & 0o777 for file in files] == [0o640, 0o640]


SWAPPED = """
(checkout / "folder").symlink_to(outside)
source = "import os; os.chmod({!r}, 0o640)".format(str(outside / "file"))
writable = [str(checkout), str(scratch), str(checkout / "folder")]
print(json.dumps(run(source, spec={"writable": writable})))
"""


def test_a_writable_folder_that_becomes_a_link_gives_no_access(top: Path) -> None:
    """The monitor uses the path that the broker has checked; the control resolves it again."""
    status, _, *refused = run_work(top, SWAPPED)
    assert (status, refused) == (1, [f"chmod of {top}/outside/file"])
    (top / "checkout/folder").unlink()
    resolved = "os.fsencode(os.path.realpath(folder))"
    inside = copy_inside_without(top, "attributes.py", "os.fsencode(folder)", resolved)
    assert run_work(top, SWAPPED, inside=inside) == [0, ""]


FIXED = {"notify": True, "own_network": False, "uid": None, "gid": None, "landlock": 6, "parent": 7}
SPEC = {**FIXED, "task": None, "writable": ["/a/checkout", "/a/scratch/one", "/dev/shm"]}
TERMS = LaunchTerms(FIXED, ["/a/checkout", "/a/scratch"], ["/dev/shm"])


def test_a_regular_spec_is_allowed() -> None:
    assert TERMS.find_violation(SPEC) == ""
    assert TERMS.find_violation({**SPEC, "task": {"module": "attacks", "attempts": []}}) == ""


@each(
    ("name", "value"),
    [
        *(("notify", False), ("notify", 1), ("own_network", True), ("uid", 0), ("gid", 0)),
        *(("landlock", 0), ("landlock", 6.0), ("parent", 1)),
        *(("task", {"module": "own_proc"}), ("task", {}), ("task", "attacks")),
        *(("writable", None), ("writable", "/a/checkout"), ("writable", [1])),
        *(("writable", [path]) for path in ("/", "/a", "/a/checkout-too", "/dev/shm/x", "a")),
        *(("writable", [path]) for path in ("/a/checkout/..", "/a/checkout/../b", "//a/checkout")),
    ],
)
def test_any_other_spec_is_refused(name: str, value: Any) -> None:
    assert TERMS.find_violation({**SPEC, name: value}) == name


@each("spec", [None, [], "", 1])
def test_other_json_is_refused(spec: Any) -> None:
    assert TERMS.find_violation(spec) == "spec"


def test_a_checked_spec_cannot_be_changed() -> None:
    """Other processes may open the launcher's descriptors."""
    sealed = broker_service._write_sealed(b"judged")
    again = os.open(f"/proc/self/fd/{sealed}", os.O_RDWR)
    try:
        for change in (lambda: os.write(again, b"x"), lambda: os.truncate(again, 0)):
            with pytest.raises(PermissionError):
                change()
        assert os.pread(sealed, 100, 0) == b"judged"
    finally:
        os.close(again)
        os.close(sealed)


def test_the_filter_hands_over_every_change_of_attributes() -> None:
    filters = build_attribute_filter()
    known = [name for name in ATTRIBUTES if name in NUMBERS]
    assert {decide(filters, name) for name in known} == {"notify"}
    newer = [name for name in NEWER_ATTRIBUTES if name in NUMBERS]
    assert {decide(filters, name) for name in newer} == {errno.ENOSYS}
    assert {decide(filters, name) for name in MOUNTING if name in NUMBERS} == {errno.EPERM}
    assert decide(filters, "unshare", 0x10000000) == errno.EPERM
    set_flags = 0x40086602
    assert decide(filters, "ioctl", 3, set_flags) == errno.ENOTTY
    ordinary = ("socket", "connect", "kill", "ptrace", "setsockopt", "prlimit64")
    assert {decide(filters, name) for name in ordinary} == {"allow"}
