"""The notary: started once nothing of work is left, and what it has seen made a record.

Of work's own words only those go to it that cannot make a command pass: how long each took before
the change, and which were flaky.
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
from gitlab_nightshift.records.events import read_clock
from gitlab_nightshift.records.notary_records import NOTARY, NotarizedCommand, NotaryRecord
from gitlab_nightshift.records.products import Bundle, Outcome
from gitlab_nightshift.records.storage import LARGEST_PATCH, map_texts, write_record
from gitlab_nightshift.records.strict_reading import InvalidRecordError, make_record
from gitlab_nightshift.repository.alive_mark import keep_marked
from gitlab_nightshift.run.supervisor.confined_stage import read_isolation
from gitlab_nightshift.run.supervisor.failure_records import build_lost_error
from gitlab_nightshift.run.supervisor.kept_machine import keep_machine
from gitlab_nightshift.run.supervisor.run_checkout import prepare_run_checkout, restore_run_checkout
from gitlab_nightshift.run.supervisor.run_worker import open_run_worker
from gitlab_nightshift.run.supervisor.stage_calls import Stages
from gitlab_nightshift.run.supervisor.stop_signals import GRACE_S, Signals
from gitlab_nightshift.run_folder import RunFolder
from gitlab_nightshift.sandbox import process_table

LONGEST, NAMED = 1_000, 20
UNSEEN = "this run was ended before"
Ask = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Has a process do a task, and gives its answer."""


@dataclass(frozen=True)
class NotaryOrder:
    """What is to be run: the commands of ``place``, the input of work, on the tree that the patch
    of a bundle makes of ``base``, which has to be ``tree`` ("": any). ``before`` is how they ended
    without it, as work says; ``unrestored`` what could not be put back after work."""

    run_id: str
    base: str
    tree: str
    place: Mapping[str, Any]
    before: tuple[CommandResult, ...] = ()
    unrestored: tuple[str, ...] = ()

    def build_record(self, why: str = "") -> NotaryRecord:
        """The record before anything has run."""
        return NotaryRecord(
            self.run_id,
            self.base,
            self.tree,
            tuple(self.place["verify"]["commands"]),
            unrestored=_cut(self.unrestored),
            why=why[:LONGEST],
        )

    def build_task(self, patch: bytes) -> dict[str, Any]:
        """The task as its process gets it. A command may be red where it is red without the change:
        by ``baseline: report``, or one of the build files that work has left out, as it cannot run
        here."""
        verify, before = self.place["verify"], [each.command for each in self.before]
        may_be_red = [each for each in verify["commands"] if verify["implied"]]
        may_be_red = [each for each in may_be_red if each not in before]
        if self.place["settings"]["values"]["baseline"] == "report":
            may_be_red = verify["commands"]
        return {
            "base": self.base,
            "tree": self.tree,
            "patch": base64.b64encode(patch).decode(),
            "commands": verify["commands"],
            "may_be_red": may_be_red,
            "usual": {each.command: max(each.duration_s, 0.0) for each in self.before},
            "flaky": [each.command for each in self.before if each.flaky],
        }


def build_order(
    run_id: str, place: Mapping[str, Any], bundle: Bundle, unrestored: tuple[str, ...]
) -> NotaryOrder:
    """The order for a night's change."""
    assert bundle.proposal
    tree, before = bundle.proposal.change.tree_id, bundle.baseline
    return NotaryOrder(run_id, bundle.base_sha, tree, place, before, unrestored)


def is_proposed(bundle: Bundle) -> bool:
    """Whether a bundle holds a change that is to be published."""
    ready = bundle.outcome is Outcome.MR_READY and not bundle.error_code
    return ready and bundle.proposal is not None


