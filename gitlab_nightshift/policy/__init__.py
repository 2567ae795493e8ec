"""What a change may touch: pure functions of git's view of it and the settings."""

from gitlab_nightshift.policy.change_rules import ENFORCED, find_violations
from gitlab_nightshift.policy.manifest_files import DEPENDENCY_FILES
from gitlab_nightshift.policy.path_patterns import matches, within
from gitlab_nightshift.policy.sensitive_files import SENSITIVE
from gitlab_nightshift.policy.write_gate import list_gated_files, to_approve

__all__ = [
    "DEPENDENCY_FILES",
    "ENFORCED",
    "SENSITIVE",
    "find_violations",
    "list_gated_files",
    "matches",
    "to_approve",
    "within",
]
