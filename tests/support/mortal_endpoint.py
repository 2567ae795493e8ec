"""A model endpoint in a process of its own that is killed, again and again, while it answers.

    with MortalEndpoint(answers, lives) as endpoint:  # answers: bead -> text
        ...                                           # lives: bytes that each process sends
    assert endpoint.deaths == len(lives)

``python -m tests.support.mortal_endpoint PORT LIFE``, the answers as JSON on stdin, is one process;
LIFE is 0 for one that is not killed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from io import BufferedIOBase
from pathlib import Path
from types import TracebackType

from tests.support.model_endpoint import ModelEndpoint
from tests.support.ports import pick_port
from tests.support.shop import BEADS
from tests.support.turns import say

ROOT = Path(__file__).parents[2]


class MortalEndpoint:
    """Starts the next process where one has died; the last one lives on."""

    def __init__(self, answers: Mapping[str, str], lives: Sequence[int]) -> None:
        self.deaths, self._closing = 0, False
        self._answers, self._lives = json.dumps(answers).encode(), (*lives, 0)
        self._port = pick_port()
        self._started = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._keep_alive)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> MortalEndpoint:
        self._thread.start()
        assert self._started.wait(60)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing = True
        while self._thread.is_alive():  # it may be about to start the next one
            if self._process:
                self._process.terminate()
            self._thread.join(0.05)

    def _keep_alive(self) -> None:
        command = [sys.executable, "-m", "tests.support.mortal_endpoint", str(self._port)]
        for life in self._lives:
            if self._closing:
                return
            with subprocess.Popen(
                [*command, str(life)],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            ) as process:
                self._process = process
                assert process.stdin
                assert process.stdout
                process.stdin.write(self._answers)
                process.stdin.close()
                process.stdout.readline()
                self._started.set()
                self.deaths += process.wait() == -signal.SIGKILL


class _Dying(ModelEndpoint):
    left = 0

    def send(self, file: BufferedIOBase, row: bytes) -> None:
        super().send(file, row[: self.left] if self.left else row)
        if self.left and len(row) >= self.left:
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= len(row) if self.left else 0


def _main(port: int, life: int) -> None:
    answers = json.load(sys.stdin)
    script = {bead: [say(text)] * 100 for bead, text in answers.items()}
    endpoint = _Dying(script, BEADS, port)
    endpoint.left = life
    with endpoint:
        print("ready", flush=True)
        while True:
            time.sleep(60)


if __name__ == "__main__":
    _main(int(sys.argv[1]), int(sys.argv[2]))
