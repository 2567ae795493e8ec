"""How each test runner is asked for a report: a closed table. To add one: an entry in ``STYLES``.

None of it changes which tests run or when they fail. A variable reaches a runner through Make, npm
or tox; words on the command line reach only one that a command names itself.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from gitlab_nightshift.lazy_patterns import compile_lazily


@dataclass(frozen=True)
class RunnerStyle:
    """``names`` finds the runner in a command or in the recipes behind it.

    ``variables`` are added to what the environment holds already; ``words`` to
    the command line behind ``after``, at its end where that is "". ``hooks`` are this program's own
    files that the runner loads. ``left`` are the files that it writes anyway, as globs below the
    checkout. ``{reports}`` and ``{hooks}`` are folders. ``printed``: the report is what it prints,
    in the form of that file name ending.
    ``lists``: it reports nothing, and lists all tests, then the ignored ones, with these words
    behind ``--``.
    """

    names: re.Pattern[str]
    variables: Mapping[str, str] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    after: str = ""
    hooks: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    printed: str = ""
    lists: tuple[tuple[str, ...], ...] = ()


_SUREFIRE = ("**/target/surefire-reports/TEST-*.xml", "**/target/failsafe-reports/TEST-*.xml")
_PYTHON = {"PYTHONPATH": "{hooks}", "NIGHTSHIFT_REPORTS": "{reports}"}
STYLES: dict[str, RunnerStyle] = {
    "pytest": RunnerStyle(
        compile_lazily(r"(?s)\A(?!.*no:junitxml).*(?<![\w.-])(py\.?test)(?![\w.-])"),
        {
            "PYTEST_ADDOPTS": "--junitxml={reports}/pytest.xml -o junit_family=xunit1",
            **_PYTHON,
        },
        hooks=("sitecustomize.py",),
    ),
    "unittest": RunnerStyle(
        compile_lazily(r"-m unittest\b|\bmanage\.py test\b"),
        _PYTHON,
        hooks=("sitecustomize.py",),
    ),
    "jest, vitest, mocha": RunnerStyle(
        compile_lazily(r"\b(jest|vitest|mocha)\b"),
        {"NODE_OPTIONS": "--require {hooks}/node_runners.cjs", "NIGHTSHIFT_REPORTS": "{reports}"},
        hooks=("node_runners.cjs",),
    ),
    "node:test": RunnerStyle(
        compile_lazily(r"\bnode\b.*\s--test\b"),
        {
            "NODE_OPTIONS": "--test-reporter=spec --test-reporter-destination=stdout"
            " --test-reporter={hooks}/node_reporter.mjs"
            " --test-reporter-destination={reports}/nothing",
            "NIGHTSHIFT_REPORTS": "{reports}",
        },
        hooks=("node_reporter.mjs",),
    ),
    "go test": RunnerStyle(
        compile_lazily(r"^go test\b"), words=("-json",), after="test", printed="jsonl"
    ),
    "cargo test": RunnerStyle(
        compile_lazily(r"^cargo (?:\+\S+ )?test\b"),
        lists=(("--list", "--format=terse"), ("--list", "--ignored", "--format=terse")),
    ),
    "cargo nextest": RunnerStyle(
        compile_lazily(r"^cargo (?:\+\S+ )?nextest run\b"),
        words=("--tool-config-file", "nightshift:{hooks}/nextest.toml"),
        after="run",
        hooks=("nextest.toml",),
        left=("**/target/nextest/*/*.xml",),
    ),
    "Maven": RunnerStyle(compile_lazily(r"\bmvnw?\b"), left=_SUREFIRE),
    "Gradle": RunnerStyle(
        compile_lazily(r"\bgradlew?\b"), left=("**/build/test-results/*/TEST-*.xml",)
    ),
    "sbt": RunnerStyle(compile_lazily(r"\bsbt\b"), left=("**/target/test-reports/*.xml",)),
    "RSpec": RunnerStyle(
        compile_lazily(r"\brspec\b"),
        {"SPEC_OPTS": "--format progress --format json --out {reports}/rspec.json"},
    ),
    "PHPUnit": RunnerStyle(
        compile_lazily(r"^\S*\bphpunit\b"), words=("--log-junit", "{reports}/phpunit.xml")
    ),
    "CTest": RunnerStyle(
        compile_lazily(r"^ctest\b"), words=("--output-junit", "{reports}/ctest.xml")
    ),
    # What it prints, as 1.8 is often done before the report is that it writes beside.
    "bats": RunnerStyle(
        compile_lazily(r"^(?:npx )?(?:\S*/)?bats\s"),
        words=("--formatter", "tap"),
        after="bats",
        printed="tap",
    ),
    "minitest": RunnerStyle(
        compile_lazily(r"\bminitest\b|\brake\b|\brails test\b|\bruby\b.*(?:test|spec)"),
        {"RUBYOPT": "-r{hooks}/ruby_runners.rb", "NIGHTSHIFT_REPORTS": "{reports}"},
        hooks=("ruby_runners.rb",),
    ),
}
