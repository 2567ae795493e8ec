"""The flags that the small changes and lines in tests/pairs raise."""

import pytest

from tests.support.pairs import FOLDER, read_lines, read_pairs, wrong


@pytest.mark.parametrize("kind", sorted(path.stem for path in FOLDER.glob("*.pairs")))
def test_a_small_change_raises_only_its_expected_flags(kind: str) -> None:
    flags, pairs = read_pairs(kind)
    assert pairs
    assert not {pair.about: mistakes for pair in pairs if (mistakes := wrong(pair, flags))}


@pytest.mark.parametrize("flag", sorted(path.stem for path in FOLDER.glob("*.lines")))
def test_a_line_of_code_raises_the_flag_once_or_not_at_all(flag: str) -> None:
    found = [(line, bad, list(levels)) for line, bad, levels in read_lines(flag)]
    assert {bad for _, bad, _ in found} == {True, False}
    assert not [line for line, bad, levels in found if levels != ["fail"] * bad]


def test_without_the_rule_a_hook_that_sets_outcomes_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flags, [pair, *_] = read_pairs("rigged_harness")
    used = "gitlab_nightshift.proof.reading.weaker_tests.find_rigged_harness"
    monkeypatch.setattr(used, lambda _change: ())
    assert wrong(pair, flags)
