"""A rehearsal: all steps of a night that cost no tokens, in the real job, to see what is missing.

It is the night's workflow with other steps: a problem that would end a night is only noted, so that
one job reports all problems.
"""

import dataclasses
import shlex
from dataclasses import dataclass, field

from gitlab_nightshift.agents import build_provider
from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.proof.proof_commands import Runner
from gitlab_nightshift.records.events import Note, StepEnded, StepStarted
from gitlab_nightshift.records.products import Outcome, Plan
from gitlab_nightshift.repository.checkout import Checkout
from gitlab_nightshift.stages.work.baseline import (
    Baseline,
    find_missing_programs,
    find_unreadable_paths,
    run_baseline,
)
from gitlab_nightshift.stages.work.bead_prompt import load_templates, preview_prompts
from gitlab_nightshift.stages.work.night import Night
from gitlab_nightshift.stages.work.night_ending import Ending
from gitlab_nightshift.stages.work.tool_access import find_tool_folders
from gitlab_nightshift.stages.work.work_context import WorkContext
from gitlab_nightshift.stages.work.workflows import (
    AgentSetup,
    Workflow,
    find_agent_program,
    prepare_agent,
)

VERSION_S = 60.0
"""Seconds that the CLI may take to print its version."""
LONGEST_VERSION = 80
"""Characters."""
READY = "rehearsed: a night can start here"
NEXT = "Next: a dry run (dry_run: true), then the schedule"


@dataclass
class Rehearsal:
    """The problems found so far: ``errors`` would fail a night, ``skips`` would skip it."""

    plan: Plan
    errors: list[NightshiftError] = field(default_factory=list)
    skips: list[str] = field(default_factory=list)

    def prepare(self, work_context: WorkContext) -> AgentSetup:
        """Set up the agent; without its CLI or key the rehearsal continues."""
        try:
            return prepare_agent(work_context)
        except NightshiftError as error:
            self._note_error(work_context, error)
        return AgentSetup(build_provider(work_context.settings), load_templates(work_context))

    def run_baseline(
        self, work_context: WorkContext, checkout: Checkout, runner: Runner
    ) -> Baseline:
        """Run the baseline; whatever its result, the rehearsal continues."""
        try:
            baseline = run_baseline(work_context, checkout, runner)
        except NightshiftError as error:
            self._note_error(work_context, error)
            return Baseline()
        if baseline.skip:
            self.skips.append(baseline.skip)
        return dataclasses.replace(baseline, skip="", incomplete="")

    def report_needs(self, night: Night) -> Ending:
        """Report the agent, the tools, the prompts and all problems; no bead is run."""
        night.emit(StepStarted("rehearsal", "Rehearsal · what a night needs"))
        agent, tools = self._describe_agent(night), self._describe_tools(night)
        brief = night.bead_context.brief
        prompts = preview_prompts(night.bead_context.work, self.plan, brief)
        sizes = ", ".join(f"{bead} {len(text):,}" for bead, text in prompts.items())
        for text in (agent, tools, f"prompts, in characters: {sizes}"):
            night.emit(Note(text))
        ending = self._build_ending()
        night.emit(StepEnded("rehearsal", not (self.errors or self.skips), ending.reason))
        return ending

    def _describe_agent(self, night: Night) -> str:
        """The agent, with the version that its CLI reports inside the sandbox."""
        provider, work_context = night.bead_context.provider, night.bead_context.work
        if not provider.info.cli:
            return f"agent {provider.name}: part of this program"
        runner, program = night.proof.runner, find_agent_program(work_context, provider)
        ended = runner.run((str(program), "--version"), "agent-version", at_most_s=VERSION_S)
        if ended.ok:
            output = runner.logs.read_tail("agent-version.out", 4_000).decode("utf-8", "replace")
            version = next(iter(output.strip().splitlines()), "version not reported")
            return f"agent {provider.name}: {version[:LONGEST_VERSION]}"
        # A CLI that is missing has been noted already.
        if not any(error.code is Code.PROVIDER_UNAVAILABLE for error in self.errors):
            how = ended.error or f"exit status {ended.exit_status}"
            text = f"the agent's CLI does not run in the sandbox: {program}: {how}"
            self._note_error(work_context, NightshiftError(Code.PROVIDER_UNAVAILABLE, text))
        return f"agent {provider.name}: its CLI does not run here"

    def _describe_tools(self, night: Night) -> str:
        """The programs and folders that the sandbox shows. Adds what it lacks to ``skips``."""
        runner, work_context = night.proof.runner, night.bead_context.work
        settings = work_context.settings
        missing = find_missing_programs(runner, work_context.allowed_commands, "lookup-programs")
        if missing and settings.allowed_commands is not None:
            text = f"allowed_commands: not found in the commands' environment: {', '.join(missing)}"
            self.skips.append(f"{text}; agents will not find them")
        paths = find_tool_folders(settings, work_context.env, work_context.job_folders)
        unreadable = find_unreadable_paths(runner, paths)
        if unreadable:
            names = ", ".join(map(str, unreadable))
            self.skips.append(f"agent_paths: not readable inside the sandbox: {names}")
        programs = {shlex.split(command)[0] for command in work_context.allowed_commands}
        visible = ", ".join(sorted(programs.difference(missing))) or "none"
        readable = ", ".join(str(path) for path in paths if path not in unreadable) or "none"
        return f"seen from inside the sandbox: {visible}; agent_paths: {readable}"

    def _note_error(self, work_context: WorkContext, error: NightshiftError) -> None:
        self.errors.append(error)
        work_context.emit(Note(f"{error.code}: {error.message}", warning=True))

    def _build_ending(self) -> Ending:
        """An error fails the job as it would a night's; a skip is only a warning."""
        category = self.plan.scheduled or "none"
        problems = [*(error.message.rstrip(".") for error in self.errors), *self.skips]
        count = f"{len(problems)} things" if len(problems) > 1 else "one thing"
        why = f"rehearsed: {count} to fix before a night: {'; '.join(problems)}"
        if self.errors:
            return Ending(Outcome.FAILED, why, category, error_code=self.errors[0].code.value)
        if self.skips:
            return Ending(Outcome.SKIPPED, why, category, incomplete=why)
        today = f" (today it would not: {self.plan.skip})" if self.plan.skip else ""
        return Ending(Outcome.SKIPPED, f"{READY}{today}. {NEXT}", category)


def build_rehearsal(plan: Plan) -> Workflow:
    """The rehearsal's steps, for ``work_stage.py: work``."""
    rehearsal = Rehearsal(plan)
    return Workflow(
        rehearsal.run_baseline,
        rehearsal.report_needs,
        prepare=rehearsal.prepare,
        runs_unscheduled=True,
    )
