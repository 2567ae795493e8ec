"""One bead of each kind with the agent ``model``, against any endpoint, without a night."""

import json
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.agents import build_provider, choose_agent
from gitlab_nightshift.agents.agent import BeadReport, BeadTask
from gitlab_nightshift.sandbox.process import EndReason, ProgramEnd
from gitlab_nightshift.settings.load import load_settings
from gitlab_nightshift.stages.work.handoff import build_schema

TASKS = {
    "analyze": "Find one improvement of the tests. shop.py has total() and count().",
    "implement": "Add a docstring to total() in shop.py.",
    "verify": "Check the change: total() has a docstring now. Is it right?",
    "mr": "Write the title and the summary of a merge request: total() got a docstring.",
}
SHOP = "def total(prices):\n    return sum(prices)\n\n\ndef count(prices):\n    return 1\n"
ANSWER_TOKENS = 160
"""A very small model has said all that it can say by then."""
LONGEST_S = 600.0


@dataclass(frozen=True)
class RealBead:
    """How a bead ended: its report, seconds, and the events that its program has told."""

    report: BeadReport
    seconds: float
    events: tuple[dict[str, object], ...]

    @property
    def calls(self) -> int:
        return len([event for event in self.events if event["type"] == "call"])


def run_bead(folder: Path, bead: str, url: str, model: str) -> RealBead:
    """Run it in a fresh checkout below ``folder``."""
    checkout, handoff = folder / "checkout", folder / "handoff"
    for each in (checkout, handoff):
        each.mkdir()
    (checkout / "shop.py").write_text(SHOP)
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "Sell things")):
        subprocess.run(["git", *identity, *words], cwd=checkout, check=True)
    given = {"agent": "model", "models.implement": model, "max_answer_tokens": "1024"}
    provider = build_provider(choose_agent(load_settings({}, None, given), {}).settings)
    schema = build_schema(bead)
    file = handoff / "handoff.json"
    task = BeadTask(bead, "tests", 1, model, checkout, file, schema, (), 1.0, budget_tokens=20_000)
    for name, text in provider.build_files(task).items():
        spec = {**json.loads(text), "answer_tokens": ANSWER_TOKENS}
        (handoff / name).write_text(json.dumps(spec))
    began = time.monotonic()
    env = {"PATH": "/usr/bin:/bin", "HOME": str(folder / "home")}
    done = subprocess.run(
        provider.build_bead_args(task, ""),
        input=f"# Task\n\n{TASKS[bead]}\n".encode(),
        capture_output=True,
        env={**env, **provider.build_access_env(url, "placeholder")},
        timeout=LONGEST_S,
        check=False,
    )
    seconds = time.monotonic() - began
    reader = provider.build_reader()
    for line in done.stdout.splitlines():
        reader.read_line(line)
    ended = ProgramEnd(EndReason.EXITED, done.returncode, seconds)
    events = tuple(json.loads(line) for line in done.stdout.splitlines())
    return RealBead(reader.build_report(ended, done.stderr), seconds, events)
