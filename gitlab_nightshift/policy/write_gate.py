"""The write gate: which files of a change need a second look or an approval, or are denied.

``policy.gates.write`` decides about files outside ``policy.writable_paths`` and about sensitive
ones; each class of sensitive files has a least strict decision, which no setting lowers.
"""

from collections.abc import Iterable, Iterator

from gitlab_nightshift.policy.path_patterns import matches
from gitlab_nightshift.policy.sensitive_files import (
    ANY_HARMLESS,
    PIPELINE,
    SENSITIVE,
    SensitiveClass,
)
from gitlab_nightshift.records.products import ChangeSize
from gitlab_nightshift.records.verdicts import Decision, GatedFile
from gitlab_nightshift.registry.pipeline_files import NO_INCLUDES, CiFiles
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.settings.setting_groups import Gate

MOST_NAMED = 5

_STRENGTH: dict[str, int] = {"auto_allow": 0, "draft": 1, "require_approval": 2, "deny": 3}


def list_gated_files(
    change: ChangeSize, settings: Settings, ci_config: str, ci_files: CiFiles = NO_INCLUDES
) -> tuple[GatedFile, ...]:
    """The files that the write gate does not simply allow, with the strictest decision for each.

    ``ci_config`` is the project's setting (``CI_CONFIG_PATH``); ``ci_files`` are the pipeline
    configuration files of the base commit.
    """
    found = (
        _select_strictest(_decide_path(path, settings, ci_config, ci_files))
        for path in change.files
    )
    return tuple(each for each in found if each)


def to_approve(gates: Iterable[GatedFile]) -> str:
    """The files to approve and why, in one line; "" without any."""
    asked = [f"{each.path} {each.why}" for each in gates if each.decision == "require_approval"]
    more = f"; and {len(asked) - MOST_NAMED} more files" if len(asked) > MOST_NAMED else ""
    return "; ".join(asked[:MOST_NAMED]) + more


def _select_strictest(decided: Iterator[GatedFile]) -> GatedFile | None:
    return max(decided, key=lambda each: _STRENGTH[each.decision], default=None)


def _decide_path(
    path: str, settings: Settings, ci_config: str, ci_files: CiFiles
) -> Iterator[GatedFile]:
    gate = settings.policy.gates.write
    if _is_pipeline(path, ci_config, ci_files):
        yield GatedFile(path, _choose_stricter("require_approval", gate), PIPELINE.why)
    for kind in SENSITIVE:
        if matches(path.lower(), kind.patterns) and not _is_harmless(path, kind):
            yield GatedFile(path, _choose_stricter("draft", gate), kind.why)
    if path in _list_own_templates(settings):
        yield GatedFile(path, _choose_stricter("draft", gate), "is a prompt of this night shift")
    if matches(path, settings.policy.sensitive_paths):
        yield GatedFile(path, _choose_stricter("draft", gate), "is one of policy.sensitive_paths")
    if gate != "auto_allow" and not matches(path, settings.policy.writable_paths):
        yield GatedFile(path, gate, "is outside policy.writable_paths")


def _choose_stricter(least: Decision, gate: Gate) -> Decision:
    if gate == "auto_allow" or _STRENGTH[gate] < _STRENGTH[least]:
        return least
    return gate


def _is_harmless(path: str, kind: SensitiveClass) -> bool:
    return kind.name == "auth" and ANY_HARMLESS.search(path) is not None


def _is_pipeline(path: str, ci_config: str, ci_files: CiFiles) -> bool:
    """True for GitLab's default file, the project's own, all that it includes, and the usual folder
    for includes."""
    own = ci_config.partition("@")[0].removeprefix("/")  # path@group/project is another project's
    return path == own or ci_files.holds(path) or matches(path, PIPELINE.patterns)


def _list_own_templates(settings: Settings) -> set[str]:
    return {name.removeprefix("./") for name in vars(settings.prompts).values() if name}
