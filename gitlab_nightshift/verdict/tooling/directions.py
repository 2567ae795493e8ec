"""In which direction a setting is looser: each says what changed for the worse, or ""."""

import operator
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any

from gitlab_nightshift.verdict.rule_tables import RuleTable
from gitlab_nightshift.verdict.tooling.command_lines import describe_checker_loss
from gitlab_nightshift.verdict.tooling.tool_facts import list_items

Worse = Callable[[Any, Any], str]
"""Looks at the old and the new value (None where the setting is not there)."""

_TABLE = RuleTable(__file__)
_OUTPUT = _TABLE.get_pattern("output")
_UNREACHABLE = _TABLE.get_pattern("unreachable")
_SAME_OPTIONS = {"-Xfatal-warnings": "-Werror"}
_SHOWN = 3


def parse_direction(said: str) -> Worse:
    """The direction of a row of a table: its name, a limit, or a scale from loose to strict."""
    if said.startswith("raised above "):
        return _make_upper_limit(float(said.removeprefix("raised above ")))
    kind, scale, words = said.partition("scale ")
    if scale:
        severity = _make_severity_scale(words.split(" < "))
        return _with_limit(severity) if kind else severity
    return _BY_NAME[said]


def format_items(items: Iterable[str]) -> str:
    """The first few of a list, short."""
    each = list(items)
    more = f" and {len(each) - _SHOWN} more" if len(each) > _SHOWN else ""
    return ", ".join(item if len(item) <= 60 else f"{item[:57]}…" for item in each[:_SHOWN]) + more


# --- lists ----------------------------------------------------------------------------------------

_Holds = Callable[[Collection[str], str], bool]


def _make_growth(holds: _Holds) -> Worse:
    """A list of what is left out: looser where it gains what the old one does not hold."""

    def describe_growth(old: Any, new: Any) -> str:
        had, has = list_items(old), list_items(new)
        gone = [item for item in had if item not in has]
        came = [item for item in has if not holds(had, item)]
        gained = [item for item in came if not _is_reworded(item, gone)]
        return f"gained {format_items(gained)}" if gained else ""

    return describe_growth


def _is_reworded(item: str, gone: list[str]) -> bool:
    """The text of an error that a tool says in other words now."""
    return " " in item and bool(get_close_matches(item[:200], [g[:200] for g in gone], cutoff=0.8))


def _make_loss(holds: _Holds, *, gone: bool = True) -> Worse:
    """A list of what is checked: looser where it loses what the new one does not hold."""

    def describe_loss(old: Any, new: Any) -> str:
        if gone and new is None and old not in (None, "", ()):
            return "is gone"
        has = list_items(new)
        lost = [item for item in list_items(old) if not holds(has, item)]
        return f"lost {format_items(lost)}" if lost else ""

    return describe_loss


def _holds_code(codes: Collection[str], code: str) -> bool:
    """E501 is nothing new where E5 or ALL was in the list."""
    return any(code.startswith(each) or each.upper() == "ALL" for each in codes)


def _holds_glob(globs: Collection[str], glob: str) -> bool:
    """A pattern of files is not lost where another one holds all of it."""
    has = [each for item in globs for each in _expand_braces(item)]
    return all(any(each == g or fnmatchcase(each, g) for g in has) for each in _expand_braces(glob))


def _holds_option(options: Collection[str], option: str) -> bool:
    """Options that make a compiler strict; the older of two names is the same."""
    after = [_SAME_OPTIONS.get(item, item) for item in options]
    whole = {item.partition(":")[0] for item in after if item.endswith(("Xlint", ":all", ":_"))}
    return _SAME_OPTIONS.get(option, option) in after or option.partition(":")[0] in whole


def _expand_braces(glob: str) -> list[str]:
    """``{a,b}/*`` is two patterns."""
    match = re.search(r"\{([^{}]*)\}", glob[:200])
    if not match or glob.count("{") > 3:
        return [glob]
    start, end = glob[: match.start()], glob[match.end() :]
    return [each for part in match[1].split(",") for each in _expand_braces(start + part + end)]


_describe_growth = _make_growth(
    lambda had, item: item in had or f"**/{item}" in had or bool(_OUTPUT.match(item))
)
_describe_line_growth = _make_growth(
    lambda had, item: item in had or bool(_OUTPUT.match(item) or _UNREACHABLE.search(item))
)
_describe_loss = _make_loss(operator.contains)
_describe_glob_loss = _make_loss(_holds_glob, gone=False)


def _describe_excluded_globs(old: Any, new: Any) -> str:
    """A list of patterns or names of which some, behind ``!`` or ``-``, leave something out."""
    sides = [
        [tuple(i for i in list_items(v) if (i[:1] in ("!", "-")) == out) for v in (old, new)]
        for out in (True, False)
    ]
    return _describe_growth(*sides[0]) or ("" if new is None else _describe_glob_loss(*sides[1]))


def _describe_count_loss(old: Any, new: Any) -> str:
    """What is checked, where one entry may be there several times."""
    lost = [*(Counter(list_items(old)) - Counter(list_items(new)))]
    return f"lost {format_items(lost)}" if lost else ""


