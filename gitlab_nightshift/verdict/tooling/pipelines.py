"""CI files and recipes as jobs: what each runs, and what decides whether it counts."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gitlab_nightshift.verdict.tooling.commands import commands_of
from gitlab_nightshift.verdict.tooling.facts import items_of
from gitlab_nightshift.verdict.tooling.jobs import Job, mapping
from gitlab_nightshift.verdict.tooling.parse import parsed
from gitlab_nightshift.verdict.tooling.rake import rake
from gitlab_nightshift.verdict.tooling.recipes import aliases, options, recipes, scripts, texts

GITLAB = re.compile(
    r"(^|/)\.gitlab-ci\.ya?ml$|(^|/)\.gitlab/ci/.*\.ya?ml$|\.gitlab-ci\.ya?ml$|(^|/)ci/.*\.ya?ml$"
)
GITHUB = re.compile(r"(^|/)\.github/(workflows|actions)/.*\.ya?ml$")
OTHERS = re.compile(
    r"(^|/)(\.circleci/config\.ya?ml|\.travis\.ya?ml|azure-pipelines[\w.-]*\.ya?ml"
    r"|bitbucket-pipelines\.ya?ml"
    r"|\.drone\.ya?ml|\.woodpecker(/.*)?\.ya?ml|appveyor\.ya?ml|\.buildkite/.*\.ya?ml"
    r"|cloudbuild\.ya?ml"
    r"|Taskfile\.ya?ml|\.cirrus\.ya?ml)$"
)
RECIPES = re.compile(r"(^|/)(GNUm|m|M)akefile$|\.mk$|(^|/)[Jj]ustfile$")
SCRIPTS = re.compile(
    r"(^|/)(package|composer)\.json$|(^|/)(tox|\.?pytest)\.ini$|(^|/)setup\.cfg$|(^|/)pyproject\.toml$"
)
TEXTS = re.compile(
    r"(^|/)(Jenkinsfile|noxfile\.py|tasks\.py|\.husky/[\w-]+|Earthfile)$"
    r"|(^|/)(scripts?|ci|bin|tools|\.ci|build|hack)/[\w./-]*\.(sh|bash)$|(^|/)(ci|test|tests|lint"
    r"|check|build)\.sh$"
)
RAKE = re.compile(r"(^|/)[Rr]akefile$|\.rake$")
ALIASES = re.compile(r"(^|/)\.cargo/config\.toml$|\.sbt$")
OPTIONS = re.compile(r"(^|/)(\.rspec(-local)?|\.?pytest\.ini)$")
"""Files with nothing but options of a test runner: without one they are the usual ones."""
_RESERVED = frozenset(
    "default include stages variables workflow image services before_script after_script cache"
    " spec".split()
)
_SCRIPT_KEYS = frozenset(
    "script run bash sh pwsh command commands cmds cmd test_script build_script".split()
)
_LENIENT_KEYS = frozenset(
    "allow_failure continue-on-error continueOnError ignore_error failure".split()
)


def jobs_of(path: str, data: bytes | None) -> dict[str, Job] | None:
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


def _gitlab(path: str, data: bytes) -> dict[str, Job] | None:
    read = parsed(path, data)
    if not isinstance(read, dict):
        return None
    shared = mapping(read.get("default"))
    before = read.get("before_script", shared.get("before_script", []))
    jobs = {
        str(name): _gitlab_job(body, read)
        for name, body in read.items()
        if name not in _RESERVED and isinstance(body, dict)
    }
    jobs[""] = Job(
        commands_of(before), uses=[f"include {item}" for item in items_of(read.get("include"))]
    )
    if _lets_fail(shared.get("allow_failure")):
        jobs[""].lenient["default.allow_failure"] = "true"
    workflow = read.get("workflow")
    jobs[""].never += _never(workflow.get("rules") if isinstance(workflow, dict) else [])
    return jobs


def _gitlab_job(body: Mapping[str, Any], whole: Mapping[str, Any]) -> Job:
    merged = {**_extended(body, whole, 0), **body}
    job = Job(commands_of([merged.get("before_script", []), merged.get("script", [])]))
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
        *_never(merged.get("rules")),
        *(f"except {i}" for i in _refs(merged.get("except"))),
    ]
    job.always = [
        *_always(merged.get("rules")),
        *(f"only {item}" for item in _refs(merged.get("only"))),
    ]
    retry = merged.get("retry")
    job.limits["retry"] = _count(retry.get("max") if isinstance(retry, dict) else retry)
    return job


def _extended(body: Mapping[str, Any], whole: Mapping[str, Any], depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in items_of(body.get("extends")) if depth < 8 else ():
        parent = whole.get(name)
        if isinstance(parent, dict):
            found |= {**_extended(parent, whole, depth + 1), **parent}
    return found


def _lets_fail(value: Any) -> bool:
    return value is True or isinstance(value, dict) or str(value).lower() == "true"


def _rules(value: Any) -> Iterator[dict[str, Any]]:
    for rule in value if isinstance(value, list) else ():
        if isinstance(rule, dict):
            yield rule
        elif isinstance(rule, list):
            yield from _rules(rule)


def _never(rules: Any) -> list[str]:
    return [
        f"rules: {r.get('if', r.get('changes', ''))}: never"
        for r in _rules(rules)
        if r.get("when") == "never"
    ]


def _always(rules: Any) -> list[str]:
    kept = (r for r in _rules(rules) if r.get("when") != "never")
    return [f"rules: {r.get('if', '')} {items_of(r.get('changes')) or ''}".strip() for r in kept]


def _refs(value: Any) -> tuple[str, ...]:
    if isinstance(value, dict):
        return tuple(f"{k} {i}" for k in value for i in items_of(value[k]))
    return items_of(value)


def _count(value: Any) -> float:
    return float(value) if isinstance(value, int) else 0.0


# --- GitHub and others ----------------------------------------------------------------------------


def _github(path: str, data: bytes) -> dict[str, Job] | None:
    read = parsed(path, data)
    if not isinstance(read, dict):
        return None
    top = Job(always=_triggers(read.get("on")), never=_ignored_paths(read.get("on")))
    jobs = {"": top}
    bodies = mapping(read.get("jobs")) or {"runs": read.get("runs")}
    for name, body in bodies.items():
        if isinstance(body, dict):
            jobs[str(name)] = _github_job(body)
    return jobs


def _github_job(body: Mapping[str, Any]) -> Job:
    job = Job()
    _conditions(job, body, "")
    strategy = body.get("strategy")
    matrix = strategy.get("matrix") if isinstance(strategy, dict) else None
    if isinstance(matrix, dict):
        job.always += [
            f"matrix {k}: {i}" for k, v in matrix.items() if k != "exclude" for i in items_of(v)
        ]
    if body.get("uses"):
        job.uses.append(str(body["uses"]).partition("@")[0])
    for step in body.get("steps") or []:
        if isinstance(step, dict):
            name = str(step.get("name") or step.get("uses") or step.get("run", ""))[:60]
            _conditions(job, step, f"{name}: ")
            job.commands += commands_of(step.get("run", ""))
            job.uses += [str(step["uses"]).partition("@")[0]] if step.get("uses") else []
    return job


def _conditions(job: Job, body: Mapping[str, Any], prefix: str) -> None:
    if str(body.get("continue-on-error", "")).lower() not in ("", "false"):
        job.lenient[f"{prefix}continue-on-error"] = str(body["continue-on-error"])
    condition = str(body.get("if", "")).strip()
    if re.fullmatch(r"(\$\{\{\s*)?false(\s*\}\})?", condition, re.IGNORECASE):
        job.lenient[f"{prefix}if"] = "false"
    elif condition and not re.search(
        r"always\(\)|failure\(\)|success\(\)|cancelled\(\)", condition
    ):
        job.never.append(f"{prefix}if: {condition}")


def _triggers(value: Any) -> list[str]:
    if not isinstance(value, dict):
        return [f"on {item}" for item in items_of(value)]
    found = [f"on {name}" for name in value]
    for name, body in value.items():
        if isinstance(body, dict):
            found += [
                f"on {name}.{k}: {i}"
                for k in ("branches", "paths", "types")
                for i in items_of(body.get(k))
            ]
    return found


def _ignored_paths(value: Any) -> list[str]:
    bodies = value.items() if isinstance(value, dict) else ()
    keys = ("paths-ignore", "branches-ignore")
    return [
        f"on {n}.{k}: {i}"
        for n, b in bodies
        if isinstance(b, dict)
        for k in keys
        for i in items_of(b.get(k))
    ]


def _generic(path: str, data: bytes) -> dict[str, Job] | None:
    read = parsed(path, data)
    if read is None:
        return None
    job = Job()
    _gather(job, read, 0)
    return {"": job}


def _gather(job: Job, value: Any, depth: int) -> None:
    if depth > 15 or len(job.commands) > 2000:
        return
    if isinstance(value, list):
        for item in value:
            _gather(job, item, depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in _SCRIPT_KEYS and isinstance(item, (str, list)):
                job.commands += commands_of(item)
            elif key in _LENIENT_KEYS and _lets_fail(item):
                job.lenient[str(key)] = "true"
            elif key == "deps" and isinstance(item, list):
                job.uses += [each for each in item if isinstance(each, str)]
            _gather(job, item, depth + 1)


_READERS = (
    (GITHUB, _github),
    (GITLAB, _gitlab),
    (OTHERS, _generic),
    (RECIPES, recipes),
    (SCRIPTS, scripts),
    (RAKE, rake),
    (ALIASES, aliases),
    (OPTIONS, options),
    (TEXTS, texts),
)
