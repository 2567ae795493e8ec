"""Recipes that CI calls: Make, Just, npm, Composer, tox, task runners, scripts."""

import re
from collections.abc import Mapping
from typing import Any

from gitlab_nightshift.verdict.tooling.ci_jobs import CiJob, as_mapping
from gitlab_nightshift.verdict.tooling.command_lines import CommandLine, parse_commands
from gitlab_nightshift.verdict.tooling.settings_parser import parse_data
from gitlab_nightshift.verdict.tooling.tool_facts import list_items


def read_makefile_jobs(_path: str, data: bytes) -> dict[str, CiJob]:
    """Targets of a Makefile or Justfile with their recipes and prerequisites."""
    jobs: dict[str, CiJob] = {}
    current: list[CiJob] = []
    text = re.sub(r"\\\n[ \t]*", " ", data.decode("utf-8", "replace"))
    for line in text.split("\n"):
        rule = re.match(
            r"([\w./%@$(){}-][^:=#\t]*?)\s*:(?![=:])(?!:=)\s*([^#=;]*)(?:;(.*))?(#.*)?$", line
        )
        if line[:1] in ("\t", " ") and line.strip():
            for job in current:
                job.commands += parse_commands(line.strip())
        elif rule and not rule[1].startswith("."):
            current = [
                jobs.setdefault(name.lstrip("@"), CiJob()) for name in rule[1].split()[:1] or [""]
            ]
            for job in current:
                job.uses += [word for word in rule[2].split() if "$" not in word]
        elif ignored := re.match(r"\.(IGNORE|SILENT)\b(.*)", line):
            if ignored[1] == "IGNORE":
                jobs.setdefault("", CiJob()).lenient[".IGNORE"] = ignored[2].strip(" :") or "all"
        elif variable := re.match(r"([\w.-]+)\s*[:?+]?=\s*(.*)$", line):
            jobs.setdefault(f"${variable[1]}", CiJob()).commands += parse_commands(variable[2])
    return jobs


def read_script_jobs(path: str, data: bytes) -> dict[str, CiJob] | None:
    """Scripts of npm, Composer, tox and Python's task runners, and pytest's own options."""
    read = parse_data(path, data)
    if not isinstance(read, dict):
        return None
    name = path.rpartition("/")[2]
    if name in ("package.json", "composer.json"):
        return {
            str(key): _build_script_job(body)
            for key, body in as_mapping(read.get("scripts")).items()
        }
    if name == "pyproject.toml":
        return _read_pyproject_jobs(read)
    jobs: dict[str, CiJob] = {}
    if "pytest" in name:
        jobs["pytest"] = CiJob(parse_commands("pytest "))
    for section, values in read.items():
        if section == "tox":
            environments = values.get("env_list") or values.get("envlist") or ""
            whichever = re.sub(
                r"(?<![\w.])(?:py(?:py)?)?\d[\d.]*(?:\{[\d.,-]*\})?t?-", "", environments
            )
            jobs[section] = CiJob(uses=re.findall(r"[\w.-]+", whichever))
        if section.startswith("testenv"):
            jobs[section] = CiJob(
                parse_commands([values.get("commands_pre", ""), values.get("commands", "")])
            )
            if str(values.get("ignore_outcome", values.get("ignore_errors", ""))).lower() == "true":
                jobs[section].lenient["ignore_outcome"] = "true"
        elif section in ("pytest", "tool:pytest"):
            jobs["pytest"] = CiJob(
                parse_commands("pytest " + (values.get("addopts") or "").replace("\n", " "))
            )
    return jobs


def _read_pyproject_jobs(read: Mapping[str, Any]) -> dict[str, CiJob]:
    tool = as_mapping(read.get("tool"))
    jobs: dict[str, CiJob] = {}
    pytest = as_mapping(tool.get("pytest"))
    options = as_mapping(pytest.get("ini_options", pytest)).get("addopts", "")
    text = " ".join(list_items(options)) if isinstance(options, list) else str(options)
    strict = " --strict-markers --strict-config" if pytest.get("strict") is True else ""
    jobs["pytest"] = CiJob(parse_commands(f"pytest {text}{strict}".replace("\n", " ")))
    for owner, key in (("poe", "tasks"), ("taskipy", "tasks"), ("pdm", "scripts")):
        for name, body in as_mapping(as_mapping(tool.get(owner)).get(key)).items():
            jobs[f"{owner}:{name}"] = _build_script_job(
                body, isinstance(body, list) or owner == "poe"
            )
    return jobs


def _build_script_job(body: Any, by_name: bool = False) -> CiJob:
    """A script: command lines, names of other scripts behind ``@`` or in a list of poe."""
    if isinstance(body, dict):
        sequence = body.get("sequence", body.get("composite"))
        body = sequence or body.get("cmd", body.get("shell", ""))
    parts = body if isinstance(body, list) else [body]
    names = [part for part in parts if isinstance(part, str) and re.fullmatch(r"@?[\w:-]+", part)]
    named = [n for n in names if n[:1] == "@" or (by_name and isinstance(body, list))]
    commands = [part for part in parts if part not in named]
    return CiJob(parse_commands(commands), [name.lstrip("@") for name in named])


def read_rspec_jobs(_path: str, data: bytes) -> dict[str, CiJob]:
    """The options that RSpec always takes."""
    return {
        "rspec": CiJob(
            parse_commands("rspec " + data.decode("utf-8", "replace").replace("\n", " "))
        )
    }


def read_alias_jobs(path: str, data: bytes) -> dict[str, CiJob]:
    """Commands under a name of their own: Cargo's and sbt's."""
    if path.endswith(".sbt"):
        text = data.decode("utf-8", "replace")
        rows = re.findall(r"""addCommandAlias\(\s*"([^"]+)",\s*"+([^"]*)"+""", text)
        return {
            name: CiJob(
                [CommandLine(f"sbt {part.strip()}") for part in line.split(";") if part.strip()]
            )
            for name, line in rows
        }
    read = as_mapping(as_mapping(parse_data(path, data)).get("alias"))
    lines = {k: " ".join(map(str, v)) if isinstance(v, list) else str(v) for k, v in read.items()}
    return {name: CiJob([CommandLine(f"cargo {line}")]) for name, line in lines.items()}


def read_text_jobs(path: str, data: bytes) -> dict[str, CiJob]:
    """A script in any language: its lines, and the quoted command lines in it."""
    text = data.decode("utf-8", "replace")
    if path.endswith((".py", "Jenkinsfile")):
        calls = re.findall(
            r"""\b(?:run|sh|bat|install)\s*\(?\s*((?:['"][^'"\n]*['"]\s*,?\s*)+)""", text
        )
        return {
            "": CiJob(
                [
                    CommandLine(" ".join(re.findall(r"""['"]([^'"\n]*)['"]""", call)))
                    for call in calls
                ]
            )
        }
    return {
        "": CiJob(
            parse_commands(text if path.endswith(("sh", "file")) else text.replace("\n", " "))
        )
    }
