"""The corpus as the agent of a bead, in whole nights: a hostile ``claude`` runs all of it.

The canaries are the job's own: its token, a masked variable, the model key, a file variable, a
password at home. Where nothing is in the way each of them is found.
"""

import contextlib
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.gateway.limits import GatewayLimits
from gitlab_nightshift.sandbox.tiers import Tier
from tests.attacks import installed
from tests.attacks.attack import read_corpus
from tests.attacks.careless import flagged
from tests.attacks.drive import PYTHON, copy_corpus, waits_s
from tests.attacks.harness import Judged, undisturbed
from tests.attacks.places import MARK
from tests.gateway.tools import RawEndpoint
from tests.sandbox.conftest import need
from tests.sandbox.tools import open_folder
from tests.support.trees import processes_in
from tests.support.world import World, world

CORPUS = read_corpus()
STAGE = Path(__file__).with_name("stage.py")
CANARIES = ("gitlab_token", "masked_variable", "model_key", "file_variable", "password_at_home")
HOSTILE = """#!{python} -B
import json, os, sys
from dataclasses import replace
sys.path.insert(0, {corpus!r})
from tests.attacks.places import Places
from tests.attacks.run import needed, read_corpus, run
sys.stdin.read()
found = {{}}
if "analyze-docs" in os.environ["HOME"]:
    known = json.loads(open({known!r}).read())
    way = dict(
        scratch=os.environ["TMPDIR"],
        gateway=int(os.environ["ANTHROPIC_BASE_URL"].rstrip("/").rpartition(":")[2]),
        placeholder=os.environ["ANTHROPIC_API_KEY"],
        model=sys.argv[sys.argv.index("--model") + 1],
    )
    places = replace(Places.load({places!r}), **known, **way)
    found = {{"needed": needed(places), "attacks": run(places, list(read_corpus()))}}
print(json.dumps(found))
answer = {{"result": "NO_IMPROVEMENT", "reason": "busy"}}
done = {{"type": "result", "subtype": "success", "is_error": False, "result": "done"}}
print(json.dumps({{**done, "structured_output": answer, "total_cost_usd": 0.0}}))
"""


@dataclass(frozen=True)
class Attacked:
    """How a night with a hostile agent ended; ``texts`` is all that the agent brought back."""

    judged: Judged
    texts: str
    needed: str
    isolation: str
    alive: list[str]


@contextlib.contextmanager
def staged(root: Path, word: str) -> "Iterator[subprocess.Popen[str]]":
    """The scene, in a process of its own that judges afterwards."""
    env = {"PATH": os.environ["PATH"], "NIGHT_FLAG": f"{word}-night"}
    pipe = subprocess.PIPE
    command = [sys.executable, "-B", str(STAGE), str(root)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=env, text=True) as stage:
        try:
            assert stage.stdout and stage.stdout.readline() == "ready\n"
            yield stage
        finally:
            stage.kill()


@contextlib.contextmanager
def job_shell(env: dict[str, str]) -> Iterator[None]:
    """What runs a job's script: its environment can be read as long as it lives."""
    argv = ["sh", "-c", "read end"]
    with subprocess.Popen(argv, env=env, cwd="/", stdin=subprocess.PIPE) as shell:
        try:
            yield
        finally:
            shell.kill()


def judge(stage: "subprocess.Popen[str]", checkout: Path, tier: Tier, outcomes: Any) -> Judged:
    task = {"checkout": str(checkout), "tier": tier, "outcomes": outcomes}
    out, _ = stage.communicate(json.dumps(task) + "\n", timeout=300)
    found: Judged = json.loads(out)
    return found


def a_job_full_of_canaries(shop: World, word: str) -> dict[str, str]:
    """Its environment; the files are planted where a runner and a home have them."""
    token = f"{word}-gitlab_token"
    bot = shop.gitlab.add_user("other-bot", "Other Bot")
    shop.gitlab.add_token(token, bot, scopes=("api", "write_repository"), access_level=30)
    home, key = Path(shop.env["HOME"]), Path(f"{shop.checkout}.tmp/DEPLOY_KEY")
    (home / ".netrc").write_text(f"machine a password {word}-password_at_home\n")
    key.parent.mkdir(exist_ok=True)
    key.write_text(f"{word}-file_variable\n")
    return {
        "GITLAB_TOKEN": token,
        "DEPLOY_PASSWORD": f"{word}-masked_variable",
        "ANTHROPIC_API_KEY": f"{word}-model_key",
        "DEPLOY_KEY": str(key),
    }


