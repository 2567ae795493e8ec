"""Attacks on whoever reads the tree."""

import contextlib
import os
import shutil
import socket
import stat
from pathlib import Path

from tests.attacks.checkout_attacks import tree_attack
from tests.attacks.git_world import Places, run_git
from tests.system.test_openat import nest_folders


@tree_attack(
    "The time of the last change of the inode gives it away: no program can set it.", "stat", "lost"
)
def back_dated(checkout: Path, places: Places) -> None:
    """Other bytes, as many, and the time that it had."""
    before = (checkout / "Makefile").stat()
    data = (checkout / "Makefile").read_text()
    (checkout / "Makefile").write_text(data.replace("python3", "pythonX"))
    os.utime(checkout / "Makefile", ns=(before.st_atime_ns, before.st_mtime_ns))


@tree_attack(
    "No git looks at the agent's tree, and no setting of the agent's is read.", "git add", "lost"
)
def back_dated_for_git(checkout: Path, places: Places) -> None:
    """core.trustctime and core.checkStat make git look at size and time alone."""
    before = (checkout / "Makefile").stat()
    data = (checkout / "Makefile").read_text()
    run_git(checkout, "config", "core.trustctime", "false")
    run_git(checkout, "config", "core.checkStat", "minimal")
    (checkout / "Makefile").write_text(data.replace("python3", "pythonX"))
    os.utime(checkout / "Makefile", ns=(before.st_atime_ns, before.st_mtime_ns))
    later = before.st_mtime_ns + 10**11
    os.utime(checkout / ".git/index", ns=(later, later))


@tree_attack("The setting is read before an agent starts: both are there.", "git add", "lost")
def case_twins(checkout: Path, places: Places) -> None:
    """Shop.py beside shop.py, where a setting says that case does not matter."""
    run_git(checkout, "config", "core.ignoreCase", "true")
    (checkout / "SHOP.py").write_text("evil = 1\n")


@tree_attack(
    "Every folder is opened from the one above it; such a path is refused.",
    "follow",
    "lost",
    refused=": its path is too long",
)
def deep_path(checkout: Path, places: Places) -> None:
    """Folders within folders: no program can open the file by its whole path."""
    nest_folders(checkout, 250)


@tree_attack(
    "What is no file or folder is refused by name.",
    "follow",
    "hangs",
    refused="zero: it is no file or folder",
)
def device(checkout: Path, places: Places) -> None:
    """The device of /dev/zero under another name."""
    os.mknod(checkout / "zero", stat.S_IFCHR | 0o644, os.makedev(1, 5))


@tree_attack(
    "The blob is the bytes that stood in the tree.",
    "raw",
    "other bytes",
    held_by_git="add stores the bytes as they are",
)
def export_subst(checkout: Path, places: Places) -> None:
    """export-subst fills in commit names when an archive is made, never in a tree."""
    (checkout / ".gitattributes").write_text("*.py export-subst\n")
    (checkout / "shop.py").write_text('VERSION = "$Format:%H$"\n')


@tree_attack(
    "The kind is looked at before it is opened, and opened without waiting.",
    "follow",
    "hangs",
    refused="pipe: it is no file or folder",
)
def fifo(checkout: Path, places: Places) -> None:
    """Whoever opens it for reading waits for ever."""
    os.mkfifo(checkout / "pipe")


@tree_attack(
    "The scan stops at a number of new entries, and the change is refused.",
    "follow",
    "many",
    refused="more than 1000 new files and folders",
    limits={"MAX_NEW_ENTRIES": 1000},
)
def flood(checkout: Path, places: Places) -> None:
    """More files than anybody can look at."""
    (checkout / "many").mkdir()
    for number in range(1500):
        (checkout / f"many/{number}").touch()


@tree_attack(
    "Every part of a path is opened without following a link; the link is refused by name.",
    "follow",
    "secret",
    refused="docs: it is a symbolic link",
)
def folder_for_a_link(checkout: Path, places: Places) -> None:
    """docs becomes a link to HOME: the same names lead to other files."""
    shutil.rmtree(checkout / "docs")
    (checkout / "docs").symlink_to(places.home)


@tree_attack(
    "A new file with several names is refused.",
    "follow",
    "secret",
    refused="notes.txt: it has several hard links",
)
def hard_link(checkout: Path, places: Places) -> None:
    """No link to see: a plain file, with a second name outside."""
    (checkout / "notes.txt").unlink()
    (checkout / "notes.txt").hardlink_to(places.home / "secret")


@tree_attack(
    "Files are staged with the attributes that hold after the change.", "raw", "other bytes"
)
def ident(checkout: Path, places: Places) -> None:
    """`$Id$` is filled in on checkout and emptied on the way in."""
    (checkout / ".gitattributes").write_text("*.py ident\n")
    (checkout / "shop.py").write_text('VERSION = "$Id: 0123 $"\n')


@tree_attack(
    "Files are staged with the attributes that hold after the change.", "raw", "other bytes"
)
def line_ends(checkout: Path, places: Places) -> None:
    """Lines end in CR LF in the tree, and in LF in the object."""
    (checkout / ".gitattributes").write_text("*.py text eol=crlf\n")
    (checkout / "shop.py").write_bytes(b"x = 1\r\n")


@tree_attack(
    "Links are refused by name, inside or not.",
    "follow",
    "secret",
    refused="docs/one: it is a symbolic link",
)
def link_chain(checkout: Path, places: Places) -> None:
    """Links to links, the first ones inside: only the last one leads out."""
    (checkout / "docs/one").symlink_to("two")
    (checkout / "docs/two").symlink_to("../three")
    (checkout / "three").symlink_to(os.path.relpath(places.home / "secret", checkout))


