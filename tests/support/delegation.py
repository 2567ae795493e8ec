"""A world for delegations: a repository with a policy, an agent that is scripted, the command."""

import contextlib
import dataclasses
import io
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any
from unittest.mock import patch

from gitlab_nightshift import api
from gitlab_nightshift.errors import Code
from gitlab_nightshift.job.job_facts import read_job
from gitlab_nightshift.records.events import read_clock
from gitlab_nightshift.run import prepare_process
from gitlab_nightshift.run.supervisor import delegation_run
from gitlab_nightshift.run.supervisor.stage_calls import hide_key_values
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.wire.channel import FrameKind, FrameReader
from tests.support import warm
from tests.support.agent import Agent, Play, plays, write
from tests.support.shop import GOOD
from tests.support.trees import Tree, assert_same, processes_in, whole_tree
from tests.support.world import (
    CLAUDE,
    FEW_FAULTS,
    FILES,
    MODEL_KEY,
    PATH,
    ROOT,
    commit,
    create_history,
    finish,
    git,
)

OUTPUT = "nightshift"
POLICY = """\
policy:
  orchestrators: [planner]
  writable_paths: ["*.py", "docs/**"]
  test_commands:
    unit: {command: [make, test], args: ["-s", "--quiet"]}
"""
DEVELOPMENT = POLICY + "profile: development\n"
TASK = "Test the discount of total(), please."
QUICK: dict[str, Play] = plays(GOOD, {"implement": [write("docs/new.md", "# New\n")]})
"""A change that is proven at once: new tests would be run against mutants."""


@dataclass
class Done:
    """A command's end; ``result`` is the one object of its stdout."""

    exit_status: int
    stdout: str
    log: str

    @property
    def result(self) -> Any:
        return json.loads(self.stdout)

    def failed(self, code: str, status: int, *texts: str) -> None:
        """It ended with this code, in the result and as its exit status, in one line."""
        result = self.result
        assert (result["diagnostics"]["error_code"], self.exit_status) == (code, status), self
        assert result["ok"] is False
        assert f"{ROOT}/gitlab_nightshift" not in self.stdout + self.log, "a traceback of ours"
        for text in texts:
            assert text in result["error"], result["error"]


@dataclass(frozen=True)
class Prepared:
    """What is decided before any agent: the answer of the first process, and its events."""

    answer: Mapping[str, Any]
    events: list[Any]

    @property
    def code(self) -> str | None:
        """The error code, None where the work would begin."""
        failure = self.answer["failure"]
        return failure and str(failure[0])

    @property
    def work(self) -> Any:
        """What the work would be given."""
        assert self.code is None, self.answer["failure"]
        return self.answer["work"]

    @property
    def used(self) -> Any:
        """The agent that would do it."""
        return self.work["first"]["used"]

    @property
    def settings(self) -> Settings:
        return Settings.from_data(self.work["first"]["context"]["settings"])

    def told(self, gate: str) -> list[str]:
        """The events of a gate, by their names."""
        return [event["event"] for event in self.events if event.get("gate") == gate]

    def failed(self, code: str, status: int, *texts: str) -> None:
        """It would end with this code and exit status, for a reason of one short line."""
        assert (self.code, Code(code).exit_status) == (code, status), self.answer
        why = self.answer["failure"][1]
        assert "\n" not in why, why
        assert len(why) < 500, why
        for text in texts:
            assert text in why, why


