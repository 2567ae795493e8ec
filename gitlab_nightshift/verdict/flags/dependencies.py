"""Dependency manifests and lock files, touched where they name dependencies.

A night refuses the whole file (``policy.violations``); here, where people's changes are judged
too, a manifest that holds other settings counts by the parts that decide what is installed.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from gitlab_nightshift import policy
from gitlab_nightshift.verdict.change import Change, ChangedFile, Context, Found
from gitlab_nightshift.verdict.tooling.parse import parsed

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_PARTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        r"^pyproject\.toml$",
        (
            "build-system",
            "project.dependencies",
            "project.optional-dependencies",
            "project.requires-python",
            "project.dynamic",
            "dependency-groups",
            "tool.poetry.dependencies",
            "tool.poetry.dev-dependencies",
            "tool.poetry.group",
            "tool.poetry.extras",
            "tool.poetry.source",
            "tool.pdm.dev-dependencies",
            "tool.pdm.source",
            "tool.uv",
            "tool.hatch.envs",
            "tool.setuptools.dynamic",
        ),
    ),
    (
        r"^(package|jsr)\.json$",
        (
            "dependencies",
            "devDependencies",
            "peerDependencies",
            "optionalDependencies",
            "bundledDependencies",
            "bundleDependencies",
            "overrides",
            "resolutions",
            "pnpm",
            "packageManager",
            "engines",
            "workspaces",
            "peerDependenciesMeta",
            "scripts.preinstall",
            "scripts.install",
            "scripts.postinstall",
            "scripts.prepare",
        ),
    ),
    (r"^deno\.jsonc?$", ("imports", "importMap", "scopes", "workspace", "vendor")),
    (
        r"^composer\.json$",
        ("require", "require-dev", "repositories", "replace", "conflict", "config"),
    ),
    (
        r"^setup\.cfg$",
        (
            "options.install_requires",
            "options.setup_requires",
            "options.tests_require",
            "options.python_requires",
            "options.dependency_links",
            "options.extras_require",
        ),
    ),
    (
        r"^cargo\.toml$",
        (
            "dependencies",
            "dev-dependencies",
            "build-dependencies",
            "target",
            "workspace.dependencies",
            "patch",
            "replace",
            "features",
        ),
    ),
    (
        r"^pubspec\.yaml$",
        ("dependencies", "dev_dependencies", "dependency_overrides", "environment"),
    ),
    (r"^chart\.yaml$", ("dependencies",)),
)
_LINES: tuple[tuple[str, str], ...] = (
    (r"\.gemspec$", r"add_(\w+_)?dependency|required_ruby_version"),
    (
        r"\.gradle(\.kts)?$",
        r"\b(implementation|api|compile\w*|runtime\w*|test\w*Implementation|testRuntimeOnly|kapt|ksp"
        r"|annotationProcessor|classpath|platform|constraints|id|kotlin|mavenCentral|maven|repositories|version)\b.*[(\"']",
    ),
    (
        r"\.sbt$",
        r"%|addSbtPlugin|addCompilerPlugin|scalaVersion|resolvers|dependencyOverrides|sbt\.version",
    ),
    (r"^setup\.py$", r"require|==|>=|~=|dependency"),
    (
        r"\.(cs|fs|vb)proj$|\.props$",
        r"PackageReference|PackageVersion|TargetFramework|ProjectReference|<Reference|LangVersion",
    ),
    (r"^(mix\.exs|rebar\.config|package\.swift|dune-project)$", r"\{\s*:|dep|\.package\("),
)
_POM = re.compile(
    r"<(dependency|dependencies|plugin|parent|groupId|artifactId|version|scope|exclusion|repository|extension|source|target"
    r"|release|classifier|packaging|url|type|[\w.-]*version)\b",
    re.IGNORECASE,
)
_COMMENTED = re.compile(
    r"requirements|constraints|^Gemfile$|^gems\.rb$|^go\.(mod|work)$|^Pipfile$|^cpanfile$|\.(in|txt)$"
)


def dependency_file(change: Change, _context: Context) -> Iterator[Found]:
    """A manifest or lock file that names other dependencies than before."""
    for file in change.files:
        touched = any(_manifests().match_file(path) for path in {file.path, file.old_path})
        if touched and (part := _part(file)):
            yield Found(file.path, _line(file), f"Another choice of what is installed: {part}.")


@cache
def _manifests() -> "GitIgnoreSpec":
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(policy.DEPENDENCY_FILES)


def _part(file: ChangedFile) -> str:
    """What decides about dependencies and differs; "" where nothing does."""
    name = file.path.rpartition("/")[2].lower()
    if not file.deleted and not file.added and file.status == "M" and not file.binary:
        return ""
    if parts := _first(name, _PARTS):
        return _structural(file, parts)
    if pattern := _first(name, _LINES):
        return _by_lines(file, re.compile(pattern, re.IGNORECASE).search)
    if name == "pom.xml":
        return _by_lines(file, _POM.search)
    if _COMMENTED.search(file.path.rpartition("/")[2]):
        return _by_lines(file, lambda text: not re.match(r"\s*(#|//|$)", text))
    return "the file" if file.status != "R" or file.added or file.deleted else ""


def _first(name: str, table: tuple[tuple[str, Any], ...]) -> Any:
    return next((value for pattern, value in table if re.search(pattern, name)), None)


def _structural(file: ChangedFile, parts: tuple[str, ...]) -> str:
    old, new = (
        {} if side is None else parsed(file.path, side)
        for side in (file.difference.old, file.difference.new)
    )
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return "the file cannot be read"
    differing = [part for part in parts if _at(old, part) != _at(new, part)]
    return ", ".join(differing)


def _at(data: Any, path: str) -> Any:
    head, _, rest = path.partition(".")
    if not isinstance(data, Mapping):
        return None
    if path in data:  # INI sections are called "options.extras_require"
        return data[path] or None
    return _at(data.get(head), rest) if rest else data.get(head) or None


def _by_lines(file: ChangedFile, matters: Callable[[str], object]) -> str:
    """Changed lines that matter, unless the same ones only stand in another order."""
    old, new = (
        sorted(re.sub(r"\s*(#|//).*| ", "", line.text) for line in side if matters(line.text))
        for side in (file.deleted, file.added)
    )
    if old == new:
        return ""
    changed = [line for line in (*new, *old) if (line in new) != (line in old)] or new or old
    return changed[0][:80]


def _line(file: ChangedFile) -> int:
    lines = file.added or file.deleted
    return lines[0].number if lines else 0
