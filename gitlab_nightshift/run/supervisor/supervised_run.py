"""A run from start to end: which process runs when, with which input."""

import contextlib
import dataclasses
import functools
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gitlab_nightshift.errors import CANCELLED, STOPPED, Code, NightshiftError, to_exit_status
from gitlab_nightshift.job.job_facts import read_job
from gitlab_nightshift.job.job_secrets import TOKEN, read_secrets
from gitlab_nightshift.records.bead_results import BeadResult
from gitlab_nightshift.records.events import Note
from gitlab_nightshift.records.notary_records import (
    NOTARY,
    BundleOrigin,
    NotaryRecord,
    NotaryRefusal,
    find_refusal,
    is_refused,
)
from gitlab_nightshift.records.products import Bundle, Outcome
from gitlab_nightshift.records.storage import UPKEEP, read_kept
from gitlab_nightshift.records.usage import Usage
from gitlab_nightshift.run.supervisor.confined_stage import predict_isolation
from gitlab_nightshift.run.supervisor.failure_records import (
    build_killed_error,
    build_lost_error,
    build_own_result,
    ensure_result,
    read_bundle,
    read_own_bundle,
    write_failed,
    write_failed_publication,
    write_measurements,
    write_refused_publication,
)
from gitlab_nightshift.run.supervisor.notary_run import (
    Notary,
    NotaryOrder,
    ask_notary,
    build_order,
    is_proposed,
    remove_recording,
)
from gitlab_nightshift.run.supervisor.notices import Notices
from gitlab_nightshift.run.supervisor.output_pipes import (
    RUN_SENDERS,
    RedactorSetup,
    open_pipes,
    print_warnings,
)
from gitlab_nightshift.run.supervisor.stage_calls import (
    Stages,
    SupervisedStage,
    UsedByBeads,
    add_used,
    append_used,
    has_key,
    hide_key_values,
    limit_budget,
    remove_proxies,
)
from gitlab_nightshift.run.supervisor.stop_signals import Signals
from gitlab_nightshift.run.supervisor.workers import (
    RunCheckout,
    StartedWorker,
    Workers,
    check_out_target,
    lock_job_checkout,
)
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
from gitlab_nightshift.stages.report.report_files import build_report_url
from gitlab_nightshift.stages.report.result_files import move_upkeep
from gitlab_nightshift.system.network_settings import copy_certificates
from gitlab_nightshift.system.processes import become_subreaper, end_orphans, list_own_children


@dataclass(frozen=True)
class SupervisorOptions(Invocation):
    """How a run was called. ``single_stage``: only work, with an earlier job's ``plan``; or
    with ``bundle_origin`` only the notary, for an existing bundle."""

    single_stage: bool = False
    plan: str | None = None
    bundle_origin: BundleOrigin | None = None


def supervise(start: SupervisorOptions) -> int:
    """Run the stages, place the results, and return the exit status. Raises NightshiftError if
    there is no checkout to run in."""
    become_subreaper()  # orphans of stages become our children (PR_SET_CHILD_SUBREAPER, prctl(2))
    earlier_children = list_own_children()
    with open_run_folder(start.env, start.folder) as run_folder, Signals() as signals:
        run = _Run(start, run_folder, signals)
        try:
            return run.run_stages()
        finally:
            # A leftover process may hold the job's output open, and the job would not end.
            end_orphans(lambda: list_own_children() - earlier_children)
            if text := place_results(run_folder, run.output or read_output_path(run_folder)):
                sys.stderr.write(f"nightshift: warning: {text}\n")


