"""The notary: runs the commands that prove a change again, in a process that holds no secret and
has read nothing from an agent except the change.

It starts after the last process of work, with the plan's commands and the patch. A separate
process parses the patch (``repository/bundle_reader.py``); the changed files go into the restored
checkout, and the commands run in the night's sandbox. Their output is passed on unread; only their
exit status and duration count.
"""

import base64
import dataclasses
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.gateway.gateway_client import RemoteGateway
from gitlab_nightshift.proof.proof_commands import DISK_FULL, Runner
from gitlab_nightshift.records.codec import make_record, to_data
from gitlab_nightshift.records.delegation_records import Payload
from gitlab_nightshift.records.events import (
    CommandEnded,
    Emit,
    Event,
    Note,
    StepEnded,
    StepStarted,
    read_clock,
)
from gitlab_nightshift.records.notary_records import NotarizedCommand, NotarizedRun
from gitlab_nightshift.repository.checkout import Checkout
from gitlab_nightshift.repository.delegated_repository import open_source_record
from gitlab_nightshift.repository.git import read_conversion_config
from gitlab_nightshift.repository.git_formats import list_object_folders
from gitlab_nightshift.repository.private_repository import PLAIN_MODES, RepositoryParts
from gitlab_nightshift.repository.rebuilt_change import ReaderInput, rebuild_patch, write_change
from gitlab_nightshift.repository.tree_objects import resolve_tree
from gitlab_nightshift.stages.work.delegation.delegation_source import make_workspace
from gitlab_nightshift.stages.work.sandboxed_checkout import SandboxContext, open_sandboxed_checkout
from gitlab_nightshift.stages.work.work_context import WorkContext
from gitlab_nightshift.stages.work.work_start import WorkResources, serve_work
from gitlab_nightshift.wire.sent_logs import pass_logs

TIME_FACTOR, SLACK_S = 3.0, 60.0
"""A command may take ``TIME_FACTOR`` times its duration before the change, plus ``SLACK_S``."""
LONGEST_S = 3600.0
"""Seconds for a command whose duration before the change is unknown."""
STEP = "notary"
MOST_UNRESTORED, LONGEST_TEXT = 10, 1_000
"""Unrestored paths in the answer, and characters of a text: no more than its record allows."""
SHA256_DIGITS = 64
"""Hex digits of a SHA-256 object id."""
LeftSeconds = Callable[[], float | None]
"""Returns the seconds left; None without a deadline."""


@dataclass(frozen=True)
class NotaryTask:
    """What to run: ``commands`` on the tree that ``patch`` turns ``base`` into, which must be
    ``tree`` ("": any). ``config`` is the repository's (``git.read_conversion_config``).

    ``usual_s`` (seconds that each command took before the change) and ``flaky`` are work's claims:
    they decide only on a command's time limit, and whether it is run again. Commands in
    ``may_be_red`` may fail on the change if they also fail without it, which is then tried.
    """

    base: str
    tree: str
    patch: bytes
    config: Mapping[str, str]
    commands: tuple[str, ...]
    may_be_red: frozenset[str] = frozenset()
    usual_s: Mapping[str, float] | None = None
    flaky: frozenset[str] = frozenset()


def main(data: Mapping[str, Any]) -> int:
    """Run as a process (``sandbox/supervised_process.py``). With ``data["ahead"]`` the system is
    searched while the checkout, which is part of the input, is still being prepared."""
    return serve_work(
        _run_commands,
        walk_early=data["ahead"],
        open_logs=pass_logs,
        log_prefix=lambda inputs: f"{inputs['name']}-",
    )


