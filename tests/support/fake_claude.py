"""Stands in for the ``claude`` CLI: notes its call, then plays a script or runs the real one.

Standard library only: it is started as a program of its own (see ``agent.py``), in the environment
and the checkout of a bead. A step of a script is a list: its name, then its arguments.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

DEFAULT_COST_USD, DEFAULT_TOKENS = 0.01, 100
NO_PLAY = 97
OPUS_USD, SONNET_USD = 5e-6, 3e-6
"""The price of a token of input; a model of another name is taken for an Opus."""


def main(folder: Path) -> int:
    """Note the call in ``folder``, then act; returns the exit status."""
    prompt = sys.stdin.buffer.read()
    name = Path(os.environ["HOME"]).parent.name.partition("-")[2]
    script = json.loads((folder / "script.json").read_text())
    note(folder, name, prompt)
    keys = (name, name.rpartition("-")[0], name.partition("-")[0])
    key = next((key for key in keys if key in (*script["plays"], *script["real"])), None)
    if key in script["real"]:
        run_real(script["cli"], prompt)
    play = script["plays"].get(key)
    if play is None:
        sys.stderr.write(f"no play for {name}\n")
        return NO_PLAY
    return Player(folder, name).play(play)


def note(folder: Path, name: str, prompt: bytes) -> None:
    """How this process was called and what it sees of the checkout."""
    seen = {
        "name": name,
        "pid": os.getpid(),
        "argv": sys.argv,
        "env": dict(os.environ),
        "prompt": prompt.decode(),
        "cwd": str(Path.cwd()),
        "tree": tree(Path.cwd()),
        "git_status": git("status", "--porcelain", "-uall"),
        "git_config": git("config", "--list", "--show-origin"),
        "head": git("rev-parse", "HEAD").strip(),
        "handoff": [path.read_text() for path in sorted(handoff_file().parent.iterdir())],
    }
    target = folder / "seen" / f"{len(list((folder / 'seen').iterdir())):03}.json"
    target.write_text(json.dumps(seen))


def git(*args: str) -> str:
    done = subprocess.run(["git", *args], capture_output=True, check=False)
    return done.stdout.decode("utf-8", "surrogateescape")


def tree(top: Path) -> dict[str, list[object]]:
    """Kind, mode and digest of everything in a checkout but its ``.git``."""
    found: dict[str, list[object]] = {}
    for folder, folders, files in os.walk(top):
        if Path(folder) == top:
            folders[:] = [name for name in folders if name != ".git"]
        for name in (*folders, *files):
            path = Path(folder, name)
            if path == top / ".git":
                continue
            found[str(path.relative_to(top))] = look(path)
    return found


def look(path: Path) -> list[object]:
    mode = path.lstat().st_mode
    if path.is_symlink():
        return ["link", 0, str(path.readlink())]
    if path.is_dir():
        return ["folder", mode, ""]
    return ["file", mode, hashlib.sha256(path.read_bytes()).hexdigest()]


def handoff_file() -> Path:
    return Path(os.environ["HOME"]).parent / "handoff" / "handoff.json"


def run_real(cli: str, prompt: bytes) -> None:
    """Become the real CLI, with the prompt on stdin again."""
    memory = os.memfd_create("prompt")
    os.write(memory, prompt)
    os.lseek(memory, 0, os.SEEK_SET)
    os.dup2(memory, 0)
    os.execv(cli, [cli, *sys.argv[1:]])


class Player:
    """Plays one bead; prints what the CLI would print."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.cost, self.tokens, self.messages = DEFAULT_COST_USD, DEFAULT_TOKENS, 0
        self.result: dict[str, Any] = {"subtype": "success", "is_error": False}
        self.denied: list[dict[str, Any]] = []

    def play(self, steps: list[list[Any]]) -> int:
        model = sys.argv[sys.argv.index("--model") + 1]
        self.line({"type": "system", "subtype": "init", "model": model, "tools": []})
        for name, *arguments in steps:
            ended = getattr(self, f"do_{name}")(*arguments)
            if ended is not None:
                return int(ended)
        usage = {model: {"inputTokens": 0, "outputTokens": self.tokens, "costUSD": self.cost}}
        self.line(
            {
                "type": "result",
                **self.result,
                "total_cost_usd": self.cost,
                "modelUsage": usage,
                "permission_denials": self.denied,
            }
        )
        return int(self.result["is_error"])

    def line(self, event: dict[str, Any]) -> None:
        print(json.dumps(event), flush=True)

    def message(self, part: dict[str, Any], tokens: int = 0) -> None:
        self.messages += 1
        message = {"id": f"m{self.messages}", "content": [part], "usage": {"output_tokens": tokens}}
        self.line({"type": "assistant", "message": message})

    # --- steps: what returns a number ends the process with it --------------------------------

    def do_say(self, text: str) -> None:
        self.message({"type": "text", "text": text})

    def do_use(self, tokens: int) -> None:
        self.tokens = max(self.tokens, tokens)
        self.message({"type": "text", "text": "thinking"}, tokens)

    def do_cost(self, usd: float, tokens: int) -> None:
        self.cost, self.tokens = usd, tokens

    def do_spend(self, usd: float) -> None:
        """Ask the model for an answer of that price, as the CLI would."""
        import urllib.request  # costs more than all the rest of a bead

        model = sys.argv[sys.argv.index("--model") + 1]
        tokens = round(usd / (SONNET_USD if "sonnet" in model else OPUS_USD))
        body = {
            "model": model,
            "max_tokens": 1000,
            "messages": [{"role": "user", "content": f"{tokens} tokens"}],
        }
        request = urllib.request.Request(
            f"{os.environ['ANTHROPIC_BASE_URL']}/v1/messages",
            json.dumps(body).encode(),
            {
                "content-type": "application/json",
                "x-api-key": os.environ["ANTHROPIC_API_KEY"],
                "anthropic-version": "2023-06-01",
            },
        )
        with urllib.request.urlopen(request) as answer:
            answer.read()

    def do_answer(self, value: object) -> None:
        self.result["structured_output"] = value

    def do_handoff(self, text: str) -> None:
        handoff_file().write_text(text)

    def do_write(self, name: str, text: str) -> None:
        path = Path(os.fsdecode(os.fsencode(name)))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def do_append(self, name: str, text: str) -> None:
        with Path(name).open("a") as file:
            file.write(text)

    def do_sh(self, command: str) -> None:
        call = {"type": "tool_use", "name": "Bash", "input": {"command": command}}
        self.message(call)
        subprocess.run(["/bin/sh", "-c", command], stdout=subprocess.DEVNULL, check=False)

    def do_deny(self, command: str) -> None:
        self.denied.append({"tool_name": "Bash", "tool_input": {"command": command}})

    def do_retry(self, status: int) -> None:
        self.line({"type": "system", "subtype": "api_retry", "error_status": status})

    def do_error(self, subtype: str, text: str) -> None:
        self.result |= {"subtype": subtype, "is_error": True, "result": text}

    def do_raw(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    def do_flood(self, size: int, line: int) -> None:
        chunk = (b"x" * (line - 1) + b"\n") if line else b"x" * 65536
        written = 0
        while written < size:
            written += sys.stdout.buffer.write(chunk)
        sys.stdout.flush()

    def do_sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def do_stubborn(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    def do_hang(self) -> None:
        """Tell the test that it has come so far, then wait for the end."""
        (self.folder / "hanging").touch()
        time.sleep(600)

    def do_chatter(self) -> None:
        """Print something ten times a second, for ever."""
        while True:
            self.do_say("still at it")
            time.sleep(0.1)

    def do_daemon(self, writes: str) -> None:
        """Leave a process of another session behind, which writes into the checkout for ever."""
        script = (
            "import os, signal, sys, time\n"
            "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
            "while True:\n"
            f"    open({writes!r}, 'a').write('still here')\n"
            "    time.sleep(0.01)\n"
        )
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.execv(sys.executable, [sys.executable, "-ISc", script])
            os._exit(0)
        os.wait()

    def do_crash(self, number: int) -> None:
        sys.stderr.write("Segmentation fault (not really)\n")
        sys.stderr.flush()
        os.kill(os.getpid(), number)

    def do_exit(self, status: int) -> int:
        return status
