import os
import socket
import stat

from tests.attacks.places import Places, flag_in

TITLE = "a socket as stdin"
TRIES = "Uses descriptor 0 as a socket that somebody has left connected."
PROMISE = "secrets"
MUST_FAIL = "The launcher refuses a socket or a folder as 0 to 2; the night shift gives pipes."


def attack(places: Places) -> str | None:
    if not any(stat.S_ISSOCK(os.fstat(fd).st_mode) for fd in (0, 1, 2)):
        return None
    with socket.socket(fileno=os.dup(0)) as found:
        return flag_in(found.recv(100, socket.MSG_PEEK))
