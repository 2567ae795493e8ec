"""Running commands: real programs, without a shell, and the output of failures."""

import os
import sys
from pathlib import Path

import pytest

from gitlab_nightshift.proof.proof_commands import (
    TAIL_BYTES,
    Runner,
    describe_missing,
    format_failure,
    run_and_collect,
)
from gitlab_nightshift.records.bead_results import CommandResult
from gitlab_nightshift.records.events import CommandEnded, Event, ProgramEnded, ProgramStarted
from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.sandbox.process import ProcessLimits
from gitlab_nightshift.system.raw_logs import build_logs
from tests.support.tables import each

PYTHON = sys.executable
NO_LIMITS = ProcessLimits()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "check out"
    folder.mkdir()
    return folder


def run(
    *commands: str,
    checkout: Path,
    limits: ProcessLimits = NO_LIMITS,
    events: list[Event] | None = None,
) -> tuple[CommandResult, ...]:
    runner = runner_in(checkout, limits, events)
    runs = run_and_collect(runner, commands, "verify", lambda: None, lambda _name: "")
    return tuple(run.result for run in runs)


def runner_in(
    checkout: Path, limits: ProcessLimits = NO_LIMITS, events: list[Event] | None = None
) -> Runner:
    scratch = checkout.parent / "scratch"
    scratch.mkdir(exist_ok=True)
    return Runner(
        folder=checkout,
        env={"PATH": os.environ["PATH"], "ONLY": "this"},
        scratch=scratch,
        logs=build_logs(checkout.parent, Redactor(())),
        limits=lambda: limits,
        emit=(events if events is not None else []).append,
    )


def failure_text(results: tuple[CommandResult, ...], checkout: Path) -> str:
    return format_failure(runner_in(checkout), results, "verify")


def test_commands_run_in_the_checkout_with_the_environment_they_are_given(checkout: Path) -> None:
    events: list[Event] = []
    results = run("pwd", "env", checkout=checkout, events=events)
    logs = checkout.parent / "logs"
    assert [result.ok for result in results] == [True, True]
    assert (logs / "verify-1.out").read_text() == f"{checkout}\n"
    shown = set((logs / "verify-2.out").read_text().splitlines())
    assert shown == {f"PATH={os.environ['PATH']}", "ONLY=this"}
    assert events == [
        event
        for result in results
        for event in (
            ProgramStarted(result.command),
            ProgramEnded(result.command, 0, result.duration_s),
            CommandEnded(result),
        )
    ]
    assert failure_text(results, checkout) == ""


def test_the_first_failure_is_the_last_command(checkout: Path) -> None:
    results = run("true", "sh -c 'echo out; echo err >&2; exit 3'", "touch x", checkout=checkout)
    assert [result.exit_status for result in results] == [0, 3]
    assert not (checkout / "x").exists()
    command = results[1].command
    assert failure_text(results, checkout) == f"`{command}` failed: exit status 3.\nout\nerr"


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        ("a;touch x", ["a;touch", "x"]),
        ("$ONLY ${ONLY} $(id) `id`", ["$ONLY", "${ONLY}", "$(id)", "`id`"]),
        ("* ~ {a,b} ?", ["*", "~", "{a,b}", "?"]),
        ("a && b | c > d < e &", ["a", "&&", "b", "|", "c", ">", "d", "<", "e", "&"]),
        ("'a b' \"c $ONLY\" d\\ e #f", ["a b", "c $ONLY", "d e", "#f"]),
    ],
)
def test_commands_run_without_a_shell(words: str, arguments: list[str], checkout: Path) -> None:
    show = f"{PYTHON} -c 'import sys; print(sys.argv[1:])' "
    (result,) = run(show + words, checkout=checkout)
    assert result.ok
    assert (checkout.parent / "logs/verify-1.out").read_text() == f"{arguments}\n"
    assert list(checkout.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("no-such-program-anywhere --x", "cannot be started: No such file or directory"),
        ("./plain", "cannot be started: Permission denied"),
        ("./missing", "cannot be started: No such file or directory"),
    ],
)
def test_a_program_that_cannot_be_started(command: str, why: str, checkout: Path) -> None:
    (checkout / "plain").write_text("not executable")
    (result,) = run(command, checkout=checkout)
    assert (result.exit_status, result.error, result.ok) == (127, why, False)
    assert failure_text((result,), checkout) == f"`{command}` failed: {why}."


