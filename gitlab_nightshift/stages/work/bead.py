"""Run one bead, a step of a night (Analyze, Implement, Verify, MR): a fresh agent process, its
limits, its output, its hand-off."""

import dataclasses
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.agents.agent import AgentProvider, BeadReport, BeadTask
from gitlab_nightshift.errors import Code, Interruption, NightshiftError
from gitlab_nightshift.policy.gates import allows_any_command
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
    format_last_sections,
    format_report_instructions,
)
from gitlab_nightshift.stages.work.boundary import Boundary
from gitlab_nightshift.stages.work.cited_files import PathResolver
from gitlab_nightshift.stages.work.gateway_access import BeadAccess, ModelAccess, compute_drain_s
from gitlab_nightshift.stages.work.handoff import (
    HANDOFF_TYPES,
    HandoffResult,
    accept_handoff,
    build_schema,
    write_stub,
)
from gitlab_nightshift.stages.work.hidden_files import hide_files
from gitlab_nightshift.stages.work.run_budget import Ledger, Stop, Watch
from gitlab_nightshift.stages.work.tool_use import merge_calls
from gitlab_nightshift.stages.work.work_context import WorkContext
from gitlab_nightshift.system.environment import TRUSTED_CHECKOUTS, build_bead_env
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
    writes its report to ``handoff_file``; in the others it reads Analyze's result and the last
    attempt's change (no ``patch_file`` if there was none)."""

    home: Path
    tmp: Path
    handoff_file: Path
    analysis_file: Path
    patch_file: Path


@dataclass(frozen=True)
class BeadContext:
    """What all beads of a run share.

    ``paths`` resolves the paths that beads name, ``brief`` is the description of the repository in
    every prompt, ``hidden`` are files that are removed from the checkout while an agent works.
    """

    work: WorkContext
    provider: AgentProvider
    templates: Mapping[str, str]
    ledger: Ledger
    access: ModelAccess
    boundary: Boundary
    record_bead: Callable[[BeadTask, ProgramEnd, Path], None]
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
    analysis_json: str,
    sections: Mapping[str, str],
    last_patch: bytes,
) -> BeadResult:
    """Run one bead to its end. A crash, a timeout or a bad hand-off is a result.

    ``values`` fill the placeholders, ``analysis_json`` is Analyze's result, ``sections`` (title →
    text) follow the template, ``last_patch`` is the last attempt's change. Raises :class:`Stop` if
    the budget or the time is used up or the provider unusable; :class:`NightshiftError` if the CLI
    cannot be started or the disk is full.
    """
    ledger, boundary = bead_context.ledger, bead_context.boundary
    ledger.check()
    # What earlier agents wrote is already deleted: a disk that is still full will stay full.
    bead_context.disks.check()
    bead_context.work.logs.reserve.allocate()
    name = f"{len(ledger.results) + 1:02}-{bead}-{category}-{attempt}"
    folder = boundary.scratch / name
    try:
        with report_full_disk(*bead_context.disks.folders):
            scratch = _make_scratch(folder, bead, analysis_json, last_patch)
            task = _build_task(bead_context, bead, category, attempt, scratch)
            for file, text in bead_context.provider.build_files(task).items():
                scratch.handoff_file.with_name(file).write_text(text, encoding="utf-8")
            boundary.give_to_agents(folder)
            limit = ledger.compute_budget_left()
            with bead_context.access.open_bead(name, task.model, limit) as access:
                task = dataclasses.replace(task, base_url=access.base_url)
                process = _AgentProcess(bead_context, task, name, scratch, access)
                result: BeadResult = limit_record(process.run(values, sections))
    finally:
        remove_tree(folder)
    ledger.results.append(result)
    bead_context.work.emit(BeadEnded(result))
    _check_run_continues(ledger, result)
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
        any_command=allows_any_command(bead_context.work.settings),
        budget_tokens=left.tokens,
        left_s=bead_context.ledger.compute_left_s(),
        hidden=bead_context.hidden,
    )


