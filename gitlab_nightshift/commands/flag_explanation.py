"""``nightshift check --explain FLAG``: what a flag means, and what to do about a finding."""

import difflib
from collections.abc import Iterator

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.registry.flag_registry import FLAGS, FlagEntry

_MEANINGS = {
    "fail": "fail: a reviewer would block this",
    "warn": "warn: a reviewer would ask about this",
    "note": "note: shown, without effect",
    "off": "off: not checked",
}


def explain(name: str) -> str:
    """One flag, or with "all" the list. Raises ``E_CONFIG`` for an unknown name."""
    if name == "all":
        width = max(map(len, FLAGS))
        return "\n".join(f"{flag:<{width}}  {entry.why}" for flag, entry in FLAGS.items())
    if name not in FLAGS:
        near = difflib.get_close_matches(name, FLAGS, 1)
        hint = f"did you mean {near[0]}?" if near else "--explain all lists them"
        raise build_config_error(f"--explain: no flag {name!r}; {hint}")
    return "\n".join(_format_flag(name, FLAGS[name]))


def _format_flag(name: str, flag: FlagEntry) -> Iterator[str]:
    yield f"{name}: {flag.what}"
    yield f"Why it matters: {flag.why}"
    yield ""
    yield f"A change of people: {_MEANINGS[flag.people]}."
    if flag.warn_if:
        yield f"  It is only a warning if {flag.warn_if}."
    yield f"A night's change: {_MEANINGS[flag.level]}."
    strict = [category for category, level in flag.levels.items() if level != flag.level]
    if strict:
        yield f"In {', '.join(strict)}: {_MEANINGS[flag.levels[strict[0]]]}."
    if not flag.rule:
        yield "Only running the change shows it (--run)."
    yield ""
    yield f"If it is meant: write `nightshift: allow {name} because ...` into the merge request's"
    yield f"description or a commit. For the whole project: policy.flags.{name} in nightshift.yaml."
