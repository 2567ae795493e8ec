"""Do new parameters break those who call with the old ones?"""

from collections.abc import Sequence

from gitlab_nightshift.proof.syntax.parameters import Parameter

_BY_NAME = frozenset(("python", "kotlin", "scala", "csharp"))


def compare_parameters(old: Sequence[Parameter], new: Sequence[Parameter], language: str) -> str:
    """Why callers break, in a few words; empty where they do not."""
    was, now = ([p.name for p in side if p.kind == "positional"] for side in (old, new))
    if [name for name in was if name in now] != [name for name in now if name in was]:
        return "its parameters are in another order"
    kinds = {each.kind for each in new}
    if "rest" not in kinds and any(each.kind == "rest" for each in old):
        return "it does not take any number of arguments any more"
    if gone := _find_gone(old, new, kinds, language):
        return f"parameter {gone} is gone"
    required = _find_required(old, new, language)
    return f"parameter {required} is required now" if required else ""


def _find_gone(
    old: Sequence[Parameter], new: Sequence[Parameter], kinds: set[str], language: str
) -> str:
    """A parameter that is not taken any more, by the name or the place that callers know."""
    known = {each.name for each in new}
    for index, one in enumerate(old):
        if one.kind not in ("positional", "keyword") or one.name in known or "options" in kinds:
            continue
        named = one.kind == "keyword" or (language in _BY_NAME and not one.name.startswith("_"))
        if named or (index >= len(new) and "rest" not in kinds):
            return one.name
    return ""


def _find_required(old: Sequence[Parameter], new: Sequence[Parameter], language: str) -> str:
    """A parameter that callers did not have to give before."""
    if any(each.kind == "rest" for each in old):
        return ""
    by_name = {each.name: each for each in old}
    for index, other in enumerate(new):
        at_place = old[index] if index < len(old) and language not in _BY_NAME else None
        one = by_name.get(other.name, at_place)
        taken = other.kind in ("positional", "keyword") and other.default is None
        if taken and (one is None or one.default is not None):
            return other.name
    return ""
