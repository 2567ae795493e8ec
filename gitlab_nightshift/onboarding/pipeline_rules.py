"""Predicts by the rules in a project's ``.gitlab-ci.yml`` what GitLab would run: the jobs of a
scheduled or a merge request pipeline, and which schedules start nights.

Many answers have three values: True, False, and None if they depend on something unknown here.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gitlab_nightshift.gitlab.project_settings import NIGHT_VARIABLE, Schedule
from gitlab_nightshift.onboarding.project_files import (
    RULES_JOB,
    find_schedule_description,
    parse_config,
)

GLOBAL_KEYWORDS = frozenset(
    "default include stages variables workflow image services cache before_script after_script"
    " spec types".split()
)
"""Top-level keys that are no jobs, by GitLab's CI/CD YAML reference."""
Variables = Mapping[str, str | None]
"""Values by name; None for a variable that is certainly not set. A missing one is unknown."""
_DEEPEST = 10
"""Levels of ``extends``; GitLab follows eleven (docs.gitlab.com/ci/yaml/#extends)."""
_NEVER = ("never", "manual")
"""Values of ``when`` with which no job starts by itself."""
_ALWAYS: list[dict[str, str]] = [{}]
"""The rules of a file without ``workflow``: one without a condition."""
_NO_VARIABLES: Variables = {
    "CI_COMMIT_BRANCH": None,
    "CI_COMMIT_TAG": None,
    "CI_MERGE_REQUEST_ID": None,
    "CI_MERGE_REQUEST_IID": None,
    "CI_OPEN_MERGE_REQUESTS": None,
    "CI_EXTERNAL_PULL_REQUEST_IID": None,
}
"""GitLab's predefined variables that some pipelines lack."""


@dataclass(frozen=True)
class PipelineJobs:
    """Jobs that would run in a pipeline (``sure``), might (``perhaps``), or would ``never``.
    ``excluded``: the ``workflow`` rules prevent such a pipeline (None: unknown)."""

    sure: tuple[str, ...] = ()
    perhaps: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    excluded: bool | None = False


@dataclass(frozen=True)
class _PipelineKind:
    """A kind of pipeline: its known ``variables``, the ``refs`` by which ``only`` may name it, and
    whether it gets jobs without rules."""

    variables: Variables
    refs: frozenset[str]
    takes_plain_jobs: bool = True


def find_scheduled_jobs(
    config: Mapping[str, Any], branch: str, night_description: str = ""
) -> PipelineJobs:
    """The jobs of a parsed ``.gitlab-ci.yml`` in a night's pipeline on this branch;
    ``night_description`` is the schedule's description if that alone makes it a night."""
    variables = {
        **_NO_VARIABLES,
        "CI_PIPELINE_SOURCE": "schedule",
        "NIGHTSHIFT": "false" if night_description else "true",
        **({"CI_PIPELINE_SCHEDULE_DESCRIPTION": night_description} if night_description else {}),
        "CI_COMMIT_BRANCH": branch,
        "CI_COMMIT_REF_NAME": branch,
        "CI_DEFAULT_BRANCH": branch,
    }
    # `only` takes a pipeline's source in the plural too (lib/gitlab/ci/build/policy/refs.rb).
    refs = frozenset({"schedules", "branches", branch})
    return _find_jobs(config, _PipelineKind(variables, refs))


