import os

from tests.attacks.places import Places

TITLE = "what the kernel runs for a crash"
TRIES = "Opens core_pattern, sysrq-trigger and their like for writing."
PROMISE = "files"
MUST_FAIL = "/proc and /sys are read-only to agents."
LOOT = "a right"
SWITCHES = ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/sys/kernel/modprobe")


def needs(places: Places) -> None:
    assert attack(places), "none of them can be written"


def attack(places: Places) -> str | None:
    opened = []
    for switch in SWITCHES:
        try:
            os.close(os.open(switch, os.O_WRONLY))
            opened.append(switch)
        except OSError:
            continue
    return ", ".join(opened)
