"""Run one bead: a fresh agent process, its limits, its output, its hand-off."""

import dataclasses
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.errors import Code, Interrupted, NightshiftError
from gitlab_nightshift.events import BeadEnded, Emit, Note, now_s
from gitlab_nightshift.host.environment import TRUSTING, build_bead_env
from gitlab_nightshift.host.logs import Logs
from gitlab_nightshift.host.openat import remove_tree
from gitlab_nightshift.host.process import End, Ended, Limits, NotStarted, stream
from gitlab_nightshift.host.space import Disks, told_where_full
from gitlab_nightshift.policy.night import any_command
from gitlab_nightshift.prompts import bead_prompt
from gitlab_nightshift.records import BeadResult, BeadStatus, Handoff, Outcome
from gitlab_nightshift.settings import Settings
from gitlab_nightshift.work.access import BeadAccess, ModelAccess
from gitlab_nightshift.work.agents.base import BeadTask, Provider, Report
from gitlab_nightshift.work.boundary import Boundary
from gitlab_nightshift.work.handoff import KINDS, HandoffError, read_handoff, schema, write_stub
from gitlab_nightshift.work.ledger import Ledger, Stop
from gitlab_nightshift.work.watch import Watch

STDERR_TAIL = 2_000
MOST_DENIED = 100
LONGEST_TEXT = 4_000
"""What a result tells of an agent's own words: commands that were denied, characters of a text."""


@dataclass(frozen=True)
class Bench:
    """Where beads run and with what: the same for all beads of a run.

    ``env`` is the part of the job's environment that agents may be given; ``keep`` records a bead
    that has ended.
    """

    settings: Settings
    provider: Provider
    templates: Mapping[str, str]
    allowed_commands: tuple[str, ...]
    env: Mapping[str, str]
    checkout: Path
    logs: Logs
    ledger: Ledger
    access: ModelAccess
    boundary: Boundary
    emit: Emit
    keep: Callable[[BeadTask, Ended, Path], None]

    @property
    def disks(self) -> Disks:
        """Those that an agent can fill."""
        return Disks((self.boundary.scratch, self.checkout, self.logs.folder))


@dataclass(frozen=True)
class Scratch:
    """A bead's own folders: a fresh HOME and TMPDIR, and the hand-off's."""

    home: Path
    tmp: Path
    handoff: Path

    @property
    def handoff_file(self) -> Path:
        """Where the agent reports."""
        return self.handoff / "handoff.json"

    @property
    def analysis_file(self) -> Path:
        """Where the agent finds what Analyze selected."""
        return self.handoff / "analysis.json"


def run_bead(
    bench: Bench,
    bead: str,
    category: str,
    attempt: int,
    values: Mapping[str, str],
    analysis: str = "",
) -> BeadResult:
    """Run one bead to its end. A crash, a timeout or a bad hand-off is a result.

    ``values`` are those of the placeholders, ``analysis`` the JSON of what Analyze selected.
    Raises :class:`Stop` where the run is over: budget, deadline, provider that cannot be used;
    :class:`NightshiftError` where the CLI cannot be started or the disk is full.
    """
    bench.ledger.check()
    bench.disks.check()  # what an agent before has filled is empty again
    bench.logs.reserve.hold()
    name = f"{len(bench.ledger.results) + 1:02}-{bead}-{category}-{attempt}"
    folder = bench.boundary.scratch / name
    try:
        with told_where_full(*bench.disks.places):
            scratch = _scratch(folder)
            scratch.analysis_file.write_text(analysis, encoding="utf-8")
            write_stub(bead, scratch.handoff_file)
            task = _task(bench, bead, category, attempt, scratch)
            for file, text in bench.provider.files(task).items():
                scratch.handoff_file.with_name(file).write_text(text, encoding="utf-8")
            bench.boundary.hand_over(folder)
            result = _run(bench, task, name, scratch, values)
    finally:
        remove_tree(folder)
    bench.ledger.results.append(result)
    bench.emit(BeadEnded(result))
    _stop_where_over(bench, result)
    return result


def _scratch(folder: Path) -> Scratch:
    scratch = Scratch(folder / "home", folder / "tmp", folder / "handoff")
    for part in (folder, scratch.home, scratch.tmp, scratch.handoff):
        part.mkdir(mode=0o700)
    (scratch.home / ".gitconfig").write_text(TRUSTING)
    return scratch


def _task(bench: Bench, bead: str, category: str, attempt: int, scratch: Scratch) -> BeadTask:
    return BeadTask(
        bead=bead,
        category=category,
        attempt=attempt,
        model=getattr(bench.settings.models, bead),
        checkout=bench.checkout,
        handoff_file=scratch.handoff_file,
        schema=schema(bead),
        allowed_commands=bench.allowed_commands,
        budget_usd=bench.ledger.left_usd(),
        any_command=any_command(bench.settings),
    )


def _run(
    bench: Bench, task: BeadTask, name: str, scratch: Scratch, values: Mapping[str, str]
) -> BeadResult:
    places = {
        "handoff_file": str(scratch.handoff_file),
        "analysis_file": str(scratch.analysis_file),
    }
    prompt = bead_prompt(bench.templates[task.bead], {**values, **places})
    left = bench.ledger.left_tokens()
    with bench.access.bead(name, task.model, task.budget_usd, left) as access:
        task = dataclasses.replace(task, base_url=access.base_url)
        process = _Process(bench, task, name, scratch, access)
        return process.run(prompt)


