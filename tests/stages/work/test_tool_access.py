"""What ``agent_paths`` exposes and refuses, and which programs would not be found inside."""

import stat
from collections.abc import Mapping
from pathlib import Path

import pytest

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.records.events import Event, Note
from gitlab_nightshift.repository.git import build_isolated_git
from gitlab_nightshift.settings.load import load_settings
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.stages.work.tool_access import (
    JobFolders,
    SandboxView,
    add_linked_tools,
    check_tool_access,
    find_program_folders,
    find_tool_folders,
)
from gitlab_nightshift.system.environment import build_search_path
from tests.repository.tools import repository
from tests.sandbox.tools import SYSTEM_PATH


@pytest.fixture
def job_folders(tmp_path: Path) -> JobFolders:
    made = JobFolders(tmp_path / "home", tmp_path / "builds" / "shop", tmp_path / "tmp" / "own")
    for folder in (made.home / ".m2" / "repository", made.checkout / "bin", made.private):
        folder.mkdir(parents=True)
    return made


def settings(**values: str) -> Settings:
    return load_settings({f"NIGHTSHIFT_{name.upper()}": value for name, value in values.items()})


def paths(job_folders: JobFolders, path: str, env: Mapping[str, str] | None = None) -> list[str]:
    tools = find_tool_folders(settings(agent_paths=path, agent_env="JDK"), env or {}, job_folders)
    return [str(tool) for tool in tools]


def refusal(job_folders: JobFolders, path: str) -> str:
    with pytest.raises(NightshiftError) as caught:
        paths(job_folders, path)
    assert caught.value.code is Code.CONFIG
    assert "\n" not in caught.value.message
    return caught.value.message


def test_agent_paths_may_have_the_home_variables_and_links(job_folders: JobFolders) -> None:
    jdk, current = job_folders.home / ".jdks" / "17", job_folders.home / ".jdks" / "current"
    jdk.mkdir(parents=True)
    current.symlink_to("17")
    repository = str(job_folders.home / ".m2" / "repository")
    assert paths(job_folders, "~/.m2/repository") == [repository]
    assert paths(job_folders, "$HOME/.m2/repository,~/.m2/repository") == [repository]
    assert paths(job_folders, "$JDK", {"JDK": str(current)}) == [str(current), str(jdk)]
    assert paths(job_folders, "${CI_PROJECT_DIR}/bin") == [str(job_folders.checkout / "bin")]
    assert paths(job_folders, "bin") == [str(job_folders.checkout / "bin")]
    assert paths(job_folders, "/usr/share") == ["/usr/share"]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("~/nowhere", "home/nowhere does not exist"),
        ("$JDK", "JDK is not set, or agent_env does not name it"),
        ("$PATH", "PATH is not set, or agent_env does not name it"),
        ("/opt/$", "a $ that does not begin a variable"),
        *((path, "/home") for path in ("/", "~", "~/", "$HOME", "~/../home")),
        *((path, "shop.tmp") for path in ("..", "$CI_PROJECT_DIR/..")),
        ("../../tmp", "/own"),
        ("/etc", "/etc/shadow"),
        ("/var", "/var/run/docker.sock"),
        ("/proc/self", "/proc"),
        ("/dev/shm", "/dev"),
    ],
)
def test_agent_paths_that_are_refused(job_folders: JobFolders, path: str, why: str) -> None:
    message = refusal(job_folders, path)
    assert message.startswith(f"agent_paths: {path}: ")
    assert why in message


def test_a_folder_with_credentials_is_refused_and_one_below_it_is_not(
    job_folders: JobFolders,
) -> None:
    assert paths(job_folders, "~/.m2") == [str(job_folders.home / ".m2")]
    (job_folders.home / ".m2" / "settings.xml").write_text("<password>")
    assert ".m2/settings.xml; name a folder that holds only tools" in refusal(job_folders, "~/.m2")
    assert paths(job_folders, "~/.m2/repository") == [str(job_folders.home / ".m2" / "repository")]
    (job_folders.home / ".ssh" / "keys").mkdir(parents=True)
    assert ".ssh" in refusal(job_folders, "~/.ssh/keys")
    (job_folders.home / "link").symlink_to(".ssh")
    assert ".ssh" in refusal(job_folders, "~/link")


def program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def problem(
    job_folders: JobFolders,
    command: str,
    path: str,
    env: Mapping[str, str] | None = None,
    *,
    implied: bool = False,
) -> str:
    """The refusal or the warnings; "" for none."""
    events: list[Event] = []
    system = ("/bin", "/usr")
    inside = SandboxView(
        "/usr/bin:/bin", lambda p: any(p.is_relative_to(s) for s in system), job_folders
    )
    try:
        asked = settings(verify_commands="" if implied else command, agent_env="JDK")
        check_tool_access(asked, [command], env or {}, path, inside, events.append)
    except NightshiftError as error:
        return error.message
    return "\n".join(event.text for event in events if isinstance(event, Note))


def test_readable_and_missing_programs_are_no_problem(job_folders: JobFolders) -> None:
    program(job_folders.checkout / "bin" / "run")
    for command in ("sh -c true", "bin/run x", "./bin/run", "/bin/sh", "nowhere", "bin/none"):
        assert problem(job_folders, command, "/usr/bin:/bin") == ""


