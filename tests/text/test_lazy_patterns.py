"""Patterns that are compiled at their first use: each of the package is one."""

import re
import subprocess
import sys

import pytest

from gitlab_nightshift.text.lazy_patterns import compile_lazily
from tests.support.world import ROOT

ALL = """
from tests.support import warm
warm.import_modules()
patterns = warm.lazy_patterns()
print(len([each.compile() for each in patterns]))
"""


def test_it_is_compiled_at_its_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    real = re.compile

    def compiled(text: str, flags: int) -> re.Pattern[str]:
        seen.append(text)
        return real(text, flags)

    monkeypatch.setattr(re, "compile", compiled)
    pattern = compile_lazily("(a+)b", re.IGNORECASE)
    assert (pattern.pattern, seen) == ("(a+)b", [])
    found = pattern.search("xAAb")
    assert found and found[1] == "AA"
    assert pattern.search("x") is None
    assert pattern.sub("-", "ab ab") == "- -"
    assert (pattern.groups, len(seen)) == (1, 1), "once for all"


def test_one_that_is_none_says_so_then() -> None:
    pattern = compile_lazily("(")
    with pytest.raises(re.error):
        pattern.search("a")


def test_each_pattern_of_the_package_can_be_compiled() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ALL], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert int(done.stdout) > 200
