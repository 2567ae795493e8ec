"""The include of this program's template in a project's ``.gitlab-ci.yml``: text is only added.

Nothing else of the file changes, comments and spaces least of all: YAML libraries that write a file
again lose these. What was added is held against what the file meant before.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gitlab_nightshift.errors import NightshiftError, build_config_error
from gitlab_nightshift.text.yaml_documents import build_gitlab_loader, construct_documents

TEMPLATE = "/ci/templates/.gitlab-ci.yml"
PROJECT_NAME = "gitlab-nightshift"
JOB = ".nightshift:job"
"""What all jobs of the template extend that run a project's tests, its rehearsal among them."""
RULES_JOB = ".nightshift:rules"
"""Where the template says what starts a night, and a project says otherwise."""
_NULL = "tag:yaml.org,2002:null"
_HEAD = """\
# The night shift: one small, proven merge request a night, or none and the reason why. It runs only
# where a schedule or New pipeline sets NIGHTSHIFT = true; other pipelines stay as they are.
"""


@dataclass(frozen=True)
class TemplateInclude:
    """What is included: the ``project`` on this GitLab, a tag, inputs and why they have their
    values; and for the jobs that run tests lines that prepare the checkout, and variables."""

    project: str
    ref: str
    inputs: Mapping[str, str | bool] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    prepare: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


def add_include(text: str, wanted: TemplateInclude, name: str) -> str:
    """The file's text with the include, or with its newer version; ``name`` is the file's.

    Its line ends, a byte order mark and a last line ``...`` stay. Raises ``E_CONFIG`` for a file
    that is no YAML, or that cannot be added to.
    """
    before = parse_config(text, name)
    mark, body, end = _split_ends(text)
    key = _find_pair(_read_nodes(body), "include")
    there = _find_template(key) if key else None
    if there is not None:
        return mark + _renew_version(body, there, wanted) + end
    added = _add_item(body, key, wanted) if key else _append(body, _write_block(wanted))
    if (wanted.prepare or wanted.variables) and JOB not in before:
        added = _append(added, _write_job(wanted))
    added = keep_line_ends(text, mark + added + end)
    if not _is_kept(before, added, name):
        item = _write_flow(wanted)
        raise build_config_error(f"{name}: cannot add to its include: add this by hand: - {item}")
    return added


def find_rehearsal(text: str, name: str) -> bool:
    """Whether the file's include asks for a rehearsal in merge requests."""
    return _find_inputs(text, name).get("rehearse") is True


def find_shape(text: str, name: str) -> str:
    """The input ``shape`` of the file's include of the template; "" for its default."""
    return str(_find_inputs(text, name).get("shape", ""))


def find_schedule_description(text: str, name: str) -> str:
    """The description that makes a schedule a night, by the include's input; "" for none."""
    return str(_find_inputs(text, name).get("schedule_description", ""))


def find_source(text: str, name: str, project: str) -> str:
    """Where the file's include takes the program from: a project of this GitLab, or the URL of a
    folder. ``project`` is the path of the file's own."""
    given = str(_find_inputs(text, name).get("source", ""))
    return given or find_usual_source(project)


def find_usual_source(project: str) -> str:
    """``gitlab-nightshift`` in a project's top-level group; "" for a project without one."""
    return f"{project.split('/', maxsplit=1)[0]}/{PROJECT_NAME}" if "/" in project else ""


def find_version(text: str, name: str) -> tuple[str, str]:
    """What the file's include names, such as ``v0.1.0``, and the version that its input pins; ""
    where it does not."""
    item = _find_include(text, name)
    _, _, version = str(item.get("component", "")).rpartition("@")
    return str(item.get("ref", version)), str(_find_inputs(text, name).get("version", ""))


def _find_inputs(text: str, name: str) -> Mapping[str, Any]:
    found = _find_include(text, name).get("inputs")
    return found if isinstance(found, dict) else {}


def _find_include(text: str, name: str) -> Mapping[str, Any]:
    include = parse_config(text, name).get("include")
    for item in include if isinstance(include, list) else [include]:
        if isinstance(item, dict) and is_template(item.get("file"), item.get("component")):
            return item
    return {}


def is_template(file: object, component: object) -> bool:
    """Whether an include of this file or component is this program's."""
    return file == TEMPLATE or f"/{PROJECT_NAME}/" in str(component)


def parse_config(text: str, name: str) -> dict[str, Any]:
    """The file as data, ``!reference`` and its like as None. Raises ``E_CONFIG``."""
    import yaml

    try:
        found = list(construct_documents(build_gitlab_loader()(text)))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        at = getattr(error, "problem_mark", None)
        last = text.count("\n")  # libyaml's mark may be behind it
        line = f" at line {min(at.line, last) + 1}" if at else ""
        raise build_config_error(f"{name} is not valid YAML{line}: fix it first") from None
    data = found[-1] if found else None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise build_config_error(
            f"{name} has no jobs at its top level but something else: fix it first"
        )
    return data


def _read_nodes(text: str) -> Any:
    import yaml

    return list(yaml.compose_all(text, build_gitlab_loader()) or [None])[-1:] or [None]


def _find_pair(documents: list[Any], key: str) -> Any:
    """The node of a key's value at the top of the last document; None without one."""
    root = documents[0]
    pairs = root.value if root is not None else []
    return next((value for name, value in pairs if name.value == key), None)


def _find_template(include: Any) -> dict[str, Any] | None:
    """The nodes of the include that is this program's, by key."""
    import yaml

    items = include.value if isinstance(include, yaml.SequenceNode) else [include]
    for item in items:
        if isinstance(item, yaml.MappingNode):
            found = {key.value: value for key, value in item.value}
            file = getattr(found.get("file"), "value", "")
            component = getattr(found.get("component"), "value", "")
            if is_template(file, component):
                return found
    return None


