"""A whole night with the real CLI as a plain user, where the tests run as root."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.model_endpoint import ModelEndpoint
from tests.support.shop import BEADS, REALLY, turns
from tests.support.trees import places_of
from tests.support.world import PROVING, ROOT, SECRETS, world

PLAIN = 1001
LIBRARIES = ":".join(path for path in sys.path if path.endswith("site-packages"))


def python_of_a_plain_user() -> Path | None:
    """An interpreter that another user can start, with this project's libraries."""
    own = (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3")
    for program in own:
        env = {"PYTHONPATH": f"{ROOT}:{LIBRARIES}", "HOME": "/"}
        argv = [program, "-c", "import gitlab_nightshift.stages, gitlab, pydantic, yaml"]
        try:
            done = subprocess.run(
                argv, user=PLAIN, group=PLAIN, extra_groups=[], env=env, cwd="/", check=False
            )
        except OSError:
            continue
        if done.returncode == 0:
            return Path(program)
    return None


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody can enter, which pytest's own is not."""
    folder = Path(tempfile.mkdtemp(prefix="night-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become somebody else")
def test_a_night_as_a_plain_user(open_folder: Path) -> None:
    python = python_of_a_plain_user()
    if python is None:
        pytest.skip("no interpreter here that a plain user can start")
    with (
        world(open_folder, REALLY, config=PROVING, layout="url") as shop,
        ModelEndpoint(turns(shop.checkout), bead_of=BEADS) as endpoint,
    ):
        for name in ("builds", "home", "tmp", "agent"):
            for path in (open_folder / name, *(open_folder / name).rglob("*")):
                os.lchown(path, PLAIN, PLAIN)
        shop.python, shop.user = python, PLAIN
        shop.agent.played_by(python)
        shop.env["PYTHONPATH"] += f":{LIBRARIES}"

        done = shop.nightshift("run", ANTHROPIC_BASE_URL=endpoint.url)

        assert (done.exit_status, done.stderr) == (0, "")
        assert endpoint.unscripted == []
        [mr] = shop.merge_requests
        assert done.last_line.startswith(f"✔ MR_CREATED · {mr.web_url} · ")
        assert [bead.name for bead in shop.agent.seen] == [f"{bead}-tests-1" for bead in REALLY]
        assert {path.stat().st_uid for path in shop.checkout.rglob("*")} == {PLAIN}
        assert places_of(SECRETS, shop.agent.texts) == []
        shop.assert_put_back()
