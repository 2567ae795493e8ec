"""``nightshift check``: any change judged by the red flags, without a night, an agent or GitLab."""

import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gitlab_nightshift.errors import config_error
from gitlab_nightshift.host import git as git_verbs
from gitlab_nightshift.host.git import GitError
from gitlab_nightshift.host.paths import display
from gitlab_nightshift.host.repository import tree_of
from gitlab_nightshift.host.worktree import (
    Worktree,
    commit_of,
    common_base,
    needed,
    open_worktree,
    parent_of,
    staged_tree,
    working_tree,
)
from gitlab_nightshift.records import Check, CommandResult, Finding
from gitlab_nightshift.redaction import Redactor
from gitlab_nightshift.settings import FILE_NAME, ConfigFile, Settings, load_settings, read_secrets
from gitlab_nightshift.verdict.change import Context, read_change
from gitlab_nightshift.verdict.evidence.raised import RUN_FLAGS
from gitlab_nightshift.verdict.flags import FLAGS, judge

_BASE_OF_MERGE_REQUEST = "CI_MERGE_REQUEST_DIFF_BASE_SHA"
_MERGED = ("merged_result", "merge_train")


@dataclass(frozen=True)
class Asked:
    """What the command line says. ``commit`` is None for the working tree, ``recent`` a number of
    commits before the change whose files are to be left alone."""

    folder: Path
    env: Mapping[str, str]
    commit: str | None = None
    base: str | None = None
    staged: bool = False
    category: str = ""
    selected: tuple[str, ...] = ()
    recent: int = 0


@dataclass(frozen=True)
class Judgement:
    """What was found between ``base`` and ``commit`` (None for the working tree).

    ``top`` is the checkout and ``tree`` what was judged there; with ``ran``, ``commands`` and
    ``checks`` are what running showed.
    """

    base: str
    commit: str | None
    findings: tuple[Finding, ...]
    top: Path
    tree: str
    context: Context
    ran: bool = False
    commands: tuple[CommandResult, ...] = ()
    checks: tuple[Check, ...] = ()

    @property
    def failed(self) -> bool:
        """True where a finding fails."""
        return any(finding.level == "fail" for finding in self.findings)


def check(asked: Asked) -> Judgement:
    """Judge a change. The checkout and its repository stay as they are.

    Raises NightshiftError E_CONFIG for what cannot be compared, and for mistakes in the settings.
    """
    with tempfile.TemporaryDirectory(prefix="nightshift-check-") as folder:
        try:
            return _judged(open_worktree(asked.folder, Path(folder), asked.env), asked)
        except GitError as error:
            raise config_error(f"the change cannot be read: {error}") from None


def _judged(worktree: Worktree, asked: Asked) -> Judgement:
    new, commit = _new_side(worktree, asked)
    base = _base(worktree, asked, new, commit)
    settings = _settings(worktree, base, asked.env)
    if asked.category and asked.category not in settings.known_categories:
        known = ", ".join(settings.known_categories)
        raise config_error(f"--category: no category {asked.category!r}; known are {known}")
    context = Context(
        settings,
        asked.category,
        tuple(_selected(worktree, asked)),
        _recent(worktree, base, asked.recent),
        asked.env.get("CI_CONFIG_PATH", ""),
    )
    findings = judge(read_change(worktree.repository, base, new), context)
    found = tuple(_redacted(findings, asked.env))
    return Judgement(base, commit, found, worktree.top, new, context)


def _redacted(findings: Sequence[Finding], env: Mapping[str, str]) -> Iterator[Finding]:
    """Details quote code and commands."""
    redact = Redactor(read_secrets(env).values if findings else ())
    return (Finding(f.name, f.level, f.file, f.line, redact(f.detail)) for f in findings)


def _new_side(worktree: Worktree, asked: Asked) -> tuple[str, str | None]:
    """The tree that is judged, and the commit where it is one's."""
    if asked.commit:
        commit = needed(worktree, asked.commit)
        return tree_of(worktree.repository, commit), commit
    return (staged_tree if asked.staged else working_tree)(worktree), None


def _base(worktree: Worktree, asked: Asked, new: str, commit: str | None) -> str:
    """What the change is held against: a commit, or the empty tree for a first commit."""
    here = commit or commit_of(worktree, "HEAD")
    if asked.base:
        base = needed(worktree, asked.base)
        return common_base(worktree, base, here) if here else base
    if commit:
        return parent_of(worktree, commit)
    if here is None:
        return worktree.empty_tree
    if asked.staged:
        return here
    if asked.env.get(_BASE_OF_MERGE_REQUEST):
        return _base_of_merge_request(worktree, asked.env, here)
    return here if tree_of(worktree.repository, here) != new else parent_of(worktree, here)