def _renew_version(text: str, there: Mapping[str, Any], wanted: TemplateInclude) -> str:
    """The new version, where the include names an older one: a branch or a commit is left."""
    node = there.get("ref") or there.get("component")
    found = re.search(r"(?:^v|@)(\d+(?:\.\d+)*)$", str(getattr(node, "value", "")))
    if node is None or not found or _split_version(found[1]) >= _split_version(wanted.ref):
        return text
    start, end = node.start_mark.index, node.end_mark.index
    before, _, after = text[start:end].rpartition(found[1])
    return f"{text[:start]}{before}{wanted.ref.removeprefix('v')}{after}{text[end:]}"


def _split_version(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)[:3]]


def _append(text: str, block: str) -> str:
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{gap}{block}"


def _split_ends(text: str) -> tuple[str, str, str]:
    """A byte order mark, the text, and a line ``...`` with what follows it."""
    import yaml

    body = text.removeprefix("\ufeff")
    at = len(body)
    for event in yaml.parse(body, build_gitlab_loader()):
        if isinstance(event, yaml.DocumentEndEvent):
            at = event.start_mark.index if event.explicit and event.start_mark else len(body)
    return text.removesuffix(body), body[:at], body[at:]


def keep_line_ends(before: str, after: str) -> str:
    """``after``, to which lines were added, with the line ends that all of ``before`` has."""
    if "\n" not in before or re.search(r"(?<!\r)\n", before):
        return after
    return re.sub(r"(?<!\r)\n", "\r\n", after)


def _write_block(wanted: TemplateInclude) -> str:
    return f"{_HEAD}include:\n{_write_item(wanted, '  ')}\n"


def _write_item(wanted: TemplateInclude, indent: str) -> str:
    lines = [f"- project: {wanted.project}", f"  ref: {wanted.ref}", f"  file: {TEMPLATE}"]
    if wanted.inputs:
        lines.append("  inputs:")
    for name, value in wanted.inputs.items():
        reason = f" # {wanted.reasons[name]}" if name in wanted.reasons else ""
        lines.append(f"    {name}: {json.dumps(value)}{reason}")
    return "\n".join(f"{indent}{line}" for line in lines)


def _write_flow(wanted: TemplateInclude) -> str:
    pairs = {"project": wanted.project, "ref": wanted.ref, "file": TEMPLATE}
    inputs = {"inputs": dict(wanted.inputs)} if wanted.inputs else {}
    return json.dumps({**pairs, **inputs})


def _write_job(wanted: TemplateInclude) -> str:
    lines = [
        "# What the night's tests need, from before the agent starts: it has no network.",
        f"{JOB}:",
    ]
    if wanted.variables:
        lines.append("  variables:")
        lines += [f"    {name}: {value}" for name, value in wanted.variables.items()]
    if wanted.prepare:
        lines += ["  before_script:", '    - !reference [".nightshift:install", script]']
        lines += [f"    - {line}" for line in wanted.prepare]
    return "\n".join(lines) + "\n"


def _add_item(text: str, node: Any, wanted: TemplateInclude) -> str:
    """The include as one more item of the one that is there."""
    import yaml

    start, end = node.start_mark.index, node.end_mark.index
    if isinstance(node, yaml.SequenceNode) and node.flow_style:
        tail = text[node.value[-1].end_mark.index : end - 1] if node.value else ","
        comma = "" if "," in re.sub(r"#.*", "", tail) else ", "
        return f"{text[: end - 1]}{comma}{_write_flow(wanted)}{text[end - 1 :]}"
    if isinstance(node, yaml.SequenceNode):
        at = _find_line_after(text, node)
        return _put_lines(text, at, _write_item(wanted, " " * node.start_mark.column))
    if isinstance(node, yaml.MappingNode) and not node.flow_style:
        at = _find_line_after(text, node)
        first = text.rfind("\n", 0, start) + 1
        moved = re.sub(r"(?m)^(?=[^\r\n])", "  ", text[first:at])
        column = node.start_mark.column
        moved = f"{moved[:column]}- {moved[column + 2 :]}"
        return _put_lines(
            text[:first] + moved + text[at:], first + len(moved), _write_item(wanted, " " * column)
        )
    if node.tag == _NULL:
        text = text[:start] + text[end:]
        at = text.find("\n", start) + 1 or len(text)
        return _put_lines(text, at, _write_item(wanted, "  "))
    return f"{text[:start]}[{text[start:end]}, {_write_flow(wanted)}]{text[end:]}"


def _find_line_after(text: str, node: Any) -> int:
    """Where the line begins that follows the node: a block's own end is behind its comments."""
    while node.value and not isinstance(node.value, str) and not node.flow_style:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    return text.find("\n", node.end_mark.index - 1) + 1 or len(text)


def _put_lines(text: str, at: int, lines: str) -> str:
    before = text[:at]
    gap = "" if not before or before.endswith("\n") else "\n"
    return f"{before}{gap}{lines}\n{text[at:]}"


def _is_kept(before: Mapping[str, Any], text: str, name: str) -> bool:
    """Whether all that the file meant is still there, and the include with it."""
    try:
        after = parse_config(text, name)
        after.pop(JOB, None) if JOB not in before else None
        old, new = before.get("include"), after.pop("include", None)
        items = old if isinstance(old, list) else [] if old is None else [old]
        rest = {key: value for key, value in before.items() if key != "include"}
        added = isinstance(new, list) and new[:-1] == items and new[-1].get("file") == TEMPLATE
        return added and after == rest
    except (NightshiftError, RecursionError):  # the second is a list that holds itself
        return False
