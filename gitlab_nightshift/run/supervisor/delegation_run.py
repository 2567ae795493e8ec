"""``nightshift delegate``: starts the processes of a delegation, each with only the secrets that it
needs. Each process, its secrets, and what it reads:

    redactor  all values     what the others log and store
    prepare   -              the payload, the policy, the repository before any agent
    gateway   the model key  HTTP from agents
    work      nothing        everything that agents write
    notary    nothing        the change, while the test command runs on it
    finish    nothing        the patch; it alone writes into the caller's repository

If the agent cannot be used and the patch provider may take over, that gets another gateway and
another work process.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.job.job_facts import JobFacts, read_job
from gitlab_nightshift.records.codec import InvalidRecordError, decode_record
from gitlab_nightshift.records.delegation_records import DelegationResult, build_refused_result
from gitlab_nightshift.records.events import read_clock
from gitlab_nightshift.records.notary_records import NOTARY, NotaryRecord
from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.repository.checkout_restore import RestoreReport, repair
from gitlab_nightshift.repository.delegated_repository import (
    DelegationSource,
    open_source_record,
    share_checkout,
)
from gitlab_nightshift.repository.disk_space import build_no_space_error, is_full_disk
from gitlab_nightshift.repository.prepared_checkout import PreparedFolders
from gitlab_nightshift.run.supervisor.confined_stage import read_isolation
from gitlab_nightshift.run.supervisor.delegation_folder import (
    LARGEST_RESULT,
    DelegationFolder,
    open_delegation_folder,
)
from gitlab_nightshift.run.supervisor.failure_records import (
    build_killed_error,
    build_lost_error,
    read_bundle,
)
from gitlab_nightshift.run.supervisor.notary_run import (
    Notary,
    NotaryOrder,
    ask_notary,
    is_proposed,
    remove_recording,
)
from gitlab_nightshift.run.supervisor.output_pipes import (
    DELEGATION_SENDERS,
    Pipes,
    RedactorSetup,
    open_pipes,
    read_secret_values,
)
from gitlab_nightshift.run.supervisor.stage_calls import (
    BeadUsages,
    Stages,
    append_usages,
    compute_total_usage,
    hide_key_values,
    limit_budget,
    remove_proxies,
)
from gitlab_nightshift.run.supervisor.stop_signals import Signals
from gitlab_nightshift.run.supervisor.work_paths import find_confinement_paths
from gitlab_nightshift.run.supervisor.workers import WorkerCheckout, Workers
from gitlab_nightshift.run_folder import RunFolder, find_temp_folder
from gitlab_nightshift.sandbox.confinement import ConfinementPaths
from gitlab_nightshift.sandbox.process_table import FINISH, PREPARE, TASK
from gitlab_nightshift.sandbox.visible_home import GIT_SETTINGS
from gitlab_nightshift.sealed_start import build_own_environment, find_checkouts, lies_in
from gitlab_nightshift.system.network_settings import copy_certificates
from gitlab_nightshift.system.private_folders import (
    open_private_folder,
    open_scratch_folder,
    remove_all_leftovers,
)
from gitlab_nightshift.system.processes import (
    become_subreaper,
    end_orphans,
    forbid_inspection,
    list_own_children,
)

OUTPUT_DIR = "NIGHTSHIFT_OUTPUT_DIR"
_NO_TMPDIR = "/tmp"  # noqa: S108


@dataclass(frozen=True)
class DelegationCall:
    """A caller's request. ``payload`` is not parsed yet; ``log`` is the descriptor for the readable
    log, with colours if ``colour`` is True."""

    payload: bytes = field(repr=False)
    env: Mapping[str, str] = field(repr=False)
    folder: Path
    log: int
    colour: bool


def supervise_delegation(call: DelegationCall) -> DelegationResult:
    """Run one delegation. Never raises: failures, signals and bugs become results."""
    become_subreaper()  # orphans of stages become our children (PR_SET_CHILD_SUBREAPER, prctl(2))
    earlier_children = list_own_children()
    try:
        job, output_dir = read_job(call.env), call.env.get(OUTPUT_DIR)
        with (
            Signals() as signals,
            _open_private_folder(call) as run_folder,
            open_delegation_folder(
                call.folder.resolve(), output_dir, job.run_id
            ) as delegation_folder,
        ):
            try:
                return _Delegation(call, job, run_folder, delegation_folder, signals).run_stages()
            finally:
                # A caller waits until its pipes are closed, which leftover processes may hold open.
                end_orphans(lambda: list_own_children() - earlier_children)
    except NightshiftError as error:
        return build_refused_result(error.code, error.message)
    except Exception as error:
        if is_full_disk(error):
            return build_refused_result(Code.CONFIG, build_no_space_error(call.folder).message)
        return build_refused_result(
            Code.INTERNAL, f"a defect of nightshift: {type(error).__name__}: {error}"
        )


@contextlib.contextmanager
def _open_private_folder(call: DelegationCall) -> Iterator[RunFolder]:
    forbid_inspection()
    folder = call.folder.resolve()
    parent = find_temp_folder({"TMPDIR": call.env.get("TMPDIR") or _NO_TMPDIR})
    remove_all_leftovers(parent, folder)
    with open_private_folder(parent, folder) as private:
        run_folder = RunFolder(folder, private)
        run_folder.results.mkdir()
        yield run_folder


@dataclass(frozen=True)
class DelegatedCheckout:
    """The checkout of each worker of a delegation: a private one, or, unconfined, the caller's own.
    ``work`` is work's input from prepare; ``stack`` keeps the private folders open."""

    env: Mapping[str, str]
    run_folder: RunFolder
    work: Mapping[str, Any]
    source: DelegationSource
    stack: contextlib.ExitStack

    @contextlib.contextmanager
    def open(self, folders: PreparedFolders) -> Iterator[WorkerCheckout]:
        """Open the checkout for a worker with these folders."""
        opened = open_scratch_folder(self.run_folder.private.parent, self.source.top)
        scratch, work = self.stack.enter_context(opened), self.work
        inputs = {"payload": work["payload"], "source": work["source"], "scratch": str(scratch)}
        with contextlib.ExitStack() as stack:
            paths = None
            if not self.work["in_place"]:
                paths = stack.enter_context(self._find_paths(scratch, folders))
            yield WorkerCheckout(paths, lambda *_: inputs, self._restore)

    def _find_paths(
        self, scratch: Path, folders: PreparedFolders
    ) -> AbstractContextManager[ConfinementPaths]:
        return find_confinement_paths(
            self.env,
            self.run_folder,
            (scratch, *folders.writable),
            readable=(self.source.top,) if self.source.fetched else (),
            opened=[Path(self.env.get("HOME", "/"), name) for name in GIT_SETTINGS],
        )

    def _restore(self) -> RestoreReport:
        """Restore the caller's checkout; a private one needs no repair."""
        if self.work["in_place"]:
            private, path = self.run_folder.private, self.source.git.env["PATH"]
            repair(self.source.top, private=private, search_path=path, unused_since_run=True)
        return RestoreReport()


