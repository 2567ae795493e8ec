"""Does a new signature break those who call the old one?"""

import re

from gitlab_nightshift.verdict.rule_tables import RuleTable
from gitlab_nightshift.verdict.syntax.parameters import Parameter, Signature

_TABLE = RuleTable(__file__)

_BY_NAME = frozenset(("python", "kotlin", "scala", "csharp"))
_TYPED = frozenset(("go", "java", "rust", "scala", "kotlin", "csharp"))
_MUTABLE = frozenset(("[]", "{}", "set()", "dict()", "list()"))


def compare_signatures(old: Signature, new: Signature, language: str) -> str:
    """Why callers break, in a few words; empty where they do not."""
    return (
        _compare_parameters(old, new, language)
        or _compare_return_types(old, new, language)
        or ("it is async now" if new.is_async and not old.is_async else "")
        or ("it is not async any more" if old.is_async and not new.is_async else "")
    )


def _compare_parameters(old: Signature, new: Signature, language: str) -> str:
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
            if why := _compare_names(one, now[index], language, kept) or _compare_parameter(
                one, now[index], language
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


def _compare_parameter(one: Parameter, other: Parameter, language: str) -> str:
    widened = _normalize_type(other.type) in ("any", "Object", "object", "Any", "Any?")
    if (
        language in _TYPED
        and _normalize_type(one.type) != _normalize_type(other.type)
        and not widened
    ):
        was = one.type or "untyped"
        return f"parameter {other.name} is {other.type or 'untyped'}, it was {was}"
    return _compare_defaults(one, other)


def _compare_defaults(one: Parameter, other: Parameter) -> str:
    if one.default is None:
        return ""
    if other.default is None:
        return f"parameter {other.name} is required now"
    if one.default != other.default and not _is_same_default(one, other):
        return f"the default of {other.name} is {other.default}, it was {one.default}"
    return ""


def _is_same_default(one: Parameter, other: Parameter) -> bool:
    if (
        one.default
        and other.default
        and _strip_brackets(one.default) == _strip_brackets(other.default)
    ):
        return True
    return (one.default in _MUTABLE and other.default == "None") or "?" in (
        one.default,
        other.default,
    )


def _strip_brackets(value: str) -> str:
    """A list and a tuple of the same are the same default."""
    return value[1:-1].rstrip(",") if value[:1] in "[(" and value[-1:] in ")]" else value


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


def _compare_return_types(old: Signature, new: Signature, language: str) -> str:
    was, now = _normalize_type(old.returns), _normalize_type(new.returns)
    if was == now or not was or (not now and language not in _TYPED):
        return ""
    if language == "python" and not _is_other_kind(was, now):
        return ""
    if language not in _TYPED and (
        was in ("any", "Any", "unknown", "object") or _split_union(now) < _split_union(was)
    ):
        return ""
    return f"it returns {new.returns or 'nothing'}, it returned {old.returns}"


def _is_other_kind(was: str, now: str) -> bool:
    """An annotation that says another thing, not only more of the same: ``None`` came, or a
    built-in type is another one."""
    if "None" in _split_union(now) and "None" not in _split_union(was):
        return True
    one, other = was.split("[", maxsplit=1)[0], now.split("[", maxsplit=1)[0]
    if one == other or one in _ABSTRACT:
        return False
    return other in _BUILTIN | _ABSTRACT and (
        one in _BUILTIN or (one.isidentifier() and one[:1].isupper())
    )


_ABSTRACT = _TABLE.get_words("abstract")
_BUILTIN = _TABLE.get_words("builtin")


def _split_union(said: str) -> set[str]:
    return {part.strip() for part in said.split("|")}


_LONGEST_TYPE = 400


def _normalize_type(said: str) -> str:
    """A type without the differences that say nothing."""
    said = said[:_LONGEST_TYPE]
    said = re.sub(
        r"\b(typing|t|te|cabc|abc|collections\.abc|java\.util|decimal|datetime)\.(?=[A-Z])",
        "",
        said.strip('"'),
    )
    said = re.sub(r"\b(final|const|mut|'\w+)\s+", "", said)
    for _ in range(3):
        said = re.sub(r"\bOptional\[([^\[\]]*(?:\[[^\[\]]*\])?[^\[\]]*)\]", r"\1 | None", said)
        said = re.sub(r"\bUnion\[([^\[\]]*)\]", lambda found: found[1].replace(",", " |"), said)
    said = re.sub(
        r"\b(List|Dict|Set|Tuple|Type|FrozenSet)\[", lambda found: found[1].lower() + "[", said
    )
    said = said.replace("interface{}", "any").replace('"', "")
    return "|".join(sorted(re.sub(r"\s+", "", said).split("|")))
