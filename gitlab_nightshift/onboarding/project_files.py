"""The two files that a project needs: the include of this program's template in ``.gitlab-ci.yml``,
and the first ``nightshift.yaml``.

Text is only added to a pipeline file. YAML libraries lose comments and spaces when they write one,
so the text is edited, and the result is parsed to check that the rest of the file still means the
same.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gitlab_nightshift.errors import NightshiftError, build_config_error
from gitlab_nightshift.text.untrusted_data import build_gitlab_loader, construct_documents

TEMPLATE = "/ci/templates/.gitlab-ci.yml"
PROJECT_NAME = "gitlab-nightshift"
JOB = ".nightshift:job"
"""The hidden job that the template's jobs with a project's tests extend, also the rehearsal."""
RULES_JOB = ".nightshift:rules"
"""The template's rules for what starts a night, which a project may override."""
THREE_JOBS = "three-jobs"
"""The value of the input ``shape`` that separates the agents from the token."""
_NULL = "tag:yaml.org,2002:null"
_HEAD = """\
# The night shift: one small, proven merge request a night, or none and the reason why. It runs only
# where a schedule or New pipeline sets NIGHTSHIFT = true; other pipelines stay as they are.
"""


@dataclass(frozen=True)
class TemplateInclude:
    """The include to write: the ``project`` on this GitLab, the tag ``ref``, and ``inputs``, with
    ``reasons`` as comments beside them. The jobs that run tests get ``variables``, and the script
    lines ``prepare``."""

    project: str
    ref: str
    inputs: Mapping[str, str | bool] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    prepare: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


def add_include(text: str, include: TemplateInclude, name: str) -> str:
    """The text of the pipeline file ``name`` with the include, or with a newer version of an
    existing one.

    Line endings, a byte order mark and a last line ``...`` are kept. Raises ``E_CONFIG`` for
    invalid YAML, and if the include cannot be added.
    """
    before = parse_config(text, name)
    byte_order_mark, body, end = _split_ends(text)
    node = _find_include_node(body)
    existing = _find_template(node) if node else None
    if existing is not None:
        return byte_order_mark + _update_version(body, existing, include) + end
    if node:
        body = _add_item(body, node, include)
    else:
        body = _append(body, f"{_HEAD}include:\n{_format_item(include, '  ')}\n")
    if (include.prepare or include.variables) and JOB not in before:
        body = _append(body, _format_job(include))
    after = keep_line_endings(text, byte_order_mark + body + end)
    if not _adds_only_include(before, after, name):
        item = _format_flow_item(include)
        raise build_config_error(f"{name}: cannot add to its include: add this by hand: - {item}")
    return after


def is_external(config_path: str) -> bool:
    """True if the pipeline file is in another project, as ``file@group/project``, or at a URL."""
    # docs.gitlab.com/ci/pipelines/settings, "Specify a custom CI/CD configuration file".
    return "@" in config_path or "://" in config_path


# The parameters ``text`` and ``name`` of these functions are the pipeline file's.


def has_rehearsal(text: str, name: str) -> bool:
    """True if the file's include has a rehearsal in merge requests."""
    return _find_inputs(text, name).get("rehearse") is True


def find_shape(text: str, name: str) -> str:
    """The input ``shape`` of the file's include of the template; "" for its default."""
    return str(_find_inputs(text, name).get("shape", ""))


def find_schedule_description(text: str, name: str) -> str:
    """The include's input: the description that makes a schedule a night; "" for none."""
    return str(_find_inputs(text, name).get("schedule_description", ""))


def find_source(text: str, name: str, project: str) -> str:
    """The source from which the include gets the program: a project of this GitLab, or the URL of a
    folder. ``project`` is the path of the file's project."""
    return str(_find_inputs(text, name).get("source", "")) or find_default_source(project)


def find_default_source(project: str) -> str:
    """``gitlab-nightshift`` in the project's top-level group; "" for a project without one."""
    return f"{project.split('/', maxsplit=1)[0]}/{PROJECT_NAME}" if "/" in project else ""


