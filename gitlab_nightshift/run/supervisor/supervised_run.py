"""One run: when each process runs, and with which input."""

import contextlib
import dataclasses
import functools
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gitlab_nightshift.errors import Code, NightshiftError, to_exit_status
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
from gitlab_nightshift.records.storage import UPKEEP, read_if_valid
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
    write_publication_if_refused,
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
    BeadUsages,
    Stages,
    SupervisedStage,
    append_usages,
    compute_total_usage,
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
    note_default_output,
    open_run_folder,
    place_results,
    read_output_path,
)
from gitlab_nightshift.sandbox.credential_files import read_machine_secrets
from gitlab_nightshift.sandbox.process_table import PLAN, PUBLISH, REPORT, WORK
from gitlab_nightshift.sealed_start import build_own_environment, find_checkouts
from gitlab_nightshift.stages.report.report_files import build_report_url
from gitlab_nightshift.stages.report.result_files import move_upkeep
from gitlab_nightshift.stages.report.result_texts import is_cancelled
from gitlab_nightshift.system.network_settings import copy_certificates
from gitlab_nightshift.system.processes import become_subreaper, end_orphans, list_own_children


@dataclass(frozen=True)
class SupervisorOptions(Invocation):
    """How a run was called. With ``single_stage``, only work runs, with an earlier job's ``plan``;
    or, if ``bundle_origin`` is set, only the notary, for that bundle."""

    single_stage: bool = False
    plan: str | None = None
    bundle_origin: BundleOrigin | None = None


def supervise(options: SupervisorOptions) -> int:
    """Run the stages, place the results, and return the exit status. Raises NightshiftError if
    there is no checkout to run in."""
    become_subreaper()  # orphans of stages become our children (PR_SET_CHILD_SUBREAPER, prctl(2))
    earlier_children = list_own_children()
    with open_run_folder(options.env, options.folder) as run_folder, Signals() as signals:
        run = _Run(options, run_folder, signals)
        try:
            return run.run_stages()
        finally:
            # A leftover process might keep the job's output open: the job would not end.
            end_orphans(lambda: list_own_children() - earlier_children)
            if text := place_results(run_folder, run.output_path or read_output_path(run_folder)):
                sys.stderr.write(f"nightshift: warning: {text}\n")


