"""Lists the faults that can be planted in functions, by kind: negated decisions, other results,
other literals, omitted statements.

Each function of ``_KINDS`` lists the mutations of its kind at one place. Their ``by_value`` is True
if an assertion is likely to fail, and False if an exception is more likely.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import takewhile

from tree_sitter import Node

from gitlab_nightshift.proof.running.faults import (
    BLOCKS,
    BRANCHES,
    INTERPOLATIONS,
    PARENTHESES,
    RAISING,
    SWITCH,
    TABLE,
    TEXTS,
    Fault,
    FaultTemplates,
    Mutation,
    Place,
    find_condition,
    is_excluded,
    is_message,
    is_never_taken,
    list_places,
    mutate,
    read_templates,
    unwrap_parentheses,
)
from gitlab_nightshift.proof.syntax.definitions import Function
from gitlab_nightshift.proof.syntax.file_side import Side
from gitlab_nightshift.proof.syntax.nodes import (
    CALLS,
    find_field,
    list_children,
    list_enclosing,
    read_chain,
    read_text,
    walk,
)

_NOT_PRODUCT = TABLE.get_pattern("not_product", re.IGNORECASE)


def list_faults(side: Side, functions: Iterable[Function]) -> list[Fault]:
    """All faults of these functions, in source order; none in tests."""
    templates = read_templates(side.language.name) if side.language and side.is_product else None
    if templates is None or _NOT_PRODUCT.search(side.path):
        return []
    tests = {test.node.start_byte for test in side.tests}
    faults: dict[tuple[int, int], Fault] = {}
    for function in functions:
        if function.node.start_byte in tests or is_excluded(side, function):
            continue
        for place in list_places(function):
            for mutation in (each for kind in _KINDS for each in kind(place, templates)):
                # Bytes that are not UTF-8 would be lost in rewriting.
                if "\ufffd" not in mutation.code_without_switch:
                    fault = _make_fault(side, function, mutation)
                    faults.setdefault((fault.start, fault.end), fault)
    return sorted(faults.values(), key=lambda fault: (fault.start, fault.end))


def _make_fault(side: Side, function: Function, mutation: Mutation) -> Fault:
    node = mutation.node
    modules = sum(each.node.type == "mod_item" for each in function.outer)
    with_switch = mutation.code_with_switch.replace(SWITCH, "super::" * modules + SWITCH)
    return Fault(
        side.path,
        node.start_point[0] + 1,
        mutation.what,
        function.qualified,
        node.start_byte,
        node.end_byte,
        mutation.code_without_switch,
        with_switch,
        mutation.by_value,
    )


# --- decisions ------------------------------------------------------------------------------------


_BINARY = TABLE.get_words("binary")
_COMPARISONS = TABLE.get_words("comparing") | {"is not", "not in"}
_CONNECTIVES = TABLE.get_words("connecting")
_NEGATIONS = TABLE.get_words("negations")
_NULL_OR_TYPE_CHECKS = TABLE.get_pattern("null_or_type_checks")
_BOOLEAN_OPERATORS = ("in", "is", "not")
_BOOLEANS = TABLE.get_words("booleans")


def list_decisions(place: Place, templates: FaultTemplates) -> Iterator[Mutation]:
    """Negate a branch condition, a comparison, or a boolean value."""
    node = place.node
    template = templates.condition
    if node.type in BRANCHES and (condition := find_condition(node)):
        may_not_end = place.looping and _leaves_loop(node)
        # A condition that binds variables cannot be negated: ``if let``, ``:=``.
        binds = re.search(r"let|assignment|^match_pattern$", condition.type)
        if not (may_not_end or binds or is_never_taken(node)):
            by_value = _is_by_value(condition) and not _only_raises(node)
            yield mutate(condition, "negated", template, templates, by_value=by_value)
    elif is_decision(node, templates):
        outer = (each for each in list_enclosing(node) if each.type in BRANCHES | BLOCKS)
        if place.looping and _leaves_loop(next(outer, node)):
            return
        if not _is_in_condition(node):
            template = templates.comparison or template
        # The value of these is a boolean, even if a type overloads the operator.
        first_word = (read_operator(node).split() or [""])[0]
        is_boolean = node.type in _BOOLEANS | _NEGATIONS or first_word in _BOOLEAN_OPERATORS
        if templates.boolean and is_boolean:
            template = templates.boolean
        if not _is_whole_condition(node):
            yield mutate(node, "negated", template, templates, by_value=_is_by_value(node))


def is_decision(node: Node, templates: FaultTemplates) -> bool:
    """True for an expression that is boolean by its form."""
    if node.type in _BOOLEANS and read_text(node).lower() in ("true", "false"):
        return node.parent is None or node.parent.type not in ("expression_statement", *BLOCKS)
    if node.type in _NEGATIONS:
        if node.parent is not None and node.parent.type == "navigation_expression":
            return False  # Kotlin's grammar takes `!a.b` for `(!a).b`
        return node.type == "not_operator" or read_text(node)[:1] == "!"
    operator = read_operator(node)
    connects = templates.boolean_connectives and operator in _CONNECTIVES
    return operator in _COMPARISONS or (connects and not _is_in_condition(node))


def read_operator(node: Node) -> str:
    """The operator of a binary expression; "" for anything else."""
    if node.type not in _BINARY:
        return ""
    words = [read_text(each) for each in node.children if not each.is_named]
    return " ".join(words).strip() or read_text(find_field(node, "operator", "operators"))


def _is_in_condition(node: Node) -> bool:
    """True if only the truth of a node's value counts, as it is part of a branch condition."""
    for outer in list_enclosing(node):
        keeps_truth = outer.type in PARENTHESES or outer.type in _NEGATIONS
        if not keeps_truth and read_operator(outer) not in _CONNECTIVES:
            break
        node = outer
    return _is_whole_condition(unwrap_parentheses(node))


