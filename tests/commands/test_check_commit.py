"""``nightshift check --run`` on real repositories: test results and the exit status."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from gitlab_nightshift.sandbox.tiers import Tier
from tests.repository.tools import commit, git, repository
from tests.support import warm
from tests.support.trees import whole_tree

FILES = {
    "Makefile": "test:\n\tpython3 -m unittest -q\n",
    "shop.py": "def total(prices, cents_off=0):\n    return sum(prices) - cents_off // 100\n",
    "test_shop.py": (
        "import unittest\nfrom shop import total\n\n\nclass TotalTest(unittest.TestCase):\n"
        "    def test_plain(self):\n        self.assertEqual(total([1, 2]), 3)\n"
    ),
}
GOOD = "\n    def test_half(self):\n        self.assertEqual(total([10, 20], 500), 25)\n"
BAD = "\n    def test_half(self):\n        self.assertIsNotNone(str(total([10, 20], 500)))\n"


def check(
    root: Path, *args: str, env: Mapping[str, str] = MappingProxyType({})
) -> tuple[int, Any, str]:
    path = f"{sys.base_prefix}/bin:{os.environ['PATH']}"  # no version manager's shims
    variables = {"PATH": path, "HOME": "/", "NIGHTSHIFT_ISOLATION": "none", **env}
    with warm.start(["check", "--run", "--json", *args], cwd=root, env=variables) as started:
        out, err = started.communicate()
    return started.wait(), json.loads(out) if out else None, err.decode()


def change(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (root / name).write_text(text)
    commit(root)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    root = tmp_path / "builds" / "shop"
    repository(root, FILES)
    return root


def test_an_honest_test_passes(shop: Path) -> None:
    change(shop, {"test_shop.py": FILES["test_shop.py"] + GOOD})
    before = whole_tree(shop)
    status, report, _ = check(shop)
    assert (status, report["flags"], report["ran"]) == (0, [], True)
    assert report["commands"][0]["command"] == "make test"
    details = [check["detail"] for check in report["checks"]]
    assert details[0] == "`make test`: 1 test before, 2 with the change (1 new)"
    assert details[-1].endswith("planted faults found")
    after = whole_tree(shop)
    assert {n for n in after if not n.startswith(".git")} == {
        n for n in before if not n.startswith(".git")
    }
    assert git(shop, "status", "--porcelain") == ""


def test_a_test_that_the_runner_skips_now_fails(shop: Path) -> None:
    """No rule knows this way to skip; the runner's reports before and after show it."""
    text = FILES["test_shop.py"] + GOOD
    change(shop, {"test_shop.py": text})
    change(
        shop, {"test_shop.py": f"{text}\n\nvars(TotalTest)['test_half'].__unittest_skip__ = 1\n"}
    )
    status, report, _ = check(shop)
    assert status == 8
    name = "test_shop.TotalTest.test_half"
    assert f"{name} ran before the change, but is skipped now." in str(report["flags"])


def test_a_test_that_finds_no_fault_fails(shop: Path) -> None:
    limit = "    if cents_off > 900:\n        cents_off = 900\n    return"
    change(shop, {"shop.py": FILES["shop.py"].replace("    return", limit)})
    change(shop, {"test_shop.py": FILES["test_shop.py"] + BAD})
    status, report, _ = check(shop)
    assert status == 8
    assert "mutants-survive" in {flag["name"] for flag in report["flags"]}


def test_a_link_is_restored_in_each_run(shop: Path) -> None:
    test = '\n    def test_link(self):\n        self.assertIn(os.readlink("now"), ("one", "two"))\n'
    (shop / "one").write_text("1")
    (shop / "now").symlink_to("one")
    change(shop, {"test_shop.py": f"import os\n{FILES['test_shop.py']}{test}"})
    (shop / "now").unlink()
    (shop / "now").symlink_to("two")
    change(shop, {"shop.py": FILES["shop.py"] + "# two\n"})
    status, report, err = check(shop)
    assert status == 0, (report, err)
    details = [check["detail"] for check in report["checks"]]
    assert details[0].startswith("`make test`: 2 tests before, 2 with the change")
    assert (shop / "now").readlink() == Path("two")


@pytest.mark.parametrize(("before", "level", "status"), [("", "fail", 8), ("broken", "warn", 0)])
def test_commands_that_fail(shop: Path, before: str, level: str, status: int) -> None:
    """If they fail without the change as well, it is only a warning."""
    if before:
        change(shop, {"Makefile": "test:\n\tfalse\n"})
    change(shop, {"shop.py": FILES["shop.py"].replace("sum(", "max("), "notes.md": "x\n"})
    exit_status, report, _ = check(shop)
    (flag,) = [flag for flag in report["flags"] if flag["name"] == "tests-fail"]
    assert (flag["level"], exit_status) == (level, status)
    assert ("without the change as well" in flag["detail"]) is bool(before)


def test_without_anything_to_run_the_check_is_incomplete(shop: Path) -> None:
    """For a missing program, and for a project without a known test command."""
    change(shop, {"Makefile": "test:\n\tno-such-runner\n"})
    change(shop, {"notes.md": "x\n"})
    status, report, _ = check(shop)
    assert (status, report["incomplete"]) == (13, "the program no-such-runner is not installed")
    git(shop, "rm", "-q", "Makefile", "test_shop.py")
    commit(shop)
    change(shop, {"notes.md": "y\n"})
    status, report, _ = check(shop)
    assert (status, report["commands"]) == (13, [])
    assert report["incomplete"].startswith("found no command that tests this project")


def test_uncommitted_changes_are_refused(shop: Path) -> None:
    (shop / "shop.py").write_text("x = 1\n")
    status, _, stderr = check(shop)
    assert status == 11
    assert "commit the change, or check it out" in stderr


def test_a_commit_that_is_not_checked_out_is_refused(shop: Path) -> None:
    change(shop, {"notes.md": "x\n"})
    change(shop, {"notes.md": "y\n"})
    status, _, stderr = check(shop, "HEAD~1")
    assert status == 11
    assert "--run runs the commit that is checked out" in stderr


CACHED = """\
test:
\ttest -f "$$GOMODCACHE/example.org/x.go"
\t! touch "$$GOMODCACHE/y.go"
\ttest "$$CARGO_HOME" = "$(HOME_OF_JOB)/.cargo" && test -d "$$CARGO_HOME/registry"
\t! cat "$$CARGO_HOME/credentials.toml"
\t! ls "$(HOME_OF_JOB)/.ssh"
\tpython3 -m unittest -q
"""


@pytest.mark.parametrize("tier", [str(Tier.NAMESPACES), str(Tier.LANDLOCK)])
def test_tool_caches_can_be_read_without_their_credentials(
    shop: Path, tmp_path: Path, tier: str
) -> None:
    home = tmp_path / "home"
    for name in ("go/pkg/mod/example.org/x.go", ".cargo/credentials.toml", ".ssh/id"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("x")
    (home / ".cargo/registry").mkdir()
    change(shop, {"Makefile": CACHED.replace("$(HOME_OF_JOB)", str(home)), "a.py": "A = 1\n"})
    partly = json.dumps(["files", "secrets", "network", "lifetime"])
    env = {"HOME": str(home), "NIGHTSHIFT_ISOLATION": tier, "NIGHTSHIFT_ACCEPT_PARTIAL": partly}
    status, report, err = check(shop, "--base", "HEAD~1", env=env)
    if "does not work here" in err:
        pytest.skip(f"{tier}: {err}")
    assert [run["exit_status"] for run in report["commands"]] == [0], (report, err)
    assert status in (0, 1)
