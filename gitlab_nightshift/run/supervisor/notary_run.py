"""Runs the notary once every process of work is gone, and writes its record.

The notary gets only those claims of work that cannot make a command pass: how long each command
took before the change, and which were flaky.
"""

import base64
import contextlib
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.records.bead_results import CommandResult
from gitlab_nightshift.records.codec import InvalidRecordError, make_record
from gitlab_nightshift.records.notary_records import NOTARY, NotarizedCommand, NotaryRecord
from gitlab_nightshift.records.products import Bundle, Outcome
from gitlab_nightshift.records.storage import LARGEST_PATCH, map_texts, write_record
from gitlab_nightshift.run.supervisor.confined_stage import read_isolation
from gitlab_nightshift.run.supervisor.failure_records import build_lost_error
from gitlab_nightshift.run.supervisor.stop_signals import Signals
from gitlab_nightshift.run.supervisor.workers import WorkerAnswer, Workers
from gitlab_nightshift.sandbox import process_table

MAX_TEXT_CHARS, MAX_LINES = 1_000, 20
"""Limits of a record's texts, and of its list of what was not restored."""
NOT_FINISHED = "this run was ended before"
"""The reason in the record of a run that is killed while its notary runs."""
Ask = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Passes a task to the notary's process, and returns its answer."""


@dataclass(frozen=True)
class NotaryOrder:
    """What to run: the commands in work's ``context``, on the tree that a bundle's patch makes of
    the commit ``base``. That tree must have the id ``tree`` ("": any). ``baseline`` are the results
    on ``base`` that work claims; ``unrestored`` says what could not be restored after work."""

    run_id: str
    base: str
    tree: str
    context: Mapping[str, Any]
    baseline: tuple[CommandResult, ...] = ()
    unrestored: tuple[str, ...] = ()

    def build_record(self, why: str = "") -> NotaryRecord:
        """The record before anything has run; ``why`` is the reason if nothing will."""
        return NotaryRecord(
            self.run_id,
            self.base,
            self.tree,
            tuple(self.context["verify"]["commands"]),
            unrestored=_cut(self.unrestored),
            why=why[:MAX_TEXT_CHARS],
        )

    def build_task(self, patch: bytes) -> dict[str, Any]:
        """The task for the notary's process."""
        verify, ran = self.context["verify"], [result.command for result in self.baseline]
        # Commands that may fail on the change if they also fail without it: with ``baseline:
        # report`` all, else those of the build files that work left out, as they cannot run here.
        may_be_red = []
        if self.context["settings"]["values"]["baseline"] == "report":
            may_be_red = verify["commands"]
        elif verify["implied"]:
            may_be_red = [command for command in verify["commands"] if command not in ran]
        return {
            "base": self.base,
            "tree": self.tree,
            "patch": base64.b64encode(patch).decode(),
            "commands": verify["commands"],
            "may_be_red": may_be_red,
            "usual": {result.command: max(result.duration_s, 0.0) for result in self.baseline},
            "flaky": [result.command for result in self.baseline if result.flaky],
        }


def build_order(
    run_id: str, context: Mapping[str, Any], bundle: Bundle, unrestored: tuple[str, ...]
) -> NotaryOrder:
    """The order to run the commands on a night's change."""
    assert bundle.proposal
    tree = bundle.proposal.change.tree_id
    return NotaryOrder(run_id, bundle.base_sha, tree, context, bundle.baseline, unrestored)


def is_proposed(bundle: Bundle) -> bool:
    """True if a bundle has a change that is ready to be published."""
    ready = bundle.outcome is Outcome.MR_READY and not bundle.error_code
    return ready and bundle.proposal is not None


@dataclass(frozen=True)
class Notary:
    """Has the notary's process execute orders, and writes the records into ``results``, beside the
    bundle. ``values`` are the job's secrets."""

    results: Path
    signals: Signals
    values: tuple[str, ...]

    def run(self, order: NotaryOrder, ask: Ask) -> NotaryRecord:
        """Execute an order with ``ask``, and return the record. If the process or the machine
        fails, the record says why nothing was run."""
        record = order.build_record()
        if record.asked:
            self._write(order.build_record(NOT_FINISHED))  # in case this process is killed
            try:
                with (self.results / "bundle/change.patch").open("rb") as file:
                    patch = file.read(LARGEST_PATCH)
                record = self._complete(record, ask(order.build_task(patch)))
            except (NightshiftError, OSError) as error:
                why = error.message if isinstance(error, NightshiftError) else str(error)
                record = order.build_record(why)
        record = self._redact(record)
        self._write(record)
        return record

    def _complete(self, record: NotaryRecord, answer: Mapping[str, Any]) -> NotaryRecord:
        """Add the answer of the notary's process to the record."""
        if stopped := self.signals.stopped:
            return replace(record, why=stopped.message[:MAX_TEXT_CHARS])
        if why := answer.get("why"):
            return replace(record, why=str(why)[:MAX_TEXT_CHARS])
        try:
            commands = make_record(tuple[NotarizedCommand, ...], answer["commands"])
            unrestored = make_record(tuple[str, ...], answer["unrestored"])
            tree = make_record(str, answer["tree_id"])
            isolation = make_record(str, answer["isolation"])
        except (KeyError, InvalidRecordError):
            return replace(record, why=build_lost_error("the notary", answer).message)
        return replace(
            record,
            tree_id=record.tree_id or tree[:MAX_TEXT_CHARS],
            commands=commands,
            isolation=isolation[:MAX_TEXT_CHARS],
            unrestored=_cut((*record.unrestored, *unrestored)),
        )

    def _write(self, record: NotaryRecord) -> None:
        with contextlib.suppress(OSError):  # the disk is full: publish gets the record from memory
            write_record(self.results / NOTARY, record)

    def _redact(self, record: NotaryRecord) -> NotaryRecord:
        from gitlab_nightshift.redaction.redactor import Redactor

        return map_texts(record, Redactor(self.values))


def ask_notary(
    workers: Workers,
    sender: str,
    order: NotaryOrder,
    gateway: Mapping[str, Any] | None,
    task: Mapping[str, Any],
) -> WorkerAnswer:
    """Have the notary's process run a task in a checkout like that of work. ``gateway`` is the
    configuration of work's gateway; the notary gets one only if hosts are allowed. Raises
    NightshiftError, OSError."""
    config = remove_model(gateway)
    worker = workers.open(
        sender,
        process_table.NOTARY,
        functools.partial(read_isolation, order.context),
        preload_gateway=bool(config),
        data={"ahead": order.context["settings"]["values"]["isolation"] != "none"},
    )
    with worker as notary:
        inputs = {"task": task, "context": order.context, "name": sender}
        return notary.run(inputs, config, order.run_id, "the notary did not end at the deadline")


def remove_recording(context: Mapping[str, Any]) -> dict[str, Any]:
    """Work's context for the notary, which records no replay."""
    settings = context["settings"]
    return {
        **context,
        "settings": {**settings, "values": {**settings["values"], "record_dir": None}},
    }


def remove_model(gateway: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A gateway's configuration without the model: the notary runs commands, which may only use the
    allowed hosts. None if no host is allowed."""
    if not gateway or not gateway["egress_hosts"]:
        return None
    return {**gateway, "upstream": None}


def _cut(lines: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(line[:MAX_TEXT_CHARS] for line in lines[:MAX_LINES])
