"""Settings in build files of the JVM, .NET and Cargo, by patterns: a closed table."""

from gitlab_nightshift.verdict.tooling.directions import (
    above,
    compiler_options,
    compiler_switch,
    fewer,
    fewer_words,
    grows,
    higher,
    lower,
    shrinks,
    turned_off,
    turned_on,
)
from gitlab_nightshift.verdict.tooling.pattern import Pattern, Patterns
from gitlab_nightshift.verdict.tooling.rules import CI, COVERAGE, LINTER, SKIPPED, TYPES

BUILDS: Patterns = (
    (
        r"\.gradle(\.kts)?$",
        (
            Pattern(
                COVERAGE, "minimum", r"\bminimum(?:\.set)?\s*[=(]?\s*[\"']?(\d+(?:\.\d+)?)", lower
            ),
            Pattern(COVERAGE, "minBound", r"\bminBound\(?\s*(\d+)", lower),
            Pattern(
                CI, "ignoreFailures", r"\b(?:is)?[iI]gnoreFailures\s*=?\s*(true|false)", turned_on
            ),
            Pattern(
                CI,
                "failOnViolation",
                r"\b(?:is)?[fF]ail(?:OnViolation|OnError|On\w+)\s*=?\s*(true|false)",
                turned_off,
            ),
            Pattern(
                TYPES,
                "warnings as errors",
                r"\ballWarningsAsErrors(?:\.set)?\s*[=(]\s*(true|false)",
                turned_off,
            ),
            Pattern(
                TYPES,
                "suppressWarnings",
                r"\b(?:suppressWarnings|nowarn)(?:\.set)?\s*[=(]\s*(true|false)",
                turned_on,
            ),
            Pattern(
                LINTER,
                "plugins that check",
                r"\b(?:id|plugin:)\s*\(?\s*[\"']((?:checkstyle|pmd|jacoco|codenarc"
                r"|com\.github\.spotbugs|io\.gitlab\.arturbosch\.detekt|dev\.detekt"
                r"|com\.diffplug\.spotless|org\.jlleitschuh\.gradle\.ktlint|org\.sonarqube)\b)",
                shrinks,
                True,
            ),
            Pattern(
                CI,
                "what check depends on",
                r"\bcheck\b['\")]*\s*(?:\.configure\s*)?(?:\{[^}]*?|\.)\s*dependsOn\s*\(?([^)\n}]+)",
                fewer_words,
                True,
            ),
            Pattern(
                CI,
                "disabled tasks",
                r"\b((?:test|check|integrationTest|lint|detekt|checkstyle|pmd|spotbugs|jacoco|spotless)\w*)"
                r"\b[^\n{]*\{[^}]*?\b(?:enabled\s*=?\s*(?:\(\s*)?false|onlyIf\s*[({\s]*false)",
                grows,
                True,
            ),
            Pattern(
                TYPES,
                "compiler options",
                r"[\"'](-Werror|-Xlint[^\"']*|-Wall)[\"']",
                compiler_options,
                True,
            ),
            Pattern(LINTER, "maxWarnings", r"\bmax(?:Warnings|Errors|Issues)\s*=\s*(\d+)", higher),
            Pattern(
                SKIPPED,
                "excluded tests",
                r"\b(?:exclude(?:Tags|TestsMatching|Categories"
                r"|Groups)?)\s*[( ]\s*(['\"][^'\"]+['\"])",
                grows,
                True,
            ),
            Pattern("test-loosened", "retries", r"\bmaxRetries\s*=\s*(\d+)", above(0)),
        ),
    ),
    (
        r"\.sbt$",
        (
            Pattern(
                COVERAGE,
                "coverage minimum",
                r"\b(coverageMinimum\w*)\s*:=\s*(\d+(?:\.\d+)?)",
                lower,
            ),
            Pattern(
                COVERAGE,
                "coverageFailOnMinimum",
                r"\bcoverageFailOnMinimum\s*:=\s*(true|false)",
                turned_off,
            ),
            Pattern(
                COVERAGE, "coverage excluded", r"\bcoverageExcluded\w*\s*:=\s*(.+)", grows, True
            ),
            Pattern(
                TYPES,
                "scalacOptions",
                r"\"(-Xfatal-warnings|-Werror|-Xlint[^\"]*|-W(?!conf)[\w:-]+|-deprecation"
                r"|-feature|-unchecked)\"",
                compiler_options,
                True,
            ),
            Pattern(
                TYPES,
                "silenced warnings",
                r"\"(-Wconf:[^\"]*:(?:s|silent)[^\"]*|-nowarn)\"|\bscalacOptions\s*((?:--?=|~=).*)",
                grows,
                True,
            ),
            Pattern(
                LINTER, "scalafixOnCompile", r"\bscalafixOnCompile\s*:=\s*(true|false)", turned_off
            ),
            Pattern(
                SKIPPED,
                "excluded tests",
                r"\b(Tests\.(?:Exclude|Filter)\b.*|Tests\.Argument\([^)]*\"-l\".*"
                r"|(?:Test\s*/\s*)?(?:testOnly|test)\s*:=\s*\{?\s*\(?\)?\}?"
                r"|Test\s*/\s*skip\s*:=\s*true|Test\s*/\s*unmanagedSources\s*/\s*excludeFilter.*)",
                grows,
                True,
            ),
        ),
    ),
    (
        r"(^|/)\.scalafix\.conf$",
        (Pattern(LINTER, "rules", r"\b([A-Z]\w+)\b(?!\s*[.{=])", shrinks, True),),
    ),
    (
        r"(^|/)\.scalafmt\.conf$",
        (Pattern(LINTER, "maxColumn", r"\bmaxColumn\s*=\s*(\d+)", higher),),
    ),
    (
        r"(^|/)pom\.xml$|\.props$|\.(cs|fs|vb)proj$",
        (
            Pattern(
                COVERAGE,
                "minimum",
                r"<(minimum|lineRate|branchRate|totalLineRate"
                r"|Threshold)>\s*(\d+(?:\.\d+)?)\s*%?\s*<",
                lower,
            ),
            Pattern(
                CI,
                "switches that let pass",
                r"<(skipTests|maven\.test\.skip|skipITs|testFailureIgnore|skip|haltOnFailure"
                r"|\w+\.skip)>\s*(true|false)\s*<",
                turned_on,
            ),
            Pattern(
                LINTER,
                "switches that check",
                r"<(failOnViolation|failsOnError|failOnError|EnforceCodeStyleInBuild"
                r"|RunAnalyzers\w*)>\s*(true|false)\s*<",
                turned_off,
            ),
            Pattern(
                TYPES,
                "strict compiler",
                r"<(failOnWarning|TreatWarningsAsErrors|MSBuildTreatWarningsAsErrors|Nullable)>"
                r"\s*(true|false|enable|disable|warnings|annotations)\s*<",
                compiler_switch,
            ),
            Pattern(TYPES, "WarningLevel", r"<(WarningLevel)>\s*(\d+)\s*<", lower),
            Pattern(
                CI,
                "goals that check",
                r"<goal>\s*(check|verify|integration-test|test|lint|[\w-]*-check|check-[\w-]+)\s*<",
                fewer,
                True,
            ),
            Pattern(
                CI,
                "phase",
                r"<phase>\s*(none)\s*<",
                grows,
                True,
            ),
            Pattern(LINTER, "maxAllowedViolations", r"<maxAllowedViolations>\s*(\d+)\s*<", higher),
            Pattern(LINTER, "NoWarn", r"<(?:NoWarn|WarningsNotAsErrors)>([^<]*)<", grows, True),
            Pattern(
                TYPES,
                "compiler options",
                r"<(?:compilerArg|arg)>\s*(-Werror|-Xlint[^<\s]*|-Xfatal-warnings|-Wall)\s*<",
                compiler_options,
                True,
            ),
            Pattern(
                SKIPPED,
                "excluded tests",
                r"<excludedGroups>([^<]*)<|<exclude>([^<]*(?:Test|IT|Spec)\w*\.[^<]*)<",
                grows,
                True,
            ),
            Pattern(
                "test-loosened",
                "rerunFailingTestsCount",
                r"<rerunFailingTestsCount>\s*(\d+)\s*<",
                above(0),
            ),
        ),
    ),
    (
        r"(^|/)\.cargo/config(\.toml)?$",
        (Pattern(TYPES, "rustflags", r"-D[\"', ]*(\w[\w:-]*)|deny\((\w+)", fewer, True),),
    ),
)
