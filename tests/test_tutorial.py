"""The commands of docs/tutorial.md do what the page says."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).parents[1] / "docs/tutorial.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^```(sh|text)\n(.*?)^```", PAGE, re.M | re.S)
NEXT = "--- next ---"


def test_the_tutorial_prints_what_it_shows(tmp_path: Path) -> None:
    person = {
        f"GIT_{who}_{what}": "me@example.org"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    env = {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(tmp_path),
        **person,
    }
    script = "set -e\n" + "".join(
        text if kind == "sh" else f"echo '{NEXT}'\n" for kind, text in COMMANDS
    )
    done = subprocess.run(
        ["sh", "-c", script],
        check=False,
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    printed = done.stdout.split(f"{NEXT}\n")
    shown = [text for kind, text in COMMANDS if kind == "text"]
    assert len(printed) == len(shown) + 1
    missing = [
        line
        for said, text in zip(printed, shown, strict=False)
        for line in text.splitlines()
        if line not in said
    ]
    assert missing == []