class _Process:
    """One agent process: what it is given, how it is watched, what came of it."""

    def __init__(
        self, bench: Bench, task: BeadTask, name: str, scratch: Scratch, access: BeadAccess
    ) -> None:
        self._bench, self._task, self._scratch, self._access = bench, task, scratch, access
        self._name = name
        self._reader = bench.provider.reader()
        self._watch = Watch(bench, self._reader, access)

    def run(self, prompt: str) -> BeadResult:
        started = now_s()
        try:
            ended = self._stream(prompt)
            return self._judged(ended)
        except NotStarted as error:
            reason = f"the agent's CLI cannot be started: {error.strerror}"
            raise NightshiftError(Code.PROVIDER_UNAVAILABLE, reason) from None
        except (Interrupted, OSError) as stop:  # what it has cost counts all the same
            ended = Ended(End.STOPPED, -signal.SIGTERM, now_s() - started)
            report = self._reader.report(ended, b"")
            text = str(stop) if isinstance(stop, OSError) else "stopped by a signal"
            report = dataclasses.replace(report, error=text)
            self._bench.ledger.results.append(self._result(report, ended, left_s=0))
            raise

    def _judged(self, ended: Ended) -> BeadResult:
        logs = self._bench.logs
        self._bench.keep(self._task, ended, logs.path(f"{self._name}.out"))
        last = logs.tail(f"{self._name}.err", STDERR_TAIL)
        report = self._watch.judged(self._reader.report(ended, last))
        if report.note:
            self._bench.emit(Note(f"{self._task.bead}: {report.note}"))
        return self._result(report, ended, self._bench.ledger.left_s())

    def _stream(self, prompt: str) -> Ended:
        env = _environment(self._bench, self._scratch, self._access)
        with self._bench.logs.opened(f"{self._name}.out", f"{self._name}.err") as (out, err):
            return stream(
                self._bench.provider.build_bead_args(self._task, self._bench.env.get("PATH", "")),
                cwd=self._task.checkout,
                env=env,
                stdin=prompt.encode(),
                stdout=out,
                stderr=err,
                limits=_limits(self._bench),
                on_line=self._watch.line,
                on_tick=self._watch.tick,
                confined=self._bench.boundary.around(
                    self._task.checkout, self._scratch.home.parent
                ),
            )

    def _result(self, report: Report, ended: Ended, left_s: float | None) -> BeadResult:
        if usage := self._access.settled(left_s):
            report = dataclasses.replace(report, usage=usage)
        files = (self._bench.logs.path(f"{self._name}.{kind}") for kind in ("out", "err"))
        logs = tuple(path.name for path in files)
        return _result(self._task, report, ended, self._scratch, logs)


def _environment(bench: Bench, scratch: Scratch, access: BeadAccess) -> dict[str, str]:
    env = build_bead_env(
        bench.env,
        bench.settings.agent_env,
        home=scratch.home,
        tmp=scratch.tmp,
        checkout=bench.checkout,
    )
    env |= {"PATH": bench.boundary.agent_path(env["PATH"]), **bench.boundary.git_env()}
    return {**env, **bench.provider.settings_env(), **access.env}


def _limits(bench: Bench) -> Limits:
    times = [t for t in (bench.settings.bead_timeout, bench.ledger.left_s()) if t is not None]
    return Limits(
        timeout_s=min(times, default=None),
        idle_s=bench.settings.idle_timeout,
        output_bytes=bench.settings.max_output,
    )


def _result(
    task: BeadTask, report: Report, ended: Ended, scratch: Scratch, logs: tuple[str, ...]
) -> BeadResult:
    status, error, handoff = report.status, report.error, None
    if status is BeadStatus.OK and task.bead in KINDS:
        status, error, handoff = _handed_off(task.bead, report, scratch)
    denied = (*report.denied, *(f"sandbox: {what}" for what in ended.refused))
    return BeadResult(
        bead=task.bead,
        category=task.category,
        attempt=task.attempt,
        model=task.model,
        status=status,
        usage=report.usage,
        duration_s=round(ended.duration_s, 3),
        error=error[:LONGEST_TEXT],
        handoff=handoff,
        denied=tuple(what[:LONGEST_TEXT] for what in denied[:MOST_DENIED]),
        logs=tuple(f"logs/{name}" for name in logs),
    )


def _handed_off(
    bead: str, report: Report, scratch: Scratch
) -> tuple[BeadStatus, str, Handoff | None]:
    try:
        return BeadStatus.OK, "", read_handoff(bead, report.structured, scratch.handoff_file)
    except HandoffError as error:
        status = BeadStatus.DENIED if report.denied else BeadStatus.NO_HANDOFF
        return status, str(error), None


def _stop_where_over(bench: Bench, result: BeadResult) -> None:
    if result.status is BeadStatus.UNAVAILABLE:
        raise Stop(Outcome.FAILED, result.error, Code.PROVIDER_UNAVAILABLE)
    if result.status is BeadStatus.BUDGET:
        raise bench.ledger.budget_reached()
    if result.status is BeadStatus.TIMEOUT and bench.ledger.late():
        raise bench.ledger.deadline_reached()
