"""All that running shows of a change, one kind of evidence after the other."""

from collections.abc import Callable

from gitlab_nightshift.verdict.evidence.benchmark import run_benchmark
from gitlab_nightshift.verdict.evidence.complexity import compare_complexity
from gitlab_nightshift.verdict.evidence.lab import Evidence, EvidenceSubject, Lab
from gitlab_nightshift.verdict.evidence.new_tests import evaluate_new_tests
from gitlab_nightshift.verdict.evidence.old_tests import run_old_tests
from gitlab_nightshift.verdict.evidence.weakened_tests import compare_strength

Gather = Callable[[EvidenceSubject, Lab], Evidence]


def _compare_complexity(subject: EvidenceSubject, _lab: Lab) -> Evidence:
    return compare_complexity(subject)


ALWAYS: tuple[Gather, ...] = (evaluate_new_tests, compare_strength)
BY_CATEGORY: dict[str, tuple[Gather, ...]] = {
    "refactoring": (_compare_complexity, run_old_tests),
    "performance": (run_old_tests, run_benchmark),
    "docs": (run_old_tests,),
}
"""What a category's changes are held against besides."""


def gather(subject: EvidenceSubject, lab: Lab) -> Evidence:
    """Everything that can be seen of a change within the lab's time. The checkout is left as the
    last run left it: the caller puts it back. Raises GitError, OSError."""
    found = Evidence()
    for each in (*ALWAYS, *BY_CATEGORY.get(subject.context.category, ())):
        found += each(subject, lab)
    return found
