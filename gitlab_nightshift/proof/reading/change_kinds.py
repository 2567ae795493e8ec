"""What a change can be about: rules about anything else take longer to load than to apply.

Where a file does not tell by its name, it may be about everything.
"""

from gitlab_nightshift.proof.reviewed_change import Changeset
from gitlab_nightshift.proof.syntax.languages import find_language, is_product
from gitlab_nightshift.repository.difference import ChangedFile

ABOUT_TESTS = frozenset("deleted_tests weaker_tests skipped_tests certain_assertions".split())
"""Modules whose rules have nothing to say of a change that touches no tests."""
_OF_TESTS = ("test", "spec", "snap", "approv")
"""Parts of a path that a rule about tests may look for."""


def touches_tests(change: Changeset) -> bool:
    """False for product code alone. A file in no known language may be tests, and so may one in
    Rust, which keeps them beside the code."""
    return not all(map(_is_product_alone, change.files))


def _is_product_alone(file: ChangedFile) -> bool:
    return all(
        _is_known_source(path) and is_product(path) and not _has_any(path.lower(), _OF_TESTS)
        for path in _list_paths(file)
    )


def _list_paths(file: ChangedFile) -> set[str]:
    """Where it is and where it was."""
    return {file.path, file.old_path, file.raw_path, file.raw_old_path}


def _is_known_source(path: str) -> bool:
    return find_language(path) is not None and not path.endswith(".rs")


def _has_any(text: str, parts: tuple[str, ...]) -> bool:
    return any(part in text for part in parts)
