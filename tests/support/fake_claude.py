"""Stands in for the ``claude`` CLI: notes its call, then plays a script or runs the real one.

Standard library only: it is started as a program of its own (see ``agent.py``), in the environment
and the checkout of a bead. A step of a script is a list: its name, then its arguments.
"""

from __future__ import annotations

import marshal
import os
import sys
import time
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DEFAULT_COST_USD, DEFAULT_TOKENS = 0.01, 100
NO_PLAY = 97
OPUS_USD, SONNET_USD = 5e-6, 3e-6
"""The price of a token of input; a model of another name is taken for an Opus."""


def main(folder: str) -> int:
    """Note the call in ``folder``, then act; returns the exit status."""
    prompt = sys.stdin.buffer.read()
    name = os.path.basename(own_folder()).partition("-")[2]
    with open(f"{folder}/script", "rb") as file:
        script = marshal.load(file)
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


def own_folder() -> str:
    return os.path.dirname(os.environ["HOME"])


def note(folder: str, name: str, prompt: bytes) -> None:
    """How this process was called and what it sees of the checkout."""
    handoffs = os.path.dirname(handoff_file())
    seen = {
        "name": name,
        "pid": os.getpid(),
        "argv": sys.argv,
        "env": dict(os.environ),
        "prompt": message_text(prompt.decode()),
        "cwd": os.getcwd(),
        "tree": tree(os.getcwd()),
        "git_status": git_status(folder),
        "git_config": read(".git/config"),
        "head": read(".git/HEAD").strip(),
        "handoff": [read(f"{handoffs}/{each}") for each in sorted(os.listdir(handoffs))],
    }
    with open(f"{folder}/seen/{len(os.listdir(f'{folder}/seen')):03}", "wb") as file:
        marshal.dump(seen, file, 4)


def git_status(folder: str) -> str | None:
    """None where no test has asked for it: it takes as long as the rest of a call."""
    if not os.path.exists(f"{folder}/asks-git"):
        return None
    return run_git("status", "--porcelain", "-uall")


def message_text(message: str) -> str:
    """The text blocks of a message, as the CLI reads them; without ``json``, as below."""
    from _json import scanstring

    mark = '"text": "'
    starts = []
    at = message.find(mark)
    while at >= 0:
        starts.append(at + len(mark))
        at = message.find(mark, starts[-1])
    return "".join(scanstring(message, start, True)[0] for start in starts)


def run_git(*args: str) -> str:
    """Without ``subprocess``, whose import costs more than git."""
    out, theirs = os.pipe()
    quiet = os.open(os.devnull, os.O_WRONLY)
    actions = [(os.POSIX_SPAWN_DUP2, theirs, 1), (os.POSIX_SPAWN_DUP2, quiet, 2)]
    try:
        pid = os.posix_spawnp("git", ["git", *args], os.environ, file_actions=actions)
    except FileNotFoundError:
        pid = 0
    os.close(theirs)
    os.close(quiet)
    with open(out, "rb") as file:
        text = file.read().decode("utf-8", "surrogateescape")
    if pid:
        os.waitpid(pid, 0)
    return text


def read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def tree(top: str) -> dict[str, list[object]]:
    """Kind, mode and digest of everything in a checkout but its ``.git``."""
    found: dict[str, list[object]] = {}
    for folder, folders, files in os.walk(top):
        if folder == top:
            folders[:] = [name for name in folders if name != ".git"]
        for name in (*folders, *files):
            path = f"{folder}/{name}"
            if path != f"{top}/.git":
                found[path[len(top) + 1 :]] = look(path)
    return found


def look(path: str) -> list[object]:
    if os.path.islink(path):
        return ["link", 0, os.readlink(path)]
    mode = os.lstat(path).st_mode
    if os.path.isdir(path):
        return ["folder", mode, ""]
    with open(path, "rb") as file:
        return ["file", mode, str(zlib.crc32(file.read()))]


def handoff_file() -> str:
    return f"{own_folder()}/handoff/handoff.json"


def run_real(cli: str, prompt: bytes) -> None:
    """Become the real CLI, with the prompt on stdin again: it reads messages from a pipe alone."""
    import fcntl

    out, into = os.pipe()
    fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, 1 << 20)
    os.write(into, prompt)
    os.close(into)
    os.dup2(out, 0)
    os.execv(cli, [cli, *sys.argv[1:]])


def to_json(value: Any) -> str:
    """Without ``json``, whose import costs more than the rest of a bead."""
    from _json import encode_basestring_ascii

    match value:
        case None | True | False:
            return {None: "null", True: "true", False: "false"}[value]
        case str():
            return encode_basestring_ascii(value)
        case dict():
            return f"{{{','.join(f'{to_json(k)}:{to_json(v)}' for k, v in value.items())}}}"
        case list() | tuple():
            return f"[{','.join(map(to_json, value))}]"
        case _:
            return repr(value)


class Player:
    """Plays one bead; prints what the CLI would print."""

    def __init__(self, folder: str, name: str) -> None:
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
        print(to_json(event), flush=True)

    def message(self, part: dict[str, Any], tokens: int = 0) -> None:
        self.messages += 1
        message = {"id": f"m{self.messages}", "content": [part], "usage": {"output_tokens": tokens}}
        self.line({"type": "assistant", "message": message})

    # --- steps: what returns a number ends the process with it --------------------------------

    def do_say(self, text: str) -> None:
        self.message({"type": "text", "text": text})
        self.result["result"] = text

    def do_use(self, tokens: int) -> None:
        self.tokens = max(self.tokens, tokens)
        self.message({"type": "text", "text": "thinking"}, tokens)

    def do_cost(self, usd: float, tokens: int) -> None:
        self.cost, self.tokens = usd, tokens

    def do_spend(self, usd: float) -> None:
        """Ask the model for an answer of that price, as the CLI would."""
        import urllib.request

        model = sys.argv[sys.argv.index("--model") + 1]
        tokens = round(usd / (SONNET_USD if "sonnet" in model else OPUS_USD))
        body = {
            "model": model,
            "max_tokens": 1000,
            "messages": [{"role": "user", "content": f"{tokens} tokens"}],
        }
        request = urllib.request.Request(
            f"{os.environ['ANTHROPIC_BASE_URL']}/v1/messages",
            to_json(body).encode(),
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
        self.do_write(handoff_file(), text)

    def do_write(self, name: str, text: str) -> None:
        path = os.fsdecode(os.fsencode(name))
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def do_append(self, name: str, text: str) -> None:
        with open(name, "a", encoding="utf-8") as file:
            file.write(text)

    def do_sh(self, command: str) -> None:
        call = {"type": "tool_use", "name": "Bash", "input": {"command": command}}
        self.message(call)
        quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
        shell = ["/bin/sh", "-c", command]
        os.waitpid(os.posix_spawn(shell[0], shell, os.environ, file_actions=quiet), 0)

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
        import signal

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    def do_hang(self) -> None:
        """Tell the test that it has come so far, then wait for the end."""
        self.do_write(f"{self.folder}/hanging", "")
        try:
            time.sleep(600)
        finally:
            self.do_write(f"{self.folder}/interrupted", "")

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
