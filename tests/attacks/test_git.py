"""Git attacks: each file of ``git/`` ends with a real push, defended and careless."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.records.products import Publication
from tests.attacks.checkout_attacks import CheckoutAttack, list_git_attacks
from tests.attacks.git_ways import Defended, Night, careless, defended, noted
from tests.attacks.git_world import (
    HONEST,
    Evil,
    Game,
    copied_checkout,
    evil_server,
    new_game,
    run_git,
)
from tests.support.world import BOT_TOKEN, JOB_TOKEN, World, world

NONE = CheckoutAttack(lambda _checkout, _places: None, "", ("nothing",))
"""Without an attack: so the attacks are what makes a careless program lose."""
ATTACKS = {"none": NONE} | list_git_attacks()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("world"), depth=5) as made:
        yield made


@pytest.fixture(scope="module")
def evil() -> Iterator[Evil]:
    with evil_server() as made:
        yield made


def test_they_gain_nothing(
    shop: World, evil: Evil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All in one checkout; what comes to the same change and the same HOME is pushed once."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    checkout = copied_checkout(shop, tmp_path)
    attacks = {name.replace("_", "-"): attack for name, attack in ATTACKS.items()}
    games = [
        (new_game(shop, evil, checkout, tmp_path / name, name), attack)
        for name, attack in attacks.items()
    ]
    night, captured, failures = defended(games, shop, checkout, tmp_path / "private")
    for done in {each.kind: each for each in reversed(captured)}.values():
        with noted(failures, done.game.name):
            _assert_published(night, done)
    with noted(failures, "all"):
        _assert_credentials_went_to_the_project_alone(games[0][0])
    assert failures == []
    assert len(captured) == len(attacks)


def _assert_published(night: Night, done: Defended) -> None:
    game, refs = done.game, done.game.refs()
    game.evil.seen.clear()
    published, said = None, " ".join(map(str, done.captured.refusals))
    if not said:
        try:
            published = night.publish(done)
        except NightshiftError as error:
            said = error.message
    assert game.gains().names == frozenset(), game.gains().detail
    refusal = done.attack.refused
    if refusal or not published:
        assert refusal and refusal in said, f"refused: {said}"
        assert game.refs() == refs
        return
    _assert_pushed_what_stood_in_the_tree(done, published, refs)


def _assert_credentials_went_to_the_project_alone(game: Game) -> None:
    offered = {(each.kind, each.secret) for each in game.world.gitlab.credentials_seen}
    assert offered <= {("private-token", BOT_TOKEN), ("basic", BOT_TOKEN)}
    asked = {each.path for each in game.world.gitlab.requests if ".git/" in each.path}
    assert all(path.startswith("/acme/shop.git/") for path in asked)
    assert JOB_TOKEN not in str(game.world.gitlab.requests)


def _assert_pushed_what_stood_in_the_tree(
    done: Defended, published: Publication, refs: dict[str, str]
) -> None:
    game = done.game
    branch = f"refs/heads/night-shift/{game.name}"
    assert game.refs() == {**refs, branch: published.commit_sha}
    assert game.parents_of(branch) == [game.places.base]
    pushed = game.files_of(branch)
    assert pushed == {path: done.tree[path] for path in (*HONEST, *done.attack.also)}
    shown = run_git(
        game.bare, "diff-tree", "-p", "--binary", "--full-index", game.places.base, branch
    )
    assert shown == os.fsdecode(done.captured.patch).strip(), "what was judged is what was pushed"
    [push] = [each for each in game.world.project.pushes if each.ref == branch]
    assert push.options == ()


@pytest.mark.parametrize("name", ATTACKS)
def test_a_careless_program_loses(name: str, shop: World, evil: Evil, tmp_path: Path) -> None:
    attack = ATTACKS[name]
    checkout = copied_checkout(shop, tmp_path)
    gains = careless(new_game(shop, evil, checkout, tmp_path, name.replace("_", "-")), attack)
    if attack is NONE:
        assert gains.names == frozenset()
    elif attack.held_by_git:
        assert not gains.names.intersection(attack.gains), (attack.held_by_git, gains)
    else:
        assert gains.names.issuperset(attack.gains), gains
