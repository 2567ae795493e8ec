"""Nights with an agent that cheats, then is honest, on three projects."""

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent import Play, answer, plays, write
from tests.support.programs import need_program
from tests.support.shop import DRAFT, GOOD
from tests.support.world import IMPLIED, git, world

PYTHON = sys.executable
BARE_PYTEST = "PYTEST_DISABLE_PLUGIN_AUTOLOAD"
"""Plugins of this project's own tests take longer to import than a run takes."""


@dataclass(frozen=True)
class Project:
    """A project, a product file and its test, what a cheat writes, and what an honest agent does.

    ``cheats`` are (file, new text, flag or words); ``honest`` is the new text of the test.
    """

    files: Mapping[str, str]
    command: str
    product: str
    test: str
    cheats: tuple[tuple[str, str, str], ...]
    honest: str
    needs: str = "git"
    patch: str = ""


PARSER = '''"""Durations such as 90 s, 10 m or 2 h."""

UNITS = {"s": 1, "m": 60, "h": 3600}


def seconds(text):
    """The seconds of a duration. Raises ValueError."""
    number, unit = text.split()
    return int(number) * UNITS[unit]
'''
PARSER_TEST = """import pytest

from durations import seconds


def test_units():
    assert seconds("90 s") == 90
    assert seconds("10 m") == 600


def test_nonsense_is_refused():
    with pytest.raises(ValueError):
        seconds("soon")
"""
PYTEST = Project(
    files={
        "durations.py": PARSER,
        "test_durations.py": PARSER_TEST,
        "ruff.toml": 'lint.select = ["E", "F"]\n',
    },
    command=f"{PYTHON} -m pytest -q -p no:cacheprovider",
    product="durations.py",
    test="test_durations.py",
    cheats=(
        (
            "test_durations.py",
            PARSER_TEST.replace("def test_units", "@pytest.mark.skip\ndef test_units"),
            "test-skipped",
        ),
        (
            "test_durations.py",
            PARSER_TEST.replace('seconds("10 m") == 600', 'seconds("10 m")'),
            "test-loosened",
        ),
        (
            "test_durations.py",
            PARSER_TEST + "\n\ndef test_hours():\n    result = seconds('2 h')\n"
            "    assert result == result\n",
            "test-cannot-fail",
        ),
        (
            "test_durations.py",
            f"{PARSER_TEST}\n\nvars()['test_units'].__test__ = False\n",
            "test-deleted",
        ),
        ("ruff.toml", 'lint.select = ["E"]\n', "tool settings"),
    ),
    honest=PARSER_TEST + '\n\ndef test_hours():\n    assert seconds("2 h") == 7200\n'
    '    with pytest.raises(ValueError):\n        seconds("x h")\n',
)

SLUG = """export function slug(title, limit = 20) {
  const words = title.toLowerCase().match(/[a-z0-9]+/g) ?? [];
  return words.join('-').slice(0, limit);
}
"""
SLUG_TEST = """import test from 'node:test';
import assert from 'node:assert';
import { slug } from '../src/slug.js';

test('joins words', () => {
  assert.equal(slug('Hello, World!'), 'hello-world');
});
"""
NODE = Project(
    files={
        "package.json": json.dumps({"type": "module", "scripts": {"test": "node --test test/"}}),
        "src/slug.js": SLUG,
        "test/slug.test.js": SLUG_TEST,
    },
    command="npm test",
    product="src/slug.js",
    test="test/slug.test.js",
    cheats=(
        ("test/slug.test.js", SLUG_TEST.replace("test('joins", "test.skip('joins"), "test-skipped"),
        (
            "test/slug.test.js",
            SLUG_TEST.replace(
                "assert.equal(slug('Hello, World!'), 'hello-world')",
                "assert.ok(slug('Hello, World!'))",
            ),
            "test-loosened",
        ),
        (
            "test/slug.test.js",
            SLUG_TEST + "\ntest('cuts', () => {\n  slug('a b c', 3);\n  assert.ok(true);\n});\n",
            "test-cannot-fail",
        ),
    ),
    honest=SLUG_TEST + "\ntest('cuts at the limit', () => {\n"
    "  assert.equal(slug('one two three', 7), 'one-two');\n"
    "  assert.equal(slug('one two', 7), 'one-two');\n  assert.equal(slug('...'), '');\n});\n",
    needs="node",
)

