"""A run from start to end: which process runs when, and what input it gets."""

import contextlib
import dataclasses
import functools
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gitlab_nightshift.errors import CANCELLED, STOPPED, Code, NightshiftError, to_exit_status
from gitlab_nightshift.gateway.cost_totals import UsageFigures
from gitlab_nightshift.job.job_facts import read_job
from gitlab_nightshift.job.job_secrets import TOKEN, read_secrets
from gitlab_nightshift.records.bead_results import BeadResult, Usage
from gitlab_nightshift.records.events import Note, read_clock
from gitlab_nightshift.records.notary_records import (
    NOTARY,
    BundleOrigin,
    NotaryRecord,
    NotaryRefusal,
    find_refusal,
    is_refused,
)
from gitlab_nightshift.records.products import Bundle, Outcome
from gitlab_nightshift.repository.alive_mark import keep_marked
from gitlab_nightshift.run.supervisor.confined_stage import predict_isolation
from gitlab_nightshift.run.supervisor.failure_records import (
    build_killed_error,
    build_lost_error,
    build_own_result,
    ensure_result,
    read_bundle,
    read_own_bundle,
    write_failed,
    write_measured,
    write_refused,
    write_unpublished,
)
from gitlab_nightshift.run.supervisor.kept_machine import keep_machine
from gitlab_nightshift.run.supervisor.notary_run import (
    Notary,
    NotaryOrder,
    RunNotary,
    build_order,
    is_proposed,
    remove_recording,
)
from gitlab_nightshift.run.supervisor.notices import Notices
from gitlab_nightshift.run.supervisor.output_pipes import (
    OF_RUN,
    RedactorSetup,
    open_pipes,
    tell_warnings,
)
from gitlab_nightshift.run.supervisor.run_checkout import (
    check_out_for,
    prepare_run_checkout,
    restore_run_checkout,
)
from gitlab_nightshift.run.supervisor.run_worker import RunWorker, open_run_worker
from gitlab_nightshift.run.supervisor.stage_calls import (
    Stages,
    SupervisedStage,
    add_figures,
    build_usage,
    has_key,
    hide_key_values,
    limit_budget,
    remove_proxies,
)
from gitlab_nightshift.run.supervisor.stop_signals import GRACE_S, Signals
from gitlab_nightshift.run_folder import (
    Invocation,
    RunFolder,
    open_run_folder,
    place_results,
    read_output_path,
    set_aside_early,
)
from gitlab_nightshift.sandbox.credential_files import read_machine_secrets
from gitlab_nightshift.sandbox.process_table import PLAN, PUBLISH, REPORT, WORK
from gitlab_nightshift.sealed_start import build_own_environment, find_checkouts
from gitlab_nightshift.stages.report.annotations import build_report_url
from gitlab_nightshift.stages.report.killed_run import read_kept
from gitlab_nightshift.stages.report.result_files import UPKEEP, move_upkeep
from gitlab_nightshift.system.certificates import copy_certificates
from gitlab_nightshift.system.descendants import become_subreaper, end_orphans, list_own_children


@dataclass(frozen=True)
class SupervisorOptions(Invocation):
    """How a run was called; ``alone``: only the work stage, with an earlier job's ``plan``; with
    ``seen`` only the notary, for a bundle that is there already."""

    alone: bool = False
    plan: str | None = None
    seen: BundleOrigin | None = None


def supervise(start: SupervisorOptions) -> int:
    """Run the stages, place the results, and return the exit status. Raises NightshiftError where
    there is no checkout to run in."""
    become_subreaper()
    others = list_own_children()
    with open_run_folder(start.env, start.folder) as there, Signals() as signals:
        run = _Run(start, there, signals)
        try:
            return run.run_stages()
        finally:
            # One that a stage left may hold the job's own output.
            end_orphans(lambda: list_own_children() - others)
            if text := place_results(there, run.output or read_output_path(there)):
                sys.stderr.write(f"nightshift: warning: {text}\n")


