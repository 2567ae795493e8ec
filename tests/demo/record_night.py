"""Make the demo's recording anew, after a change of the sample project or of the agent CLI.

    python -m tests.demo.record_night

A real night: the program, the stand-in, the claude CLI of ``tests/node`` and its tools. Only the
model's answers are written by hand, in ``night_script.py``. What is this machine's in the output
(paths, ids, times) is replaced afterwards.
"""

import itertools
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from gitlab_nightshift.demo.demo_night import RECORDING, Demo, open_demo
from gitlab_nightshift.run.supervisor.supervised_run import SupervisorOptions, supervise
from tests.demo.night_script import REFUSED, Key, night_script
from tests.support.model_endpoint import ModelEndpoint
from tests.support.turns import Request, Turn, costing

CLI = Path(__file__).parents[1] / "node" / "node_modules" / ".bin"
PACE_S = 0.05
BEADS = {
    "# Task: find one improvement": "analyze",
    "# Task: make one improvement": "implement",
    "# Task: check one change": "verify",
    "# Task: describe one change": "mr",
}
_NOT_SHOWN = re.compile(r'^{"type":("stream_event"|"system","subtype":"status")')
UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"


def record(folder: Path) -> None:
    """Run the night and keep it in ``folder``. Raises AssertionError where it goes otherwise."""
    with tempfile.TemporaryDirectory() as left, open_demo(Path(left), os.environ) as demo:
        script = night_script(demo.checkout, demo.env["CI_COMMIT_SHA"])
        with ModelEndpoint(model(script)) as endpoint:
            env = _environment(demo, endpoint, folder)
            status = supervise(SupervisorOptions(env, demo.checkout, None, {}, colour=True))
        assert status == 0
        assert endpoint.unscripted == []
        assert len(endpoint.messages) == sum(map(len, script.values()))
        for bead in folder.glob("*/bead.json"):
            _finish(bead.parent)


def _environment(demo: Demo, endpoint: ModelEndpoint, folder: Path) -> dict[str, str]:
    return {
        **demo.env,
        "PATH": f"{CLI}:{demo.env['PATH']}",
        "ANTHROPIC_API_KEY": "not-a-real-key",
        "NIGHTSHIFT_AGENT": "claude_code",
        "NIGHTSHIFT_MODEL_ENDPOINT": endpoint.url,
        "NIGHTSHIFT_RECORD_DIR": str(folder),
    }


def model(script: Mapping[Key, list[Turn]]) -> Callable[[Request], Turn]:
    """The next turn of the bead that asks, with the tokens that it would take."""

    def play(request: Request) -> Turn:
        said = sum(message["role"] == "assistant" for message in request.messages)
        turn = script[_key(request)][said]
        return costing(turn, **_tokens(request, turn))

    return play


def _key(request: Request) -> Key:
    bead = next(name for head, name in BEADS.items() if head in request.prompt)
    second = "Category: tests" if bead == "analyze" else REFUSED.partition("\n")[0]
    return bead, second in request.prompt


def _tokens(request: Request, turn: Turn) -> dict[str, int]:
    """Four characters a token; what the turns before have read is in the cache."""
    fixed = [request.body.get("system"), request.body.get("tools")]
    answers = [n for n, each in enumerate(request.messages) if each["role"] == "assistant"]
    old = request.messages[: answers[-1]] if answers else []
    everything, cached = (len(json.dumps([fixed, each])) // 4 for each in (request.messages, old))
    said = json.dumps([turn.text, *(dict(call.input) for call in turn.calls)])
    return {
        "input_tokens": 4,
        "output_tokens": 150 + len(said) // 3,
        "cache_creation_input_tokens": everything - (cached if answers else 0),
        "cache_read_input_tokens": cached if answers else 0,
    }


def _finish(folder: Path) -> None:
    """Slow enough to be read, nothing in it that no log shows, no ids of this run."""
    bead = json.loads((folder / "bead.json").read_bytes())
    text = json.dumps({**bead, "pace_s": PACE_S}, indent=2)
    (folder / "bead.json").write_text(text + "\n", encoding="utf-8")
    stdout = folder / "stdout.jsonl"
    stdout.write_text(_portable(stdout.read_text(encoding="utf-8")), encoding="utf-8")


def _portable(text: str) -> str:
    lines = (line for line in text.splitlines(keepends=True) if not _NOT_SHOWN.search(line))
    text = "".join(lines)
    text = _renamed(UUID, (f"00000000-0000-4000-8000-{n:012}" for n in itertools.count(1)), text)
    text = _renamed(r"msg_\d{8}", (f"msg_{n:08}" for n in itertools.count(1)), text)
    text = _renamed(r"toolu_\d{8}", (f"toolu_{n:08}" for n in itertools.count(1)), text)
    return re.sub(r'"timestamp":"[^"]+"', '"timestamp":"2025-04-29T02:00:00.000Z"', text)


def _renamed(pattern: str, names: Iterator[str], text: str) -> str:
    found = dict.fromkeys(re.findall(pattern, text))
    renamed = dict(zip(found, names, strict=False))
    return re.sub(pattern, lambda match: renamed[match[0]], text)


def unpaced(folder: Path) -> Path:
    """A copy of the package's recording without the pauses in which it is read."""
    shutil.copytree(RECORDING, folder)
    for bead in folder.glob("*/bead.json"):
        bead.write_text(json.dumps({**json.loads(bead.read_bytes()), "pace_s": 0.0}, indent=2))
    return folder


def main() -> int:
    """Replace the recording in the package."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "recording"
        record(made)
        shutil.rmtree(RECORDING, ignore_errors=True)
        shutil.copytree(made, RECORDING)
    return 0


if __name__ == "__main__":
    sys.exit(main())
