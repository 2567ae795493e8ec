"""The tree as evidence: each file of ``tree/`` is refused by name, or read as git would read it."""

import contextlib
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitlab_nightshift.repository import capture
from gitlab_nightshift.repository.checkout import Checkout, open_checkout
from tests.attacks import tree_world
from tests.attacks.checkout_attacks import CheckoutAttack, list_tree_attacks
from tests.attacks.git_ways import bytes_of, noted
from tests.attacks.git_world import HONEST, Evil, Game, copied_checkout, improve, new_game
from tests.attacks.tree_world import READERS, SECRET, honest_tree_id
from tests.repository.tools import remove_all
from tests.support.trees import assert_same, whole_tree
from tests.support.world import World, world

ATTACKS = list_tree_attacks()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("world"), depth=5) as made:
        yield made


@pytest.fixture
def game(shop: World, tmp_path: Path) -> Iterator[Game]:
    yield _new_game(shop, copied_checkout(shop, tmp_path), tmp_path)
    remove_all(tmp_path)


def _new_game(shop: World, checkout: Path, folder: Path) -> Game:
    made = new_game(shop, Evil("", []), checkout, folder, "tree")
    (made.places.home / "secret").write_text(SECRET)
    return made


def attacked(attack: CheckoutAttack, game: Game) -> None:
    improve(game)
    try:
        attack.attempt(game.checkout, game.places)
    except PermissionError as error:
        pytest.skip(f"this machine does not let the attacker do it: {error}")


def test_they_are_refused_or_read_as_they_are(game: Game, tmp_path: Path) -> None:
    """All in one checkout, which is put back after each."""
    before, private, real = whole_tree(game.checkout), tmp_path / "private", tmp_path / "before"
    private.mkdir(mode=0o700)
    subprocess.run(["cp", "-a", game.checkout, real], check=True)
    failures = list[str]()
    with open_checkout(
        game.checkout,
        output_dir="nightshift",
        private=private,
        search_path=os.environ["PATH"],
        run_id="4711",
        warn=failures.append,
    ) as checkout:
        begun = bytes_of(game.checkout)
        for name, attack in ATTACKS.items():
            own = _new_game(game.world, game.checkout, tmp_path / "attackers" / name)
            with noted(failures, name), contextlib.suppress(pytest.skip.Exception):
                _assert_refused_or_read(checkout, attack, own, real)
            with noted(failures, f"{name}, put back"):
                assert checkout.restore() == ()
                assert bytes_of(game.checkout) == begun
    assert failures == []
    assert_same(whole_tree(game.checkout), before)


def _assert_refused_or_read(
    checkout: Checkout, attack: CheckoutAttack, game: Game, real: Path
) -> None:
    attacked(attack, game)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in attack.limits.items():
            patch.setattr(capture, name, value)
        captured = checkout.capture()
        refused = [str(refusal) for refusal in captured.refusals]
        assert SECRET not in f"{captured} {captured.patch!r}"
        if attack.refused:
            assert any(attack.refused in each for each in refused), refused
            assert (captured.tree_id, captured.files, captured.patch) == ("", (), b"")
        else:
            assert refused == []
            assert captured.tree_id == honest_tree_id(game, real)
            assert {file.path for file in captured.files} >= set(HONEST)
            checkout.apply_change(captured)
            assert checkout.capture() == captured, "what Verify sees is what will be published"
            assert _special_modes(game.checkout) == []


def _special_modes(checkout: Path) -> list[str]:
    bits = stat.S_ISUID | stat.S_ISGID
    return [str(p) for p in checkout.rglob("*") if p.is_file() and p.lstat().st_mode & bits]


@pytest.mark.parametrize("name", ATTACKS)
def test_a_careless_reader_is_led_astray(
    name: str, game: Game, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attack = ATTACKS[name]
    if "hangs" in attack.gains:
        monkeypatch.setattr(tree_world, "PATIENCE_S", 0.5)
    real = tmp_path / "before"
    subprocess.run(["cp", "-a", game.checkout, real], check=True)
    attacked(attack, game)
    gains = READERS[attack.control](game, real)
    if attack.held_by_git:
        assert not gains.intersection(attack.gains), attack.held_by_git
    else:
        assert gains.issuperset(attack.gains)


@pytest.mark.parametrize("name", READERS)
def test_careless_readers_are_right_about_an_honest_tree(
    game: Game, tmp_path: Path, name: str
) -> None:
    real = tmp_path / "before"
    subprocess.run(["cp", "-a", game.checkout, real], check=True)
    improve(game)
    assert READERS[name](game, real) == set()
