"""The fixture ``tried``, and fewer faults than in a night."""

import importlib
import random

import pytest

from gitlab_nightshift.proof.running import fault_choice
from tests.support.tried import tried

__all__ = ["few_faults", "tried"]


@pytest.fixture(autouse=True)
def few_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small suites notice what is planted by a few, always the same."""
    monkeypatch.setattr(fault_choice, "draw_seed", lambda: random.Random(7))
    numbers = {"canaries.MOST_FAULTS": 4, "single_canaries.MOST_TRIES": 6}
    numbers |= {"single_canaries.FEWEST_TRIES": 6, "single_canaries.MOST_CANARIES": 3}
    for name, number in numbers.items():
        module, _, constant = name.partition(".")
        imported = importlib.import_module(f"gitlab_nightshift.proof.running.{module}")
        monkeypatch.setattr(imported, constant, number)