@dataclass
class WorkResult:
    """How work ended. ``answer`` is {} if it was killed, None if it never began; ``failure`` is the
    error that ended it. ``agent`` is the input of the agent that ran last; ``usages`` are those of
    both agents; ``no_fallback`` is why the second one was not tried."""

    answer: dict[str, Any] | None = None
    failure: NightshiftError | None = None
    agent: Mapping[str, Any] = field(default_factory=dict)
    no_fallback: str = ""
    usages: BeadUsages | None = None


def run_task(workers: Workers, work: Mapping[str, Any], run_id: str) -> WorkResult:
    """Have an agent try the task, or if it cannot be used, the fallback. Returns how that ended."""
    first = run_agent(workers, work["plan"], work["first"], run_id)
    if first.failure or not first.answer or first.answer.get("fall_back") is not True:
        return first
    if not work["second"]:
        first.no_fallback = work["no_fallback"]
        return first
    gateway = limit_budget(work["second"]["gateway"], first.usages)
    agent = {**work["second"], "gateway": gateway}
    result = run_agent(workers, work["plan"], agent, run_id, str(first.answer.get("reason")))
    result.usages = append_usages(first.usages, result.usages)
    return result


def run_agent(
    workers: Workers,
    plan: Mapping[str, Any],
    agent: Mapping[str, Any],
    run_id: str,
    fallback_reason: str = "",
) -> WorkResult:
    """Have one agent try the task. For a fallback, ``fallback_reason`` is why the first agent could
    not be used. When this returns, all processes are dead, and the caller's checkout is restored.
    """
    result = WorkResult(agent=agent, failure=workers.signals.stopped)
    if result.failure:
        return result
    context, gateway = agent["context"], agent["gateway"]
    sender = "fallback" if fallback_reason else "work"
    choose = functools.partial(read_isolation, context)
    with workers.open(sender, TASK, choose, preload_gateway=bool(gateway)) as worker:
        inputs = {"plan": plan, "context": context, "fallback_reason": fallback_reason}
        ended = worker.run(inputs, gateway, run_id, "work did not end at its deadline")
    result.answer, result.usages = ended.answer, ended.usages
    if not ended.answer:
        result.failure = workers.signals.stopped or build_killed_error("work")
    elif not ended.answer.get("error_code"):  # a signal may have come too late for work
        result.failure = workers.signals.stopped
    return result