def find_version(text: str, name: str) -> tuple[str, str]:
    """The ref of the include, such as ``v0.1.0``, and the version that its input pins; "" for
    none."""
    item = _find_include(text, name)
    _, _, version = str(item.get("component", "")).rpartition("@")
    return str(item.get("ref", version)), str(_find_inputs(text, name).get("version", ""))


def _find_inputs(text: str, name: str) -> Mapping[str, Any]:
    inputs = _find_include(text, name).get("inputs")
    return inputs if isinstance(inputs, dict) else {}


def _find_include(text: str, name: str) -> Mapping[str, Any]:
    """The include of this program's template, empty without one."""
    include = parse_config(text, name).get("include")
    for item in include if isinstance(include, list) else [include]:
        if isinstance(item, dict) and is_template(item.get("file"), item.get("component")):
            return item
    return {}


def is_template(file: object, component: object) -> bool:
    """True if an include of this file or component is this program's template."""
    return file == TEMPLATE or f"/{PROJECT_NAME}/" in str(component)


def parse_config(text: str, name: str) -> dict[str, Any]:
    """The file as data, with None for GitLab's own tags such as ``!reference``. Raises
    ``E_CONFIG``."""
    import yaml

    try:
        documents = list(construct_documents(build_gitlab_loader()(text)))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        last_line = text.count("\n")  # libyaml may report a line after the last
        line = f" at line {min(mark.line, last_line) + 1}" if mark else ""
        raise build_config_error(f"{name} is not valid YAML{line}: fix it first") from None
    data = documents[-1] if documents else None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise build_config_error(f"{name} is no mapping of jobs at its top level: fix it first")
    return data


def _find_include_node(text: str) -> Any:
    """The node of ``include`` in the last document; None without one."""
    import yaml

    documents = list(yaml.compose_all(text, build_gitlab_loader()))
    pairs = documents[-1].value if documents and documents[-1] is not None else []
    return next((value for key, value in pairs if key.value == "include"), None)


def _find_template(include: Any) -> dict[str, Any] | None:
    """The nodes of this program's include, by key; None if the node ``include`` has none."""
    import yaml

    items = include.value if isinstance(include, yaml.SequenceNode) else [include]
    for item in items:
        if isinstance(item, yaml.MappingNode):
            nodes = {key.value: value for key, value in item.value}
            file = getattr(nodes.get("file"), "value", "")
            component = getattr(nodes.get("component"), "value", "")
            if is_template(file, component):
                return nodes
    return None


def _update_version(text: str, nodes: Mapping[str, Any], include: TemplateInclude) -> str:
    """The text with the new version if the include has an older one, not a branch or a commit."""
    node = nodes.get("ref") or nodes.get("component")
    match = re.search(r"(?:^v|@)(\d+(?:\.\d+)*)$", str(getattr(node, "value", "")))
    if node is None or not match or _split_version(match[1]) >= _split_version(include.ref):
        return text
    start, end = node.start_mark.index, node.end_mark.index
    before, _, after = text[start:end].rpartition(match[1])
    return f"{text[:start]}{before}{include.ref.removeprefix('v')}{after}{text[end:]}"


def _split_version(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)[:3]]


def _append(text: str, block: str) -> str:
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{gap}{block}"


def _split_ends(text: str) -> tuple[str, str, str]:
    """The byte order mark, the text, and the end of the file from a line ``...`` on, which ends a
    YAML document."""
    import yaml

    body = text.removeprefix("\ufeff")
    end = len(body)
    for event in yaml.parse(body, build_gitlab_loader()):
        if isinstance(event, yaml.DocumentEndEvent):
            end = event.start_mark.index if event.explicit and event.start_mark else len(body)
    return text.removesuffix(body), body[:end], body[end:]


def keep_line_endings(before: str, after: str) -> str:
    """``after``, with CRLF as line ends if every line of ``before`` has it."""
    if "\n" not in before or re.search(r"(?<!\r)\n", before):
        return after
    return re.sub(r"(?<!\r)\n", "\r\n", after)


