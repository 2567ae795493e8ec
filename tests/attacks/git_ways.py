"""The two ways in which a git attack is met, each to its end: a real push over HTTP.

``defended`` is this program's whole way, ``careless`` what programs do that run git in the agent's
tree.
"""

import contextlib
import dataclasses
import os
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.gitlab.project import open_project
from gitlab_nightshift.job.job_facts import read_job
from gitlab_nightshift.records.bead_results import AnalysisResult, Draft, Verdict
from gitlab_nightshift.records.products import Bundle, Outcome, Proposal, Publication
from gitlab_nightshift.records.storage import write_record
from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.repository.capture import CapturedChange
from gitlab_nightshift.repository.checkout import Checkout, open_checkout
from gitlab_nightshift.repository.git import Git, build_isolated_git
from gitlab_nightshift.repository.known_checkout import KnownCheckout
from gitlab_nightshift.stages.publish.publish_context import (
    PublishContext,
    SourceCheckout,
    read_source,
)
from gitlab_nightshift.stages.publish.publish_stage import publish
from tests.attacks.checkout_attacks import CheckoutAttack
from tests.attacks.git_world import (
    BARE_ENV,
    HONEST,
    ME,
    Gains,
    Game,
    blob_name,
    configure,
    improve,
    run_git,
)
from tests.support.publish_session import build_session
from tests.support.trees import assert_same, whole_tree
from tests.support.world import BOT_TOKEN, JOB_TOKEN, World

ANSWERS = '!f() { echo username=oauth2; echo "password=$GITLAB_TOKEN"; }; f'
REDACT = Redactor((BOT_TOKEN, JOB_TOKEN))


# --- this program's way ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Defended:
    """One attack on a night: what was captured, or refused, and the bytes in the tree then."""

    game: Game
    attack: CheckoutAttack
    captured: CapturedChange
    tree: dict[str, bytes]

    @property
    def kind(self) -> tuple[object, ...]:
        """Equal for attacks that lead to the same result but for the name of their game."""
        patch = self.captured.patch
        for data in self.tree.values():
            patch = patch.replace(blob_name(data).encode(), b"a blob")
        home = whole_tree(self.game.places.home)
        return patch.replace(self.game.name.encode(), b"a name"), tuple(home.items())


@dataclass
class Night:
    """This program's way over one checkout, which as many agents as one likes attack in turn."""

    world: World
    private: Path
    git: Git
    source: SourceCheckout

    def publish(self, done: Defended) -> Publication:
        """Bundle and push. Raises NightshiftError where it is refused."""
        name = done.game.name
        bundle = self.private / f"bundle-{name}"
        _write_bundle(done.game, done.captured, bundle)
        job = read_job({**self.world.env, "CI_PIPELINE_ID": name})
        context = PublishContext(
            session=build_session(
                self.world.checkout,
                self.private,
                dataclasses.replace(job, commit_sha=self.world.sha),
                self.git,
                lambda _event: None,
            ),
            project=open_project(job.server_url, job.project_id, BOT_TOKEN),
            source=self.source,
        )
        move_in(done.game)
        return publish(bundle, context)


def move_in(game: Game) -> None:
    """Point HOME at what this game's attacker has made of it."""
    home = Path(os.environ["HOME"])
    home.unlink(missing_ok=True)
    home.symlink_to(game.places.home)


def defended(
    games: Iterable[tuple[Game, CheckoutAttack]], world: World, checkout: Path, private: Path
) -> tuple[Night, list[Defended], list[str]]:
    """Open once; for each attack: the honest change, the attack, capture, apply. With the failures.

    Each finds the tree and the throw-away ``.git`` put back, as an agent's next bead does. In the
    end the checkout with its real ``.git`` is as before, byte for byte.
    """
    before = whole_tree(checkout)
    private.mkdir(mode=0o700)
    git = build_isolated_git(private / "home", os.environ["PATH"])
    night = Night(world, private, git, read_source(KnownCheckout(git, git, checkout)))
    done, failures = list[Defended](), list[str]()
    with open_checkout(
        checkout,
        output_dir="nightshift",
        private=private,
        search_path=os.environ["PATH"],
        run_id="attacked",
        warn=failures.append,
    ) as opened:
        for game, attack in games:
            with noted(failures, game.name):
                done.append(_attacked(opened, game, attack))
    assert_same(whole_tree(checkout), before)
    return night, done, failures


