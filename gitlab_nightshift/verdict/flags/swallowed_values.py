"""Errors that are values, and errors of promises: where they are dropped."""

import re
from typing import TYPE_CHECKING

from gitlab_nightshift.verdict.flags.swallowed_bodies import (
    hides,
    is_default,
    is_default_text,
    is_empty,
)
from gitlab_nightshift.verdict.syntax.nodes import CALLS, LAMBDAS, bare, chain, field, kids, text

if TYPE_CHECKING:
    from tree_sitter import Node

_GO_HARMLESS = re.compile(
    r"\b(Close|Flush|Fprint\w*|Print\w*|Write|WriteString|WriteByte|WriteRune"
    r"|Setenv|Unsetenv|Remove|RemoveAll|Rollback|Sync"
    r"|Shutdown|Kill|Process\.\w+|SetDeadline|SetReadDeadline|Signal|Stop|Copy|append|copy|len)\("
)
_GO_ERRS = re.compile(
    r"\b(strconv|json|os|io|ioutil|http|url|xml|yaml|hex|base64|sql|exec|net|bufio"
    r"|csv|template|regexp|filepath|time)\.[A-Z]\w*\(|\.(Exec|Query|Scan|Decode"
    r"|Unmarshal|Do|Read|ReadAll|Parse\w*|Open|Fetch\w*|Load\w*|Save\w*|Get\w*"
    r"|Send\w*)\("
)
_GO_NO_ERR = re.compile(
    r"\b(time\.(Now|Since|Duration|Until)|os\.(LookupEnv|Args|Getenv)|regexp\.MustCompile"
    r"|net\.JoinHostPort|\.(Load|LoadOrStore|Lookup|LookupEnv))\("
)
_RUST_HARMLESS = re.compile(
    r"\b(write|writeln)!|\.(send|try_send|join|flush|remove|set|take|insert|kill"
    r"|wait|shutdown|replace|push|lock|get_or_init)\(|remove_(file|dir)|\binit\("
    r"|set_logger|try_init"
)
_RESCUED = re.compile(
    r"Integer\(|Float\(|Date\.parse|URI\.parse|URI\(|Time\.parse|IPAddr\.new|\.\w+\?$"
)


def hides_value(node: "Node", language: str) -> bool:
    """True for a statement or expression that drops an error."""
    rule = _RULES.get(language)
    return rule is not None and rule(node)


def drops(node: "Node", passed_on: frozenset[str]) -> bool:
    """True where an error that went to the caller before is replaced or thrown away."""
    if node.type == "call_expression":
        callee = field(node, "function")
        if callee is None or text(field(callee, "field")) not in _REPLACING:
            return False
        return text(field(callee, "value")) in passed_on
    if node.type == "short_var_declaration":
        names = [text(each) for each in kids(field(node, "left") or node)]
        return names[-1:] == ["_"] and text(field(node, "right")) in passed_on
    return False


_REPLACING = frozenset("unwrap_or unwrap_or_default unwrap_or_else ok".split())


def _go(node: "Node") -> bool:
    if node.type in ("assignment_statement", "short_var_declaration"):
        left, right = field(node, "left"), field(node, "right")
        names = [text(each) for each in kids(left)] if left else []
        if not names or names[-1] != "_" or right is None:
            return False
        said = text(right)
        if set(names) == {"_"}:
            called = kids(right)[0].type in CALLS if kids(right) else False
            return said in ("err", "e") or (called and not _GO_HARMLESS.search(said))
        return kids(right)[:1] != [] and kids(right)[0].type in CALLS and bool(
            _GO_ERRS.search(said) and not _GO_NO_ERR.search(said)
        )  # fmt: skip
    if node.type == "if_statement":
        return _go_if(node)
    if node.type == "call_expression" and text(node) == "recover()":
        outer = node.parent
        return outer is not None and (
            outer.type == "expression_statement"
            or text(outer).startswith("_ =")
            or _is_quiet_recover(outer)
        )
    return False


def _is_quiet_recover(outer: "Node") -> bool:
    current: Node | None = outer
    for _ in range(4):
        if current is not None and current.type == "if_statement":
            block = field(current, "consequence")
            return block is not None and not _statements(block)
        current = current.parent if current is not None else None
    return False


def _go_if(node: "Node") -> bool:
    condition = text(field(node, "condition"))
    block = field(node, "consequence")
    if not re.fullmatch(r"\w*[eE]rr\w* != nil", condition) or block is None:
        return False
    inside = _statements(block)
    if not inside:
        return True
    if len(inside) > 1:
        return False
    only = inside[0]
    if only.type == "return_statement":
        values = [text(each) for each in kids(kids(only)[0])] if kids(only) else []
        return bool(values) and values[-1] == "nil" and _go_returns_error(node)
    return only.type == "continue_statement" and _go_returns_error(node)