def _is_whole_condition(node: Node) -> bool:
    branch = next((each for each in list_enclosing(node) if each.type not in PARENTHESES), None)
    return branch is not None and branch.type in BRANCHES and find_condition(branch) == node


def _is_by_value(condition: Node) -> bool:
    """False for a check for null or for a type: if that is negated, the next statement raises."""
    text = read_text(condition)
    return _NULL_OR_TYPE_CHECKS.search(text) is None or "err" in text


def _only_raises(branch: Node) -> bool:
    """True if a branch does nothing but raise: with its condition negated, most calls end there."""
    body = find_field(branch, "consequence", "body")
    first = next(iter(list_children(body)), None) if body and body.type in BLOCKS else body
    # Go's grammar has all statements of a block in one node.
    if first is not None and first.type == "statement_list":
        first = next(iter(list_children(first)), None)
    return first is not None and re.match(r"(raise|throw|panic)\b", read_text(first)) is not None


def _leaves_loop(branch: Node) -> bool:
    """True if a branch may leave a loop: if it is negated, the loop might not end."""
    ends = (each.type.startswith(("break", "return", "continue")) for each in walk(branch))
    return branch.type in BRANCHES and any(ends)


# --- results --------------------------------------------------------------------------------------


_RETURNS = TABLE.get_words("returns")
_NULLS = ("none", "null", "null_literal", "nil", "undefined")
_NUMBERS = TABLE.get_words("numbers")
_RUBY_BLOCKS = frozenset("if unless case while begin rescue ensure".split())
_NOT_EXPRESSIONS = tuple("statement declaration definition item assignment clause body".split())
_EMPTY_VALUES = TABLE.get_pattern("empty", re.DOTALL)


def list_results(place: Place, templates: FaultTemplates) -> Iterator[Mutation]:
    """Replace what a function returns."""
    node = place.node
    if templates.zero_value and node.type in _RETURNS:
        yield from _list_zero_results(place, templates)
        return
    value = _find_result(place, templates)
    if value is None or is_message(value) or is_decision(unwrap_parentheses(value), templates):
        return
    inner = unwrap_parentheses(value)
    literals = _NUMBERS | (TEXTS if templates.text else frozenset())
    if inner.type in literals or _EMPTY_VALUES.fullmatch(read_text(inner)):
        return
    declared = _read_result_type(place.owner)
    if template := _find_typed_template(declared, templates):
        yield mutate(value, "returned as another value", template, templates)
    elif (empty := templates.empty_by_node.get(inner.type)) and list_children(inner):
        yield mutate(value, "returned as an empty one", empty, templates)
    elif (
        templates.nothing
        and not empty
        and inner.type not in _NULLS
        and not re.fullmatch(templates.primitive, declared)
    ):
        yield mutate(value, "returned as nothing", templates.nothing, templates, by_value=False)


def _find_result(place: Place, templates: FaultTemplates) -> Node | None:
    """The value of a return statement, or the last expression of a body, at this place."""
    node = place.node
    if node.type in _RETURNS:
        values = list_children(node)
        if values and values[0].type == "argument_list":
            values = list_children(values[0])
        return values[0] if len(values) == 1 else None
    body = find_field(place.owner, "body") or next(
        (each for each in place.owner.named_children if each.type.endswith("body")), None
    )
    if body is None or not (
        templates.implicit_return or (body == node and place.owner.type == "arrow_function")
    ):
        return None
    is_block = body.type in BLOCKS or body.type == "function_body"
    last = list_children(body)[-1:] if is_block else [body]
    return node if body in (node, node.parent) and last == [node] and _is_expression(node) else None


