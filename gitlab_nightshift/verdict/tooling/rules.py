"""Which settings make which tool looser, and in which direction: a closed table.

To add one: flag, pattern of the setting's key (``facts.py``), direction. The first that matches
counts; a direction of None is for settings that loosen nothing.
"""

import re
from functools import cache

from gitlab_nightshift.verdict.tooling.commands import fewer_checkers
from gitlab_nightshift.verdict.tooling.directions import (
    Worse,
    above,
    appears,
    changed,
    codes_grow,
    codes_shrink,
    filters,
    globs_out,
    grows,
    higher,
    lines_grow,
    lower,
    only_gone,
    scale,
    shrinks,
    turned_off,
    turned_on,
    with_limit,
)

ESLINT = with_limit(scale("off|0", "warn|1|warning|info", "error|2|on|deny"))
CARGO = scale("allow", "warn", "deny", "forbid")
PYRIGHT = scale("none|false", "information", "warning", "error|true")
RUBOCOP = scale("info|refactor", "convention", "warning", "error", "fatal")
CHECKING = scale("off", "basic", "standard", "recommended", "strict", "all")

LINTER, TYPES, COVERAGE, CI = (f"{kind}-loosened" for kind in ("linter", "types", "coverage", "ci"))
SKIPPED = "test-skipped"

Row = tuple[str, str, Worse | None]

