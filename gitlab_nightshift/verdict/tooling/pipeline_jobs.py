"""CI files and recipes as jobs: what each runs, and what decides whether it counts."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gitlab_nightshift.verdict.rule_tables import RuleTable
from gitlab_nightshift.verdict.tooling.ci_jobs import CiJob, as_mapping
from gitlab_nightshift.verdict.tooling.command_lines import parse_commands
from gitlab_nightshift.verdict.tooling.rake import read_rake_jobs
from gitlab_nightshift.verdict.tooling.recipes import (
    read_alias_jobs,
    read_makefile_jobs,
    read_rspec_jobs,
    read_script_jobs,
    read_text_jobs,
)
from gitlab_nightshift.verdict.tooling.settings_parser import parse_data
from gitlab_nightshift.verdict.tooling.tool_facts import list_items

_TABLE = RuleTable(__file__)

CHECKING = _TABLE.get_pattern("checking", re.IGNORECASE)
GITLAB = _TABLE.get_pattern("gitlab")
GITHUB = _TABLE.get_pattern("github")
OTHERS = _TABLE.get_pattern("others")
RECIPES = _TABLE.get_pattern("recipes")
SCRIPTS = _TABLE.get_pattern("scripts")
TEXTS = _TABLE.get_pattern("texts")
RAKE = _TABLE.get_pattern("rake")
ALIASES = _TABLE.get_pattern("aliases")
OPTIONS = _TABLE.get_pattern("options")
"""Files with nothing but options of a test runner: without one they are the usual ones."""
_RESERVED = _TABLE.get_words("reserved")
_SCRIPT_KEYS = _TABLE.get_words("script_keys")
_LENIENT_KEYS = _TABLE.get_words("lenient_keys")


def read_jobs(path: str, data: bytes | None) -> dict[str, CiJob] | None:
    """The jobs of a CI file or recipe by name; None for another file or one that is unreadable."""
    for pattern, reader in _READERS:
        if pattern.search(path):
            if data is None:
                return {}
            return reader(path, data)
    return None


def is_ci(path: str) -> bool:
    """True where a file says what CI runs, or what its jobs call."""
    return any(pattern.search(path) for pattern, _ in _READERS)


# --- GitLab ---------------------------------------------------------------------------------------


def _read_gitlab_jobs(path: str, data: bytes) -> dict[str, CiJob] | None:
    read = parse_data(path, data)
    if not isinstance(read, dict):
        return None
    shared = as_mapping(read.get("default"))
    before = read.get("before_script", shared.get("before_script", []))
    jobs = {
        str(name): _read_gitlab_job(body, read)
        for name, body in read.items()
        if name not in _RESERVED and isinstance(body, dict)
    }
    jobs[""] = CiJob(
        parse_commands(before), uses=[f"include {item}" for item in list_items(read.get("include"))]
    )
    if _lets_fail(shared.get("allow_failure")):
        jobs[""].lenient["default.allow_failure"] = "true"
    workflow = read.get("workflow")
    jobs[""].never += _list_never_rules(workflow.get("rules") if isinstance(workflow, dict) else [])
    return jobs


def _read_gitlab_job(body: Mapping[str, Any], whole: Mapping[str, Any]) -> CiJob:
    merged = {**_resolve_extends(body, whole, 0), **body}
    job = CiJob(parse_commands([merged.get("before_script", []), merged.get("script", [])]))
    if _lets_fail(merged.get("allow_failure")):
        job.lenient["allow_failure"] = "true"
    if str(merged.get("when", "")) in ("manual", "never", "delayed"):
        job.lenient["when"] = str(merged["when"])
    for rule in merged.get("rules") or []:
        if isinstance(rule, dict) and _lets_fail(rule.get("allow_failure")):
            job.lenient[f"rules[{rule.get('if', '')}].allow_failure"] = "true"
        if isinstance(rule, dict) and rule.get("when") == "manual":
            job.lenient[f"rules[{rule.get('if', '')}].when"] = "manual"
    job.never = [
        *_list_never_rules(merged.get("rules")),
        *(f"except {i}" for i in _list_refs(merged.get("except"))),
    ]
    job.always = [
        *_list_run_rules(merged.get("rules")),
        *(f"only {item}" for item in _list_refs(merged.get("only"))),
    ]
    retry = merged.get("retry")
    job.limits["retry"] = _read_count(retry.get("max") if isinstance(retry, dict) else retry)
    return job


def _resolve_extends(
    body: Mapping[str, Any], whole: Mapping[str, Any], depth: int
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in list_items(body.get("extends")) if depth < 8 else ():
        parent = whole.get(name)
        if isinstance(parent, dict):
            found |= {**_resolve_extends(parent, whole, depth + 1), **parent}
    return found


def _lets_fail(value: Any) -> bool:
    return value is True or isinstance(value, dict) or str(value).lower() == "true"


def _list_rules(value: Any) -> Iterator[dict[str, Any]]:
    for rule in value if isinstance(value, list) else ():
        if isinstance(rule, dict):
            yield rule
        elif isinstance(rule, list):
            yield from _list_rules(rule)


def _list_never_rules(rules: Any) -> list[str]:
    return [
        f"rules: {r.get('if', r.get('changes', ''))}: never"
        for r in _list_rules(rules)
        if r.get("when") == "never"
    ]


def _list_run_rules(rules: Any) -> list[str]:
    kept = (r for r in _list_rules(rules) if r.get("when") != "never")
    return [f"rules: {r.get('if', '')} {list_items(r.get('changes')) or ''}".strip() for r in kept]


def _list_refs(value: Any) -> tuple[str, ...]:
    if isinstance(value, dict):
        return tuple(f"{k} {i}" for k in value for i in list_items(value[k]))
    return list_items(value)


def _read_count(value: Any) -> float:
    return float(value) if isinstance(value, int) else 0.0


# --- GitHub and others ----------------------------------------------------------------------------


def _read_github_jobs(path: str, data: bytes) -> dict[str, CiJob] | None:
    read = parse_data(path, data)
    if not isinstance(read, dict):
        return None
    top = CiJob(always=_list_triggers(read.get("on")), never=_list_ignored_paths(read.get("on")))
    jobs = {"": top}
    bodies = as_mapping(read.get("jobs")) or {"runs": read.get("runs")}
    for name, body in bodies.items():
        if isinstance(body, dict):
            jobs[str(name)] = _read_github_job(body)
    return jobs


def _read_github_job(body: Mapping[str, Any]) -> CiJob:
    job = CiJob()
    _add_conditions(job, body, "")
    strategy = body.get("strategy")
    matrix = strategy.get("matrix") if isinstance(strategy, dict) else None
    if isinstance(matrix, dict):
        job.always += [
            f"matrix {k}: {i}" for k, v in matrix.items() if k != "exclude" for i in list_items(v)
        ]
    if body.get("uses"):
        job.uses.append(str(body["uses"]).partition("@")[0])
    for step in body.get("steps") or []:
        if isinstance(step, dict):
            name = str(step.get("name") or step.get("uses") or step.get("run", ""))[:60]
            commands = parse_commands(step.get("run", ""))
            said = f"{step.get('name', '')} {step.get('uses', '')}"
            if CHECKING.search(said) or any(command.checks for command in commands):
                _add_conditions(job, step, f"{name}: ")
                job.limits["free steps"] = job.limits.get("free steps", 0) + ("if" not in step)
            job.commands += commands
            job.uses += [str(step["uses"]).partition("@")[0]] if step.get("uses") else []
    return job


def _add_conditions(job: CiJob, body: Mapping[str, Any], prefix: str) -> None:
    if str(body.get("continue-on-error", "")).lower() not in ("", "false"):
        job.lenient[f"{prefix}continue-on-error"] = str(body["continue-on-error"])
    condition = str(body.get("if", "")).strip()
    if re.fullmatch(r"(\$\{\{\s*)?false(\s*\}\})?", condition, re.IGNORECASE):
        job.lenient[f"{prefix}if"] = "false"
    elif condition and not re.search(
        r"always\(\)|failure\(\)|success\(\)|cancelled\(\)", condition
    ):
        job.never.append(f"{prefix}if: {condition}")


def _list_triggers(value: Any) -> list[str]:
    if not isinstance(value, dict):
        return [f"on {item}" for item in list_items(value)]
    found = [f"on {name}" for name in value]
    for name, body in value.items():
        if isinstance(body, dict):
            found += [
                f"on {name}.{k}: {i}"
                for k in ("branches", "paths", "types")
                for i in list_items(body.get(k))
            ]
    return found


def _list_ignored_paths(value: Any) -> list[str]:
    bodies = value.items() if isinstance(value, dict) else ()
    keys = ("paths-ignore", "branches-ignore")
    return [
        f"on {n}.{k}: {i}"
        for n, b in bodies
        if isinstance(b, dict)
        for k in keys
        for i in list_items(b.get(k))
    ]


def _read_generic_jobs(path: str, data: bytes) -> dict[str, CiJob] | None:
    read = parse_data(path, data)
    if read is None:
        return None
    job = CiJob()
    _gather(job, read, 0)
    return {"": job}


def _gather(job: CiJob, value: Any, depth: int) -> None:
    if depth > 15 or len(job.commands) > 2000:
        return
    if isinstance(value, list):
        for item in value:
            _gather(job, item, depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in _SCRIPT_KEYS and isinstance(item, (str, list)):
                job.commands += parse_commands(item)
            elif key in _LENIENT_KEYS and _lets_fail(item):
                job.lenient[str(key)] = "true"
            elif key == "deps" and isinstance(item, list):
                job.uses += [each for each in item if isinstance(each, str)]
            _gather(job, item, depth + 1)


_READERS = (
    (GITHUB, _read_github_jobs),
    (GITLAB, _read_gitlab_jobs),
    (OTHERS, _read_generic_jobs),
    (RECIPES, read_makefile_jobs),
    (SCRIPTS, read_script_jobs),
    (RAKE, read_rake_jobs),
    (ALIASES, read_alias_jobs),
    (OPTIONS, read_rspec_jobs),
    (TEXTS, read_text_jobs),
)