def _run_commands(resources: WorkResources, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """What the notary adds to its record (``records/notary_records.py``): its results, or ``why``
    the commands could not run."""
    until_s = inputs["context"]["until_s"]

    def compute_left_s() -> float | None:
        return None if until_s is None else until_s - read_clock()

    try:
        work_context, config = _open_checkout(inputs, resources.work_context)
        data = inputs["task"]
        task = NotaryTask(
            base=data["base"],
            tree=data["tree"],
            patch=base64.b64decode(data["patch"]),
            config=config,
            commands=tuple(data["commands"]),
            may_be_red=frozenset(data["may_be_red"]),
            usual_s=data["usual"],
            flaky=frozenset(data["flaky"]),
        )
        return _notarize(task, work_context, resources.gateway, compute_left_s)
    except NightshiftError as error:
        return {"why": error.message}


def _open_checkout(
    inputs: Mapping[str, Any], work_context: WorkContext
) -> tuple[WorkContext, Mapping[str, str]]:
    """The context with the checkout to run in, and the repository's configuration: the prepared
    checkout of a run, or a new workspace like that of a delegation's work."""
    assert work_context.prepared
    if work_context.prepared.checkout:
        return work_context, work_context.prepared.checkout.config
    source = open_source_record(inputs["source"], work_context.private)
    path = Path(inputs["scratch"], "notary", source.top.name or "checkout")
    path.parent.mkdir()
    payload, base = make_record(Payload, inputs["payload"]), inputs["task"]["base"]
    workspace = make_workspace(source, payload, base, path, work_context.settings.output_dir)
    config = read_conversion_config(source.git, source.top)
    return dataclasses.replace(work_context, checkout=workspace.path), config


def _notarize(
    task: NotaryTask, work_context: WorkContext, gateway: RemoteGateway | None, left_s: LeftSeconds
) -> dict[str, Any]:
    """Run the commands on the change, up to the first that is not accepted, in the prepared or
    private checkout of ``work_context``.

    Raises NightshiftError if they cannot run: no sandbox, no time, no such change.
    """
    emit = work_context.emit
    emit(StepStarted(STEP, "The commands once more, on the change alone"))

    def pass_warnings(event: Event) -> None:
        if isinstance(event, Note) and event.warning:
            emit(event)

    quiet = replace(work_context, emit=pass_warnings)  # work has already reported the boundary
    context = SandboxContext(quiet, gateway, STEP, (), left_s)
    with (
        open_sandboxed_checkout(context) as sandboxed,
        sandboxed.open_runner() as (boundary, _, runner),
    ):
        tree = _rebuild_change(task, work_context, sandboxed.checkout)
        trial = _Trial(task, tree, sandboxed.checkout, runner, left_s, emit)
        results = tuple(trial.run_all())
    accepted = sum(result.accepted for result in results)
    passed = sum(result.ok for result in results)
    text = f"{passed} of {len(task.commands)} commands passed"
    if red := accepted - passed:
        text += f", {red} {'fails' if red == 1 else 'fail'} without the change as well"
    emit(StepEnded(STEP, accepted == len(task.commands), text))
    return {
        "tree_id": tree,
        "commands": to_data(results),
        "isolation": str(boundary)[:LONGEST_TEXT],
        "unrestored": list(trial.unrestored)[:MOST_UNRESTORED],
    }


def _rebuild_change(task: NotaryTask, work_context: WorkContext, checkout: Checkout) -> str:
    """Rebuild the change in the private repository of ``checkout``, as the process that parses the
    patch reports it. Returns its tree's id. Raises NightshiftError if the task's is another."""
    repository = checkout.repository.folder
    attributes = repository / "info/attributes"
    parts = RepositoryParts(
        objects=list_object_folders(repository / "objects"),
        object_format="sha256" if len(task.base) == SHA256_DIGITS else "sha1",
        attributes=attributes.read_bytes() if attributes.exists() else b"",
    )
    reading = ReaderInput(parts, task.config, work_context.private, work_context.search_path)
    rebuilt = rebuild_patch(reading, task.base, task.patch)
    if rebuilt.refused:
        raise NightshiftError(Code.PUBLISH, rebuilt.refused)
    if task.tree not in ("", rebuilt.tree) or not rebuilt.files:
        raise NightshiftError(Code.PUBLISH, "base plus change.patch is another tree")
    # A symbolic link could lead out of the checkout.
    if any(file.mode not in PLAIN_MODES for file in rebuilt.files):
        raise NightshiftError(Code.PUBLISH, "the change contains a symbolic link or a submodule")
    write_change(checkout.repository, rebuilt, task.base)
    return rebuilt.tree


@dataclass(frozen=True)
class _Trial:
    """The runs of the commands in one checkout, on ``tree`` and without it. Between them the files
    ``unrestored`` could not be restored."""

    task: NotaryTask
    tree: str
    checkout: Checkout
    runner: Runner
    left_s: LeftSeconds
    emit: Emit
    unrestored: dict[str, None] = field(default_factory=dict)

    def run_all(self) -> Iterator[NotarizedCommand]:
        """Run each command, up to the first that is not accepted."""
        self._apply(self.tree)
        for number, command in enumerate(self.task.commands, 1):
            result = self._run_command(command, str(number))
            yield result
            if not result.accepted:
                return
            if result.base:
                self._apply(self.tree)

    def _run_command(self, command: str, log: str) -> NotarizedCommand:
        runs = [self._run(command, log)]
        if not runs[0].ok and command in self.task.flaky:
            self._apply(self.tree)
            runs.append(self._run(command, f"{log}-again"))
        result = NotarizedCommand(command, tuple(runs))
        if not result.ok and command in self.task.may_be_red:
            # The change's code has run already: what it left behind could make the base fail, so
            # the command runs in a new HOME, and only if all files could be restored.
            self.runner.renew()
            if self._apply(self.task.base):
                self.emit(Note(f"once more, without the change: {command}"))
                return replace(result, base=self._run(command, f"{log}-base"))
        return result

    def _run(self, command: str, log: str) -> NotarizedRun:
        usual_s = (self.task.usual_s or {}).get(command)
        at_most_s = LONGEST_S if usual_s is None else SLACK_S + TIME_FACTOR * usual_s
        done = self.runner.run(shlex.split(command), log, at_most_s=at_most_s)
        left_s = self.left_s()
        if done.exit_status is None and left_s is not None and left_s <= 0:
            raise NightshiftError(Code.TIMEOUT, f"the run had no time left for `{command}`")
        if done.error == DISK_FULL:
            raise NightshiftError(Code.CONFIG, f"{DISK_FULL} when `{command}` ran")
        self.emit(CommandEnded(replace(done, command=command)))
        return NotarizedRun(done.exit_status, done.duration_s, done.error)

    def _apply(self, tree: str) -> bool:
        """Restore the checkout, then apply this tree; True if everything could be restored."""
        unrestored = self.checkout.apply_tree(resolve_tree(self.checkout.repository, tree))
        self.unrestored.update(dict.fromkeys(unrestored))
        return not unrestored
