"""Whole nights with real starts on machines that can do less: how their work is confined then."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitlab_nightshift.sandbox.tiers import WORK_READERS
from tests.nights_sandbox.test_plain_user import open_folder
from tests.support.sandboxes import NEEDS_ROOT, read_row, scripted, tier_or_skip, with_agent
from tests.support.world import PROVING, ROOT, World, world

__all__ = ["open_folder"]
ENTRY = """import sys
from pathlib import Path

sys.path.append({root!r})
from gitlab_nightshift import sealed_entry, sealed_start

def run(data, real=sealed_entry.run_stage):
    weaken()
    return real(data)

def weaken():
    sealed_start.ENTRY = Path(__file__)
    {change}

sealed_entry.run_stage = run
weaken()
sys.exit(sealed_entry.enter())
"""
START = """import sys

sys.path.insert(0, {root!r})
from pathlib import Path
from gitlab_nightshift import cli, sealed_start

sealed_start.ENTRY = Path({entry!r})
sys.argv[0] = "nightshift"
cli.main()
"""
NO_NESTING = """#!/bin/sh
case " $* " in *" own_proc "*) echo "bwrap: not within another" >&2; exit 1 ;; esac
exec bwrap "$@"
"""
OLDER_LANDLOCK = "import gitlab_nightshift.sandbox.inside.landlock as its; its.read_abi = lambda: 5"
NO_LANDLOCK = "import gitlab_nightshift.sandbox.inside.landlock as its; its.read_abi = lambda: 0"

pytestmark = NEEDS_ROOT


@pytest.fixture
def shop(open_folder: Path) -> Iterator[World]:
    with world(open_folder, config=PROVING) as made:
        yield made


def weaken(shop: World, change: str) -> None:
    """Have all processes of its commands begin with this change."""
    entry, start = shop.folder / "entry.py", shop.folder / "start.py"
    entry.write_text(ENTRY.format(root=str(ROOT), change=change))
    start.write_text(START.format(root=str(ROOT), entry=str(entry)))
    shop.python = shop.folder / "python"  # for python -P -m gitlab_nightshift …
    shop.python.write_text(f'#!/bin/sh\nshift 3\nexec {sys.executable} {start} "$@"\n')
    shop.python.chmod(0o755)


def without_nesting(shop: World) -> str:
    """The change for a machine on which no sandbox starts within another."""
    tier_or_skip("namespaces")
    (shop.folder / "bwrap").write_text(NO_NESTING)
    (shop.folder / "bwrap").chmod(0o755)
    found = f"lambda: {str(shop.folder / 'bwrap')!r}"
    return f"import gitlab_nightshift.sandbox.bwrap as own; own.find = {found}"


def test_where_no_sandbox_starts_within_another_work_keeps_its_files(shop: World) -> None:
    """Agents are in namespaces, and what starts them has to mount."""
    weaken(shop, without_nesting(shop))
    path = with_agent(shop, "scripted", scripted("echo '# x' >> test_shop.py"))
    done = shop.nightshift("run", NIGHTSHIFT_ISOLATION="auto", PATH=path)
    assert (done.exit_status, shop.result["outcome"]) == (0, "MR_CREATED"), done.log
    assert shop.result["isolation"].startswith("namespaces")
    row = read_row(shop, WORK_READERS)
    assert (row["state"], "scopes: " in row["how"]) == ("partial", True)
    shop.assert_restored()


def test_where_landlock_is_older_agents_get_a_tier_that_mounts_nothing(shop: World) -> None:
    """By itself their sandbox in namespaces works, but not once work has given up its files."""
    weaken(shop, f"{without_nesting(shop)}; {OLDER_LANDLOCK}")
    path = with_agent(shop, "scripted", scripted("echo '# x' >> test_shop.py"))
    accepted = {"NIGHTSHIFT_ACCEPT_PARTIAL": "files,secrets,network,lifetime"}
    done = shop.nightshift("run", NIGHTSHIFT_ISOLATION="auto", PATH=path, **accepted)
    assert (done.exit_status, shop.result["outcome"]) == (0, "MR_CREATED"), done.log
    assert shop.result["isolation"].split()[0] == "uid"
    assert "landlock" in read_row(shop, WORK_READERS)["how"]
    shop.assert_restored()


def test_where_nothing_confines_it_the_night_does_not_begin(shop: World) -> None:
    """Without Landlock the tier also leaves files readable, which is accepted here."""
    weaken(shop, NO_LANDLOCK)
    path = with_agent(shop, "scripted", scripted("true"))
    accepted = {"NIGHTSHIFT_ACCEPT_PARTIAL": "files"}
    done = shop.nightshift("run", NIGHTSHIFT_ISOLATION="uid", PATH=path, **accepted)
    assert (done.exit_status, shop.result["error_code"]) == (3, "E_POLICY_DENY"), done.log
    why = "what reads agents' work is not confined (isolation: uid has to move .git; Landlock is"
    assert why in shop.result["reason"]
    assert "accept it with accept_partial: [" in shop.result["reason"]
    assert shop.result["beads"] == []
    shop.assert_restored()
