"""What a change may touch, and the sentences for the next attempt."""

import re
from itertools import pairwise
from typing import Any

from pathspec import GitIgnoreSpec

from gitlab_nightshift.policy.change_rules import find_violations
from gitlab_nightshift.policy.path_patterns import find_matching, is_in_scope, matches
from gitlab_nightshift.policy.protected_files import (
    DEPENDENCY_FILES,
    DEPENDENCY_GROUPS,
    TOOL_GROUPS,
)
from gitlab_nightshift.policy.write_gate import (
    HARMLESS,
    PIPELINE,
    SENSITIVE,
    describe_approvals,
    list_gated_files,
)
from gitlab_nightshift.records.products import ChangeSize
from gitlab_nightshift.registry.pipeline_files import NO_INCLUDES, CiFiles, follow_includes
from gitlab_nightshift.settings.load import build_settings
from gitlab_nightshift.settings.model import Settings
from tests.support.tables import each


def change_of(*paths: str, lines: int = 1) -> ChangeSize:
    return ChangeSize(paths, lines, 0)


def violations(
    *paths: str,
    lines: int = 1,
    recent: tuple[str, ...] = (),
    ci_config: str = ".gitlab-ci.yml",
    **settings: object,
) -> tuple[str, ...]:
    change = change_of(*paths, lines=lines)
    return find_violations(change, {}, build_settings(settings), recent, ci_config)


def test_an_ordinary_change_breaks_nothing() -> None:
    assert violations("src/a.py", "tests/test_a.py", "README.md", lines=100) == ()


@each(("lines", "limit", "ok"), [(100, 100, True), (101, 100, False), (1, 1, True)])
def test_exactly_the_limit_is_allowed(lines: int, limit: int, ok: bool) -> None:
    assert (violations("a", lines=lines, max_diff_lines=limit) == ()) is ok


def test_every_violation_is_a_sentence() -> None:
    paths = ("lib/a.py", "src/package.json", ".gitlab-ci.yml", "src/b.py")
    sentences = violations(*paths, lines=150, recent=("src/b.py", "src/c.py"), paths=["src/"])
    assert sentences == (
        "The diff has 150 added and deleted lines; at most 100 are allowed. Make a smaller change.",
        "src/package.json is a dependency manifest or lock file.",
        "src/b.py was changed by a recent commit: leave it alone.",
        "lib/a.py is outside the paths for this night.",
        ".gitlab-ci.yml is outside the paths for this night.",
    )


def test_each_pattern_with_a_wildcard_has_its_example() -> None:
    sensitive = [group for kind in (PIPELINE, *SENSITIVE) for group in kind.groups]
    for group in (*DEPENDENCY_GROUPS, *TOOL_GROUPS, *sensitive):
        patterns = [pattern for pattern in group.patterns if "*" in pattern.replace("**/", "")]
        assert group.name and group.patterns and len(patterns) == len(group.examples), group
        for pattern, example in zip(patterns, group.examples, strict=True):
            assert matches(example, (pattern,)), (group.name, pattern, example)


def test_tests_and_documents_do_not_count_as_auth() -> None:
    for name, pattern, example in HARMLESS:
        alone = [other for other, each, _ in HARMLESS if re.search(each, example)]
        assert alone == [name], (pattern, example)
        assert matches(example, next(k.patterns for k in SENSITIVE if k.name == "auth"))


