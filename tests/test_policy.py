"""What a change may touch, and the sentences that tell the next attempt."""

import pytest

from gitlab_nightshift.policy import ChangeView, matches, violations, within
from gitlab_nightshift.settings import Settings


def found(
    *paths: str,
    lines: int = 1,
    recent: tuple[str, ...] = (),
    ci_config: str = ".gitlab-ci.yml",
    **settings: object,
) -> tuple[str, ...]:
    change = ChangeView(paths, lines)
    return violations(change, Settings.model_validate(settings), recent, ci_config)


def test_an_ordinary_change_breaks_nothing() -> None:
    assert found("src/a.py", "tests/test_a.py", "README.md", lines=100) == ()


@pytest.mark.parametrize(
    ("lines", "limit", "ok"), [(100, 100, True), (101, 100, False), (1, 1, True)]
)
def test_exactly_the_limit_is_allowed(lines: int, limit: int, ok: bool) -> None:
    assert (found("a", lines=lines, max_diff_lines=limit) == ()) is ok


def test_every_violation_is_told_in_a_sentence() -> None:
    paths = ("lib/a.py", "src/package.json", ".gitlab-ci.yml", "src/b.py")
    told = found(*paths, lines=150, recent=("src/b.py", "src/c.py"), paths=["src/"])
    assert told == (
        "The diff has 150 added and deleted lines; at most 100 are allowed. Make a smaller change.",
        "src/package.json is a dependency manifest or lock file.",
        ".gitlab-ci.yml is CI configuration, which runs before a review.",
        "src/b.py was changed by a recent commit and is left alone.",
        "lib/a.py is outside the paths of this night.",
        ".gitlab-ci.yml is outside the paths of this night.",
    )


DEPENDENCIES = """
    package.json package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml pnpm-workspace.yaml
    bun.lock bun.lockb deno.json deno.lock pyproject.toml setup.py setup.cfg requirements.txt
    requirements-dev.txt requirements_test.txt requirements.in requirements/dev.txt
    requirements/base.in constraints.txt Pipfile Pipfile.lock poetry.lock pdm.lock uv.lock
    pylock.toml pylock.dev.toml pixi.toml environment.yml environment.yaml Cargo.toml Cargo.lock
    go.mod go.sum go.work go.work.sum pom.xml build.gradle build.gradle.kts settings.gradle
    settings.gradle.kts gradle.lockfile gradle/libs.versions.toml
    gradle/verification-metadata.xml gradle/wrapper/gradle-wrapper.properties
    .mvn/wrapper/maven-wrapper.properties ivy.xml build.sbt project/plugins.sbt
    project/build.properties project/Dependencies.scala build.sc deps.edn project.clj Gemfile
    Gemfile.lock gems.rb gems.locked shop.gemspec composer.json composer.lock Shop.csproj
    Shop.fsproj packages.config packages.lock.json Directory.Packages.props paket.lock mix.exs
    mix.lock rebar.config rebar.lock pubspec.yaml pubspec.lock Package.swift Package.resolved
    Podfile Podfile.lock Shop.podspec Cartfile.resolved shop.cabal stack.yaml stack.yaml.lock
    renv.lock Project.toml Manifest.toml cpanfile shard.lock conanfile.txt conanfile.py vcpkg.json
    MODULE.bazel MODULE.bazel.lock flake.nix flake.lock .terraform.lock.hcl Chart.lock .gitmodules
""".split()


@pytest.mark.parametrize("path", DEPENDENCIES)
def test_dependency_files_at_any_depth(path: str) -> None:
    for place in (path, f"sub/{path}", f"a/b/c/{path}"):
        assert found(place) == (f"{place} is a dependency manifest or lock file.",)


@pytest.mark.parametrize(
    "path",
    """src/package.py package.json.md docs/requirements.md requirements/README.md mygo.mod.txt
    project/Build.scala src/project/plugins.scala locks.py yarn.lock.d.ts build.sbt.orig
    src/cargo.rs Makefile""".split(),
)
def test_what_only_sounds_like_one(path: str) -> None:
    assert found(path) == ()


@pytest.mark.parametrize(
    ("paths", "exclude", "path", "ok"),
    [
        ([], [], "anything/at/all", True),
        (["src"], [], "src/a/b.py", True),
        (["src/"], [], "src/a/b.py", True),
        (["src/"], [], "lib/a.py", False),
        (["src"], [], "lib/src/a.py", True),
        (["src/**"], [], "lib/src/a.py", False),
        (["**"], [], "a/b", True),
        (["*.py"], [], "deep/down/a.py", True),
        (["*.py"], [], "a.pyc", False),
        (["docs/*.md"], [], "docs/a.md", True),
        (["docs/*.md"], [], "docs/sub/a.md", False),
        (["docs/**/*.md"], [], "docs/sub/a.md", True),
        (["src", "!src/vendor"], [], "src/vendor/a.py", False),
        (["src"], ["src/gen/"], "src/gen/a.py", False),
        (["src"], ["src/gen/"], "src/generator.py", True),
        ([], ["*.min.js"], "web/a.min.js", False),
        ([], ["vendor/", "!vendor/ours.py"], "vendor/x.py", False),
        (["src[12]"], [], "src2/a", True),
        (["src"], [], "SRC/a", False),
    ],
)
def test_paths_are_patterns_as_in_gitignore(
    paths: list[str], exclude: list[str], path: str, ok: bool
) -> None:
    assert within(path, Settings(paths=paths, exclude_paths=exclude)) is ok


@pytest.mark.parametrize(
    ("path", "config", "ok"),
    [
        (".gitlab-ci.yml", ".gitlab-ci.yml", False),
        (".gitlab-ci.yml", "ci/main.yml", False),
        ("ci/main.yml", "ci/main.yml", False),
        ("ci/main.yml", "/ci/main.yml", False),
        ("ci/main.yml", "ci/main.yml@group/other", False),
        ("ci/main.yml", ".gitlab-ci.yml", True),
        ("sub/ci/main.yml", "ci/main.yml", True),
        ("ci/[a].yml", "ci/[a].yml", False),
        ("ci/a.yml", "ci/*.yml", True),
        (".gitlab/ci/test.yml", ".gitlab-ci.yml", False),
        (".gitlab/CODEOWNERS", ".gitlab-ci.yml", True),
        ("sub/.gitlab-ci.yml", ".gitlab-ci.yml", True),
        ("a.yml", "https://example.com/a.yml", True),
    ],
)
def test_what_gitlab_would_run_before_a_review(path: str, config: str, ok: bool) -> None:
    assert (found(path, ci_config=config) == ()) is ok


def test_recent_files_are_left_alone_by_their_whole_path() -> None:
    assert found("a.py", "src/b.py", recent=("src/a.py", "b.py")) == ()
    assert found("src/a.py", recent=("src/a.py",)) == (
        "src/a.py was changed by a recent commit and is left alone.",
    )


def test_no_pattern_matches_nothing() -> None:
    assert not matches("a", ())