def find_request_jobs(config: Mapping[str, Any], branch: str, target: str) -> PipelineJobs:
    """The jobs in the pipeline of a merge request from this branch into the default branch.

    ``excluded`` is unknown if the file has no ``workflow`` rules but includes others, which may.
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
    # Without workflow rules, a job without rules runs for branches and tags only.
    ruled = isinstance(workflow, Mapping) and "rules" in workflow
    predicted = _find_jobs(config, _PipelineKind(variables, frozenset({"merge_requests"}), ruled))
    return replace(predicted, excluded=None) if "include" in config and not ruled else predicted


def _find_jobs(config: Mapping[str, Any], kind: _PipelineKind) -> PipelineJobs:
    found = {
        name: _decide_run(_merge_extended(body, config), kind) for name, body in list_jobs(config)
    }
    workflow = config.get("workflow")
    rules = workflow.get("rules", _ALWAYS) if isinstance(workflow, Mapping) else _ALWAYS
    starts = _apply_rules(rules, kind.variables)
    return PipelineJobs(
        tuple(name for name, runs in found.items() if runs),
        tuple(name for name, runs in found.items() if runs is None),
        tuple(name for name, runs in found.items() if runs is False),
        None if starts is None else not starts,
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
    """The refs of ``only`` or ``except``; None if it has other conditions."""
    if isinstance(value, Mapping):
        return _list_refs(value.get("refs")) if set(value) <= {"refs"} else None
    listed = value if isinstance(value, list) else [value] if value else []
    return [str(each) for each in listed]


def _contain_patterns(refs: list[str]) -> bool:
    return any(each.startswith(("/", "$")) or "@" in each for each in refs)


def _apply_rules(rules: object, variables: Variables, when: str = "on_success") -> bool | None:
    """True if the rules start the job: the first that matches decides. None if a rule before it, of
    which it is unknown whether it matches, would decide otherwise."""
    # What rules decide of which it is unknown whether they match.
    unsure: set[bool] = set()
    # Without a push, `changes` always matches (docs.gitlab.com/ci/yaml/#ruleschanges): a schedule
    # has none. In a merge request it depends on the files.
    unseen = ("exists", "changes") if variables["CI_MERGE_REQUEST_IID"] else ("exists",)
    for rule in rules if isinstance(rules, list) else [None]:
        if not isinstance(rule, Mapping):
            return None  # a !reference
        holds = evaluate_condition(rule["if"], variables) if "if" in rule else True
        if holds and any(each in rule for each in unseen):
            holds = None
        runs = str(rule.get("when", when)) not in _NEVER
        if holds:
            return runs if unsure <= {runs} else None
        if holds is None:
            unsure.add(runs)
    return None if True in unsure else False


# --- schedules of nights --------------------------------------------------------------------------

_INPUT = re.compile(r"\$\[\[\s*inputs\.([\w-]+)\s*\]\]")


@dataclass(frozen=True)
class NightMarks:
    """The marks by which a ``.gitlab-ci.yml`` recognizes a night's schedule, besides the variable
    NIGHTSHIFT: a ``description``, a ``switch_input`` that sets the variable ("" for none of these),
    or the ``conditions`` of the project's own rules."""

    description: str = ""
    switch_input: str = ""
    conditions: tuple[str, ...] = ()


def find_marks(text: str, name: str) -> NightMarks:
    """The marks in the file with this text and name. Raises ``E_CONFIG`` for invalid YAML."""
    config = parse_config(text, name)
    variables, own = (config.get(each) for each in ("variables", RULES_JOB))
    switch = variables.get(NIGHT_VARIABLE) if isinstance(variables, Mapping) else None
    value = switch.get("value") if isinstance(switch, Mapping) else switch
    found = _INPUT.fullmatch(str(value))
    rules = own.get("rules") if isinstance(own, Mapping) else None
    starting = (rule for rule in rules or () if isinstance(rule, Mapping) and "if" in rule)
    conditions = tuple(str(rule["if"]) for rule in starting if rule.get("when") != "never")
    return NightMarks(find_schedule_description(text, name), found[1] if found else "", conditions)


def is_night(schedule: Schedule, marks: NightMarks) -> bool | None:
    """True if the schedule's pipelines are nights; None if only its variables could tell, and the
    token does not see them."""
    if schedule.has_night_variable or (
        marks.description and schedule.description == marks.description
    ):
        return True
    if str(schedule.inputs.get(marks.switch_input)).lower() == "true":
        return True
    known = {
        "CI_PIPELINE_SOURCE": "schedule",
        "CI_PIPELINE_SCHEDULE_DESCRIPTION": schedule.description,
        **({} if schedule.has_night_variable is None else {NIGHT_VARIABLE: "false"}),
    }
    if any(evaluate_condition(each, known) for each in marks.conditions):
        return True
    return schedule.has_night_variable


# --- conditions of rules:if -----------------------------------------------------------------------

