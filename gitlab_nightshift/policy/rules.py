"""What no change of a night may do: pure functions of a change and the settings."""

from collections.abc import Collection, Iterable

from gitlab_nightshift.policy.gates import gated
from gitlab_nightshift.policy.paths import ChangeView, matching, within
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


ENFORCED = ("diff-too-large", "dependency-file", "recent-file", "outside-paths")
"""The flags that are rules of a night as well: held in work, and in publish once more. Where the
settings say ``warn`` or ``off``, they are none."""


def violations(
    change: ChangeView, settings: Settings, recent_files: Collection[str], ci_config: str
) -> tuple[str, ...]:
    """Every rule that a change breaks, each as a sentence that helps the next attempt.

    What the write gate denies is among it; what it only asks about is in :func:`gated`.
    """
    off = {name for name, level in settings.policy.flags.items() if level != "fail"}
    recent = [path for path in change.paths if path in recent_files]
    outside = [path for path in change.paths if not within(path, settings)]
    dependencies = matching(change.paths, DEPENDENCY_FILES)
    rules = (
        ("diff-too-large", _too_large(change, settings)),
        ("dependency-file", _named("is a dependency manifest or lock file", dependencies)),
        ("recent-file", _named("was changed by a recent commit and is left alone", recent)),
        ("outside-paths", _named("is outside the paths of this night", outside)),
    )
    broken = [text for flag, texts in rules if flag not in off for text in texts]
    denied = [str(each) for each in gated(change, settings, ci_config) if each.decision == "deny"]
    return (*broken, *denied)


def _too_large(change: ChangeView, settings: Settings) -> list[str]:
    if change.lines <= settings.max_diff_lines:
        return []
    return [
        f"The diff has {change.lines} added and deleted lines; at most {settings.max_diff_lines} "
        "are allowed. Make a smaller change."
    ]


def _named(rule: str, paths: Iterable[str]) -> list[str]:
    return [f"{path} {rule}." for path in paths]
