"""Does a new signature break those who call the old one?"""

import re

from gitlab_nightshift.verdict.syntax.parameters import Parameter, Signature

_BY_NAME = frozenset(("python", "kotlin", "scala", "csharp"))
_TYPED = frozenset(("go", "java", "rust", "scala", "kotlin", "csharp"))
_MUTABLE = frozenset(("[]", "{}", "set()", "dict()", "list()"))


def difference(old: Signature, new: Signature, language: str) -> str:
    """Why callers break, in a few words; empty where they do not."""
    return (
        _parameters(old, new, language)
        or _results(old, new, language)
        or ("it is async now" if new.is_async and not old.is_async else "")
        or ("it is not async any more" if old.is_async and not new.is_async else "")
    )


def _parameters(old: Signature, new: Signature, language: str) -> str:
    names_then = [each.name for each in _positional(old)]
    names_now = [each.name for each in _positional(new)]
    if names_then != names_now and sorted(names_then) == sorted(names_now):
        return "its parameters are in another order"
    rest_then, rest_now = (any(p.kind == "rest" for p in each.parameters) for each in (old, new))
    if rest_then and not rest_now:
        return "it does not take any number of arguments any more"
    return _fewer_or_other(old, new, language) or _more(old, new) or _keywords(old, new)


def _fewer_or_other(old: Signature, new: Signature, language: str) -> str:
    """A parameter by position that went, or that callers give another meaning now."""
    was, now = _positional(old), _positional(new)
    kinds = {each.name: each.kind for each in new.parameters}
    open_ended = "rest" in kinds.values() or (language == "python" and "options" in kinds.values())
    for index, one in enumerate(was):
        if index < len(now):
            kept = one.name in {each.name for each in now}
            if why := _renamed(one, now[index], language, kept) or _one(one, now[index], language):
                return why
        elif kinds.get(one.name) == "keyword":
            return f"parameter {one.name} is by name only now"
        elif not open_ended:
            return f"parameter {one.name} is gone"
    return ""


def _more(old: Signature, new: Signature) -> str:
    if any(each.kind == "rest" for each in old.parameters):
        return ""
    extra = _positional(new)[len(_positional(old)) :]
    required = next((each.name for each in extra if each.default is None), "")
    return required and f"parameter {required} is required now"


def _renamed(one: Parameter, other: Parameter, language: str, kept: bool) -> str:
    if one.name == other.name:
        return ""
    if kept:
        return f"parameter {other.name} stands before {one.name} now"
    if language in _BY_NAME and not one.name.startswith("_"):
        return f"parameter {one.name} is {other.name} now"
    gone = sorted(_keys(one.name) - _keys(other.name)) if language not in _TYPED else []
    return f"{', '.join(gone)} is not taken any more" if gone else ""


def _one(one: Parameter, other: Parameter, language: str) -> str:
    widened = _type(other.type) in ("any", "Object", "object", "Any", "Any?")
    if language in _TYPED and _type(one.type) != _type(other.type) and not widened:
        was = one.type or "untyped"
        return f"parameter {other.name} is {other.type or 'untyped'}, it was {was}"
    return _default(one, other)


def _default(one: Parameter, other: Parameter) -> str:
    if one.default is None:
        return ""
    if other.default is None:
        return f"parameter {other.name} is required now"
    if one.default != other.default and not _is_same_default(one, other):
        return f"the default of {other.name} is {other.default}, it was {one.default}"
    return ""


def _is_same_default(one: Parameter, other: Parameter) -> bool:
    if one.default and other.default and _inside(one.default) == _inside(other.default):
        return True
    return (one.default in _MUTABLE and other.default == "None") or "?" in (
        one.default,
        other.default,
    )


def _inside(value: str) -> str:
    """A list and a tuple of the same are the same default."""
    return value[1:-1].rstrip(",") if value[:1] in "[(" and value[-1:] in ")]" else value


def _keys(pattern: str) -> set[str]:
    """The names in ``{ a, b }``."""
    return set(re.findall(r"\w+(?=\s*[,}=])", pattern)) if pattern.startswith("{") else set()


def _keywords(old: Signature, new: Signature) -> str:
    was = {each.name: each for each in old.parameters if each.kind == "keyword"}
    now = {each.name: each for each in new.parameters if each.kind != "rest"}
    takes_options = any(each.kind == "options" for each in new.parameters)
    for name, one in was.items():
        if name in now:
            if why := _default(one, now[name]):
                return why
        elif not takes_options:
            return f"parameter {name} is gone"
    known = {each.name for each in old.parameters}
    for name, other in now.items():
        if other.kind == "keyword" and name not in known and other.default is None:
            return f"parameter {name} is required now"
    return ""


def _positional(signature: Signature) -> list[Parameter]:
    return [each for each in signature.parameters if each.kind == "positional"]


def _results(old: Signature, new: Signature, language: str) -> str:
    was, now = _type(old.returns), _type(new.returns)
    if was == now or not was or (not now and language not in _TYPED):
        return ""
    if language == "python" and not _is_other_kind(was, now):
        return ""
    if language not in _TYPED and (
        was in ("any", "Any", "unknown", "object") or _parts(now) < _parts(was)
    ):
        return ""
    return f"it returns {new.returns or 'nothing'}, it returned {old.returns}"


def _is_other_kind(was: str, now: str) -> bool:
    """An annotation that says another thing, not only more of the same: ``None`` came, or a
    built-in type is another one."""
    if "None" in _parts(now) and "None" not in _parts(was):
        return True
    one, other = was.split("[", maxsplit=1)[0], now.split("[", maxsplit=1)[0]
    if one == other or one in _ABSTRACT:
        return False
    return other in _BUILTIN | _ABSTRACT and (
        one in _BUILTIN or (one.isidentifier() and one[:1].isupper())
    )


_ABSTRACT = frozenset(
    "Iterator Iterable Generator Sequence Mapping Collection Any object MutableMapping"
    " AsyncIterator".split()
)
_BUILTIN = frozenset(
    "int float str bytes bool list dict set tuple frozenset None Decimal Path date datetime"
    " timedelta complex".split()
)


def _parts(said: str) -> set[str]:
    return {part.strip() for part in said.split("|")}


_LONGEST_TYPE = 400


def _type(said: str) -> str:
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