def _statements(block: "Node") -> "list[Node]":
    inside = kids(block)
    return kids(inside[0]) if len(inside) == 1 and inside[0].type == "statement_list" else inside


def _go_returns_error(node: "Node") -> bool:
    current = node.parent
    for _ in range(60):
        if current is None:
            return False
        if current.type in ("function_declaration", "method_declaration", "func_literal"):
            return bool(re.search(r"\berror\)?$", text(field(current, "result")).strip()))
        current = current.parent
    return False


def _rust(node: "Node") -> bool:
    if node.type == "let_declaration" and text(field(node, "pattern")) == "_":
        value = field(node, "value")
        return (
            value is not None
            and bare(value).type in CALLS
            and not _RUST_HARMLESS.search(text(value))
        )
    if node.type == "expression_statement":
        said = text(node)
        return bool(re.search(r"\.ok\(\)\s*;$", said)) and not _RUST_HARMLESS.search(said)
    if node.type == "if_expression":
        condition, block = text(field(node, "condition")), field(node, "consequence")
        return bool(re.match(r"let Err\(", condition)) and block is not None and not kids(block)
    return node.type == "match_arm" and _rust_arm(node)


def _rust_arm(node: "Node") -> bool:
    """``Err(_) => {}``, ``Err(_) => Ok(Vec::new())``."""
    pattern, value = text(field(node, "pattern")), field(node, "value")
    if not re.match(r"Err\(\w*\)$", pattern) or value is None:
        return False
    body = kids(value) if value.type == "block" else [value]
    if is_empty(body):
        return True
    said = re.sub(r"^return\s+", "", text(value).strip("{} ;\n"))
    answer = re.match(r"Ok\((.*)\)$", said)
    return said == "continue" or (answer is not None and is_default_text(answer[1]))


_LISTENS = frozenset("on once addListener addEventListener".split())
_ERROR_EVENT = re.compile(
    r"[\"'`](error|unhandledRejection|uncaughtException|rejectionHandled)[\"'`]$"
)


def _script(node: "Node") -> bool:
    """``promise.catch(() => {})`` and its like."""
    handler = _error_handler(node) if node.type == "call_expression" else None
    if handler is None:
        return False
    if handler.type not in LAMBDAS:
        return text(handler) in ("noop", "_.noop", "Function.prototype")
    body = field(handler, "body")
    if body is not None and body.type == "statement_block":
        return hides(kids(body), text(field(handler, "parameters", "parameter")))
    return body is not None and is_default(bare(body))


def _error_handler(node: "Node") -> "Node | None":
    """What a call sets up to get errors: by ``catch``, ``then``'s second, or ``on("error")``."""
    links = chain(node)
    name, args = (links[-1].name, links[-1].args) if len(links) > 1 else ("", None)
    if not args:
        return None
    if name in _LISTENS:
        return args[-1] if _ERROR_EVENT.match(text(args[0])) else None
    return args[-1] if name == "catch" or (name == "then" and len(args) == 2) else None


def _ruby(node: "Node") -> bool:
    if node.type != "rescue_modifier":
        return False
    handler, body = field(node, "handler"), text(field(node, "body"))
    return is_default(handler) and not _RESCUED.search(body)


def _python(node: "Node") -> bool:
    if node.type != "call":
        return False
    links = chain(node)
    if not links or links[-1].name != "suppress" or not links[-1].args:
        return False
    return any(text(arg) in ("Exception", "BaseException") for arg in links[-1].args)


def _scala(node: "Node") -> bool:
    if node.type == "field_expression":
        links = chain(node)
        named = links[-1].name in ("toOption",)
    elif node.type == "call_expression":
        links = chain(node)
        named = (
            bool(links)
            and links[-1].name in ("getOrElse", "orElse")
            and bool(links[-1].args)
            and is_default((links[-1].args or (None,))[0])
        )
    else:
        return False
    if not named or len(links) < 2 or links[0].name != "Try" or len(links) > 3:
        return False
    inside = " ".join(text(arg) for arg in links[0].args or ())
    return "\n" in inside or not re.search(
        r"\.to(Int|Long|Double|Float|Boolean)\b|parse|fromString|valueOf|BigDecimal\(", inside
    )


def _kotlin(node: "Node") -> bool:
    links = chain(node) if node.type == "call_expression" else ()
    return (
        len(links) == 2
        and links[0].name == "runCatching"
        and links[1].name in ("getOrNull", "getOrDefault")
    )


def _php(node: "Node") -> bool:
    return node.type == "error_suppression_expression" and not re.search(
        r"unlink|fopen|mkdir|rmdir", text(node)
    )


_RULES = {
    "go": _go,
    "rust": _rust,
    "javascript": _script,
    "typescript": _script,
    "tsx": _script,
    "ruby": _ruby,
    "python": _python,
    "scala": _scala,
    "kotlin": _kotlin,
    "php": _php,
}