def _is_expression(node: Node) -> bool:
    return not (
        node.type in BLOCKS | _RETURNS | _RUBY_BLOCKS or node.type.endswith(_NOT_EXPRESSIONS)
    )


def _read_result_type(owner: Node) -> str:
    """The declared type of a function's result; "" without one."""
    declared = find_field(owner, "return_type", "returns", "type", "result")
    if declared is None and owner.type == "function_declaration":  # Kotlin has no field for it
        types = (
            each for each in list_children(owner) if each.type in ("user_type", "nullable_type")
        )
        declared = next(types, None)
    return read_text(declared).lstrip(":-> ").strip("\"'")


def _find_typed_template(declared: str, templates: FaultTemplates) -> str:
    for pattern, template in templates.types:
        if match := re.fullmatch(pattern, declared, re.DOTALL):
            return str(template).replace("{type}", match.groupdict().get("type") or "")
    return ""


def _list_zero_results(place: Place, templates: FaultTemplates) -> Iterator[Mutation]:
    """``return a, b`` as the zero values of the declared types (Go)."""
    types = _list_result_types(place.owner)
    values = [each for group in list_children(place.node) for each in list_children(group)]
    if types == ["bool"] and len(values) == 1 and not is_decision(values[0], templates):
        yield mutate(values[0], "negated", templates.condition, templates)
    is_zero = re.compile(templates.zero_pattern).fullmatch
    not_zero = [t for t, v in zip(types, values, strict=False) if not is_zero(read_text(v))]
    if len(types) != len(values) or not not_zero or types == ["bool"] or "\n" in "".join(types):
        return
    zero_values = ", ".join(templates.zero_value.replace("{type}", each) for each in types)
    by_value = all(re.fullmatch(templates.usable_zero_types, each) for each in not_zero)
    template = templates.zero_return.replace("{zero_values}", zero_values)
    yield mutate(place.node, "returned as zero values", template, templates, by_value=by_value)


def _list_result_types(owner: Node) -> list[str]:
    result = find_field(owner, "result")
    if result is None or result.type != "parameter_list":
        return [read_text(result)] if result else []
    types = []
    for each in list_children(result):
        names = each.children_by_field_name("name")
        types += [read_text(find_field(each, "type"))] * max(len(names), 1)
    return types


# --- numbers and texts ----------------------------------------------------------------------------


_SUBSCRIPTS = TABLE.get_words("subscripts")
_WAITING = TABLE.get_pattern("waiting")
_LOOKUPS = TABLE.get_pattern("lookups")
_NUMBER = re.compile(r"\d{1,9}(\.\d+)?")


def list_literals(place: Place, templates: FaultTemplates) -> Iterator[Mutation]:
    """Another number, or another string."""
    node = place.node
    text = read_text(node)
    by_value = node.parent is not None and node.parent.type not in _SUBSCRIPTS
    if node.type in _NUMBERS and _NUMBER.fullmatch(text) and not place.looping:
        template = templates.literal or templates.number
        if template and _may_increase(node, templates) and not _is_argument_of(node, _WAITING):
            whole, point, fraction = text.partition(".")
            other = f"{int(whole) + 1}{point}{fraction}"
            yield mutate(node, "off by one", template, templates, by_value=by_value, other=other)
    elif node.type in TEXTS and templates.text and _is_value(node):
        interpolates = any(each.type in INTERPOLATIONS for each in walk(node))
        template = templates.text if interpolates else templates.literal or templates.text
        end = max(text.rfind(quote) for quote in "\"'`")
        if text.endswith(('"""', "'''")):
            end -= 2
        other, what = f"{text[:end]}~{text[end:]}", 'with "~" at its end'
        yield mutate(node, what, template, templates, by_value=by_value, other=other)


def _may_increase(number: Node, templates: FaultTemplates) -> bool:
    """True for a number that is a value, and of a type for which the template compiles."""
    parent = number.parent
    if parent is None or "pattern" in parent.type or find_field(parent, "length") == number:
        return False
    if find_field(parent, "field", "key", "property") == number:
        return False
    if not templates.int_siblings or parent.type in templates.int_parents.split():
        return True
    return parent.type in _BINARY and any(
        re.match(templates.int_siblings, read_text(each)) for each in list_children(parent)
    )


