"""The programs that an agent finds by name: real folders, real shells."""

import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.job.job_facts import read_job
from gitlab_nightshift.records.events import Event, Note
from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.sandbox.tier_choice import choose
from gitlab_nightshift.sandbox.tiers import Tier
from gitlab_nightshift.settings.load import build_settings
from gitlab_nightshift.stages.work.boundary import Boundary
from gitlab_nightshift.stages.work.program_allowlist import USUAL_PROGRAMS, restrict_programs
from gitlab_nightshift.stages.work.work_context import VerifyCommands, WorkContext
from gitlab_nightshift.system.raw_logs import build_logs

TOOL = '#!/bin/sh\necho "tool $*"\necho "$PATH"\ncommand -v helper\n'


@dataclass
class Machine:
    """A machine with a few programs besides the system's, and a checkout."""

    top: Path
    events: list[Event] = field(default_factory=list)

    @property
    def path(self) -> str:
        return f"{self.top}/tools:/usr/local/bin:/usr/bin:/bin"

    def program(self, name: str, text: str = "#!/bin/sh\necho done\n") -> Path:
        file = self.top / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
        return file

    def allowlist(self, *commands: str, cli: str = "#!/bin/sh\n", **settings: Any) -> Boundary:
        scratch = self.top / "scratch"
        scratch.mkdir()
        none = Boundary(choose(Tier.NONE, scratch), scratch, ())
        env = {"PATH": self.path}
        work = WorkContext(
            settings=build_settings(settings),
            job=read_job(env),
            env=env,
            checkout=self.top / "checkout",
            config_folder=self.top / "checkout",
            home=self.top,
            private=self.top,
            logs=build_logs(self.top, Redactor(())),
            verify=VerifyCommands((), implied=True),
            time_limit_s=None,
            allowed_commands=commands,
            redact=Redactor(()),
            emit=self.events.append,
        )
        return restrict_programs(none, work, self.program("cli", cli))

    @property
    def notes(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Note)]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    for name in ("tool", "other"):
        made.program(f"tools/{name}", TOOL)
    made.program("tools/helper")
    return made