@dataclass
class _AgentProcess:
    """One run of the agent's process, from its prompt to the bead's result."""

    bead_context: BeadContext
    task: BeadTask
    name: str
    scratch: _Scratch
    access: BeadAccess

    def __post_init__(self) -> None:
        context = self.bead_context
        self.reader = context.provider.build_reader()
        self.watch = Watch(context.work, context.ledger, context.disks, self.reader, self.access)

    def run(self, values: Mapping[str, str], sections: Mapping[str, str]) -> BeadResult:
        prompt = self._render_prompt(values, sections)
        started = read_clock()
        self.bead_context.work.emit(ProgramStarted(f"{AGENT}{self.task.bead}"))
        try:
            return self._finish_bead(self._run_process(prompt))
        except ProgramStartError as error:
            reason = f"the agent cannot be started: {error.strerror}"
            raise NightshiftError(Code.PROVIDER_UNAVAILABLE, reason) from None
        except (Interruption, OSError) as error:
            # The bead's cost counts all the same. As for subprocess.Popen.returncode, a negative
            # status means that a signal ended the process.
            ended = ProgramEnd(EndReason.STOPPED, -signal.SIGTERM, read_clock() - started)
            report = self.reader.build_report(ended, b"")
            text = str(error) if isinstance(error, OSError) else "stopped by a signal"
            report = dataclasses.replace(report, error=text)
            self.bead_context.ledger.results.append(self._settle_result(report, ended, wait_s=0))
            raise

    def _render_prompt(self, values: Mapping[str, str], sections: Mapping[str, str]) -> BeadPrompt:
        context, scratch = self.bead_context, self.scratch
        files = {
            "handoff_file": str(scratch.handoff_file),
            "analysis_file": str(scratch.analysis_file),
            "last_patch_file": str(scratch.patch_file) if scratch.patch_file.exists() else "",
        }
        instructions = ""
        if self.task.schema:
            report_by = context.provider.info.report_by
            instructions = format_report_instructions(report_by, files["handoff_file"])
        last_sections = format_last_sections(context.ledger, sections, instructions)
        template = context.templates[self.task.bead]
        return build_bead_prompt(template, {**values, **files}, context.brief, last_sections)

    def _finish_bead(self, ended: ProgramEnd) -> BeadResult:
        emit, logs = self.bead_context.work.emit, self.bead_context.work.logs
        program, took_s = f"{AGENT}{self.task.bead}", round(ended.duration_s, 3)
        emit(ProgramEnded(program, ended.exit_status, took_s))
        self.bead_context.record_bead(self.task, ended, logs.find_log(f"{self.name}.out"))
        stderr = logs.read_tail(f"{self.name}.err", STDERR_TAIL)
        report = self.watch.override_report(self.reader.build_report(ended, stderr))
        if report.note:
            emit(Note(f"{self.task.bead}: {report.note}"))
        timeout_s = self.bead_context.work.settings.bead_timeout
        wait_s = compute_drain_s(ended, timeout_s, self.bead_context.ledger.compute_left_s())
        return self._settle_result(report, ended, wait_s)

    def _run_process(self, prompt: BeadPrompt) -> ProgramEnd:
        work, provider, task = self.bead_context.work, self.bead_context.provider, self.task
        with (
            work.logs.open_logs(f"{self.name}.out", f"{self.name}.err") as (out, err),
            # The innermost, so that the files are missing only while the agent runs.
            hide_files(task.checkout, self.bead_context.hidden),
        ):
            return stream(
                provider.build_bead_args(task, work.search_path),
                cwd=task.checkout,
                env=self._build_environment(),
                stdin=provider.build_stdin(prompt.shared, prompt.rest),
                stdout=out,
                stderr=err,
                limits=self._build_limits(),
                on_line=self.watch.handle_line,
                on_tick=self.watch.tick,
                boundary=self.bead_context.boundary.build_confinement(
                    task.checkout, self.scratch.home.parent
                ),
            )

    def _settle_result(self, report: BeadReport, ended: ProgramEnd, wait_s: float) -> BeadResult:
        # The gateway's count replaces the CLI's: an agent may say what it likes of its cost.
        if usage := self.access.settle_usage(wait_s):
            report = dataclasses.replace(report, usage=usage)
        task, result = self.task, HandoffResult(report.status, report.error)
        if report.status is BeadStatus.OK and task.bead in HANDOFF_TYPES:
            file = self.scratch.handoff_file
            result = accept_handoff(task.bead, report, file, self.bead_context.paths)
        if result.note:
            self.bead_context.work.emit(Note(f"{task.bead}: {result.note}"))
        denied = (*report.denied, *report.refused, *(f"sandbox: {what}" for what in ended.refused))
        find_log = self.bead_context.work.logs.find_log
        # No command can forge the report of an agent that starts none.
        trusted = not self.bead_context.provider.info.runs_commands
        return BeadResult(
            bead=task.bead,
            category=task.category,
            attempt=task.attempt,
            model=task.model,
            status=result.status,
            usage=report.usage,
            duration_s=round(ended.duration_s, 3),
            error=result.error[:LONGEST_TEXT],
            handoff=result.handoff,
            denied=tuple(what[:LONGEST_TEXT] for what in denied[:MOST_DENIED]),
            logs=tuple(f"logs/{find_log(f'{self.name}.{kind}').name}" for kind in ("out", "err")),
            # One character too many, so that delegation_records.cut sees that it was cut.
            said=report.last_message[: LONGEST_TEXT + 1],
            missing=report.missing,
            tools=merge_calls(self.access.list_calls(), report.calls, trusted=trusted),
        )

    def _build_environment(self) -> dict[str, str]:
        work, boundary = self.bead_context.work, self.bead_context.boundary
        env = build_bead_env(
            work.env,
            work.settings.agent_env,
            home=self.scratch.home,
            tmp=self.scratch.tmp,
            checkout=work.checkout,
            program_folders=boundary.program_folders,
        )
        return {
            **env,
            "PATH": boundary.build_agent_path(env["PATH"]),
            **boundary.build_git_env(),
            **self.bead_context.provider.build_settings_env(),
            **self.access.env,
        }

    def _build_limits(self) -> ProcessLimits:
        settings = self.bead_context.work.settings
        timeouts_s = (settings.bead_timeout, self.bead_context.ledger.compute_left_s())
        return ProcessLimits(
            timeout_s=min((each for each in timeouts_s if each is not None), default=None),
            idle_s=settings.idle_timeout,
            output_bytes=settings.max_output,
        )


