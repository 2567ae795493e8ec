"""Predicts what GitLab would run, by the rules in a project's ``.gitlab-ci.yml``: the jobs of a
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
"""Top-level keys that are not jobs, by GitLab's CI/CD YAML reference."""
Variables = Mapping[str, str | None]
"""Values by name; None for a variable that is not set. Whether a missing one is set is unknown."""
_DEEPEST = 10
"""Levels of ``extends``; GitLab follows eleven (docs.gitlab.com/ci/yaml/#extends)."""
_NEVER = ("never", "manual")
"""Values of ``when`` with which no job starts by itself."""
_ALWAYS: list[dict[str, str]] = [{}]
"""A rule without a condition, which a file without ``workflow`` rules implies."""
_UNSET_VARIABLES: Variables = {
    "CI_COMMIT_BRANCH": None,
    "CI_COMMIT_TAG": None,
    "CI_MERGE_REQUEST_ID": None,
    "CI_MERGE_REQUEST_IID": None,
    "CI_OPEN_MERGE_REQUESTS": None,
    "CI_EXTERNAL_PULL_REQUEST_IID": None,
}
"""Predefined variables that GitLab sets in some pipelines only."""


@dataclass(frozen=True)
class PipelineJobs:
    """The jobs that run in a pipeline: surely, perhaps, never. ``excluded``: the ``workflow`` rules
    prevent such a pipeline (None: unknown)."""

    sure: tuple[str, ...] = ()
    perhaps: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    excluded: bool | None = False


@dataclass(frozen=True)
class _PipelineKind:
    """A kind of pipeline: its known ``variables``, the ``refs`` by which ``only`` and ``except``
    may name it, and whether it runs jobs without rules."""

    variables: Variables
    refs: frozenset[str]
    runs_plain_jobs: bool = True


def find_scheduled_jobs(
    config: Mapping[str, Any], branch: str, night_description: str = ""
) -> PipelineJobs:
    """The jobs of a parsed ``.gitlab-ci.yml`` in a night's pipeline on this branch.
    ``night_description`` is the description of a night's schedule, "" if the variable NIGHTSHIFT
    marks nights."""
    variables = {
        **_UNSET_VARIABLES,
        "CI_PIPELINE_SOURCE": "schedule",
        "NIGHTSHIFT": "false" if night_description else "true",
        "CI_COMMIT_BRANCH": branch,
        "CI_COMMIT_REF_NAME": branch,
        "CI_DEFAULT_BRANCH": branch,
    }
    if night_description:
        variables["CI_PIPELINE_SCHEDULE_DESCRIPTION"] = night_description
    # `only` takes a pipeline's source in the plural too (lib/gitlab/ci/build/policy/refs.rb).
    refs = frozenset({"schedules", "branches", branch})
    return _find_jobs(config, _PipelineKind(variables, refs))


def find_merge_request_jobs(config: Mapping[str, Any], branch: str, default: str) -> PipelineJobs:
    """The jobs in the pipeline of a merge request from ``branch`` into the ``default`` branch.

    ``excluded`` is None if the file has no ``workflow`` rules, but an include, which may have some.
    """
    variables = {
        **_UNSET_VARIABLES,
        "CI_PIPELINE_SOURCE": "merge_request_event",
        "NIGHTSHIFT": "false",
        "CI_COMMIT_REF_NAME": branch,
        "CI_DEFAULT_BRANCH": default,
        "CI_MERGE_REQUEST_ID": "1",
        "CI_MERGE_REQUEST_IID": "1",
        "CI_OPEN_MERGE_REQUESTS": "1",
        "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": branch,
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": default,
    }
    workflow = config.get("workflow")
    # Without workflow rules, a job without rules runs for branches and tags only.
    has_rules = isinstance(workflow, Mapping) and "rules" in workflow
    kind = _PipelineKind(variables, frozenset({"merge_requests"}), runs_plain_jobs=has_rules)
    jobs = _find_jobs(config, kind)
    return replace(jobs, excluded=None) if "include" in config and not has_rules else jobs