@tree_attack(
    "Links are refused by name; nothing here opens one.",
    "follow",
    "fails",
    refused="loop: it is a symbolic link",
)
def link_loop(checkout: Path, places: Places) -> None:
    """Whoever follows it gets an error, or never comes back."""
    (checkout / "loop").symlink_to("loop")


@tree_attack(
    "Links are refused by name; nothing here opens one.",
    "follow",
    "secret",
    refused="notes.txt: it is a symbolic link",
)
def link_out(checkout: Path, places: Places) -> None:
    """A symbolic link to a file outside; who reads it, reads the secret."""
    (checkout / "notes.txt").unlink()
    (checkout / "notes.txt").symlink_to(places.home / "secret")


@tree_attack(
    "Links are refused by name; nothing here opens one.",
    "follow",
    "secret",
    refused="env: it is a symbolic link",
)
def link_to_proc(checkout: Path, places: Places) -> None:
    """/proc/self/environ is the environment of whoever follows it."""
    (checkout / "env").symlink_to("/proc/self/environ")


@tree_attack(
    "The sum of all sizes has a limit of its own.",
    "follow",
    "many",
    refused="the change is larger than 10000 bytes",
    limits={"MAX_CHANGE_BYTES": 10000},
)
def many_bytes(checkout: Path, places: Places) -> None:
    """Each is small enough, all together are not."""
    for number in range(1100):
        (checkout / f"part{number}").write_bytes(b"x" * 10)


@tree_attack(
    "A path with a part `.git` is refused by name.",
    "git add",
    "link",
    refused="vendor/.git: git reserves such names",
)
def nested_git_file(checkout: Path, places: Places) -> None:
    """The nested .git is a file that leads to a repository elsewhere."""
    run_git(checkout, "init", "-q", "--separate-git-dir", str(places.lair), "vendor")
    run_git(checkout / "vendor", "commit", "-q", "--allow-empty", "-m", "x")


@tree_attack(
    "A path with a part `.git` is refused by name.",
    "git add",
    "link",
    refused="vendor/.git/HEAD: git reserves such names",
)
def nested_repository(checkout: Path, places: Places) -> None:
    """`git add` stores a link to a commit in its place: nobody ever sees the files."""
    run_git(checkout, "init", "-q", "vendor")
    run_git(checkout / "vendor", "commit", "-q", "--allow-empty", "-m", "x")


@tree_attack(
    "Names are bytes between NULs everywhere, and escaped before they are shown.", "lines", "lost"
)
def odd_names(checkout: Path, places: Places) -> None:
    """A newline, an escape sequence, bytes that are not UTF-8, a dash in front, a wildcard."""
    for name in (b"a\nb", b"c\x1b[2Kd\r", b"\xff\xfe", b"--help", b":(top)*", b"x" * 255):
        (checkout / os.fsdecode(name)).write_text("odd\n")


@tree_attack(
    "The folder is no part of a change, and is emptied with everything else that is new.",
    "git add",
    "more",
)
def output_folder(checkout: Path, places: Places) -> None:
    """A bundle in the folder of the night's own products, ready to be taken for the real one."""
    (checkout / "nightshift/bundle").mkdir(parents=True)
    (checkout / "nightshift/bundle/bundle.json").write_text("{}")


@tree_attack("Inode and the inode's own time are compared too.", "stat", "lost")
def replaced_by_rename(checkout: Path, places: Places) -> None:
    """A file prepared elsewhere with the same size, mode and time is moved over the old one."""
    before = (checkout / "Makefile").stat()
    data = (checkout / "Makefile").read_text()
    (checkout / "new").write_text(data.replace("python3", "pythonX"))
    os.utime(checkout / "new", ns=(before.st_atime_ns, before.st_mtime_ns))
    (checkout / "new").replace(checkout / "Makefile")


@tree_attack("Of a mode only the executable bit is taken.", "copy", "setuid")
def setuid(checkout: Path, places: Places) -> None:
    """The setuid bit on a new file; who copies modes, copies it."""
    (checkout / "tool").write_text("#!/bin/sh\n")
    (checkout / "tool").chmod(0o6755)


@tree_attack(
    "What is no file or folder is refused by name.",
    "follow",
    "fails",
    refused="run.sh: it is no file or folder",
)
def named_socket(checkout: Path, places: Places) -> None:
    """A UNIX socket in the place of a file."""
    (checkout / "run.sh").unlink()
    with socket.socket(socket.AF_UNIX) as listener, contextlib.chdir(checkout):
        listener.bind("run.sh")


@tree_attack(
    "Sizes are told by stat; beyond the limit a file is refused unread.",
    "follow",
    "hangs",
    refused="large.bin: it is larger than 5000000 bytes",
)
def sparse_file(checkout: Path, places: Places) -> None:
    """No block on the disk, and more bytes than memory has."""
    (checkout / "large.bin").touch()
    os.truncate(checkout / "large.bin", 1 << 40)


@tree_attack("A file of ours is opened for the look and closed again.", "follow", "fails")
def unreadable_file(checkout: Path, places: Places) -> None:
    """Mode 000: a reader that skips what it cannot read misses the change."""
    (checkout / "shop.py").write_text("evil = 1\n")
    (checkout / "shop.py").chmod(0)


@tree_attack("A folder of ours is opened for the look and closed again.", "follow", "lost")
def unreadable_folder(checkout: Path, places: Places) -> None:
    """Mode 000: what lies in it is not seen."""
    (checkout / "hidden").mkdir()
    (checkout / "hidden/evil.py").write_text("evil = 1\n")
    (checkout / "hidden").chmod(0)
