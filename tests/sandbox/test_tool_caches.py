"""The download caches of build tools are opened, but no secrets beside them."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from gitlab_nightshift.sandbox.visible_home import find_tool_caches
from gitlab_nightshift.settings.load import build_settings
from gitlab_nightshift.stages.work.tool_access import add_tool_caches

FOLDERS = (
    *("go/pkg/mod/cache", ".cargo/registry", ".cargo/bin", ".rustup/toolchains"),
    *(".m2/repository/x", ".npm/_cacache", ".npm/_logs", ".cache/node/corepack", ".cache/pip"),
)
SECRETS = (".cargo/credentials.toml", ".m2/settings.xml", ".npmrc", ".config/pip/pip.conf")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    for name in FOLDERS:
        (made / name).mkdir(parents=True)
    for name in SECRETS:
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text("token")
    return made


def find(home: Path, **env: str) -> tuple[Mapping[str, str], list[str]]:
    found = find_tool_caches(env, home, home.parent / "shop")
    return found.variables, [str(folder) for folder in found.folders]


def test_each_cache_is_found_below_home_and_named_by_its_variable(home: Path) -> None:
    variables, folders = find(home)
    assert variables == {
        "GOMODCACHE": f"{home}/go/pkg/mod",
        "GODEBUG": "goindex=0",
        "CARGO_HOME": f"{home}/.cargo",
        "RUSTUP_HOME": f"{home}/.rustup",
        "MAVEN_OPTS": f"-Dmaven.repo.local={home}/.m2/repository",
        "npm_config_cache": f"{home}/.npm",
        "COREPACK_HOME": f"{home}/.cache/node/corepack",
        "COREPACK_DEFAULT_TO_LATEST": "0",
        "PIP_CACHE_DIR": f"{home}/.cache/pip",
    }
    opened = ("go/pkg/mod", ".cargo/registry", ".cargo/bin", ".rustup", ".m2/repository")
    more = (".npm/_cacache", ".cache/node/corepack", ".cache/pip")
    assert folders == [f"{home}/{name}" for name in (*opened, *more)]
    secrets = [home / name for name in SECRETS]
    assert not [s for s in secrets for folder in folders if s.is_relative_to(folder)]


def test_the_jobs_variables_name_other_folders(home: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "caches"
    for name in ("mod", "gopath/pkg/mod", "m2"):
        (elsewhere / name).mkdir(parents=True)
    variables, folders = find(
        home,
        GOMODCACHE=f"{elsewhere}/mod",
        GOPATH=f"{elsewhere}/gopath",
        MAVEN_OPTS=f"-Xmx1g -Dmaven.repo.local={elsewhere}/m2 -Dtoken=secret",
    )
    assert variables["GOMODCACHE"] == f"{elsewhere}/mod"
    assert variables["MAVEN_OPTS"] == f"-Dmaven.repo.local={elsewhere}/m2", "and nothing else of it"
    assert {f"{elsewhere}/mod", f"{elsewhere}/m2"} <= set(folders)
    assert find(home, GOPATH=f"{elsewhere}/gopath:/other")[0]["GOMODCACHE"] == (
        f"{elsewhere}/gopath/pkg/mod"
    )


def test_missing_caches_set_no_variable(tmp_path: Path) -> None:
    assert find(tmp_path / "home", GOMODCACHE="/nonexistent", CARGO_HOME="relative") == ({}, [])


@pytest.mark.parametrize(
    "place", ["/", "{home}", "{parent}", "{parent}/shop", "{parent}/shop.tmp", "{home}/.ssh/go"]
)
def test_a_variable_opens_no_folder_with_more_than_downloads(home: Path, place: str) -> None:
    """A wrong variable of the job does not open the job's secrets."""
    for folder in (home / ".ssh/go", home.parent / "shop.tmp", home.parent / "shop"):
        folder.mkdir(parents=True)
    named = place.format(home=home, parent=home.parent)
    variables, folders = find(home, GOMODCACHE=named, PIP_CACHE_DIR=named, RUSTUP_HOME=named)
    assert not {"GOMODCACHE", "PIP_CACHE_DIR", "RUSTUP_HOME"} & variables.keys()
    assert named not in folders


def test_a_link_opens_no_more_than_what_it_leads_to(home: Path) -> None:
    shutil.rmtree(home / ".cache/pip")
    (home / ".cache/pip").symlink_to(home)
    shutil.rmtree(home / "go/pkg/mod")
    (home / "go/pkg/mod").symlink_to(home / ".m2")
    variables, _ = find(home)
    assert not {"PIP_CACHE_DIR", "GOMODCACHE"} & variables.keys()


def test_a_cache_in_the_checkout_is_named_and_needs_no_opening(home: Path, tmp_path: Path) -> None:
    inside = tmp_path / "shop/.cache/pip"
    inside.mkdir(parents=True)
    variables, folders = find(home, PIP_CACHE_DIR=str(inside))
    assert variables["PIP_CACHE_DIR"] == str(inside)
    assert not [folder for folder in folders if folder.startswith(str(tmp_path / "shop"))]


def test_variables_that_the_settings_name_are_unchanged(home: Path, tmp_path: Path) -> None:
    own = build_settings({"agent_env": ["GOMODCACHE"], "agent_paths": [f"{home}/.rustup"]})
    env = {"GOMODCACHE": "/opt/gomod", "CI": "true"}
    settings, given = add_tool_caches(own, env, home, tmp_path / "shop")
    assert given["GOMODCACHE"] == "/opt/gomod"
    assert given["CARGO_HOME"] == f"{home}/.cargo"
    assert settings.agent_env[:2] == ["GOMODCACHE", "CARGO_HOME"]
    assert settings.agent_paths.count(f"{home}/.rustup") == 1
