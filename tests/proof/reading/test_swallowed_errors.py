"""exception-swallowed: which files are searched."""

import pytest

from gitlab_nightshift.proof.reading import swallowed_errors
from gitlab_nightshift.proof.syntax.languages import find_language
from tests.support.judging import Judge
from tests.support.tables import each

HANDLERS = {
    "a.py": "try:\n    f()\nexcept Exception:\n    pass\n",
    "b.py": "with contextlib.suppress(Exception):\n    f()\n",
    "A.java": "class A { void a() { try { f(); } catch (Exception e) { } } }\n",
    "A.cs": "class A { void F() { try { G(); } catch (Exception e) { } } }\n",
    "a.php": "<?php function a() { try { f(); } CATCH (Exception $e) { } }\n",
    "b.php": "<?php function b() { return @file($x); }\n",
    "a.rb": "def a\n  f\nrescue\nend\n",
    "a.kt": "fun a() { try { f() } catch (e: Exception) { } }\n",
    "b.kt": "fun b() = runCatching { f() }.getOrNull()\n",
}


@each("path", HANDLERS)
def test_code_that_hides_an_error_has_an_error_word(raised: Judge, path: str) -> None:
    language = find_language(path)
    assert language and language.error_words
    assert raised({}, {path: HANDLERS[path]}, "exception-swallowed")


def test_a_file_without_an_error_word_is_not_searched(
    raised: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(
        swallowed_errors, "load_query", lambda language, _name: asked.append(language.name)
    )
    raised({}, {"a.py": "x = 1\n", "A.java": "class A { }\n", "a.go": "package a\n"})
    assert asked == ["go"]
