"""Evidence: what running a change showed, as checks and findings."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import islice

from gitlab_nightshift.proof.reviewed_change import Changeset, Context
from gitlab_nightshift.records.bead_results import CommandResult
from gitlab_nightshift.records.verdicts import Check, CheckOutcome, Finding
from gitlab_nightshift.registry.flag_registry import FLAGS, Level

MOST_NAMED = 5  # names in a message


@dataclass(frozen=True)
class EvidenceSubject:
    """A change between two trees. ``claim`` is Analyze's description of it, "" without one."""

    base: str
    tree: str
    change: Changeset
    context: Context
    claim: str = ""


@dataclass(frozen=True)
class NoticedFault:
    """A planted fault, and the reported names of the touched tests that notice it with the change
    applied. ``by_value``: the fault makes a value or a decision wrong."""

    by_value: bool
    tests: frozenset[str]


@dataclass(frozen=True)
class Evidence:
    """What running a change showed.

    ``proven`` are new tests (path, qualified name) that fail on the old code or notice faults.
    ``canaries`` has a pair for each planted fault and each test that noticed it before the change:
    the test's reported name, and whether any test still notices the fault (None: unknown).
    ``noticed`` are the same faults with the tests that notice them now.
    """

    checks: tuple[Check, ...] = ()
    findings: tuple[Finding, ...] = ()
    proven: tuple[tuple[str, str], ...] = ()
    canaries: tuple[tuple[str, bool | None], ...] = ()
    noticed: tuple[NoticedFault, ...] = ()

    def __add__(self, other: "Evidence") -> "Evidence":
        return Evidence(
            (*self.checks, *other.checks),
            (*self.findings, *other.findings),
            (*self.proven, *other.proven),
            (*self.canaries, *other.canaries),
            (*self.noticed, *other.noticed),
        )


def raise_flag(
    name: str, context: Context, file: str, detail: str, level: Level | None = None
) -> tuple[Finding, ...]:
    """One finding about a file ("" for none), or no finding if the settings turn the flag off. Its
    level is that of the settings, or else ``level``, or else the flag's own."""
    flag = FLAGS[name]
    default = flag.levels.get(context.category, flag.level)
    level = context.settings.policy.flags.get(name) or level or default
    return () if level == "off" else (Finding(name, level, file, 0, detail),)


def report_check(
    title: str,
    outcome: CheckOutcome,
    text: str,
    findings: tuple[Finding, ...] = (),
    proven: Iterable[tuple[str, str]] = (),
) -> Evidence:
    """The evidence of one check."""
    return Evidence((Check(title, outcome, text),), findings, tuple(proven))


def refuse(
    subject: EvidenceSubject,
    title: str,
    flag: str,
    text: str,
    file: str = "",
    detail: str = "",
    level: Level | None = None,
) -> Evidence:
    """A failed check, and a finding with ``detail``, or else with the text of the check."""
    findings = raise_flag(flag, subject.context, file, detail or text, level)
    return report_check(title, CheckOutcome.FAILED, text.rstrip("."), findings)


def format_names(names: Collection[str], default: str = "") -> str:
    """The first names, and how many more there are; ``default`` if there is none."""
    shown = ", ".join(islice(names, MOST_NAMED)) or default
    return shown + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")


def find_flaky_commands(
    results: tuple[CommandResult, ...], context: Context
) -> tuple[Finding, ...]:
    """A finding if commands failed at first and passed when run again."""
    names = ", ".join(f"`{result.command}`" for result in results if result.flaky)
    text = f"{names} failed at first and passed when run again on the same files."
    return raise_flag("flaky-test", context, "", text) if names else ()
