"""The rules of the red flags; ``registry/flag_registry.py`` has the list of flags."""

import importlib
from collections.abc import Iterable

from gitlab_nightshift.proof.reviewed_change import Changeset, Context, Rule, RuleViolation
from gitlab_nightshift.proof.syntax.languages import find_language, is_product
from gitlab_nightshift.records.verdicts import Finding
from gitlab_nightshift.registry.flag_registry import FLAGS, FlagEntry
from gitlab_nightshift.repository.difference import ChangedFile


def judge(change: Changeset, context: Context) -> tuple[Finding, ...]:
    """Every finding of every flag that is not off, those that fail first, notes last."""
    found = [
        finding
        for name, flag in FLAGS.items()
        if flag.rule
        for finding in _apply_flag(name, flag, change, context)
    ]
    return tuple(
        sorted(found, key=lambda f: (f.level != "fail", f.level == "note", f.file, f.line))
    )


def _apply_flag(
    name: str, flag: FlagEntry, change: Changeset, context: Context
) -> Iterable[Finding]:
    """By the settings' level, else the finding's own, else the category's, else the flag's.

    A rule that raises has not looked at the change: that counts as a finding, or a change made to
    break the rule would get past.
    """
    fixed = context.settings.policy.flags.get(name)
    usual = flag.people if context.by_people else flag.levels.get(context.category, flag.level)
    if (fixed or usual) == "off":
        return
    try:
        if flag.rule.partition(":")[0] in ABOUT_TESTS and not touches_tests(change):
            return
        violations = tuple(load_rule(flag)(change, context))
        asked = _find_asked(flag, change, violations) if context.by_people else ()
        for found in violations:
            own = found.level if usual != "note" else None
            level = fixed or ("warn" if found in asked else own or usual)
            yield Finding(name, level, found.file, found.line, found.detail)
    except Exception as error:
        kind = type(error).__name__
        detail = f"This flag could not look at the change: {kind}. Please report it."
        yield Finding(name, fixed or usual, "", 0, detail)


def _find_asked(
    flag: FlagEntry, change: Changeset, found: tuple[RuleViolation, ...]
) -> tuple[RuleViolation, ...]:
    """Those that reading cannot be certain of: a reviewer of people asks about them."""
    if not flag.asked or not found:
        return ()
    from gitlab_nightshift.proof.reading.explanations import may_rewrite_tests

    open_ended = any(each.certain is None for each in found)
    explained = open_ended and may_rewrite_tests(change, found)
    unsure = (False, None) if explained else (False,)
    return tuple(each for each in found if each.certain in unsure)


def load_rule(flag: FlagEntry) -> Rule:
    """The function that looks at a change for this flag."""
    module, _, function = flag.rule.partition(":")
    rule: Rule = getattr(importlib.import_module(f"{__name__}.{module}"), function)
    return rule


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