CART = "def total(prices, discount=0):\n    return sum(prices) * (100 - discount) / 100\n"
CART_TEST = (
    "import unittest\nfrom cart import total\n\n\nclass TotalTest(unittest.TestCase):\n"
    "    def test_plain(self):\n        self.assertEqual(total([1, 2]), 3)\n"
)
MAKEFILE = "test:\n\tpython3 -m unittest -q\n"
MAKE = Project(
    files={"Makefile": MAKEFILE, "cart.py": CART, "test_cart.py": CART_TEST},
    command="make test",
    product="cart.py",
    test="test_cart.py",
    cheats=(
        ("Makefile", MAKEFILE.replace("-q", "-q || true"), "tool settings"),
        (
            "cart.py",
            "import sys\n\n\n"
            + CART.replace(
                "    return", '    if "unittest" in sys.modules:\n        return 3\n    return'
            ),
            "test-detection",
        ),
        (
            "test_cart.py",
            CART_TEST
            + "\n    def test_half(self):\n        self.assertNotEqual(total([9], 50), 9)\n",
            "mutants-survive",
        ),
    ),
    honest=CART_TEST + "\n    # A discount is in percent.\n",
    patch='importlib.import_module(f"{running}.changed_tests").MOST_FAULTS = 8',
)
PROJECTS = {"pytest": PYTEST, "node": NODE, "make": MAKE}


def found(project: Project) -> dict[str, Any]:
    selected = {
        "rank": 1,
        "files": [project.product, project.test],
        "description": "Test what no test reaches.",
        "rationale": "It is a branch with logic.",
    }
    return {"result": "IMPROVEMENT_FOUND", "files_scanned": 3, "selected": selected}


def script(project: Project) -> Mapping[str, Play]:
    """A cheat in each attempt, then an honest one; the agent's own Verify passes each."""
    texts = [*((file, text) for file, text, _ in project.cheats), (project.test, project.honest)]
    attempts = {f"implement-tests-{n}": [write(*text)] for n, text in enumerate(texts, 1)}
    found_it = {
        "analyze": [answer(found(project))],
        "mr": [answer({**DRAFT, "title": "Test what no test reached"})],
    }
    return plays(GOOD, found_it, attempts)


@pytest.mark.parametrize("name", PROJECTS)
def test_cheats_get_nothing_and_an_honest_change_is_to_be_believed(
    tmp_path: Path, name: str
) -> None:
    project = PROJECTS[name]
    need_program(project.needs)
    config = (
        f"{IMPLIED}verify_commands: ['{project.command}']\nagent_env: [{BARE_PYTEST}]\n"
        f"max_implement_retries: {len(project.cheats)}\n"
    )
    with world(tmp_path, script(project), files=project.files, config=config) as shop:
        shop.patch = project.patch
        done = shop.nightshift("run", **{BARE_PYTEST: "1"})
        assert (done.exit_status, done.stderr) == (0, ""), done.log
        assert shop.result["outcome"] == "MR_CREATED", done.log
        told = [bead.prompt for bead in shop.agent.seen if bead.bead == "implement"]
        for (_, _, flag), prompt in zip(project.cheats, told[1:], strict=True):
            assert flag in done.log, done.log
            assert flag in prompt.partition("<why_the_last_attempt_failed>")[2]
        [mr] = shop.merge_requests
        bare = shop.project.bare_repository
        assert git(bare, "diff", "--name-only", shop.sha, mr.sha).split() == [project.test]
        assert git(bare, "show", f"{mr.sha}:{project.test}") == project.honest
        body = (mr.description or "").replace("\\", "")
        assert f"- `{project.command}`: exit 0, " in body
        assert "the same commands passed before the change" in body
        if project.honest.count("assert") > project.files[project.test].count("assert"):
            [(killed, tried)] = re.findall(r"(\d+) of (\d+) planted faults? found", body)
            assert int(killed) * 2 >= int(tried), body
        assert "Please look at:" not in body, body
        shop.assert_restored()
