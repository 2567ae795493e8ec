"""Agents cannot change modes, owners, times and attributes of the job user's other files."""

import os
import shutil
from pathlib import Path

import pytest

from gitlab_nightshift.sandbox import launch, system_paths
from gitlab_nightshift.sandbox.inside.attributes import CALLS, AttributeHandler
from gitlab_nightshift.sandbox.inside.notification import SystemCall
from gitlab_nightshift.sandbox.inside.syscalls import NUMBERS
from gitlab_nightshift.sandbox.system_paths import INSIDE
from gitlab_nightshift.sandbox.tiers import Tier
from tests.sandbox.conftest import room
from tests.sandbox.tools import PYTHON, Room, end, with_features

OUTSIDE = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
folder, readable = sys.argv[1:]
os.symlink(folder, 'out'); os.symlink(folder + '/mode', 'link')
held, top = os.open(folder + '/held', os.O_PATH), os.open(folder, os.O_PATH)
reading = os.open(readable, 0)
one = struct.pack('=4q', 1, 0, 1, 0)
tries = {
    'mode': lambda: os.chmod('link', 0o777),
    'relative': lambda: os.chmod(os.path.relpath(folder) + '/relative', 0o777),
    'linked': lambda: os.chmod('out/linked', 0o777),
    'held': lambda: os.chmod(f'/proc/self/fd/{held}', 0o777),
    'below': lambda: os.chmod(f'/proc/thread-self/fd/{top}/below', 0o777),
    'folder': lambda: os.chmod('folder', 0o777, dir_fd=top),
    'root': lambda: os.chmod(f'/proc/self/root{folder}/root', 0o777),
    'readable': lambda: os.fchmod(reading, 0o777),
    'times': lambda: os.utime(folder + '/times', (1, 1)),
    'old': lambda: libc.utime(os.fsencode(folder) + b'/old', struct.pack('=2q', 1, 1)),
    'empty': lambda: libc.utimensat(os.open(folder + '/empty', os.O_PATH), b'', one, 0x1000),
    'attribute': lambda: os.setxattr(folder + '/attribute', 'user.a', b'x'),
    'removed': lambda: os.removexattr(folder + '/removed', 'user.there'),
    'access': lambda: os.setxattr(folder + '/access', 'system.posix_acl_access', ACCESS),
    'owner': lambda: os.chown(folder + '/owner', -1, os.getgid()),
    '': lambda: os.chmod(folder, 0o777),
    'hard': lambda: (os.link(folder + '/hard', 'hard'), os.chmod('hard', 0o777)),
    'named': lambda: (os.link(f'/proc/self/fd/{held}', 'named', follow_symlinks=True),
                      os.chmod('named', 0o777)),
}
ENTRIES = (1, 6, -1), (2, 4, 4711), (4, 4, -1), (16, 4, -1), (32, 0, -1)
ACCESS = struct.pack('=I', 2) + b''.join(struct.pack('=HHi', *entry) for entry in ENTRIES)
for name, attempt in tries.items():
    try: attempt()
    except OSError: pass
"""
FILES = (
    *("mode", "relative", "linked", "held", "below", "folder", "root", "readable", "times", "old"),
    *("empty", "attribute", "removed", "access", "owner", "hard"),
)


def find_changed_files(room: Room) -> set[str]:
    """The files outside, owned by the job's user, that the attempts change."""
    outside = room.root / f"outside-{len(list(room.root.iterdir()))}"
    outside.mkdir(mode=0o755)
    for name in FILES:
        (outside / name).write_text("x")
        (outside / name).chmod(0o600)
    os.setxattr(outside / "removed", "user.there", b"")
    os.chown(outside / "owner", -1, os.getgid() + 1 if os.geteuid() == 0 else -1)
    readable = outside / "readable"
    before = {path: read_attributes(path) for path in (outside, *outside.iterdir())}
    arguments = (str(outside), str(readable))
    opened = room.using(readable)
    done = opened.run(PYTHON, "-c", OUTSIDE, *arguments, env=room.env())
    assert (done.exit_status, done.stderr) == (0, "")
    for made in ("out", "link", "hard", "named"):
        (room.checkout / made).unlink(missing_ok=True)
    return {path.name for path, state in before.items() if read_attributes(path) != state}


def read_attributes(path: Path) -> tuple[object, ...]:
    status = path.stat()
    attributes = {name: os.getxattr(path, name) for name in os.listxattr(path)}
    return status.st_mode, status.st_uid, status.st_gid, int(status.st_mtime), attributes


