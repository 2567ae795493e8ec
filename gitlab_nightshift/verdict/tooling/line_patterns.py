"""Settings in files that are programs, by patterns: a closed table.

To add one: the files it stands in, the flag, what it is called, its pattern, its direction.
"""

from gitlab_nightshift.verdict.tooling.build_patterns import BUILDS
from gitlab_nightshift.verdict.tooling.directions import (
    above,
    globs_out,
    grows,
    higher,
    lower,
    shrinks,
    turned_off,
    turned_on,
)
from gitlab_nightshift.verdict.tooling.pattern import LIST, Pattern, Patterns
from gitlab_nightshift.verdict.tooling.rules import CI, COVERAGE, ESLINT, LINTER, SKIPPED
from gitlab_nightshift.verdict.tooling.runner_patterns import MARKS, RUNNERS

_RETRIES = Pattern("test-loosened", "retries", r"\bretr(?:y|ies)\s*[:=]\s*(\d+)", above(0))
_NO_TESTS = Pattern(CI, "passWithNoTests", r"passWithNoTests\s*:\s*(true|false)", turned_on)
_METRICS = r"\b(branches|functions|lines|statements)\s*:\s*(-?\d+(?:\.\d+)?)"

_SCRIPTS: Patterns = (
    (
        r"(^|/)(eslint\.config\.[cm]?[jt]s|\.eslintrc\.c?js)$",
        (
            Pattern(
                LINTER,
                "rules",
                r"""['"]?([@\w][\w@/-]*)['"]?\s*:\s*\[?\s*['"]?(off|warn|error|[012])\b['"]?""",
                ESLINT,
            ),
            Pattern(
                LINTER,
                "limits",
                r"""['"]?([@\w][\w@/-]*)['"]?\s*:\s*\[\s*['"]?\w+['"]?\s*,\s*(?:\{[^}]*?\bmax\w*\s*:\s*)?(\d+)""",
                higher,
            ),
            Pattern(LINTER, "ignores", r"ignore(?:s|Patterns)" + LIST, grows, True, True),
            Pattern(LINTER, "configs", r"(\b[\w.]*[cC]onfigs\b[\w.\[\]'\"/-]*)", shrinks, True),
            Pattern(LINTER, "extends", r"\bextends" + LIST, shrinks, True, True),
            Pattern(LINTER, "noInlineConfig", r"noInlineConfig\s*:\s*(true|false)", turned_off),
        ),
    ),
    (
        r"(^|/)(jest|vitest|vite|wdio|playwright|cypress)\.(config|workspace"
        r"|conf)(\.\w+)?\.[cm]?[jt]s$",
        (
            Pattern(COVERAGE, "thresholds", _METRICS, lower),
            Pattern(
                COVERAGE,
                "coverage exclude",
                r"coveragePathIgnorePatterns"
                + LIST
                + r"|coverage\s*:\s*\{[^}]*?\bexclude\s*:\s*\[([^\]]*)",
                grows,
                True,
                True,
            ),
            Pattern(
                COVERAGE,
                "collectCoverageFrom",
                r"collectCoverageFrom" + LIST,
                globs_out,
                True,
                True,
            ),
            Pattern(
                SKIPPED,
                "ignored tests",
                r"(?:testPathIgnorePatterns|testIgnore|modulePathIgnorePatterns|excludeSpecPattern)"
                + LIST
                + r"|test\s*:\s*\{(?:(?!coverage)[^}])*?\bexclude\s*:\s*\[([^\]]*)",
                grows,
                True,
                True,
            ),
            Pattern(SKIPPED, "grep", r"\bgrep(?:Invert)?\s*:\s*([^\n]+?),?$", grows, True),
            Pattern(SKIPPED, "testMatch", r"(?:testMatch|testRegex)" + LIST, shrinks, True, True),
            Pattern(SKIPPED, "forbidOnly", r"forbidOnly\s*:\s*(.+?),?$", turned_off),
            _RETRIES,
            _NO_TESTS,
        ),
    ),
    (
        r"(^|/)\.mocharc\.c?js$",
        (_RETRIES, Pattern(SKIPPED, "ignore", r"\bignore['\"]?" + LIST, grows, True, True)),
    ),
    (
        r"(^|/)karma(\.\w+)?\.[cm]?[jt]s$",
        (
            Pattern(COVERAGE, "thresholds", _METRICS, lower),
            Pattern(SKIPPED, "exclude", r"\bexclude" + LIST, grows, True, True),
            _NO_TESTS,
        ),
    ),
)
PATTERNS: Patterns = (*_SCRIPTS, *BUILDS, *RUNNERS, *MARKS)
