"""What CI and the recipes that it calls check less after a change."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from gitlab_nightshift.flag_entry import Level
from gitlab_nightshift.lazy_patterns import compile_lazily
from gitlab_nightshift.repository.difference import ChangedFile
from gitlab_nightshift.verdict.reviewed_change import Changeset, RuleViolation
from gitlab_nightshift.verdict.rule_tables import RuleTable
from gitlab_nightshift.verdict.tooling.ci_jobs import CiJob
from gitlab_nightshift.verdict.tooling.command_lines import CommandLine
from gitlab_nightshift.verdict.tooling.directions import format_items
from gitlab_nightshift.verdict.tooling.looser_settings import Flagged
from gitlab_nightshift.verdict.tooling.pipeline_jobs import (
    CHECKING,
    GITHUB,
    GITLAB,
    OPTIONS,
    OTHERS,
    is_ci,
    read_jobs,
)
from gitlab_nightshift.verdict.tooling.tool_rules import CI, COVERAGE, SKIPPED
from gitlab_nightshift.verdict.tooling.weaker_commands import find_lost_checks

_TABLE = RuleTable(__file__)

_DOCS_ONLY = _TABLE.get_pattern("docs_only")
_WORKFLOW = compile_lazily(r"\.ya?ml$")
_UPLOADS = _TABLE.get_pattern("uploads")
_DEFAULT_BRANCH = _TABLE.get_pattern("default_branch")


@dataclass(frozen=True)
class _FileJob:
    job: CiJob
    file: ChangedFile


def find_loosened_pipelines(change: Changeset) -> Iterator[Flagged]:
    """What CI checks less; jobs are compared by name, commands over all files of the change and
    the workflows that it leaves alone."""
    old: dict[str, _FileJob] = {}
    new: dict[str, _FileJob] = {}
    for file in change.files:
        if is_ci(file.path) and not file.binary:
            usual = b"" if OPTIONS.search(file.path) else None
            before = read_jobs(file.path, usual if file.status == "A" else file.old)
            after = read_jobs(file.path, file.new)
            if before is not None and after is not None and not _is_by_hand(before):
                old |= {
                    _build_key(file.path, name): _FileJob(job, file) for name, job in before.items()
                }
                new |= {
                    _build_key(file.path, name): _FileJob(job, file) for name, job in after.items()
                }
    yield from _find_weaker_commands(old, new, _list_other_commands(change))
    checking = {
        _get_group(key)
        for side in (old, new)
        for key, each in side.items()
        if _checks(each.job, _get_name(key))
    }
    for key, before_ in old.items():
        # What starts a pipeline that checks nothing (releases, triage of issues) does not matter.
        if (after_ := new.get(key)) and _get_group(key) in checking:
            yield from _find_loosened_switches(key, before_.job, after_)
        yield from _find_lost_uses(key, before_, new)


def _is_by_hand(jobs: Mapping[str, CiJob]) -> bool:
    """A workflow that starts where somebody says so, and stops no change."""
    return "" in jobs and jobs[""].always == ["on workflow_dispatch"]


def _build_key(path: str, name: str) -> str:
    group = "gitlab" if name and GITLAB.search(path) else path
    return f"{group} {name}"


def _get_group(key: str) -> str:
    return key.partition(" ")[0]


def _get_name(key: str) -> str:
    return key.partition(" ")[2]


def _list_other_commands(change: Changeset) -> list[CommandLine]:
    """What workflows run that the change leaves alone and that each proposal starts."""
    changed = {file.path for file in change.files}
    if not any(GITHUB.search(path) or OTHERS.search(path) for path in changed):
        return []
    others = (path for path in sorted(change.paths() - changed) if GITHUB.search(path))
    jobs = (read_jobs(path, change.read(path)) or {} for path in others)
    starting = (each for each in jobs if "" in each and _starts_for_reviews(each[""].always))
    return [command for each in starting for job in each.values() for command in job.commands]


def _find_weaker_commands(
    old: Mapping[str, _FileJob], new: Mapping[str, _FileJob], others: list[CommandLine]
) -> Iterator[Flagged]:
    commands = [{k: p.job.commands for k, p in side.items()} for side in (old, new)]
    for side in commands:
        side[""] = others
    known = {item for each in old.values() for item in each.job.uses}
    called = [u for each in new.values() for u in each.job.uses if _WORKFLOW.search(u)]
    moved = any(CHECKING.search(item) and item not in known for item in called)
    for key, text in find_lost_checks(*commands):
        placed = new.get(key) or old[key]
        options = key.endswith((" pytest", " rspec"))
        other = placed.file.status == "D" and OTHERS.search(placed.file.path)
        elsewhere = moved or (other and any(command.checks for command in others))
        level: Level | None = "warn" if elsewhere and text.startswith("no longer runs") else None
        found = replace(
            _build_violation(placed, key, text), level=level, certain=_is_certain(text, placed.file)
        )
        yield _choose_flag(text, options), found


def _is_certain(text: str, file: ChangedFile) -> bool | None:
    """Whether a service still runs nobody knows here, and what is uploaded stops nothing."""
    if text.startswith("passes whatever"):
        return True
    foreign = file.status == "D" and OTHERS.search(file.path)
    return False if foreign or _UPLOADS.search(text) else None


def _choose_flag(text: str, options: bool) -> str:
    said = text.partition(":")[0]
    if not said.startswith("no longer runs") and re.search(
        r"cov|fail-under|threshold|--lines|--branches|--functions|--statements", said
    ):
        return COVERAGE
    return SKIPPED if options and "passes whatever" not in text else CI


def _build_violation(placed: _FileJob, key: str, text: str) -> RuleViolation:
    name = _get_name(key).lstrip("$")
    where = f"{name} {text}" if name else text
    marks = (*re.findall(r"`([^`]+)`", text), *re.findall(r"[\w.*/=-]{4,}", text), name)
    return RuleViolation(placed.file.path, placed.file.find_line(marks), f"{where}.")


def _find_loosened_switches(key: str, before: CiJob, placed: _FileJob) -> Iterator[Flagged]:
    """Conditions under which a job counts; of a job that checks nothing they do not matter."""
    after = placed.job
    name = _get_name(key)
    if not (name == "" or _checks(before, name) or _checks(after, name)):
        return
    came = {how: value for how, value in after.lenient.items() if how not in before.lenient}
    texts = [f"may fail: {how} {value}" for how, value in came.items() if "matrix." not in value]
    gained, unsure = _compare_conditions(before, after)
    texts += [f"runs less often: {format_items(gained)}"] if gained else []
    texts += [text for text in (_describe_narrowing(before, after, placed.file.path),) if text]
    if after.limits.get("retry", 0) > before.limits.get("retry", 0):
        texts.append(f"is tried again {after.limits['retry']:g} times")
    for text in texts:
        narrowed = text.startswith("runs less often") and (
            ".branches" in text or not text.endswith("is gone")
        )
        found = _build_violation(placed, key, text)
        yield CI, replace(found, certain=False if narrowed else None)
    lost = [
        item for item in before.always if item.startswith("matrix") and item not in after.always
    ]
    asked = [f"may fail: {how} {value}" for how, value in came.items() if "matrix." in value]
    asked += [f"runs on another condition: {item}" for item in unsure]
    if lost and not any(
        item.startswith("matrix") and item not in before.always for item in after.always
    ):
        asked.append(f"no longer runs for {format_items(lost)}")
    branches = [i for i in before.always if _is_default(i) and i not in after.always]
    if branches and any(map(_is_default, after.always)):
        asked.append(f"runs for other branches: {format_items(branches)} is gone")
    for text in asked:
        yield CI, replace(_build_violation(placed, key, text), level="warn")


def _compare_conditions(before: CiJob, after: CiJob) -> tuple[list[str], list[str]]:
    """The conditions that came; apart from them those that took the place of another one, or stand
    at a step that may have come with them, where as many others run without any."""
    gone = [item.partition("if: ") for item in before.never if item not in after.never]
    heads, said = {head for head, *_ in gone}, {text for _, mark, text in gone if mark}
    free = after.limits.get("free steps", 0) >= before.limits.get("free steps", 0)
    gained: list[str] = []
    unsure: list[str] = []
    for item in after.never:
        head, mark, text = item.partition("if: ")
        if item in before.never or _harmless(item) or (mark and text in said):
            continue
        (unsure if head in heads or (mark and head and free) else gained).append(item)
    return gained, unsure


def _is_default(trigger: str) -> bool:
    """A name that only the default branch has: which of them it is reading cannot know."""
    return bool(_DEFAULT_BRANCH.search(trigger))


def _checks(job: CiJob, name: str) -> bool:
    commands = any(command.checks for command in job.commands)
    return commands or bool(CHECKING.search(name)) or any(map(CHECKING.search, job.uses))


def _harmless(condition: str) -> bool:
    """A change of texts alone needs no tests."""
    return "ignore" in condition and bool(_DOCS_ONLY.search(condition.partition(": ")[2]))


def _describe_narrowing(before: CiJob, after: CiJob, path: str) -> str:
    """What no longer starts the job."""
    old = [item for item in before.always if not item.startswith("matrix")]
    new = [item for item in after.always if not item.startswith("matrix")]
    lost = [item for item in old if item not in new]
    gained = [item for item in new if item not in old]
    if GITHUB.search(path):
        same = [
            [each.replace("pull_request_target", "pull_request") for each in side]
            for side in (old, new)
        ]
        return _describe_lost_triggers(*same)
    if not old and gained:
        return f"runs less often: {format_items(gained)}"
    modern = any(i.startswith("only") for i in lost) and any(i.startswith("rules") for i in gained)
    if not new or (modern and len(gained) >= len(lost)):
        return ""
    merge_request = any(map(_is_review, lost)) and not any(map(_is_review, new))
    if len(lost) > len(gained) or merge_request:
        return f"runs less often: {format_items(lost)} is gone"
    return ""


def _is_review(condition: str) -> bool:
    return bool(re.search(r"merge_request", condition, re.IGNORECASE))


def _describe_lost_triggers(old: list[str], new: list[str]) -> str:
    lost = [
        i
        for i in old
        if i not in new and re.match(r"on (push|pull_request|merge_group|schedule)\b", i)
    ]
    names = {i.partition(": ")[0] for i in new if _is_default(i)}
    lost = [
        i
        for i in lost
        if not _unfiltered(i, new)
        and not (_is_default(i) and i.partition(": ")[0] in names)
        and not (i.startswith("on push.") and _starts_for_reviews(new))
    ]
    if lost:
        return f"runs less often: {format_items(lost)} is gone"
    for item in new:
        trigger, dot, _ = item.partition(".")
        filtered = dot and not any(each.startswith(f"{trigger}.") for each in old)
        still = trigger == "on push" and "on pull_request" in old and "on pull_request" in new
        if filtered and trigger in old and "types" not in item and not still:
            return f"runs less often: {item}"
    return ""


def _starts_for_reviews(triggers: list[str]) -> bool:
    """Whatever is proposed is checked, before it is pushed."""
    filters = ("on pull_request.branches", "on pull_request.paths")
    return "on pull_request" in triggers and not any(i.startswith(filters) for i in triggers)


def _unfiltered(item: str, new: list[str]) -> bool:
    """A filter that went while its trigger stays starts the job more often, not less."""
    trigger, dot, rest = item.partition(".")
    key = rest.partition(":")[0]
    if f"{trigger}.{key}: **" in new:  # matches what each other pattern does, and slashes
        return True
    return bool(dot) and trigger in new and not any(i.startswith(f"{trigger}.{key}") for i in new)


def _find_lost_uses(key: str, placed: _FileJob, new: Mapping[str, _FileJob]) -> Iterator[Flagged]:
    """Steps, includes and prerequisites that check something and are gone."""
    after = new.get(key)
    everywhere = {item for each in new.values() for item in each.job.uses}
    recipe = not (GITHUB.search(placed.file.path) or GITLAB.search(placed.file.path))
    all_commands = (command for each in new.values() for command in each.job.commands)
    commands = {each.bare for each in all_commands if each.wraps or not recipe}
    if recipe and after is None:
        return
    kept = set(after.job.uses) if recipe and after else everywhere
    came = [u for u in kept if u not in placed.job.uses and CHECKING.search(u)]
    for item in placed.job.uses:
        gone = item not in kept and CHECKING.search(item) and not came
        called = any(re.search(rf"(?<![\w-]){re.escape(item)}(?![\w-])", text) for text in commands)
        if gone and not called:
            text = f"no longer runs {item}".strip()
            found = _build_violation(after or placed, key, text)
            yield CI, replace(found, certain=_is_certain(text, (after or placed).file))