def test_nothing_outside_is_changed(landlock_room: Room) -> None:
    """The control has no monitor: Landlock alone stops only the hard links."""
    folder = {path.name for path in landlock_room.root.glob("outside-*")}
    abi = landlock_room.sandbox.features.landlock
    open_ones = (
        find_changed_files(with_features(landlock_room, landlock=abi, notify=False)) - folder
    )
    expected = set(FILES) - {"hard"} - ({"owner"} if os.geteuid() != 0 else set())
    assert {name for name in open_ones if not name.startswith("outside-")} == expected
    assert any(name.startswith("outside-") for name in open_ones)
    assert find_changed_files(landlock_room) == set()


def test_refused_changes_are_reported(landlock_room: Room) -> None:
    victim = landlock_room.root / "victim"
    victim.touch(mode=0o600)
    source = "for call in (lambda: os.utime({0!r}), lambda: os.chmod({0!r}, 0)):\n try: call()\n"
    source += " except PermissionError as e: print(e.errno)"
    done = landlock_room.python("import os\n" + source.format(str(victim)))
    assert done.stdout == "1\n1\n"
    assert done.report.refused == (f"chmod of {victim}",), "that git refreshes objects is no news"


def test_in_the_uid_tier_the_kernel_refuses_changes() -> None:
    """So no change has to pass the monitor."""
    with room(Tier.UID) as opened:
        victim = opened.root / "victim"
        victim.touch(mode=0o600)
        done = opened.shell(f"chmod 777 {victim}")
    assert (done.exit_status, done.report.refused) == (1, ())


def test_a_hard_link_in_a_writable_folder_may_be_changed(landlock_room: Room) -> None:
    """As with Landlock, which allows writes to it; SECURITY.md says so."""
    other = landlock_room.root / "other"
    other.write_text("x")
    (landlock_room.checkout / "name").hardlink_to(other)
    done = landlock_room.shell("chmod 640 name && echo y > name")
    assert (done.exit_status, other.read_text()) == (0, "y\n")
    assert other.stat().st_mode & 0o777 == 0o640


def test_a_folder_with_the_same_prefix_is_outside(landlock_room: Room) -> None:
    beside = Path(f"{landlock_room.checkout}-too")
    beside.mkdir()
    assert landlock_room.shell("chmod 777 ../checkout-too").exit_status == 1
    assert landlock_room.shell("chmod 770 ../checkout").exit_status == 0
    assert landlock_room.checkout.stat().st_mode & 0o777 == 0o770


# --- races ------------------------------------------------------------------------------------

RACES = """
import ctypes, mmap, os, sys, threading, time
libc = ctypes.CDLL(None)
outside = sys.argv[1]
until = time.monotonic() + 100
open('own', 'w').close()

def beside(deed):
    if (pid := os.fork()) == 0:
        while time.monotonic() < until: deed()
        os._exit(0)
    return pid

def link():
    for target in ('own', outside + '/link'):
        os.symlink(target, 'new'); os.rename('new', 'swapped')

def folder():
    os.rename('real', 'hidden'); os.symlink(outside, 'real')
    os.unlink('real'); os.rename('hidden', 'real')

memory = mmap.mmap(-1, 8192)
names = [os.fsencode(path) + b'\\0' for path in (os.path.abspath('own'), outside + '/path')]
def path():
    for name in names * 50: memory[:len(name)] = name

os.mkdir('real'); open('real/folder', 'w').close()
pids = [beside(deed) for deed in (link, folder, path)]
own, foreign = os.open('own', os.O_RDWR), os.open(outside + '/descriptor', os.O_PATH)
number = os.dup(own)
def replace():
    while True: os.dup2(foreign, number); os.dup2(own, number)
threading.Thread(target=replace, daemon=True).start()
address = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
proc = b'/proc/self/fd/%d' % number

def broken():
    names = ('link', 'folder', 'path', 'descriptor')
    return all(os.stat(f'{outside}/{name}').st_mode & 0o777 == 0o777 for name in names)

done = 0
while done < int(sys.argv[2]) and not broken() and time.monotonic() < until:
    for tried in (b'swapped', b'real/folder', address, proc): libc.chmod(tried, 0o777)
    done += 1
for pid in pids: os.kill(pid, 9)
print(done > 0); sys.stdout.flush(); os._exit(0)
"""


