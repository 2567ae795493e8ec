"""How tests get their dependencies, on a person's machine and at night."""

from pathlib import Path

import pytest

from gitlab_nightshift.onboarding.build_stacks import (
    complete_command,
    find_stacks,
    find_trial_environment,
    list_installs,
)
from gitlab_nightshift.onboarding.found_project import find_environment
from gitlab_nightshift.onboarding.project_files import TriedCommand, render_settings
from gitlab_nightshift.proof.implied_commands import RepositoryFiles, find_test_commands


def build(texts: dict[str, str], *installed: str) -> RepositoryFiles:
    return RepositoryFiles(
        tuple(texts), lambda name: texts[name].encode(), lambda path: path in installed
    )


def test_maven_finds_its_local_repository(tmp_path: Path) -> None:
    files, env = build({"pom.xml": ""}), {"HOME": str(tmp_path)}
    stacks = find_stacks(files)
    [command] = (complete_command(each, stacks) for each in find_test_commands(files))
    assert command == "mvn -B -o -Dmaven.repo.local=/opt/m2 test"
    assert complete_command("make test", stacks) == "make test"
    for local, more in (
        (".m2/repository", {}),
        ("m2", {"MAVEN_OPTS": f"-Dmaven.repo.local={tmp_path}/m2"}),
    ):
        (tmp_path / local).mkdir(parents=True)
        trial = find_trial_environment(stacks, {**env, **more}, tmp_path / "shop", files)
        local_command = f"mvn -B -o -Dmaven.repo.local={tmp_path}/{local} test"
        assert trial.use_local_paths(command) == local_command
    assert "-Dmaven.repo.local=/opt/m2 " in find_environment({}, files, (command,)).fetch


def test_a_trial_has_the_variables_of_a_night_that_are_no_paths(tmp_path: Path) -> None:
    files = build({"go.mod": "", "Cargo.toml": ""})
    stacks = find_stacks(files)
    trial = find_trial_environment(stacks, {"HOME": str(tmp_path)}, tmp_path / "shop", files)
    assert (trial.folders, dict(trial.variables)) == ((), {"GODEBUG": "goindex=0"})
    text = render_settings([TriedCommand("go test ./...", 1.0)], "", stacks[0].agent_env)
    assert "\nagent_env: [GOCACHE, GOMODCACHE, GODEBUG]\n" in text


def test_a_before_script_is_reused_besides_what_a_night_fetches() -> None:
    config = {"test": {"before_script": ["apt-get update"], "script": ["go test ./..."]}}
    files = build({"go.mod": "", "package-lock.json": ""})
    environment = find_environment(config, files, ("go test ./...",))
    reference, fetch = environment.prepare
    assert reference == "!reference [test, before_script]"
    assert fetch.startswith("go mod download")
    assert ("GOMODCACHE", "/opt/gomod") in environment.variables

    files = build({"requirements.txt": "pytest", "pnpm-lock.yaml": "", "test_a.py": ""})
    config = {"test": {"before_script": ["pip install tox"], "script": ["pytest"]}}
    _, fetch = find_environment(config, files, ()).prepare
    assert fetch == "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt"


LOCKED = """\
[project]
name = "shop"
[project.optional-dependencies]
dev = ["pytest"]
"""
GROUPS = """\
[dependency-groups]
lint = ["ruff"]
Test = ["pytest", {include-group = "lint"}]
"""


BUN = '{"scripts": {"test": "bun test"}, "dependencies": {"ms": "2"}}'
PYTEST = {"tests/conftest.py": ""}
JOBS = (
    "lint:\n  script:\n    - pip install ruff\n    - ruff check\n"
    "unit:\n  script:\n    - pip install --upgrade pip\n"
    "    - pip install -r requirements.txt pytest==8 # as on the laptop\n    - pytest -q\n"
)


