"""A real Chromium, driven by its own protocol over a pipe."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.programs import need_program
from tests.support.world import ROOT

AXE = ROOT / "tests/node/node_modules/axe-core/axe.min.js"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--remote-debugging-pipe", "--no-first-run", "--disable-extensions", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
START = """
import fcntl, os, sys
read, write = (fcntl.fcntl(int(fd), fcntl.F_DUPFD, 100) for fd in sys.argv[1:3])
os.dup2(read, 3)
os.dup2(write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""The browser reads its descriptor 3 and writes to 4."""


@dataclass
class Tab:
    """A tab of the browser; ``requests`` are the addresses that it has asked for."""

    commands: int
    answers: Any
    session: str = ""
    number: int = 0
    requests: list[str] = field(default_factory=list)
    loaded: bool = False

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self.number:
            pass
        assert "error" not in answer, (method, answer)
        found: dict[str, Any] = answer["result"]
        return found

    def open(self, page: Path, *, width: int, dark: bool = False) -> None:
        """Load a page in a window of this width."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.loaded = False
        self.call("Page.navigate", url=page.as_uri())
        while not self.loaded:
            self._read()

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression; a promise is waited for."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str, code: int) -> None:
        """Press and release a key."""
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key,
                windowsVirtualKeyCode=code, **(text if kind == "keyDown" else {}),
            )  # fmt: skip

    def find_axe_violations(self) -> list[dict[str, Any]]:
        """What axe-core finds, all its rules switched on."""
        self.evaluate(AXE.read_text() + ";0")
        found: list[dict[str, Any]] = self.evaluate(
            "axe.run(document, {resultTypes: ['violations']}).then(all => all.violations.map("
            "each => ({rule: each.id, at: each.nodes.map(node => node.html.slice(0, 200))})))"
        )
        return found

    def _read(self) -> dict[str, Any]:
        data = b""
        while (byte := self.answers.read(1)) != b"\0":
            assert byte, "the browser has ended"
            data += byte
        message: dict[str, Any] = json.loads(data)
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(message["params"]["request"]["url"])
        self.loaded = self.loaded or message.get("method") == "Page.loadEventFired"
        return message


@contextlib.contextmanager
def open_browser(folder: Path) -> Iterator[Tab]:
    """A browser with one tab; it may not run what a page's own policy forbids."""
    program = next(filter(None, map(shutil.which, NAMES)), NAMES[0])
    need_program(program)
    to_browser, from_browser = os.pipe(), os.pipe()
    fds = (to_browser[0], from_browser[1])
    command = [program, *FLAGS, f"--user-data-dir={folder}"]
    start = [sys.executable, "-c", START, *map(str, fds), *command]
    with (folder / "chromium.log").open("wb") as log:
        process = subprocess.Popen(start, pass_fds=fds, stdout=log, stderr=log)
    for fd in fds:
        os.close(fd)
    try:
        with os.fdopen(from_browser[0], "rb") as answers:
            tab = Tab(to_browser[1], answers)
            target = tab.call("Target.createTarget", url="about:blank")["targetId"]
            attached = tab.call("Target.attachToTarget", targetId=target, flatten=True)
            tab.session = attached["sessionId"]
            for domain in ("Page", "Network", "Runtime"):
                tab.call(f"{domain}.enable")
            yield tab
    finally:
        os.close(to_browser[1])
        process.terminate()
        process.wait()