def _check_run_continues(ledger: Ledger, result: BeadResult) -> None:
    """Raise Stop if no bead can follow."""
    if result.status is BeadStatus.UNAVAILABLE:
        raise Stop(Outcome.FAILED, result.error, Code.PROVIDER_UNAVAILABLE)
    if result.status is BeadStatus.BUDGET:
        raise ledger.build_budget_stop()
    if result.status is BeadStatus.TIMEOUT and ledger.is_late():
        raise ledger.build_deadline_stop()


def _make_scratch(folder: Path, bead: str, analysis_json: str, last_patch: bytes) -> _Scratch:
    home, tmp, handoff = (folder / name for name in ("home", "tmp", "handoff"))
    for path in (folder, home, tmp, handoff):
        path.mkdir(mode=0o700)
    # Older versions of git read safe.directory only from the user's or the system's settings, not
    # from variables (git's Documentation/config/safe.txt).
    (home / ".gitconfig").write_text(TRUSTED_CHECKOUTS)
    files = (handoff / name for name in ("handoff.json", "analysis.json", "last.patch"))
    scratch = _Scratch(home, tmp, *files)
    write_stub(bead, scratch.handoff_file)
    scratch.analysis_file.write_text(analysis_json, encoding="utf-8")
    if last_patch:
        scratch.patch_file.write_bytes(last_patch)
        scratch.patch_file.chmod(0o444)
    return scratch
