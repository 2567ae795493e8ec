"""Findings of the flags that only running can raise."""

from gitlab_nightshift.proof.reviewed_change import Context
from gitlab_nightshift.records.bead_results import CommandResult
from gitlab_nightshift.records.verdicts import Finding
from gitlab_nightshift.registry.flag_entry import Level
from gitlab_nightshift.registry.flag_registry import FLAGS


def raise_flag(
    name: str, context: Context, file: str, line: int, detail: str, own: Level | None = None
) -> tuple[Finding, ...]:
    """One finding, or none if the settings turn the flag off."""
    flag = FLAGS[name]
    usual = flag.levels.get(context.category, flag.level)
    level = context.settings.policy.flags.get(name) or own or usual
    return () if level == "off" else (Finding(name, level, file, line, detail),)


def find_flaky_commands(
    results: tuple[CommandResult, ...], context: Context
) -> tuple[Finding, ...]:
    """A finding if commands failed first and passed when run again."""
    names = ", ".join(f"`{result.command}`" for result in results if result.flaky)
    text = f"{names} failed at first and passed when run again on the same files."
    return raise_flag("flaky-test", context, "", 0, text) if names else ()