@pytest.mark.parametrize(
    ("texts", "installed", "command", "fetch", "local_fetch"),
    [
        (
            {"requirements.txt": "x", "requirements-dev.txt": "pytest", "test_a.py": ""},
            (),
            ".venv/bin/python -m pytest",
            "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt"
            " -r requirements-dev.txt",
            "",
        ),
        (
            {"pyproject.toml": LOCKED, "test_a.py": ""},
            ("venv/bin/python",),
            "venv/bin/python -m pytest",
            "python3 -m venv venv && venv/bin/pip install -e '.[dev]'",
            "",
        ),
        (
            {"requirements.txt": "x", "Makefile": "test:\n\tpython3 -m pytest\n"},
            (),
            "make test",
            "pip install -r requirements.txt",
            "",
        ),
        (
            {"uv.lock": "", "pyproject.toml": LOCKED, "test_a.py": ""},
            (),
            ".venv/bin/python -m pytest",
            "pip install uv && python3 -m uv sync --frozen --extra dev",
            "uv sync --frozen --extra dev",
        ),
        (
            {"uv.lock": "", "pyproject.toml": GROUPS, "test_a.py": ""},
            (),
            ".venv/bin/python -m pytest",
            "pip install uv && python3 -m uv sync --frozen --group Test",
            "uv sync --frozen --group Test",
        ),
        (
            {"pyproject.toml": f'[project]\nname = "shop"\n{GROUPS}', "test_a.py": ""},
            (),
            ".venv/bin/python -m pytest",
            "python3 -m venv .venv && .venv/bin/pip install --upgrade 'pip>=25.1'"
            " && .venv/bin/pip install -e . --group Test",
            "",
        ),
        (
            {"pyproject.toml": GROUPS, "Makefile": "test:\n\tpytest\n", "test_a.py": ""},
            (),
            "make test",
            "pip install --upgrade 'pip>=25.1' && pip install --group Test",
            "",
        ),
        (
            {"requirements.txt": "x", "pyproject.toml": GROUPS, "test_a.py": ""},
            (),
            ".venv/bin/python -m pytest",
            "python3 -m venv .venv && .venv/bin/pip install --upgrade 'pip>=25.1'"
            " && .venv/bin/pip install -r requirements.txt --group Test",
            "",
        ),
        (
            {"pyproject.toml": '[dependency-groups]\nlint = ["ruff"]\n', "test_a.py": ""},
            (),
            "python3 -m unittest",
            "",
            "",
        ),
        (
            {"poetry.lock": "", "pyproject.toml": "[tool.poetry]", "tests/test_a.py": "", **PYTEST},
            (),
            ".venv/bin/python -m pytest",
            "pip install poetry && python3 -m venv .venv"
            " && POETRY_VIRTUALENVS_IN_PROJECT=1 python3 -m poetry install",
            "python3 -m venv .venv && POETRY_VIRTUALENVS_IN_PROJECT=1 poetry install",
        ),
        (
            {"pyproject.toml": "[tool.ruff]", "test_a.py": ""},
            (),
            "python3 -m unittest",
            "",
            "",
        ),
        (
            {"requirements.txt": "requests", "test_a.py": "", ".gitlab-ci.yml": JOBS},
            (),
            ".venv/bin/python -m pytest",
            "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt pytest==8",
            "",
        ),
        (
            {"yarn.lock": "__metadata:\n", "package.json": '{"scripts": {"test": "jest"}}'},
            (),
            "yarn test",
            "corepack enable && yarn install --immutable",
            "yarn install --immutable",
        ),
        *(
            (
                {lock: "", "package-lock.json": "", "package.json": BUN},
                (),
                "bun run test",
                "(command -v bun || npm install --global bun) && bun install --frozen-lockfile",
                "bun install --frozen-lockfile",
            )
            for lock in ("bun.lock", "bun.lockb")
        ),
        (
            {"package.json": '{"scripts": {"test": "jest"}, "devDependencies": {"jest": "29"}}'},
            (),
            "npm test",
            "npm install --no-package-lock",
            "npm install",
        ),
        ({"package.json": '{"scripts": {"test": "node --test"}}'}, (), "npm test", "", ""),
    ],
)
def test_fetch_and_test_command_fit_together(
    texts: dict[str, str], installed: tuple[str, ...], command: str, fetch: str, local_fetch: str
) -> None:
    files = build(texts, *installed)
    stacks = find_stacks(files)
    assert [complete_command(each, stacks) for each in find_test_commands(files)] == [command]
    assert find_environment({}, files, (command,)).fetch == fetch
    assert list_installs(stacks) == tuple(filter(None, [local_fetch or fetch]))


def test_a_missing_interpreter_is_replaced_in_a_trial(tmp_path: Path) -> None:
    texts = {"requirements.txt": "pytest", "test_a.py": ""}
    command = ".venv/bin/python -m pytest"
    for installed, expected in ((), "python3 -m pytest"), ((".venv/bin/python",), command):
        files = build(texts, *installed)
        trial = find_trial_environment(find_stacks(files), {}, tmp_path, files)
        assert trial.use_local_paths(command) == expected


def test_composer_may_run_scripts_as_root() -> None:
    files = build({"composer.json": '{"scripts": {"test": "phpunit"}}'})
    [stack] = find_stacks(files)
    assert find_test_commands(files) == ("composer test",)
    assert dict(stack.variables) == {"COMPOSER_ALLOW_SUPERUSER": "1"}
    assert stack.agent_env == tuple(stack.variables)


def test_corepack_has_its_cache_outside_home() -> None:
    """The sandbox has another HOME, in which corepack would ask the network for pnpm."""
    [stack] = find_stacks(build({"pnpm-lock.yaml": ""}))
    assert stack.variables["COREPACK_HOME"].startswith("/opt/")
    assert set(stack.agent_env) == set(stack.variables)
