"""Settings as the tools themselves resolve them, before and after a change."""

import dataclasses
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import PurePosixPath

from gitlab_nightshift.records.verdicts import Check, CheckOutcome, Finding
from gitlab_nightshift.system.process import NOT_FOUND
from gitlab_nightshift.verdict.evidence.evidence_flags import raise_flag
from gitlab_nightshift.verdict.evidence.lab import Evidence, EvidenceSubject, Lab
from gitlab_nightshift.verdict.tooling.resolved_settings import (
    Question,
    Tool,
    compare_answers,
    find_deciding_tool,
    format_comparison,
    list_touched_tools,
    plan_questions,
)
from gitlab_nightshift.verdict.tooling.tool_answers import Answer, merge_answers, parse_answer

TITLE = "Settings as tools resolve them"
LONGEST_S = 30.0
_OWN_FOLDERS = (".venv/bin", "venv/bin", "node_modules/.bin", "vendor/bin")


def ask_tools(subject: EvidenceSubject, lab: Lab) -> Evidence:
    """Ask each tool whose settings the change may alter. What was read of settings gives way to an
    answer (``settle_findings``); without one it stands."""
    found = Evidence()
    tools = list(list_touched_tools(subject.change))
    if tools:
        lab.runner.renew()  # tests of the change may have left a tool's settings or cache there
    for tool in tools:
        found += _ask_tool(subject, lab, tool)
    return found


def settle_findings(
    findings: Iterable[Finding], answered: tuple[tuple[str, str], ...]
) -> tuple[Finding, ...]:
    """What was read, without that which a tool's answer decides. ``answered`` is the evidence's."""
    return tuple(_settle(findings, dict(answered)))


def is_decided_by_tool(finding: Finding) -> bool:
    """True for what was read of settings that a tool can be asked for."""
    return find_deciding_tool(finding) is not None


def _settle(findings: Iterable[Finding], answered: dict[str, str]) -> Iterator[Finding]:
    for finding in findings:
        tool = find_deciding_tool(finding)
        why = answered.get(tool.name, "it was not asked") if tool else ""
        if tool and why:
            detail = f"{finding.detail} (Read, not resolved by {tool.name}: {why}.)"
            yield dataclasses.replace(finding, detail=detail)
        elif not tool:
            yield finding


# --- one tool -------------------------------------------------------------------------------------


def _ask_tool(subject: EvidenceSubject, lab: Lab, tool: Tool) -> Evidence:
    gone = [file.old_path for file in subject.change.files if file.status in "DR"]
    questions = plan_questions(tool, list(subject.change.paths()), gone)
    if questions is None:
        return _tell_unknown(subject, tool, "too many files")
    old = _build_old_settings(subject, lab, tool)
    before = _ask_side(subject, lab, f"{tool.name}-before", questions, old)
    if isinstance(before, str):
        return _tell_unknown(subject, tool, before)
    after = _ask_side(subject, lab, f"{tool.name}-after", questions, subject.tree)
    if isinstance(after, str):
        return _tell_unknown(subject, tool, after)
    return _judge_answers(subject, tool, before, after)


def _judge_answers(subject: EvidenceSubject, tool: Tool, before: Answer, after: Answer) -> Evidence:
    seen = compare_answers(tool, before, after)
    if seen.looser:
        text, file = format_comparison(tool, seen), _find_file(subject, tool, seen.looser[0])
        checks = (Check(TITLE, CheckOutcome.FAILED, text.rstrip(".")),)
        found = raise_flag(tool.flag, subject.context, file, 0, text)
        return Evidence(checks, found, ((tool.name, ""),))
    if not any(settings.keys() - {"checked"} for settings in after.values()):
        return _tell_unknown(subject, tool, "it checks nothing here")
    if why := _find_doubt(subject, tool, unclear=seen.unclear):
        return _tell_unknown(subject, tool, why)
    text = f"{tool.name} demands no less than before"
    told = (Check(TITLE, CheckOutcome.UNDECIDED, text),) if _names_tool(subject, tool) else ()
    return Evidence(told, (), ((tool.name, ""),))


