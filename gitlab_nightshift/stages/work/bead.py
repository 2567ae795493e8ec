"""Run one bead, a step of a night (Analyze, Implement, Verify, MR): a fresh agent process, its
limits, its output, its hand-off."""

import dataclasses
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.agents.agent import BeadReport, BeadTask, Provider
from gitlab_nightshift.errors import Code, Interruption, NightshiftError
from gitlab_nightshift.policy.gates import any_command
from gitlab_nightshift.records.bead_results import BeadResult, BeadStatus
from gitlab_nightshift.records.events import (
    AGENT,
    BeadEnded,
    Note,
    ProgramEnded,
    ProgramStarted,
    read_clock,
)
from gitlab_nightshift.records.products import Outcome
from gitlab_nightshift.records.storage import limit_record
from gitlab_nightshift.repository.disk_space import Disks, report_full_disk
from gitlab_nightshift.sandbox.process import (
    EndReason,
    ProcessLimits,
    ProgramEnd,
    ProgramStartError,
    stream,
)
from gitlab_nightshift.stages.work.bead_prompt import (
    BeadPrompt,
    build_bead_prompt,
    format_hand_over,
    format_last_sections,
)
from gitlab_nightshift.stages.work.boundary import Boundary
from gitlab_nightshift.stages.work.cited_files import PathResolver
from gitlab_nightshift.stages.work.gateway_access import BeadAccess, ModelAccess, compute_drain_s
from gitlab_nightshift.stages.work.handoff import (
    KINDS,
    ReadHandoff,
    accept_handoff,
    build_schema,
    write_stub,
)
from gitlab_nightshift.stages.work.hidden_files import hide_files
from gitlab_nightshift.stages.work.run_budget import Ledger, Stop, Watch
from gitlab_nightshift.stages.work.tool_use import merge_calls
from gitlab_nightshift.stages.work.work_context import WorkContext
from gitlab_nightshift.system.environment import (
    TRUSTED_CHECKOUTS,
    build_bead_env,
    build_search_path,
)
from gitlab_nightshift.system.openat import remove_tree

STDERR_TAIL = 2_000
"""Bytes of stderr that may explain how the agent ended."""
MOST_DENIED = 100
"""Denied commands that a result quotes."""
LONGEST_TEXT = 4_000
"""Characters that a result quotes of an agent's text."""


@dataclass(frozen=True)
class _Scratch:
    """A bead's own folders, a fresh HOME and TMPDIR, and the files of its hand-off. The agent
    writes its report to ``handoff_file``, and reads Analyze's selection and the last attempt's
    change (no ``patch_file`` if there was none)."""

    home: Path
    tmp: Path
    handoff_file: Path
    analysis_file: Path
    patch_file: Path


@dataclass(frozen=True)
class BeadContext:
    """What all beads of a run share.

    ``record`` records an ended bead; ``paths`` resolves the paths that beads name; ``brief`` is the
    description of the repository in every prompt, ``hidden`` are files that are taken out of the
    checkout while an agent works.
    """

    work: WorkContext
    provider: Provider
    templates: Mapping[str, str]
    ledger: Ledger
    access: ModelAccess
    boundary: Boundary
    record: Callable[[BeadTask, ProgramEnd, Path], None]
    paths: PathResolver
    brief: str = ""
    hidden: tuple[str, ...] = ()

    @property
    def disks(self) -> Disks:
        """The disks that an agent can fill."""
        return Disks((self.boundary.scratch, self.work.checkout, self.work.logs.folder))


def run_bead(
    bead_context: BeadContext,
    bead: str,
    category: str,
    attempt: int,
    values: Mapping[str, str],
    analysis: str,
    sections: Mapping[str, str],
    last_patch: bytes,
) -> BeadResult:
    """Run one bead to its end. A crash, a timeout or a bad hand-off is a result.

    ``values`` fill the placeholders, ``analysis`` is Analyze's JSON, ``sections`` follow the
    template, ``last_patch`` is the last attempt's change. Raises :class:`Stop` at the end of the
    run: budget, deadline, unusable provider; :class:`NightshiftError` if the CLI cannot be started
    or the disk is full.
    """
    ledger, boundary = bead_context.ledger, bead_context.boundary
    ledger.check()
    # What an earlier agent wrote is deleted by now: a disk that is still full stays full.
    bead_context.disks.check()
    bead_context.work.logs.reserve.allocate()
    name = f"{len(ledger.results) + 1:02}-{bead}-{category}-{attempt}"
    folder = boundary.scratch / name
    try:
        with report_full_disk(*bead_context.disks.folders):
            scratch = _make_scratch(folder)
            scratch.analysis_file.write_text(analysis, encoding="utf-8")
            if last_patch:
                scratch.patch_file.write_bytes(last_patch)
                scratch.patch_file.chmod(0o444)
            write_stub(bead, scratch.handoff_file)
            task = _build_task(bead_context, bead, category, attempt, scratch)
            for file, text in bead_context.provider.build_files(task).items():
                scratch.handoff_file.with_name(file).write_text(text, encoding="utf-8")
            boundary.hand_over(folder)
            limit = ledger.compute_budget_left()
            with bead_context.access.open_bead(name, task.model, limit) as access:
                task = dataclasses.replace(task, base_url=access.base_url)
                process = _AgentProcess(bead_context, task, name, scratch, access)
                result: BeadResult = limit_record(process.run(values, sections))
    finally:
        remove_tree(folder)
    ledger.results.append(result)
    bead_context.work.emit(BeadEnded(result))
    _stop_run_if_over(ledger, result)
    return result