def shell(boundary: Boundary, path: str, command: str) -> "subprocess.CompletedProcess[str]":
    """The command, by a shell with the PATH that agents get."""
    return subprocess.run(
        ["/bin/bash", "-c", command],
        env={"PATH": boundary.build_agent_path(path)},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def run(machine: Machine) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    def _run(
        command: str, allowed: Iterable[str] = (), **settings: Any
    ) -> "subprocess.CompletedProcess[str]":
        return shell(machine.allowlist(*allowed, **settings), machine.path, command)

    return _run


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.mark.parametrize("name", ["tool", "helper", "python3", "curl", "perl", "sudo", "ssh"])
def test_what_is_not_allowed_is_not_found(run: Run, name: str) -> None:
    done = run(f"{name} --version", ["git", "make test"])
    assert done.returncode == 127
    assert "not found" in done.stderr


def test_shell_git_and_the_usual_programs_are_found(run: Run) -> None:
    done = run(
        "set -e; git --version; ls / | grep usr | sed s/usr/found/; env true; [ 1 = 1 ];"
        " find /usr -maxdepth 0 -exec sh -c 'echo inner' \\;"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-2:] == ["found", "inner"]


def test_allowed_program_takes_any_arguments_and_has_the_full_path(
    machine: Machine, run: Run
) -> None:
    done = run("tool 'a b' --c", ["tool"])
    assert done.stdout.splitlines() == ["tool a b --c", machine.path, f"{machine.top}/tools/helper"]


@pytest.mark.parametrize(
    ("command", "passes"),
    [
        ("tool test", True),
        ("tool 'check this' --all", True),
        ("tool check this --all", False),
        ("tool", False),
        ("tool test more", False),
        ("tool evil", False),
        ("tool 'test '", False),
        ("tool \"test$(printf '\\n')x\"", False),
        ("other test", False),
    ],
)
def test_allowed_arguments_must_match_exactly(run: Run, command: str, passes: bool) -> None:
    done = run(command, ["tool test", "tool 'check this' --all"])
    if passes:
        assert (done.returncode, done.stdout[:5]) == (0, "tool ")
    else:
        assert done.returncode in (126, 127)
        assert done.stdout == ""
    if done.returncode == 126:
        assert "; allowed: tool test, tool 'check this' --all" in done.stderr


def test_shell_syntax_in_an_argument_is_not_executed(machine: Machine, run: Run) -> None:
    evil = f"tool '$(touch {machine.top}/planted)' '`id`' ';' \"'\""
    assert run(evil, [evil]).returncode == 0
    assert not (machine.top / "planted").exists()


def test_shell_has_the_full_path_only_for_its_allowed_script(machine: Machine, run: Run) -> None:
    script = machine.program("checkout/run.sh", "helper && echo found\n")
    exact = f"bash {script}"
    done = run(f"{exact}; bash -c helper; bash -c 'echo still here'", [exact])
    assert done.stdout.splitlines() == ["done", "found", "still here"]
    assert "helper: command not found" in done.stderr


def test_git_aliases_do_not_get_the_full_path(run: Run) -> None:
    done = run("git -c alias.x='!helper' x", ["git"])
    assert done.returncode != 0
    assert "done" not in done.stdout


def test_wrapper_script_finds_its_program(machine: Machine, run: Run) -> None:
    machine.program("tools/java", TOOL)
    machine.program("checkout/gradlew", "#!/bin/sh\nexec java -jar x\n")
    done = run(f"cd {machine.top}/checkout && ./gradlew test; helper", ["./gradlew test"])
    assert done.stdout.splitlines()[:2] == ["tool -jar x", machine.path]
    assert "helper: command not found" in done.stderr


def test_script_in_another_language_finds_its_interpreter(machine: Machine, run: Run) -> None:
    machine.program("checkout/bin/check", "#!/usr/bin/env tool\n")
    done = run(f"{machine.top}/checkout/bin/check", ["bin/check"])
    assert done.stdout.splitlines()[1] == machine.path


def test_shell_script_called_by_its_path_lifts_the_restriction(machine: Machine, run: Run) -> None:
    machine.program("checkout/run.sh", "#!/bin/sh\nhelper\n")
    assert run("helper", ["make test", "./run.sh --all"]).stdout == "done\n"
    text = "exec: PATH is not restricted, as it is unknown what ./run.sh --all starts"
    assert machine.notes == [text]


def test_agents_own_interpreter_is_found(machine: Machine) -> None:
    machine.program("tools/node", TOOL)
    boundary = machine.allowlist("git", cli="#!/usr/bin/env node\n")
    assert shell(boundary, machine.path, "node").stdout.startswith("tool")
    assert machine.notes == ["exec: agents have on PATH git, the shell and its usual tools; node"]


@pytest.mark.parametrize(
    ("profile", "gate", "lifted"),
    [
        ("production", "deny", False),
        ("production", "require_approval", False),
        ("production", "auto_allow", False),
        ("development", "deny", False),
        ("development", "auto_allow", True),
    ],
)
def test_only_an_open_exec_gate_lifts_the_restriction(
    run: Run, profile: str, gate: str, lifted: bool
) -> None:
    done = run("helper", profile=profile, policy={"gates": {"exec": gate}})
    assert (done.stdout == "done\n") is lifted


def test_agents_may_read_the_allowlist(machine: Machine) -> None:
    boundary = machine.allowlist("tool")
    assert boundary.allowlist is not None
    assert boundary.allowlist in boundary.read_only
    assert boundary.allowlist.stat().st_mode & 0o777 == 0o755
    assert (boundary.allowlist / "tool").stat().st_mode & 0o777 == 0o555


def test_no_usual_program_uses_a_network_or_changes_the_user() -> None:
    known = (
        "curl wget ssh scp sftp nc ncat socat telnet ftp rsync sudo su doas python3 perl ruby node"
    )
    assert not set(USUAL_PROGRAMS) & set(
        f"{known} php lua docker podman apt apt-get npm pip make gdb".split()
    )