def _find_doubt(subject: EvidenceSubject, tool: Tool, *, unclear: bool) -> str:
    """Why an answer that is not looser is no proof."""
    files = subject.change.files
    if unclear:
        return "its answers differ in what has no known direction"
    if tool.is_led_by(path for file in files for path in (file.path, file.old_path)):
        return "the change holds code that could answer in its place"
    if tool.asks_by_file and any(f.status != "M" and tool.is_set_by(f.old_path) for f in files):
        return "a file of its settings is gone or new"
    return ""


def _build_old_settings(subject: EvidenceSubject, lab: Lab, tool: Tool) -> str:
    """The tree before with the files that the tool checks after: what differs are the settings."""
    moved: dict[str, bytes | None] = {}
    for file in subject.change.files:
        if file.status in "DR" and tool.is_source(file.old_path):
            moved[file.raw_old_path] = None
    for file in subject.change.files:
        if file.status not in "DM" and tool.is_source(file.path):
            moved[file.raw_path] = file.new
    return lab.build_variant(subject.base, moved) if moved else subject.base


def _ask_side(
    subject: EvidenceSubject, lab: Lab, log: str, questions: tuple[Question, ...], tree: str
) -> Answer | str:
    """The merged answer, or why there is none."""
    if lab.checkout.apply_tree(tree):
        return "ignored files of the checkout are not what they were"
    tracked = subject.change.paths() | {file.old_path for file in subject.change.files}
    answers: list[Answer] = []
    for number, question in enumerate(questions, 1):
        name = f"{lab.name}-{log}-{number}"
        at_most = max(min(LONGEST_S, lab.compute_left_s()), 1.0)
        result = lab.runner.run(
            _locate_program(lab, tracked, question.argv), name, at_most_s=at_most
        )
        if not result.ok:
            missing = result.exit_status == NOT_FOUND
            how = result.error or f"it ended with exit {result.exit_status}"
            return "it is not installed here" if missing else how
        printed = (lab.runner.read_output(name) or b"").decode("utf-8", "replace")
        try:
            text = printed.replace(f"{lab.folder}/", "")
            answers.append(parse_answer(question.kind, text, question.files))
        except ValueError:
            return "its answer cannot be read"
    return merge_answers(answers)


def _locate_program(lab: Lab, tracked: Collection[str], argv: tuple[str, ...]) -> tuple[str, ...]:
    """The project's own installation first, where no commit brings it or a link to it."""
    for folder in map(PurePosixPath, _OWN_FOLDERS):
        program = folder / argv[0]
        known = any(str(path) in tracked for path in (program, *program.parents))
        if not known and (lab.folder / program).is_file():
            return (str(lab.folder / program), *argv[1:])
    return argv


def _tell_unknown(subject: EvidenceSubject, tool: Tool, why: str) -> Evidence:
    known = ((tool.name, why),)
    if not _names_tool(subject, tool):
        return Evidence(answered=known)
    text = f"not known of {tool.name}, as {why}: its settings were read"
    return Evidence((Check(TITLE, CheckOutcome.NOT_CHECKED, text),), answered=known)


def _names_tool(subject: EvidenceSubject, tool: Tool) -> bool:
    """True where a changed file of settings speaks of the tool."""
    return any(
        tool.is_named_in(path, data)
        for file in subject.change.files
        for path, data in ((file.path, file.new), (file.old_path, file.old))
    )


def _find_file(subject: EvidenceSubject, tool: Tool, text: str) -> str:
    """The changed file that most likely did it: one whose changed lines have a word of it."""
    files = [file for file in subject.change.files if tool.is_touched_by(file.path)]
    words = re.findall(r"[\w-]{4,}", text.partition(" ")[0])
    for file in files:
        lines = [line.text for line in (*file.added, *file.deleted)]
        if any(word in line for word in reversed(words) for line in lines):
            return file.path
    own = (file.path for file in files if tool.is_set_by(file.path))
    return next(own, files[0].path if files else "")
