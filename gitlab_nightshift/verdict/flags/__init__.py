"""The red flags: a closed table of named rules, each with a level of its own.

To add one: write the rule in a module of this package and add it to ``FLAGS``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gitlab_nightshift.records import Finding, Level
from gitlab_nightshift.verdict.change import Change, Context, Rule
from gitlab_nightshift.verdict.flags.dangerous import dangerous_call
from gitlab_nightshift.verdict.flags.dependencies import dependency_file
from gitlab_nightshift.verdict.flags.detection import test_detection
from gitlab_nightshift.verdict.flags.docs import broken_example, broken_link
from gitlab_nightshift.verdict.flags.files import (
    binary_file,
    diff_too_large,
    generated_file,
    outside_paths,
    outside_selection,
    recent_file,
    vendored_file,
)
from gitlab_nightshift.verdict.flags.loosened import loosened
from gitlab_nightshift.verdict.flags.machine import machine_text
from gitlab_nightshift.verdict.flags.public import public_name_removed, signature_changed
from gitlab_nightshift.verdict.flags.secrets import secret_added
from gitlab_nightshift.verdict.flags.silenced import suppression_added
from gitlab_nightshift.verdict.flags.swallowed import exception_swallowed
from gitlab_nightshift.verdict.flags.tests_certain import test_cannot_fail
from gitlab_nightshift.verdict.flags.tests_empty import test_without_assertion
from gitlab_nightshift.verdict.flags.tests_gone import test_deleted, test_renamed_away
from gitlab_nightshift.verdict.flags.tests_skipped import test_skipped
from gitlab_nightshift.verdict.flags.tests_weaker import assertion_removed, test_loosened
from gitlab_nightshift.verdict.flags.whitespace import whitespace_only


@dataclass(frozen=True)
class Flag:
    """A rule with its level where the settings name none, and why it matters to a reviewer.

    ``levels`` are levels that differ for a category.
    """

    rule: Rule
    level: Level
    why: str
    levels: Mapping[str, Level] | None = None


_STRICT: dict[str, Level] = dict.fromkeys(("refactoring", "performance", "docs", "tests"), "fail")
_DOCS: dict[str, Level] = {"docs": "fail"}

FLAGS: dict[str, Flag] = {
    "test-deleted": Flag(test_deleted, "fail", "Nothing watches this behaviour any more."),
    "test-skipped": Flag(
        loosened("test-skipped", test_skipped), "fail", "A test that is not run finds nothing."
    ),
    "test-loosened": Flag(
        loosened("test-loosened", test_loosened),
        "fail",
        "Mistakes that the test found pass from now on.",
    ),
    "test-renamed-away": Flag(
        test_renamed_away, "fail", "The runner does not find the test, and nobody notices."
    ),
    "assertion-removed": Flag(
        assertion_removed, "fail", "The test still passes, and checks less than its name says."
    ),
    "test-without-assertion": Flag(
        test_without_assertion, "fail", "It raises the coverage and finds no mistake."
    ),
    "test-cannot-fail": Flag(test_cannot_fail, "fail", "It passes whatever the code does."),
    "test-detection": Flag(
        test_detection, "fail", "Code that knows its test is right in the test only."
    ),
    "suppression-added": Flag(
        suppression_added, "fail", "The tool's complaint is still true; nobody hears it."
    ),
    "exception-swallowed": Flag(
        exception_swallowed, "fail", "The error happens still, and nobody learns of it."
    ),
    "public-name-removed": Flag(
        public_name_removed, "warn", "Code that this repository does not know may use it.", _STRICT
    ),
    "signature-changed": Flag(
        signature_changed, "warn", "Callers that this repository does not know break.", _STRICT
    ),
    "linter-loosened": Flag(
        loosened("linter-loosened"), "fail", "What a linter no longer says, nobody will see."
    ),
    "types-loosened": Flag(
        loosened("types-loosened"), "fail", "Mistakes that the type checker found pass from now on."
    ),
    "coverage-loosened": Flag(
        loosened("coverage-loosened"), "fail", "Untested code no longer fails the pipeline."
    ),
    "ci-loosened": Flag(
        loosened("ci-loosened"), "fail", "A green pipeline means less than before."
    ),
    "dependency-file": Flag(
        dependency_file, "fail", "Other code is installed: a decision for people, with its review."
    ),
    "generated-file": Flag(
        generated_file, "fail", "The next run of the generator undoes what was changed by hand."
    ),
    "vendored-file": Flag(
        vendored_file, "fail", "A local change of somebody else's code is lost with its update."
    ),
    "binary-file": Flag(binary_file, "fail", "Nobody can read it in a review."),
    "recent-file": Flag(
        recent_file, "fail", "People work on this file now: it would be in their way."
    ),
    "diff-too-large": Flag(diff_too_large, "fail", "A reviewer has two minutes."),
    "whitespace-only": Flag(
        whitespace_only, "warn", "Noise hides what changed, and makes conflicts for others."
    ),
    "outside-selection": Flag(
        outside_selection, "fail", "One merge request, one improvement: this is another one."
    ),
    "outside-paths": Flag(outside_paths, "fail", "The settings leave this place alone."),
    "machine-text": Flag(
        machine_text, "fail", "It tries to steer a tool or a reviewing AI behind people's backs."
    ),
    "secret-added": Flag(
        secret_added, "fail", "Whoever can read the repository has it, now and in its history."
    ),
    "dangerous-call": Flag(dangerous_call, "fail", "A known way for attackers to get in."),
    "broken-link": Flag(broken_link, "warn", "Readers end up nowhere.", _DOCS),
    "broken-example": Flag(broken_example, "warn", "Who copies it gets an error.", _DOCS),
}


def judge(change: Change, context: Context) -> tuple[Finding, ...]:
    """Every finding of every flag that is not off, those that fail first."""
    found = [
        finding for name, flag in FLAGS.items() for finding in _raised(name, flag, change, context)
    ]
    return tuple(
        sorted(found, key=lambda finding: (finding.level != "fail", finding.file, finding.line))
    )


def _raised(name: str, flag: Flag, change: Change, context: Context) -> Iterable[Finding]:
    """By the settings' level, else the finding's own, else the category's, else the flag's.

    A rule that breaks on a change has not looked at it: that counts as if it had found something,
    or a change made to break it would get past.
    """
    fixed = context.settings.policy.flags.get(name)
    usual = (flag.levels or {}).get(context.category, flag.level)
    if fixed == "off":
        return
    try:
        for found in flag.rule(change, context):
            level = fixed or found.level or usual
            yield Finding(name, level, found.file, found.line, found.detail)
    except Exception as error:
        kind = type(error).__name__
        detail = f"This flag could not look at the change: {kind}. Please report it."
        yield Finding(name, fixed or usual, "", 0, detail)
