"""The flags that only running can raise, with their levels."""

from dataclasses import dataclass

from gitlab_nightshift.records import CommandResult, Finding, Level
from gitlab_nightshift.verdict.change import Context


@dataclass(frozen=True)
class RunFlag:
    """``category`` is one in which the level is ``there`` instead; ``why`` is for a reviewer."""

    level: Level
    why: str
    category: str = ""
    there: Level = "fail"


RUN_FLAGS = {
    "tests-fail": RunFlag("fail", "The project's own tests fail with the change."),
    "test-passes-before": RunFlag(
        "fail", "A test that catches the fault fails on the code that has it."
    ),
    "mutants-survive": RunFlag(
        "fail", "A test that does not notice faults in what it calls protects nothing."
    ),
    "flaky-test": RunFlag("warn", "A test with two results on the same files costs trust."),
    "complexity-raised": RunFlag(
        "warn", "A refactoring should leave code simpler than it was.", "refactoring"
    ),
    "slower": RunFlag("warn", "The benchmark takes longer with the change.", "performance"),
}


def raised(
    name: str, context: Context, file: str, line: int, detail: str, own: Level | None = None
) -> tuple[Finding, ...]:
    """One finding, or none where the settings switch the flag off."""
    flag = RUN_FLAGS[name]
    usual = flag.there if context.category and context.category == flag.category else flag.level
    level = context.settings.policy.flags.get(name) or own or usual
    return () if level == "off" else (Finding(name, level, file, line, detail),)


def flaky(results: tuple[CommandResult, ...], context: Context) -> tuple[Finding, ...]:
    """A finding where commands failed first and passed when run again."""
    names = ", ".join(f"`{result.command}`" for result in results if result.flaky)
    text = f"{names} failed at first and passed when run again on the same files."
    return raised("flaky-test", context, "", 0, text) if names else ()
