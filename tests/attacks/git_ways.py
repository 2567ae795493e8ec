"""The two ways in which a git attack is met, each to its end: a real push over HTTP.

``defended`` is this program's whole way, ``careless`` what programs do that run git in the agent's
tree.
"""

import dataclasses
import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.gitlab import open_project
from gitlab_nightshift.host.changes import Captured
from gitlab_nightshift.host.checkout import open_checkout
from gitlab_nightshift.host.git import pristine
from gitlab_nightshift.publish import Desk, publish, read_source
from gitlab_nightshift.records import (
    AnalysisResult,
    Bundle,
    Draft,
    Outcome,
    Proposal,
    Published,
    Verdict,
    write_record,
)
from gitlab_nightshift.redaction import Redactor
from gitlab_nightshift.settings import Settings, read_job
from tests.attacks.git_world import (
    BARE_ENV,
    HONEST,
    ME,
    Gains,
    Game,
    Places,
    configure,
    improve,
    run_git,
)
from tests.support.trees import Tree, assert_same, whole_tree
from tests.support.world import BOT_TOKEN, JOB_TOKEN

ANSWERS = '!f() { echo username=oauth2; echo "password=$GITLAB_TOKEN"; }; f'
Attack = Callable[[Path, Places], None]
REDACT = Redactor((BOT_TOKEN, JOB_TOKEN))


# --- this program's way ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Defended:
    """How it went: what was refused, or what was captured and published, and the bytes in the tree
    at that time."""

    captured: Captured
    published: Published | None
    tree: dict[str, bytes]


def defended(game: Game, attack: Attack, private: Path) -> Defended:
    """Open, attack, capture, lay, bundle, publish. Raises NightshiftError where it is refused.

    However it goes, the checkout with its ``.git`` is as before then, byte for byte.
    """
    before = whole_tree(game.checkout)
    try:
        return _defended(game, attack, private, before)
    finally:
        assert_same(whole_tree(game.checkout), before)


def _defended(game: Game, attack: Attack, private: Path, before: Tree) -> Defended:
    private.mkdir(mode=0o700)
    git = pristine(private / "home", os.environ["PATH"])
    source = read_source(git, game.checkout)
    with open_checkout(
        game.checkout,
        output_dir="nightshift",
        private=private,
        search_path=os.environ["PATH"],
        run_id=game.name,
        warn=print,
    ) as checkout:
        improve(game)
        attack(game.checkout, game.places)
        captured = checkout.change()
        tree = bytes_of(game.checkout)
        checkout.lay(captured)
    assert_same(whole_tree(game.checkout), before)
    if captured.refusals:
        return Defended(captured, None, tree)
    bundle = private / "bundle"
    _write_bundle(game, captured, bundle)
    env = {**game.world.env, "CI_PIPELINE_ID": game.name}
    job = read_job(env)
    desk = Desk(
        settings=Settings.model_validate({}),
        job=dataclasses.replace(job, commit_sha=game.world.sha),
        project=open_project(job.server_url, job.project_id, BOT_TOKEN),
        token=BOT_TOKEN,
        git=git,
        source=source,
        private=private,
        redact=REDACT,
        emit=lambda _event: None,
    )
    published = publish(bundle, desk)
    return Defended(captured, published, tree)


def bytes_of(checkout: Path) -> dict[str, bytes]:
    """All plain files but those of ``.git``, as they stand."""
    files = (p for p in checkout.rglob("*") if p.is_file() and not p.is_symlink())
    named = ((str(path.relative_to(checkout)), path) for path in files)
    return {name: path.read_bytes() for name, path in named if name.split("/")[0] != ".git"}


def _write_bundle(game: Game, captured: Captured, folder: Path) -> None:
    proposal = Proposal(
        change=captured.summary(),
        category="tests",
        is_fallback=False,
        analysis=AnalysisResult("IMPROVEMENT_FOUND"),
        draft=Draft(title="Test the discount", summary="It was not.", branch_slug=game.name),
        verdict=Verdict(True),
    )
    bundle = Bundle(
        run_id=game.name,
        created_at="2026-11-16T01:23:45+00:00",
        base_sha=game.world.sha,
        target_branch="main",
        outcome=Outcome.MR_READY,
        category_used="tests",
        proposal=proposal,
    )
    folder.mkdir()
    write_record(folder / "bundle.json", bundle)
    (folder / "change.patch").write_bytes(captured.patch)


# --- a careless program's way ---------------------------------------------------------------------


@dataclass(frozen=True)
class Careless:
    """The difference that the program looked at, where it wanted to push, and what stood in the
    tree."""

    shown: str
    branch: str
    tree: dict[str, bytes]


def careless(game: Game, attack: Attack, token_by: str) -> Careless:
    """The same deed on the real ``.git``, then add, diff, commit and push in the agent's tree.

    ``token_by``: ``helper`` (a credential helper of the program's own) or ``ssh_askpass``.
    """
    configure(game.checkout, "gc.auto", "0")
    run_git(game.checkout, "config", "--file", ".git/config", "--unset-all", "include.path")
    improve(game)
    attack(game.checkout, game.places)
    ask = game.places.loot.parent / "askpass"
    ask.write_text('#!/bin/sh\ncase $1 in U*) echo oauth2 ;; *) echo "$GITLAB_TOKEN" ;; esac\n')
    ask.chmod(0o755)
    env = {**BARE_ENV, "HOME": str(game.places.home), "GITLAB_TOKEN": BOT_TOKEN}
    helper: Sequence[str] = ("-c", f"credential.helper={ANSWERS}")
    if token_by == "ssh_askpass":
        env, helper = {**env, "SSH_ASKPASS": str(ask)}, ()
    branch = f"refs/heads/careless/{game.name}"
    tree = bytes_of(game.checkout)
    _careless_git(game, env, "add", "-A")
    _careless_git(game, env, "status", "--short")
    shown = _careless_git(game, env, "diff", "--cached")
    _careless_git(game, env, *ME, "commit", "-q", "-m", "Improve")
    _careless_git(game, env, *helper, "push", "-q", "origin", f"HEAD:{branch}")
    return Careless(shown, branch, tree)


def _careless_git(game: Game, env: dict[str, str], *args: str) -> str:
    """A failure is the attacker's gain, not the test's."""
    argv = ["git", "-C", str(game.checkout), *args]
    done = subprocess.run(
        argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=300
    )
    return os.fsdecode(done.stdout)


def careless_gains(
    game: Game, done: Careless, before: dict[str, str], also: Sequence[str] = ()
) -> Gains:
    """What a careless program gave away: also other content, or none, under its name."""
    found, refs = game.gains(), game.refs()
    pushed = game.files_of(refs[done.branch]) if done.branch in refs else {}
    true = {
        "change lost": not pushed,
        "other refs": bool(refs.keys() - before.keys() - {done.branch}),
    }
    if pushed:
        pushes = (each for each in game.world.project.pushes if each.ref == done.branch)
        true |= {
            "other content": pushed != {path: done.tree.get(path) for path in (*HONEST, *also)},
            "other history": game.parents_of(done.branch) != [game.places.base],
            "not shown": any(f"+++ b/{path}" not in done.shown for path in pushed),
            "push options": any(push.options for push in pushes),
        }
    return Gains(found.names | {name for name, holds in true.items() if holds}, found.told)
