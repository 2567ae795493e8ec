"""Nights of a runner whose HOME holds everything: what they need of it, and how it is told."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitlab_nightshift.sandbox.tiers import WORK_READERS
from tests.sandbox import tools
from tests.support.sandboxes import MORE, ONE_OPERATOR, read_row, scripted, tier_or_skip
from tests.support.world import PROVING, Done, World, world

CHECKED = PROVING.replace("verify_commands: [", "verify_commands: [checked, ")
TOOL = '#!/bin/sh\nexec cat "{folder}/tools/lib/words" "{folder}/data/words"\n'


def give_program(place: Path, text: str = "") -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    place.chmod(0o755)
    return place


@pytest.fixture
def shop() -> Iterator[World]:
    """Checkout, temporary files and the agent's CLI lie below HOME, the CLI behind a link."""
    tier_or_skip("namespaces")
    with tools.open_folder() as folder, world(folder, files=ONE_OPERATOR, config=CHECKED) as made:
        agent = scripted(f"printf '{MORE}' >> test_shop.py")
        cli = give_program(folder / "share/claude/versions/2.0", agent)
        (folder / "bin").mkdir()
        made.python = Path(sys.executable)
        (folder / "bin/claude").symlink_to(cli)
        (folder / ".bashrc").touch()
        for name in ("tools/lib/words", "data/words"):
            give_program(folder / name)
        give_program(folder / "tools/bin/checked", TOOL.format(folder=folder))
        yield made


def run(shop: World, *folders: str, **env: str) -> Done:
    path = ":".join([*(str(shop.folder / name) for name in folders), shop.env["PATH"]])
    home = str(shop.folder)
    return shop.nightshift("run", HOME=home, PATH=path, NIGHTSHIFT_ISOLATION="namespaces", **env)


def test_what_settings_name_in_home_is_found(shop: World) -> None:
    """Also what the job's variables do not lead to."""
    done = run(shop, "bin", "tools/bin", NIGHTSHIFT_AGENT_PATHS="~/tools,~/data")
    assert (done.exit_status, done.stderr) == (0, ""), done.log
    assert shop.result["outcome"] == "MR_CREATED", done.log
    assert "namespaces" in read_row(shop, WORK_READERS)["how"]
    shop.assert_restored()


@pytest.mark.parametrize("command", ["checked", "{home}/tools/bin/checked"])
def test_what_they_do_not_name_is_told_with_the_line_to_add(shop: World, command: str) -> None:
    word = command.format(home=shop.folder)
    done = run(shop, "bin", "tools/bin", NIGHTSHIFT_VERIFY_COMMANDS=word)
    assert shop.result["error_code"] == "E_CONFIG", done.log
    assert f"add {shop.folder}/tools to agent_paths" in shop.result["reason"]
    shop.assert_restored()


def test_folders_of_programs_that_agents_do_not_see_are_told_but_for_the_templates_own(
    shop: World,
) -> None:
    for name in ("other/bin", ".nightshift/bin"):
        (shop.folder / name).mkdir(parents=True)
    log = run(shop, "bin", "other/bin", ".nightshift/bin", NIGHTSHIFT_DRY_RUN="true").log
    [told] = [line for line in log.splitlines() if "PATH: agents cannot read" in line]
    assert f"{shop.folder}/other/bin" in told
    assert ".nightshift" not in told