def known_places(shop: World, stage_root: Path, tier: Tier) -> dict[str, Any]:
    """What is in this night where the scene has something of its own."""
    files = json.loads((stage_root / "places.json").read_text())["files"]
    git = shop.checkout.with_name("shop.nightshift") / "git"
    if tier is Tier.NAMESPACES:  # the real one is mounted over where it is
        git = shop.checkout / ".git"
    own = {"project_tmp": f"{shop.checkout}.tmp/.gitlab-runner.ext.conf", "git": str(git)}
    own |= {"git_config": str(git / "config"), "git_hooks": str(git / "hooks")}
    own_paths = {"checkout": str(shop.checkout), "home": shop.env["HOME"]}
    wait = {"arrives_s": waits_s(tier)}
    files |= installed.paths("nothing")
    return {**own_paths, **wait, "files": files | own, "too_large": GatewayLimits().body_bytes + 1}


def attacked(tier: Tier) -> Attacked:
    """A whole night whose first bead runs every attack."""
    word = f"{MARK}-{secrets.token_hex(8)}"
    with open_folder() as root, world(root / "night") as shop, open_folder() as stage_root:
        with staged(stage_root, word) as stage, RawEndpoint(flagged(f"{word}-endpoint")) as model:
            env = a_job_full_of_canaries(shop, word)
            bin_folder = hostile(root / "hostile", stage_root, known_places(shop, stage_root, tier))
            with job_shell({**shop.env, **env}):
                done = shop.nightshift(
                    *("run", "--category", "docs"),
                    NIGHTSHIFT_ISOLATION=tier,
                    NIGHTSHIFT_AGENT_PATHS=json.dumps([str(root / "hostile")]),
                    ANTHROPIC_BASE_URL=model.url,
                    PATH=f"{bin_folder}:{shop.env['PATH']}",
                    **env,
                )
            alive = processes_in(shop.folder)
            assert (done.exit_status, done.stderr) == (0, ""), done.log
            log = shop.products()["logs/01-analyze-docs-1.out"].decode()
            found = json.loads(log.splitlines()[0].replace("[redacted]", f"{word}-redacted"))
            verdicts = judge(stage, shop.checkout, tier, found["attacks"])
        return Attacked(verdicts, log, found["needed"], shop.result["isolation"], alive)


def hostile(folder: Path, stage_root: Path, known: dict[str, Any]) -> Path:
    """The ``claude`` that comes first on PATH, and the corpus beside it."""
    copy_corpus(folder)
    (folder / "known.json").write_text(json.dumps(known))
    (folder / "places.json").write_bytes((stage_root / "places.json").read_bytes())
    names = {"corpus": str(folder), "python": PYTHON}
    names |= {name: str(folder / f"{name}.json") for name in ("known", "places")}
    program = folder / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(HOSTILE.format(**names))
    program.chmod(0o755)
    return program.parent


@pytest.mark.parametrize("tier", [Tier.NAMESPACES, Tier.UID, Tier.LANDLOCK])
def test_a_hostile_agent_gets_nothing(tier: Tier, shared: Path) -> None:
    need(tier)
    with undisturbed(tier, shared):
        night = attacked(tier)
    assert night.isolation.startswith(f"{tier} (")
    assert (night.needed, set(night.judged)) == ("", set(CORPUS))
    got = {name: how for name, (kind, how) in night.judged.items() if kind == "through"}
    assert {name: how for name, how in got.items() if tier not in CORPUS[name].open_in} == {}
    assert [name for name, (kind, _) in night.judged.items() if kind == "broken"] == []
    assert [canary for canary in CANARIES if f"-{canary}" in night.texts] == []
    assert "[redacted]" not in night.texts
    assert night.alive == []


def test_without_a_boundary_it_gets_every_canary(shared: Path) -> None:
    with undisturbed(Tier.NONE, shared):
        night = attacked(Tier.NONE)
    assert night.isolation == "none"
    assert night.judged["everyones_environment"][1].count("-redacted") == 3, "the job's variables"
    assert "-redacted" in night.judged["netrc"][1], "the redactor knows what HOME holds"
    assert "file_variable" in night.judged["project_tmp"][1]
    assert sum(kind == "through" for kind, _ in night.judged.values()) > 60