_PYTHON: tuple[Row, ...] = (
    (LINTER, r"ruff\.(extend-)?ignore$", codes_grow),
    (LINTER, r"ruff\.(extend-)?select$", codes_shrink),
    (LINTER, r"ruff\.(extend-)?per-file-ignores\.", codes_grow),
    (LINTER, r"ruff\.(extend-)?exclude$|ruff\.(builtins|.*(allow|ignore)[\w-]*)$", grows),
    (LINTER, r"ruff\.line-length$", above(88)),
    (LINTER, r"ruff\.(.+\.)?max-[\w-]+$", higher),
    (LINTER, r"ruff\.mccabe\.max-complexity$", higher),
    (LINTER, r"ruff\.(include|preview)$", shrinks),
    (LINTER, r"flake8\.(extend-)?ignore$|flake8\.per-file-ignores$", codes_grow),
    (LINTER, r"flake8\.(extend-)?select$", codes_shrink),
    (LINTER, r"flake8\.(extend-)?exclude$", grows),
    (LINTER, r"flake8\.max-line-length$", above(79)),
    (LINTER, r"flake8\.(max-|cognitive|min-)[\w-]+$", higher),
    (LINTER, r"flake8\.exit-zero$", turned_on),
    (LINTER, r"pylint\.(disable|ignore[\w-]*|ignored-[\w-]+|generated-members)$", grows),
    (LINTER, r"pylint\.(enable|load-plugins|fail-on)$", shrinks),
    (LINTER, r"pylint\.fail-under$", lower),
    (LINTER, r"pylint\.max-line-length$", above(100)),
    (LINTER, r"pylint\.(max|min)-[\w-]+$", higher),
    (LINTER, r"black\.line-length$", above(88)),
    (LINTER, r"black\.[\w-]*exclude$", changed),
    (LINTER, r"(isort|pydocstyle|pycodestyle)\.(extend_)?(skip|ignore|exclude)\w*$", grows),
    (LINTER, r"(isort|pycodestyle)\.(line_length|max-line-length)$", higher),
    (LINTER, r"pydocstyle\.(add[-_]ignore)$", grows),
    (LINTER, r"bandit\.(skips|exclude_dirs|exclude)$", grows),
    (LINTER, r"bandit\.tests$", shrinks),
    (LINTER, r"interrogate\.(fail-under|fail_under)$", lower),
    (LINTER, r"(interrogate|vulture)\.(exclude|ignore[-\w]*)$", grows),
    (LINTER, r"importlinter\.(.*\.)?(ignore_imports|unmatched\w*)$", grows),
    (LINTER, r"importlinter\.contracts$", shrinks),
    (LINTER, r"pytest\.filterwarnings$", None),
    (COVERAGE, r"coverage\.report\.fail-under$", lower),
    (COVERAGE, r"coverage\.(run|report)\.omit$", grows),
    (COVERAGE, r"coverage\.(run|report)\.(exclude|partial)-[\w-]+$", lines_grow),
    (COVERAGE, r"coverage\.(run|report)\.(source|include|source-pkgs)$", shrinks),
    (COVERAGE, r"coverage\.run\.branch$", turned_off),
    (COVERAGE, r"coverage\.report\.skip-covered$", None),
    (SKIPPED, r"pytest\.(norecursedirs|collect_ignore\w*)$", grows),
    (SKIPPED, r"pytest\.(testpaths|python_files|python_classes|python_functions)$", shrinks),
    ("test-loosened", r"pytest\.xfail_strict$", turned_off),
    ("test-loosened", r"pytest\.reruns$", above(0)),
)
_TYPES: tuple[Row, ...] = (
    (TYPES, r"mypy\.(.*\.)?(follow-imports)$", scale("skip", "silent", "normal|error")),
    (
        TYPES,
        r"mypy\.(.*\.)?(ignore-errors|ignore-missing-imports|allow-[\w-]+|implicit-[\w-]+)$",
        turned_on,
    ),
    (
        TYPES,
        r"mypy\.(.*\.)?(strict|strict-[\w-]+|disallow-[\w-]+|check-[\w-]+|warn-[\w-]+|no-implicit-[\w-]+|extra-checks|local-partial-types)$",
        turned_off,
    ),
    (TYPES, r"mypy\.(.*\.)?(disable-error-code|exclude)$", grows),
    (TYPES, r"mypy\.(.*\.)?(enable-error-code|files|packages|modules)$", shrinks),
    (TYPES, r"pyright\.typeCheckingMode$", CHECKING),
    (TYPES, r"pyright\.(.*\.)?report\w+$", PYRIGHT),
    (TYPES, r"pyright\.(exclude|ignore)$", grows),
    (TYPES, r"pyright\.(include|strict)$", shrinks),
    (TYPES, r"pyright\.strict\w+$", turned_off),
    (TYPES, r"ty\.(.*\.)?rules\.", scale("ignore", "warn", "error")),
    (
        TYPES,
        r"tsconfig(\([^)]*\))?\.compilerOptions\.(strict\w*|no(Implicit|Unused|Fallthrough|Unchecked|PropertyAccess|EmitOnError|Uncheck)\w*|alwaysStrict|useUnknownInCatchVariables|exactOptionalPropertyTypes|checkJs|forceConsistentCasingInFileNames|isolatedDeclarations)$",
        turned_off,
    ),
    (
        TYPES,
        r"tsconfig(\([^)]*\))?\.compilerOptions\.(skipLibCheck|skipDefaultLibCheck|allowUnreachableCode|allowUnusedLabels|suppress\w+|noStrictGenericChecks|noCheck)$",
        turned_on,
    ),
    (
        TYPES,
        r"tsconfig(\((?!tsconfig\.(build|prod|lib|types|dist|esm|cjs|release))[^)]*\))?\.exclude$",
        grows,
    ),
    (TYPES, r"tsconfig(\([^)]*\))?\.(include|files|extends)$", shrinks),
    (TYPES, r"phpstan\.parameters\.level$", lower),
    (TYPES, r"phpstan\.parameters\.(ignoreErrors|excludePaths|excludes_analyse)", grows),
)
_SCRIPT: tuple[Row, ...] = (
    (LINTER, r"(eslint|stylelint|tslint|markdownlint)\.(.*\.)?(extends|plugins)$", shrinks),
    (LINTER, r"eslint\.(.*\.)?(ignorePatterns|excludedFiles)$", grows),
    (LINTER, r"eslint\.(noInlineConfig|reportUnusedDisableDirectives)$", turned_off),
    (LINTER, r"(eslint|biome)\.(.*\.)?rules\..*[\].](max\w*|maximum)$", higher),
    (LINTER, r"eslint\.(.*\.)?rules\.[^\[]*\[", None),
    (LINTER, r"eslint\.(.*\.)?(rules|categories)\.", ESLINT),
    (LINTER, r"(stylelint|tslint)\.rules\.", turned_off),
    (LINTER, r"markdownlint\.\w+$", turned_off),
    (
        LINTER,
        r"biome\.(linter|assist|javascript\.linter|css\.linter|formatter)\.enabled$",
        turned_off,
    ),
    (LINTER, r"biome\.(.*\.)?rules\.", ESLINT),
    (LINTER, r"biome\.(.*\.)?ignore$", grows),
    (LINTER, r"biome\.(.*\.)?includes?$", globs_out),
    (LINTER, r"(.*:)?\.\w+ignore$", grows),
    (COVERAGE, r"jest\.(.*\.)?coverageThreshold\.", lower),
    (COVERAGE, r"jest\.(.*\.)?coveragePathIgnorePatterns$", grows),
    (COVERAGE, r"jest\.(.*\.)?collectCoverageFrom$", globs_out),
    (COVERAGE, r"jest\.collectCoverage$", turned_off),
    (SKIPPED, r"jest\.(.*\.)?(testPathIgnorePatterns|modulePathIgnorePatterns)$", grows),
    (SKIPPED, r"jest\.(.*\.)?(testMatch|testRegex|roots|projects)$", shrinks),
    (CI, r"jest\.passWithNoTests$", turned_on),
    (SKIPPED, r"(mocha|jasmine)\.(ignore|exclude)$", grows),
    (SKIPPED, r"(mocha|jasmine|ava)\.(spec|spec_files|files)$", globs_out),
    (SKIPPED, r"(mocha\.(f?grep|invert)|jasmine\.filter|ava\.match)$", filters),
    (SKIPPED, r"mocha\.(forbidOnly|forbid-only|forbidPending|forbid-pending)$", turned_off),
    ("test-loosened", r"mocha\.retries$", above(0)),
    (SKIPPED, r"cargo\.(lib|bin|test|package).*\.(test|autotests)$", turned_off),
    (SKIPPED, r"nextest\.profile\..*default-filter$", filters),
    ("test-loosened", r"nextest\.profile\..*retries$", above(0)),
    (COVERAGE, r"nyc\.(lines|branches|functions|statements)$", lower),
    (COVERAGE, r"nyc\.(check-coverage|checkCoverage|per-file|all)$", turned_off),
    (COVERAGE, r"nyc\.exclude$", grows),
    (COVERAGE, r"nyc\.include$", shrinks),
)
_OTHERS: tuple[Row, ...] = (
    (LINTER, r"staticcheck\.checks$", globs_out),
    (LINTER, r"staticcheck\.\w+_whitelist$", grows),
    (LINTER, r"revive\.rule\.[\w-]+$", only_gone),
    (LINTER, r"revive\.(.*\.)?disabled$", turned_on),
    (LINTER, r"revive\.(severity|rule\..*\.severity)$", scale("ignore", "warning", "error")),
    (CI, r"nightshift\.(code_agent\.)?policy\.flags\.", scale("off|false", "warn", "fail")),
    (CI, r"nightshift\.(code_agent\.)?max_diff_lines$", above(100)),
    (CI, r"nightshift\.(code_agent\.)?exclude_paths$", grows),
    (CI, r"nightshift\.(code_agent\.)?verify_commands$", shrinks),
    (LINTER, r"golangci\.linters\.(enable|presets)$|golangci\.formatters\.enable$", shrinks),
    (LINTER, r"golangci\.linters\.(disable|exclusions\.\w+)$", grows),
    (LINTER, r"golangci\.linters\.(disable-all|fast)$", turned_on),
    (LINTER, r"golangci\.linters\.enable-all$|golangci\.run\.tests$", turned_off),
    (LINTER, r"golangci\.linters\.default$", scale("none", "fast", "standard", "all")),
    (LINTER, r"golangci\.(issues|run)\.(exclude[\w-]*|skip-[\w-]+)$", grows),
    (LINTER, r"golangci\.(issues|run)\.(new[\w-]*)$", appears),
    (LINTER, r"golangci\.run\.issues-exit-code$", changed),
    (
        LINTER,
        r"golangci\..*\.(exclude[\w-]*|ignore[\w-]*|disabled?-checks|disable|excludes|allow[\w-]*)$",
        grows,
    ),
    (LINTER, r"golangci\..*\.(checks|enable|enabled-checks|enable-all)$", shrinks),
    (
        LINTER,
        r"golangci\..*\.(max-[\w-]+|min-complexity|complexity|line-length|lines|statements|threshold|min-len|min-occurrences|tab-width)$",
        higher,
    ),
    (LINTER, r"golangci\..*\.(check-[\w-]+|require-[\w-]+)$", turned_off),
    (LINTER, r"rubocop\.AllCops\.(DisabledByDefault|SuggestExtensions)$", turned_on),
    (LINTER, r"rubocop\.AllCops\.NewCops$", scale("disable", "pending", "enable")),
    (LINTER, r"rubocop\.(.*\.)?Enabled$", turned_off),
    (LINTER, r"rubocop\..*\.Severity$", RUBOCOP),
    (LINTER, r"rubocop\.(.*\.)?(Exclude|Allowed\w+|Ignored\w+|inherit_from)$", grows),
    (LINTER, r"rubocop\.(require|plugins)$", shrinks),
    (LINTER, r"rubocop\.Layout/LineLength\.Max$", above(120)),
    (LINTER, r"rubocop\..*\.(Max|CountAsOne|Minimum\w+)$", higher),
    (LINTER, r"reek\.(.*\.)?exclude(_paths)?$", grows),
    (LINTER, r"(reek|detekt)\.(.*\.)?(enabled|active)$", turned_off),
    (LINTER, r"detekt\..*(threshold|allowed\w+|max\w*)$", higher),
    (LINTER, r"detekt\.(.*\.)?(excludes|ignore\w*)$", grows),
    (LINTER, r"detekt\.build\.maxIssues$", above(0)),
    (LINTER, r"clippy\.(msrv|doc-valid-idents|avoid-breaking-exported-api)$", None),
    (LINTER, r"clippy\.allow[\w-]*$", turned_on),
    (LINTER, r"clippy\.disallowed-[\w-]+$", shrinks),
    (LINTER, r"clippy\.[\w-]+$", higher),
    (LINTER, r"cargo-lints\.", CARGO),
    (LINTER, r"rustfmt\.max_width$", above(100)),
    (LINTER, r"rustfmt\.(ignore|skip_children|disable_all_formatting)$", grows),
    (
        LINTER,
        r"yamllint\.(.*\.)?(level|rules\.[\w-]+)$",
        scale("disable", "warning", "error|enable"),
    ),
    (LINTER, r"yamllint\.(.*\.)?max$", higher),
    (LINTER, r"(yamllint\.ignore|shellcheck\.disable)$", grows),
    (LINTER, r"pre-commit\.hooks$", fewer_checkers),
    (LINTER, r"pre-commit\.(exclude|.*\.exclude)$", changed),
    (LINTER, r"pre-commit\.repos\[.*\.stages$", grows),
    (LINTER, r"pre-commit\.ci\.skip$", grows),
    (
        LINTER,
        r"editorconfig\..*\.(ktlint_[\w-]+|dotnet_diagnostic\.\w+\.severity)$",
        scale("disabled|none", "silent", "suggestion", "warning", "enabled|error"),
    ),
    (LINTER, r"editorconfig\..*\.max_line_length$", higher),
    (COVERAGE, r"codecov\.coverage\.status\.(.*\.)?target$", lower),
    (COVERAGE, r"codecov\.coverage\.status\.(.*\.)?threshold$", above(0)),
    (COVERAGE, r"codecov\.coverage\.status\.(.*\.)?informational$", turned_on),
    (
        COVERAGE,
        r"codecov\.coverage\.status(\.(project|patch|changes))?(\.default)?(\.enabled)?$",
        turned_off,
    ),
    (COVERAGE, r"codecov\.ignore$", grows),
    (COVERAGE, r"gocoverage\.(.*\.)?threshold\.", lower),
    (COVERAGE, r"gocoverage\.exclude\.", grows),
    (COVERAGE, r"tarpaulin\.(.*\.)?(fail-under|fail_under)$", lower),
    (COVERAGE, r"tarpaulin\.(.*\.)?exclude[\w-]*$", grows),
    (COVERAGE, r"sonar\.sonar\.coverage\.exclusions$", grows),
    (LINTER, r"sonar\.sonar\.([\w.]*exclusions|issue\.ignore\..*)$", grows),
    (LINTER, r"sonar\.sonar\.(sources|tests|inclusions)$", shrinks),
    (CI, r"sonar\.sonar\.qualitygate\.wait$", turned_off),
)
_SEVERITY = scale("ignore|off|none|suppress", "info", "warning|warn", "error")
_MARKUP: tuple[Row, ...] = (
    (
        LINTER,
        r"suppressions\..*<(suppress|suppress-xpath|Match|rule|BugInstance|filter)>$",
        appears,
    ),
    (
        LINTER,
        r"checkstyle\..*(Suppress\w*Filter|SuppressionXpath\w*|FileFilter|SuppressWarningsHolder)<",
        appears,
    ),
    (LINTER, r"(checkstyle|pmd|phpcs)\..*<(module|rule)>$", only_gone),
    (LINTER, r"(pmd|phpcs)\..*<(exclude|exclude-pattern)>$", appears),
    (LINTER, r"(checkstyle|scalastyle)\..*(\.severity|@level)$", _SEVERITY),
    (LINTER, r"scalastyle\..*<check>$", only_gone),
    (LINTER, r"scalastyle\..*@enabled$", turned_off),
    (
        LINTER,
        r"(checkstyle|pmd|scalastyle)\..*\.(\w*[mM]ax\w*|max|reportLevel|minimum|\w*[tT]hreshold|problemDepth)$",
        higher,
    ),
    (LINTER, r"checkstyle\..*\.(ignore\w*|allow\w*)$", turned_on),
    (LINTER, r"checkstyle\..*\.(excludes?|format)$", None),
    (LINTER, r"phpcs\..*<severity>$|dotnet\..*@Action$", changed),
    (TYPES, r"psalm\..*@errorLevel$", higher),
    (TYPES, r"psalm\..*@(totallyTyped|strict\w*|find\w*)$", turned_off),
    (TYPES, r"psalm\..*suppress<(errorLevel)>$", appears),
    (
        COVERAGE,
        r"phpunit\.(.*\.)?(coverage|source|filter|whitelist)\..*exclude\..*<(file|directory)>$",
        appears,
    ),
    (SKIPPED, r"phpunit\.(.*\.)?testsuite.*<exclude>$|phpunit\..*exclude.*<group>$", appears),
    (CI, r"phpunit\.phpunit@(failOn\w+|beStrict\w+)$", turned_off),
)


@cache
def _compiled() -> tuple[tuple[str, re.Pattern[str], Worse | None], ...]:
    rows = (*_PYTHON, *_TYPES, *_SCRIPT, *_OTHERS, *_MARKUP)
    return tuple((flag, re.compile(rf"(?:.*:)?{pattern}"), worse) for flag, pattern, worse in rows)


def rule_for(key: str) -> tuple[str, Worse] | None:
    """The flag and the direction for a setting; None for one that loosens nothing."""
    for flag, pattern, worse in _compiled():
        if pattern.match(key):
            return (flag, worse) if worse else None
    return None
