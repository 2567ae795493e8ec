"""A commit that is checked out, tried without a night or an agent: what only running can show."""

import time
from dataclasses import dataclass

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.events import StepEnded, StepStarted
from gitlab_nightshift.host.repository import tree_of
from gitlab_nightshift.records import Check, CommandResult, Finding
from gitlab_nightshift.verdict.change import Context, read_change
from gitlab_nightshift.verdict.commands import Runner, failure_text, run_commands
from gitlab_nightshift.verdict.evidence import Lab, Subject, deadline, flaky, gather, raised
from gitlab_nightshift.verdict.evidence.lab import Evidence
from gitlab_nightshift.work.room import Room, Site, open_room


@dataclass(frozen=True)
class Tried:
    """What was run on the commit and seen of it, and the boundary that it ran in."""

    commands: tuple[CommandResult, ...]
    checks: tuple[Check, ...]
    findings: tuple[Finding, ...]
    isolation: str


def try_commit(
    site: Site, base: str, commit: str, context: Context, commands: tuple[str, ...]
) -> Tried:
    """Run ``commands`` on the commit, then gather evidence against ``base``, in the checkout of
    ``site``, which is put back. The code of the change runs in the boundary, as in a night.

    Raises NightshiftError E_CONFIG where another commit is checked out, E_WORKSPACE_DIRTY.
    """
    with open_room(site) as room:
        if room.checkout.base_sha != commit:
            raise NightshiftError(Code.CONFIG, f"--run: check {commit[:12]} out first")
        with room.opened() as (boundary, _egress, runner):
            results, failing = _commands(room, runner, base, context, commands)
            seen = Evidence() if failing else _evidence(room, runner, base, context, commands)
            findings = (*failing, *flaky(results, context), *seen.findings)
            return Tried(results, seen.checks, findings, str(boundary))


def _commands(
    room: Room, runner: Runner, base: str, context: Context, commands: tuple[str, ...]
) -> tuple[tuple[CommandResult, ...], tuple[Finding, ...]]:
    """The commands on the commit; where one fails, on the base too: it may have failed before."""
    if not commands:
        return (), ()
    room.site.emit(StepStarted("checks", "The project's own tests"))
    results = run_commands(runner, commands, "checks", room.checkout.put_back)
    failed = failure_text(runner, results, "checks").partition("\n")[0]
    room.site.emit(StepEnded("checks", not failed, failed or f"{len(results)} passed"))
    if not failed:
        return results, ()
    room.checkout.lay_tree(tree_of(room.checkout.repository, base))
    before = run_commands(runner, [results[-1].command], "before", lambda: None)
    if before[0].ok:
        return results, raised("tests-fail", context, "", 0, failed)
    text = f"{failed} It fails without the change as well."
    return results, raised("tests-fail", context, "", 0, text, "warn")


def _evidence(
    room: Room, runner: Runner, base: str, context: Context, commands: tuple[str, ...]
) -> Evidence:
    repository = room.checkout.repository
    old, new = tree_of(repository, base), tree_of(repository, room.checkout.base_sha)
    subject = Subject(old, new, read_change(repository, old, new), context)
    end = deadline(room.site.left_s()) if room.site.left_s() else time.monotonic() + 300
    return gather(subject, Lab(room.checkout, runner, commands, "evidence", end))
