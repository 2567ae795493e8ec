"""Recipes that CI calls: Make, Just, npm, Composer, tox, task runners, scripts."""

import re
from collections.abc import Mapping
from typing import Any

from gitlab_nightshift.verdict.tooling.commands import Command, commands_of
from gitlab_nightshift.verdict.tooling.facts import items_of
from gitlab_nightshift.verdict.tooling.jobs import Job, mapping
from gitlab_nightshift.verdict.tooling.parse import parsed


def recipes(_path: str, data: bytes) -> dict[str, Job]:
    """Targets of a Makefile or Justfile with their recipes and prerequisites."""
    jobs: dict[str, Job] = {}
    current: list[Job] = []
    text = re.sub(r"\\\n[ \t]*", " ", data.decode("utf-8", "replace"))
    for line in text.split("\n"):
        rule = re.match(
            r"([\w./%@$(){}-][^:=#\t]*?)\s*:(?![=:])(?!:=)\s*([^#=;]*)(?:;(.*))?(#.*)?$", line
        )
        if line[:1] in ("\t", " ") and line.strip():
            for job in current:
                job.commands += commands_of(line.strip())
        elif rule and not rule[1].startswith("."):
            current = [
                jobs.setdefault(name.lstrip("@"), Job()) for name in rule[1].split()[:1] or [""]
            ]
            for job in current:
                job.uses += [word for word in rule[2].split() if "$" not in word]
        elif ignored := re.match(r"\.(IGNORE|SILENT)\b(.*)", line):
            if ignored[1] == "IGNORE":
                jobs.setdefault("", Job()).lenient[".IGNORE"] = ignored[2].strip(" :") or "all"
        elif variable := re.match(r"([\w.-]+)\s*[:?+]?=\s*(.*)$", line):
            jobs.setdefault(f"${variable[1]}", Job()).commands += commands_of(variable[2])
    return jobs


def scripts(path: str, data: bytes) -> dict[str, Job] | None:
    """Scripts of npm, Composer, tox and Python\'s task runners, and pytest\'s own options."""
    read = parsed(path, data)
    if not isinstance(read, dict):
        return None
    name = path.rpartition("/")[2]
    if name in ("package.json", "composer.json"):
        return {str(key): _called(body) for key, body in mapping(read.get("scripts")).items()}
    if name == "pyproject.toml":
        return _pyproject(read)
    jobs: dict[str, Job] = {}
    if "pytest" in name:
        jobs["pytest"] = Job(commands_of("pytest "))
    for section, values in read.items():
        if section == "tox":
            environments = values.get("env_list") or values.get("envlist") or ""
            jobs[section] = Job(uses=re.findall(r"[\w.-]+", environments))
        if section.startswith("testenv"):
            jobs[section] = Job(
                commands_of([values.get("commands_pre", ""), values.get("commands", "")])
            )
            if str(values.get("ignore_outcome", values.get("ignore_errors", ""))).lower() == "true":
                jobs[section].lenient["ignore_outcome"] = "true"
        elif section in ("pytest", "tool:pytest"):
            jobs["pytest"] = Job(
                commands_of("pytest " + (values.get("addopts") or "").replace("\n", " "))
            )
    return jobs


def _pyproject(read: Mapping[str, Any]) -> dict[str, Job]:
    tool = mapping(read.get("tool"))
    jobs: dict[str, Job] = {}
    pytest = mapping(tool.get("pytest"))
    options = mapping(pytest.get("ini_options", pytest)).get("addopts", "")
    text = " ".join(items_of(options)) if isinstance(options, list) else str(options)
    jobs["pytest"] = Job(commands_of(f"pytest {text}".replace("\n", " ")))
    for owner, key in (("poe", "tasks"), ("taskipy", "tasks"), ("pdm", "scripts")):
        for name, body in mapping(mapping(tool.get(owner)).get(key)).items():
            jobs[f"{owner}:{name}"] = _called(body, isinstance(body, list) or owner == "poe")
    return jobs


def _called(body: Any, by_name: bool = False) -> Job:
    """A script: command lines, names of other scripts behind ``@`` or in a list of poe."""
    if isinstance(body, dict):
        sequence = body.get("sequence", body.get("composite"))
        body = sequence or body.get("cmd", body.get("shell", ""))
    parts = body if isinstance(body, list) else [body]
    names = [part for part in parts if isinstance(part, str) and re.fullmatch(r"@?[\w:-]+", part)]
    named = [n for n in names if n[:1] == "@" or (by_name and isinstance(body, list))]
    commands = [part for part in parts if part not in named]
    return Job(commands_of(commands), [name.lstrip("@") for name in named])


def options(_path: str, data: bytes) -> dict[str, Job]:
    """The options that RSpec always takes."""
    return {
        "rspec": Job(commands_of("rspec " + data.decode("utf-8", "replace").replace("\n", " ")))
    }


def aliases(path: str, data: bytes) -> dict[str, Job]:
    """Commands under a name of their own: Cargo's and sbt's."""
    if path.endswith(".sbt"):
        text = data.decode("utf-8", "replace")
        rows = re.findall(r"""addCommandAlias\(\s*"([^"]+)",\s*"+([^"]*)"+""", text)
        return {
            name: Job([Command(f"sbt {part.strip()}") for part in line.split(";") if part.strip()])
            for name, line in rows
        }
    read = mapping(mapping(parsed(path, data)).get("alias"))
    lines = {k: " ".join(map(str, v)) if isinstance(v, list) else str(v) for k, v in read.items()}
    return {name: Job([Command(f"cargo {line}")]) for name, line in lines.items()}


def texts(path: str, data: bytes) -> dict[str, Job]:
    """A script in any language: its lines, and the quoted command lines in it."""
    text = data.decode("utf-8", "replace")
    if path.endswith((".py", "Jenkinsfile")):
        calls = re.findall(
            r"""\b(?:run|sh|bat|install)\s*\(?\s*((?:['"][^'"\n]*['"]\s*,?\s*)+)""", text
        )
        return {
            "": Job(
                [Command(" ".join(re.findall(r"""['"]([^'"\n]*)['"]""", call))) for call in calls]
            )
        }
    return {
        "": Job(commands_of(text if path.endswith(("sh", "file")) else text.replace("\n", " ")))
    }
