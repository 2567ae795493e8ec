"""What only running can show of a change: by this program itself, in the boundary of the agents."""

from collections.abc import Callable

from gitlab_nightshift.verdict.evidence.benchmark import benchmark
from gitlab_nightshift.verdict.evidence.complexity import complexity
from gitlab_nightshift.verdict.evidence.lab import Evidence, Lab, Subject, deadline
from gitlab_nightshift.verdict.evidence.new_tests import new_tests
from gitlab_nightshift.verdict.evidence.old_tests import old_tests
from gitlab_nightshift.verdict.evidence.raised import RUN_FLAGS, flaky, raised

__all__ = ["RUN_FLAGS", "Evidence", "Lab", "Subject", "deadline", "flaky", "gather", "raised"]

Gather = Callable[[Subject, Lab], Evidence]


def _complexity(subject: Subject, _lab: Lab) -> Evidence:
    return complexity(subject)


ALWAYS: tuple[Gather, ...] = (new_tests,)
BY_CATEGORY: dict[str, tuple[Gather, ...]] = {
    "refactoring": (_complexity, old_tests),
    "performance": (old_tests, benchmark),
}
"""What a category's changes are held against besides."""


def gather(subject: Subject, lab: Lab) -> Evidence:
    """Everything that can be seen of a change within the lab's time. The checkout is left as the
    last run left it: the caller puts it back. Raises GitError, OSError."""
    found = Evidence()
    for each in (*ALWAYS, *BY_CATEGORY.get(subject.context.category, ())):
        found += each(subject, lab)
    return found