def _describe_word_loss(old: Any, new: Any) -> str:
    """The same for the words of texts, such as names of tasks."""
    return _describe_loss(*(re.findall(r"[\w:.-]+", " ".join(list_items(v))) for v in (old, new)))


def _describe_filter(old: Any, new: Any) -> str:
    """A choice of tests: any other one may leave some out, none at all leaves out nothing."""
    return f"is {format_items(list_items(new))} now" if new not in (None, old, "", ()) else ""


# --- limits ---------------------------------------------------------------------------------------


def parse_number(value: Any) -> float | None:
    """A number, also with a percent sign; None for anything else."""
    if isinstance(value, bool):
        return None
    match = re.fullmatch(r"\s*(-?\d+(?:\.\d+)?)\s*%?\s*", str(value))
    return float(match[1]) if match else None


def _describe_increase(old: Any, new: Any) -> str:
    """A limit from above."""
    before, after = parse_number(old), parse_number(new)
    if before is not None and after is None:
        return "is gone"
    if before is None or after is None or after <= before:
        return ""
    return f"was raised from {before:g} to {after:g}"


def _make_upper_limit(default: float) -> Worse:
    """A limit from above that is there even where nobody sets it."""
    return lambda *values: _describe_increase(*(default if v is None else v for v in values))


def _describe_decrease(old: Any, new: Any) -> str:
    """A limit from below."""
    before, after = parse_number(old), parse_number(new)
    if before is not None and before > 0 and after is None:
        return "is gone"
    if before is None or after is None or after >= before:
        return ""
    return f"was lowered from {before:g} to {after:g}"


# --- switches and severities ----------------------------------------------------------------------


def truth(value: Any) -> bool:
    """A switch as the usual formats write it."""
    if isinstance(value, str):
        return value.strip().lower() not in ("", "false", "no", "off", "0", "none", "disable")
    return bool(value)


def _describe_switch_on(old: Any, new: Any) -> str:
    """A switch that lets things pass."""
    return "was switched on" if truth(new) and not truth(old) else ""


def _describe_switch_off(old: Any, new: Any) -> str:
    """A switch that checks something: looser where it is off now, or gone, or half on."""
    if old == "enable" and new in ("warnings", "annotations"):
        return f"was enable, is {new} now"
    if new is None:
        return "is gone" if truth(old) else ""
    return "was switched off" if not truth(new) and (old is None or truth(old)) else ""


def _make_severity_scale(words: list[str]) -> Worse:
    """A severity: ``words`` from the loosest to the strictest, equal ones separated by ``|``."""
    rank = {word: n for n, same in enumerate(words) for word in same.split("|")}

    def describe_loosening(old: Any, new: Any) -> str:
        before, after = (rank.get(_read_severity(value)) for value in (old, new))
        if new is None:
            return f"is gone (was {_read_severity(old)})" if before else ""
        if after is None or (before is None and (old is not None or after > 0)):
            return ""
        if before is not None and after >= before:
            return ""
        was = f" (was {_read_severity(old)})" if old is not None else ""
        return f"is {_read_severity(new)} now{was}"

    return describe_loosening


def _with_limit(severity: Worse) -> Worse:
    """A rule as ``[severity, limit]``: a limit from above may follow the severity."""

    def describe_loosening(old: Any, new: Any) -> str:
        limits = [
            parse_number(v[1]) if isinstance(v, (list, tuple)) and len(v) > 1 else None
            for v in (old, new)
        ]
        return severity(old, new) or ("" if None in limits else _describe_increase(*limits))

    return describe_loosening


def _read_severity(value: Any) -> str:
    if isinstance(value, (tuple, list)) and value:
        value = value[0]
    if isinstance(value, Mapping):
        value = value.get("level", value.get("severity", ""))
    return str(value).lower()


def _describe_change(old: Any, new: Any) -> str:
    """A text (a pattern, a level's name) of which only a change can be noticed, not a direction."""
    if old is None or old == new:
        return "" if old == new else f"is {format_items(list_items(new)) or new} now"
    return "is gone" if new is None else f"was {old}, is {new} now"


_BY_NAME: dict[str, Worse] = {
    "gained": _describe_growth,
    "lines gained": _describe_line_growth,
    "codes gained": _make_growth(_holds_code),
    "lost": _describe_loss,
    "codes lost": _make_loss(_holds_code),
    "globs lost": _describe_glob_loss,
    "options lost": _make_loss(_holds_option, gone=False),
    "count lost": _describe_count_loss,
    "words lost": _describe_word_loss,
    "checkers lost": describe_checker_loss,
    "globs": _describe_excluded_globs,
    "filtered": _describe_filter,
    "raised": _describe_increase,
    "lowered": _describe_decrease,
    "switched on": _describe_switch_on,
    "switched off": _describe_switch_off,
    "changed": _describe_change,
    "removed": lambda old, new: "is gone" if new is None and old is not None else "",
    "added": lambda old, new: "is new" if old is None and new is not None else "",
}