def test_patterns_match_as_git_ignores() -> None:
    """Most of them are never compiled: the texts in them rule them out first."""
    patterns = [pattern for kind in SENSITIVE for pattern in kind.patterns]
    patterns += [*DEPENDENCY_FILES, "src/**/*.py", "*", "**", "/a?c", "!a/keep", "[ab]*.c"]
    patterns += ["a\\*b"]
    paths = """jenkinsfile.old x/k8s/y .env.local a/docker-compose.dev.yml src/a/b.py abc a/keep
        b1.c a*b lib/auth_x.py requirements/dev.txt go.mod x/go.mod/y
        .github/workflows/ci.yml""".split()
    for pattern in patterns:
        known = list(GitIgnoreSpec.from_lines([pattern]).match_files(paths))
        assert find_matching(paths, [pattern]) == known, pattern
    assert find_matching(paths, patterns) == list(
        GitIgnoreSpec.from_lines(patterns).match_files(paths)
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


@each("path", DEPENDENCIES)
def test_dependency_files_at_any_depth(path: str) -> None:
    for place in (path, f"sub/{path}", f"a/b/c/{path}"):
        assert violations(place) == (f"{place} is a dependency manifest or lock file.",)


@each(
    "path",
    """src/package.py package.json.md docs/requirements.md requirements/README.md mygo.mod.txt
    project/Build.scala src/project/plugins.scala locks.py yarn.lock.d.ts build.sbt.orig
    src/cargo.rs Makefile""".split(),
)
def test_what_only_sounds_like_one(path: str) -> None:
    assert violations(path) == ()


@each(
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
    assert is_in_scope(path, Settings(paths=paths, exclude_paths=exclude)) is ok


# --- the write gate -----------------------------------------------------------------------------


def decided(
    path: str, config: str = ".gitlab-ci.yml", ci: CiFiles = NO_INCLUDES, **policy: Any
) -> str:
    """What the write gate does with one changed file."""
    settings = build_settings({"policy": policy})
    gated = list_gated_files(change_of(path), settings, config, ci)
    return gated[0].decision if gated else "allow"


@each(
    ("path", "config", "asks"),
    [
        (".gitlab-ci.yml", ".gitlab-ci.yml", True),
        (".gitlab-ci.yml", "ci/main.yml", True),
        ("ci/main.yml", "ci/main.yml", True),
        ("ci/main.yml", "/ci/main.yml", True),
        ("ci/main.yml", "ci/main.yml@group/other", True),
        ("ci/main.yml", ".gitlab-ci.yml", False),
        ("sub/ci/main.yml", "ci/main.yml", False),
        ("ci/[a].yml", "ci/[a].yml", True),
        ("ci/a.yml", "ci/*.yml", False),
        (".gitlab/ci/test.yml", ".gitlab-ci.yml", True),
        ("sub/.gitlab-ci.yml", ".gitlab-ci.yml", False),
        ("a.yml", "https://example.com/a.yml", False),
    ],
)
def test_what_gitlab_would_run_before_a_review_needs_an_approval(
    path: str, config: str, asks: bool
) -> None:
    assert decided(path, config) == ("require_approval" if asks else "allow")
    assert violations(path, ci_config=config) == ()


SENSITIVE_FILES = """
    CODEOWNERS .gitlab/CODEOWNERS docs/CODEOWNERS .husky/pre-commit web/.husky/_/husky.sh
    .githooks/pre-push .pre-commit-config.yaml lefthook.yml .vscode/tasks.json .envrc
    .claude/settings.json sub/.claude/commands/x.md CLAUDE.md sub/CLAUDE.md AGENTS.md
    .codex/config.toml .mcp.json .cursorrules .cursor/rules/a.mdc .github/copilot-instructions.md
    GEMINI.md .gitlab/duo/chat-rules.md nightshift.yaml src/auth/login.py auth.py lib/oauth2/flow.rb
    app/permissions.py src/jwt_tools.py Dockerfile docker/Dockerfile.prod web.dockerfile
    docker-compose.yml infra/main.tf k8s/deploy.yaml helm/values.yaml kustomization.yaml ansible.cfg
    .env .env.production conf/local.env certs/server.pem id_rsa keys/id_ed25519.pub .npmrc
    secrets/db.yml config/credentials.yml.enc .gitattributes sub/.gitattributes .lfsconfig
    Jenkinsfile .github/workflows/ci.yml .circleci/config.yml .gitlab/agents/prod/config.yaml
    """.split()


@each("path", SENSITIVE_FILES)
def test_sensitive_files_open_as_a_draft_in_any_case(path: str) -> None:
    for spelled in (path, path.upper()):
        assert decided(spelled) == "draft"
        assert violations(spelled) == ()


ORDINARY = """
    src/author.py src/authors/list.py docs/authentication.md tests/test_auth.py src/auth.test.ts
    src/environment.py src/hooks/useCart.ts id_generator.py src/charts/bar.ts monkey.py README.md
    ci/readme.txt src/secretary.py dockerfile_parser/x.py claude.py web/app.yaml
    """.split()


@each("path", ORDINARY)
def test_what_only_sounds_sensitive(path: str) -> None:
    assert decided(path) == "allow"


@each("path", ["package.json", "uv.lock", ".gitmodules"])
def test_dependency_files_are_denied_whatever_the_gate_says(path: str) -> None:
    assert violations(path, policy={"gates": {"write": "auto_allow"}}) != ()


@each(
    ("gate", "inside", "outside", "sensitive", "pipeline"),
    [
        ("auto_allow", "allow", "allow", "draft", "require_approval"),
        ("require_approval", "allow", "require_approval", "require_approval", "require_approval"),
        ("deny", "allow", "deny", "deny", "deny"),
    ],
)
def test_gate_decides_outside_the_writable_paths_and_never_lowers(
    gate: str, inside: str, outside: str, sensitive: str, pipeline: str
) -> None:
    policy: dict[str, Any] = {
        "gates": {"write": gate},
        "writable_paths": ["src/", ".gitlab-ci.yml", "Dockerfile"],
    }
    paths = ("src/a.py", "lib/a.py", "Dockerfile", ".gitlab-ci.yml")
    assert [decided(path, **policy) for path in paths] == [inside, outside, sensitive, pipeline]
    denied = [path for path in paths if violations(path, policy=policy)]
    assert denied == (["lib/a.py", "Dockerfile", ".gitlab-ci.yml"] if gate == "deny" else [])


def test_a_denied_file_is_a_violation() -> None:
    policy = {"gates": {"write": "deny"}, "writable_paths": ["src/"]}
    assert violations("lib/a.py", policy=policy) == ("lib/a.py is outside policy.writable_paths.",)


def test_own_sensitive_paths_and_own_prompts() -> None:
    assert decided("billing/tax.py", sensitive_paths=["billing/"]) == "draft"
    assert decided("billing/tax.py", sensitive_paths=["tax"]) == "allow"
    own = build_settings({"prompts": {"verify": "./prompts/verify.md"}})
    [sentences] = list_gated_files(change_of("prompts/verify.md", "prompts/other.md"), own, "")
    assert str(sentences) == "prompts/verify.md is a prompt of this night shift."


def test_files_to_approve_are_one_line() -> None:
    paths = tuple(f".gitlab/ci/{n}.yml" for n in range(7))
    gates = list_gated_files(change_of(*paths, "Dockerfile"), Settings(), "")
    text = describe_approvals(gates)
    assert "\n" not in text
    assert text.startswith(".gitlab/ci/0.yml is pipeline configuration, which GitLab runs before")
    assert text.endswith("; and 2 more files")
    assert "Dockerfile" not in text
    assert describe_approvals(list_gated_files(change_of("Dockerfile"), Settings(), "")) == ""


# --- what GitLab reads as configuration -----------------------------------------------------------


def read_from(files: dict[str, str], first: str = ".gitlab-ci.yml") -> CiFiles:
    def read(path: str) -> bytes | None:
        return files[path].encode() if path in files else None

    return follow_includes(first, lambda: files, read)


@each(
    ("include", "path", "read"),
    [
        ("include: ci/a.yml", "ci/a.yml", True),
        ("include: /ci/a.yml", "ci/a.yml", True),
        ("include: [ci/a.yml, /ci/b.yml]", "ci/b.yml", True),
        ("include: {local: ci/a.yml}", "ci/a.yml", True),
        ("include: [{local: /ci/a.yml, rules: [{if: $X}]}]", "ci/a.yml", True),
        ("include: [{local: ci/a.yml, inputs: {x: 1}}]", "ci/b.yml", False),
        ("include: {local: ci/*.yml}", "ci/new.yml", True),
        ("include: {local: ci/*.yml}", "ci/sub/new.yml", False),
        ("include: {local: 'ci/**.yml'}", "ci/sub/new.yml", True),
        ("include: {local: 'ci/**/*.yml'}", "ci/sub/new.yml", True),
        ("include: {local: ci/$NAME.yml}", "ci/any/thing.yml", True),
        ("include: {local: 'ci/${NAME}.yml'}", "ci/x.yml", True),
        ("include: {local: 'ci/$[[ inputs.name ]].yml'}", "ci/x.yml", True),
        ("include: {local: 'ci/a.yml'}", "ci/aXyml", False),
        ("include: {project: group/other, file: /ci/a.yml, ref: v1}", "ci/a.yml", True),
        ("include: {project: $CI_PROJECT_PATH, file: [ci/a.yml, ci/b.yml]}", "ci/b.yml", True),
        (
            "include: {component: $CI_SERVER_FQDN/$CI_PROJECT_PATH/x@$CI_COMMIT_SHA}",
            "templates/x.yml",
            True,
        ),
        ("include: {component: gitlab.com/other/thing/x@1}", "templates/x.yml", False),
        ("include: https://example.com/ci/a.yml", "ci/a.yml", False),
        ("include: {remote: https://example.com/ci/a.yml}", "ci/a.yml", False),
        ("include: {template: Security/SAST.gitlab-ci.yml}", "ci/a.yml", False),
        ("child: {trigger: {include: ci/a.yml}}", "ci/a.yml", True),
        ("child: {trigger: {include: [{local: ci/a.yml}]}}", "ci/a.yml", True),
        ("child: {trigger: {include: [{artifact: a.yml, job: x}]}}", "a.yml", False),
        ("child: {trigger: group/other}", "group/other", False),
        ("spec: {inputs: {x: {}}}\n---\ninclude: ci/a.yml", "ci/a.yml", True),
        ("spec: {include: [{local: ci/a.yml}]}\n---\nx: {}", "ci/a.yml", True),
        ("x: !reference [a, b]\ninclude: ci/a.yml", "ci/a.yml", True),
        ("x: {y:\tz}\ninclude:\tci/a.yml", "ci/a.yml", True),
        ("x: {y:\tz}\ninclude:\tci/a.yml", "ci/b.yml", False),
        ("a: [1\n", "any/thing.yaml", True),
        ("a: [1\n", "any/thing.txt", False),
        ("- a list", "ci/a.yml", False),
        ("", "ci/a.yml", False),
    ],
)
def test_local_includes(include: str, path: str, read: bool) -> None:
    assert read_from({".gitlab-ci.yml": include}).contains(path) is read


def test_includes_of_includes() -> None:
    files = {
        "ci/main.yml": "include: /ci/*.part.yml",
        "ci/b.part.yml": "include: [deep/c.yml, ci/main.yml, gone.yml]",
        "deep/c.yml": "child: {trigger: {include: child.yml}}",
        "child.yml": "{}",
        ".gitlab-ci.yml": "include: never.yml",
    }
    read = read_from(files, "ci/main.yml")
    reached = ("ci/main.yml", "ci/b.part.yml", "ci/new.part.yml", "deep/c.yml", "child.yml")
    assert all(read.contains(path) for path in (*reached, "gone.yml"))
    assert not any(map(read.contains, ("never.yml", ".gitlab-ci.yml", "deep/d.yml", "")))
    assert decided("child.yml", "ci/main.yml", read) == "require_approval"


def test_more_includes_than_gitlab_takes_are_every_yaml_file() -> None:
    many = {f"ci/{n}.yml": f"include: ci/{n + 1}.yml" for n in range(200)}
    read = read_from(many, "ci/0.yml")
    assert read.contains("some/other.yaml")
    assert not read.contains("some/other.py")


def test_a_configuration_too_large_when_written_out_is_every_yaml_file() -> None:
    names = "abcdefghijk"
    lines = [f"{b}: &{b} {{<<: [{', '.join([f'*{a}'] * 9)}]}}" for a, b in pairwise(names)]
    read = read_from({".gitlab-ci.yml": "\n".join(["a: &a {x: 1}", *lines])})
    assert read.contains("some/other.yaml")


def test_without_a_configuration_nothing_more_is_read() -> None:
    assert not read_from({}).contains("a.yml")
    assert not NO_INCLUDES.contains("")


def test_recent_files_are_left_alone_by_their_whole_path() -> None:
    assert violations("a.py", "src/b.py", recent=("src/a.py", "b.py")) == ()
    assert violations("src/a.py", recent=("src/a.py",)) == (
        "src/a.py was changed by a recent commit: leave it alone.",
    )


def test_no_pattern_matches_nothing() -> None:
    assert not matches("a", ())