@contextlib.contextmanager
def noted(failures: list[str], name: str) -> Iterator[None]:
    """Keep a failure with the attack's name, and go on with the others."""
    try:
        yield
    except (AssertionError, NightshiftError, OSError) as error:
        failures.append(f"{name}: {error}")


def _attacked(checkout: Checkout, game: Game, attack: CheckoutAttack) -> Defended:
    checkout.restore()
    game.evil.seen.clear()
    move_in(game)
    improve(game)
    attack.attempt(game.checkout, game.places)
    captured = checkout.capture()
    tree = bytes_of(game.checkout)
    assert checkout.apply_change(captured) == ()
    assert game.gains().names == frozenset(), game.gains().detail
    assert captured.refusals or bytes_of(game.checkout) == tree, (
        "what was applied is not what was captured"
    )
    return Defended(game, attack, captured, tree)


def bytes_of(checkout: Path) -> dict[str, bytes]:
    """All plain files but those of ``.git``, as they are."""
    files = (p for p in checkout.rglob("*") if p.is_file() and not p.is_symlink())
    named = ((str(path.relative_to(checkout)), path) for path in files)
    return {name: path.read_bytes() for name, path in named if name.split("/")[0] != ".git"}


def _write_bundle(game: Game, captured: CapturedChange, folder: Path) -> None:
    proposal = Proposal(
        change=captured.build_proposed(),
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
    """The difference that the program looked at, where it wanted to push, and what was in the
    tree."""

    shown: str
    branch: str
    tree: dict[str, bytes]


def careless(game: Game, attack: CheckoutAttack) -> Gains:
    """The same deed on the real ``.git``, then add, diff, commit and push in the agent's tree.

    It ends as soon as all is lost that the attack is after.
    """
    refs = game.refs()
    configure(game.checkout, "gc.auto", "0")
    run_git(game.checkout, "config", "--file", ".git/config", "--unset-all", "include.path")
    improve(game)
    attack.attempt(game.checkout, game.places)
    ask = game.places.loot.parent / "askpass"
    ask.write_text('#!/bin/sh\ncase $1 in U*) echo oauth2 ;; *) echo "$GITLAB_TOKEN" ;; esac\n')
    ask.chmod(0o755)
    env = {**BARE_ENV, "HOME": str(game.places.home), "GITLAB_TOKEN": BOT_TOKEN}
    helper: Sequence[str] = ("-c", f"credential.helper={ANSWERS}")
    if attack.token_by == "ssh_askpass":
        env, helper = {**env, "SSH_ASKPASS": str(ask)}, ()
    branch = f"refs/heads/careless/{game.name}"
    tree, shown = bytes_of(game.checkout), ""
    for args in (
        ("add", "-A"),
        ("status", "--short"),
        ("diff", "--cached"),
        (*ME, "commit", "-q", "-m", "Improve"),
        (*helper, "push", "-q", "origin", f"HEAD:{branch}"),
    ):
        said = _careless_git(game, env, *args)
        shown = said if "diff" in args else shown
        if not attack.held_by_git and game.gains().names.issuperset(attack.gains):
            return game.gains()
    return _all_gains(game, Careless(shown, branch, tree), refs, attack.also)


def _careless_git(game: Game, env: dict[str, str], *args: str) -> str:
    """A failure is the attacker's gain, not the test's."""
    argv = ["git", "-C", str(game.checkout), *args]
    done = subprocess.run(
        argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=300
    )
    return os.fsdecode(done.stdout)


def _all_gains(game: Game, done: Careless, before: dict[str, str], also: Sequence[str]) -> Gains:
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
    return Gains(found.names | {name for name, holds in true.items() if holds}, found.detail)