class _Run:
    """The processes of one run, and its state: the usages of beads, and the notes that come last in
    the job log. A ``sender`` is a process by its name in the log, such as "work-2". An
    ``assignment`` is plan's input for the other stages: the upkeep's, or that of the night's work.
    """

    def __init__(self, options: SupervisorOptions, run_folder: RunFolder, signals: Signals) -> None:
        self._options, self._run_folder, self._signals = options, run_folder, signals
        self._job = read_job(options.env)
        checkouts = find_checkouts(options.folder, options.env)
        self._own_env = build_own_environment(options.env, checkouts)
        self._own_env |= copy_certificates(options.env, options.folder, run_folder.private)
        self._machine_secrets = read_machine_secrets(options.env)
        self._secret_values = (*read_secrets(options.env).values, *self._machine_secrets)
        self._usages: BeadUsages | None = None
        self._upkeep_beads: tuple[BeadResult, ...] = ()
        self._unrestored: tuple[str, ...] = ()
        self._notes: list[Note] = []
        self.output_path: Path | None = None

    def run_stages(self) -> int:
        """Run the stages in order. Returns the exit status."""
        in_ci = self._job.in_ci
        with contextlib.ExitStack() as stack:
            colour = self._options.colour or in_ci
            setup = RedactorSetup(
                self._job.run_id, self._secret_values, RUN_SENDERS, 1, sections=in_ci, colour=colour
            )
            env = remove_proxies(self._own_env)
            pipes = open_pipes(self._run_folder, env, setup, self._signals)
            self._pipes = stack.enter_context(pipes)
            self._stages = Stages(self._pipes, self._own_env, self._signals)
            self._workers = self._build_workers()
            notices = Notices(self._options, self._own_env, self._pipes)
            with self._stages.open_stage("plan", PLAN) as plan:
                if not self._options.bundle_origin:
                    # Started early: work and gateway import their modules while plan runs.
                    work = stack.enter_context(self._open_worker())
                answer = self._run_plan(plan)
            self.output_path = read_output_path(self._run_folder)  # work might overwrite it later
            if "status" in answer:
                notices.notify_of_mistake(answer.get("mistake"))
                return int(answer["status"])
            if self._options.bundle_origin:
                return self._notarize_bundles(answer)
            if upkeep := answer.get("upkeep"):
                self._run_upkeep(upkeep, work)
                work = stack.enter_context(self._open_worker("work-2"))
            if night := answer.get("night"):
                self._run_assignment(night, work)
            status = self._report()
            notices.notify_of_result(answer, self._run_folder.results, self._signals.forward_to)
            return status

    def _build_workers(self) -> Workers:
        env, folder = self._options.env, self._run_folder
        open_checkout = functools.partial(lock_job_checkout, RunCheckout(env, folder))
        return Workers(env, folder, self._stages, self._pipes, self._signals, open_checkout)

    def _open_worker(self, sender: str = "work") -> AbstractContextManager[StartedWorker]:
        options = self._options
        predicted = predict_isolation(options.env, options.overrides)
        has_model = has_key(options.env)
        # "ahead": work searches the system before it gets the plan.
        data = {"ahead": has_model and predicted.isolation != "none"}
        return self._workers.open(
            sender, WORK, lambda _: predicted, preload_gateway=has_model, data=data
        )

    @property
    def _usage(self) -> Usage | None:
        """The usage that gateways have counted so far; None without a gateway."""
        return compute_total_usage(self._usages)

    # --- plan -------------------------------------------------------------------------------------

    def _run_plan(self, plan: SupervisedStage) -> dict[str, Any]:
        options, run_folder = self._options, self._run_folder
        origin = options.bundle_origin
        answer = plan.run(
            {
                "env": hide_key_values(options.env),
                "folder": str(options.folder),
                "config": options.config,
                "overrides": dict(options.overrides),
                "run_id": self._job.run_id,
                "single_stage": options.single_stage,
                "plan": options.plan,
                "bundle_origin": origin and dataclasses.asdict(origin),
                "machine": self._machine_secrets,
                "checkout": str(run_folder.checkout),
                "private": str(run_folder.private),
            }
        )
        self._pipes.wait("plan")
        if answer and not self._pipes.broken:
            return answer
        if read_bundle(run_folder.results) is None:
            self._write_failed(self._signals.stopped or build_killed_error("plan"))
        name = options.env.get("NIGHTSHIFT_OUTPUT_DIR", "nightshift")
        note_default_output(run_folder, options.overrides.get("output_dir", name))
        return {}

    # --- work and publish -------------------------------------------------------------------------

    def _run_upkeep(self, upkeep: dict[str, Any], work: StartedWorker) -> None:
        """Do the upkeep of an open merge request. The night's own work follows even if that fails,
        with the remaining budget."""
        self._run_assignment(upkeep, work)
        if bundle := read_bundle(self._run_folder.results):
            self._upkeep_beads = bundle.beads
        move_upkeep(self._run_folder.results)

    def _run_assignment(self, assignment: dict[str, Any], work: StartedWorker) -> None:
        """Work, notary and publish. A failure is recorded, and not raised."""
        try:
            with check_out_target(assignment["target_commit"], self._options.env, self._run_folder):
                bundle = (
                    self._run_work(assignment, work)
                    if "context" in assignment
                    else self._read_earlier_bundle(assignment)
                )
                work.release()  # the worker may not have run: an earlier try did its work
                record = self._notarize(assignment, bundle, work.sender.replace("work", "notary"))
                if self._signals.stopped and not bundle.error_code:
                    self._write_failed(self._signals.stopped)
                self._publish(assignment, bundle, record, work.sender)
        except NightshiftError as error:
            self._write_failed(error, assignment["plan"])
            if failed := read_bundle(self._run_folder.results):
                self._publish(assignment, failed, None, work.sender)

    def _run_work(self, assignment: Mapping[str, Any], work: StartedWorker) -> Bundle:
        if stopped := self._signals.stopped:
            raise stopped
        inputs = {"plan": assignment["plan"], "context": assignment["context"]}
        inputs["earlier_beads"] = [dataclasses.asdict(each) for each in self._upkeep_beads]
        gateway = limit_budget(assignment["gateway"], self._usages)
        run_id = assignment["plan"]["run_id"]
        ended = work.run(inputs, gateway, run_id, "work did not end at its deadline")
        self._usages = append_usages(self._usages, ended.usages)
        # Unconfined work could have forged the records of publish and notary.
        for name in ("published.json", NOTARY):
            (self._run_folder.results / name).unlink(missing_ok=True)
        self._unrestored = tuple(ended.restored.problems)
        self._notes += ended.restored.build_notes()
        bundle = read_own_bundle(self._run_folder.results, assignment["plan"])
        if not (ended.answer and bundle):
            raise self._signals.stopped or build_lost_error("work", ended.answer)
        if is_cancelled(bundle) and not self._signals.stopped:
            raise build_killed_error("work")  # it was not cancelled from here
        return write_measurements(self._run_folder.results, bundle, self._usage, ended.duration_s)

    def _read_earlier_bundle(self, assignment: Mapping[str, Any]) -> Bundle:
        """The bundle of an earlier try of this run, which plan has downloaded."""
        if bundle := read_own_bundle(self._run_folder.results, assignment["plan"]):
            return bundle
        raise build_lost_error("plan", assignment)

    def _notarize(
        self, assignment: Mapping[str, Any], bundle: Bundle, sender: str
    ) -> NotaryRecord | None:
        """Have the notary run the commands on a change that is to be published. None without a
        change, or if another job runs the notary. A refusal in an earlier try still counts."""
        if self._options.single_stage or self._signals.stopped or not is_proposed(bundle):
            return None
        results, order = self._run_folder.results, self._build_order(assignment, bundle)
        record = read_if_valid(NotaryRecord, results / NOTARY) if "earlier" in assignment else None
        if record and is_refused(record, order.build_record()):
            return record
        return self._ask_notary(assignment, order, sender, results)

    def _build_order(self, assignment: Mapping[str, Any], bundle: Bundle) -> NotaryOrder:
        context, run_id = _find_work_inputs(assignment)["context"], assignment["plan"]["run_id"]
        return build_order(run_id, remove_recording(context), bundle, self._unrestored)

    def _ask_notary(
        self, assignment: Mapping[str, Any], order: NotaryOrder, sender: str, results: Path
    ) -> NotaryRecord:
        gateway = _find_work_inputs(assignment)["gateway"]

        def ask(task: Mapping[str, Any]) -> Mapping[str, Any]:
            ended = ask_notary(self._workers, sender, order, gateway, task)
            # New owners and times are not reported: they already were after work.
            for line in ended.restored.problems:
                self._warn(line)
            return ended.answer

        return Notary(results, self._signals, self._secret_values).run(order, ask)

    def _notarize_bundles(self, answer: Mapping[str, Any]) -> int:
        """Run the commands on another job's bundles. Raises NightshiftError for a change that must
        not be published."""
        results = self._run_folder.results
        refusals = [
            self._notarize_bundle(answer[name], folder, sender)
            for name, folder, sender in (
                ("upkeep", results / UPKEEP, "notary"),
                ("night", results, "notary-2"),
            )
            if answer.get(name) and (folder / "bundle").exists()
        ]
        print_warnings(self._notes)
        for refusal in filter(None, refusals):
            raise NightshiftError(refusal.code, refusal.why)
        return 0

    def _notarize_bundle(
        self, assignment: Mapping[str, Any], results: Path, sender: str
    ) -> NotaryRefusal | None:
        bundle = read_own_bundle(results, assignment["plan"])
        if bundle is None:
            return NotaryRefusal(Code.PARSE_ERROR, "the bundle is invalid")
        if not is_proposed(bundle):
            return None
        order = self._build_order(assignment, bundle)
        record = read_if_valid(NotaryRecord, results / NOTARY)
        expected = order.build_record()
        with check_out_target(assignment["target_commit"], self._options.env, self._run_folder):
            if not record or not is_refused(record, expected):
                record = self._ask_notary(assignment, order, sender, results)
        if self._signals.stopped:
            raise self._signals.stopped
        return find_refusal(
            record, run_id=expected.run_id, base_sha=expected.base_sha, tree_id=expected.tree_id
        )

    def _publish(
        self, assignment: dict[str, Any], bundle: Bundle, record: NotaryRecord | None, worker: str
    ) -> None:
        """Publish what is ready, reply to whoever asked for the run, and update the dashboard.
        Removes its input from ``assignment``, so that a second call does nothing."""
        if not (inputs := assignment.pop("publish", None)):
            return
        has_change = bundle.outcome is Outcome.MR_READY and not bundle.error_code
        if has_change and inputs["dry_run"] and record:
            write_publication_if_refused(self._run_folder.results, bundle, record)
        ready = has_change and not inputs["dry_run"] and not self._signals.stopped
        if self._pipes.broken or not (ready or inputs["request"] or inputs["dashboard"]):
            return
        config = {
            **inputs,
            "ready": ready,
            "notary": record and dataclasses.asdict(record),
            "usage": self._usage and dataclasses.asdict(self._usage),
            "token": self._options.env.get(TOKEN, "").strip(),
            "values": self._secret_values,
            "own": self._own_env,
            "checkout": str(self._run_folder.checkout),
            "private": str(self._run_folder.private),
        }
        sender = worker.replace("work", "publish")
        with self._stages.open_stage(sender, PUBLISH) as publish:
            # A stopped run gets its reply, too.
            answer = publish.run(config, forwarding=ready)
        self._pipes.wait(sender)
        if ready and not (self._run_folder.results / "published.json").exists():
            write_failed_publication(self._run_folder.results, bundle, answer)

    # --- the end ----------------------------------------------------------------------------------

    def _report(self) -> int:
        """Run the report stage, and return the exit status. Report reads agents' work, so its files
        are checked: wrong or missing ones are written here, only from records."""
        results, job = self._run_folder.results, self._job
        usage = self._usage and dataclasses.asdict(self._usage)
        folder = self.output_path.name if self.output_path else ""
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
        if not ensure_result(results, result, self._secret_values, url):
            redactor_death = build_killed_error("the redactor") if self._pipes.broken else None
            self._warn((redactor_death or build_lost_error("report", answer)).message)
        self._pipes.report_end(self._notes, result)
        return to_exit_status(result.error_code)

    def _warn(self, text: str) -> None:
        self._notes.append(Note(text, warning=True))

    def _write_failed(self, error: NightshiftError, plan: Mapping[str, Any] | None = None) -> None:
        write_failed(self._run_folder.results, error, {"run_id": self._job.run_id, **(plan or {})})


def _find_work_inputs(assignment: Mapping[str, Any]) -> Mapping[str, Any]:
    """Where ``context`` and ``gateway`` are: in ``earlier`` if an earlier try has done the work."""
    inputs: Mapping[str, Any] = assignment.get("earlier", assignment)
    return inputs
