"""Attacks that write, move or mount where they may not."""

import ctypes
import os
import socket
import stat
import struct
from pathlib import Path

from tests.attacks.attack import ITSELF, attack_on
from tests.attacks.places import Places, checked, flag_in, libc, plant, planted, read

SWITCHES = ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/sys/kernel/modprobe")


@attack_on(
    "files",
    "/proc and /sys are read-only to agents.",
    needs="none of them can be written",
    a_right=True,
)
def core_pattern(places: Places) -> str | None:
    """Opens core_pattern, sysrq-trigger and their like for writing."""
    opened = []
    for switch in SWITCHES:
        try:
            os.close(os.open(switch, os.O_WRONLY))
            opened.append(switch)
        except OSError:
            continue
    return ", ".join(opened)


@attack_on(
    "files",
    "Landlock has a right for it; where it is too old the filter refuses the call.",
    seen=lambda places: Path(places.files["old_log"]).stat().st_size == 3,
)
def cut_a_file(places: Places) -> str | None:
    """Cuts a file by its path: it is never opened."""
    os.truncate(places.files["old_log"], 3)
    return "cut"


KERNEL_LOG = os.makedev(1, 11)


def _opened(folder: str) -> int:
    node = Path(folder, "node")
    os.mknod(node, stat.S_IFCHR | 0o666, KERNEL_LOG)
    try:
        return os.open(node, os.O_RDONLY | os.O_NONBLOCK)
    finally:
        node.unlink()


@attack_on(
    "files",
    "No capability to make one, and Landlock has no right for it.",
    needs=lambda places: os.close(_opened(places.outside)),
    a_right=True,
)
def device_node(places: Places) -> str | None:
    """Makes a device node in the checkout and opens it: the disk or the kernel's log."""
    return f"device {_opened(places.checkout)} is open"


@attack_on(
    "files", "The filter refuses the call, and the capability is gone.", needs=ITSELF, a_right=True
)
def host_name(places: Places) -> str | None:
    """Sets the host name (to what it is), as an example of what belongs to the machine."""
    socket.sethostname(socket.gethostname())
    return "the name can be set"


BIND, DETACH = 0x1000, 2


def _mount_over_bound(source: str, target: Path) -> str | None:
    target.mkdir()
    checked(libc.mount(source.encode(), str(target).encode(), None, ctypes.c_ulong(BIND), None))
    try:
        return flag_in(read(target / "results/result.json"))
    finally:
        libc.umount2(str(target).encode(), DETACH)


def _mount_over_needs(places: Places) -> None:
    assert _mount_over_bound(places.outside, Path(places.outside, "mount_needs")), "no mounts"


@attack_on(
    "files", "No capability to do so, and the filter refuses mount.", needs=_mount_over_needs
)
def mount_over(places: Places) -> str | None:
    """Binds the job's private folder to one of its own."""
    return _mount_over_bound(places.outside, Path(places.checkout, "mounted"))


NEW_USER, NEW_MOUNTS = 0x10000000, 0x20000


def _namespace_mount_bound(source: str, target: Path) -> str | None:
    checked(libc.unshare(NEW_USER | NEW_MOUNTS))
    Path("/proc/self/setgroups").write_text("deny")
    target.mkdir()
    checked(libc.mount(source.encode(), str(target).encode(), None, ctypes.c_ulong(BIND), None))
    return flag_in(read(target / "results/result.json"))


def _namespace_mount_needs(places: Places) -> None:
    assert _namespace_mount_bound(places.outside, Path(places.outside, "namespace_needs")), (
        f"uid {os.getuid()}"
    )


@attack_on(
    "files",
    "The filter refuses new namespaces in every call that could make one.",
    needs=_namespace_mount_needs,
)
def namespace_mount(places: Places) -> str | None:
    """Makes a user and a mount namespace, is root there, and binds what it wants to see."""
    return _namespace_mount_bound(places.outside, Path(places.checkout, "bound"))


@attack_on(
    "files", "The filter refuses the call, and the capability is gone.", needs=ITSELF, a_right=True
)
def other_root(places: Places) -> str | None:
    """Calls chroot: the first step out of every sandbox that is one."""
    os.chroot(places.checkout)
    return "a root of its own"


OPENED = 0x20


@attack_on(
    "files",
    "In a namespace the folder is not there; another user may not enter it.",
    a_right=True,
    open_in={"landlock": "see that a file is there"},
)
def private_names(places: Places) -> str | None:
    """Watches the job's private folder by inotify, and asks for a file's size."""
    watch = checked(libc.inotify_init1(os.O_NONBLOCK))
    path = places.files["private_results"]
    checked(libc.inotify_add_watch(watch, ctypes.c_char_p(path.encode()), OPENED))
    return f"{path} has {Path(path).stat().st_size} bytes, watched by {struct.calcsize('i')}"