class _Run:
    """The processes of one run, and what is known of it so far: what beads have used, and the notes
    that come last in the job log."""

    def __init__(self, start: SupervisorOptions, run_folder: RunFolder, signals: Signals) -> None:
        self._start, self._run_folder, self._signals = start, run_folder, signals
        self._job = read_job(start.env)
        self._own = build_own_environment(start.env, find_checkouts(start.folder, start.env))
        self._own |= copy_certificates(start.env, start.folder, run_folder.private)
        self._machine = read_machine_secrets(start.env)
        self._values = (*read_secrets(start.env).values, *self._machine)
        self._used: UsedByBeads = None
        self._upkeep_beads: tuple[BeadResult, ...] = ()
        self._unrestored: tuple[str, ...] = ()
        self._notes: list[Note] = []
        self.output: Path | None = None

    def run_stages(self) -> int:
        """Run the stages in order. Work and gateway load while plan waits for GitLab."""
        in_ci = self._job.in_ci
        with contextlib.ExitStack() as stack:
            colour = self._start.colour or in_ci
            setup = RedactorSetup(
                self._job.run_id, self._values, RUN_SENDERS, 1, sections=in_ci, colour=colour
            )
            plain = remove_proxies(self._own)
            # Without the redactor nothing can be logged or stored: its death ends the run.
            on_death = functools.partial(self._signals.stop, build_killed_error("the redactor"))
            pipes = open_pipes(self._run_folder, plain, setup, on_death)
            self._pipes = stack.enter_context(pipes)
            self._stages = Stages(self._pipes, self._own, self._signals)
            self._workers = self._build_workers()
            notices = Notices(self._start, self._own, self._pipes)
            with self._stages.open_stage("plan", PLAN) as plan:
                if not self._start.bundle_origin:
                    # Now, to load while plan waits for GitLab; its input comes after plan's end.
                    work = stack.enter_context(self._open_worker())
                answer = self._run_plan(plan)
            self.output = read_output_path(self._run_folder)  # work might overwrite it later
            if "status" in answer:
                notices.notify_of_mistake(answer.get("mistake"))
                return int(answer["status"])
            if self._start.bundle_origin:
                return self._notarize_bundles(answer)
            if upkeep := answer.get("upkeep"):
                self._run_upkeep(upkeep, work)
                work = stack.enter_context(self._open_worker("work-2"))
            if night := answer.get("night"):
                self._run_night(night, work)
            status = self._report()
            notices.notify_of_result(answer, self._run_folder.results, self._signals.forward_to)
            return status

    def _build_workers(self) -> Workers:
        env, folder = self._start.env, self._run_folder
        open_checkout = functools.partial(lock_job_checkout, RunCheckout(env, folder))
        return Workers(env, folder, self._stages, self._pipes, self._signals, open_checkout)

    def _open_worker(self, sender: str = "work") -> AbstractContextManager[StartedWorker]:
        start = self._start
        predicted, likely = predict_isolation(start.env, start.overrides), has_key(start.env)
        ahead = likely and predicted.isolation != "none"
        return self._workers.open(
            sender, WORK, lambda _: predicted, likely=likely, data={"ahead": ahead}
        )

    @property
    def _usage(self) -> Usage | None:
        """What the gateway has counted so far; None without one."""
        return add_used(self._used)

    # --- plan -------------------------------------------------------------------------------------

    def _run_plan(self, plan: SupervisedStage) -> dict[str, Any]:
        start, run_folder = self._start, self._run_folder
        answer = plan.run(
            {
                "env": hide_key_values(start.env),
                "folder": str(start.folder),
                "config": start.config,
                "overrides": dict(start.overrides),
                "run_id": self._job.run_id,
                "single_stage": start.single_stage,
                "plan": start.plan,
                "bundle_origin": start.bundle_origin and dataclasses.asdict(start.bundle_origin),
                "machine": self._machine,
                "checkout": str(run_folder.checkout),
                "private": str(run_folder.private),
            }
        )
        self._pipes.wait("plan")
        if answer and not self._pipes.broken:
            return answer
        if read_bundle(run_folder.results) is None:
            self._fail(self._signals.stopped or build_killed_error("plan"))
        name = start.env.get("NIGHTSHIFT_OUTPUT_DIR", "nightshift")
        set_aside_early(run_folder, start.overrides.get("output_dir", name))
        return {}

    # --- work and publish -------------------------------------------------------------------------

    def _run_upkeep(self, upkeep: dict[str, Any], work: StartedWorker) -> None:
        """Do what an open merge request needs. New work follows even if that fails, with what is
        left of the budget."""
        self._run_night(upkeep, work)
        if bundle := read_bundle(self._run_folder.results):
            self._upkeep_beads = bundle.beads
        move_upkeep(self._run_folder.results)

    def _run_night(self, night: dict[str, Any], work: StartedWorker) -> None:
        try:
            with check_out_target(night["target_commit"], self._start.env, self._run_folder):
                bundle = (
                    self._run_work(night, work)
                    if "context" in night
                    else self._read_earlier_bundle(night)
                )
                work.release()  # it was not run if an earlier try had done its work
                record = self._notarize(night, bundle, work.sender.replace("work", "notary"))
                if self._signals.stopped and not bundle.error_code:
                    self._fail(self._signals.stopped)
                self._publish(night, bundle, record, work.sender)
        except NightshiftError as error:
            self._fail(error, night["plan"])
            if failed := read_bundle(self._run_folder.results):
                self._publish(night, failed, None, work.sender)

    def _run_work(self, night: Mapping[str, Any], work: StartedWorker) -> Bundle:
        if stopped := self._signals.stopped:
            raise stopped
        inputs = {"plan": night["plan"], "context": night["context"]}
        inputs["earlier_beads"] = [dataclasses.asdict(each) for each in self._upkeep_beads]
        gateway, run_id = limit_budget(night["gateway"], self._used), night["plan"]["run_id"]
        ended = work.run(inputs, gateway, run_id, "work did not end at its deadline")
        self._used = append_used(self._used, ended.used)
        # Unconfined work could have forged the records of publish and notary.
        for name in ("published.json", NOTARY):
            (self._run_folder.results / name).unlink(missing_ok=True)
        self._unrestored = tuple(ended.restored.problems)
        self._notes += ended.restored.build_notes()
        bundle = read_own_bundle(self._run_folder.results, night["plan"])
        if not (ended.answer and bundle):
            raise self._signals.stopped or build_lost_error("work", ended.answer)
        cancelled = bundle.error_code in CANCELLED and STOPPED in bundle.reason
        if cancelled and not self._signals.stopped:
            raise build_killed_error("work")  # nobody here has cancelled it
        return write_measurements(self._run_folder.results, bundle, self._usage, ended.duration_s)

    def _read_earlier_bundle(self, night: Mapping[str, Any]) -> Bundle:
        """The bundle of an earlier try of this run, fetched by plan."""
        if bundle := read_own_bundle(self._run_folder.results, night["plan"]):
            return bundle
        raise build_lost_error("plan", night)

    def _notarize(
        self, night: Mapping[str, Any], bundle: Bundle, sender: str
    ) -> NotaryRecord | None:
        """Run the commands once more on a change that is to be published. None without a change, or
        if another job does this. A refusal by an earlier try stands."""
        if self._start.single_stage or self._signals.stopped or not is_proposed(bundle):
            return None
        results, order = self._run_folder.results, self._build_order(night, bundle)
        earlier = read_kept(NotaryRecord, results / NOTARY) if "earlier" in night else None
        if earlier and is_refused(earlier, order.build_record()):
            return earlier
        return self._ask_notary(night, order, sender, results)

    def _build_order(self, night: Mapping[str, Any], bundle: Bundle) -> NotaryOrder:
        context, run_id = night.get("earlier", night)["context"], night["plan"]["run_id"]
        return build_order(run_id, remove_recording(context), bundle, self._unrestored)

    def _ask_notary(
        self, night: Mapping[str, Any], order: NotaryOrder, sender: str, results: Path
    ) -> NotaryRecord:
        gateway = night.get("earlier", night)["gateway"]

        def ask(task: Mapping[str, Any]) -> Mapping[str, Any]:
            ended = ask_notary(self._workers, sender, order, gateway, task)
            # Of files with new owners or times nothing is said: that was reported after work.
            for line in ended.restored.problems:
                self._warn(line)
            return ended.answer

        return Notary(results, self._signals, self._values).run(order, ask)

    def _notarize_bundles(self, answer: Mapping[str, Any]) -> int:
        """Run the commands on another job's bundles. Raises NightshiftError for a change that must
        not be published."""
        results = self._run_folder.results
        refused = [
            self._notarize_bundle(answer[name], place, sender)
            for name, place, sender in (
                ("upkeep", results / UPKEEP, "notary"),
                ("night", results, "notary-2"),
            )
            if answer.get(name) and (place / "bundle").exists()
        ]
        print_warnings(self._notes)
        for each in filter(None, refused):
            raise NightshiftError(each.code, each.why)
        return 0

    def _notarize_bundle(
        self, night: Mapping[str, Any], results: Path, sender: str
    ) -> NotaryRefusal | None:
        bundle = read_own_bundle(results, night["plan"])
        if bundle is None:
            return NotaryRefusal(Code.PARSE_ERROR, "the bundle is invalid")
        if not is_proposed(bundle):
            return None
        order = self._build_order(night, bundle)
        record = read_kept(NotaryRecord, results / NOTARY)
        expected = order.build_record()
        with check_out_target(night["target_commit"], self._start.env, self._run_folder):
            if not record or not is_refused(record, expected):
                record = self._ask_notary(night, order, sender, results)
        if self._signals.stopped:
            raise self._signals.stopped
        return find_refusal(
            record, run_id=expected.run_id, base_sha=expected.base_sha, tree_id=expected.tree_id
        )

    def _publish(
        self, night: dict[str, Any], bundle: Bundle, record: NotaryRecord | None, worker: str
    ) -> None:
        """Publish what is ready, reply to who asked for the run, and update the dashboard. Once:
        a second call finds no input."""
        if not (inputs := night.pop("publish", None)):
            return
        ready = bundle.outcome is Outcome.MR_READY and not bundle.error_code
        if ready and inputs["dry_run"] and record:
            write_refused_publication(self._run_folder.results, bundle, record)
        ready = ready and not inputs["dry_run"] and not self._signals.stopped
        if self._pipes.broken or not (ready or inputs["request"] or inputs["dashboard"]):
            return
        config = {
            **inputs,
            "ready": ready,
            "notary": record and dataclasses.asdict(record),
            "usage": self._usage and dataclasses.asdict(self._usage),
            "token": self._start.env.get(TOKEN, "").strip(),
            "values": self._values,
            "own": self._own,
            "checkout": str(self._run_folder.checkout),
            "private": str(self._run_folder.private),
        }
        sender = worker.replace("work", "publish")
        with self._stages.open_stage(sender, PUBLISH) as publish:
            # Whoever asked gets a reply for a stopped run, too.
            answer = publish.run(config, forwarding=ready)
        self._pipes.wait(sender)
        if ready and not (self._run_folder.results / "published.json").exists():
            write_failed_publication(self._run_folder.results, bundle, answer)

    # --- the end ----------------------------------------------------------------------------------

    def _report(self) -> int:
        """Run the report stage, and return the exit status. Report reads agents' work, so what it
        fails to write correctly is written here, from records alone."""
        results, job = self._run_folder.results, self._job
        usage = self._usage and dataclasses.asdict(self._usage)
        folder = self.output.name if self.output else ""
        url = build_report_url(job.project_url, job.job_id, folder)
        answer: dict[str, Any] = {}
        if not self._pipes.broken:
            places = {"results": str(results)}
            with self._stages.open_stage("report", REPORT, places=places) as report:
                inputs = {"results": str(results), "usage": usage, "report_url": url}
                inputs |= {"project": job.project_path, "pipeline_url": job.pipeline_url}
                # A stopped run gets its report, too.
                answer = report.run(inputs, forwarding=False)
            self._pipes.wait("report")
        result = build_own_result(results, self._usage, job.project_path, job.pipeline_url)
        if not ensure_result(results, result, self._values, url):
            redactor_death = build_killed_error("the redactor") if self._pipes.broken else None
            self._warn((redactor_death or build_lost_error("report", answer)).message)
        self._pipes.report_end(self._notes, result)
        return to_exit_status(result.error_code)

    def _warn(self, text: str) -> None:
        self._notes.append(Note(text, warning=True))

    def _fail(self, error: NightshiftError, plan: Mapping[str, Any] | None = None) -> None:
        about = {"run_id": self._job.run_id, **(plan or {})}
        write_failed(self._run_folder.results, error, about)
