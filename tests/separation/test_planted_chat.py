"""Code planted in the chat's service gets nothing beyond its row."""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from gitlab_nightshift.sandbox.inside import landlock
from tests.chat.tools import environment
from tests.separation import attempts
from tests.support.listeners import listening

ROOT = Path(__file__).parents[2]
SERVICE = """
import argparse, json, os, sys
from dataclasses import replace

from tests.separation import attempts
from tests.support.plant import plant
from gitlab_nightshift.commands import chat

places = attempts.Places(**json.loads(sys.argv[1]))
places = replace(places, groups=attempts.find_groups(places))
if sys.argv[2] == "open":
    plant("sandbox.privilege_drop:restrict_to", lambda *_: None)
    del attempts.OTHERS["a process that stays"]  # nobody would end it here
plant("chat.server:serve", lambda *_: print(json.dumps(attempts.everything(places))))
chat.serve_discord(argparse.Namespace(register=False, listen="127.0.0.1:0"), dict(os.environ))
"""
ROW = {
    *("its own values", "its own memory", "its own environ"),
    *("a connection to GitLab", "a datagram", "a server"),
}


def got(folder: Path, port: int, how: str) -> set[str]:
    """What the code gets in the process of the command."""
    for name in ("shop.tmp/CI_JOB_TOKEN", "shop/.git/config", "home/.netrc", "home/.bashrc"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("in-the-" + "real-configuration a-password-" + "at-home")
    installation = str(ROOT / "gitlab_nightshift")
    known = (str(folder / "shop"), str(folder / "home"), "no-entry", installation, "nobody", "")
    places = attempts.Places(*known, str(folder), port=port)
    env = {**environment(), "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-c", SERVICE, json.dumps(asdict(places)), how]
    said = subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout
    return {name for name, text in json.loads(said).items() if text}


@pytest.mark.skipif(landlock.read_abi() < 6, reason="older kernels hold less")
def test_it_gets_nothing_beyond_its_row(tmp_path: Path) -> None:
    with listening() as there:
        assert got(tmp_path, there.port, "kept") - ROW == set()
        control = got(tmp_path, there.port, "open")
    assert {"reading HOME", "writing HOME", "modes outside"} <= control
