"""What a change may touch: pure functions of git's view of it and the settings."""

from typing import TYPE_CHECKING

from gitlab_nightshift.lazy_names import load_lazily

if TYPE_CHECKING:
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
__getattr__ = load_lazily(
    __name__,
    {
        "change_rules": "ENFORCED find_violations",
        "manifest_files": "DEPENDENCY_FILES",
        "path_patterns": "matches within",
        "sensitive_files": "SENSITIVE",
        "write_gate": "list_gated_files to_approve",
    },
)
