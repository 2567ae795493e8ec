"""A rehearsal: all of a night that costs no token, in the real job, and what is still missing.

It is the night's own workflow with other steps: what would end a night is noted, and the next thing
looked at, so that one job tells everything.
"""

import dataclasses
import shlex
from dataclasses import dataclass, field

from gitlab_nightshift.agents import build_provider
from gitlab_nightshift.agents.agent import Provider
from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.proof.proof_commands import Runner
from gitlab_nightshift.records.events import Note, StepEnded, StepStarted
from gitlab_nightshift.records.products import Outcome, Plan
from gitlab_nightshift.repository.checkout import Checkout
from gitlab_nightshift.stages.work.baseline import Baseline, run_baseline
from gitlab_nightshift.stages.work.command_lookup import (
    find_missing_programs,
    find_unreadable_places,
)
from gitlab_nightshift.stages.work.night_bead import Night
from gitlab_nightshift.stages.work.night_ending import Ending
from gitlab_nightshift.stages.work.prompt_preview import load_templates, preview_prompts
from gitlab_nightshift.stages.work.tool_access import JobFolders, find_tool_folders
from gitlab_nightshift.stages.work.work_context import WorkContext
from gitlab_nightshift.stages.work.work_preparation import Tools, find_agent_program, prepare
from gitlab_nightshift.stages.work.work_stage import Workflow

VERSION_S, LONGEST_VERSION = 60.0, 80
READY = "rehearsed: a night can start here"
NEXT = "Next: a dry run (dry_run: true), then the schedule"


@dataclass
class Rehearsal:
    """What was seen. ``errors`` would end a night, ``skips`` would leave it out."""

    plan: Plan
    errors: list[NightshiftError] = field(default_factory=list)
    skips: list[str] = field(default_factory=list)
    place: WorkContext | None = None

    def prepare(self, place: WorkContext) -> Tools:
        """Templates, the agent's CLI and key; without a key the rehearsal goes on."""
        self.place = place
        try:
            return prepare(place)
        except NightshiftError as error:
            self._note_error(place, error)
        return Tools(build_provider(place.settings), load_templates(place))

    def run_baseline(self, place: WorkContext, checkout: Checkout, runner: Runner) -> Baseline:
        """The baseline, whatever it says: the rehearsal goes on."""
        try:
            found = run_baseline(
                place.verify, place.settings.baseline, checkout, runner, place.emit
            )
        except NightshiftError as error:
            self._note_error(place, error)
            return Baseline()
        if found.skip:
            self.skips.append(found.skip)
        return dataclasses.replace(found, skip="", incomplete="")

    def look(self, night: Night) -> Ending:
        """In place of the first bead: the CLI's version, tools and caches, prompts; the verdict."""
        assert self.place
        night.emit(StepStarted("rehearsal", "Rehearsal · what a night needs"))
        for text in (
            self._describe_agent(night, self.place),
            self._describe_tools(night, self.place),
            self._describe_prompts(night, self.place),
        ):
            night.emit(Note(text))
        ending = self._build_ending()
        night.emit(StepEnded("rehearsal", not (self.errors or self.skips), ending.reason))
        return ending

    def _describe_agent(self, night: Night, place: WorkContext) -> str:
        provider = night.bead_context.provider
        if not provider.about.program:
            return f"agent {provider.name}: part of this program"
        version = self._read_version(night, place, provider)
        return f"agent {provider.name}: {version or 'its CLI does not run here'}"

    def _read_version(self, night: Night, place: WorkContext, provider: Provider) -> str:
        """What the CLI says of its version, asked inside the sandbox."""
        runner, program = night.proof.runner, find_agent_program(place, provider)
        done = runner.run((str(program), "--version"), "agent-version", at_most_s=VERSION_S)
        lines = runner.logs.read_tail("agent-version.out", 4_000).decode("utf-8", "replace")
        if done.ok:
            return next(iter(lines.strip().splitlines()), "says no version")[:LONGEST_VERSION]
        if not any(error.code is Code.PROVIDER_UNAVAILABLE for error in self.errors):
            how = done.error or f"exit status {done.exit_status}"
            text = f"the agent's CLI does not run in the sandbox: {program}: {how}"
            self._note_error(place, NightshiftError(Code.PROVIDER_UNAVAILABLE, text))
        return ""

    def _describe_tools(self, night: Night, place: WorkContext) -> str:
        """Programs and folders, as they are seen from inside the sandbox."""
        runner, settings = night.proof.runner, place.settings
        missing = find_missing_programs(runner, place.allowed_commands, "lookup-programs")
        if missing and settings.allowed_commands is not None:
            text = f"allowed_commands: not found in the commands' environment: {', '.join(missing)}"
            self.skips.append(f"{text}; agents will not find them")
        folders = JobFolders(place.home, place.checkout.resolve(), place.private)
        places = tuple(dict.fromkeys(find_tool_folders(settings, place.env, folders)))
        closed = find_unreadable_places(runner, places)
        if closed:
            names = ", ".join(map(str, closed))
            self.skips.append(f"agent_paths: not readable inside the sandbox: {names}")
        words = [shlex.split(command)[0] for command in place.allowed_commands]
        found = sorted({word for word in words if word not in missing})
        readable = [str(each) for each in places if each not in closed]
        programs = ", ".join(found) or "none"
        named = ", ".join(readable) or "none"
        return f"seen from inside the sandbox: {programs}; agent_paths: {named}"

    def _describe_prompts(self, night: Night, place: WorkContext) -> str:
        rendered = preview_prompts(place, self.plan, night.bead_context.brief)
        sizes = {bead: len(text) for bead, text in rendered.items()}
        shown = ", ".join(f"{bead} {size:,}" for bead, size in sizes.items())
        return f"prompts, in characters: {shown}"

    def _note_error(self, place: WorkContext, error: NightshiftError) -> None:
        self.errors.append(error)
        place.emit(Note(f"{error.code}: {error.message}", warning=True))

    def _build_ending(self) -> Ending:
        """A mistake fails as it would a night's job; what would be left out is a warning."""
        category = self.plan.scheduled or "none"
        missing = [*(error.message.rstrip(".") for error in self.errors), *self.skips]
        count = f"{len(missing)} things" if len(missing) > 1 else "one thing"
        why = f"rehearsed: {count} to fix before a night: {'; '.join(missing)}"
        if self.errors:
            return Ending(Outcome.FAILED, why, category, error_code=self.errors[0].code.value)
        if self.skips:
            return Ending(Outcome.SKIPPED, why, category, incomplete=why)
        today = f" (today it would not: {self.plan.skip})" if self.plan.skip else ""
        return Ending(Outcome.SKIPPED, f"{READY}{today}. {NEXT}", category)


def build_rehearsal(plan: Plan) -> Workflow:
    """The rehearsal's steps, for ``work_stage.py: work``."""
    made = Rehearsal(plan)
    return Workflow(made.run_baseline, made.look, made.prepare, any_day=True)
