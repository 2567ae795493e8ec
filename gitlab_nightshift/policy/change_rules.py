"""The rules that no night's change may break: pure functions of a change and the settings. Red
flags are in ``proof/reading``; ``stages/work/proofs.py`` applies both."""

from collections.abc import Collection, Iterable, Mapping

from gitlab_nightshift.policy.path_patterns import find_matching, is_in_scope
from gitlab_nightshift.policy.protected_files import (
    DEPENDENCY_FILES,
    TOOL_FILES,
    WHOLE_FILE,
    describe_denial,
)
from gitlab_nightshift.policy.write_gate import list_gated_files
from gitlab_nightshift.records.products import ChangeSize
from gitlab_nightshift.registry.pipeline_files import NO_INCLUDES, CiFiles
from gitlab_nightshift.settings.model import Settings

ENFORCED = ("diff-too-large", "dependency-file", "tool-settings", "recent-file", "outside-paths")
"""Flags that are also rules for a night's change, checked in work and again in publish, unless the
settings set them to ``warn`` or ``off``."""


def find_violations(
    change: ChangeSize,
    tool_settings: Mapping[str, str],
    settings: Settings,
    recent_files: Collection[str],
    ci_config: str,
    ci_files: CiFiles = NO_INCLUDES,
) -> tuple[str, ...]:
    """For every rule that a change breaks, and for every file that the write gate denies, a
    sentence that helps the next attempt. Files that need only an approval break no rule
    (``write_gate.list_gated_files``).

    ``tool_settings`` is the result of ``protected_files.list_changed_settings``; files with nothing
    but such settings are also recognized by name.
    """
    not_enforced = {flag for flag, level in settings.policy.flags.items() if level != "fail"}
    recent = [path for path in change.files if path in recent_files]
    outside = [path for path in change.files if not is_in_scope(path, settings)]
    dependencies = find_matching(change.files, DEPENDENCY_FILES)
    tool_files = dict.fromkeys(find_matching(change.files, TOOL_FILES), WHOLE_FILE)
    protected = {**tool_files, **tool_settings}.items()
    rules = (
        ("diff-too-large", _describe_excess(change, settings)),
        ("dependency-file", _describe_paths("is a dependency manifest or lock file", dependencies)),
        ("tool-settings", [describe_denial(path, what) for path, what in protected]),
        ("recent-file", _describe_paths("was changed by a recent commit: leave it alone", recent)),
        ("outside-paths", _describe_paths("is outside the paths for this night", outside)),
    )
    broken = [text for flag, texts in rules if flag not in not_enforced for text in texts]
    denied = [
        str(each)
        for each in list_gated_files(change, settings, ci_config, ci_files)
        if each.decision == "deny"
    ]
    return (*broken, *denied)


def _describe_excess(change: ChangeSize, settings: Settings) -> list[str]:
    if change.lines <= settings.max_diff_lines:
        return []
    return [
        f"The diff has {change.lines} added and deleted lines; at most {settings.max_diff_lines} "
        "are allowed. Make a smaller change."
    ]


def _describe_paths(rule: str, paths: Iterable[str]) -> list[str]:
    return [f"{path} {rule}." for path in paths]
