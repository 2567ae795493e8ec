"""Settings of tools and CI: what is looser is reported with its place, what is not is not."""

from tests.support.judging import Judge
from tests.support.tables import each

LOOSENED = ("linter-loosened", "types-loosened", "coverage-loosened", "ci-loosened", "test-skipped")

PYPROJECT = """\
[project]
name = "shop"
version = "1.0"
dependencies = ["requests>=2"]

[tool.ruff]
line-length = 100

[tool.ruff.lint]
select = ["E", "F", "I"]
ignore = ["E203"]

[tool.mypy]
strict = true

[tool.coverage.report]
fail_under = 90
exclude_also = ["raise NotImplementedError"]

[tool.pytest.ini_options]
addopts = "-q --strict-markers"
"""
ESLINT = """\
export default [
  js.configs.recommended,
  { ignores: ['dist/'], rules: { 'no-unused-vars': 'error', complexity: ['error', 10] } },
];
"""
TSCONFIG = (
    '{\n  // ours\n  "compilerOptions": {"strict": true, "target": "es2020"},\n'
    '  "include": ["src"],\n}\n'
)
PACKAGE = """\
{
  "name": "shop",
  "scripts": {"test": "jest --ci", "lint": "eslint . --max-warnings 0"},
  "jest": {"coverageThreshold": {"global": {"branches": 80}}, "collectCoverageFrom": ["src/**"]},
  "eslintConfig": {"rules": {"no-console": "error", "max-lines": ["error", {"max": 300}]}}
}
"""
GOLANGCI = """\
linters:
  enable:
    - errcheck
    - govet
linters-settings:
  gocyclo:
    min-complexity: 10
issues:
  exclude-dirs: []
"""
RUBOCOP = "Metrics/MethodLength:\n  Max: 10\nStyle/StringLiterals:\n  Enabled: true\n"
CHECKSTYLE = """\
<?xml version="1.0"?>
<module name="Checker">
  <property name="severity" value="error"/>
  <module name="TreeWalker">
    <module name="MethodLength"><property name="max" value="50"/></module>
    <module name="EmptyBlock"/>
  </module>
</module>
"""
GRADLE = """\
plugins { id 'java' }
checkstyle { ignoreFailures = false }
jacocoTestCoverageVerification { violationRules { rule { limit { minimum = 0.8 } } } }
"""
SBT = (
    'name := "x"\nscalacOptions ++= Seq("-deprecation", "-Xfatal-warnings")\n'
    "coverageMinimumStmtTotal := 80\n"
)
CARGO = '[package]\nname = "x"\n\n[lints.clippy]\nunwrap_used = "deny"\n'
POM = (
    "<project>\n  <rule><minimum>0.80</minimum></rule>\n"
    "  <failsOnError>true</failsOnError>\n</project>\n"
)
CODECOV = "coverage:\n  status:\n    project:\n      default:\n        target: 80%\nignore: []\n"
SIMPLECOV = "SimpleCov.start do\n  minimum_coverage 90\nend\n"
VITEST = "export default { test: { coverage: { thresholds: { lines: 90 } } } };\n"

