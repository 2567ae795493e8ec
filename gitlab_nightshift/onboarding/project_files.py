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
"""The base of the template's jobs that run a project's tests, including the rehearsal."""
RULES_JOB = ".nightshift:rules"
"""The template's rules for what starts a night, which a project may override."""
_NULL = "tag:yaml.org,2002:null"
_HEAD = """\
# The night shift: one small, proven merge request a night, or none and the reason why. It runs only
# where a schedule or New pipeline sets NIGHTSHIFT = true; other pipelines stay as they are.
"""


@dataclass(frozen=True)
class TemplateInclude:
    """The include to write: the ``project`` on this GitLab, the tag ``ref``, and inputs with
    ``reasons`` for their values. The jobs that run tests get ``variables``, and script lines that
    ``prepare`` the checkout."""

    project: str
    ref: str
    inputs: Mapping[str, str | bool] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    prepare: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


def add_include(text: str, include: TemplateInclude, name: str) -> str:
    """The text of the file ``name`` with the include, or with the newer version of an existing one.

    Line endings, a byte order mark and a last line ``...`` are kept. Raises ``E_CONFIG`` for
    invalid YAML, and if the include cannot be added.
    """
    before = parse_config(text, name)
    mark, body, end = _split_ends(text)
    key = _find_include_node(body)
    existing = _find_template(key) if key else None
    if existing is not None:
        return mark + _renew_version(body, existing, include) + end
    block = f"{_HEAD}include:\n{_write_item(include, '  ')}\n"
    added = _add_item(body, key, include) if key else _append(body, block)
    if (include.prepare or include.variables) and JOB not in before:
        added = _append(added, _write_job(include))
    added = keep_line_ends(text, mark + added + end)
    if not _is_kept(before, added, name):
        item = _write_flow(include)
        raise build_config_error(f"{name}: cannot add to its include: add this by hand: - {item}")
    return added


def is_external(config_path: str) -> bool:
    """True if the pipeline file is in another project, as ``file@group/project``, or at a URL."""
    # docs.gitlab.com/ci/pipelines/settings, "Specify a custom CI/CD configuration file".
    return "@" in config_path or "://" in config_path


def find_rehearsal(text: str, name: str) -> bool:
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
    given = str(_find_inputs(text, name).get("source", ""))
    return given or find_usual_source(project)


def find_usual_source(project: str) -> str:
    """``gitlab-nightshift`` in a project's top-level group; "" for a project without one."""
    return f"{project.split('/', maxsplit=1)[0]}/{PROJECT_NAME}" if "/" in project else ""


def find_version(text: str, name: str) -> tuple[str, str]:
    """The ref of the include, such as ``v0.1.0``, and the version that its input pins; "" for
    none."""
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
    """True if an include of this file or component is this program's template."""
    return file == TEMPLATE or f"/{PROJECT_NAME}/" in str(component)


def parse_config(text: str, name: str) -> dict[str, Any]:
    """The file as data, with None for GitLab's own tags such as ``!reference``. Raises
    ``E_CONFIG``."""
    import yaml

    try:
        found = list(construct_documents(build_gitlab_loader()(text)))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        at = getattr(error, "problem_mark", None)
        last = text.count("\n")  # libyaml may report a line after the last
        line = f" at line {min(at.line, last) + 1}" if at else ""
        raise build_config_error(f"{name} is not valid YAML{line}: fix it first") from None
    data = found[-1] if found else None
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
    return next((value for name, value in pairs if name.value == "include"), None)


def _find_template(include: Any) -> dict[str, Any] | None:
    """The nodes of this program's include, by key; None if ``include`` has none."""
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


def _renew_version(text: str, nodes: Mapping[str, Any], include: TemplateInclude) -> str:
    """The text with the new version if the include has an older one, not a branch or a commit."""
    node = nodes.get("ref") or nodes.get("component")
    found = re.search(r"(?:^v|@)(\d+(?:\.\d+)*)$", str(getattr(node, "value", "")))
    if node is None or not found or _split_version(found[1]) >= _split_version(include.ref):
        return text
    start, end = node.start_mark.index, node.end_mark.index
    before, _, after = text[start:end].rpartition(found[1])
    return f"{text[:start]}{before}{include.ref.removeprefix('v')}{after}{text[end:]}"


def _split_version(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)[:3]]


def _append(text: str, block: str) -> str:
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{gap}{block}"


def _split_ends(text: str) -> tuple[str, str, str]:
    """The byte order mark, the text, and the rest from a line ``...`` on, which ends a YAML
    document."""
    import yaml

    body = text.removeprefix("\ufeff")
    at = len(body)
    for event in yaml.parse(body, build_gitlab_loader()):
        if isinstance(event, yaml.DocumentEndEvent):
            at = event.start_mark.index if event.explicit and event.start_mark else len(body)
    return text.removesuffix(body), body[:at], body[at:]


def keep_line_ends(before: str, after: str) -> str:
    """``after``, with CRLF as line ends if every line of ``before`` has it."""
    if "\n" not in before or re.search(r"(?<!\r)\n", before):
        return after
    return re.sub(r"(?<!\r)\n", "\r\n", after)


def _write_item(include: TemplateInclude, indent: str) -> str:
    lines = [f"- project: {include.project}", f"  ref: {include.ref}", f"  file: {TEMPLATE}"]
    if include.inputs:
        lines.append("  inputs:")
    for name, value in include.inputs.items():
        reason = f" # {include.reasons[name]}" if name in include.reasons else ""
        lines.append(f"    {name}: {json.dumps(value)}{reason}")
    return "\n".join(f"{indent}{line}" for line in lines)


