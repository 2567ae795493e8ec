import os

from tests.attacks.places import Places, begun, checked, libc, live_on, lives

TITLE = "a daemon that is traced"
TRIES = "Traces its daemon, so that the end of it waits for the tracer."
PROMISE = "lifetime"
MUST_FAIL = "The filter refuses ptrace; SIGKILL passes tracers."
SEIZE = 0x4206


def attack(places: Places) -> str | None:
    if (daemon := os.fork()) == 0:
        os.setsid()
        live_on(places, "traced_daemon")
    text = begun(places, "traced_daemon")
    try:
        checked(libc.ptrace(SEIZE, daemon, None, None))
    except OSError as error:
        return f"{text}, untraced: {error}"
    return text


def seen(places: Places) -> bool:
    return lives(places, "traced_daemon")
