"""The red flags, one entry each: name, level and why it matters. Rules are in ``proof/reading/``.

To add one: write its rule in a module there, and an entry here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Level = Literal["fail", "warn", "note", "off"]
"""A note is told, and counts for nothing."""


@dataclass(frozen=True)
class FlagEntry:
    """``level`` is that of its findings where the settings name none, ``why`` is for a reviewer,
    ``what`` says what raises it,
    ``rule`` where its function is (module:function below ``proof/reading``), "" for one that only
    running raises; ``levels`` are levels that differ for a category, ``by_people`` is that of a
    change that no agent made where it differs, and ``warn_if`` says where such a change is only
    warn_if about: a finding that is not certain, or that the rest of the change explains."""

    level: Level
    why: str
    rule: str = ""
    what: str = field(kw_only=True)
    levels: Mapping[str, Level] = field(default_factory=dict)
    by_people: Level | None = None
    warn_if: str = ""

    @property
    def people(self) -> Level:
        """The level in a change that no agent made."""
        return self.by_people or self.level


_STRICT: dict[str, Level] = dict.fromkeys(("refactoring", "performance", "docs", "tests"), "fail")
_EXPLAINED = "product code, dependencies or more test code change as well"
_DOCS: dict[str, Level] = {"docs": "fail"}

FLAGS: dict[str, FlagEntry] = {
    "test-deleted": FlagEntry(
        "fail",
        "Nothing watches this behaviour any more.",
        "deleted_tests:find_deleted_tests",
        what=(
            "A test is gone, or no runner collects it by its name or place any more, although what "
            "it tested is still there; `warn` where it has a twin."
        ),
        warn_if=_EXPLAINED,
    ),
    "test-skipped": FlagEntry(
        "fail",
        "A test that is not run finds nothing.",
        "skipped_tests:find_skipped_tests",
        what="A test, or a helper that asserts, is skipped, disabled, focused away or left early.",
        warn_if="the test is new, or a condition decides",
    ),
    "test-loosened": FlagEntry(
        "fail",
        "Mistakes that the test found pass from now on.",
        "weaker_tests:find_loosened_tests",
        what="A value is not expected any more, or a test passes now if it fails.",
        warn_if=_EXPLAINED,
    ),
    "assertion-removed": FlagEntry(
        "fail",
        "The test still passes, and checks less than its name says.",
        "weaker_tests:find_removed_assertions",
        what="A test lives on with fewer assertions.",
        warn_if=_EXPLAINED,
    ),
    "test-cannot-fail": FlagEntry(
        "fail",
        "It passes whatever the code does.",
        "certain_assertions:find_tests_that_cannot_fail",
        what=(
            "An assertion holds whatever the code does, a handler hides its failure, or code "
            "beside the tests sets their outcome, ends their run with success or makes all equal."
        ),
        warn_if="the assertion comes beside others that stay",
    ),
    "test-detection": FlagEntry(
        "fail",
        "Code that knows its test is right in the test only.",
        "detection:find_test_detection",
        what="Product code knows a test's input or runner, asks for it, or equals everything.",
    ),
    "suppression-added": FlagEntry(
        "fail",
        "The tool's complaint is still true; nobody hears it.",
        "suppressions:find_added_suppressions",
        by_people="note",
        what="A comment or annotation silences a tool (`noqa`, `eslint-disable`, …).",
    ),
    "exception-swallowed": FlagEntry(
        "fail",
        "The error happens still, and nobody learns of it.",
        "swallowed_errors:find_swallowed_exceptions",
        by_people="warn",
        what="A handler hides an error.",
    ),
    "public-name-removed": FlagEntry(
        "warn",
        "Code that this repository does not know may use it.",
        "public_names:find_removed_public_names",
        _STRICT,
        what="A public name is gone without an alias.",
    ),
    "signature-changed": FlagEntry(
        "warn",
        "Callers that this repository does not know break.",
        "signatures:find_changed_signatures",
        _STRICT,
        what="Callers of a public function break: a parameter is gone, required, or elsewhere.",
        by_people="note",
    ),
    "tool-settings": FlagEntry(
        "fail",
        "Whoever sets what is measured decides what is found.",
        "changed_settings:find_changed_tool_settings",
        by_people="note",
        what="Settings of a linter, formatter, type checker, coverage or test runner differ.",
    ),
    "dependency-file": FlagEntry(
        "fail",
        "Other code is installed: a decision for people, with its review.",
        "dependency_files:find_dependency_files",
        by_people="off",
        what="A manifest or lock file names other dependencies.",
    ),
    "generated-file": FlagEntry(
        "fail",
        "The next run of the generator undoes what was changed by hand.",
        "touched_files:find_generated_files",
        by_people="note",
        what="A generated file is changed by hand; `warn` where its source changed as well.",
    ),
    "vendored-file": FlagEntry(
        "fail",
        "A local change of somebody else's code is lost with its update.",
        "touched_files:find_vendored_files",
        by_people="warn",
        what="Code of others in the repository (`vendor/`, `node_modules/`, a submodule, …).",
    ),
    "binary-file": FlagEntry(
        "fail",
        "Nobody can read it in a review.",
        "touched_files:find_binary_files",
        by_people="note",
        what="A binary file is new or changed, also one of Git LFS.",
    ),
    "recent-file": FlagEntry(
        "fail",
        "People work on this file now: it would be in their way.",
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
        "whitespace:find_whitespace_changes",
        by_people="off",
        what="Lines differ only in white space or line ends; `fail` where a night did no more.",
    ),
    "outside-selection": FlagEntry(
        "fail",
        "One merge request, one improvement: this is another one.",
        "touched_files:find_files_outside_selection",
        what="A file not selected; `warn` for tests, docs, benchmarks, manifests, tools' settings.",
    ),
    "outside-paths": FlagEntry(
        "fail",
        "The settings leave this place alone.",
        "touched_files:find_files_outside_paths",
        what="A file outside `paths`, or in `exclude_paths`.",
    ),
    "machine-text": FlagEntry(
        "fail",
        "It tries to steer a tool or a reviewing AI behind people's backs.",
        "machine_text:find_machine_text",
        what="Text for an AI or a bot, quick actions, `[skip ci]`, hidden or look-alike letters.",
    ),
    "secret-added": FlagEntry(
        "fail",
        "Whoever can read the repository has it, now and in its history.",
        "leaked_secrets:find_added_secrets",
        what="A credential stands in an added line.",
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
        _DOCS,
        what="A relative link or anchor in changed Markdown leads nowhere.",
    ),
    "tests-fail": FlagEntry(
        "fail",
        "The project's own tests fail with the change.",
        what="Only by running: the commands fail on the change.",
    ),
    "suite-weakened": FlagEntry(
        "fail",
        "Faults that the tests found pass from now on.",
        what=(
            "Only by running: a fault planted in product code that tests noticed before is noticed"
            " by none with the change, or a night lets tests pass three that only others notice;"
            " `warn` where that happens less often, or nothing is known."
        ),
    ),
    "mutants-survive": FlagEntry(
        "fail",
        "A test that does not notice faults in what it calls protects nothing.",
        what=(
            "Only by running, where new tests have not failed on the old code: they notice none of"
            " three or more faults planted in what they call; `warn` under 40%."
        ),
    ),
    "test-reads-source": FlagEntry(
        "fail",
        "A test that looks at the code's text notices any change and no fault.",
        what="Only by running: new tests fail on code that does the same, written otherwise.",
    ),
    "flaky-test": FlagEntry(
        "warn",
        "A test with two results on the same files costs trust.",
        what="Only by running: another result when run again.",
    ),
    "old-tests-fail": FlagEntry(
        "warn",
        "Where behaviour is to stay, its tests hold as they were.",
        what=(
            "Only by running, in these categories: the tests as they were fail on the changed "
            "product code, and not for names that are gone."
        ),
        levels=dict.fromkeys(("refactoring", "performance", "docs"), "fail"),
    ),
    "unreliable-report": FlagEntry(
        "fail",
        "A test that fails and stops nobody, or of which nobody hears, protects nothing.",
        what=(
            "Only by running: a command ends with 0 though its tests' report has failures, or it "
            "reported its tests before the change and does not now."
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