def _build_task(
    bead_context: BeadContext, bead: str, category: str, attempt: int, scratch: _Scratch
) -> BeadTask:
    left = bead_context.ledger.compute_budget_left()
    return BeadTask(
        bead=bead,
        category=category,
        attempt=attempt,
        model=getattr(bead_context.work.settings.models, bead),
        checkout=bead_context.work.checkout,
        handoff_file=scratch.handoff_file,
        schema=build_schema(bead),
        allowed_commands=bead_context.work.allowed_commands,
        budget_usd=left.usd or 0.0,
        any_command=any_command(bead_context.work.settings),
        budget_tokens=left.tokens,
        left_s=bead_context.ledger.compute_left_s(),
        hidden=bead_context.hidden,
    )


class _AgentProcess:
    """One run of the agent's process, from its prompt to the bead's result."""

    def __init__(
        self,
        bead_context: BeadContext,
        task: BeadTask,
        name: str,
        scratch: _Scratch,
        access: BeadAccess,
    ) -> None:
        self._context, self._task, self._scratch, self._access = bead_context, task, scratch, access
        self._name = name
        self._reader = bead_context.provider.build_reader()
        self._watch = Watch(
            bead_context.work, bead_context.ledger, bead_context.disks, self._reader, access
        )

    def run(self, values: Mapping[str, str], sections: Mapping[str, str]) -> BeadResult:
        prompt = self._render_prompt(values, sections)
        started = read_clock()
        self._context.work.emit(ProgramStarted(f"{AGENT}{self._task.bead}"))
        try:
            return self._finish_bead(self._run_process(prompt))
        except ProgramStartError as error:
            reason = f"the agent cannot be started: {error.strerror}"
            raise NightshiftError(Code.PROVIDER_UNAVAILABLE, reason) from None
        except (Interruption, OSError) as stop:
            # The bead's cost counts all the same. A negative status means that a signal ended the
            # process, as for subprocess (its Popen.returncode).
            ended = ProgramEnd(EndReason.STOPPED, -signal.SIGTERM, read_clock() - started)
            report = self._reader.build_report(ended, b"")
            text = str(stop) if isinstance(stop, OSError) else "stopped by a signal"
            report = dataclasses.replace(report, error=text)
            self._context.ledger.results.append(self._settle_result(report, ended, wait_s=0))
            raise

    def _render_prompt(self, values: Mapping[str, str], sections: Mapping[str, str]) -> BeadPrompt:
        context, scratch = self._context, self._scratch
        files = {
            "handoff_file": str(scratch.handoff_file),
            "analysis_file": str(scratch.analysis_file),
            "last_patch_file": str(scratch.patch_file) if scratch.patch_file.exists() else "",
        }
        hand_over = ""
        if self._task.schema:
            hand_over = format_hand_over(context.provider.about.report_by, files["handoff_file"])
        last_sections = format_last_sections(context.ledger, sections, hand_over)
        template = context.templates[self._task.bead]
        return build_bead_prompt(template, {**values, **files}, context.brief, last_sections)

    def _finish_bead(self, ended: ProgramEnd) -> BeadResult:
        emit, logs = self._context.work.emit, self._context.work.logs
        program, took_s = f"{AGENT}{self._task.bead}", round(ended.duration_s, 3)
        emit(ProgramEnded(program, ended.exit_status, took_s))
        self._context.record(self._task, ended, logs.find_log(f"{self._name}.out"))
        last = logs.read_tail(f"{self._name}.err", STDERR_TAIL)
        report = self._watch.override_report(self._reader.build_report(ended, last))
        if report.note:
            emit(Note(f"{self._task.bead}: {report.note}"))
        timeout_s = self._context.work.settings.bead_timeout
        wait_s = compute_drain_s(ended, timeout_s, self._context.ledger.compute_left_s())
        return self._settle_result(report, ended, wait_s)

    def _run_process(self, prompt: BeadPrompt) -> ProgramEnd:
        work, provider, task = self._context.work, self._context.provider, self._task
        with (
            work.logs.open_logs(f"{self._name}.out", f"{self._name}.err") as (out, err),
            # The innermost, so that files are missing only while the agent runs, and not while logs
            # are opened or packed.
            hide_files(task.checkout, self._context.hidden),
        ):
            return stream(
                provider.build_bead_args(task, build_search_path(work.env, work.checkout)),
                cwd=task.checkout,
                env=self._build_environment(),
                stdin=provider.build_stdin(prompt.shared, prompt.rest),
                stdout=out,
                stderr=err,
                limits=self._build_limits(),
                on_line=self._watch.handle_line,
                on_tick=self._watch.tick,
                boundary=self._context.boundary.build_confinement(
                    task.checkout, self._scratch.home.parent
                ),
            )

    def _settle_result(self, report: BeadReport, ended: ProgramEnd, wait_s: float) -> BeadResult:
        # The gateway's count replaces the CLI's: an agent may say what it likes of its cost.
        if usage := self._access.settle_usage(wait_s):
            report = dataclasses.replace(report, usage=usage)
        task, read = self._task, ReadHandoff(report.status, report.error)
        if report.status is BeadStatus.OK and task.bead in KINDS:
            file = self._scratch.handoff_file
            read = accept_handoff(task.bead, report, file, self._context.paths)
        if read.note:
            self._context.work.emit(Note(f"{task.bead}: {read.note}"))
        denied = (*report.denied, *report.refused, *(f"sandbox: {what}" for what in ended.refused))
        find_log = self._context.work.logs.find_log
        # An agent that starts no process writes its report itself, so no command can forge it.
        trusted = not self._context.provider.about.runs_commands
        return BeadResult(
            bead=task.bead,
            category=task.category,
            attempt=task.attempt,
            model=task.model,
            status=read.status,
            usage=report.usage,
            duration_s=round(ended.duration_s, 3),
            error=read.error[:LONGEST_TEXT],
            handoff=read.handoff,
            denied=tuple(what[:LONGEST_TEXT] for what in denied[:MOST_DENIED]),
            logs=tuple(f"logs/{find_log(f'{self._name}.{kind}').name}" for kind in ("out", "err")),
            # One character more than a result shows tells that it was cut (delegation_records.cut).
            said=report.last_message[: LONGEST_TEXT + 1],
            missing=report.missing,
            tools=merge_calls(self._access.list_calls(), report.calls, trusted=trusted),
        )

    def _build_environment(self) -> dict[str, str]:
        work, boundary = self._context.work, self._context.boundary
        env = build_bead_env(
            work.env,
            work.settings.agent_env,
            home=self._scratch.home,
            tmp=self._scratch.tmp,
            checkout=work.checkout,
            programs=boundary.programs,
        )
        return {
            **env,
            "PATH": boundary.build_agent_path(env["PATH"]),
            **boundary.build_git_env(),
            **self._context.provider.build_settings_env(),
            **self._access.env,
        }

    def _build_limits(self) -> ProcessLimits:
        settings = self._context.work.settings
        times = (settings.bead_timeout, self._context.ledger.compute_left_s())
        return ProcessLimits(
            timeout_s=min((each for each in times if each is not None), default=None),
            idle_s=settings.idle_timeout,
            output_bytes=settings.max_output,
        )


def _stop_run_if_over(ledger: Ledger, result: BeadResult) -> None:
    if result.status is BeadStatus.UNAVAILABLE:
        raise Stop(Outcome.FAILED, result.error, Code.PROVIDER_UNAVAILABLE)
    if result.status is BeadStatus.BUDGET:
        raise ledger.build_budget_stop()
    if result.status is BeadStatus.TIMEOUT and ledger.is_late():
        raise ledger.build_deadline_stop()


def _make_scratch(folder: Path) -> _Scratch:
    home, tmp, handoff = (folder / name for name in ("home", "tmp", "handoff"))
    for part in (folder, home, tmp, handoff):
        part.mkdir(mode=0o700)
    # Not by a variable: older versions of git read safe.directory only from the user's or the
    # system's settings (git's Documentation/config/safe.txt).
    (home / ".gitconfig").write_text(TRUSTED_CHECKOUTS)
    names = ("handoff.json", "analysis.json", "last.patch")
    return _Scratch(home, tmp, *(handoff / name for name in names))