def _format_item(include: TemplateInclude, indent: str) -> str:
    lines = [f"- project: {include.project}", f"  ref: {include.ref}", f"  file: {TEMPLATE}"]
    if include.inputs:
        lines.append("  inputs:")
    for name, value in include.inputs.items():
        reason = f" # {include.reasons[name]}" if name in include.reasons else ""
        lines.append(f"    {name}: {json.dumps(value)}{reason}")
    return "\n".join(f"{indent}{line}" for line in lines)


def _format_flow_item(include: TemplateInclude) -> str:
    """The item on one line, in YAML's flow style."""
    item: dict[str, Any] = {"project": include.project, "ref": include.ref, "file": TEMPLATE}
    if include.inputs:
        item["inputs"] = dict(include.inputs)
    return json.dumps(item)


def _format_job(include: TemplateInclude) -> str:
    lines = [
        "# What the night's tests need, fetched before the agent starts: it has no network.",
        f"{JOB}:",
    ]
    if include.variables:
        lines.append("  variables:")
        lines += [f"    {name}: {value}" for name, value in include.variables.items()]
    if include.prepare:
        lines += ["  before_script:", '    - !reference [".nightshift:install", script]']
        lines += [f"    - {line}" for line in include.prepare]
    return "\n".join(lines) + "\n"


def _add_item(text: str, node: Any, include: TemplateInclude) -> str:
    """The text with the include added to the existing ``include``, of whatever form."""
    # GitLab takes a list, one mapping, or one string (docs.gitlab.com/ci/yaml/#include), and YAML
    # writes the first two as a block or in one line (flow style).
    import yaml

    start, end = node.start_mark.index, node.end_mark.index
    if isinstance(node, yaml.SequenceNode) and node.flow_style:
        after_last = text[node.value[-1].end_mark.index : end - 1] if node.value else ","
        comma = "" if "," in re.sub(r"#.*", "", after_last) else ", "
        return f"{text[: end - 1]}{comma}{_format_flow_item(include)}{text[end - 1 :]}"
    column = node.start_mark.column
    if isinstance(node, yaml.SequenceNode):
        next_line = _find_next_line(text, node)
        return _insert_lines(text, next_line, _format_item(include, " " * column))
    if isinstance(node, yaml.MappingNode) and not node.flow_style:
        # The mapping becomes the first item of a list.
        line, next_line = text.rfind("\n", 0, start) + 1, _find_next_line(text, node)
        indented = re.sub(r"(?m)^(?=[^\r\n])", "  ", text[line:next_line])
        block = f"{indented[:column]}- {indented[column + 2 :]}"
        return _insert_lines(
            text[:line] + block + text[next_line:],
            line + len(block),
            _format_item(include, " " * column),
        )
    if node.tag == _NULL:
        text = text[:start] + text[end:]
        next_line = text.find("\n", start) + 1 or len(text)
        return _insert_lines(text, next_line, _format_item(include, "  "))
    return f"{text[:start]}[{text[start:end]}, {_format_flow_item(include)}]{text[end:]}"


def _find_next_line(text: str, node: Any) -> int:
    """The start of the line after the node's last value: libyaml's end of a block is behind the
    comments that follow it."""
    while node.value and not isinstance(node.value, str) and not node.flow_style:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    return text.find("\n", node.end_mark.index - 1) + 1 or len(text)


def _insert_lines(text: str, position: int, lines: str) -> str:
    before = text[:position]
    gap = "" if not before or before.endswith("\n") else "\n"
    return f"{before}{gap}{lines}\n{text[position:]}"


def _adds_only_include(before: Mapping[str, Any], text: str, name: str) -> bool:
    """True if the text means the same as before, plus the include and its job."""
    try:
        after = parse_config(text, name)
        if JOB not in before:
            after.pop(JOB, None)
        old, new = before.get("include", []), after.pop("include", None)
        if old is None:
            old = []
        elif not isinstance(old, list):
            old = [old]
        added = isinstance(new, list) and new[:-1] == old and new[-1].get("file") == TEMPLATE
        return added and after == {key: value for key, value in before.items() if key != "include"}
    except (NightshiftError, RecursionError):  # the latter for an anchor within its own list
        return False


