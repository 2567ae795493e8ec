"""Which commands check less than those that stood in their place."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from gitlab_nightshift.verdict.rule_tables import RuleTable
from gitlab_nightshift.verdict.tooling.command_lines import CommandLine
from gitlab_nightshift.verdict.tooling.directions import format_items, parse_number

_TABLE = RuleTable(__file__)

_PASSES = _TABLE.get_pattern("passes")
_WEAK = _TABLE.get_pattern("weak")
_DESELECTS = _TABLE.get_pattern("deselects")
_STRICT = _TABLE.get_pattern("strict")
_LIMITS_BELOW = _TABLE.get_pattern("limits_below")
_LIMITS_ABOVE = _TABLE.get_pattern("limits_above")


def describe_weakening(old: CommandLine, new: CommandLine) -> str:
    """What the second command checks less than the first, or ""."""
    if _PASSES.search(new.text) and not _PASSES.search(old.text):
        return f"passes whatever happens: `{_shorten_command(new)}`"
    if new.text.lstrip("@ \t").startswith("-") and not old.text.lstrip("@ \t").startswith("-"):
        return f"passes whatever happens: `{_shorten_command(new)}`"
    if limit := describe_weaker_limits(old, new):
        return limit
    gained = [
        n for n in new.options if n not in old.options and (_WEAK.match(n) or _is_deselect(n, new))
    ]
    changed = [
        n
        for n in new.options
        if _DESELECTS.match(n) and n in old.options and new.text.count(n) > old.text.count(n)
    ]
    if gained or changed:
        return f"gained {format_items(gained + changed)}: `{_shorten_command(new)}`"
    lost = [n for n in old.options if n not in new.options and _STRICT.match(n)]
    if lost and old.words[:1] == new.words[:1]:
        return f"lost {format_items(lost)}: `{_shorten_command(new)}`"
    return _describe_narrowing(old, new)


def describe_weaker_limits(old: CommandLine, new: CommandLine) -> str:
    """A limit that was lowered, raised, or is gone."""
    for name in {**old.options, **new.options}:
        before, after = (parse_number(side.options.get(name, "")) for side in (old, new))
        if _LIMITS_BELOW.match(name) and before is not None and (after is None or after < before):
            lowered = (
                f"was lowered from {before:g} to {after:g}" if after is not None else "is gone"
            )
            return f"{name} {lowered}"
        if (
            _LIMITS_ABOVE.match(name)
            and after is not None
            and after > (before or 0)
            and (before is not None or "retr" in name or "rerun" in name)
        ):
            return f"{name} was raised to {after:g}"
    return ""


def _is_deselect(name: str, command: CommandLine) -> bool:
    if name == "-m":
        return command.options[name].startswith("not")
    if name == "-x":  # pytest's -x stops at the first failure
        return command.purpose == "gradle"
    if name == "-t":
        return command.purpose in ("script tests", "rspec")
    return bool(_DESELECTS.match(name))


def _describe_narrowing(old: CommandLine, new: CommandLine) -> str:
    if old.purpose != new.purpose or not new.targets or new.targets == old.targets:
        return ""
    wide = old.targets or frozenset({"."})
    if all(any(_within(target, each) for each in wide) for target in new.targets) and not all(
        any(_within(each, target) for target in new.targets) for each in wide
    ):
        return f"looks at {format_items(sorted(new.targets))} only: `{_shorten_command(new)}`"
    lost = wide - new.targets
    if old.targets and lost and new.targets < old.targets:
        return f"no longer looks at {format_items(sorted(lost))}: `{_shorten_command(new)}`"
    return ""


def _within(path: str, folder: str) -> bool:
    folder = folder.removesuffix("...").removeprefix("./").strip("/*") or "."
    path = path.removeprefix("./")
    return folder in (".", path) or path.startswith((f"{folder}/", f"{folder}::"))


def _shorten_command(command: CommandLine) -> str:
    text = command.text.replace("`", "'")
    return text if len(text) <= 80 else f"{text[:77]}…"


# --- whole jobs -----------------------------------------------------------------------------------

Jobs = Mapping[str, Sequence[CommandLine]]


def find_lost_checks(old: Jobs, new: Jobs) -> Iterator[tuple[str, str]]:
    """For each job, what its commands check less; one that moved to another job does not count."""
    everywhere = [command for commands in new.values() for command in commands]
    had = {command.text for commands in old.values() for command in commands}
    fresh = [command for command in everywhere if command.text not in had]
    for job, commands in old.items():
        own = [c for c in new.get(job, ()) if c in fresh]
        left = Counter(_strip_version(c.text) for c in new.get(job, ()))
        for command in commands:
            left[stays := _strip_version(command.text)] -= 1
            if not command.checks or left[stays] >= 0:
                continue
            if text := _describe_replacement(command, own, fresh, everywhere):
                yield job, text


def _strip_version(text: str) -> str:
    """A command for each version of a language is one check: old versions go."""
    return re.sub(r"--python-version[= ]\S+", "", text).strip()


def _describe_replacement(
    command: CommandLine,
    own: Sequence[CommandLine],
    fresh: Sequence[CommandLine],
    everywhere: Sequence[CommandLine],
) -> str:
    alike = [c for c in (*own, *fresh) if c.purpose == command.purpose]
    if alike:
        return min((describe_weakening(command, each) for each in alike), key=len)
    if not _PASSES.search(command.text) and any(
        _is_as_strong(each, command) for each in everywhere
    ):
        return ""
    same_text = [c for c in (*own, *fresh) if command.bare in c.bare]
    if same_text:
        return describe_weakening(command, same_text[0])
    if any(each.wraps and not _PASSES.search(each.text) for each in (*own, *fresh)):
        return ""
    return f"no longer runs `{_shorten_command(command)}`"


def _is_as_strong(left: CommandLine, lost: CommandLine) -> bool:
    """True for the same command elsewhere, or another way to call its tool that checks no less."""
    if left.bare == lost.bare or _list_plain_words(left) != _list_plain_words(lost):
        return left.bare == lost.bare
    wide, wanted = left.targets or frozenset({"."}), lost.targets or frozenset({"."})
    covered = all(any(_within(target, each) for each in wide) for target in wanted)
    return covered and not describe_weakening(lost, left)


def _list_plain_words(command: CommandLine) -> list[str]:
    """The tool and what it is to do: neither options nor paths."""
    others = {*command.options.values(), *command.targets}
    return [word for word in command.words if word[:1] != "-" and word not in others]