@dataclass
class Delegations:
    """A repository ``shop`` and a folder ``context`` to call from; ``env`` is the caller's."""

    folder: Path
    repository: Path
    context: Path
    env: dict[str, str]
    agent: Agent
    before: Tree

    def start(self, raw: bytes, *args: str, before: str = "", **env: str) -> warm.Started:
        """Start the real command with this on its stdin, after the Python code ``before``."""
        given = self.folder / "agent/payload"
        given.write_bytes(raw)
        with given.open("rb") as stdin:
            whole = {**self.env, **env}
            return warm.start(
                ["delegate", *args],
                cwd=self.context,
                env=whole,
                stdin=stdin.fileno(),
                before=FEW_FAULTS + before,
            )

    def start_sealed(self, raw: bytes | None = None, *args: str) -> "subprocess.Popen[bytes]":
        """Start it as a shell does, from Python's first instruction on; without ``raw`` its stdin
        stays open."""
        process = subprocess.Popen(
            [sys.executable, "-m", "gitlab_nightshift", "delegate", *args],
            cwd=self.context,
            env=self.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdin
        if raw is not None:
            process.stdin.write(raw)
            process.stdin.close()
            process.stdin = None
        return process

    def delegate(self, **payload: Any) -> Done:
        """Run the real command; the task and the repository are given unless named."""
        return ended(self.start(self.payload(**payload)))

    def ask(self, **payload: Any) -> Done:
        """The same without a process of its own, where how it is started is not the subject."""
        return self.called(self.payload(**payload))

    def called(self, raw: bytes, **env: str) -> Done:
        """What the command makes of this on its stdin, by its own function."""
        whole = {**self.env, **env}
        warm.make_caches()
        with (
            TemporaryFile("w+") as log,
            contextlib.chdir(self.context),
            # It would close the process that runs the tests.
            patch.object(delegation_run, "forbid_inspection"),
        ):
            result = api.delegate_file("-", io.BytesIO(raw), whole, log)
            log.seek(0)
            log_text = log.read()
        return Done(api.exit_status(result), json.dumps(api.as_json(result)), log_text)

    def prepare(self, **payload: Any) -> Prepared:
        """The first process of a delegation alone, by its own function."""
        return self.prepared(self.payload(**payload))

    def prepared(self, raw: bytes, **env: str) -> Prepared:
        """The same for a payload as it was read, with more of an environment."""
        whole, answer = {**self.env, **env}, dict[str, Any]()
        with TemporaryDirectory() as private, TemporaryFile() as output:
            inputs = {
                "outlet": output.fileno(),
                "folder": str(self.context),
                "private": private,
                "job": dataclasses.asdict(read_job(whole)),
                "began": read_clock(),
                "env": hide_key_values(whole),
                "payload": raw.decode("latin-1"),
            }
            with patch.object(prepare_process, "_drop_rights"):  # it would be that of the tests
                prepare_process._run_prepare(inputs, answer)
            output.seek(0)
            frames = list(FrameReader().feed(output.read()))
        told = [json.loads(each.payload) for each in frames if each.kind is FrameKind.EVENT]
        return Prepared(answer, told)

    def configure(self, text: str) -> None:
        """Commit another nightshift.yaml."""
        (self.repository / "nightshift.yaml").write_text(text)
        commit(self.repository, "Configure")
        self.look()

    def payload(self, **payload: Any) -> bytes:
        repo = {"type": "local_path", "value": str(self.repository)}
        return json.dumps({"task_prompt": TASK, "repo": repo, **payload}).encode()

    def branches(self) -> list[str]:
        names = git(self.repository, "for-each-ref", "--format=%(refname:short)", "refs/heads")
        return names.split()

    def tree(self) -> Tree:
        """The whole repository, ``.git`` too: kind, mode, time and bytes of everything."""
        return whole_tree(self.repository)

    def status(self) -> str:
        """What git says of the caller's own working tree."""
        return git(self.repository, "status", "--porcelain", "-uall", "--branch")

    def working_tree(self) -> Tree:
        return {n: e for n, e in self.tree().items() if n.split("/")[0] != ".git"}

    def files_before(self) -> Tree:
        return {n: e for n, e in self.before.items() if n.split("/")[0] != ".git"}

    def look(self) -> None:
        self.before = self.tree()

    def assert_untouched(self) -> None:
        """The repository is as before, nothing is left of the run, nobody is alive."""
        assert_same(self.tree(), self.before)
        self.assert_tidy()

    def assert_tidy(self) -> None:
        known = {self.repository, self.context, self.folder / "agent", self.folder / "tmp"}
        known |= {self.folder / "home", self.folder / "workspaces"}
        left = [*self.folder.iterdir(), *(self.folder / "tmp").iterdir()]
        assert [path for path in left if path not in known] == []
        running = processes_in(self.folder)
        assert not running, running

    def kept(self, done: Done, name: str) -> bytes:
        """An artifact's bytes."""
        return Path(done.result["artifacts"][name]).read_bytes()

    @property
    def events(self) -> list[Any]:
        """The events of the last delegation."""
        folder = max((self.context / OUTPUT).iterdir(), key=lambda path: path.stat().st_mtime_ns)
        return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def ended(process: warm.Started, timeout_s: float = warm.LIMIT_S) -> Done:
    return Done(*finish(process, timeout_s))


@contextmanager
def delegations(
    folder: Path, script: Mapping[str, Play] = QUICK, *, config: str = POLICY
) -> Iterator[Delegations]:
    """A repository of three commits whose policy lets the orchestrator ``planner`` write Python."""
    folder = folder.resolve()
    repository, context = folder / "shop", folder / "context"
    for place in (context, folder / "home", folder / "tmp"):
        place.mkdir()
    create_history(repository, {**FILES, "nightshift.yaml": config}, 3)
    git(repository, "config", "user.name", "Ada")
    git(repository, "config", "user.email", "ada@example.org")
    agent = Agent(folder / "agent", script, CLAUDE)
    env = {
        "PATH": f"{agent.bin}:{PATH}",
        "PYTHONPATH": str(ROOT),
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
        "LANG": "C.UTF-8",
        "ANTHROPIC_API_KEY": MODEL_KEY,
        "NIGHTSHIFT_ISOLATION": "none",  # what a fake agent tells lies outside the checkout
        "NIGHTSHIFT_MAX_TOKENS": "10000000",
        "NIGHTSHIFT_ORCHESTRATOR": "planner",
    }
    made = Delegations(folder, repository, context, env, agent, {})
    made.look()
    yield made
