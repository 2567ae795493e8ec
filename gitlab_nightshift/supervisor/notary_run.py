"""The notary of a run: started once nothing of work is left, and what it has seen made a record.

Of work's own words only those go to it that cannot make a command pass: how long each took before
the change, and which were flaky.
"""

import base64
import contextlib
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.events import read_clock, redact_record
from gitlab_nightshift.records.notary_records import NOTARY, NotaryRecord, SeenCommand
from gitlab_nightshift.records.products import Bundle, Outcome
from gitlab_nightshift.records.storage import LARGEST_PATCH, write_record
from gitlab_nightshift.records.strict_reading import InvalidRecordError, make_record
from gitlab_nightshift.repository.alive_mark import keep_marked
from gitlab_nightshift.run_folder import RunFolder
from gitlab_nightshift.sandbox import process_table
from gitlab_nightshift.supervisor.confined_stage import read_isolation
from gitlab_nightshift.supervisor.failure_records import build_lost_error
from gitlab_nightshift.supervisor.kept_machine import keep_machine
from gitlab_nightshift.supervisor.run_checkout import prepare_run_checkout, restore_run_checkout
from gitlab_nightshift.supervisor.run_worker import RunWorker, open_run_worker
from gitlab_nightshift.supervisor.stage_calls import Stages
from gitlab_nightshift.supervisor.stop_signals import GRACE_S, Signals

LONGEST_WHY, NAMED = 1_000, 20
UNSEEN = "this run has not come to that"


@dataclass(frozen=True)
class NotaryOrder:
    """What a notary is to run, and where: ``place`` is the input of work, ``gateway`` that of its
    gateway, ``unrestored`` what could not be put back after work."""

    run_id: str
    place: Mapping[str, Any]
    gateway: Mapping[str, Any] | None
    bundle: Bundle
    unrestored: tuple[str, ...] = ()

    @property
    def commands(self) -> tuple[str, ...]:
        """The plan's commands."""
        return tuple(self.place["verify"]["commands"])

    def build_record(self, why: str = "") -> NotaryRecord:
        """The record before anything has run."""
        proposal = self.bundle.proposal
        assert proposal
        tree, base = proposal.change.tree_id, self.bundle.base_sha
        cut = tuple(line[:LONGEST_WHY] for line in self.unrestored[:NAMED])
        return NotaryRecord(
            self.run_id, base, tree, self.commands, unrestored=cut, why=why[:LONGEST_WHY]
        )

    def build_task(self, patch: bytes) -> dict[str, Any]:
        """The task as its process gets it. A command of the build files may fail without the
        change: one that cannot run here is left out by work."""
        mode = self.place["settings"]["values"]["baseline"]
        proposal, before = self.bundle.proposal, self.bundle.baseline
        assert proposal
        return {
            "base": self.bundle.base_sha,
            "tree": proposal.change.tree_id,
            "patch": base64.b64encode(patch).decode(),
            "commands": self.commands,
            "may_be_red": mode == "report" or self.place["verify"]["implied"],
            "usual": {each.command: each.duration_s for each in before if each.duration_s >= 0},
            "flaky": [each.command for each in before if each.flaky],
        }


def is_to_be_seen(bundle: Bundle) -> bool:
    """Whether a bundle holds a change that is to be published."""
    ready = bundle.outcome is Outcome.MR_READY and not bundle.error_code
    return ready and bundle.proposal is not None


@dataclass(frozen=True)
class NotaryRun:
    """Runs notaries in a checkout; ``warn`` is told what cannot be put back after one."""

    env: Mapping[str, str]
    there: RunFolder
    stages: Stages
    signals: Signals
    values: tuple[str, ...]
    warn: Callable[[str], None]

    def run(self, order: NotaryOrder, sender: str) -> NotaryRecord:
        """The record, which lies beside the bundle then. Never raises for what a notary or this
        machine does: then it says why nothing was seen."""
        record = order.build_record()
        if order.commands:
            # What is there stays if this process is killed.
            self._write(order.build_record(UNSEEN))
            try:
                record = self._complete(record, self._run_process(order, sender))
            except (NightshiftError, OSError) as error:
                why = error.message if isinstance(error, NightshiftError) else str(error)
                record = order.build_record(why)
        made: NotaryRecord = redact_record(record, self._build_redactor())
        self._write(made)
        return made

    def _run_process(self, order: NotaryOrder, sender: str) -> dict[str, Any]:
        task = order.build_task(self._read_patch())
        gateway = _without_model(order.gateway)
        opened = open_run_worker(
            sender,
            process_table.NOTARY,
            self.stages,
            self.env,
            self.there,
            functools.partial(read_isolation, order.place),
            likely=bool(gateway),
            data={"ahead": order.place["settings"]["values"]["isolation"] != "none"},
        )
        with opened as notary:
            return self._run_worker(notary, order, task, gateway)

    def _run_worker(
        self,
        notary: RunWorker,
        order: NotaryOrder,
        task: Mapping[str, Any],
        gateway: dict[str, Any] | None,
    ) -> dict[str, Any]:
        inputs: dict[str, Any] = {"task": task, "place": order.place, "name": notary.sender}
        checkout = prepare_run_checkout(
            notary.held, order.place, order.run_id, self.env, self.there
        )
        inputs |= {"prepared": notary.prepared.to_data(), "prepared_checkout": checkout}
        until = order.place["until_s"]
        late = None if until is None else until - read_clock() + GRACE_S
        with (
            self.signals.stop_after(late, "the notary did not end at the deadline"),
            keep_marked(notary.held.folder),
            keep_machine(self.there),
        ):
            answer, _ = notary.worker.run(inputs, gateway, {})
        restore_run_checkout(notary.held, self.env, self.there, self.warn)
        return answer

    def _complete(self, record: NotaryRecord, answer: Mapping[str, Any]) -> NotaryRecord:
        """The record with what the process has answered."""
        if stopped := self.signals.stopped:
            return replace(record, why=stopped.message[:LONGEST_WHY])
        if why := answer.get("why"):
            return replace(record, why=str(why)[:LONGEST_WHY])
        try:
            seen = make_record(tuple[SeenCommand, ...], answer["commands"])
            left = make_record(tuple[str, ...], answer["unrestored"])
            isolation = make_record(str, answer["isolation"])
        except (KeyError, InvalidRecordError):
            return replace(record, why=build_lost_error("the notary", answer).message)
        unrestored = (*record.unrestored, *(line[:LONGEST_WHY] for line in left))[:NAMED]
        return replace(
            record, commands=seen, isolation=isolation[:LONGEST_WHY], unrestored=unrestored
        )

    def _read_patch(self) -> bytes:
        with (self.there.results / "bundle/change.patch").open("rb") as file:
            return file.read(LARGEST_PATCH)

    def _write(self, record: NotaryRecord) -> None:
        """A disk that is full leaves the record to whoever publishes now."""
        with contextlib.suppress(OSError):
            write_record(self.there.results / NOTARY, record)

    def _build_redactor(self) -> Callable[[str], str]:
        from gitlab_nightshift.redaction.redactor import Redactor

        return Redactor(self.values)


def build_order_place(place: Mapping[str, Any]) -> dict[str, Any]:
    """The input of work as a notary gets it: it records nothing."""
    settings = place["settings"]
    values = {**settings["values"], "record_dir": None}
    return {**place, "settings": {**settings, "values": values}}


def _without_model(gateway: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The input of a gateway that only passes on what commands ask of allowed hosts."""
    if not gateway or not gateway["egress_hosts"]:
        return None
    return {**gateway, "upstream": None}