def _find_jobs(config: Mapping[str, Any], kind: _PipelineKind) -> PipelineJobs:
    decisions = {
        name: _decide_job(_merge_extended(job, config), kind) for name, job in list_jobs(config)
    }
    workflow = config.get("workflow")
    rules = workflow.get("rules", _ALWAYS) if isinstance(workflow, Mapping) else _ALWAYS
    starts = _apply_rules(rules, kind.variables)
    return PipelineJobs(
        sure=tuple(name for name, runs in decisions.items() if runs),
        perhaps=tuple(name for name, runs in decisions.items() if runs is None),
        never=tuple(name for name, runs in decisions.items() if runs is False),
        excluded=None if starts is None else not starts,
    )


def list_jobs(config: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The jobs by name, without hidden ones and this program's own."""
    for key, value in config.items():
        name = str(key)
        is_job = name not in GLOBAL_KEYWORDS and not name.startswith((".", "nightshift"))
        if is_job and isinstance(value, Mapping):
            yield name, value


def _merge_extended(
    job: Mapping[str, Any], config: Mapping[str, Any], depth: int = 0
) -> dict[str, Any]:
    """The job with the keywords of the jobs that it extends."""
    inherited: dict[str, Any] = {}
    names = job.get("extends")
    for name in [names] if isinstance(names, str) else names or []:
        parent = config.get(name)
        if isinstance(parent, Mapping) and depth < _DEEPEST:
            inherited |= _merge_extended(parent, config, depth + 1)
    return {**inherited, **job}


def _decide_job(job: Mapping[str, Any], kind: _PipelineKind) -> bool | None:
    """True if the job starts by itself in such a pipeline; None if that is unknown."""
    if "rules" in job:
        return _apply_rules(job["rules"], kind.variables, str(job.get("when", "on_success")))
    if str(job.get("when")) in _NEVER:
        return False
    only, excepted = _list_refs(job.get("only")), _list_refs(job.get("except"))
    if excepted is None or only is None:
        return None
    if kind.refs & set(excepted):
        return False
    if not only:
        return kind.runs_plain_jobs
    matches = bool(kind.refs & set(only))
    has_patterns = any(ref.startswith(("/", "$")) or "@" in ref for ref in only)
    return None if has_patterns and not matches else matches


def _list_refs(value: object) -> list[str] | None:
    """The refs of ``only`` or ``except``; None if it has other conditions."""
    if isinstance(value, Mapping):
        return _list_refs(value.get("refs")) if set(value) <= {"refs"} else None
    if not value:
        return []
    return [str(ref) for ref in value] if isinstance(value, list) else [str(value)]


def _apply_rules(rules: object, variables: Variables, when: str = "on_success") -> bool | None:
    """True if the rules start the job: the first that matches decides. None if a rule before it may
    match, and would decide otherwise."""
    if not isinstance(rules, list):
        return None
    possible: set[bool] = set()  # the decisions of rules that may match
    # Without a push, `changes` always matches (docs.gitlab.com/ci/yaml/#ruleschanges): a schedule
    # has none. In a merge request it depends on the files.
    about_files = ("exists", "changes") if variables["CI_MERGE_REQUEST_IID"] else ("exists",)
    for rule in rules:
        if not isinstance(rule, Mapping):
            return None  # a !reference
        matches = evaluate_condition(rule["if"], variables) if "if" in rule else True
        if matches and any(keyword in rule for keyword in about_files):
            matches = None
        runs = str(rule.get("when", when)) not in _NEVER
        if matches:
            return runs if possible <= {runs} else None
        if matches is None:
            possible.add(runs)
    return None if True in possible else False


# --- schedules of nights --------------------------------------------------------------------------

_INPUT = re.compile(r"\$\[\[\s*inputs\.([\w-]+)\s*\]\]")


@dataclass(frozen=True)
class NightMarks:
    """The marks by which a ``.gitlab-ci.yml`` recognizes a night's schedule, besides the variable
    NIGHTSHIFT: the schedule's ``description``, the pipeline input ``switch_input`` that sets the
    variable ("" for none), and ``conditions`` in the project's own rules for nights."""

    description: str = ""
    switch_input: str = ""
    conditions: tuple[str, ...] = ()


def find_marks(text: str, name: str) -> NightMarks:
    """The marks in the file with this text and name. Raises ``E_CONFIG`` for invalid YAML."""
    config = parse_config(text, name)
    variables, rules_job = config.get("variables"), config.get(RULES_JOB)
    switch = variables.get(NIGHT_VARIABLE) if isinstance(variables, Mapping) else None
    value = switch.get("value") if isinstance(switch, Mapping) else switch
    match = _INPUT.fullmatch(str(value))
    rules = rules_job.get("rules") if isinstance(rules_job, Mapping) else None
    conditions = tuple(
        str(rule["if"])
        for rule in rules or ()
        if isinstance(rule, Mapping) and "if" in rule and rule.get("when") != "never"
    )
    return NightMarks(find_schedule_description(text, name), match[1] if match else "", conditions)


def is_night(schedule: Schedule, marks: NightMarks) -> bool | None:
    """True if the schedule's pipelines are nights; None if that depends on its variables, which the
    token may not read."""
    if schedule.has_night_variable or (
        marks.description and schedule.description == marks.description
    ):
        return True
    if str(schedule.inputs.get(marks.switch_input)).lower() == "true":
        return True
    variables = {
        "CI_PIPELINE_SOURCE": "schedule",
        "CI_PIPELINE_SCHEDULE_DESCRIPTION": schedule.description,
    }
    if schedule.has_night_variable is not None:
        variables[NIGHT_VARIABLE] = "false"
    if any(evaluate_condition(condition, variables) for condition in marks.conditions):
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
    """A text, a pattern, or null (None); ``known`` is False for a variable of unknown value."""

    text: str | None
    known: bool = True
    is_pattern: bool = False

    @property
    def truth(self) -> bool | None:
        """A variable alone is true if it is set and not empty."""
        return bool(self.text) if self.known else None


def evaluate_condition(condition: object, variables: Variables) -> bool | None:
    """True if the condition holds; None if that is unknown, or its form not supported."""
    try:
        reader = _ConditionReader(_split_tokens(str(condition)), variables)
        value = reader.read_or()
    except (_UnreadableError, RecursionError):
        return None
    return value if reader.ended else None


def _split_tokens(text: str) -> list[tuple[str, str]]:
    """The tokens with their kinds, as ``_TOKEN`` names them."""
    tokens: list[tuple[str, str]] = []
    position, text = 0, text.strip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or len(tokens) > MOST_TOKENS:
            raise _UnreadableError
        kind = str(match.lastgroup)
        tokens.append((kind, match[kind]))
        position = match.end()
    return tokens


class _ConditionReader:
    """A recursive descent parser that evaluates what it reads; a method for each rule."""

    def __init__(self, tokens: list[tuple[str, str]], variables: Variables) -> None:
        self._tokens, self._variables, self._position = tokens, variables, 0

    @property
    def ended(self) -> bool:
        return self._position == len(self._tokens)

    def read_or(self) -> bool | None:
        """``a || b``"""
        value = self._read_and()
        while self._take_sign("||"):
            value = _combine_or(value, self._read_and())
        return value

    def _read_and(self) -> bool | None:
        value = self._read_comparison()
        while self._take_sign("&&"):
            value = _combine_and(value, self._read_comparison())
        return value

    def _read_comparison(self) -> bool | None:
        if self._take_sign("("):
            value = self.read_or()
            if not self._take_sign(")"):
                raise _UnreadableError
            return value
        left = self._read_value()
        for sign in ("==", "!=", "=~", "!~"):
            if self._take_sign(sign):
                return _compare(left, sign, self._read_value())
        return left.truth

    def _read_value(self) -> _Value:
        if self.ended:
            raise _UnreadableError
        kind, text = self._tokens[self._position]
        self._position += 1
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
        """True if the next token is this sign, which is then read."""
        if self.ended or self._tokens[self._position] != ("sign", sign):
            return False
        self._position += 1
        return True


def _compare(left: _Value, sign: str, right: _Value) -> bool | None:
    if not (left.known and right.known):
        return None
    if sign in ("==", "!="):
        return (left.text == right.text) == (sign == "==")
    if not right.is_pattern:
        return None
    pattern, _, flags = str(right.text)[1:].rpartition("/")
    try:
        match = re.search(pattern, left.text or "", re.IGNORECASE if "i" in flags else 0)
    except re.error:
        # GitLab's patterns are RE2's (lexeme/pattern.rb), whose syntax differs a little.
        return None
    return (match is not None) == (sign == "=~")


# Kleene's three-valued logic: an unknown side (None) matters only if the other does not decide.


def _combine_or(left: bool | None, right: bool | None) -> bool | None:
    if left or right:
        return True
    return None if left is None or right is None else False


def _combine_and(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True
