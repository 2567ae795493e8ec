"""Applies the rules of the red flags, which read a change. ``registry/flag_registry.py`` lists the
flags, the modules of this folder have the rules.

For a change of product code alone, the rules about tests are not loaded: that would take longer
than applying the others.
"""

import importlib
from collections.abc import Iterable, Iterator, Sequence

from gitlab_nightshift.proof.reviewed_change import Changeset, Context, Rule, RuleViolation
from gitlab_nightshift.proof.syntax.file_side import read_sides
from gitlab_nightshift.proof.syntax.languages import (
    find_language,
    has_inline_tests,
    has_test_name,
    is_code,
    is_product,
)
from gitlab_nightshift.records.verdicts import Finding
from gitlab_nightshift.registry.flag_registry import FLAGS, FlagEntry
from gitlab_nightshift.repository.difference import ChangedFile, Line
from gitlab_nightshift.text.lazy_patterns import compile_lazily

ABOUT_TESTS = frozenset(("deleted_or_skipped_tests", "weaker_tests"))
"""Modules whose rules find nothing in a change that touches no tests."""
# Without one of these in its path, a file of product code has nothing to do with tests.
_TEST_PATH_PARTS = ("test", "spec", "snap", "approv")


def find_red_flags(change: Changeset, context: Context) -> tuple[Finding, ...]:
    """Every finding of every flag that is not off: failures first, notes last."""
    findings = [
        finding
        for name, flag in FLAGS.items()
        if flag.rule
        for finding in _apply_flag(name, flag, change, context)
    ]
    findings.sort(key=lambda f: (f.level != "fail", f.level == "note", f.file, f.line))
    return tuple(findings)


def _apply_flag(
    name: str, flag: FlagEntry, change: Changeset, context: Context
) -> Iterable[Finding]:
    """The findings of one flag. Their level is that of the settings, or else of the violation, the
    category or the flag, in this order.

    If the rule raises, that is a finding, too: otherwise a change that crashes it would pass.
    """
    configured = context.settings.policy.flags.get(name)
    default = (
        flag.human_level if context.by_people else flag.levels.get(context.category, flag.level)
    )
    if (configured or default) == "off":
        return
    try:
        if flag.rule.partition(":")[0] in ABOUT_TESTS and not touches_tests(change):
            return
        violations = tuple(load_rule(flag)(change, context))
        debatable = _find_debatable(flag, change, violations) if context.by_people else ()
        for violation in violations:
            level = (violation.level if default != "note" else None) or default
            level = configured or ("warn" if violation in debatable else level)
            yield Finding(name, level, violation.file, violation.line, violation.detail)
    except Exception as error:
        kind = type(error).__name__
        detail = f"This flag could not look at the change: {kind}. Please report it."
        yield Finding(name, configured or default, "", 0, detail)


def _find_debatable(
    flag: FlagEntry, change: Changeset, violations: tuple[RuleViolation, ...]
) -> tuple[RuleViolation, ...]:
    """Those of the violations in a person's change that a reviewer would only ask about."""
    if not flag.warn_if or not violations:
        return ()
    undecided = any(each.certain is None for each in violations)
    explained = undecided and may_rewrite_tests(change, violations)
    debatable = (False, None) if explained else (False,)
    return tuple(each for each in violations if each.certain in debatable)


def load_rule(flag: FlagEntry) -> Rule:
    """The function that finds this flag's violations."""
    module, _, function = flag.rule.partition(":")
    rule: Rule = getattr(importlib.import_module(f"{__name__}.{module}"), function)
    return rule


def touches_tests(change: Changeset) -> bool:
    """False for a change of product code alone. A file of an unsupported language may be a test,
    and so may one with inline tests."""
    return not all(map(_is_product_alone, change.files))


def _is_product_alone(file: ChangedFile) -> bool:
    return all(
        find_language(path) is not None
        and not has_inline_tests(path)
        and is_product(path)
        and not any(word in path.lower() for word in _TEST_PATH_PARTS)
        for path in (file.path, file.old_path, file.raw_path, file.raw_old_path)
    )


# --- explanations of weaker tests -----------------------------------------------------------------


# The beginnings of stripped lines without a statement: comments, imports, attributes, brackets.
_NO_STATEMENT = compile_lazily(
    r"$|\W+$|#|//|/?\*|--|;;|<!--|%|@\w|\"\"\""
    r"|(import|use|using|from|require(_once|_relative)?|include|package)\b(?!.*[=({]\s*$)"
    r"|(const|let|var) [\w{}, ]+ = require\("
)


def may_rewrite_tests(change: Changeset, violations: Sequence[RuleViolation]) -> bool:
    """True if the rest of a person's change may explain weaker tests: it changes the tested code or
    dependencies, or adds more lines of code than there are violations. Moved lines count as added:
    they show that the change does more than delete."""
    from gitlab_nightshift.proof.reading.touched_files import describe_dependencies

    if any(any(_list_product_lines(file)) or describe_dependencies(file) for file in change.files):
        return True
    added = (line for file in change.files if is_code(file.path) for line in file.added)
    return sum(map(_has_statement, added)) > len(violations)


def _list_product_lines(file: ChangedFile) -> Iterator[Line]:
    """The deleted and added lines of a file with statements of product code."""
    for lines, side in zip((file.deleted, file.added), read_sides(file), strict=True):
        if is_code(side.path) and is_product(side.path) and not has_test_name(side.path):
            excluded = {n for test in side.tests for n in range(test.line, test.end + 1)}
            excluded |= side.lines_without_code
            product = (line for line in lines if line.number not in excluded)
            yield from filter(_has_statement, product)


def _has_statement(line: Line) -> bool:
    return not _NO_STATEMENT.match(line.text.strip())
