import os
import subprocess

from tests.attacks.places import Places, read

TITLE = "a setuid program"
TRIES = "Starts su as an ordinary user: while it waits for a password it is root."
PROMISE = "secrets"
MUST_FAIL = "no_new_privs: no program gains anything by being started."
LOOT = "a right"
USER = 1001


def _capabilities(pid: int) -> int:
    lines = read(f"/proc/{pid}/status").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(b"CapEff")), 16)


def needs(places: Places) -> None:
    assert attack(places), "no setuid program here"


def attack(places: Places) -> str | None:
    if os.geteuid() == 0 and _capabilities(os.getpid()):
        os.setgroups([])
        os.setgid(USER)
        os.setuid(USER)
    pipe = subprocess.PIPE
    with subprocess.Popen(["/bin/su", "root", "-c", "true"], stdin=pipe, stderr=pipe) as su:
        assert su.stdin and su.stderr
        su.stderr.read(1)  # it asks for a password
        try:
            held = _capabilities(su.pid)
        except OSError:
            held = 0
        su.stdin.close()
    return f"capabilities {held:x}" if held else None
