"""In which direction a setting is looser: each function says what changed for the worse, or ""."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from gitlab_nightshift.verdict.tooling.facts import items_of

Worse = Callable[[Any, Any], str]
"""Looks at the old and the new value (None where the setting is not there)."""

_OUTPUT = re.compile(
    r"^[*./!]*(node_modules|dist|build|coverage|htmlcov|target|out|venv|env|tox|nox|git|eggs"
    r"|egg-info|__pycache__|mypy_cache|ruff_cache|pytest_cache|next|nuxt|svelte-kit|turbo|cache"
    r"|vendor|bower_components|third_party|site-packages|_build|__pypackages__)([*/]|$)"
)
_UNREACHABLE = re.compile(
    r"TYPE_CHECKING|__main__|NotImplementedError|abstractmethod|overload|Protocol|\.\.\.|__repr__"
    r"|assert_never|AssertionError|^pragma: no ?cover$"
)
_SAME_OPTIONS = {"-Xfatal-warnings": "-Werror"}
_SHOWN = 3


def shown(items: Iterable[str]) -> str:
    """The first few of a list, short."""
    each = list(items)
    more = f" and {len(each) - _SHOWN} more" if len(each) > _SHOWN else ""
    return ", ".join(item if len(item) <= 60 else f"{item[:57]}…" for item in each[:_SHOWN]) + more


def grows(old: Any, new: Any) -> str:
    """A list of what is left out: looser where it gains something that is no build output."""
    had = set(items_of(old))
    gained = [item for item in items_of(new) if item not in had and not _OUTPUT.match(item)]
    return f"gained {shown(gained)}" if gained else ""


def globs_out(old: Any, new: Any) -> str:
    """A list of patterns or names of which some, behind ``!`` or ``-``, leave something out."""
    out = grows(*(tuple(i for i in items_of(v) if i[:1] in ("!", "-")) for v in (old, new)))
    within = fewer_globs(
        *(tuple(i for i in items_of(v) if i[:1] not in ("!", "-")) for v in (old, new))
    )
    return out or ("" if new is None else within)


def lines_grow(old: Any, new: Any) -> str:
    """Lines that no coverage is asked of; the usual idioms that no test can reach are no matter."""
    return grows(old, tuple(item for item in items_of(new) if not _UNREACHABLE.search(item)))


def codes_grow(old: Any, new: Any) -> str:
    """The same for codes of rules: E501 is nothing new where E5 was in the list."""
    had = items_of(old)
    gained = [item for item in items_of(new) if not _covered(item, had)]
    return f"gained {shown(gained)}" if gained else ""


def shrinks(old: Any, new: Any) -> str:
    """A list of what is checked: looser where it loses something."""
    if new is None and old not in (None, "", ()):
        return "is gone"
    has = set(items_of(new))
    lost = [item for item in items_of(old) if item not in has]
    return f"lost {shown(lost)}" if lost else ""


def codes_shrink(old: Any, new: Any) -> str:
    """The same for codes of rules: E501 is not lost where E5 or ALL is there."""
    if new is None and old not in (None, "", ()):
        return "is gone"
    lost = [item for item in items_of(old) if not _covered(item, items_of(new))]
    return f"lost {shown(lost)}" if lost else ""


def fewer(old: Any, new: Any) -> str:
    """The same where one entry may stand there several times."""
    lost = [*(Counter(items_of(old)) - Counter(items_of(new)))]
    return f"lost {shown(lost)}" if lost else ""


def fewer_words(old: Any, new: Any) -> str:
    """The same for the words of texts, such as names of tasks."""
    before, after = (re.findall(r"[\w:.-]+", " ".join(items_of(value))) for value in (old, new))
    return shrinks(before, after)


def fewer_globs(old: Any, new: Any) -> str:
    """The same for patterns of files: one is not lost where another one holds all of it."""
    has = [each for item in items_of(new) for each in _braces(item)]
    lost = [
        item
        for item in items_of(old)
        if not all(any(each == g or fnmatchcase(each, g) for g in has) for each in _braces(item))
    ]
    return f"lost {shown(lost)}" if lost else ""


def _braces(glob: str) -> list[str]:
    """``{a,b}/*`` is two patterns."""
    match = re.search(r"\{([^{}]*)\}", glob[:200])
    if not match or glob.count("{") > 3:
        return [glob]
    ends = (glob[: match.start()], glob[match.end() :])
    return [each for part in match[1].split(",") for each in _braces(f"{ends[0]}{part}{ends[1]}")]


def compiler_options(old: Any, new: Any) -> str:
    """Options that make a compiler strict; the older of two names is the same."""
    after = [_SAME_OPTIONS.get(item, item) for item in items_of(new)]
    whole = {item.partition(":")[0] for item in after if item.endswith(("Xlint", ":all", ":_"))}
    lost = [
        item
        for item in items_of(old)
        if _SAME_OPTIONS.get(item, item) not in after and item.partition(":")[0] not in whole
    ]
    return f"lost {shown(lost)}" if lost else ""


def compiler_switch(old: Any, new: Any) -> str:
    """A switch of a compiler that may say ``disable`` and half of ``enable``."""
    if old == "enable" and new in ("warnings", "annotations"):
        return f"was enable, is {new} now"
    return turned_off(*("false" if value == "disable" else value for value in (old, new)))


def filters(old: Any, new: Any) -> str:
    """A choice of tests: any other one may leave some out, none at all leaves out nothing."""
    return f"is {shown(items_of(new))} now" if new not in (None, old, "", ()) else ""


def _covered(code: str, by: Iterable[str]) -> bool:
    return any(code.startswith(each) or each.upper() == "ALL" for each in by)


def higher(old: Any, new: Any) -> str:
    """A limit from above."""
    before, after = number(old), number(new)
    if before is not None and after is None:
        return "is gone"
    if before is None or after is None or after <= before:
        return ""
    return f"was raised from {before:g} to {after:g}"


def above(default: float) -> Worse:
    """A limit from above that is there even where nobody sets it."""

    def worse(old: Any, new: Any) -> str:
        known = (default if value is None else value for value in (old, new))
        return higher(*known)

    return worse


def lower(old: Any, new: Any) -> str:
    """A limit from below."""
    before, after = number(old), number(new)
    if before is not None and before > 0 and after is None:
        return "is gone"
    if before is None or after is None or after >= before:
        return ""
    return f"was lowered from {before:g} to {after:g}"


def number(value: Any) -> float | None:
    """A number, also with a percent sign; None for anything else."""
    if isinstance(value, bool):
        return None
    match = re.fullmatch(r"\s*(-?\d+(?:\.\d+)?)\s*%?\s*", str(value))
    return float(match[1]) if match else None


def turned_on(old: Any, new: Any) -> str:
    """A switch that lets things pass."""
    return "was switched on" if truth(new) and not truth(old) else ""


def turned_off(old: Any, new: Any) -> str:
    """A switch that checks something: looser where it is off now, or gone."""
    if new is None:
        return "is gone" if truth(old) else ""
    return "was switched off" if not truth(new) and (old is None or truth(old)) else ""


def truth(value: Any) -> bool:
    """A switch as the usual formats write it."""
    if isinstance(value, str):
        return value.strip().lower() not in ("", "false", "no", "off", "0", "none")
    return bool(value)


def scale(*words: str) -> Worse:
    """A severity: ``words`` from the loosest to the strictest, equal ones separated by ``|``."""
    rank = {word: n for n, same in enumerate(words) for word in same.split("|")}

    def worse(old: Any, new: Any) -> str:
        before, after = (rank.get(_severity(value)) for value in (old, new))
        if new is None:
            return f"is gone (was {_severity(old)})" if before else ""
        if after is None or (before is None and (old is not None or after > 0)):
            return ""
        if before is not None and after >= before:
            return ""
        was = f" (was {_severity(old)})" if old is not None else ""
        return f"is {_severity(new)} now{was}"

    return worse


def with_limit(severity: Worse) -> Worse:
    """A rule as ``[severity, limit]``: a limit from above may stand behind the severity."""

    def worse(old: Any, new: Any) -> str:
        limits = (
            number(value[1]) if isinstance(value, (list, tuple)) and len(value) > 1 else None
            for value in (old, new)
        )
        before, after = limits
        raised = higher(before, after) if before is not None and after is not None else ""
        return severity(old, new) or raised

    return worse


def _severity(value: Any) -> str:
    if isinstance(value, (tuple, list)) and value:
        value = value[0]
    if isinstance(value, Mapping):
        value = value.get("level", value.get("severity", ""))
    return str(value).lower()


def changed(old: Any, new: Any) -> str:
    """A text (a pattern, a level's name) for which only another value can be told."""
    if old is None or old == new:
        return "" if old == new else f"is {shown(items_of(new)) or new} now"
    return "is gone" if new is None else f"was {old}, is {new} now"


def only_gone(old: Any, new: Any) -> str:
    """Something that checks by being there."""
    return "is gone" if new is None and old is not None else ""


def appears(old: Any, new: Any) -> str:
    """Something that only lets things pass, whatever its value."""
    return "is new" if old is None and new is not None else ""
