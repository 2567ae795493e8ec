"""Command lines of CI jobs and recipes: what they run, and which of them check something."""

import re
import shlex
from dataclasses import dataclass
from functools import cached_property

_RUNNERS = (
    "bundle exec|npx|bunx|pnpm (?:exec|dlx)|yarn (?:exec|dlx)|poetry run|pdm run|hatch run"
    "|pipenv run|rye run|uvx?(?: run| tool run)?|python3? -m|py -m|sudo|time|exec|env|command"
    "|xvfb-run(?: -a)?|nice"
    "|docker compose (?:run|exec)(?: --rm)? \\S+|coverage run(?: -m)?|timeout \\S+"
)
_PREFIX = re.compile(
    rf"^(?:[-@]+(?=\w)|- |\./|\$\(\w+\)/"
    rf"|(?:{_RUNNERS})(?![\w-])(?:\s+--?[\w-]+(?:=\S+)?(?=\s))*\s*|[A-Z_][A-Z0-9_]*=\S*\s+)+"
)
_CHECKS = re.compile(
    r"\b(py\.?test|unittest|tox|nox|mypy|pyright|basedpyright|ruff|flake8|pylint|black|isort"
    r"|bandit|jest"
    r"|vitest|mocha|ava|eslint|tsc|vue-tsc|prettier|biome|stylelint|oxlint|golangci-lint"
    r"|staticcheck|govulncheck"
    r"|gosec|gofmt|gofumpt|rspec|rubocop|brakeman|sorbet|srb|steep|phpunit|phpstan|psalm|phpcs"
    r"|pest|clippy"
    r"|scalafmt\w*|scalafix\w*|scalastyle|wartremover|shellcheck|hadolint|yamllint"
    r"|markdownlint\S*|actionlint"
    r"|semgrep|gitleaks|trivy|pip-audit|safety|codeql|codecov|coveralls|sonar-scanner|spotless\w*"
    r"|detekt|ktlint"
    r"|checkstyle\w*|pmd\w*|spotbugs\w*|jacoco\w*|pre-commit|import-linter|lint-imports"
    r"|commitlint|knip|c8|nyc"
    r"|nextest|miri|minitest|cucumber|behave|playwright|cypress|xo|standard|ginkgo|gotestsum)\b"
    r"|\b(go|cargo|dotnet|npm|pnpm|yarn|bun|deno|node|mvnw?|gradlew?|sbt|mill|make|rake|rails|mix"
    r"|swift"
    r"|just|task|composer|invoke|inv|zig|bazel|flutter|dart|php|\S+\.sh|\S+\.py|coverage)\b.*?"
    r"(test|check|lint|vet|verify|audit|cover|clippy|fmt|spec|typecheck|type-check|\bci\b|report"
    r"|integration|e2e)",
    re.IGNORECASE,
)
_WRAPPERS = re.compile(
    r"^(make|just|task|tox|nox|invoke|inv|rake|npm|pnpm|yarn|bun|composer|hatch|pre-commit|pdm"
    r"|poe|nix|earthly"
    r"|bazel|\S+\.sh|(ba)?sh|script/\S+|scripts/\S+|bin/\S+|ci/\S+|tools/\S+|mvnw?|gradlew?|sbt"
    r"|docker)\b"
)
_INSTALLS = re.compile(
    r"(npm|pnpm|yarn|bun|pip3?|uv|poetry|pdm|pipenv|bundle|composer|go mod|go|cargo|apt(-get)?"
    r"|apk|brew|dotnet"
    r"|gem|corepack|rustup|conda|mix|cs|sdk)\s+(pip\s+)?(install|i|ci|add|sync|restore|download"
    r"|fetch|update"
    r"|upgrade|enable|deps\.get|component|config|get)\b"
)
_WITH_VALUE = re.compile(
    r"^(-[kmnpcCtjoe]|-run|-skip|-timeout|-tags|--(config|cov|cov-report|cov-config|max-\S+"
    r"|line-length|fail-under\S*"
    r"|cov-fail-under|ignore|deselect|exclude\S*|skip\S*|select|extend-\S+|reruns\S*|retr\S+"
    r"|maxfail|numprocesses|workers"
    r"|timeout|grep|reporter|require|project|tests|tag|filter|test\S+|lines|branches|functions"
    r"|statements|format|output-format"
    r"|junitxml|junit-xml|python-version|target-version|rootdir|durations|dist|package|features"
    r"|manifest-path))$"
)
_SAME = {
    **dict.fromkeys("flake8 pylint ruff black isort pycodestyle bandit".split(), "python linter"),
    **dict.fromkeys("mypy pyright basedpyright ty pyre".split(), "python types"),
    **dict.fromkeys("eslint biome oxlint tslint xo standard prettier".split(), "script linter"),
    **dict.fromkeys("jest vitest mocha ava".split(), "script tests"),
    **dict.fromkeys("nyc c8".split(), "script coverage"),
    **dict.fromkeys("pytest py.test unittest nose2 tox nox".split(), "python tests"),
    **dict.fromkeys("go:test gotestsum ginkgo".split(), "go tests"),
    **dict.fromkeys("go:vet golangci-lint staticcheck revive".split(), "go linter"),
    **dict.fromkeys("mvn mvnw".split(), "maven"),
    **dict.fromkeys("gradle gradlew".split(), "gradle"),
}