# GitLab's language (lib/gitlab/ci/pipeline/expression): comparisons, && before ||, parentheses.
_TOKEN = re.compile(
    r"""\s*(?:
    (?P<variable>\$\w+|\$\{\w+\})               # $CI_PIPELINE_SOURCE
  | (?P<text>"[^"]*"|'[^']*')                   # "schedule"
  | (?P<pattern>/(?:\\.|[^/\\])+/[ismU]*)       # /^v\d/i
  | (?P<null>null\b)                            # null
  | (?P<sign>==|!=|=~|!~|&&|\|\||\(|\))         # =~
    )""",
    re.VERBOSE,
)
MOST_TOKENS = 500


class _UnreadableError(Exception):
    """The condition has a form that is not supported here."""


@dataclass(frozen=True)
class _Value:
    """A value: ``known`` is False for an unknown variable."""

    text: str | None
    known: bool = True
    is_pattern: bool = False

    @property
    def truth(self) -> bool | None:
        """A variable alone is true if it is set and not empty."""
        return bool(self.text) if self.known else None


def evaluate_condition(condition: object, variables: Variables) -> bool | None:
    """True if the condition holds; None if that is unknown, or the condition unreadable."""
    try:
        reader = _ConditionReader(_split_tokens(str(condition)), variables)
        found = reader.read_any()
    except (_UnreadableError, RecursionError):
        return None
    return found if reader.ended else None


def _split_tokens(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    at, text = 0, text.strip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or len(tokens) > MOST_TOKENS:
            raise _UnreadableError
        tokens.append((str(found.lastgroup), found[str(found.lastgroup)]))
        at = found.end()
    return tokens


class _ConditionReader:
    """A recursive descent parser that evaluates: each method reads the part it is named after."""

    def __init__(self, tokens: list[tuple[str, str]], variables: Variables) -> None:
        self._tokens, self._variables, self._at = tokens, variables, 0

    @property
    def ended(self) -> bool:
        return self._at == len(self._tokens)

    def read_any(self) -> bool | None:
        """``a || b``"""
        found = self._read_all()
        while self._take_sign("||"):
            found = _combine_or(found, self._read_all())
        return found

    def _read_all(self) -> bool | None:
        found = self._read_comparison()
        while self._take_sign("&&"):
            found = _combine_and(found, self._read_comparison())
        return found

    def _read_comparison(self) -> bool | None:
        if self._take_sign("("):
            found = self.read_any()
            if not self._take_sign(")"):
                raise _UnreadableError
            return found
        left = self._read_value()
        for sign in ("==", "!=", "=~", "!~"):
            if self._take_sign(sign):
                return _compare(left, sign, self._read_value())
        return left.truth

    def _read_value(self) -> _Value:
        if self.ended:
            raise _UnreadableError
        kind, text = self._tokens[self._at]
        self._at += 1
        if kind == "variable":
            name = text.strip("${}")
            return _Value(self._variables.get(name), name in self._variables)
        if kind == "text":
            return _Value(text[1:-1])
        if kind == "null":
            return _Value(None)
        if kind == "pattern":
            return _Value(text, is_pattern=True)
        raise _UnreadableError

    def _take_sign(self, sign: str) -> bool:
        matches = not self.ended and self._tokens[self._at] == ("sign", sign)
        self._at += matches
        return matches


def _compare(left: _Value, sign: str, right: _Value) -> bool | None:
    if not (left.known and right.known):
        return None
    if sign in ("==", "!="):
        return (left.text == right.text) == (sign == "==")
    if not right.is_pattern:
        return None
    body, _, flags = str(right.text)[1:].rpartition("/")
    try:
        found = re.search(body, left.text or "", re.IGNORECASE if "i" in flags else 0)
    except re.error:
        # GitLab's patterns are RE2's (lexeme/pattern.rb), whose syntax differs a little.
        return None
    return (found is not None) == (sign == "=~")


# Kleene's three-valued logic: the result is unknown (None) only if the other side does not decide.


def _combine_or(left: bool | None, right: bool | None) -> bool | None:
    return True if left or right else None if left is None or right is None else False


def _combine_and(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True
