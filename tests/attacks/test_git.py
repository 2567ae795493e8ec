"""Git attacks: each file of ``git/`` ends with a real push, defended and careless."""

import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from gitlab_nightshift.errors import NightshiftError
from tests.attacks.git_ways import Defended, careless, careless_gains, defended
from tests.attacks.git_world import HONEST, Evil, Game, evil_server, new_game, run_git
from tests.support.world import BOT_TOKEN, JOB_TOKEN, World, world

ATTACKS = sorted(path.stem for path in (Path(__file__).parent / "git").glob("[!_]*.py"))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("world"), depth=5) as made:
        yield made


@pytest.fixture(scope="module")
def evil() -> Iterator[Evil]:
    with evil_server() as made:
        yield made


@pytest.fixture(params=ATTACKS)
def attack(request: pytest.FixtureRequest) -> ModuleType:
    return importlib.import_module(f"tests.attacks.git.{request.param}")


@pytest.fixture
def game(
    attack: ModuleType, shop: World, evil: Evil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Game:
    made = new_game(shop, evil, tmp_path, attack.__name__.rpartition(".")[2].replace("_", "-"))
    monkeypatch.setenv("HOME", str(made.places.home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return made


def test_it_gains_nothing(attack: ModuleType, game: Game, tmp_path: Path) -> None:
    refs = game.refs()
    refusal = getattr(attack, "REFUSED", "")
    try:
        done: Defended | None = defended(game, attack.attack, tmp_path / "private")
        said = " ".join(map(str, done.captured.refusals)) if done else ""
    except NightshiftError as error:
        done, said = None, error.message
    assert game.gains().names == frozenset(), game.gains().told
    _assert_credentials_went_to_the_project_alone(game)
    if refusal or done is None or done.published is None:
        assert refusal and refusal in said, f"refused: {said}"
        assert game.refs() == refs
        return
    _assert_pushed_what_stood_in_the_tree(game, done, refs, getattr(attack, "ALSO", ()))


def _assert_credentials_went_to_the_project_alone(game: Game) -> None:
    offered = {(each.kind, each.secret) for each in game.world.gitlab.credentials_seen}
    assert offered <= {("private-token", BOT_TOKEN), ("basic", BOT_TOKEN)}
    asked = {each.path for each in game.world.gitlab.requests if ".git/" in each.path}
    assert all(path.startswith("/acme/shop.git/") for path in asked)
    assert JOB_TOKEN not in str(game.world.gitlab.requests)


def _assert_pushed_what_stood_in_the_tree(
    game: Game, done: Defended, refs: dict[str, str], also: tuple[str, ...]
) -> None:
    assert done.published
    branch = f"refs/heads/night-shift/{game.name}"
    assert game.refs() == {**refs, branch: done.published.commit_sha}
    assert game.parents_of(branch) == [game.places.base]
    pushed = game.files_of(branch)
    assert pushed == {path: done.tree[path] for path in (*HONEST, *also)}
    shown = run_git(
        game.bare, "diff-tree", "-p", "--binary", "--full-index", game.places.base, branch
    )
    assert shown == os.fsdecode(done.captured.patch).strip(), "what was judged is what was pushed"
    [push] = [each for each in game.world.project.pushes if each.ref == branch]
    assert push.options == ()


def test_a_careless_program_loses(attack: ModuleType, game: Game) -> None:
    refs = game.refs()
    done = careless(game, attack.attack, getattr(attack, "TOKEN_BY", "helper"))
    gains = careless_gains(game, done, refs, getattr(attack, "ALSO", ()))
    if hasattr(attack, "HELD_BY_GIT"):
        assert not gains.names.intersection(attack.GAINS), (attack.HELD_BY_GIT, gains)
    else:
        assert gains.names.issuperset(attack.GAINS), gains


def test_a_careless_program_is_fine_without_an_attack(
    shop: World, evil: Evil, tmp_path: Path
) -> None:
    """So the attacks are what makes it lose."""
    game = new_game(shop, evil, tmp_path, "none")
    done = careless(game, lambda _checkout, _places: None, "helper")
    assert careless_gains(game, done, game.refs()).names == frozenset()


def test_the_night_is_fine_without_an_attack(shop: World, evil: Evil, tmp_path: Path) -> None:
    game = new_game(shop, evil, tmp_path, "none-either")
    refs = game.refs()
    done = defended(game, lambda _checkout, _places: None, tmp_path / "private")
    _assert_pushed_what_stood_in_the_tree(game, done, refs, ())
