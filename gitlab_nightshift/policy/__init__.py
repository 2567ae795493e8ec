"""What a change may touch: pure functions of git's view of it and the settings."""

from gitlab_nightshift.policy.gates import SENSITIVE, gated, to_approve
from gitlab_nightshift.policy.paths import ChangeView, matches, within
from gitlab_nightshift.policy.pipeline import NO_INCLUDES, CiFiles, follow
from gitlab_nightshift.policy.rules import DEPENDENCY_FILES, ENFORCED, violations

__all__ = [
    "DEPENDENCY_FILES",
    "ENFORCED",
    "NO_INCLUDES",
    "SENSITIVE",
    "ChangeView",
    "CiFiles",
    "follow",
    "gated",
    "matches",
    "to_approve",
    "violations",
    "within",
]
