"""Which faults are chosen, and in which files."""

import random
from collections import Counter

import pytest

from gitlab_nightshift.proof.running.fault_choice import (
    MOST_PER_LINE,
    Aim,
    ProductCode,
    build_aim,
    choose_far_faults,
    choose_near_faults,
    find_in_change,
)
from gitlab_nightshift.proof.running.fault_kinds import list_faults
from gitlab_nightshift.proof.running.trial import LARGEST_FILE, TreeFiles
from tests.proof.running.shops import GOLANG, LABEL_TEST, PYTHON, SHOP
from tests.proof.running.test_canaries import LABELS, change
from tests.proof.running.test_single_canaries import list_tests
from tests.support.tried import Tried

STOCK = "import shop\n\n\ndef find(name):\n    return shop.label(name) if name != '' else None\n"
OTHER = "def is_far(number):\n    return number > 1000\n"
FILES = PYTHON | GOLANG | {"stock.py": STOCK, "other.py": OTHER}
RNG = random.Random(1)


def test_near_faults_are_in_what_the_tests_name_and_in_what_that_calls(tried: Tried) -> None:
    test = change(change(LABEL_TEST, "shop import label", "stock import find"), "label(", "find(")
    with tried(FILES | {LABELS: test}, {LABELS: None}) as (subject, trial_checkout):
        code = ProductCode(TreeFiles(trial_checkout.checkout.repository, subject.base))
        tests = list_tests(LABELS, test)
        aim = build_aim(tests, {"find"}, code.files.tests)
        near = choose_near_faults(code, aim, RNG, 100)
        direct = choose_near_faults(code, aim, RNG, 100, deepest=1)
    assert {fault.function for fault in near} == {"find", "label", "price"}, "by the file's name"
    assert {fault.function for fault in direct} == {"find"}
    assert max(Counter((fault.path, fault.line) for fault in near).values()) <= MOST_PER_LINE


@pytest.mark.parametrize(
    ("aim", "leader"),
    [
        pytest.param(Aim("python", {"price": 1.0, "label": 0.2}, few=False), "price", id="rare"),
        pytest.param(
            Aim("python", {"price": 0.4, "label": 0.4, "name": 1.0}, True, frozenset(["price"])),
            "price",
            id="its call changes",
        ),
        pytest.param(Aim("python", {"nobody": 1.0}, few=True), "label", id="its line"),
    ],
)
def test_the_best_fault_is_in_the_function_that_tells_most_of_the_tests(
    tried: Tried, aim: Aim, leader: str
) -> None:
    with tried(PYTHON, {LABELS: None}) as (subject, trial_checkout):
        code = ProductCode(TreeFiles(trial_checkout.checkout.repository, subject.base))
        side = code.sides["shop.py"]
        best = max(list_faults(side, side.functions), key=lambda fault: aim.score(code, fault))
    assert best.function == leader
    assert best.by_value


def test_a_whole_sentence_is_a_word_and_its_words_are_not() -> None:
    test = LABEL_TEST.replace('label("a")', "'no such count here'")
    words = build_aim(list_tests(LABELS, test), set(), []).words
    assert "no such count here" in words
    assert "count" not in words


def test_far_faults_are_one_of_each_function_those_of_other_files_first(tried: Tried) -> None:
    with tried(FILES, {LABELS: None}) as (subject, trial_checkout):
        code = ProductCode(TreeFiles(trial_checkout.checkout.repository, subject.base))
        far = choose_far_faults(code, RNG, 100)
        first = choose_far_faults(code, RNG, 4)
    functions = [(fault.path, fault.function) for fault in far]
    assert len(set(functions[:6])) == len(set(functions)) == 6
    assert len(set(far)) == len(far) > 6, "more of each, as there are few functions"
    assert {fault.path for fault in first} == {"shop.py", "stock.py", "other.py", "shop.go"}


def test_what_the_change_edits_is_left_out_and_what_it_moves_is_followed(tried: Tried) -> None:
    after = "# Prices.\n\n\n" + change(SHOP, "nobody", "no one")
    with tried(FILES, {"shop.py": after, "stock.py": None}) as (subject, trial_checkout):
        code = ProductCode(TreeFiles(trial_checkout.checkout.repository, subject.base))
        far = choose_far_faults(code, RNG, 100)
        kept = find_in_change(subject.change, code, far)
    assert {fault.function for fault in kept} == {"price", "is_far", "Price", "Label"}
    moved = {to.line - fault.line for fault, to in kept.items() if fault.function == "price"}
    assert moved == {3}


def test_product_code_is_the_projects_own(tried: Tried) -> None:
    more = {
        "vendor/github.com/a/a.go": "package a\n",
        "third_party/b.py": OTHER,
        "data.py": f"X = '{'x' * LARGEST_FILE}'\n",
        "notes.md": "# Notes\n",
    }
    with tried(FILES | more, {LABELS: None}) as (subject, trial_checkout):
        files = TreeFiles(trial_checkout.checkout.repository, subject.base)
        products, tests = ({side.path for side in sides} for sides in (files.products, files.tests))
        assert files.read("third_party/b.py") == OTHER.encode()
        assert files.read("nowhere.py") is None
    assert products == {"shop.py", "stock.py", "other.py", "shop.go"}
    assert tests == {p for p in PYTHON if p.startswith("tests/")} | {"shop_test.go"}