def _is_value(text: Node) -> bool:
    """True for a string that is used as a value, not as a docstring, directive, name or part of
    another string."""
    parent = text.parent
    if parent is None or parent.type in {*TEXTS, *BLOCKS, "expression_statement"}:
        return False
    # Text cannot be appended to bytes.
    if read_text(text)[:2].lower() in ("b'", 'b"', "br", "rb") or _is_argument_of(text, _LOOKUPS):
        return False
    if parent.type == "call_expression" and find_field(parent, "arguments") == text:
        return False
    return find_field(parent, "key") != text and "import" not in parent.type


def _is_argument_of(node: Node, pattern: re.Pattern[str]) -> bool:
    call = next((each for each in list_enclosing(node, 4) if each.type in CALLS), None)
    links = read_chain(call) if call is not None else ()
    return bool(links and pattern.search(links[-1].name))


# --- omitted statements ---------------------------------------------------------------------------


_ASSIGNMENTS = TABLE.get_words("assignments")
_STATEMENTS = TABLE.get_words("statements")
_WRAPPERS = TABLE.get_words("wrappers")
_ASSIGNMENT_OPERATORS = TABLE.get_pattern("assigning")
_CHANGING_METHODS = TABLE.get_pattern("changing")


def list_omissions(place: Place, templates: FaultTemplates) -> Iterator[Mutation]:
    """Omit a statement, unless a loop might then not end."""
    node = place.node
    if node.type in RAISING:
        if templates.raising and _is_in_branch(place) and _fits(node, templates.raising):
            yield mutate(node, "left out", templates.raising, templates)
        return
    if place.looping or not _is_statement(node):
        return
    inner = node
    while inner.type in _WRAPPERS and len(children := list_children(inner)) == 1:
        inner = children[0]
    # As a statement, << appends (Ruby).
    if templates.call and read_operator(inner) == "<<":
        yield mutate(inner, "left out", templates.call, templates)
    elif inner.type in CALLS and read_operator(inner) == "":
        names = [link.name for link in read_chain(inner)]
        if not templates.call or is_message(inner) or not names or _WAITING.search(names[-1]):
            return
        # A constructor that calls another one has to (JLS 8.8.7; ECMAScript: no this before super).
        if "super" in names or names == ["this"]:
            return
        changing = _CHANGING_METHODS.search(names[-1]) is not None
        span = _choose_span(node, inner, templates.call)
        yield mutate(span, "left out", templates.call, templates, by_value=changing)
    elif inner.type in _ASSIGNMENTS and templates.assignment and _is_augmented(inner):
        target = find_field(inner, "left", "argument") or inner.named_child(0)
        steers_loop = place.counted & {*re.findall(r"\w+", read_text(target))[-1:]}
        if not steers_loop and _fits(node, templates.assignment):
            span = _choose_span(node, inner, templates.assignment)
            yield mutate(span, "left out", templates.assignment, templates)


def _choose_span(statement: Node, inner: Node, template: str) -> Node:
    """An expression, or its whole statement with the semicolon if the template is a statement."""
    return statement if re.search(r"\bif\b.*\{kept\}", template) else inner


def _is_statement(node: Node) -> bool:
    parent = node.parent
    if parent is None:
        return False
    is_last = list_children(parent)[-1:] == [node]
    return parent.type in BLOCKS and (node.type in _STATEMENTS or not is_last)


def _is_in_branch(place: Place) -> bool:
    """True if a statement is in a branch, so that the function can end without it."""
    outer = takewhile(lambda each: each != place.owner, list_enclosing(place.node))
    return any(each.type in BRANCHES for each in outer)


def _fits(node: Node, template: str) -> bool:
    """True unless a template with Python's ``if`` would affect other code on the same lines."""
    if not template.startswith("if not"):
        return True
    before, after, block = node.prev_sibling, node.next_sibling, node.parent
    outer = block.parent if block else None
    return (
        (before is None or before.end_point[0] < node.start_point[0])
        and (after is None or after.start_point[0] > node.end_point[0])
        and (block is None or outer is None or block.start_point[0] > outer.start_point[0])
    )


def _is_augmented(node: Node) -> bool:
    """True for ``x += 1``, ``x++`` and the like."""
    words = [read_text(each) for each in node.children if not each.is_named]
    words.append(read_text(find_field(node, "operator")))
    return any(map(_ASSIGNMENT_OPERATORS.search, words))


_KINDS = (list_decisions, list_results, list_literals, list_omissions)
