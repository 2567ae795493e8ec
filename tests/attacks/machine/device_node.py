import os
import stat
from pathlib import Path

from tests.attacks.places import Places

TITLE = "a device of its own making"
TRIES = "Makes a device node in the checkout and opens it: the disk or the kernel's log."
PROMISE = "files"
MUST_FAIL = "No capability to make one, and Landlock has no right for it."
LOOT = "a right"
KERNEL_LOG = os.makedev(1, 11)


def _opened(folder: str) -> int:
    node = Path(folder, "node")
    os.mknod(node, stat.S_IFCHR | 0o666, KERNEL_LOG)
    try:
        return os.open(node, os.O_RDONLY | os.O_NONBLOCK)
    finally:
        node.unlink()


def needs(places: Places) -> None:
    os.close(_opened(places.outside))


def attack(places: Places) -> str | None:
    return f"device {_opened(places.checkout)} is open"