LOOSER = [
    (
        "pyproject.toml",
        PYPROJECT,
        '["E203"]',
        '["E203", "E501"]',
        "tool.ruff.lint.ignore gained E501.",
    ),
    ("pyproject.toml", PYPROJECT, '"F", ', "", "tool.ruff.lint.select lost F."),
    (
        "pyproject.toml",
        PYPROJECT,
        "= 100",
        "= 140",
        "tool.ruff.line-length was raised from 100 to 140.",
    ),
    (
        "pyproject.toml",
        PYPROJECT,
        "[tool.mypy]",
        '[tool.ruff.lint.per-file-ignores]\n"a.py" = ["F"]\n[tool.mypy]',
        "per-file-ignores.a.py gained F.",
    ),
    (
        "pyproject.toml",
        PYPROJECT,
        "strict = true",
        "strict = false",
        "tool.mypy.strict was switched off.",
    ),
    (
        "pyproject.toml",
        PYPROJECT,
        "strict = true",
        'strict = true\ndisable_error_code = ["arg-type"]',
        "tool.mypy.disable_error_code gained arg-type.",
    ),
    (
        "pyproject.toml",
        PYPROJECT,
        "strict = true\n",
        'strict = true\n[[tool.mypy.overrides]]\nmodule = "shop"\nignore_errors = true\n',
        "tool.mypy.overrides[shop].ignore_errors was switched on.",
    ),
    (
        "pyproject.toml",
        PYPROJECT,
        "= 90",
        "= 70",
        "tool.coverage.report.fail_under was lowered from 90 to 70.",
    ),
    (
        "pyproject.toml",
        PYPROJECT,
        "fail_under = 90\n",
        "",
        "tool.coverage.report.fail_under is gone.",
    ),
    (
        "pyproject.toml",
        PYPROJECT,
        '"raise NotImplementedError"',
        '"raise NotImplementedError", "def _"',
        "exclude_also gained def _.",
    ),
    (
        "pyproject.toml",
        PYPROJECT,
        "--strict-markers",
        "--ignore=tests/slow --strict-markers",
        "pytest gained --ignore",
    ),
    (
        "eslint.config.js",
        ESLINT,
        "'no-unused-vars': 'error'",
        "'no-unused-vars': 'off'",
        "no-unused-vars is off now (was error).",
    ),
    ("eslint.config.js", ESLINT, "10", "30", "complexity was raised from 10 to 30."),
    ("eslint.config.js", ESLINT, "'dist/'", "'dist/', 'src/old/'", "ignores gained src/old/."),
    ("eslint.config.js", ESLINT, "  js.configs.recommended,\n", "", "configs is gone."),
    ("tsconfig.json", TSCONFIG, "true", "false", "compilerOptions.strict was switched off."),
    (
        "tsconfig.json",
        TSCONFIG,
        '"strict": true',
        '"strict": true, "noImplicitAny": false',
        "noImplicitAny was switched off.",
    ),
    (
        "package.json",
        PACKAGE,
        '"branches": 80',
        '"branches": 60',
        "branches was lowered from 80 to 60.",
    ),
    (
        "package.json",
        PACKAGE,
        '["src/**"]',
        '["src/**", "!src/old/**"]',
        "collectCoverageFrom gained !src/old/**.",
    ),
    (
        "package.json",
        PACKAGE,
        '"no-console": "error"',
        '"no-console": "warn"',
        "no-console is warn now (was error).",
    ),
    ("package.json", PACKAGE, '"max": 300', '"max": 900', "max-lines"),
    (
        "package.json",
        PACKAGE,
        "--max-warnings 0",
        "--max-warnings 50",
        "lint --max-warnings was raised to 50.",
    ),
    (
        "package.json",
        PACKAGE,
        "eslint . --max-warnings 0",
        "echo later",
        "lint no longer runs `eslint . --max-warnings 0`.",
    ),
    (".golangci.yml", GOLANGCI, "    - errcheck\n", "", "linters.enable lost errcheck."),
    (".golangci.yml", GOLANGCI, "10", "30", "min-complexity was raised from 10 to 30."),
    (".golangci.yml", GOLANGCI, "[]", "[legacy]", "issues.exclude-dirs gained legacy."),
    (
        "staticcheck.conf",
        'checks = ["all"]\n',
        '"all"',
        '"all", "-SA4006"',
        "checks gained -SA4006.",
    ),
    (".rubocop.yml", RUBOCOP, "10", "40", "Metrics/MethodLength.Max was raised from 10 to 40."),
    (".rubocop.yml", RUBOCOP, "true", "false", "Style/StringLiterals.Enabled was switched off."),
    (
        "config/checkstyle.xml",
        CHECKSTYLE,
        '"50"',
        '"150"',
        "MethodLength.max was raised from 50 to 150.",
    ),
    (
        "config/checkstyle.xml",
        CHECKSTYLE,
        '    <module name="EmptyBlock"/>\n',
        "",
        "EmptyBlock<module> is gone.",
    ),
    (
        "config/checkstyle.xml",
        CHECKSTYLE,
        '"error"',
        '"warning"',
        "severity is warning now (was error).",
    ),
    ("build.gradle", GRADLE, "0.8", "0.5", "minimum was lowered from 0.8 to 0.5."),
    ("build.gradle", GRADLE, "= false", "= true", "ignoreFailures was switched on."),
    ("build.sbt", SBT, ', "-Xfatal-warnings"', "", "scalacOptions lost -Xfatal-warnings."),
    ("build.sbt", SBT, "80", "60", "coverageMinimumStmtTotal was lowered from 80 to 60."),
    ("Cargo.toml", CARGO, "deny", "allow", "lints.clippy.unwrap_used is allow now (was deny)."),
    ("clippy.toml", "too-many-arguments-threshold = 7\n", "7", "12", "was raised from 7 to 12."),
    ("pom.xml", POM, "0.80", "0.50", "minimum was lowered from 0.8 to 0.5."),
    ("pom.xml", POM, "true", "false", "failsOnError was switched off."),
    ("codecov.yml", CODECOV, "80%", "60%", "target was lowered from 80 to 60."),
    ("codecov.yml", CODECOV, "[]", "[src/old]", "ignore gained src/old."),
    ("spec/spec_helper.rb", SIMPLECOV, "90", "50", "minimum_coverage was lowered from 90 to 50."),
    ("vitest.config.ts", VITEST, "90", "50", "lines was lowered from 90 to 50."),
    (
        ".coveragerc",
        "[run]\nomit =\n    tests/*\n",
        "tests/*",
        "tests/*\n    shop/old.py",
        "run.omit gained shop/old.py.",
    ),
    (".flake8", "[flake8]\nignore = W503\n", "W503", "W503,F401", "flake8.ignore gained F401."),
    (
        "pyrightconfig.json",
        '{"typeCheckingMode": "strict"}',
        "strict",
        "basic",
        "typeCheckingMode is basic now (was strict).",
    ),
    (
        "mypy.ini",
        "[mypy]\ndisallow_untyped_defs = True\n",
        "True",
        "False",
        "mypy.disallow_untyped_defs was switched off.",
    ),
    (".eslintignore", "dist\n", "dist", "dist\nsrc/legacy", "gained src/legacy."),
    (
        "sonar-project.properties",
        "sonar.sources=src\n",
        "src",
        "src\nsonar.coverage.exclusions=src/x/**",
        "exclusions gained src/x/**.",
    ),
    (
        "nightshift.yaml",
        "policy:\n  flags:\n    broken-link: fail\n",
        "fail",
        "off",
        "policy.flags.broken-link is off now (was fail).",
    ),
]


