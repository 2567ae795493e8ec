"""The notary's record: the results of the commands that prove a change, run on the bundle's tree by
a process that has read no agent's output. The supervisor writes it beside the bundle.

Durations are in seconds.
"""

from dataclasses import dataclass
from typing import Annotated

from gitlab_nightshift.errors import Code
from gitlab_nightshift.records.codec import Between, Length

NOTARY_VERSION = 1
NOTARY = "notary.json"
"""The file's name beside the bundle's folder."""
MOST_RUNS = 2
"""Runs of a command on the change: if it fails, but is known to be flaky, it is repeated once."""
_LONGEST_S = 10**7
_Command = Annotated[str, Length(20_000)]
_Commands = Annotated[tuple[_Command, ...], Length(1_000)]
_Words = Annotated[str, Length(1_000)]


@dataclass(frozen=True)
class NotarizedRun:
    """One run of a command. ``exit_status`` is None if it was stopped; ``error`` says why."""

    # Negative for a signal, as in subprocess; Linux has 64 (signal(7)).
    exit_status: Annotated[int, Between(-256, 1 << 32)] | None
    duration_s: Annotated[float, Between(0, _LONGEST_S)]
    error: _Words = ""

    @property
    def ok(self) -> bool:
        """True for exit status 0."""
        return self.exit_status == 0


@dataclass(frozen=True)
class NotarizedCommand:
    """A command and its ``runs`` on the change: two if the first failed and the command was flaky
    before the change, else one. ``base`` is a run without the change, if that may fail, too."""

    command: _Command
    runs: Annotated[tuple[NotarizedRun, ...], Length(MOST_RUNS, least=1)]
    base: NotarizedRun | None = None

    @property
    def ok(self) -> bool:
        """True if its last run on the change passed."""
        return self.runs[-1].ok

    @property
    def accepted(self) -> bool:
        """True if it passed, or if it also fails without the change; a timeout without the change
        proves nothing."""
        return self.ok or (self.base is not None and self.base.exit_status not in (None, 0))


@dataclass(frozen=True)
class NotaryRecord:
    """The results of commands on the tree ``tree_id`` ("" if no commands were requested), which the
    change makes of ``base_sha``. ``asked`` are the requested commands; ``commands`` are the results
    in the same order, up to the first command that was not accepted. ``isolation`` names the
    sandbox; ``unrestored`` says what could not be restored in the checkout before. ``why`` is why
    no command could run, "" if they did."""

    run_id: Annotated[str, Length(100)]
    base_sha: Annotated[str, Length(64)]
    tree_id: Annotated[str, Length(64)]
    asked: _Commands
    commands: Annotated[tuple[NotarizedCommand, ...], Length(1_000)] = ()
    isolation: _Words = ""
    unrestored: Annotated[tuple[_Words, ...], Length(20)] = ()
    why: _Words = ""
    version: int = NOTARY_VERSION


@dataclass(frozen=True)
class BundleOrigin:
    """Where publish gets a bundle: from the folder ``given`` on the command line (None: the usual
    one), or from another ``job`` of this pipeline; ``notary_job`` has the notary's record."""

    given: str | None = None
    job: str | None = None
    notary_job: str | None = None


@dataclass(frozen=True)
class NotaryRefusal:
    """Why a change is not published: ``E_TEST_FAILED`` if a command failed, ``E_INCOMPLETE`` if it
    was not run."""

    code: Code
    why: str


def find_refusal(
    record: NotaryRecord, *, run_id: str, base_sha: str, tree_id: str
) -> NotaryRefusal | None:
    """Why the record does not allow publishing this change; None if it does."""
    if record.why:
        text = f"the commands were not run once more on the change: {record.why}"
        return NotaryRefusal(Code.INCOMPLETE, text)
    recorded_tree = record.tree_id
    if not recorded_tree and not record.asked:
        recorded_tree = tree_id  # without commands, the notary makes no tree
    if (record.run_id, record.base_sha, recorded_tree) != (run_id, base_sha, tree_id):
        return NotaryRefusal(Code.PUBLISH, f"{NOTARY} is about another change, or another run")
    failed = next((result for result in record.commands if not result.accepted), None)
    ran = tuple(result.command for result in record.commands)
    # The notary stops only at a command that is not accepted, and never leaves one out.
    if ran != record.asked[: len(ran)] or (len(ran) < len(record.asked) and not failed):
        text = f"{NOTARY} lacks the result of a requested command"
        return NotaryRefusal(Code.PARSE_ERROR, text)
    return NotaryRefusal(Code.TEST_FAILED, describe_failure(failed)) if failed else None


def is_refused(record: NotaryRecord, expected: NotaryRecord) -> bool:
    """True if the record is about the same change as ``expected``, and a command failed on it."""
    change = {"run_id": expected.run_id, "base_sha": expected.base_sha, "tree_id": expected.tree_id}
    refusal = find_refusal(record, **change)
    return refusal is not None and refusal.code is Code.TEST_FAILED


def describe_failure(notarized: NotarizedCommand) -> str:
    """How a command failed on the change, with all its runs."""
    runs = ", then ".join(map(describe_run, notarized.runs))
    text = f"`{notarized.command}` failed when it was run once more on the change: {runs}"
    return f"{text}; without the change: {describe_run(notarized.base)}" if notarized.base else text


def describe_run(run: NotarizedRun) -> str:
    """How one run ended: ``exit 1, 2.5 s``."""
    status = "did not end" if run.exit_status is None else f"exit {run.exit_status}"
    return f"{run.error or status}, {run.duration_s:.1f} s"