@dataclass(frozen=True)
class Command:
    """A command line; words are those of the shell as far as they can be told."""

    text: str

    @cached_property
    def bare(self) -> str:
        """Without what only wraps it: environment, runners, ``@`` of make."""
        return _PREFIX.sub("", self.text.strip()) or self.text.strip()

    @cached_property
    def words(self) -> tuple[str, ...]:
        try:
            return tuple(shlex.split(self.bare.replace("`", " ")))
        except ValueError:
            return tuple(self.bare.split())

    @cached_property
    def checks(self) -> bool:
        """True for a command that finds mistakes."""
        if re.match(
            r"\s*(echo|printf|cd|mkdir|pip|apt|apk|brew|curl|wget|rm|cp|export|#)\b", self.bare
        ):
            return False
        return not self.installs and bool(_CHECKS.search(self.bare))

    @cached_property
    def installs(self) -> bool:
        return bool(_INSTALLS.match(self.bare))

    @cached_property
    def family(self) -> str:
        """What the command runs, the same name for tools that do the same."""
        words = [word for word in self.words if word[:1] != "-"] or [self.bare]
        name = words[0].rpartition("/")[2]
        if name in ("npm", "pnpm", "yarn", "bun"):
            name = "npm:" + ":".join(word for word in words[1:2] if word not in ("run", "t"))
            name += "".join(word for word in words[2:3] if words[1:2] in (["run"], ["run-script"]))
        elif name in ("go", "cargo", "dotnet", "make", "deno", "mix", "rake", "just", "task"):
            name += ":" + "".join(words[1:2])
        return _SAME.get(name, name)

    @property
    def wraps(self) -> bool:
        """True for what runs other checks."""
        return bool(_WRAPPERS.match(self.bare.removeprefix("./")))

    @cached_property
    def options(self) -> dict[str, str]:
        """Option → value, which may be its own or the word after it."""
        found: dict[str, str] = {}
        for word, after in zip(self.words, (*self.words[1:], ""), strict=True):
            if word[:1] == "-" and len(word) > 1:
                name, _, value = word.partition("=")
                takes = _WITH_VALUE.match(name) and after[:1] != "-"
                found[name] = value or (after if takes else "")
        return found

    @cached_property
    def targets(self) -> frozenset[str]:
        """Paths and patterns that are named."""
        options = self.options.values()
        plain = [w for w in self.words[1:] if w[:1] != "-" and w not in options]
        return frozenset(
            w for w in plain if re.search(r"[/.*]", w) and not re.search(r"[|&<>;=$]", w)
        )


def fewer_checkers(old: object, new: object) -> str:
    """What is gone of a list of tools, and nothing that does the same came in its place."""
    before, after = (value if isinstance(value, (list, tuple)) else () for value in (old, new))
    has = {_called(name).family for name in after}
    lost = [
        n for n in before if _called(n).checks and n not in after and _called(n).family not in has
    ]
    return f"lost {', '.join(lost[:3])}" if lost else ""


def _called(name: str) -> Command:
    return Command(re.sub(r"-(check|system|docker|full|src|pre-commit)$", "", name))


def commands_of(script: object) -> list[Command]:
    """The commands of a script: texts, lists, or lists in lists, split at lines and ``&&``."""
    if isinstance(script, (list, tuple)):
        return [command for part in script for command in commands_of(part)]
    if not isinstance(script, str):
        return []
    joined = re.sub(r"\\\n\s*", " ", script)
    parts = (part.strip() for line in joined.split("\n") for part in re.split(r"\s&&\s", line))
    return [Command(part) for part in parts if part and part[0] != "#"]
