"""The real agent's CLI in the real sandbox, in a private checkout; and what it cannot reach."""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import turns as model
from tests.support.delegation import Delegations, Done, delegations, ended
from tests.support.model_endpoint import ModelEndpoint
from tests.support.shop import BEADS, PASSED, TEST
from tests.support.turns import Request, Script, Turn
from tests.support.world import MODEL_KEY, TOOLS

SECRET = "a-password-of-the-repository"
LAST = "        self.assertEqual(total([1, 2]), 3)\n"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody can enter, which pytest's own is not."""
    folder = Path(tempfile.mkdtemp(prefix="night-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def implement(desk: Delegations) -> Script:
    """Look around, then edit the file at the place where the CLI says that it works."""

    def turn(request: Request) -> Turn:
        where = re.search(rf"{desk.folder}/tmp/ns-\w+/shop\b", str(request.body))
        assert where, "the agent works in a private checkout"
        test = f"{where[0]}/test_shop.py"
        script = [
            model.bash(f"git -C {desk.repository} config --list"),
            model.read(test),
            model.edit(test, LAST, LAST + TEST),
            model.bash("git status --short"),
            model.say("I added a test."),
        ]
        return script[len(request.tool_results)]

    return turn


def verify(request: Request) -> Turn:
    return model.answer(PASSED)


@pytest.mark.parametrize("tier", ["namespaces", "landlock", "uid"])
def test_the_real_agent(open_folder: Path, tier: str) -> None:
    if tier == "uid" and os.geteuid() != 0:
        pytest.skip("the uid tier needs root")
    if tier == "namespaces" and not shutil.which("bwrap"):
        pytest.skip("bubblewrap is not installed")
    with delegations(open_folder) as desk:
        config = desk.repository / ".git/config"
        config.write_text(f"{config.read_text()}[secret]\n\tpassword = {SECRET}\n")
        config.chmod(0o644)  # as git leaves it: in the uid tier only its mode can close it
        with ModelEndpoint(
            {"implement": implement(desk), "verify": verify}, bead_of=BEADS
        ) as endpoint:
            done = run(desk, tier, endpoint.url)
            assert done.result["ok"] is True, done.log + done.stdout
            assert endpoint.unscripted == []
            assert f"isolation: {tier}" in done.log
            seen = "\n".join("\n".join(request.tool_results) for request in endpoint.messages)
            assert "M test_shop.py" in seen
            assert SECRET not in seen
            assert MODEL_KEY not in seen
        assert config.stat().st_mode & 0o777 == 0o644
        desk.assert_tidy()


def test_the_real_codex_by_default(open_folder: Path) -> None:
    """Both CLIs and both keys are there: ``auto`` is codex."""
    with delegations(open_folder) as desk:
        with ModelEndpoint(
            {"implement": implement(desk), "verify": verify}, bead_of=BEADS
        ) as endpoint:
            way = {"OPENAI_BASE_URL": f"{endpoint.url}/v1", "OPENAI_API_KEY": MODEL_KEY}
            done = run(desk, "landlock", endpoint.url, **way)
            assert done.result["ok"] is True, done.log + done.stdout
            assert done.result["provider_used"] == "codex"
            assert (done.result["model_used"], done.result["test_result"]) == (
                "gpt-6.1-sol",
                "passed",
            )
            assert endpoint.unscripted == []
        desk.assert_tidy()


def run(desk: Delegations, tier: str, url: str, **more: str) -> Done:
    path = f"{TOOLS}:{os.environ['PATH']}"
    env = {"NIGHTSHIFT_ISOLATION": tier, "ANTHROPIC_BASE_URL": url, "PATH": path, **more}
    return ended(desk.start(desk.payload(execution={"test_command_id": "unit"}), **env))
