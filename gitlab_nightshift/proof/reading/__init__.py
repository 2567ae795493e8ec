"""The rules of the red flags, which read a change; the flags are in ``registry/flag_registry.py``.

A change of product code alone does not load the rules about tests: that takes longer than to apply
them.
"""

import importlib
from collections.abc import Iterable, Iterator, Sequence

from gitlab_nightshift.proof.reviewed_change import Changeset, Context, Rule, RuleViolation
from gitlab_nightshift.proof.syntax.file_side import read_sides
from gitlab_nightshift.proof.syntax.languages import (
    find_language,
    has_inline_tests,
    is_code,
    is_named_test,
    is_product,
)
from gitlab_nightshift.records.verdicts import Finding
from gitlab_nightshift.registry.flag_registry import FLAGS, FlagEntry
from gitlab_nightshift.repository.difference import ChangedFile, Line
from gitlab_nightshift.text.lazy_patterns import compile_lazily

ABOUT_TESTS = frozenset(("deleted_or_skipped_tests", "weaker_tests"))
"""Modules whose rules find nothing in a change that touches no tests."""
_TEST_WORDS = ("test", "spec", "snap", "approv")  # parts of a path that may make it one of tests


def judge(change: Changeset, context: Context) -> tuple[Finding, ...]:
    """Every finding of every flag that is not off: failures first, notes last."""
    found = [
        finding
        for name, flag in FLAGS.items()
        if flag.rule
        for finding in _apply_flag(name, flag, change, context)
    ]
    found.sort(key=lambda f: (f.level != "fail", f.level == "note", f.file, f.line))
    return tuple(found)


def _apply_flag(
    name: str, flag: FlagEntry, change: Changeset, context: Context
) -> Iterable[Finding]:
    """The findings of one flag. Their level is set by the settings, or else by the violation, the
    category or the flag.

    A rule that raises is a finding, too: otherwise a change that crashes it would pass.
    """
    fixed = context.settings.policy.flags.get(name)
    usual = flag.people if context.by_people else flag.levels.get(context.category, flag.level)
    if (fixed or usual) == "off":
        return
    try:
        if flag.rule.partition(":")[0] in ABOUT_TESTS and not touches_tests(change):
            return
        violations = tuple(load_rule(flag)(change, context))
        debatable = _find_debatable(flag, change, violations) if context.by_people else ()
        for found in violations:
            own = found.level if usual != "note" else None
            level = fixed or ("warn" if found in debatable else own or usual)
            yield Finding(name, level, found.file, found.line, found.detail)
    except Exception as error:
        kind = type(error).__name__
        detail = f"This flag could not look at the change: {kind}. Please report it."
        yield Finding(name, fixed or usual, "", 0, detail)


def _find_debatable(
    flag: FlagEntry, change: Changeset, found: tuple[RuleViolation, ...]
) -> tuple[RuleViolation, ...]:
    """Violations that a reviewer of a person's change would only ask about."""
    if not flag.warn_if or not found:
        return ()
    open_ended = any(each.certain is None for each in found)
    explained = open_ended and may_rewrite_tests(change, found)
    unsure = (False, None) if explained else (False,)
    return tuple(each for each in found if each.certain in unsure)


def load_rule(flag: FlagEntry) -> Rule:
    """The function that finds this flag's violations."""
    module, _, function = flag.rule.partition(":")
    rule: Rule = getattr(importlib.import_module(f"{__name__}.{module}"), function)
    return rule


def touches_tests(change: Changeset) -> bool:
    """False for product code alone. A file of an unsupported language may be a test, and so may one
    with inline tests."""
    return not all(map(_is_product_alone, change.files))


def _is_product_alone(file: ChangedFile) -> bool:
    return all(
        find_language(path) is not None
        and not has_inline_tests(path)
        and is_product(path)
        and not any(word in path.lower() for word in _TEST_WORDS)
        for path in (file.path, file.old_path, file.raw_path, file.raw_old_path)
    )


# --- explanations of weaker tests -----------------------------------------------------------------


# Stripped lines without a statement: comments, imports, attributes, brackets.
_NO_STATEMENT = compile_lazily(
    r"$|\W+$|#|//|/?\*|--|;;|<!--|%|@\w|\"\"\""
    r"|(import|use|using|from|require(_once|_relative)?|include|package)\b(?!.*[=({]\s*$)"
    r"|(const|let|var) [\w{}, ]+ = require\("
)


def may_rewrite_tests(change: Changeset, found: Sequence[RuleViolation]) -> bool:
    """Whether the rest of a person's change may explain weaker tests: if the tested code or its
    dependencies change, or if more lines of code are added than violations were found. Moved lines
    count, too: they show that the change does more than delete."""
    from gitlab_nightshift.proof.reading.touched_files import describe_dependencies

    if any(any(_list_product_lines(file)) or describe_dependencies(file) for file in change.files):
        return True
    added = (line for file in change.files if is_code(file.path) for line in file.added)
    return sum(map(_has_statement, added)) > len(found)


def _list_product_lines(file: ChangedFile) -> Iterator[Line]:
    """The deleted and added lines of product code, without comments and tests."""
    for lines, side in zip((file.deleted, file.added), read_sides(file), strict=True):
        if is_code(side.path) and is_product(side.path) and not is_named_test(side.path):
            hidden = {n for test in side.tests for n in range(test.line, test.end + 1)}
            hidden |= side.lines_without_code
            shown = (line for line in lines if line.number not in hidden)
            yield from filter(_has_statement, shown)


def _has_statement(line: Line) -> bool:
    return not _NO_STATEMENT.match(line.text.strip())
