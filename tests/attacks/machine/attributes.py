"""Attacks that change modes, owners, times and attributes outside."""

import contextlib
import ctypes
import fcntl
import mmap
import os
import struct
import threading
from pathlib import Path

from tests.attacks.attack import Seen, attack_on
from tests.attacks.places import Places, checked, libc
from tests.attacks.races import beside, rewriting, tries

NAME = "user.nightshift"


def _opened(name: str) -> Seen:
    """True where everybody may read the file by now."""
    return lambda places: Path(places.files[name]).stat().st_mode & 0o777 == 0o644


@attack_on(
    "files",
    "In a namespace the file is not there; another user may not; else the monitor refuses.",
    needs=lambda places: os.setxattr(places.public, NAME, b"x"),
    seen=lambda places: NAME in os.listxattr(places.files["docker_config"]),
)
def change_attribute(places: Places) -> str | None:
    """Hangs an attribute on a file of the job's user."""
    os.setxattr(places.files["docker_config"], NAME, b"was here")
    return "hung on"


GET_FLAGS, SET_FLAGS, NO_DUMP = 0x80086601, 0x40086602, 0x40


def _set(path: str) -> None:
    source = os.open(path, os.O_RDONLY)
    flags = struct.unpack("=q", fcntl.ioctl(source, GET_FLAGS, bytes(8)))[0]
    fcntl.ioctl(source, SET_FLAGS, struct.pack("=q", flags | NO_DUMP))


@attack_on(
    "files",
    "The filter knows no such request; another user may not; a mount is read-only.",
    needs=lambda places: _set(places.public),
    a_right=True,
)
def change_flags(places: Places) -> str | None:
    """Tells backups to leave a file of the job's user out, by a descriptor for reading."""
    _set(__file__)
    return "changed"


@attack_on(
    "files",
    "In a namespace the file is not there; another user may not; else the monitor refuses.",
    seen=_opened("ssh_key"),
)
def change_mode(places: Places) -> str | None:
    """Opens a private file of the job's user to everybody."""
    Path(places.files["ssh_key"]).chmod(0o644)
    return "changed"


@attack_on(
    "files", "The monitor asks where the file lies that the descriptor is open on.", a_right=True
)
def change_mode_by_descriptor(places: Places) -> str | None:
    """Opens a file of the job's user that it may read, its own source, and changes the mode."""
    source = os.open(__file__, os.O_RDONLY)
    os.fchmod(source, 0o666)
    return "changed" if os.fstat(source).st_mode & 0o777 == 0o666 else None


@attack_on(
    "files",
    "The monitor goes the same way from the same folder, and sees where it ends.",
    seen=_opened("crontab"),
)
def change_mode_by_folder(places: Places) -> str | None:
    """Opens the file to everybody by a path relative to a folder that it holds, and to its own."""
    victim = Path(places.files["crontab"])
    folder = os.open(victim.parent, os.O_PATH)
    for path, start in ((victim.name, folder), (os.path.relpath(victim), None)):
        try:
            os.chmod(path, 0o644, dir_fd=start)
        except OSError:
            continue
        return "changed"
    return None


@attack_on(
    "files",
    "Landlock refuses to link across its rules; in a namespace the file is not there.",
    seen=_opened("project_tmp"),
)
def change_mode_by_hard_link(places: Places) -> str | None:
    """Gives the file a name in the checkout, by its path and by a descriptor, and changes that."""
    victim, name = places.files["project_tmp"], Path(places.checkout, "other_name")
    for source in (victim, f"/proc/self/fd/{os.open(victim, os.O_PATH)}"):
        try:
            os.link(source, name, follow_symlinks=True)
        except OSError:
            continue
        name.chmod(0o644)
        return "changed"
    return None


@attack_on(
    "files",
    "For the monitor /proc/self is the caller's, and what it leads to lies outside.",
    seen=_opened("old_log"),
)
def change_mode_by_proc(places: Places) -> str | None:
    """Holds it without rights to it, and goes by /proc/self/fd, /dev/fd, /proc/self/root."""
    victim = places.files["old_log"]
    held = os.open(victim, os.O_PATH)
    own = os.getpid()
    ways = [f"/proc/self/fd/{held}", f"/proc/{own}/fd/{held}", f"/dev/fd/{held}"]
    for path in (*ways, f"/proc/self/root{victim}", f"/proc/{own}/root{victim}"):
        try:
            Path(path).chmod(0o644)
        except OSError:
            continue
        return "changed"
    return None