def _base_of_merge_request(worktree: Worktree, env: Mapping[str, str], here: str) -> str:
    """A pipeline of merged results runs on the merge: what was merged into is its first parent."""
    if env.get("CI_MERGE_REQUEST_EVENT_TYPE") in _MERGED and commit_of(worktree, f"{here}^2"):
        return parent_of(worktree, here)
    return needed(worktree, env[_BASE_OF_MERGE_REQUEST])


def _settings(worktree: Worktree, base: str, env: Mapping[str, str]) -> Settings:
    """As the base has them: a change does not decide how it is judged."""
    text = git_verbs.read_file(worktree.repository.git, worktree.repository.folder, base, FILE_NAME)
    if text is None:
        return load_settings(env)
    try:
        return load_settings(env, ConfigFile(FILE_NAME, text.decode("utf-8")))
    except UnicodeDecodeError as error:
        raise config_error(f"{FILE_NAME}: not UTF-8: {error}") from None


def _selected(worktree: Worktree, asked: Asked) -> Iterator[str]:
    """Paths in the repository; they are given from the folder of the call, or from the top."""
    top = worktree.top.resolve()
    for given in asked.selected:
        place = Path(os.path.normpath(asked.folder.resolve() / given))
        inside = place.is_relative_to(top) and (place.exists() or not (top / given).exists())
        yield display(str(place.relative_to(top))) if inside else display(os.path.normpath(given))


def _recent(worktree: Worktree, base: str, count: int) -> frozenset[str]:
    if not count or base == worktree.empty_tree:
        return frozenset()
    repository = worktree.repository
    found = git_verbs.recent_files(repository.git, repository.folder, count, base)
    return frozenset(map(display, found))


# --- what is printed ------------------------------------------------------------------------------

_COLOURS = {"fail": "31", "warn": "33"}


def as_json(judgement: Judgement) -> str:
    """The findings for a program; ``commit`` is null for the working tree."""
    keys = ("name", "level", "file", "line", "detail")
    flags = [{key: getattr(f, key) for key in keys} for f in judgement.findings]
    whole: dict[str, Any] = {"flags": flags, "base": judgement.base, "commit": judgement.commit}
    whole["ran"] = judgement.ran
    if judgement.ran:
        whole["commands"] = [asdict(result) for result in judgement.commands]
        whole["checks"] = [asdict(check) for check in judgement.checks]
    return json.dumps(whole, indent=2)


def as_text(judgement: Judgement, colour: bool) -> str:
    """The findings for a person, by file, then why each flag matters, then the counts."""
    lines = [*_ran(judgement)]
    if not judgement.findings:
        return "\n".join([*lines, f"No red flags ({_compared(judgement)})."])
    for file in dict.fromkeys(finding.file for finding in judgement.findings):
        lines += (_row(f, colour) for f in judgement.findings if f.file == file)
        lines.append("")
    names = dict.fromkeys(finding.name for finding in judgement.findings)
    width = max(map(len, names))
    lines += (f"  {name:<{width}}  {_why(name)}" for name in names)
    return "\n".join([*lines, "", _counts(judgement)])


def _why(name: str) -> str:
    return FLAGS[name].why if name in FLAGS else RUN_FLAGS[name].why


def _ran(judgement: Judgement) -> Iterator[str]:
    for result in judgement.commands:
        again = ", at the second try" if result.flaky else ""
        how = result.error or f"exit {result.exit_status}"
        yield f"{result.command}: {how}, {result.duration_s:.1f} s{again}"
    for check in judgement.checks:
        yield f"{check.title}: {check.detail}"
    if judgement.ran:
        yield ""


def _row(finding: Finding, colour: bool) -> str:
    place = f"{finding.file}:{finding.line}" if finding.line else finding.file
    level = finding.level
    shown = f"\033[{_COLOURS[level]}m{level}\033[0m" if colour else level
    return f"{place}  {shown}  {finding.name}  {finding.detail}"


def _counts(judgement: Judgement) -> str:
    counts = {level: _count(judgement.findings, level) for level in ("fail", "warn")}
    return f"{counts['fail']} fail, {counts['warn']} warn ({_compared(judgement)})."


def _count(findings: Sequence[Finding], level: str) -> int:
    return sum(finding.level == level for finding in findings)


def _compared(judgement: Judgement) -> str:
    new = judgement.commit[:12] if judgement.commit else "the working tree"
    return f"{new} against {judgement.base[:12]}"
