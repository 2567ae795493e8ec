"""Which commands check less than those that stood in their place."""

import re
from collections.abc import Iterator, Mapping, Sequence

from gitlab_nightshift.verdict.tooling.commands import Command
from gitlab_nightshift.verdict.tooling.directions import number, shown

_PASSES = re.compile(
    r"\|\|\s*(true|:|/bin/true|exit\s+0|echo|printf|\(?\s*exit 0\s*\)?|return 0|return$|cat\b|ls\b)"
    r"|;\s*(true|:|exit\s+0)\s*;?\s*$|\|\s*(true|cat)\s*$|&\s*$|\bset \+e\b|\|\|\s*\{\s*(echo|true)"
)
_WEAK = re.compile(
    r"^(--exit-zero\S*|--passWithNoTests|--pass-with-no-tests|--allow-?empty\S*"
    r"|--no-?fail(?!-fast)\S*|--soft-fail"
    r"|--allow-failures?|--force-exit-0|--noerror\S*|--exit-code=0|--issues-exit-code=0|--exit-0"
    r"|-Dmaven\.test\.failure\.ignore\S*"
    r"|-fn|--fail-never|--quiet-failures|--suppress-\S*|--ignore-errors?|--only-changed"
    r"|--onlyChanged|--lf|--last-failed"
    r"|--changedSince\S*|--no-error-on-unmatched-pattern|--no-warnings|--continue-on-error"
    r"|--no-verify|--bypass\S*)$"
)
_DESELECTS = re.compile(
    r"^(-k|--ignore(-glob|-pattern|-path|s)?|--deselect|--exclude\S*|--skip\S*|-skip"
    r"|-DskipTests\S*|-DskipITs\S*"
    r"|-Dmaven\.test\.skip\S*|-Dtest|-Dgroups|-DexcludedGroups|-D[\w.-]+\.skip\S*"
    r"|--test-?path-?ignore-?patterns?"
    r"|--testPathIgnorePatterns|--testNamePattern|-t|--grep|--invert|-run|-short|--short"
    r"|-test\.run|--tests|--tag|-tags|--filter"
    r"|--no-tests|--exclude-tags?|--exclude-group|-x|--except|--lib|--bins|--no-run"
    r"|--testPathPattern)$"
)
_STRICT = re.compile(
    r"^(--strict\S*|--check\S*|-Werror\S*|-W|--error-exitcode|--max-warnings|-race"
    r"|--deny-warnings|--warnings-as-errors"
    r"|--fail-on\S*|--fail-level|--all-features|--all-targets|--workspace|--all|--dry-run|--diff"
    r"|--exit-code|--frozen"
    r"|--locked|--coverage|--cov\S*|-cover\S*|--forbid-only|--ci|--detect-open-handles|--noEmit"
    r"|--list-different|--fatal-warnings"
    r"|--disallow\S*|--warn-unused\S*|--runInBand|--randomi[sz]e\S*)$"
)
_LIMITS_BELOW = re.compile(
    r"^(--cov-fail-under|--fail-under(-\w+)?|--coverage\.thresholds\.\w+|--lines|--branches"
    r"|--functions|--statements"
    r"|--min-coverage|--minimum|--threshold|--score|--fail_under)$"
)
_LIMITS_ABOVE = re.compile(
    r"^(--max-warnings|--max-line-length|--max-complexity|--line-length|--reruns|--retries"
    r"|--retry|--flake-attempts|--allowed-failures)$"
)


def weaker(old: Command, new: Command) -> str:
    """What the second command checks less than the first, or ""."""
    if _PASSES.search(new.text) and not _PASSES.search(old.text):
        return f"passes whatever happens: `{_short(new)}`"
    if new.text.lstrip("@ \t").startswith("-") and not old.text.lstrip("@ \t").startswith("-"):
        return f"passes whatever happens: `{_short(new)}`"
    if limit := limits_worse(old, new):
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
        return f"gained {shown(gained + changed)}: `{_short(new)}`"
    lost = [n for n in old.options if n not in new.options and _STRICT.match(n)]
    if lost and old.words[:1] == new.words[:1]:
        return f"lost {shown(lost)}: `{_short(new)}`"
    return _narrower(old, new)


def limits_worse(old: Command, new: Command) -> str:
    """A limit that was lowered, raised, or is gone."""
    for name in {**old.options, **new.options}:
        before, after = (number(side.options.get(name, "")) for side in (old, new))
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


def _is_deselect(name: str, command: Command) -> bool:
    if name == "-m":
        return command.options[name].startswith("not")
    if name == "-x":  # pytest's -x stops at the first failure
        return command.family == "gradle"
    if name == "-t":
        return command.family in ("script tests", "rspec")
    return bool(_DESELECTS.match(name))


def _narrower(old: Command, new: Command) -> str:
    if old.family != new.family or not new.targets or new.targets == old.targets:
        return ""
    wide = old.targets or frozenset({"."})
    if all(any(_within(target, each) for each in wide) for target in new.targets) and not (
        wide <= new.targets
    ):
        return f"looks at {shown(sorted(new.targets))} only: `{_short(new)}`"
    lost = wide - new.targets
    if old.targets and lost and new.targets < old.targets:
        return f"no longer looks at {shown(sorted(lost))}: `{_short(new)}`"
    return ""


def _within(path: str, folder: str) -> bool:
    folder = folder.removesuffix("...").removeprefix("./").strip("/*") or "."
    path = path.removeprefix("./")
    return folder in (".", path) or path.startswith((f"{folder}/", f"{folder}::"))


def _short(command: Command) -> str:
    text = command.text.replace("`", "'")
    return text if len(text) <= 80 else f"{text[:77]}…"


# --- whole jobs -----------------------------------------------------------------------------------

Jobs = Mapping[str, Sequence[Command]]


def fewer_checks(old: Jobs, new: Jobs) -> Iterator[tuple[str, str]]:
    """For each job, what its commands check less; one that moved to another job does not count."""
    everywhere = [command for commands in new.values() for command in commands]
    had = {command.text for commands in old.values() for command in commands}
    fresh = [command for command in everywhere if command.text not in had]
    has = {command.bare for command in everywhere}
    for job, commands in old.items():
        own = [c for c in new.get(job, ()) if c in fresh]
        for command in commands:
            if not command.checks or command.text.strip() in {
                c.text.strip() for c in new.get(job, ())
            }:
                continue
            if text := _instead(command, own, fresh, has):
                yield job, text


def _instead(
    command: Command, own: Sequence[Command], fresh: Sequence[Command], has: set[str]
) -> str:
    alike = [c for c in (*own, *fresh) if c.family == command.family]
    if alike:
        return min((weaker(command, each) for each in alike), key=len)
    if command.bare in has and not _PASSES.search(command.text):
        return ""
    same_text = [c for c in (*own, *fresh) if command.bare in c.bare]
    if same_text:
        return weaker(command, same_text[0])
    if any(each.wraps and not _PASSES.search(each.text) for each in (*own, *fresh)):
        return ""
    return f"no longer runs `{_short(command)}`"
