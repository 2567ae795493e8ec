"""What CI and the recipes that it calls check less after a change."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gitlab_nightshift.verdict.change import ChangedFile, Found
from gitlab_nightshift.verdict.tooling.directions import shown
from gitlab_nightshift.verdict.tooling.jobs import Job
from gitlab_nightshift.verdict.tooling.loosened import Flagged
from gitlab_nightshift.verdict.tooling.pipelines import GITHUB, GITLAB, OPTIONS, is_ci, jobs_of
from gitlab_nightshift.verdict.tooling.rules import CI, COVERAGE, SKIPPED
from gitlab_nightshift.verdict.tooling.weaker import fewer_checks

_CHECKING = re.compile(
    r"lint|test|check(?!out)|codeql|scan|cov|audit|sonar|secur|quality|sast|secret|semgrep|trivy|verify|ci\b|all$"
    r"|typecheck|types|spec|fmt|format|vet|clippy|rubocop|standard|brakeman|sorbet|steep|reek|mypy|ruff"
    r"|eslint|tsc\b|phpstan|psalm|pest",
    re.IGNORECASE,
)
_DOCS_ONLY = re.compile(r"\.mdx?\b|\bdocs?\b|\.rst\b|LICENSE|\.gitignore|CHANGELOG|\.txt\b")


@dataclass(frozen=True)
class _Placed:
    job: Job
    file: ChangedFile


def loosened_pipelines(files: tuple[ChangedFile, ...]) -> Iterator[Flagged]:
    """What CI checks less; jobs are compared by name, commands over all files of the change."""
    old: dict[str, _Placed] = {}
    new: dict[str, _Placed] = {}
    for file in files:
        if is_ci(file.path) and not file.binary:
            usual = b"" if OPTIONS.search(file.path) else None
            before = jobs_of(file.path, usual if file.status == "A" else file.difference.old)
            after = jobs_of(file.path, file.difference.new)
            if before is not None and after is not None:
                old |= {_key(file.path, name): _Placed(job, file) for name, job in before.items()}
                new |= {_key(file.path, name): _Placed(job, file) for name, job in after.items()}
    yield from _commands(old, new)
    for key, before_ in old.items():
        if after_ := new.get(key):
            yield from _switches(key, before_.job, after_)
        yield from _uses(key, before_, new)


def _key(path: str, name: str) -> str:
    group = "gitlab" if name and GITLAB.search(path) else path
    return f"{group} {name}"


def _commands(old: Mapping[str, _Placed], new: Mapping[str, _Placed]) -> Iterator[Flagged]:
    commands = [{k: p.job.commands for k, p in side.items()} for side in (old, new)]
    for key, text in fewer_checks(*commands):
        placed = new.get(key) or old[key]
        options = key.endswith((" pytest", " rspec"))
        yield _flag(text, options), _found(placed, key, text)


def _flag(text: str, options: bool) -> str:
    said = text.partition(":")[0]
    if not said.startswith("no longer runs") and re.search(
        r"cov|fail-under|threshold|--lines|--branches|--functions|--statements", said
    ):
        return COVERAGE
    return SKIPPED if options and "passes whatever" not in text else CI


def _found(placed: _Placed, key: str, text: str) -> Found:
    name = key.partition(" ")[2].lstrip("$")
    where = f"{name} {text}" if name else text
    return Found(placed.file.path, _line(placed.file, text, name), f"{where}.")


def _switches(key: str, before: Job, placed: _Placed) -> Iterator[Flagged]:
    """Conditions under which a job counts; of a job that checks nothing they do not matter."""
    after = placed.job
    name = key.partition(" ")[2]
    if not (name == "" or _checks(before, name) or _checks(after, name)):
        return
    texts = [
        f"may fail: {how} {value}"
        for how, value in after.lenient.items()
        if how not in before.lenient
    ]
    gained = [item for item in after.never if item not in before.never and not _harmless(item)]
    texts += [f"runs less often: {shown(gained)}"] if gained else []
    texts += [text for text in (_narrowed(before, after, placed.file.path),) if text]
    if after.limits.get("retry", 0) > before.limits.get("retry", 0):
        texts.append(f"is tried again {after.limits['retry']:g} times")
    for text in texts:
        yield CI, _found(placed, key, text)
    lost = [
        item for item in before.always if item.startswith("matrix") and item not in after.always
    ]
    if lost and not any(
        item.startswith("matrix") and item not in before.always for item in after.always
    ):
        found = _found(placed, key, f"no longer runs for {shown(lost)}")
        yield CI, Found(found.file, found.line, found.detail, "warn")


def _checks(job: Job, name: str) -> bool:
    commands = any(command.checks for command in job.commands)
    return commands or bool(_CHECKING.search(name)) or any(map(_CHECKING.search, job.uses))


def _harmless(condition: str) -> bool:
    """A change of texts alone needs no tests."""
    return "ignore" in condition and bool(_DOCS_ONLY.search(condition.partition(": ")[2]))


def _narrowed(before: Job, after: Job, path: str) -> str:
    """What no longer starts the job."""
    old = [item for item in before.always if not item.startswith("matrix")]
    new = [item for item in after.always if not item.startswith("matrix")]
    lost = [item for item in old if item not in new]
    gained = [item for item in new if item not in old]
    if GITHUB.search(path):
        return _fewer_triggers(old, new)
    if not old and gained:
        return f"runs less often: {shown(gained)}"
    modern = any(i.startswith("only") for i in lost) and any(i.startswith("rules") for i in gained)
    if not new or (modern and len(gained) >= len(lost)):
        return ""
    merge_request = any(map(_is_review, lost)) and not any(map(_is_review, new))
    if len(lost) > len(gained) or merge_request:
        return f"runs less often: {shown(lost)} is gone"
    return ""


def _is_review(condition: str) -> bool:
    return bool(re.search(r"merge_request", condition, re.IGNORECASE))


def _fewer_triggers(old: list[str], new: list[str]) -> str:
    lost = [
        i
        for i in old
        if i not in new and re.match(r"on (push|pull_request(_target)?|merge_group|schedule)\b", i)
    ]
    lost = [i for i in lost if not _unfiltered(i, new)]
    if lost:
        return f"runs less often: {shown(lost)} is gone"
    for item in new:
        trigger, dot, _ = item.partition(".")
        filtered = dot and not any(each.startswith(f"{trigger}.") for each in old)
        still = trigger == "on push" and "on pull_request" in old and "on pull_request" in new
        if filtered and trigger in old and "types" not in item and not still:
            return f"runs less often: {item}"
    return ""


def _unfiltered(item: str, new: list[str]) -> bool:
    """A filter that went while its trigger stays starts the job more often, not less."""
    trigger, dot, rest = item.partition(".")
    key = rest.partition(":")[0]
    return bool(dot) and trigger in new and not any(i.startswith(f"{trigger}.{key}") for i in new)


def _uses(key: str, placed: _Placed, new: Mapping[str, _Placed]) -> Iterator[Flagged]:
    """Steps, includes and prerequisites that check something and are gone."""
    after = new.get(key)
    everywhere = {item for each in new.values() for item in each.job.uses}
    recipe = not (GITHUB.search(placed.file.path) or GITLAB.search(placed.file.path))
    all_commands = (command for each in new.values() for command in each.job.commands)
    commands = {each.bare for each in all_commands if each.wraps or not recipe}
    if recipe and after is None:
        return
    kept = set(after.job.uses) if recipe and after else everywhere
    came = [u for u in kept if u not in placed.job.uses and _CHECKING.search(u)]
    for item in placed.job.uses:
        gone = item not in kept and _CHECKING.search(item) and not came
        called = any(re.search(rf"(?<![\w-]){re.escape(item)}(?![\w-])", text) for text in commands)
        if gone and not called:
            yield CI, _found(after or placed, key, f"no longer runs {item}".strip())


def _line(file: ChangedFile, text: str, name: str) -> int:
    """The changed line that says it."""
    lines = file.added or file.deleted
    quoted = re.findall(r"`([^`]+)`", text)
    for side in (file.added, file.deleted):
        for mark in (*quoted, *re.findall(r"[\w.*/=-]{4,}", text)):
            for line in side:
                if mark in line.text:
                    return line.number
    named = [line.number for line in lines if name and name in line.text]
    return (named or [line.number for line in lines] or [0])[0]