def test_a_hidden_program_is_reported_with_its_folder(job_folders: JobFolders) -> None:
    tools = job_folders.home / ".nvm" / "v20" / "bin"
    node = program(tools / "node-20")
    said = problem(job_folders, "node-20 --test", f"{tools}:/usr/bin")
    assert said.startswith(f"verify_commands: node-20 needs {node}, which is hidden in the sandbox")
    assert f"add {tools.parent} to agent_paths" in said
    implied = problem(job_folders, "node-20 --test", f"{tools}:/usr/bin", implied=True)
    assert implied == f"`node-20 --test` cannot run: {said.removeprefix('verify_commands: ')}"
    rustup = program(job_folders.home / ".cargo" / "bin" / "rustup")
    (rustup.parent / "cargo-up").symlink_to("rustup")
    assert f"add {rustup.parent} to" in problem(
        job_folders, "cargo-up test", f"{rustup.parent}:/bin"
    )
    own = program(job_folders.home / "bin" / "own-lint")
    assert f"add {own.parent} to" in problem(job_folders, "own-lint", f"{own.parent}:/bin")
    (job_folders.home / "bin" / "sh2").symlink_to("/bin/sh")
    assert f"add {own.parent} to" in problem(job_folders, "sh2", f"{own.parent}:/bin")


def test_a_hidden_interpreter_is_reported_with_its_folder(job_folders: JobFolders) -> None:
    python = program(job_folders.home / "uv" / "cpython" / "bin" / "python3.12", "")
    inner = job_folders.checkout / ".venv" / "bin" / "python"
    inner.parent.mkdir(parents=True)
    inner.symlink_to(python)
    program(inner.parent / "pytest", f"#!{inner}\n")
    for command in (".venv/bin/python -m pytest", ".venv/bin/pytest -q"):
        said = problem(job_folders, command, "/bin")
        assert f"needs {python}" in said
        assert f"add {python.parents[1]} to agent_paths" in said
    program(job_folders.checkout / "bin" / "lint", "#!/usr/bin/env -S FOO=1 python3.12 -u\n")
    assert f"needs {python}" in problem(job_folders, "bin/lint", f"{python.parent}:/bin")


def test_a_variable_that_names_a_hidden_folder_is_reported(job_folders: JobFolders) -> None:
    jdk = job_folders.home / ".jdks"
    jdk.mkdir()
    assert problem(job_folders, "true", "/bin", {"JDK": str(jdk)}).startswith(
        f"JDK names {jdk}, which"
    )
    for value in ("/usr/bin", str(job_folders.checkout / "bin"), "/nowhere", "-Xmx1g", ""):
        assert problem(job_folders, "true", "/bin", {"JDK": value}) == ""


IGNORES = "node_modules\nvendor/bin/\n*.venv\nheld/*\n!held/kept\n"
FILES = {".gitignore": IGNORES, "vendor/a.php": "", "tools/run": "", "held/kept": ""}


@pytest.fixture
def top(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    repository(root, FILES)
    for name in ("node_modules/.bin", "vendor/bin", ".venv/bin", "own/bin", "new", "nightshift/b"):
        (root / name).mkdir(parents=True)
    (root / "own/.gitignore").write_text("*\n")
    (root / "nightshift/.gitignore").write_text("*\n")
    return root


def folders_in(top: Path, *names: str) -> list[str]:
    path = ":".join([*(f"{top}/{name}" for name in names), SYSTEM_PATH])
    git = build_isolated_git(top.parent / "git", SYSTEM_PATH)
    folders = find_program_folders({"PATH": path}, git, top, "nightshift")
    return [str(folder.relative_to(top.resolve())) for folder in folders]


def test_ignored_folders_count_whichever_file_ignores_them(top: Path) -> None:
    names = ["node_modules/.bin", "vendor/bin", ".venv/bin", "own/bin"]
    assert folders_in(top, *names) == names


def test_a_folder_that_is_part_of_a_change_does_not_count(top: Path) -> None:
    (top / "link").symlink_to("tools")
    assert folders_in(top, "tools", "new", "held", "", "link", ".git/hooks", "nightshift/b") == []


def test_path_keeps_its_order(top: Path) -> None:
    path = f"/opt/a:{top}/.venv/bin:{top}/tools:{SYSTEM_PATH}"
    folders = (top.resolve() / ".venv/bin",)
    inside = f"/opt/a:{top.resolve()}/.venv/bin:{SYSTEM_PATH}"
    assert build_search_path({"PATH": path}, top, folders) == inside
    assert build_search_path({"PATH": path}, top) == f"/opt/a:{SYSTEM_PATH}"


def test_installations_behind_links_are_opened_or_named(top: Path, tmp_path: Path) -> None:
    home, events = tmp_path / "home", list[Event]()
    python = home / ".pyenv/versions/3.12/bin/python3.12"
    for place in (python, home / "run"):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    (home / ".netrc").touch()
    folder = top.resolve() / ".venv/bin"
    (folder / "python").symlink_to(python)
    (folder / "sh").symlink_to("/bin/sh")
    (folder / "other").symlink_to("python")
    (folder / "login").symlink_to(home / ".netrc")
    settings = load_settings({}, None, {})
    folders = JobFolders(home, top.resolve(), tmp_path / "private")
    opened = add_linked_tools(settings, (folder,), folders, events.append)
    assert opened.agent_paths == [f"{home}/.pyenv/versions/3.12"]
    assert [str(getattr(each, "text", each)) for each in events] == [
        f"PATH leads to {home}/.netrc, which stays hidden, as it would expose {home}/.netrc;"
        " install it in a folder that holds only tools"
    ]