# --- nightshift.yaml ------------------------------------------------------------------------------

_NONE_PASSED = (
    "# Without one, nights change only comments and documents. How to give each build tool its",
    "# dependencies without a network: docs/recipes.md of gitlab-nightshift",
)
DASHBOARD = "One issue shows open merge requests, past nights, rejected ideas, with boxes to tick."
# As _format_commands does it if no command passed.
_DISABLED_COMMANDS = re.compile(r"(?m)^# verify_commands:.*\n(?:#   - .*\n)*")
LACKS = "cannot run here: "
"""The beginning of ``why`` for a command whose program or dependency is missing."""


@dataclass(frozen=True)
class TriedCommand:
    """A test command and its result in the sandbox. ``seconds`` is None if it did not run; ``why``
    says why it proves nothing, "" if it passed or was not tried yet; ``output`` has the last lines
    of a failed one."""

    command: str
    seconds: float | None = None
    why: str = ""
    output: tuple[str, ...] = ()

    @property
    def result(self) -> str:
        """The result in words."""
        if self.why or self.seconds is None:
            return self.why or "found in the build files; the rehearsal tries it"
        return f"passed in {self.seconds:.0f} s"

    @property
    def lacks_something(self) -> bool:
        """True if it failed because something is not installed here."""
        return self.why.startswith(LACKS)


def render_settings(
    tried: Sequence[TriedCommand],
    reviewer: str,
    agent_env: Sequence[str] = (),
    *,
    dashboard: bool = False,
) -> str:
    """The text of a new nightshift.yaml. Commands that did not pass are commented out;
    ``log_issue`` is, too, without ``dashboard``."""
    passed = any(not each.why for each in tried)
    lines = [
        "# Night shift settings. All of them, with defaults: docs/configuration.md of"
        " gitlab-nightshift",
        "",
        "# What proves a change: this program runs these in the sandbox, before and after it.",
        *([] if passed else _NONE_PASSED),
        *_format_commands(tried, active=passed),
    ]
    if agent_env:
        lines += [
            "",
            "# Variables passed on to agents and these commands: they say where dependencies are.",
            f"agent_env: [{', '.join(agent_env)}]",
        ]
    lines += [
        "",
        "# Who reviews: a user name, group:PATH, code_owners or approval_rules.",
        f"reviewer: {reviewer}" if reviewer else "# reviewer: your-user-name",
        "",
        f"# {DASHBOARD}",
        f"{'' if dashboard else '# '}log_issue: auto",
    ]
    return "\n".join(lines) + "\n"


def lacks_commands(text: str) -> bool:
    """True if the text of a nightshift.yaml has the test commands commented out."""
    return bool(_DISABLED_COMMANDS.search(text)) and not re.search("(?m)^verify_commands:", text)


def enable_commands(text: str, tried: Sequence[TriedCommand]) -> str:
    """The text of a nightshift.yaml with the commands that pass now; unchanged if none passes."""
    if all(each.why for each in tried):
        return text
    commands = "\n".join(_format_commands(tried, active=True))
    enabled = text.replace("\r\n", "\n").replace("\n".join(_NONE_PASSED) + "\n", "")
    enabled = _DISABLED_COMMANDS.sub(lambda _: f"{commands}\n", enabled, count=1)
    return keep_line_endings(text, enabled)


def _format_commands(tried: Sequence[TriedCommand], *, active: bool) -> list[str]:
    if not tried:
        return ["# verify_commands: []"]
    lines = [f"{'' if active else '# '}verify_commands:"]
    for each in tried:
        comment = "# " if each.why else ""
        lines.append(f"{comment}  - {json.dumps(each.command)} # {each.result}")
    return lines
