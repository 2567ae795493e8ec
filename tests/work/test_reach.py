"""What ``agent_paths`` opens and refuses, and which programs would not be seen inside."""

import stat
from collections.abc import Mapping
from pathlib import Path

import pytest

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.events import Event, Note
from gitlab_nightshift.settings import Settings, load_settings
from gitlab_nightshift.work.reach import Ground, Inside, check_reach, tool_folders


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    made = Ground(tmp_path / "home", tmp_path / "builds" / "shop", tmp_path / "tmp" / "own")
    for folder in (made.home / ".m2" / "repository", made.checkout / "bin", made.private):
        folder.mkdir(parents=True)
    return made


def settings(**values: str) -> Settings:
    return load_settings({f"NIGHTSHIFT_{name.upper()}": value for name, value in values.items()})


def opened(ground: Ground, path: str, env: Mapping[str, str] | None = None) -> list[str]:
    found = tool_folders(settings(agent_paths=path, agent_env="JDK"), env or {}, ground)
    return [str(place) for place in found]


def refusal(ground: Ground, path: str) -> str:
    with pytest.raises(NightshiftError) as caught:
        opened(ground, path)
    assert caught.value.code is Code.CONFIG
    assert "\n" not in caught.value.message
    return caught.value.message


def test_home_variables_and_links(ground: Ground) -> None:
    jdk, current = ground.home / ".jdks" / "17", ground.home / ".jdks" / "current"
    jdk.mkdir(parents=True)
    current.symlink_to("17")
    repository = str(ground.home / ".m2" / "repository")
    assert opened(ground, "~/.m2/repository") == [repository]
    assert opened(ground, "$HOME/.m2/repository,~/.m2/repository") == [repository]
    assert opened(ground, "$JDK", {"JDK": str(current)}) == [str(current), str(jdk)]
    assert opened(ground, "${CI_PROJECT_DIR}/bin") == [str(ground.checkout / "bin")]
    assert opened(ground, "bin") == [str(ground.checkout / "bin")]
    assert opened(ground, "/usr/share") == ["/usr/share"]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("~/nowhere", "home/nowhere is not there"),
        ("$JDK", "JDK is not set, or agent_env does not name it"),
        ("$PATH", "PATH is not set, or agent_env does not name it"),
        ("/opt/$", "a $ that begins no variable"),
        *((path, "/home") for path in ("/", "~", "~/", "$HOME", "~/../home")),
        *((path, "shop.tmp") for path in ("..", "$CI_PROJECT_DIR/..")),
        ("../../tmp", "/own"),
        ("/etc", "/etc/shadow"),
        ("/var", "/var/run/docker.sock"),
        ("/proc/self", "/proc"),
        ("/dev/shm", "/dev"),
    ],
)
def test_what_is_refused_by_name(ground: Ground, path: str, why: str) -> None:
    message = refusal(ground, path)
    assert message.startswith(f"agent_paths: {path}: ")
    assert why in message


def test_a_folder_with_credentials_is_refused_and_one_below_it_is_not(ground: Ground) -> None:
    assert opened(ground, "~/.m2") == [str(ground.home / ".m2")]
    (ground.home / ".m2" / "settings.xml").write_text("<password>")
    assert ".m2/settings.xml; name a folder that holds only tools" in refusal(ground, "~/.m2")
    assert opened(ground, "~/.m2/repository") == [str(ground.home / ".m2" / "repository")]
    (ground.home / ".ssh" / "keys").mkdir(parents=True)
    assert ".ssh" in refusal(ground, "~/.ssh/keys")
    (ground.home / "link").symlink_to(".ssh")
    assert ".ssh" in refusal(ground, "~/link")


def program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def reach(ground: Ground, command: str, path: str, env: Mapping[str, str] | None = None) -> str:
    """What is told: the refusal, or the warnings; "" for nothing."""
    told: list[Event] = []
    system = ("/bin", "/usr")
    inside = Inside("/usr/bin:/bin", lambda p: any(p.is_relative_to(s) for s in system), ground)
    try:
        asked = settings(verify_commands=command, agent_env="JDK")
        check_reach(asked, env or {}, path, inside, told.append)
    except NightshiftError as error:
        return error.message
    return "\n".join(event.text for event in told if isinstance(event, Note))


def test_programs_that_are_there(ground: Ground) -> None:
    program(ground.checkout / "bin" / "run")
    for command in ("sh -c true", "bin/run x", "./bin/run", "/bin/sh", "nowhere", "bin/none"):
        assert reach(ground, command, "/usr/bin:/bin") == ""


def test_a_hidden_program_is_told_with_its_folder(ground: Ground) -> None:
    tools = ground.home / ".nvm" / "v20" / "bin"
    node = program(tools / "node-20")
    said = reach(ground, "node-20 --test", f"{tools}:/usr/bin")
    assert said.startswith(
        f"verify_commands: node-20 needs {node}, which the sandbox does not open"
    )
    assert f"add {tools.parent} to agent_paths" in said
    rustup = program(ground.home / ".cargo" / "bin" / "rustup")
    (rustup.parent / "cargo-up").symlink_to("rustup")
    assert f"add {rustup.parent} to" in reach(ground, "cargo-up test", f"{rustup.parent}:/bin")
    own = program(ground.home / "bin" / "own-lint")
    assert f"add {own.parent} to" in reach(ground, "own-lint", f"{own.parent}:/bin")
    (ground.home / "bin" / "sh2").symlink_to("/bin/sh")
    assert f"add {own.parent} to" in reach(ground, "sh2", f"{own.parent}:/bin")


def test_so_is_a_hidden_interpreter(ground: Ground) -> None:
    python = program(ground.home / "uv" / "cpython" / "bin" / "python3.12", "")
    inner = ground.checkout / ".venv" / "bin" / "python"
    inner.parent.mkdir(parents=True)
    inner.symlink_to(python)
    program(inner.parent / "pytest", f"#!{inner}\n")
    for command in (".venv/bin/python -m pytest", ".venv/bin/pytest -q"):
        said = reach(ground, command, "/bin")
        assert f"needs {python}" in said
        assert f"add {python.parents[1]} to agent_paths" in said
    program(ground.checkout / "bin" / "lint", "#!/usr/bin/env -S FOO=1 python3.12 -u\n")
    assert f"needs {python}" in reach(ground, "bin/lint", f"{python.parent}:/bin")


def test_a_variable_that_leads_nowhere_is_told(ground: Ground) -> None:
    jdk = ground.home / ".jdks"
    jdk.mkdir()
    assert reach(ground, "true", "/bin", {"JDK": str(jdk)}).startswith(f"JDK names {jdk}, which")
    for value in ("/usr/bin", str(ground.checkout / "bin"), "/nowhere", "-Xmx1g", ""):
        assert reach(ground, "true", "/bin", {"JDK": value}) == ""
