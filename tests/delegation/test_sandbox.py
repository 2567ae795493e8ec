"""The real agent's CLI in the real sandbox, in a private checkout; and what it cannot access."""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.nights_sandbox.test_checkout_programs import give_program
from tests.support import turns as model
from tests.support.delegation import DEVELOPMENT, Delegations, Done, delegations, ended
from tests.support.model_endpoint import ModelEndpoint
from tests.support.programs import need_program
from tests.support.sandboxes import scripted, tier_or_skip
from tests.support.shop import BEADS, NOTE, PASSED
from tests.support.turns import Request, Script, Turn
from tests.support.world import MODEL_KEY, PATH, TOOLS, commit, git

SECRET = "a-password-of-the-repository"
MODELS = {"claude_code": "claude-opus-4-6", "codex": "gpt-6.1-sol"}
LAST = "        self.assertEqual(total([1, 2]), 3)\n"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody can enter, which pytest's own is not."""
    folder = Path(tempfile.mkdtemp(prefix="night-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def implement(context: Delegations) -> Script:
    """Look around, then edit the file at the place where the CLI says that it works."""

    def turn(request: Request) -> Turn:
        where = re.search(rf"{context.folder}/tmp/ns-\w+/s/shop\b", str(request.body))
        assert where, "the agent works in a private checkout"
        test = f"{where[0]}/test_shop.py"
        script = [
            model.bash(f"git -C {context.repository} config --list"),
            model.read(test),
            model.edit(test, LAST, LAST + NOTE),
            model.bash("git status --short"),
            model.say("I added a note."),
        ]
        return script[len(request.tool_results)]

    return turn


def verify(request: Request) -> Turn:
    return model.answer(PASSED)


@pytest.mark.parametrize(
    ("tier", "agent"),
    [("namespaces", "claude_code"), ("landlock", "codex"), ("uid", "codex")],
)
def test_the_real_agent(open_folder: Path, tier: str, agent: str) -> None:
    """Where both CLIs and both keys are there, ``auto`` is codex."""
    if tier == "uid" and os.geteuid() != 0:
        pytest.skip("the uid tier needs root")
    if tier == "namespaces":
        need_program("bwrap")
    with delegations(open_folder) as context:
        config = context.repository / ".git/config"
        config.write_text(f"{config.read_text()}[secret]\n\tpassword = {SECRET}\n")
        config.chmod(0o644)  # as git leaves it: in the uid tier only its mode can close it
        turns = {"implement": implement(context), "verify": verify}
        with ModelEndpoint(turns, bead_of=BEADS) as endpoint:
            way = {"OPENAI_BASE_URL": f"{endpoint.url}/v1", "OPENAI_API_KEY": MODEL_KEY}
            done = run(context, tier, endpoint.url, **(way if agent == "codex" else {}))
            result = done.result
            assert result["ok"] is True, done.log + done.stdout
            assert (result["provider_used"], result["test_result"]) == (agent, "passed")
            assert result["model_used"] == MODELS[agent]
            assert endpoint.unscripted == []
            assert f"isolation: {tier}" in done.log
            seen = "\n".join("\n".join(request.tool_results) for request in endpoint.messages)
            assert "M test_shop.py" in seen
            assert SECRET not in seen
            assert MODEL_KEY not in seen
        assert config.stat().st_mode & 0o777 == 0o644
        context.assert_tidy()


def run(context: Delegations, tier: str, url: str, **more: str) -> Done:
    env = {"NIGHTSHIFT_ISOLATION": tier, "ANTHROPIC_BASE_URL": url, "PATH": f"{TOOLS}:{PATH}"}
    payload = context.payload(execution={"test_command_id": "unit"})
    return ended(context.start(payload, **env, **more))


@pytest.mark.parametrize("mode", ["worktree", "copy", "in_place"])
def test_commands_find_the_programs_of_the_callers_checkout(open_folder: Path, mode: str) -> None:
    """An activated environment there, with its libraries; in a private checkout it is only read."""
    policy = DEVELOPMENT.replace("[make, test]", "[checked]")
    with delegations(open_folder, config=policy) as context:
        own = context.repository / ".venv"
        (context.repository / ".gitignore").write_text(".venv/\n")
        git(context.repository, "add", ".gitignore")
        commit(context.repository, "Ignore it")
        told = f'touch {own}/new; [ "$VIRTUAL_ENV" = {own} ] && [ -s {own}/lib/words ]'
        for name in ("bin/checked", "bin/codex", "bin/claude", "lib/words"):
            give_program(own / name, told)
        agent = open_folder / "bin/claude"
        give_program(agent, scripted("mkdir -p docs; echo new > docs/new.md"))
        env = {
            "PATH": f"{own}/bin:{agent.parent}:{context.env['PATH']}",
            "VIRTUAL_ENV": str(own),
            "OPENAI_API_KEY": MODEL_KEY,
            "NIGHTSHIFT_ISOLATION": tier_or_skip("namespaces"),
        }
        wish = {"workspace": {"checkout_mode": mode}, "execution": {"test_command_id": "unit"}}
        done = ended(context.start(context.payload(**wish), **env))
        assert done.result["test_result"] == "passed", done.log + done.stdout
        assert done.result["provider_used"] == "claude_code", "no agent is looked for there"
        assert sorted(path.name for path in own.iterdir()) == ["bin", "lib"]