def _write_flow(include: TemplateInclude) -> str:
    pairs = {"project": include.project, "ref": include.ref, "file": TEMPLATE}
    inputs = {"inputs": dict(include.inputs)} if include.inputs else {}
    return json.dumps({**pairs, **inputs})


def _write_job(include: TemplateInclude) -> str:
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
        tail = text[node.value[-1].end_mark.index : end - 1] if node.value else ","
        comma = "" if "," in re.sub(r"#.*", "", tail) else ", "
        return f"{text[: end - 1]}{comma}{_write_flow(include)}{text[end - 1 :]}"
    if isinstance(node, yaml.SequenceNode):
        at = _find_line_after(text, node)
        return _insert_lines(text, at, _write_item(include, " " * node.start_mark.column))
    if isinstance(node, yaml.MappingNode) and not node.flow_style:
        at = _find_line_after(text, node)
        first = text.rfind("\n", 0, start) + 1
        moved = re.sub(r"(?m)^(?=[^\r\n])", "  ", text[first:at])
        column = node.start_mark.column
        moved = f"{moved[:column]}- {moved[column + 2 :]}"
        return _insert_lines(
            text[:first] + moved + text[at:], first + len(moved), _write_item(include, " " * column)
        )
    if node.tag == _NULL:
        text = text[:start] + text[end:]
        at = text.find("\n", start) + 1 or len(text)
        return _insert_lines(text, at, _write_item(include, "  "))
    return f"{text[:start]}[{text[start:end]}, {_write_flow(include)}]{text[end:]}"


def _find_line_after(text: str, node: Any) -> int:
    """The start of the line after the node's last value: libyaml's end of a block is behind the
    comments that follow it."""
    while node.value and not isinstance(node.value, str) and not node.flow_style:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    return text.find("\n", node.end_mark.index - 1) + 1 or len(text)


def _insert_lines(text: str, at: int, lines: str) -> str:
    before = text[:at]
    gap = "" if not before or before.endswith("\n") else "\n"
    return f"{before}{gap}{lines}\n{text[at:]}"


def _is_kept(before: Mapping[str, Any], text: str, name: str) -> bool:
    """True if the text means the same as before, plus the include."""
    try:
        after = parse_config(text, name)
        if JOB not in before:
            after.pop(JOB, None)
        old, new = before.get("include"), after.pop("include", None)
        items = old if isinstance(old, list) else [] if old is None else [old]
        rest = {key: value for key, value in before.items() if key != "include"}
        added = isinstance(new, list) and new[:-1] == items and new[-1].get("file") == TEMPLATE
        return added and after == rest
    except (NightshiftError, RecursionError):  # the second: an anchor within its own list
        return False


# --- nightshift.yaml ------------------------------------------------------------------------------


DOCS = "docs/configuration.md of gitlab-nightshift"
_NONE_PASSED = (
    "# Without one, nights change only comments and documents. How to give each build tool its",
    "# dependencies without a network: docs/recipes.md of gitlab-nightshift",
)
DASHBOARD = "One issue shows open merge requests, past nights, rejected ideas, with boxes to tick."
# As _write_commands writes them if no command passed.
_DISABLED_COMMANDS = re.compile(r"(?m)^# verify_commands:.*\n(?:#   - .*\n)*")
LACKS = "cannot run here: "
"""The beginning of ``why`` for a command whose program or dependency is missing."""


@dataclass(frozen=True)
class TriedCommand:
    """A test command and its result in the sandbox. ``seconds`` is None if it was not run; ``why``
    is why it proves nothing, "" if it passed or was not tried yet; ``output`` has the last lines of
    a failed one."""

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


def write_settings(
    tried: Sequence[TriedCommand],
    reviewer: str,
    agent_env: Sequence[str] = (),
    *,
    dashboard: bool = False,
) -> str:
    """The whole file. Commands that did not pass are commented out; ``log_issue`` is set only with
    ``dashboard``."""
    passed = any(not each.why for each in tried)
    lines = [
        f"# Night shift settings. All of them, with defaults: {DOCS}",
        "",
        "# What proves a change: this program runs these in the sandbox, before and after it.",
        *([] if passed else _NONE_PASSED),
        *_write_commands(tried, passed=passed),
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
    """True if a file of this form has its test commands commented out."""
    return bool(_DISABLED_COMMANDS.search(text)) and not re.search("(?m)^verify_commands:", text)


def enable_commands(text: str, tried: Sequence[TriedCommand]) -> str:
    """The file with the commands that pass now, and its own line endings; unchanged if none
    passes."""
    if all(each.why for each in tried):
        return text
    lines = "\n".join(_write_commands(tried, passed=True))
    rest = text.replace("\r\n", "\n").replace("\n".join(_NONE_PASSED) + "\n", "")
    return keep_line_ends(text, _DISABLED_COMMANDS.sub(lambda _: f"{lines}\n", rest, count=1))


def _write_commands(tried: Sequence[TriedCommand], *, passed: bool) -> list[str]:
    if not tried:
        return ["# verify_commands: []"]
    lines = [f"{'' if passed else '# '}verify_commands:"]
    for each in tried:
        mark, note = ("# ", each.why) if each.why else ("", each.result)
        lines.append(f"{mark}  - {json.dumps(each.command)} # {note}")
    return lines