ATTEMPTS = 150


@attack_on(
    "files",
    "The monitor changes what it has taken from there and looked at, not a number.",
    a_right=True,
)
def change_mode_by_swapped_descriptor(places: Places) -> str | None:
    """Replaces its own file by a foreign one under the same number while it changes the mode."""
    foreign = os.open(__file__, os.O_RDONLY)
    own = os.open(Path(places.scratch, "own_file_again"), os.O_RDWR | os.O_CREAT, 0o600)
    number, moves, ended = os.dup(own), [0], threading.Event()

    def replace() -> None:
        while not ended.is_set():
            for fd in (foreign, own):
                os.dup2(fd, number)
            moves[0] += 1

    threading.Thread(target=replace, daemon=True).start()
    for _ in tries(ATTEMPTS, lambda: moves[0]):
        with contextlib.suppress(OSError):
            os.fchmod(number, 0o777)
    ended.set()
    return "changed" if os.fstat(foreign).st_mode & 0o777 == 0o777 else None


@attack_on(
    "files",
    "The monitor changes what it has opened and looked at, not a name.",
    seen=_opened("netrc"),
)
def change_mode_by_swapped_link(places: Places) -> str | None:
    """Swaps its own file for a link to a foreign one again and again while it changes the mode."""
    path, other = Path(places.scratch, "changing"), Path(places.scratch, "change")
    own = Path(places.scratch, "own_file")
    own.touch()

    def swap() -> None:
        for target in (own, places.files["netrc"]):
            other.symlink_to(target)
            other.replace(path)

    for _ in tries(ATTEMPTS, beside(swap)):
        with contextlib.suppress(OSError):
            path.chmod(0o644)
    return "tried it all"


@attack_on(
    "files",
    "The monitor goes by its own copy of the path.",
    seen=_opened("git_credentials"),
)
def change_mode_by_swapped_path(places: Places) -> str | None:
    """Rewrites the path from elsewhere between check and use, as often as it can."""
    own = Path(places.scratch, "own_file_too")
    own.touch()
    shared = mmap.mmap(-1, 2 * 4096)
    names = (os.fsencode(name) + b"\0" for name in (own, places.files["git_credentials"]))
    rewritten = rewriting(shared, 0, *names)
    path = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(shared)))
    for _ in tries(ATTEMPTS, rewritten):
        libc.chmod(path, 0o644)
    return "tried it all"


NOBODY = 65534


@attack_on(
    "files",
    "No capability to do so.",
    needs=lambda places: os.chown(places.files["file_variable"], -1, NOBODY),
    seen=lambda places: Path(places.files["file_variable"]).stat().st_uid == NOBODY,
)
def change_owner(places: Places) -> str | None:
    """Gives a file of the job's user away."""
    os.chown(places.files["file_variable"], NOBODY, -1)
    return "given away"


@attack_on(
    "files",
    "In a namespace the file is not there; another user may not; else the monitor refuses.",
    seen=lambda places: int(Path(places.files["private_results"]).stat().st_mtime) == 1,
)
def change_times(places: Places) -> str | None:
    """Makes a file of the job's user look old, so that a build or a backup passes it over."""
    os.utime(places.files["private_results"], (1, 1))
    return "changed"


@attack_on(
    "files",
    "Each call that can do it is the monitor's.",
    seen=lambda places: int(Path(places.files["runner_config"]).stat().st_mtime) == 1,
)
def change_times_by_old_calls(places: Places) -> str | None:
    """Makes a file look old by utime, utimes, futimesat, lutimes and by a descriptor."""
    path = os.fsencode(places.files["runner_config"])
    seconds, pairs = struct.pack("=2q", 1, 1), struct.pack("=4q", 1, 0, 1, 0)
    held, empty = os.open(path, os.O_PATH), 0x1000
    for call, *arguments in (
        (libc.utime, path, seconds),
        (libc.utimes, path, pairs),
        (libc.lutimes, path, pairs),
        (libc.futimesat, -100, path, pairs),
        (libc.utimensat, held, b"", pairs, ctypes.c_int(empty)),
    ):
        try:
            checked(call(*arguments))
        except OSError:
            continue
        return "changed"
    return None