def test_a_program_of_the_checkout_is_found_by_its_path(checkout: Path) -> None:
    program = checkout / "build"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    assert run("./build", checkout=checkout)[0].ok


def test_a_command_killed_by_a_signal_has_failed(checkout: Path) -> None:
    (result,) = run("sh -c 'kill -9 $$'", checkout=checkout)
    assert (result.exit_status, result.ok) == (-9, False)


@pytest.mark.parametrize(
    ("command", "limits", "why"),
    [
        ("sleep 60", ProcessLimits(timeout_s=0.3), "timeout"),
        ("sleep 60", ProcessLimits(idle_s=0.3), "idle"),
        ("yes", ProcessLimits(output_bytes=100_000), "output_limit"),
    ],
)
def test_a_limit_that_is_reached_is_a_failure(
    command: str, limits: ProcessLimits, why: str, checkout: Path
) -> None:
    (result,) = run(command, checkout=checkout, limits=limits)
    assert result.exit_status is None
    assert result.error == f"ended by this program: {why}"
    assert failure_text((result,), checkout).startswith(
        f"`{command}` failed: ended by this program: {why}."
    )


def test_only_the_end_of_a_long_output_is_passed_on(checkout: Path) -> None:
    code = "import sys; sys.stdout.write('ä' * 99999 + 'the end'); sys.exit(1)"
    (result,) = run(f'{PYTHON} -c "{code}"', checkout=checkout)
    text = failure_text((result,), checkout)
    assert text.endswith("the end")
    assert len(text.encode()) < TAIL_BYTES + 500
    assert (checkout.parent / "logs/verify-1.out").stat().st_size > 99_999, "the log is whole"


def test_standard_input_is_empty(checkout: Path) -> None:
    assert run("sh -c '! read line'", checkout=checkout)[0].ok


def test_a_command_that_passes_when_repeated_is_flaky(checkout: Path) -> None:
    """It is put right in between, so that a file which the first run left counts for nothing."""
    first = checkout.parent / "ran"
    command = f"sh -c 'echo $$; test -e {first} && exit 0; touch {first} cheat; exit 1'"
    runner, put_right = runner_in(checkout), []
    back = (lambda: put_right.append(1), lambda _name: "")
    [run] = run_and_collect(runner, [command], "verify", *back)
    result = run.result
    assert (result.ok, result.flaky, put_right) == (True, True, [1])
    assert runner.logs.read_tail("verify-1-first.out", 99).decode().strip() != runner.read_tail(
        "verify-1"
    )


def test_a_command_that_fails_twice_has_failed(checkout: Path) -> None:
    (result,) = run("sh -c 'echo no; exit 3'", checkout=checkout)
    assert (result.exit_status, result.flaky) == (3, False)


def test_renew_replaces_home_and_tmp(checkout: Path) -> None:
    """A user's site-packages would decide what the next command runs."""
    home = checkout.parent / "scratch" / "home"
    plant = f"sh -c 'mkdir -p {home}/.local && echo x > {home}/.local/x && chmod 0 {home}/.local'"
    swap = f"sh -c 'rm -rf {home} && ln -s / {home}'"
    runner = runner_in(checkout)
    runner.renew()
    for command in (plant, swap):
        assert run(command, checkout=checkout)[0].ok
        runner.renew()
        assert (home.is_symlink(), [p.name for p in home.iterdir()]) == (False, [".gitconfig"])


