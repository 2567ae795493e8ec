"""What is missing here is distinguished from a test that fails by what real programs print."""

from gitlab_nightshift.proof.diagnosis import describe_missing
from gitlab_nightshift.records.bead_results import CommandResult
from tests.support.tables import each

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
def test_what_needs_the_network(output: str) -> None:
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
def test_a_failing_test_is_no_missing_tool(output: str) -> None:
    assert describe_missing(CommandResult("make test", 1, 0.1), output) == ""
    assert (
        describe_missing(
            CommandResult("make test", None, 9.0, "ended by this program: timeout"), output
        )
        == ""
    )
    assert describe_missing(CommandResult("make test", 0, 0.1), "bash: x: command not found") == ""
