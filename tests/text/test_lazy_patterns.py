"""Patterns that are compiled on first use, as all of the package are."""

import re
import subprocess
import sys
from unittest.mock import Mock

import pytest

from gitlab_nightshift.text.lazy_patterns import compile_lazily
from tests.support.world import ROOT

ALL = """
from tests.support import warm
warm.import_modules()
patterns = warm.lazy_patterns()
print(len([each.compile() for each in patterns]))
"""


def test_a_pattern_is_compiled_once_on_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = Mock(wraps=re.compile)
    monkeypatch.setattr(re, "compile", compiled)
    pattern = compile_lazily("(a+)b", re.IGNORECASE)
    assert (pattern.pattern, compiled.call_count) == ("(a+)b", 0)
    match = pattern.search("xAAb")
    assert match and match[1] == "AA"
    assert pattern.search("x") is None
    assert pattern.sub("-", "ab ab") == "- -"
    assert (pattern.groups, compiled.call_count) == (1, 1)


def test_an_invalid_pattern_raises_on_first_use() -> None:
    pattern = compile_lazily("(")
    with pytest.raises(re.error):
        pattern.search("a")


def test_each_pattern_of_the_package_can_be_compiled() -> None:
    command = [sys.executable, "-c", ALL]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert int(done.stdout) > 200