def test_without_commands_there_is_no_failure(checkout: Path) -> None:
    assert run(checkout=checkout) == ()
    assert failure_text((), checkout) == ""


# --- what a failed command lacks ------------------------------------------------------------------


PROGRAM, MODULE = "the program {} is not installed", "the dependency {} is not installed"


@each(
    ("exit_status", "output", "lacks"),
    [
        (
            2,
            "make: pytest: No such file or directory\nmake: *** [Makefile:2: test] Error 127",
            "pytest",
        ),
        (127, "/bin/sh: 1: pytest: not found", "pytest"),
        (127, "bash: line 1: gradle: command not found", "gradle"),
        (1, "bundler: command not found: rspec\nInstall missing gem executables", "rspec"),
        (1, "Error: spawn jest ENOENT", "jest"),
    ],
)
def test_a_missing_program(exit_status: int, output: str, lacks: str) -> None:
    assert describe_missing(CommandResult("make test", exit_status, 0.1), output) == PROGRAM.format(
        lacks
    )


@each(
    ("output", "lacks"),
    [
        ("/usr/bin/python3: No module named pytest", "pytest"),
        ("E   ModuleNotFoundError: No module named 'yaml.reader'", "yaml.reader"),
        ("Error: Cannot find module 'express'\nRequire stack:", "express"),
        (
            "x.go:3:8: no required module provides package github.com/a/b; to add it:",
            "github.com/a/b",
        ),
        ("error: no matching package named `serde` found", "serde"),
        ("LoadError: cannot load such file -- minitest/autorun", "minitest/autorun"),
        ("[ERROR] Could not find artifact junit:junit:jar:4.13 in central", "junit:junit:jar:4.13"),
    ],
)
def test_a_missing_dependency(output: str, lacks: str) -> None:
    assert describe_missing(CommandResult("make test", 1, 0.1), output) == MODULE.format(lacks)


def test_a_go_module_that_is_not_in_the_cache() -> None:
    get = 'Get "https://proxy.golang.org/a.b/y/@v/v3.0.1.zip": dial tcp: lookup proxy.golang.org on'
    output = f"# a\na_test.go:2:20: a.b/y@v3.0.1: {get} 10.0.0.1:53: network is unreachable"
    assert describe_missing(CommandResult("go test ./...", 1, 0.1), output) == (
        "the Go module a.b/y@v3.0.1 is not in the module cache, and there is no network: run"
        " `go mod download` before (docs/how-to/go.md)"
    )


@each(
    "output",
    [
        "npm error code EAI_AGAIN",
        "a_test.go:2:20: module lookup disabled by GOPROXY=off",
        "go: dial tcp: lookup proxy.golang.org: no such host",
        "curl: (6) Could not resolve host: example.com",
        "Cannot access central in offline mode and the artifact has not been downloaded",
        "[ERROR] Could not create local repository at /root/.m2/repository -> [Help 1]",
    ],
)
def test_a_command_that_needs_the_network(output: str) -> None:
    assert "there is no network" in describe_missing(CommandResult("make test", 1, 0.1), output)


def test_a_program_that_cannot_be_started_or_run() -> None:
    result = CommandResult("tox -e py", 127, 0.0, "cannot be started: No such file or directory")
    assert describe_missing(result, "") == "tox cannot be started: No such file or directory"
    result = CommandResult("./run x", 126, 0.0)
    assert describe_missing(result, "") == "./run cannot be run here (exit status 126)"


@each(
    "output",
    ["FAILED (failures=1)", "AssertionError: page not found", "Cannot find module './cart'", ""],
)
def test_a_failing_test_lacks_nothing(output: str) -> None:
    assert describe_missing(CommandResult("make test", 1, 0.1), output) == ""
    assert (
        describe_missing(
            CommandResult("make test", None, 9.0, "ended by this program: timeout"), output
        )
        == ""
    )
    assert describe_missing(CommandResult("make test", 0, 0.1), "bash: x: command not found") == ""
