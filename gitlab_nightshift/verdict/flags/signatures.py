"""Does a new signature break those who call the old one?"""

import re

from gitlab_nightshift.verdict.syntax.parameters import Parameter, Signature

_BY_NAME = frozenset(("python", "kotlin", "scala", "csharp"))
_TYPED = frozenset(("go", "java", "rust", "scala", "kotlin", "csharp"))


def compare_signatures(old: Signature, new: Signature, language: str) -> str:
    """Why callers break, in a few words; empty where they do not."""
    names_then = [each.name for each in _list_positional(old)]
    names_now = [each.name for each in _list_positional(new)]
    if names_then != names_now and sorted(names_then) == sorted(names_now):
        return "its parameters are in another order"
    rest_then, rest_now = (any(p.kind == "rest" for p in each.parameters) for each in (old, new))
    if rest_then and not rest_now:
        return "it does not take any number of arguments any more"
    return (
        _compare_positional(old, new, language)
        or _compare_extra_parameters(old, new)
        or _compare_keywords(old, new)
    )


def _compare_positional(old: Signature, new: Signature, language: str) -> str:
    """A parameter by position that went, or that callers give another meaning now."""
    was, now = _list_positional(old), _list_positional(new)
    kinds = {each.name: each.kind for each in new.parameters}
    open_ended = "rest" in kinds.values() or (language == "python" and "options" in kinds.values())
    for index, one in enumerate(was):
        if index < len(now):
            kept = one.name in {each.name for each in now}
            if why := _compare_names(one, now[index], language, kept) or _compare_defaults(
                one, now[index]
            ):
                return why
        elif kinds.get(one.name) == "keyword":
            return f"parameter {one.name} is by name only now"
        elif not open_ended:
            return f"parameter {one.name} is gone"
    return ""


def _compare_extra_parameters(old: Signature, new: Signature) -> str:
    if any(each.kind == "rest" for each in old.parameters):
        return ""
    extra = _list_positional(new)[len(_list_positional(old)) :]
    required = next((each.name for each in extra if each.default is None), "")
    return required and f"parameter {required} is required now"


def _compare_names(one: Parameter, other: Parameter, language: str, kept: bool) -> str:
    if one.name == other.name:
        return ""
    if kept:
        return f"parameter {other.name} stands before {one.name} now"
    if language in _BY_NAME and not one.name.startswith("_"):
        return f"parameter {one.name} is {other.name} now"
    gone = (
        sorted(_extract_keys(one.name) - _extract_keys(other.name))
        if language not in _TYPED
        else []
    )
    return f"{', '.join(gone)} is not taken any more" if gone else ""


def _compare_defaults(one: Parameter, other: Parameter) -> str:
    required = one.default is not None and other.default is None
    return f"parameter {other.name} is required now" if required else ""


def _extract_keys(pattern: str) -> set[str]:
    """The names in ``{ a, b }``."""
    return set(re.findall(r"\w+(?=\s*[,}=])", pattern)) if pattern.startswith("{") else set()


def _compare_keywords(old: Signature, new: Signature) -> str:
    was = {each.name: each for each in old.parameters if each.kind == "keyword"}
    now = {each.name: each for each in new.parameters if each.kind != "rest"}
    takes_options = any(each.kind == "options" for each in new.parameters)
    for name, one in was.items():
        if name in now:
            if why := _compare_defaults(one, now[name]):
                return why
        elif not takes_options:
            return f"parameter {name} is gone"
    known = {each.name for each in old.parameters}
    for name, other in now.items():
        if other.kind == "keyword" and name not in known and other.default is None:
            return f"parameter {name} is required now"
    return ""


def _list_positional(signature: Signature) -> list[Parameter]:
    return [each for each in signature.parameters if each.kind == "positional"]
