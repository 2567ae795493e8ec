"""The red flags: name, level, and why each matters. To add one, write its rule in
``proof/reading/``, and an entry here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Level = Literal["fail", "warn", "note", "off"]
"""A note is shown, but has no effect."""


@dataclass(frozen=True)
class FlagEntry:
    """One red flag. ``level`` applies unless the settings have another one; ``why`` is for
    reviewers; ``what`` describes what raises the flag. ``rule`` is its function
    (``module:function`` in ``proof/reading``), "" if only running the change can raise it.
    ``levels`` are those of categories with another level; ``by_people`` is the level for a change
    that no agent made, if it differs; ``warn_if`` says when it is only ``warn`` there, as the
    finding is uncertain, or explained by the rest of the change."""

    level: Level
    why: str
    rule: str = ""
    what: str = field(kw_only=True)
    levels: Mapping[str, Level] = field(default_factory=dict)
    by_people: Level | None = None
    warn_if: str = ""

    @property
    def human_level(self) -> Level:
        """The level in a change that no agent made."""
        return self.by_people or self.level


# By their guidance (categories.py), these categories leave public interfaces as they are.
_STRICT: dict[str, Level] = dict.fromkeys(("refactoring", "performance", "docs", "tests"), "fail")
# The test may follow a change that was made on purpose.
_EXPLAINED = "product code, dependencies or more test code also changed"
_FAILS_IN_DOCS: dict[str, Level] = {"docs": "fail"}

FLAGS: dict[str, FlagEntry] = {
    "test-deleted": FlagEntry(
        "fail",
        "Nothing tests this behaviour any more.",
        "deleted_or_skipped_tests:find_deleted_tests",
        what=(
            "A test is deleted, or no runner collects it by its new name or path, although what it "
            "tested still exists; `warn` if another test has the same body."
        ),
        warn_if=_EXPLAINED,
    ),
    "test-skipped": FlagEntry(
        "fail",
        "A test that is not run finds nothing.",
        "deleted_or_skipped_tests:find_skipped_tests",
        what="A test, or a helper that asserts, is skipped, disabled, not in focus or left early.",
        warn_if="the test is new, or a condition decides",
    ),
    "test-loosened": FlagEntry(
        "fail",
        "Bugs this test used to catch will now slip through.",
        "weaker_tests:find_loosened_tests",
        what="A value is no longer expected, or a test now passes if it fails.",
        warn_if=_EXPLAINED,
    ),
    "assertion-removed": FlagEntry(
        "fail",
        "The test still passes, but checks less than its name says.",
        "weaker_tests:find_removed_assertions",
        what="A test keeps fewer assertions.",
        warn_if=_EXPLAINED,
    ),
    "test-cannot-fail": FlagEntry(
        "fail",
        "It passes whatever the code does.",
        "weaker_tests:find_tests_that_cannot_fail",
        what=(
            "An assertion holds whatever the code does, a handler hides its failure, or code "
            "beside the tests sets their outcome, ends the run with success or makes all equal."
        ),
        warn_if="the assertion is added beside others that stay",
    ),
    "test-detection": FlagEntry(
        "fail",
        "Code that detects its test is only right in that test.",
        "rigged_code:find_test_detection",
        what="Product code checks for a test's input or runner, or is equal to everything.",
    ),
    "suppression-added": FlagEntry(
        "fail",
        "The tool's complaint is still true, but nobody sees it.",
        "suppressions:find_added_suppressions",
        by_people="note",
        what="A comment or annotation silences a tool (`noqa`, `eslint-disable`, …).",
    ),
    "exception-swallowed": FlagEntry(
        "fail",
        "The error still occurs, but silently.",
        "swallowed_errors:find_swallowed_exceptions",
        by_people="warn",
        what="A handler hides an error.",
    ),
    "public-name-removed": FlagEntry(
        "warn",
        "Code outside this repository may use it.",
        "public_interface:find_removed_public_names",
        _STRICT,
        what="A public name is removed without an alias.",
    ),
    "signature-changed": FlagEntry(
        "warn",
        "Callers outside this repository may break.",
        "public_interface:find_changed_signatures",
        _STRICT,
        what="A public function's parameter is removed, moved or required now.",
        by_people="note",
    ),
    "tool-settings": FlagEntry(
        "fail",
        "Nobody sees what a disabled rule would have reported.",
        "touched_files:find_changed_tool_settings",
        by_people="note",
        what="Settings of a linter, formatter, type checker, coverage or test runner differ.",
    ),
    "dependency-file": FlagEntry(
        "fail",
        "It installs other code: people should decide on that.",
        "touched_files:find_dependency_files",
        by_people="off",
        what="A manifest or lock file names other dependencies.",
    ),
    "generated-file": FlagEntry(
        "fail",
        "The next run of the generator undoes the change.",
        "touched_files:find_generated_files",
        by_people="note",
        what="A generated file is changed by hand; `warn` if its source changed, too.",
    ),
    "vendored-file": FlagEntry(
        "fail",
        "A local change of third-party code is lost with its next update.",
        "touched_files:find_vendored_files",
        by_people="warn",
        what="Third-party code in the repository (`vendor/`, `node_modules/`, a submodule, …).",
    ),
    "binary-file": FlagEntry(
        "fail",
        "Nobody can read it in a review.",
        "touched_files:find_binary_files",
        by_people="note",
        what="A binary file is new or changed, including Git LFS.",
    ),
    "recent-file": FlagEntry(
        "fail",
        "People are working on this file: the change could conflict.",
        "touched_files:find_recent_files",
        what="The last commits touched the file (`avoid_recent_commits`; `--recent` in `check`).",
    ),
    "diff-too-large": FlagEntry(
        "fail",
        "A reviewer has two minutes.",
        "touched_files:find_too_large_diff",
        by_people="off",
        what="More changed lines than `max_diff_lines`; a file that a night moves counts twice.",
    ),
    "whitespace-only": FlagEntry(
        "warn",
        "Noise hides what changed, and makes conflicts for others.",
        "touched_files:find_whitespace_changes",
        by_people="off",
        what="Lines differ only in white space or line endings; `fail` if a night did no more.",
    ),
    "outside-selection": FlagEntry(
        "fail",
        "One merge request, one improvement: this is another one.",
        "touched_files:find_files_outside_selection",
        what="A file not selected; `warn` for tests, docs, benchmarks, manifests, tools' settings.",
    ),
    "outside-paths": FlagEntry(
        "fail",
        "The settings exclude this path.",
        "touched_files:find_files_outside_paths",
        what="A file outside `paths`, or in `exclude_paths`.",
    ),
    "machine-text": FlagEntry(
        "fail",
        "It tries to steer a tool or a reviewing AI behind people's backs.",
        "added_text:find_machine_text",
        what="Text for an AI or a bot, quick actions, `[skip ci]`, hidden or look-alike letters.",
    ),
    "secret-added": FlagEntry(
        "fail",
        "Whoever can read the repository has it, now and in its history.",
        "added_text:find_added_secrets",
        what="A credential in an added line.",
    ),
    "dangerous-call": FlagEntry(
        "fail",
        "A known way for attackers to get in.",
        "dangerous:find_dangerous_calls",
        what=(
            "A dangerous call outside tests: a shell with variables, `eval`, SQL by formatting, "
            "TLS without checks, …; `warn` for a wider file mode or one more `unsafe`."
        ),
        warn_if="it depends on its use: a weak hash, a number that can be guessed, `unsafe`",
    ),
    "broken-link": FlagEntry(
        "warn",
        "Readers end up nowhere.",
        "documentation:find_broken_links",
        _FAILS_IN_DOCS,
        what="A relative link or anchor in changed Markdown leads nowhere.",
    ),
    "tests-fail": FlagEntry(
        "fail",
        "The project's own tests fail with the change.",
        what="Only by running: the commands fail on the change.",
    ),
    "suite-weakened": FlagEntry(
        "fail",
        "Faults that the tests used to catch will now slip through.",
        what=(
            "Only by running: a fault planted in product code that tests noticed before is noticed"
            " by none with the change, or in a night's change three are missed by tests that"
            " noticed them; `warn` if there are fewer, or the result is unknown."
        ),
    ),
    "mutants-survive": FlagEntry(
        "fail",
        "A test that does not notice faults in what it calls protects nothing.",
        what=(
            "Only by running, if new tests pass on the old code: they notice none of three or more"
            " faults planted in what they call; `warn` under 40%."
        ),
    ),
    "test-reads-source": FlagEntry(
        "fail",
        "A test that reads the code's text notices every edit and no fault.",
        what="Only by running: new tests fail on equivalent code that is written differently.",
    ),
    "flaky-test": FlagEntry(
        "warn",
        "People stop trusting a test with two results on the same files.",
        what="Only by running: a command has another result when run again.",
    ),
    "old-tests-fail": FlagEntry(
        "warn",
        "If behaviour must not change, the old tests must still pass.",
        what=(
            "Only by running, in these categories: the old tests fail on the changed product code, "
            "and not because of removed names."
        ),
        levels=dict.fromkeys(("refactoring", "performance", "docs"), "fail"),
    ),
    "unreliable-report": FlagEntry(
        "fail",
        "A failing test that stops nothing, or that nobody sees, protects nothing.",
        what=(
            "Only by running: a command ends with 0 although its report has failed tests, or it no "
            "longer reports its tests."
        ),
    ),
    "complexity-raised": FlagEntry(
        "warn",
        "A refactoring should leave code simpler than it was.",
        levels={"refactoring": "fail"},
        what="Only by running: complexity or duplication of the changed files is higher.",
    ),
    "slower": FlagEntry(
        "warn",
        "The benchmark takes longer with the change.",
        levels={"performance": "fail"},
        what="Only by running: the benchmark is slower.",
    ),
}