@each(("path", "text", "old", "new", "expected"), LOOSER)
def test_looser(raised: Judge, path: str, text: str, old: str, new: str, expected: str) -> None:
    assert old in text
    after = text.replace(old, new)
    found = [f for f in raised({path: text}, {path: after}) if f.name in LOOSENED]
    [one] = [f for f in found if expected in f.detail]
    assert one.level == "fail"
    changed = (text if len(after) < len(text) else after).split("\n")[one.line - 1]
    assert changed not in (after if len(after) < len(text) else text).split("\n")


@each(("path", "text", "old", "new", "expected"), LOOSER)
def test_the_way_back_is_no_finding(
    raised: Judge, path: str, text: str, old: str, new: str, expected: str
) -> None:
    """What is stricter afterwards raises nothing."""
    found = raised({path: text.replace(old, new)}, {path: text})
    assert [f for f in found if f.name in LOOSENED] == []


SAME = [
    (
        "select a family and leave some out",
        {
            "pyproject.toml": (
                PYPROJECT,
                PYPROJECT.replace('"I"]', '"I", "PL"]').replace('"E203"', '"E203", "PLR2004"'),
            )
        },
    ),
    (
        "build output",
        {
            "pyproject.toml": (
                PYPROJECT,
                PYPROJECT.replace(
                    "[tool.ruff]", '[tool.ruff]\nextend-exclude = ["build", "dist/*"]'
                ),
            )
        },
    ),
    (
        "one rule for its whole family",
        {"pyproject.toml": (PYPROJECT.replace('"F"', '"F401", "F841"'), PYPROJECT)},
    ),
    (
        "lint settings where they belong now",
        {
            "ruff.toml": (
                'ignore = ["E501"]\nselect = ["E"]\n',
                '[lint]\nignore = ["E501"]\nselect = ["E"]\n',
            )
        },
    ),
    (
        "idioms that no test reaches",
        {
            "pyproject.toml": (
                PYPROJECT,
                PYPROJECT.replace('["raise', '["if TYPE_CHECKING:", "raise'),
            )
        },
    ),
    (
        "another file",
        {
            "mypy.ini": ("[mypy]\nstrict = True\nwarn_unreachable = True\n", None),
            "pyproject.toml": (
                PYPROJECT.replace("[tool.mypy]\nstrict = true\n", ""),
                PYPROJECT.replace("strict = true", "strict = true\nwarn_unreachable = true"),
            ),
        },
    ),
    (
        "one switch for many",
        {"mypy.ini": ("[mypy]\ndisallow_untyped_defs = True\n", "[mypy]\nstrict = True\n")},
    ),
    (
        "a linter in another's place",
        {
            ".flake8": ("[flake8]\nselect = E,F\nmax-line-length = 100\n", None),
            "pyproject.toml": (
                "[project]\nname = 'x'\n",
                "[project]\nname = 'x'\n[tool.ruff]\nline-length = 100\n",
            ),
        },
    ),
    (
        "new style",
        {
            ".eslintrc.json": ('{"rules": {"eqeqeq": "error"}}', None),
            "eslint.config.js": (None, ESLINT),
        },
    ),
    (
        "version and order",
        {
            "pyproject.toml": (
                PYPROJECT,
                PYPROJECT.replace("1.0", "1.1").replace('["E", "F", "I"]', '["I", "F", "E"]'),
            )
        },
    ),
    ("target of TypeScript", {"tsconfig.json": (TSCONFIG, TSCONFIG.replace("es2020", "es2022"))}),
    (
        "what a build leaves out",
        {"tsconfig.build.json": ('{"exclude": []}', '{"exclude": ["**/*.test.ts"]}')},
    ),
    (
        "a new job that may fail",
        {
            ".gitlab-ci.yml": (
                "a:\n  script: [make]\n",
                "a:\n  script: [make]\nb:\n  allow_failure: true\n  script: [pytest]\n",
            )
        },
    ),
]


@each("files", [files for _, files in SAME])
def test_as_strict_as_before(
    raised: Judge, files: dict[str, tuple[str | None, str | None]]
) -> None:
    before = {path: old for path, (old, _) in files.items() if old is not None}
    found = raised(before, {path: new for path, (_, new) in files.items()})
    assert [f for f in found if f.name in LOOSENED] == []


def test_the_settings_of_a_tool_are_gone(raised: Judge) -> None:
    text = "[mypy]\nstrict = True\nwarn_unreachable = True\ndisallow_any_expr = True\n"
    [found] = raised({"mypy.ini": text}, {"mypy.ini": None})
    assert (found.name, found.file, found.line) == ("types-loosened", "mypy.ini", 0)
