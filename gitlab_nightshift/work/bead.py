"""Run one bead: a fresh agent process, its limits, its output, its hand-off."""

import dataclasses
import shutil
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.errors import Code, Interrupted, NightshiftError
from gitlab_nightshift.events import BeadEnded, Emit, Progress, now_s
from gitlab_nightshift.host.environment import TRUSTING, build_bead_env
from gitlab_nightshift.host.process import End, Ended, Limits, NotStarted, stream
from gitlab_nightshift.host.space import told_where_full
from gitlab_nightshift.policy.night import any_command
from gitlab_nightshift.prompts import bead_prompt
from gitlab_nightshift.records import BeadResult, BeadStatus, Handoff, Outcome, Usage
from gitlab_nightshift.settings import Settings
from gitlab_nightshift.work.access import BeadAccess, ModelAccess
from gitlab_nightshift.work.agents.base import BeadTask, Provider, Reader, Report
from gitlab_nightshift.work.boundary import Boundary
from gitlab_nightshift.work.handoff import KINDS, HandoffError, read_handoff, schema, write_stub
from gitlab_nightshift.work.ledger import Ledger, Stop

STDERR_TAIL = 2_000
HEARTBEAT_S = 60.0


@dataclass(frozen=True)
class Bench:
    """Where beads run and with what: the same for all beads of a run.

    ``env`` is the part of the job's environment that agents may be given. ``logs`` is a private
    folder; ``keep`` records a bead that has ended.
    """

    settings: Settings
    provider: Provider
    templates: Mapping[str, str]
    allowed_commands: tuple[str, ...]
    env: Mapping[str, str]
    checkout: Path
    logs: Path
    ledger: Ledger
    access: ModelAccess
    boundary: Boundary
    emit: Emit
    keep: Callable[[BeadTask, Ended, Path], None]


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
    name = f"{len(bench.ledger.results) + 1:02}-{bead}-{category}-{attempt}"
    folder = bench.boundary.scratch / name
    try:
        with told_where_full(bench.boundary.scratch, bench.logs, logs=bench.logs):
            scratch = _scratch(folder)
            scratch.analysis_file.write_text(analysis, encoding="utf-8")
            write_stub(bead, scratch.handoff_file)
            task = _task(bench, bead, category, attempt, scratch)
            for file, text in bench.provider.files(task).items():
                scratch.handoff_file.with_name(file).write_text(text, encoding="utf-8")
            bench.boundary.hand_over(folder)
            result = _run(bench, task, name, scratch, values)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
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
        self._out, self._err = bench.logs / f"{name}.out", bench.logs / f"{name}.err"
        self._reader = bench.provider.reader()
        self._watch = _Watch(bench, self._reader, access)

    def run(self, prompt: str) -> BeadResult:
        started = now_s()
        try:
            ended = self._stream(prompt)
        except NotStarted as error:
            reason = f"the agent's CLI cannot be started: {error.strerror}"
            raise NightshiftError(Code.PROVIDER_UNAVAILABLE, reason) from None
        except (Interrupted, OSError) as stop:  # what it has cost counts all the same
            ended = Ended(End.STOPPED, -signal.SIGTERM, now_s() - started)
            report = self._reader.report(ended, b"")
            text = str(stop) if isinstance(stop, OSError) else "stopped by a signal"
            report = dataclasses.replace(report, error=text)
            self._bench.ledger.results.append(self._result(report, ended))
            raise
        self._bench.keep(self._task, ended, self._out)
        report = self._watch.judged(self._reader.report(ended, _tail(self._err)))
        return self._result(report, ended)

    def _stream(self, prompt: str) -> Ended:
        env = _environment(self._bench, self._scratch, self._access)
        return stream(
            self._bench.provider.build_bead_args(self._task, self._bench.env.get("PATH", "")),
            cwd=self._task.checkout,
            env=env,
            stdin=prompt.encode(),
            stdout=self._out,
            stderr=self._err,
            limits=_limits(self._bench),
            on_line=self._watch.line,
            on_tick=self._watch.tick,
            confined=self._bench.boundary.around(self._task.checkout, self._scratch.home.parent),
        )

    def _result(self, report: Report, ended: Ended) -> BeadResult:
        usage = self._access.settled()
        report = dataclasses.replace(report, usage=usage) if usage else report
        logs = (self._out.name, self._err.name)
        return _result(self._task, report, ended, self._scratch, logs)


def _environment(bench: Bench, scratch: Scratch, access: BeadAccess) -> dict[str, str]:
    env = build_bead_env(
        bench.env,
        bench.settings.agent_env,
        home=scratch.home,
        tmp=scratch.tmp,
        checkout=bench.checkout,
    )
    env["PATH"] = bench.boundary.agent_path(env["PATH"])
    return {**env, **bench.provider.settings_env(), **access.env}


def _limits(bench: Bench) -> Limits:
    times = [t for t in (bench.settings.bead_timeout, bench.ledger.left_s()) if t is not None]
    return Limits(
        timeout_s=min(times, default=None),
        idle_s=bench.settings.idle_timeout,
        output_bytes=bench.settings.max_output,
    )


class _Watch:
    """Shows what a bead is doing, and ends it where the tokens or the provider are gone."""

    def __init__(self, bench: Bench, reader: Reader, access: BeadAccess) -> None:
        self._bench, self._reader, self._access = bench, reader, access
        self._started = self._shown = now_s()
        self._tokens = 0
        self._spent = False

    def line(self, raw: bytes) -> bool:
        progress = self._reader.line(raw)
        if progress is None:
            return False
        self._tokens = self._tokens if progress.tokens is None else progress.tokens
        if progress.text:
            self._show(progress.text)
        left = self._bench.ledger.left_tokens()
        self._spent = self._spent or (left is not None and (self._used().tokens or 0) >= left)
        return self._spent or bool(progress.unusable)

    def tick(self) -> bool:
        if now_s() - self._shown >= HEARTBEAT_S:
            self._show("…")
        self._spent = self._spent or self._access.exhausted()
        return self._spent or bool(self._access.unusable())

    def judged(self, report: Report) -> Report:
        """What this program knows stands above what the CLI says of its own failure."""
        if report.status is BeadStatus.OK:
            return report
        if self._spent or self._access.exhausted():
            return dataclasses.replace(report, status=BeadStatus.BUDGET, error="it is spent")
        if why := self._access.unusable():
            return dataclasses.replace(report, status=BeadStatus.UNAVAILABLE, error=why)
        return report

    def _used(self) -> Usage:
        return self._access.usage() or Usage(0.0, self._tokens)

    def _show(self, text: str) -> None:
        self._shown = now_s()
        total = self._bench.ledger.usage() + self._used()
        elapsed = self._shown - self._started
        text = text.replace(f"{self._bench.checkout}/", "")
        self._bench.emit(Progress(text, elapsed, total.cost_usd, total.tokens))


def _result(
    task: BeadTask, report: Report, ended: Ended, scratch: Scratch, logs: tuple[str, ...]
) -> BeadResult:
    status, error, handoff = report.status, report.error, None
    if status is BeadStatus.OK and task.bead in KINDS:
        status, error, handoff = _handed_off(task.bead, report, scratch)
    return BeadResult(
        bead=task.bead,
        category=task.category,
        attempt=task.attempt,
        model=task.model,
        status=status,
        usage=report.usage,
        duration_s=round(ended.duration_s, 3),
        error=error,
        handoff=handoff,
        denied=(*report.denied, *(f"sandbox: {what}" for what in ended.refused)),
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


def _tail(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - STDERR_TAIL, 0))
        return file.read()
