"""How dependencies get to where tests run, on a person's machine and at night."""

from pathlib import Path

from gitlab_nightshift.onboarding.build_stacks import (
    complete_command,
    find_stacks,
    find_trial_place,
)
from gitlab_nightshift.onboarding.found_project import find_environment
from gitlab_nightshift.onboarding.settings_file import TriedCommand, write_settings
from gitlab_nightshift.verdict.implied_commands import BuildFiles, find_test_commands


def build(*files: str) -> BuildFiles:
    return BuildFiles(files, lambda _name: None)


def test_maven_finds_its_repository_in_both_places(tmp_path: Path) -> None:
    there = build("pom.xml")
    stacks = find_stacks(there)
    [command] = (complete_command(each, stacks) for each in find_test_commands(there))
    assert command == "mvn -B -o -Dmaven.repo.local=/opt/m2 test"
    assert complete_command("make test", stacks) == "make test"
    (tmp_path / ".m2/repository").mkdir(parents=True)
    place = find_trial_place(stacks, tmp_path)
    assert place.folders == (f"{tmp_path}/.m2/repository",)
    assert place.move(command) == f"mvn -B -o -Dmaven.repo.local={tmp_path}/.m2/repository test"
    assert "-Dmaven.repo.local=/opt/m2 " in find_environment({}, there, (command,)).fetch


def test_variables_name_what_is_there_and_no_credentials_are_opened(tmp_path: Path) -> None:
    stacks = find_stacks(build("go.mod", "Cargo.toml"))
    bare = find_trial_place(stacks, tmp_path)
    assert (bare.folders, dict(bare.variables)) == ((), {"GODEBUG": "goindex=0"})
    for name in ("go/pkg/mod", ".cargo/registry"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / ".cargo/credentials.toml").write_text("token")
    place = find_trial_place(stacks, tmp_path)
    assert place.folders == (f"{tmp_path}/go/pkg/mod", f"{tmp_path}/.cargo/registry")
    assert place.variables["CARGO_HOME"] == f"{tmp_path}/.cargo"
    assert "GOCACHE" not in place.variables and "RUSTUP_HOME" not in place.variables
    text = write_settings([TriedCommand("go test ./...", 1.0)], "", stacks[0].agent_env)
    assert "\nagent_env: [GOCACHE, GOMODCACHE, GODEBUG]\n" in text


def test_the_jobs_own_preparation_is_kept_beside_what_is_elsewhere() -> None:
    config = {"test": {"before_script": ["apt-get update"], "script": ["go test ./..."]}}
    found = find_environment(config, build("go.mod", "package-lock.json"), ("go test ./...",))
    first, *rest = found.prepare
    assert first == "!reference [test, before_script]"
    assert len(rest) == 1 and rest[0].startswith("go mod download")
    assert ("GOMODCACHE", "/opt/gomod") in found.variables
