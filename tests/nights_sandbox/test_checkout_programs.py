"""Nights whose job has an activated virtual environment, or another folder of programs, in its
checkout: commands and agents find them, and no trusted process does."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox import tools
from tests.support.sandboxes import MORE, ONE_OPERATOR, TIERS, scripted, tier_or_skip, with_agent
from tests.support.world import Done, World, world

FILES = {
    **ONE_OPERATOR,
    "Makefile": "test:\n\tchecked -m unittest -q\n",
    ".gitignore": "__pycache__/\n.venv/\n",
}
CONFIG = "reviewer: rita\nverify_commands: [make test]\n"


def give_program(place: Path, text: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f"#!/bin/sh\n{text}\n")
    place.chmod(0o755)


@pytest.fixture
def shop() -> Iterator[World]:
    with tools.open_folder() as folder, world(folder, files=FILES, config=CONFIG) as made:
        made.python = Path(sys.executable)
        give_program(made.checkout / ".venv/bin/checked", 'exec python3 "$@"')
        yield made


def run(
    shop: World, tier: str, implement: str = f"printf '{MORE}' >> test_shop.py", **more: str
) -> Done:
    path = f"{shop.checkout}/.venv/bin:{with_agent(shop, 'cli', scripted(implement))}"
    shop.look()
    return shop.nightshift("run", PATH=path, NIGHTSHIFT_ISOLATION=tier, **more)


@pytest.mark.parametrize("tier", TIERS)
def test_commands_find_the_programs_of_an_activated_environment(shop: World, tier: str) -> None:
    done = run(shop, tier_or_skip(tier))
    assert shop.result["outcome"] == "MR_CREATED", done.log
    shop.assert_restored()


@pytest.mark.parametrize("tier", TIERS)
def test_what_an_agent_does_to_them_proves_nothing(shop: World, tier: str) -> None:
    """A test that fails is not made to pass by another program of the name."""
    wrong = MORE.replace("270", "271")
    lie = "rm -rf .venv; mkdir -p .venv/bin; printf '#!/bin/sh\\n' > .venv/bin/checked"
    more = "printf '#!/bin/sh\\n' > .venv/bin/checked"
    implement = f"printf '{wrong}' >> test_shop.py; {more}; {lie}; chmod +x .venv/bin/checked"
    done = run(shop, tier_or_skip(tier), implement)
    assert shop.result["outcome"] == "NO_IMPROVEMENT", done.log
    assert {("make test", 0), ("make test", 2)} <= set(shop.ran), "as it was, with the change"
    assert shop.written == []
    shop.assert_restored()


@pytest.mark.parametrize("name", ["git", "claude"])
def test_no_trusted_process_looks_for_a_program_there(shop: World, name: str) -> None:
    """Where it did, the program would write beside the checkout, which the sandbox cannot."""
    mark = shop.folder / "ran"
    give_program(shop.checkout / f".venv/bin/{name}", f"echo {name} >> {mark}; exit 1")
    done = run(shop, tier_or_skip("landlock"))
    assert shop.result["outcome"] == "MR_CREATED", done.log
    assert not mark.exists()
    assert f"{shop.checkout}/.venv/bin is not on the agents' PATH: it contains git," in done.log
    shop.assert_restored()


def test_what_links_lead_to_is_opened(shop: World) -> None:
    """As uv and pyenv make them: the interpreter lies below HOME."""
    installed = shop.folder / "home/share/pythons/3.9"
    give_program(installed / "bin/checked3.9", 'exec python3 "$@"')
    checked = shop.checkout / ".venv/bin/checked"
    checked.unlink()
    checked.symlink_to(installed / "bin/checked3.9")
    done = run(shop, tier_or_skip("namespaces"))
    assert shop.result["outcome"] == "MR_CREATED", done.log


@pytest.mark.parametrize(("place", "passed"), [("{shop}/.venv", True), ("{shop}", False)])
def test_the_variable_of_an_activated_environment_is_passed(
    shop: World, place: str, passed: bool
) -> None:
    """uv and poetry go by it; only that of an environment whose programs count."""
    where = place.format(shop=shop.checkout)
    told = f'[ "$VIRTUAL_ENV" = "{where if passed else ""}" ] || exit 1\nexec python3 "$@"'
    give_program(shop.checkout / ".venv/bin/checked", told)
    done = run(shop, tier_or_skip("namespaces"), VIRTUAL_ENV=where)
    assert shop.result["outcome"] == "MR_CREATED", done.log
