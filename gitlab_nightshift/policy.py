"""What a change may touch: pure functions of a change and the settings."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from gitlab_nightshift.settings import Settings

DEPENDENCY_FILES = tuple(
    """package.json package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml
    pnpm-workspace.yaml bun.lock bun.lockb deno.json deno.jsonc deno.lock jsr.json bower.json
    pyproject.toml setup.py setup.cfg requirements*.txt requirements*.in requirements*.lock
    **/requirements/*.txt **/requirements/*.in constraints*.txt Pipfile Pipfile.lock poetry.lock
    pdm.lock uv.lock pylock*.toml pixi.toml pixi.lock environment.yml environment.yaml
    conda-lock.yml Cargo.toml Cargo.lock go.mod go.sum go.work go.work.sum
    pom.xml build.gradle build.gradle.kts settings.gradle settings.gradle.kts *.lockfile
    libs.versions.toml verification-metadata.xml gradle-wrapper.properties
    maven-wrapper.properties ivy.xml build.sbt **/project/*.sbt **/project/build.properties
    **/project/Dependencies.scala build.sc build.mill deps.edn project.clj
    Gemfile Gemfile.lock gems.rb gems.locked *.gemspec composer.json composer.lock
    *.csproj *.fsproj *.vbproj packages.config packages.lock.json Directory.Packages.props
    Directory.Build.props paket.dependencies paket.lock global.json mix.exs mix.lock rebar.config
    rebar.lock pubspec.yaml pubspec.lock Package.swift Package.resolved Podfile Podfile.lock
    *.podspec Cartfile Cartfile.resolved *.cabal cabal.project cabal.project.freeze stack.yaml
    stack.yaml.lock dune-project *.opam renv.lock DESCRIPTION Project.toml Manifest.toml cpanfile
    cpanfile.snapshot shard.yml shard.lock conanfile.txt conanfile.py conan.lock vcpkg.json
    MODULE.bazel MODULE.bazel.lock WORKSPACE WORKSPACE.bazel flake.nix flake.lock
    .terraform.lock.hcl Chart.yaml Chart.lock .gitmodules""".split()
)
"""Dependency manifests and lock files of the usual ecosystems: no night changes them."""


@dataclass(frozen=True)
class ChangeView:
    """What the policy looks at: paths as they are shown (odd bytes as escapes), changed lines."""

    paths: tuple[str, ...]
    lines: int


def violations(
    change: ChangeView, settings: Settings, recent_files: Collection[str], ci_config: str
) -> tuple[str, ...]:
    """Every rule that a change breaks, each as a sentence that helps the next attempt."""
    found: list[str] = []
    if change.lines > settings.max_diff_lines:
        found.append(
            f"The diff has {change.lines} added and deleted lines; at most "
            f"{settings.max_diff_lines} are allowed. Make a smaller change."
        )
    found += _named(
        "is a dependency manifest or lock file", _matching(change.paths, DEPENDENCY_FILES)
    )
    found += _named("is CI configuration, which runs before a review", _ci_files(change, ci_config))
    recent = [path for path in change.paths if path in recent_files]
    found += _named("was changed by a recent commit and is left alone", recent)
    outside = [path for path in change.paths if not within(path, settings)]
    found += _named("is outside the paths of this night", outside)
    return tuple(found)


def within(path: str, settings: Settings) -> bool:
    """True where ``paths`` and ``exclude_paths`` allow a path."""
    if settings.paths and not matches(path, settings.paths):
        return False
    return not matches(path, settings.exclude_paths)


def matches(path: str, patterns: Iterable[str]) -> bool:
    """True where one of the patterns, written as in ``.gitignore``, matches the path."""
    return bool(_matching((path,), patterns))


def _matching(paths: Iterable[str], patterns: Iterable[str]) -> list[str]:
    from pathspec import GitIgnoreSpec

    return list(GitIgnoreSpec.from_lines(patterns).match_files(paths))


def _ci_files(change: ChangeView, ci_config: str) -> list[str]:
    """GitLab's own place, the project's (``CI_CONFIG_PATH``), and the usual folder of includes."""
    own = ci_config.partition("@")[0].removeprefix("/")
    usual = _matching(change.paths, ("/.gitlab-ci.yml", "/.gitlab/ci/"))
    return [path for path in change.paths if path == own or path in usual]


def _named(rule: str, paths: Iterable[str]) -> list[str]:
    return [f"{path} {rule}." for path in paths]