@dataclass(frozen=True)
class Notary:
    """Has orders done, and leaves the record beside the bundle in ``results``; ``values`` are the
    job's secrets."""

    results: Path
    signals: Signals
    values: tuple[str, ...]

    def run(self, order: NotaryOrder, ask: Ask) -> NotaryRecord:
        """The record. Never raises for what a process or this machine does: then it says why
        nothing was seen."""
        record = order.build_record()
        if record.asked:
            self._write(order.build_record(UNSEEN))  # what stays if this process is killed
            try:
                record = self._complete(record, ask(order.build_task(self._read_patch())))
            except (NightshiftError, OSError) as error:
                why = error.message if isinstance(error, NightshiftError) else str(error)
                record = order.build_record(why)
        made = self._redact(record)
        self._write(made)
        return made

    def _complete(self, record: NotaryRecord, answer: Mapping[str, Any]) -> NotaryRecord:
        """The record with what the process has answered."""
        if stopped := self.signals.stopped:
            return replace(record, why=stopped.message[:LONGEST])
        if why := answer.get("why"):
            return replace(record, why=str(why)[:LONGEST])
        try:
            seen = make_record(tuple[NotarizedCommand, ...], answer["commands"])
            left = make_record(tuple[str, ...], answer["unrestored"])
            tree, isolation = (make_record(str, answer[each]) for each in ("tree_id", "isolation"))
        except (KeyError, InvalidRecordError):
            return replace(record, why=build_lost_error("the notary", answer).message)
        return replace(
            record,
            tree_id=record.tree_id or tree[:LONGEST],
            commands=seen,
            isolation=isolation[:LONGEST],
            unrestored=_cut((*record.unrestored, *left)),
        )

    def _read_patch(self) -> bytes:
        with (self.results / "bundle/change.patch").open("rb") as file:
            return file.read(LARGEST_PATCH)

    def _write(self, record: NotaryRecord) -> None:
        """A disk that is full leaves the record to whoever publishes now."""
        with contextlib.suppress(OSError):
            write_record(self.results / NOTARY, record)

    def _redact(self, record: NotaryRecord) -> NotaryRecord:
        from gitlab_nightshift.redaction.redactor import Redactor

        return map_texts(record, Redactor(self.values))


@dataclass(frozen=True)
class RunNotary:
    """Starts the process of a run's notary, which works in the run's checkout; ``warn`` is told
    what cannot be put back after it."""

    sender: str
    env: Mapping[str, str]
    there: RunFolder
    stages: Stages
    signals: Signals
    warn: Callable[[str], None]

    def ask(
        self, order: NotaryOrder, gateway: Mapping[str, Any] | None, task: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """The answer to a task; ``gateway`` is the input of work's. Raises NightshiftError,
        OSError."""
        config = remove_model(gateway)
        opened = open_run_worker(
            self.sender,
            process_table.NOTARY,
            self.stages,
            self.env,
            self.there,
            functools.partial(read_isolation, order.place),
            likely=bool(config),
            data={"ahead": order.place["settings"]["values"]["isolation"] != "none"},
        )
        with opened as notary:
            checkout = prepare_run_checkout(
                notary.held, order.place, order.run_id, self.env, self.there
            )
            inputs: dict[str, Any] = {"task": task, "place": order.place, "name": self.sender}
            inputs |= {"prepared": notary.prepared.to_data(), "prepared_checkout": checkout}
            with (
                stop_late(self.signals, order.place),
                keep_marked(notary.held.folder),
                keep_machine(self.there),
            ):
                answer, _ = notary.worker.run(inputs, config, {})
            left = restore_run_checkout(notary.held, self.env, self.there)
            for line in left.trouble:  # which owners and times are new was told after work
                self.warn(line)
        return answer


def stop_late(
    signals: Signals, place: Mapping[str, Any]
) -> contextlib.AbstractContextManager[None]:
    """Stop the run where a notary does not end at its deadline."""
    until = place["until_s"]
    late = None if until is None else until - read_clock() + GRACE_S
    return signals.stop_after(late, "the notary did not end at the deadline")


def remove_recording(place: Mapping[str, Any]) -> dict[str, Any]:
    """The input of work as a notary gets it: it records nothing."""
    settings = place["settings"]
    return {
        **place,
        "settings": {**settings, "values": {**settings["values"], "record_dir": None}},
    }


def remove_model(gateway: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The input of a gateway that only passes on what commands ask of allowed hosts."""
    if not gateway or not gateway["egress_hosts"]:
        return None
    return {**gateway, "upstream": None}


def _cut(lines: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(line[:LONGEST] for line in lines[:NAMED])
