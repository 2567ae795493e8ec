"""Settings of test runners and task runners in files that are programs: a closed table.

``MARKS`` are those that a source file holds about itself; they count where the file lives on.
"""

from gitlab_nightshift.verdict.tooling.directions import (
    fewer_globs,
    fewer_words,
    grows,
    lower,
    only_gone,
    scale,
    shrinks,
    turned_off,
)
from gitlab_nightshift.verdict.tooling.pattern import LIST, Pattern, Patterns
from gitlab_nightshift.verdict.tooling.rules import CI, COVERAGE, SKIPPED, TYPES

RUNNERS: Patterns = (
    (
        r"(^|/)(\.simplecov|(spec|test|rails)_helper\.rb)$",
        (
            Pattern(
                COVERAGE,
                "minimum_coverage",
                r"\bminimum_coverage(?:_by_file)?[ (]+(?:\w+:\s*)?(\d+(?:\.\d+)?)",
                lower,
            ),
            Pattern(COVERAGE, "add_filter", r"\badd_filter[ (]+(['\"/][^\n]*)", grows, True),
            Pattern(COVERAGE, "refuse_coverage_drop", r"\b(refuse_coverage_drop)\b", turned_off),
            Pattern(
                SKIPPED, "filter_run_excluding", r"\bfilter_run_excluding[ (]+([^\n]*)", grows, True
            ),
        ),
    ),
    (
        r"(^|/)[Rr]akefile$|\.rake$",
        (
            Pattern(
                CI,
                "test files",
                r"\b(?:test_globs|pattern|test_files)\s*=\s*([^\n]*)",
                fewer_globs,
                True,
                True,
            ),
            Pattern(CI, "fail_on_error", r"\bfail_on_error\s*=\s*(true|false)", turned_off),
            Pattern(
                SKIPPED,
                "excluded examples",
                r"(--tag[ =]~[\w:]+|--exclude-pattern[ =][^\s\"']+)|\bexclude_pattern\s*=\s*(.+)",
                grows,
                True,
            ),
        ),
    ),
    (
        r"(^|/)(noxfile|tasks)\.py$",
        (
            Pattern(CI, "sessions", r"\bnox\.options\.sessions" + LIST, shrinks, True, True),
            Pattern(
                CI,
                "calls that may fail",
                r"^\s*(.*\b(?:success_codes\s*=\s*\[|warn\s*=\s*True).*)$",
                grows,
                True,
            ),
        ),
    ),
    (
        r"(^|/)test_helper\.exs$",
        (Pattern(SKIPPED, "exclude", r"\bexclude:\s*\[([^\]\n]*)\]", grows, True),),
    ),
    (
        r"(^|/)testng[\w.-]*\.xml$",
        (Pattern(SKIPPED, "exclude", r"<exclude\s+name=\"([^\"]+)\"", grows, True),),
    ),
    (
        r"\.runsettings$",
        (Pattern(SKIPPED, "TestCaseFilter", r"<TestCaseFilter>([^<]+)<", grows, True),),
    ),
    (
        r"(^|/)junit-platform\.properties$",
        (Pattern(SKIPPED, "exclude", r"^([\w.]*[eE]xclude[\w.]*\s*=.+)$", grows, True),),
    ),
)
_SIGIL = scale("ignore", "false", "true", "strict", "strong")
_PYRIGHT = scale("basic", "standard", "strict")
MARKS: Patterns = (
    (
        r"\.rb$",
        (Pattern(TYPES, "typed", r"^#\s*typed:\s*(\w+)", _SIGIL, raw=True),),
    ),
    (
        r"\.php$",
        (Pattern(TYPES, "strict_types", r"\bstrict_types\s*=\s*([01])", turned_off, raw=True),),
    ),
    (
        r"\.rs$",
        (
            Pattern(
                TYPES,
                "denied lints",
                r"^\s*#!\[\s*(?:deny|forbid)\(([^)]*)\)",
                fewer_words,
                True,
                raw=True,
            ),
        ),
    ),
    (
        r"\.[cm]?jsx?$",
        (Pattern(TYPES, "check", r"^\s*(?://|/\*+)\s*@(ts-check|flow)\b", only_gone, raw=True),),
    ),
    (
        r"\.pyi?$",
        (Pattern(TYPES, "pyright", r"^#\s*pyright:\s*(\w+)\s*$", _PYRIGHT, raw=True),),
    ),
)
