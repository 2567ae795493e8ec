"""The provider that docs/providers.md names: a whole night with it."""

import json
import sys
from pathlib import Path

import pytest

from gitlab_nightshift.agents.agent import AgentProvider
from gitlab_nightshift.settings.load import load_settings
from tests.support.example_provider import MyCoder
from tests.support.model_endpoint import ModelEndpoint
from tests.support.shop import DRAFT, FOUND, NOTE, PASSED
from tests.support.turns import say
from tests.support.world import PROVING, ROOT, World, git, world

CLI = """#!{python} -IS
import json, os, sys, urllib.request
prompt, report = sys.stdin.read(), sys.argv[sys.argv.index("--report") + 1]
body = {{"model": sys.argv[sys.argv.index("--model") + 1], "messages": []}}
headers = {{"Content-Type": "application/json"}}
headers["Authorization"] = "Bearer " + os.environ["OPENAI_API_KEY"]
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)) as got:
    print(json.load(got)["choices"][0]["message"]["content"], flush=True)
answers = json.loads({answers!r})
for phrase, answer in answers.items():
    if phrase in prompt:
        open(report, "w").write(json.dumps(answer))
if "# Task: make one" in prompt:
    open("test_shop.py", "a").write({note!r})
"""
REGISTERED = """
from gitlab_nightshift.registry.agent_registry import AGENTS, AgentEntry
AGENTS["mycoder"] = AgentEntry("tests.support.example_provider:MyCoder")  # the one line
"""


@pytest.mark.parametrize("page", ["docs/providers.md", "CONTRIBUTING.md"])
def test_the_pages_name_an_example_of_under_60_lines(page: str) -> None:
    name = "tests/support/example_provider.py"
    assert f"`{name}`" in (ROOT / page).read_text(encoding="utf-8")
    assert len((ROOT / name).read_text(encoding="utf-8").splitlines()) < 60


def test_it_has_all_members() -> None:
    provider: AgentProvider = MyCoder(load_settings({}))
    assert provider.name == "mycoder"


def install(shop: World) -> None:
    answers = {"# Task: find one": FOUND, "# Task: check": PASSED, "# Task: describe": DRAFT}
    text = CLI.format(python=sys.executable, answers=json.dumps(answers), note=NOTE)
    file = shop.agent.bin / "mycoder"
    file.write_text(text)
    file.chmod(0o755)


def test_a_night_with_it_opens_a_merge_request(tmp_path: Path) -> None:
    config = f"{PROVING}agent: mycoder\nmax_tokens: 1000000\n"
    with (
        world(tmp_path, config=config) as shop,
        ModelEndpoint(lambda request: say("I work on it")) as endpoint,
    ):
        install(shop)
        own = {"OPENAI_API_KEY": "sk-test-Example00001", "ANTHROPIC_API_KEY": ""}
        shop.patch = REGISTERED
        done = shop.nightshift("run", NIGHTSHIFT_MODEL_ENDPOINT=endpoint.url, **own)
        assert (done.exit_status, done.stderr) == (0, ""), done.log
        [mr] = shop.merge_requests
        assert mr.title == "[night-shift/tests] Test the discount of total()"
        changed = git(shop.project.bare_repository, "diff", "--numstat", shop.sha, str(mr.sha))
        assert changed == "2\t0\ttest_shop.py\n"
        assert shop.result["total_tokens"] == 4400, "counted by the gateway"
        assert "I work on it" in done.log
        shop.assert_restored()
