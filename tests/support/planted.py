"""Code in the process that reads a bundle, as an exploit of that process would bring it.

``main`` is what ``repository/bundle_reader.py`` is, but for the moment when the bundle is parsed:
then the code that the bundle names (``"planted"``) runs in its place. ``planted_open`` is the same
without what that process gives up.
"""

import ctypes
import gc
import json
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gitlab_nightshift.repository import bundle_reader
from gitlab_nightshift.repository.private_repository import Repository

TOKEN = re.compile(rb"glpat-" + rb"Bot\w+")
PTRACE_SEIZE, PTRACE_DETACH, EFAULT = 0x4206, 17, 14
PIDFD_OPEN, PIDFD_GETFD = 434, 438
CLONE_NEWUSER = 0x10000000
_libc = ctypes.CDLL(None, use_errno=True)

Answer = tuple[dict[str, Any], list[bytes]]


def main(data: Mapping[str, Any]) -> int:
    honest = bundle_reader.build_answer

    def answered(
        repository: Repository, task: bundle_reader.RebuildTask, bundle: bytes, patch: bytes
    ) -> Answer:
        said = json.loads(bundle)
        return WAYS[said["planted"]](said, lambda: honest(repository, task, bundle, patch))

    bundle_reader.build_answer = answered
    return bundle_reader.main(data)


# --- what it can access ---------------------------------------------------------------------------


def look(bundle: Any, _honest: Callable[[], Answer]) -> Answer:
    """Try everything, and give what worked as the reason for a refusal."""
    found = [name for name, way in LOOKS.items() if _works(way, bundle["targets"])]
    return {"bundle": bundle, "refused": f"saw: {' '.join(found)}."}, []


def _works(way: Callable[[Any], object], targets: Any) -> bool:
    try:
        return bool(way(targets))
    except OSError:
        return False


def _own_memory(_targets: Any) -> bool:
    held = (each for each in gc.get_objects() if isinstance(each, dict | list | tuple))
    texts = (os.environb.values(), (repr(each).encode("utf-8", "replace") for each in held))
    return any(TOKEN.search(text) for part in texts for text in part)


def _own_descriptors(_targets: Any) -> bool:
    """Anything that was inherited beside the three pipes."""
    for number in range(3, 256):
        try:
            os.fstat(number)
        except OSError:
            continue
        return True
    return False


def _environ(_targets: Any) -> bool:
    return any(_holds_token(each / "environ") for each in Path("/proc").glob("[0-9]*"))


def _holds_token(file: Path) -> bool:
    try:
        return bool(TOKEN.search(file.read_bytes()))
    except OSError:
        return False


def _memory(targets: Any) -> bool:
    own = Path(f"/proc/{targets['pid']}")
    with (own / "mem").open("rb", 0) as memory:
        for line in (own / "maps").read_text().splitlines():
            span, rights, *_ = line.split()
            start, end = (int(part, 16) for part in span.split("-"))
            if rights[:2] != "rw":
                continue
            try:
                memory.seek(start)
                if TOKEN.search(memory.read(end - start)):
                    return True
            except (OSError, OverflowError, ValueError):
                continue
    return False


def _ptrace(targets: Any) -> bool:
    """PTRACE_SEIZE stops nobody."""
    return bool(_libc.ptrace(PTRACE_SEIZE, targets["pid"], 0, 0) == 0)


def _vm_readv(targets: Any) -> bool:
    class Span(ctypes.Structure):
        _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))

    eight_bytes = ctypes.create_string_buffer(8)
    ours, theirs = Span(ctypes.addressof(eight_bytes), 8), Span(4096, 8)
    done: int = _libc.process_vm_readv(
        targets["pid"], ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0
    )
    return done >= 0 or ctypes.get_errno() == EFAULT  # allowed, there is only nothing there


def _descriptor_of(targets: Any) -> bool:
    handle = _libc.syscall(PIDFD_OPEN, targets["pid"], 0)
    return bool(handle >= 0 and _libc.syscall(PIDFD_GETFD, handle, 0, 0) >= 0)


def _signal(targets: Any) -> bool:
    os.kill(targets["pid"], 0)
    return True


def _connect(targets: Any) -> bool:
    with socket.create_connection(("127.0.0.1", targets["port"]), timeout=60):
        return True


LOOKS: dict[str, Callable[[Any], object]] = {
    "own-memory": _own_memory,
    "own-descriptors": _own_descriptors,
    "environ": _environ,
    "memory": _memory,
    "ptrace": _ptrace,
    "vm-readv": _vm_readv,
    "descriptor": _descriptor_of,
    "connect": _connect,
    "unix": lambda _targets: socket.socket(socket.AF_UNIX),
    "signal": _signal,
    "read": lambda targets: Path(targets["config"]).read_bytes(),
    "list": lambda targets: list(Path(targets["config"]).parent.parent.iterdir()),
    "write": lambda targets: Path(targets["write"]).write_text("x"),
    "namespace": lambda _targets: _libc.unshare(CLONE_NEWUSER) == 0,
}


# --- what it can say ------------------------------------------------------------------------------


def say(bundle: Any, honest: Callable[[], Answer]) -> Answer:
    """The honest answer with some parts of it replaced, and other files."""
    answer, blobs = honest()
    answer["change"] |= bundle["say"]
    return answer, [bytes.fromhex(blob) for blob in bundle.get("blobs", ())] or blobs


def print_bytes(bundle: Any, _honest: Callable[[], Answer]) -> Answer:
    sys.stdout.buffer.write(bytes.fromhex(bundle["bytes"]))
    sys.stdout.buffer.flush()
    os._exit(0)


def flood(_bundle: Any, _honest: Callable[[], Answer]) -> Answer:
    while True:
        sys.stdout.buffer.write(b"x" * 65536)


def hang(_bundle: Any, _honest: Callable[[], Answer]) -> Answer:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        time.sleep(1)


def die(_bundle: Any, _honest: Callable[[], Answer]) -> Answer:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def stay(bundle: Any, honest: Callable[[], Answer]) -> Answer:
    """A daemon that would change what was answered."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
    return honest()


def grow(_bundle: Any, _honest: Callable[[], Answer]) -> Answer:
    return {"refused": str(len(b"x" * 1024**3))}, []


WAYS: dict[str, Callable[[Any, Callable[[], Answer]], Answer]] = {
    way.__name__: way for way in (look, say, print_bytes, flood, hang, die, stay, grow)
}
