"""What the notary saw: the commands that prove a change, run on the tree of the bundle by a process
that has read nothing of an agent's. The supervisor writes it, beside the bundle.

Durations are in seconds.
"""

from dataclasses import dataclass
from typing import Annotated

from gitlab_nightshift.errors import Code
from gitlab_nightshift.records.field_bounds import Between, Length

NOTARY_VERSION = 1
NOTARY = "notary.json"
"""Its name beside the bundle's folder."""
MOST_RUNS = 2
_LONGEST_S = 10**7
_Command = Annotated[str, Length(20_000)]
_Commands = Annotated[tuple[_Command, ...], Length(1_000)]
_Words = Annotated[str, Length(1_000)]


@dataclass(frozen=True)
class NotarizedRun:
    """One run of a command. ``exit_status`` is None where it did not end by itself, and ``error``
    says why, in this program's words."""

    exit_status: Annotated[int, Between(-256, 1 << 32)] | None
    duration_s: Annotated[float, Between(0, _LONGEST_S)]
    error: _Words = ""

    @property
    def ok(self) -> bool:
        """True for exit status 0."""
        return self.exit_status == 0


@dataclass(frozen=True)
class NotarizedCommand:
    """A command on the change: once, or twice where it failed and was flaky before the change.
    ``base`` is its run without the change, where it failed with it and may fail without it."""

    command: _Command
    runs: Annotated[tuple[NotarizedRun, ...], Length(MOST_RUNS, least=1)]
    base: NotarizedRun | None = None

    @property
    def ok(self) -> bool:
        """True where its last run on the change passed."""
        return self.runs[-1].ok

    @property
    def accepted(self) -> bool:
        """True where it passed, or ends by itself and fails without the change as well: a time that
        is too short proves neither."""
        return self.ok or (self.base is not None and self.base.exit_status not in (None, 0))


@dataclass(frozen=True)
class NotaryRecord:
    """What was seen of the tree ``tree_id`` ("" where nothing was asked for), for one run and one
    base. ``asked`` are the commands
    that should have run, ``commands`` those that did, in this order, to the first that was not
    accepted. ``isolation`` is where they ran, ``unrestored`` what could not be put back in the
    checkout before. ``why`` says why they could not be run, "" where they were."""

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
    """Where a bundle comes from: a folder that was ``given`` (None: the usual one), or another job
    of this pipeline; ``notary_job`` is the one whose word counts for what was run."""

    given: str | None = None
    job: str | None = None
    notary_job: str | None = None


@dataclass(frozen=True)
class NotaryRefusal:
    """Why a change is not published: ``E_TEST_FAILED`` where a command failed, ``E_INCOMPLETE``
    where nobody has seen whether it does."""

    code: Code
    why: str


def find_refusal(
    record: NotaryRecord, *, run_id: str, base_sha: str, tree_id: str
) -> NotaryRefusal | None:
    """Why the record does not let this change be published; None where it does."""
    if record.why:
        text = f"the commands were not run once more on the change: {record.why}"
        return NotaryRefusal(Code.INCOMPLETE, text)
    tree = record.tree_id or (tree_id if not record.asked else "")
    if (record.run_id, record.base_sha, tree) != (run_id, base_sha, tree_id):
        return NotaryRefusal(Code.PUBLISH, f"{NOTARY} is about another change, or another run")
    failed = next((each for each in record.commands if not each.accepted), None)
    ran = tuple(each.command for each in record.commands)
    if ran != record.asked[: len(ran)] or (len(ran) < len(record.asked) and not failed):
        text = f"{NOTARY} does not say of each command that was asked for how it ended"
        return NotaryRefusal(Code.PARSE_ERROR, text)
    return NotaryRefusal(Code.TEST_FAILED, describe_failure(failed)) if failed else None


def is_refused(record: NotaryRecord, asked: NotaryRecord) -> bool:
    """Whether the record says that a command failed on the change that ``asked`` is about."""
    about = {"run_id": asked.run_id, "base_sha": asked.base_sha, "tree_id": asked.tree_id}
    refusal = find_refusal(record, **about)
    return refusal is not None and refusal.code is Code.TEST_FAILED


def describe_failure(seen: NotarizedCommand) -> str:
    """How a command failed on the change, all its runs told."""
    how = ", then ".join(map(describe_run, seen.runs))
    where = "" if seen.base is None else f"; without the change: {describe_run(seen.base)}"
    return f"`{seen.command}` failed when it was run once more on the change: {how}{where}"


def describe_run(run: NotarizedRun) -> str:
    """How one run ended: ``exit 1, 2.5 s``."""
    how = run.error or ("did not end" if run.exit_status is None else f"exit {run.exit_status}")
    return f"{how}, {run.duration_s:.1f} s"