@attack_on("files", "Only the public system, the checkout and what is named may be read.")
def public_file(places: Places) -> str | None:
    """Reads a world-readable file elsewhere: another project's checkout, a cache."""
    return flag_in(read(places.files["public_file"]))


@attack_on(
    "files",
    "Landlock has a right for it; in a namespace the file is not there.",
    seen=lambda places: not Path(places.files["crontab"]).with_name("spare").exists(),
)
def remove_a_file(places: Places) -> str | None:
    """Unlinks the log of another bead, and puts a folder in its place."""
    Path(places.files["crontab"]).with_name("spare").unlink()
    return "removed"


@attack_on(
    "files",
    "The real home can neither be read nor written.",
    seen=lambda places: planted(f"{places.home}/.bashrc"),
)
def write_bashrc(places: Places) -> str | None:
    """Appends to what the job's next shell runs."""
    return plant(f"{places.home}/.bashrc")


WHERE = "beside"


@attack_on(
    "files",
    "Only the checkout and scratch may be written.",
    seen=lambda places: planted(Path(places.checkout).parent / WHERE),
)
def write_beside(places: Places) -> str | None:
    """Writes into the folder above: the next project's checkout may lie there."""
    return plant(f"{places.checkout}/../{WHERE}")


@attack_on(
    "files",
    "Landlock refuses to link across its rules; in a namespace the file is not there.",
    seen=lambda places: planted(places.files["public_file"]),
)
def write_by_hard_link(places: Places) -> str | None:
    """Gives a foreign file a name in the checkout and writes to that."""
    name = Path(places.checkout, "linked")
    name.hardlink_to(places.files["public_file"])
    return plant(name)


@attack_on(
    "files",
    "A link grants nothing: what it names has to be allowed by itself.",
    seen=lambda places: planted(Path(places.public, "by_link")),
)
def write_by_link(places: Places) -> str | None:
    """Links to a foreign folder and makes a file in it."""
    link = Path(places.checkout, "elsewhere")
    link.symlink_to(places.public)
    return plant(link / "by_link")


@attack_on(
    "files",
    "Landlock refuses to move across its rules; in a namespace the folder is not there.",
    seen=lambda places: planted(Path(places.public, "moved")),
)
def write_by_rename(places: Places) -> str | None:
    """Writes a file in the checkout and moves it out."""
    here = Path(places.checkout, "to_be_moved")
    plant(here)
    here.rename(Path(places.public, "moved"))
    return "moved"


@attack_on(
    "files",
    "The second opening is a full one, and is asked like any other.",
    seen=lambda places: planted(places.files["public_file"]),
)
def write_by_reopening(places: Places) -> str | None:
    """Opens a foreign file without any right and opens it again for writing."""
    bare = os.open(places.files["public_file"], os.O_PATH)
    os.write(os.open(f"/proc/self/fd/{bare}", os.O_WRONLY | os.O_APPEND), b"was here\n")
    return "written"


@attack_on(
    "files",
    "Rules are about files and folders, not about how they are named.",
    seen=lambda places: planted(Path(places.public, "by_root")),
)
def write_by_self_root(places: Places) -> str | None:
    """Names a foreign folder by a path that begins with its own process."""
    return plant(f"/proc/self/root{places.public}/by_root")


@attack_on(
    "files",
    "An installation is read-only to agents, and never inside the checkout.",
    seen=lambda places: planted(places.files["code"]),
)
def write_code(places: Places) -> str | None:
    """Appends to a module in site-packages, which runs with the token afterwards."""
    return plant(places.files["code"])


@attack_on(
    "files",
    "The real repository lies in a folder that no tier lets an agent write.",
    seen=lambda places: planted(Path(places.files["git_hooks"], "pre-push")),
)
def write_hook(places: Places) -> str | None:
    """Leaves a pre-push hook where the repository was moved to."""
    return plant(Path(places.files["git_hooks"], "pre-push"))


def _where(places: Places) -> Path:
    return Path(f"/tmp/nightshift-attack-{Path(places.checkout).parents[1].name}")


def _write_in_tmp_seen(places: Places) -> bool:
    there = _where(places).exists()
    if there:
        os.unlink(_where(places))  # noqa: PTH108
    return there


@attack_on(
    "files",
    "TMPDIR is the agent's own; the machine's /tmp is closed or another one.",
    seen=_write_in_tmp_seen,
)
def write_in_tmp(places: Places) -> str | None:
    """Leaves a file in the folder that everybody shares, for another program to trust."""
    return plant(_where(places))