class _Run:
    """A run while it is going on."""

    def __init__(self, start: SupervisorOptions, there: RunFolder, signals: Signals) -> None:
        self._start, self._there, self._signals = start, there, signals
        self._own = build_own_environment(start.env, find_checkouts(start.folder, start.env))
        self._own |= copy_certificates(start.env, start.folder, there.private)
        self._machine = read_machine_secrets(start.env)
        self._values = (*read_secrets(start.env).values, *self._machine)
        self._usage: Usage | None = None
        self._figures: UsageFigures | None = None
        self._before: tuple[BeadResult, ...] = ()
        self._unrestored: tuple[str, ...] = ()
        self._notes: list[Note] = []
        self.output: Path | None = None

    def run_stages(self) -> int:
        """Run the stages in their order. Work and gateway load while plan waits for GitLab."""
        job = read_job(self._start.env)
        in_ci = job.in_ci
        with contextlib.ExitStack() as stack:
            colour = self._start.colour or in_ci
            way = RedactorSetup(job.run_id, self._values, OF_RUN, 1, sections=in_ci, colour=colour)
            plain = remove_proxies(self._own)
            pipes = open_pipes(self._there, plain, way, self._handle_redactor_death)
            self._pipes = stack.enter_context(pipes)
            self._stages = Stages(self._pipes, self._own, self._signals)
            notices = Notices(self._start, self._own, self._pipes)
            with self._stages.open_stage("plan", PLAN) as plan:
                if not self._start.seen:
                    work = stack.enter_context(self._open_worker())
                answer = self._run_plan(plan)
            self.output = read_output_path(self._there)  # before work, which might write it
            if "status" in answer:
                notices.tell_mistake(answer.get("mistake"))
                return int(answer["status"])
            if self._start.seen:
                return self._notarize_bundles(answer)
            if upkeep := answer.get("upkeep"):
                self._look_after(upkeep, work)
                work = stack.enter_context(self._open_worker("work-2"))
            if night := answer.get("night"):
                self._run_night(night, work)
            status = self._report()
            notices.tell_ended(answer, self._there.results, self._signals.forward_to)
            return status

    def _open_worker(self, sender: str = "work") -> contextlib.AbstractContextManager[RunWorker]:
        start = self._start
        wanted, likely = predict_isolation(start.env, start.overrides), has_key(start.env)
        return open_run_worker(
            sender,
            WORK,
            self._stages,
            start.env,
            self._there,
            lambda _: wanted,
            likely=likely,
            data={"ahead": likely and wanted.isolation != "none"},
        )

    def _handle_redactor_death(self) -> None:
        """End the run: nothing can be logged or kept any more."""
        self._signals.stop(build_killed_error("the redactor"))

    # --- plan -------------------------------------------------------------------------------------

    def _run_plan(self, plan: SupervisedStage) -> dict[str, Any]:
        start, there = self._start, self._there
        answer = plan.run(
            {
                "env": hide_key_values(start.env),
                "folder": str(start.folder),
                "config": start.config,
                "overrides": dict(start.overrides),
                "alone": start.alone,
                "plan": start.plan,
                "seen": start.seen and dataclasses.asdict(start.seen),
                "machine": self._machine,
                "checkout": str(there.checkout),
                "private": str(there.private),
            }
        )
        self._pipes.wait("plan")
        if answer and not self._pipes.gone:
            return answer
        if read_bundle(there.results) is None:
            self._fail(self._signals.stopped or build_killed_error("plan"))
        name = start.env.get("NIGHTSHIFT_OUTPUT_DIR", "nightshift")
        set_aside_early(there, start.overrides.get("output_dir", name))
        return {}

    # --- work and publish -------------------------------------------------------------------------

    def _look_after(self, upkeep: dict[str, Any], work: RunWorker) -> None:
        """Do what an open merge request needs. Whatever becomes of it, new work follows, and gets
        what is left of the budget."""
        self._run_night(upkeep, work)
        if bundle := read_bundle(self._there.results):
            self._before = bundle.beads
        move_upkeep(self._there.results)

    def _run_night(self, night: dict[str, Any], work: RunWorker) -> None:
        try:
            with check_out_for(night["stand"], self._start.env, self._there):
                bundle = self._run_work(night, work) if "place" in night else self._go_on(night)
                work.held.close()  # where an earlier try has done its work
                record = self._notarize(night, bundle, work.sender.replace("work", "notary"))
                if self._signals.stopped and not bundle.error_code:
                    self._fail(self._signals.stopped)
                self._publish(night, bundle, record, work.sender)
        except NightshiftError as error:
            self._fail(error, night["plan"])
            if failed := read_bundle(self._there.results):
                self._publish(night, failed, None, work.sender)

    def _run_work(self, night: Mapping[str, Any], work: RunWorker) -> Bundle:
        if stopped := self._signals.stopped:
            raise stopped
        inputs = {"plan": night["plan"], "place": night["place"]}
        inputs["before"] = [dataclasses.asdict(each) for each in self._before]
        run_id = night["plan"]["run_id"]
        checkout = prepare_run_checkout(
            work.held, night["place"], run_id, self._start.env, self._there
        )
        inputs |= {"prepared": work.prepared.to_data(), "prepared_checkout": checkout}
        until = night["place"]["until_s"]
        late = None if until is None else until - read_clock() + GRACE_S
        began = read_clock()
        with (
            self._signals.stop_after(late, "work did not end at its deadline"),
            keep_marked(work.held.folder),
            keep_machine(self._there),
        ):
            gateway = limit_budget(night["gateway"], self._figures)
            answer, figures = work.worker.run(inputs, gateway, self._start.env)
        self._pipes.wait(work.sender)
        self._figures = add_figures(self._figures, figures)
        self._usage = build_usage(self._figures) if self._figures else None
        # Where nothing confines work it could have written these in others' names.
        for name in ("published.json", NOTARY):
            (self._there.results / name).unlink(missing_ok=True)
        error = self._signals.stopped or build_lost_error("work", answer)
        left = restore_run_checkout(work.held, self._start.env, self._there)
        self._unrestored = tuple(left.trouble)
        self._notes += left.build_notes()
        bundle = read_own_bundle(self._there.results, night["plan"])
        if answer and bundle:
            cancelled = bundle.error_code in CANCELLED and STOPPED in bundle.reason
            if cancelled and not self._signals.stopped:
                raise build_killed_error("work")  # by nobody that this process knows of
            return write_measured(self._there.results, bundle, self._usage, read_clock() - began)
        raise error

    def _go_on(self, night: Mapping[str, Any]) -> Bundle:
        """The bundle of an earlier try of this run, which plan has fetched."""
        if bundle := read_own_bundle(self._there.results, night["plan"]):
            return bundle
        raise build_lost_error("plan", night)

    def _notarize(
        self, night: Mapping[str, Any], bundle: Bundle, sender: str
    ) -> NotaryRecord | None:
        """Have the commands run once more on a change that is to be published. None where there is
        none, or where another job does this. What was refused once stays refused."""
        if self._start.alone or self._signals.stopped or not is_proposed(bundle):
            return None
        kept = read_kept(NotaryRecord, self._there.results / NOTARY) if "earlier" in night else None
        order = self._build_order(night, bundle)
        if kept and is_refused(kept, order.build_record()):
            return kept
        return self._ask_notary(night, order, sender, self._there.results)

    def _build_order(self, night: Mapping[str, Any], bundle: Bundle) -> NotaryOrder:
        where, run_id = night.get("earlier", night), night["plan"]["run_id"]
        return build_order(run_id, remove_recording(where["place"]), bundle, self._unrestored)

    def _ask_notary(
        self, night: Mapping[str, Any], order: NotaryOrder, sender: str, results: Path
    ) -> NotaryRecord:
        start, signals = self._start, self._signals
        process = RunNotary(sender, start.env, self._there, self._stages, signals, self._warn)
        gateway = night.get("earlier", night)["gateway"]
        ask = functools.partial(process.ask, order, gateway)
        record = Notary(results, signals, self._values).run(order, ask)
        self._pipes.wait(sender)
        return record

    def _notarize_bundles(self, answer: Mapping[str, Any]) -> int:
        """Have the commands run on what another job has made. Raises NightshiftError where that is
        not to be published."""
        results = self._there.results
        refused = [
            self._notarize_bundle(answer[name], place, sender)
            for name, place, sender in (
                ("upkeep", results / UPKEEP, "notary"),
                ("night", results, "notary-2"),
            )
            if answer.get(name) and (place / "bundle").exists()
        ]
        tell_warnings(self._notes)
        for each in filter(None, refused):
            raise NightshiftError(each.code, each.why)
        return 0

    def _notarize_bundle(
        self, night: Mapping[str, Any], results: Path, sender: str
    ) -> NotaryRefusal | None:
        bundle = read_own_bundle(results, night["plan"])
        if bundle is None:
            return NotaryRefusal(Code.PARSE_ERROR, "the bundle is none that can be used")
        if not is_proposed(bundle):
            return None
        order = self._build_order(night, bundle)
        record = read_kept(NotaryRecord, results / NOTARY)
        asked = order.build_record()
        with check_out_for(night["stand"], self._start.env, self._there):
            if not record or not is_refused(record, asked):
                record = self._ask_notary(night, order, sender, results)
        if self._signals.stopped:
            raise self._signals.stopped
        return find_refusal(
            record, run_id=asked.run_id, base_sha=asked.base_sha, tree_id=asked.tree_id
        )

    def _publish(
        self, night: dict[str, Any], bundle: Bundle, record: NotaryRecord | None, worker: str
    ) -> None:
        """Publish what is ready, answer who asked for the run, and keep the dashboard; once."""
        if not (inputs := night.pop("publish", None)):
            return
        ready = bundle.outcome is Outcome.MR_READY and not bundle.error_code
        if ready and inputs["dry_run"] and record:
            write_refused(self._there.results, bundle, record)
        ready = ready and not inputs["dry_run"] and not self._signals.stopped
        if self._pipes.gone or not (ready or inputs["request"] or inputs["dashboard"]):
            return
        config = {
            **inputs,
            "ready": ready,
            "notary": record and dataclasses.asdict(record),
            "usage": self._usage and dataclasses.asdict(self._usage),
            "token": self._start.env.get(TOKEN, "").strip(),
            "values": self._values,
            "own": self._own,
            "checkout": str(self._there.checkout),
            "private": str(self._there.private),
        }
        sender = worker.replace("work", "publish")
        with self._stages.open_stage(sender, PUBLISH) as publish:
            # Who asked is told of a run that was stopped, too.
            answer = publish.run(config, forwarding=ready)
        self._pipes.wait(sender)
        if ready and not (self._there.results / "published.json").exists():
            write_unpublished(self._there.results, bundle, answer)

    # --- the end ----------------------------------------------------------------------------------

    def _report(self) -> int:
        """The exit status. What report, which reads an agent's work, has not written as it should
        is written here: the result is known without it."""
        results, job = self._there.results, read_job(self._start.env)
        usage = self._usage and dataclasses.asdict(self._usage)
        folder = self.output.name if self.output else ""
        url = build_report_url(job.project_url, job.job_id, folder)
        answer: dict[str, Any] = {}
        if not self._pipes.gone:
            places = {"results": str(results)}
            with self._stages.open_stage("report", REPORT, places=places) as report:
                inputs = {"results": str(results), "usage": usage, "report_url": url}
                inputs |= {"project": job.project_path, "pipeline_url": job.pipeline_url}
                answer = report.run(inputs, forwarding=False)
            self._pipes.wait("report")
        made = build_own_result(results, self._usage, job.project_path, job.pipeline_url)
        if not ensure_result(results, made, self._values, url):
            dead = build_killed_error("the redactor") if self._pipes.gone else None
            self._warn((dead or build_lost_error("report", answer)).message)
        self._pipes.tell_end(self._notes, made)
        return to_exit_status(made.error_code)

    def _warn(self, text: str) -> None:
        self._notes.append(Note(text, warning=True))

    def _fail(self, error: NightshiftError, plan: Mapping[str, Any] | None = None) -> None:
        run_id = read_job(self._start.env).run_id
        write_failed(self._there.results, error, {"run_id": run_id, **(plan or {})})
