"""Which jobs of a project a schedule's or a merge request's pipeline would run, beside ours."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gitlab_nightshift.onboarding.rule_conditions import Variables, evaluate_condition

GLOBAL_KEYWORDS = frozenset(
    "default include stages variables workflow image services cache before_script after_script"
    " spec types".split()
)
"""Of the keyword reference of GitLab CI: what stands at the top of the file and is no job."""
_DEEPEST = 10
_NEVER = ("never", "manual")
_ALWAYS: list[dict[str, str]] = [{}]
_NO_VARIABLES: Variables = {
    "CI_COMMIT_BRANCH": None,
    "CI_COMMIT_TAG": None,
    "CI_MERGE_REQUEST_ID": None,
    "CI_MERGE_REQUEST_IID": None,
    "CI_OPEN_MERGE_REQUESTS": None,
    "CI_EXTERNAL_PULL_REQUEST_IID": None,
}
"""Of GitLab's predefined variables those that a pipeline may not have."""


@dataclass(frozen=True)
class PipelineJobs:
    """``sure`` run in such a pipeline, ``perhaps`` depend on what is not known here, ``never`` do
    not. ``excluded``: the file's ``workflow`` lets no such pipeline begin (None: not known)."""

    sure: tuple[str, ...] = ()
    perhaps: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    excluded: bool | None = False


@dataclass(frozen=True)
class _PipelineKind:
    """What is known of a pipeline: its ``variables``, what ``only`` may call it, and whether GitLab
    gives it the jobs that name no rules."""

    variables: Variables
    refs: frozenset[str]
    takes_plain_jobs: bool = True


def find_scheduled_jobs(
    config: Mapping[str, Any], branch: str, described: str = ""
) -> PipelineJobs:
    """The jobs of a parsed ``.gitlab-ci.yml`` in a night's pipeline on this branch; ``described``
    is the schedule's description where that alone makes it a night."""
    variables = {
        **_NO_VARIABLES,
        "CI_PIPELINE_SOURCE": "schedule",
        "NIGHTSHIFT": "false" if described else "true",
        **({"CI_PIPELINE_SCHEDULE_DESCRIPTION": described} if described else {}),
        "CI_COMMIT_BRANCH": branch,
        "CI_COMMIT_REF_NAME": branch,
        "CI_DEFAULT_BRANCH": branch,
    }
    refs = frozenset({"schedules", "branches", branch})
    return _find_jobs(config, _PipelineKind(variables, refs))


def find_request_jobs(config: Mapping[str, Any], branch: str, target: str) -> PipelineJobs:
    """Those in the pipeline of a merge request of this branch into the default branch.

    An include may bring a ``workflow`` where the file has none: then it is not known.
    """
    variables = {
        **_NO_VARIABLES,
        "CI_PIPELINE_SOURCE": "merge_request_event",
        "NIGHTSHIFT": "false",
        "CI_COMMIT_REF_NAME": branch,
        "CI_DEFAULT_BRANCH": target,
        "CI_MERGE_REQUEST_ID": "1",
        "CI_MERGE_REQUEST_IID": "1",
        "CI_OPEN_MERGE_REQUESTS": "1",
        "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": branch,
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": target,
    }
    workflow = config.get("workflow")
    # Without such rules GitLab takes a job that names none for one of branches and tags.
    ruled = isinstance(workflow, Mapping) and "rules" in workflow
    found = _find_jobs(config, _PipelineKind(variables, frozenset({"merge_requests"}), ruled))
    return replace(found, excluded=None) if "include" in config and not ruled else found


def _find_jobs(config: Mapping[str, Any], kind: _PipelineKind) -> PipelineJobs:
    found = {
        name: _decide_run(_merge_extended(body, config), kind) for name, body in list_jobs(config)
    }
    workflow = config.get("workflow")
    rules = workflow.get("rules", _ALWAYS) if isinstance(workflow, Mapping) else _ALWAYS
    begins = _apply_rules(rules, kind.variables)
    return PipelineJobs(
        tuple(name for name, runs in found.items() if runs),
        tuple(name for name, runs in found.items() if runs is None),
        tuple(name for name, runs in found.items() if runs is False),
        None if begins is None else not begins,
    )


def list_jobs(config: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The jobs by name, without hidden ones and this program's own."""
    for name, body in config.items():
        known = str(name) in GLOBAL_KEYWORDS or str(name).startswith((".", "nightshift"))
        if isinstance(body, Mapping) and not known:
            yield str(name), body


def _merge_extended(
    body: Mapping[str, Any], config: Mapping[str, Any], depth: int = 0
) -> dict[str, Any]:
    """A job with what it extends."""
    above: dict[str, Any] = {}
    names = body.get("extends")
    for name in [names] if isinstance(names, str) else names or []:
        parent = config.get(name)
        if isinstance(parent, Mapping) and depth < _DEEPEST:
            above |= _merge_extended(parent, config, depth + 1)
    return {**above, **body}


def _decide_run(job: Mapping[str, Any], kind: _PipelineKind) -> bool | None:
    if "rules" in job:
        return _apply_rules(job["rules"], kind.variables, str(job.get("when", "on_success")))
    if str(job.get("when")) in _NEVER:
        return False
    only, without = _list_refs(job.get("only")), _list_refs(job.get("except"))
    if without is None or only is None:
        return None
    if kind.refs & set(without):
        return False
    if not only:
        return kind.takes_plain_jobs
    return bool(kind.refs & set(only)) or (None if _contain_patterns(only) else False)


def _list_refs(value: object) -> list[str] | None:
    """The refs of ``only`` or ``except``; None where it asks for more than refs."""
    if isinstance(value, Mapping):
        return _list_refs(value.get("refs")) if set(value) <= {"refs"} else None
    listed = value if isinstance(value, list) else [value] if value else []
    return [str(each) for each in listed]


def _contain_patterns(refs: list[str]) -> bool:
    return any(each.startswith(("/", "$")) or "@" in each for each in refs)


def _apply_rules(rules: object, known: Variables, when: str = "on_success") -> bool | None:
    """What the first rule that holds says; None where an earlier one may hold or not."""
    unsure: set[bool] = set()
    # `changes` always holds, but in a merge request
    unseen = ("exists", "changes") if known["CI_MERGE_REQUEST_IID"] else ("exists",)
    for rule in rules if isinstance(rules, list) else [None]:
        if not isinstance(rule, Mapping):
            return None  # a !reference
        holds = evaluate_condition(rule["if"], known) if "if" in rule else True
        if holds and any(each in rule for each in unseen):
            holds = None
        runs = str(rule.get("when", when)) not in _NEVER
        if holds:
            return runs if unsure <= {runs} else None
        if holds is None:
            unsure.add(runs)
    return None if True in unsure else False
