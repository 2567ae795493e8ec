"""The documentation as a site: every link and anchor holds, and no page is left out."""

import os
import subprocess
import sys
from pathlib import Path

from ci.site.pictures import DOCS, list_words
from gitlab_nightshift.commands import COMMANDS

ROOT = Path(__file__).parents[1]


def test_the_site_is_built_with_the_pages_made_from_the_code(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, check=False, cwd=ROOT, env=env, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    commands = (tmp_path / "commands/index.html").read_text(encoding="utf-8")
    assert commands.count(">nightshift ") > len(COMMANDS)
    assert "run_ended" in (tmp_path / "events/index.html").read_text(encoding="utf-8")
    assert "MR_CREATED" in (tmp_path / "demo/index.html").read_text(encoding="utf-8")
    assert "test-deleted" in (tmp_path / "flags/index.html").read_text(encoding="utf-8")
    assert (tmp_path / "settings.schema.json").read_text(encoding="utf-8").startswith("{")
    assert "https://" not in _list_loaded((tmp_path / "index.html").read_text(encoding="utf-8"))
    for name in ("night.svg", "merge-request.svg"):  # of another night: `make pictures`
        drawn, kept = (
            list_words((folder / name).read_text(encoding="utf-8")) for folder in (tmp_path, DOCS)
        )
        assert drawn == kept


def _list_loaded(page: str) -> str:
    """What a browser would fetch for a page."""
    return " ".join(each for each in page.split("<") if "src=" in each or "stylesheet" in each)
