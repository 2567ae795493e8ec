import ctypes
import struct

from tests.attacks.places import Places, call

TITLE = "performance events"
TRIES = "Counts what happens on the machine: a way to listen to other processes."
PROMISE = "secrets"
MUST_FAIL = "The filter refuses the call."
LOOT = "a right"
SOFTWARE, TASK_CLOCK = 1, 1


def needs(places: Places) -> None:
    attack(places)


def attack(places: Places) -> str | None:
    wanted = ctypes.create_string_buffer(struct.pack("=IIQ", SOFTWARE, 112, TASK_CLOCK), 112)
    return f"counter {call(places, 'perf_event_open', wanted, 0, -1, -1, 0)}"
