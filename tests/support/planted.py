"""What the process that reads a bundle can say once an exploit has taken it over.

``main`` is what ``repository/bundle_reader.py`` is, but for the moment when the bundle is parsed:
then the code that the bundle names (``"planted"``) runs in its place. What such code can access is
tried in ``tests/separation``.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from gitlab_nightshift.repository import bundle_reader
from tests.support.plant import plant

Answer = tuple[dict[str, Any], list[bytes]]


def main(data: Mapping[str, Any]) -> int:

    def answered(honest: Callable[..., Answer], *given: Any) -> Answer:
        said = json.loads(given[2])
        return WAYS[said["planted"]](said, lambda: honest(*given))

    plant("repository.bundle_reader:build_answer", answered)
    return bundle_reader.main(data)


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
    way.__name__: way for way in (say, print_bytes, flood, hang, die, stay, grow)
}