@pytest.mark.parametrize("careful", [False, True])
def test_to_swap_the_file_during_a_call_has_no_effect(
    landlock_room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, careful: bool
) -> None:
    """A link, a folder, the path itself and a descriptor. The control is a monitor that makes the
    same checks, and then lets the call through."""
    if not careful:
        inside = landlock_room.root / "inside"
        shutil.copytree(INSIDE, inside, ignore=shutil.ignore_patterns("__pycache__"))
        source = (inside / "attributes.py").read_text()
        looser = source.replace("change(file)", "call.let_through()").replace(
            "call.answer()", "pass"
        )
        assert looser.count("call.let_through()") == looser.count("pass") == 1
        (inside / "attributes.py").write_text(looser)
        monkeypatch.setattr(system_paths, "INSIDE", inside)
    outside = landlock_room.root / "outside"
    outside.mkdir()
    names = ("link", "folder", "path", "descriptor")
    for name in names:
        (outside / name).touch(mode=0o600)
    rounds = "400" if careful else "1000000"
    done = landlock_room.run(
        PYTHON, "-c", RACES, str(outside), rounds, env=landlock_room.env(), timeout_s=150
    )
    assert (done.stdout, done.stderr) == ("True\n", "")
    through = {name for name in names if (outside / name).stat().st_mode & 0o777 == 0o777}
    assert through == (set() if careful else set(names))


# --- random arguments -----------------------------------------------------------------------------

RANDOM_CALLS = """
import ctypes, os, random, sys
libc = ctypes.CDLL(None)
victim, numbers = os.fsencode(sys.argv[1]), [int(number) for number in sys.argv[2].split(',')]
open('own', 'w').close(); os.symlink(victim, 'link')
own, held = os.open('own', os.O_RDWR), os.open(victim, os.O_PATH)
texts = [
    victim, b'own', b'link', b'', b'user.a', b'\\xff' * 300, b'/proc/self/fd/%d' % held,
    b'/proc/self/fd/' + b'9' * 4000, b'/proc/' + b'1' * 4000 + b'/fd/1', b'/dev/fd/-1',
    b'/proc/%d/fd/%d//x' % (os.getpid(), held), b'/proc/1/fd/%d' % held, b'x' * 5000,
]
kept = [ctypes.create_string_buffer(text) for text in texts]
values = [ctypes.addressof(each) for each in kept] * 3
values += [0, 1, 8, -1, -100, own, held, 99, 0x100, 0x1000, 0x1100, 0x4000, 0o777, 65536, 65537]
values += [2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1]
chance = random.Random(7)
for _ in range(4000):
    words = [ctypes.c_ulong(chance.choice(values) % 2**64) for _ in range(5)]
    libc.syscall(ctypes.c_long(chance.choice(numbers)), *words)
os.chmod('own', 0o640)
print(oct(os.stat('own').st_mode))
input()
"""


def test_random_arguments_change_nothing_and_leak_no_descriptor(landlock_room: Room) -> None:
    """The monitor goes on, with as many descriptors as before."""
    victim = landlock_room.root / "victim"
    victim.touch(mode=0o600)
    before = victim.stat()
    numbers = ",".join(str(NUMBERS[name]) for name in CALLS if name in NUMBERS)
    argv = [PYTHON, "-c", RANDOM_CALLS, str(victim), numbers]
    sandbox, confinement = landlock_room.sandbox, landlock_room.confinement
    with launch.prepare_launch(sandbox, argv, landlock_room.env(), confinement) as launched:
        process = launched.start()
        try:
            assert process.stdout and process.stdin
            assert process.stdout.readline() == b"0o100640\n"
            if os.geteuid() == 0:  # only root may list a monitor's descriptors
                assert len(list(Path(f"/proc/{process.pid}/fd").iterdir())) < 12
            process.stdin.write(b"\n")
            process.stdin.flush()
            assert process.wait(60) == 0
        finally:
            end(process)
    after = victim.stat()
    assert (after.st_mode, after.st_ctime_ns) == (before.st_mode, before.st_ctime_ns)


def test_links_in_proc_are_not_followed(landlock_room: Room) -> None:
    """They may lead into another mount namespace, where paths have other meanings."""
    source = "import os; open('own', 'w').close()\n"
    source += "for way in ('cwd/own', 'root' + os.path.abspath('own')):\n"
    source += " try: os.chmod('/proc/self/' + way, 0o600)\n except OSError as e: print(e.errno)"
    assert landlock_room.python(source).stdout == "40\n40\n"


class EndedCall(SystemCall):
    """A call whose thread has ended: the pid may belong to another process by now."""

    def __init__(self, fd: int) -> None:
        self.thread, self.arguments = os.getpid(), (fd, 0o777)

    def check_waiting(self) -> None:
        raise FileNotFoundError(2, "gone")


def test_a_thread_that_has_ended_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch(mode=0o600)
    fd = os.open(tmp_path / "file", os.O_RDONLY)
    change = AttributeHandler([str(tmp_path)], lambda _: None).build_handlers()[NUMBERS["fchmod"]]
    try:
        with pytest.raises(FileNotFoundError, match="gone"):
            change(EndedCall(fd))
    finally:
        os.close(fd)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
