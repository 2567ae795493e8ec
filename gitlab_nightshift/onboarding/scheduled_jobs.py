"""Which jobs of a project a schedule's pipeline would run, beside the night's own."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True)
class ScheduledJobs:
    """``sure`` run in a schedule's pipeline, ``perhaps`` depend on what is not known here.
    ``excluded``: the file's ``workflow`` lets no such pipeline begin (None: not known)."""

    sure: tuple[str, ...] = ()
    perhaps: tuple[str, ...] = ()
    excluded: bool | None = False


def find_scheduled_jobs(config: Mapping[str, Any], branch: str) -> ScheduledJobs:
    """The jobs of a parsed ``.gitlab-ci.yml`` in a night's pipeline on this branch."""
    known = _list_variables(branch)
    found = {
        name: _decide_run(_merge_extended(body, config), known) for name, body in list_jobs(config)
    }
    workflow = config.get("workflow")
    rules = workflow.get("rules", _ALWAYS) if isinstance(workflow, Mapping) else _ALWAYS
    begins = _apply_rules(rules, known)
    return ScheduledJobs(
        tuple(name for name, runs in found.items() if runs),
        tuple(name for name, runs in found.items() if runs is None),
        None if begins is None else not begins,
    )


def list_jobs(config: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The jobs by name, without hidden ones and this program's own."""
    for name, body in config.items():
        known = str(name) in GLOBAL_KEYWORDS or str(name).startswith((".", "nightshift"))
        if isinstance(body, Mapping) and not known:
            yield str(name), body


def _list_variables(branch: str) -> Variables:
    """A night's pipeline, by GitLab's predefined variables; what it has not is None."""
    return {
        "CI_PIPELINE_SOURCE": "schedule",
        "NIGHTSHIFT": "true",
        "CI_COMMIT_BRANCH": branch,
        "CI_COMMIT_REF_NAME": branch,
        "CI_DEFAULT_BRANCH": branch,
        "CI_COMMIT_TAG": None,
        "CI_MERGE_REQUEST_ID": None,
        "CI_MERGE_REQUEST_IID": None,
        "CI_OPEN_MERGE_REQUESTS": None,
        "CI_EXTERNAL_PULL_REQUEST_IID": None,
    }


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


def _decide_run(job: Mapping[str, Any], known: Variables) -> bool | None:
    if "rules" in job:
        return _apply_rules(job["rules"], known, str(job.get("when", "on_success")))
    if str(job.get("when")) in _NEVER:
        return False
    only, without = _list_refs(job.get("only")), _list_refs(job.get("except"))
    if without is None or only is None:
        return None
    branch = str(known["CI_COMMIT_BRANCH"])
    here = {"schedules", "branches", branch}
    if here & set(without):
        return False
    return not only or bool(here & set(only)) or (None if _contain_patterns(only) else False)


def _list_refs(value: object) -> list[str] | None:
    """The refs of ``only`` or ``except``; None where it asks for more than refs."""
    if isinstance(value, Mapping):
        return _list_refs(value.get("refs")) if set(value) <= {"refs"} else None
    return [str(each) for each in ([value] if isinstance(value, str) else value or [])]  # type: ignore[attr-defined]


def _contain_patterns(refs: list[str]) -> bool:
    return any(each.startswith(("/", "$")) or "@" in each for each in refs)


def _apply_rules(rules: object, known: Variables, when: str = "on_success") -> bool | None:
    """What the first rule that holds says; None where an earlier one may hold or not."""
    unsure: set[bool] = set()
    for rule in rules if isinstance(rules, list) else [None]:
        if not isinstance(rule, Mapping):
            return None  # a !reference
        holds = evaluate_condition(rule["if"], known) if "if" in rule else True
        if "exists" in rule and holds:
            holds = None
        runs = str(rule.get("when", when)) not in _NEVER
        if holds:
            return runs if unsure <= {runs} else None
        if holds is None:
            unsure.add(runs)
    return None if True in unsure else False
