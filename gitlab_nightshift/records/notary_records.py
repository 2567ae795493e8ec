"""The notary's record: the commands that prove a change, run on the bundle's tree by a process that
has read no agent's output. The supervisor writes it beside the bundle.

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
"""Runs of a command on the change: a failed one is repeated once, if it is known to be flaky."""
_LONGEST_S = 10**7
_Command = Annotated[str, Length(20_000)]
_Commands = Annotated[tuple[_Command, ...], Length(1_000)]
_Words = Annotated[str, Length(1_000)]


@dataclass(frozen=True)
class NotarizedRun:
    """One run of a command. ``exit_status`` is None if it was stopped, for the reason ``error``."""

    # Negative for a signal, as in subprocess: of 64 in Linux (signal(7)).
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
    before the change, else one. ``base`` is a run without the change; it follows a failure that may
    not be the change's fault."""

    command: _Command
    runs: Annotated[tuple[NotarizedRun, ...], Length(MOST_RUNS, least=1)]
    base: NotarizedRun | None = None

    @property
    def ok(self) -> bool:
        """True if its last run on the change passed."""
        return self.runs[-1].ok

    @property
    def accepted(self) -> bool:
        """True if it passed, or fails without the change as well: with an exit status, as a timeout
        proves nothing."""
        return self.ok or (self.base is not None and self.base.exit_status not in (None, 0))


@dataclass(frozen=True)
class NotaryRecord:
    """The results of commands on the tree ``tree_id``, which a change makes of ``base_sha`` ("" if
    no commands were requested). ``asked`` are the requested commands, ``commands`` those that ran,
    in the same order, up to the first that was not accepted. ``isolation`` names their sandbox,
    ``unrestored`` what could not be restored in the checkout before they ran. ``why`` is why they
    could not run, "" if they did."""

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
    """Where publish gets a bundle: from a ``given`` folder (None: the usual one), or from another
    ``job`` of this pipeline; ``notary_job`` is the job with the notary's record."""

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
    tree = record.tree_id or (tree_id if not record.asked else "")
    if (record.run_id, record.base_sha, tree) != (run_id, base_sha, tree_id):
        return NotaryRefusal(Code.PUBLISH, f"{NOTARY} is about another change, or another run")
    failed = next((each for each in record.commands if not each.accepted), None)
    ran = tuple(each.command for each in record.commands)
    # The notary stops at the first command that is not accepted, and never leaves one out.
    if ran != record.asked[: len(ran)] or (len(ran) < len(record.asked) and not failed):
        text = f"{NOTARY} lacks the result of a requested command"
        return NotaryRefusal(Code.PARSE_ERROR, text)
    return NotaryRefusal(Code.TEST_FAILED, describe_failure(failed)) if failed else None


def is_refused(record: NotaryRecord, expected: NotaryRecord) -> bool:
    """True if the record is about the change of ``expected``, and a command failed on it."""
    change = {"run_id": expected.run_id, "base_sha": expected.base_sha, "tree_id": expected.tree_id}
    refusal = find_refusal(record, **change)
    return refusal is not None and refusal.code is Code.TEST_FAILED


def describe_failure(notarized: NotarizedCommand) -> str:
    """How a command failed on the change, with all its runs."""
    how = ", then ".join(map(describe_run, notarized.runs))
    where = (
        "" if notarized.base is None else f"; without the change: {describe_run(notarized.base)}"
    )
    return f"`{notarized.command}` failed when it was run once more on the change: {how}{where}"


def describe_run(run: NotarizedRun) -> str:
    """How one run ended: ``exit 1, 2.5 s``."""
    how = run.error or ("did not end" if run.exit_status is None else f"exit {run.exit_status}")
    return f"{how}, {run.duration_s:.1f} s"