class _Delegation:
    """One delegation: when each process runs, and with which input."""

    def __init__(
        self,
        call: DelegationCall,
        job: JobFacts,
        run_folder: RunFolder,
        delegation_folder: DelegationFolder,
        signals: Signals,
    ) -> None:
        self._call, self._job = call, job
        self._run_folder, self._delegation_folder = run_folder, delegation_folder
        self._signals, self._began = signals, read_clock()
        self._finished: dict[str, Any] = {}
        self._notary: NotaryRecord | None = None
        self._certificates = copy_certificates(call.env, call.folder, run_folder.private)
        self._own_env = self._build_own_environment()

    def _build_own_environment(self, *agent_folders: Path) -> dict[str, str]:
        """The environment of this program's own processes, without paths that agents can write: in
        the checkout and in ``agent_folders``."""
        checkouts = (*find_checkouts(self._call.folder, self._call.env), *agent_folders)
        return build_own_environment(self._call.env, checkouts) | self._certificates

    def run_stages(self) -> DelegationResult:
        """Run the processes in order; work only if prepare found something to do."""
        call, run_folder = self._call, self._run_folder
        values = read_secret_values(call.env)
        setup = RedactorSetup(
            self._job.run_id,
            values,
            DELEGATION_SENDERS,
            call.log,
            sections=False,
            colour=call.colour,
            live=self._delegation_folder.descriptor,
        )
        env = remove_proxies(self._own_env)
        with open_pipes(run_folder, env, setup, self._signals) as self._pipes:
            refusal = self._prepare_and_work(self._pipes)
        if refusal:
            self._delegation_folder.remove()
        return refusal or self._place_result()

    def _prepare_and_work(self, pipes: Pipes) -> DelegationResult | None:
        """Returns a refusal, after which no files are kept; None if finish has sent the result."""
        self._stages = Stages(pipes, self._own_env, self._signals)
        prepared = self._prepare()
        if not prepared.get("output_dir"):
            return self._build_refusal(prepared)
        self._delegation_folder.move(prepared["output_dir"])
        if prepared["failure"] or "work" not in prepared:
            self._finish(prepared, WorkResult())
        else:
            self._run_work(prepared, prepared["work"])
        return None

    def _prepare(self) -> dict[str, Any]:
        with self._stages.open_stage("prepare", PREPARE) as prepare:
            return prepare.run(
                {
                    **self._build_common_input(),
                    "env": hide_key_values(self._call.env),
                    # One character per byte: JSON can carry any bytes so, and prepare checks them.
                    "payload": self._call.payload.decode("latin-1"),
                }
            )

    def _build_common_input(self) -> dict[str, Any]:
        return {
            "folder": str(self._run_folder.checkout),
            "private": str(self._run_folder.private),
            "job": dataclasses.asdict(self._job),
            "began": self._began,
        }

    def _build_refusal(self, prepared: Mapping[str, Any]) -> DelegationResult:
        if not prepared.get("failure"):
            error = self._signals.stopped or build_killed_error("prepare")
            return build_refused_result(error.code, error.message)
        code, why = prepared["failure"]
        return build_refused_result(Code(code), Redactor(read_secret_values(self._call.env))(why))

    # --- work -------------------------------------------------------------------------------------

    def _run_work(self, prepared: Mapping[str, Any], work: dict[str, Any]) -> None:
        """Run work and notary, then finish, while the repository is still locked."""
        if work["in_place"] and lies_in(self._delegation_folder.path, Path(work["source"]["top"])):
            self._delegation_folder.remove()  # agents must not find it in their checkout
        source = open_source_record(work["source"], self._run_folder.private / "own")
        result = WorkResult()
        run_folder = RunFolder(source.top, self._run_folder.private)
        own_env = self._build_own_environment(source.top)
        self._stages = Stages(self._pipes, own_env, self._signals)
        with contextlib.ExitStack() as stack:
            try:
                if work["share"]:
                    closed = map(Path, work["closed"])
                    stack.enter_context(share_checkout(source, self._job.run_id, closed))
                env = self._call.env
                checkout = DelegatedCheckout(env, run_folder, work, source, stack)
                processes = self._stages, self._pipes, self._signals
                workers = Workers(env, run_folder, *processes, checkout.open)
                result = run_task(workers, work, self._job.run_id)
                self._notary = self._notarize(prepared, result, workers)
            except NightshiftError as error:
                result.failure = error
            self._finish(prepared, result)

    def _notarize(
        self, prepared: Mapping[str, Any], result: WorkResult, workers: Workers
    ) -> NotaryRecord | None:
        """The notary's record of the change, None without a change. The notary never sees
        uncommitted changes: the change is handed over without them."""
        # Unconfined work could have forged the notary's record.
        (self._run_folder.results / NOTARY).unlink(missing_ok=True)
        bundle = read_bundle(self._run_folder.results)
        if result.failure or not result.answer or not bundle or not is_proposed(bundle):
            return None
        assert bundle.proposal
        local = result.answer.get("local") is True
        tree = "" if local else bundle.proposal.change.tree_id
        context = remove_recording(result.agent["context"])
        order = NotaryOrder(self._job.run_id, prepared["finish"]["base"], tree, context)
        gateway, values = result.agent["gateway"], read_secret_values(self._call.env)

        def ask(task: Mapping[str, Any]) -> Mapping[str, Any]:
            return ask_notary(workers, "notary", order, gateway, task).answer

        return Notary(self._run_folder.results, self._signals, values).run(order, ask)

    # --- the end ----------------------------------------------------------------------------------

    def _finish(self, prepared: Mapping[str, Any], result: WorkResult) -> None:
        failure = prepared["failure"]
        if result.failure:
            failure = (result.failure.code.value, result.failure.message)
        usage = compute_total_usage(result.usages)
        inputs = {
            **prepared["finish"],
            **{name: result.agent[name] for name in ("used", "model") if name in result.agent},
            **self._build_common_input(),
            "results": str(self._run_folder.results),
            "final": str(self._delegation_folder.path),
            "failure": failure,
            "notary": self._notary and dataclasses.asdict(self._notary),
            "worked": result.answer,
            "no_fallback": result.no_fallback,
            "usage": usage and dataclasses.asdict(usage),
        }
        # Unconfined work could have forged finish's record.
        (self._run_folder.results / "result.json").unlink(missing_ok=True)
        with self._stages.open_stage("finish", FINISH) as finish:
            self._finished = finish.run(inputs, forwarding=self._signals.stopped is None)

    def _place_result(self) -> DelegationResult:
        """Move the results into the delegation's folder, and return the result."""
        results = self._run_folder.results
        try:
            with (results / "result.json").open("rb") as file:
                result = decode_record(DelegationResult, file.read(LARGEST_RESULT))
        except (OSError, InvalidRecordError):
            error = self._signals.stopped or build_lost_error("finish", self._finished)
            result = build_refused_result(error.code, error.message)
        self._delegation_folder.place_results(results)
        return result
