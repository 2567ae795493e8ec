"""The output of ``nightshift check``: a judgement as text, JSON, GitLab Code Quality or SARIF, and
the explanation of a flag (``--explain``)."""

import difflib
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gitlab_nightshift import __version__
from gitlab_nightshift.commands.change_check import Judgement
from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.records.verdicts import Finding
from gitlab_nightshift.registry.flag_registry import FLAGS, FlagEntry

FORMATS = ("text", "json", "codequality", "sarif")
# docs.gitlab.com/ci/testing/code_quality, "Code Quality report format": info to blocker.
_SEVERITIES = {"fail": "major", "warn": "minor", "note": "info"}
# SARIF 2.1.0, 3.27.10.
_SARIF_LEVELS = {"fail": "error", "warn": "warning", "note": "note"}
_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
# ANSI (ECMA-48, SGR): red, yellow, cyan.
_COLOURS = {"fail": "31", "warn": "33", "note": "36"}


def as_json(judgement: Judgement) -> str:
    """The judgement for a program: ``commit`` is null for the working tree, and the results of
    commands are left out if none ran."""
    keys = ("name", "level", "file", "line", "detail")
    data: dict[str, Any] = {
        "flags": [{key: getattr(f, key) for key in keys} for f in judgement.findings],
        "base": judgement.base,
        "commit": judgement.commit,
        "ran": judgement.ran,
    }
    if judgement.ran:
        data["commands"] = [asdict(result) for result in judgement.commands]
        data["checks"] = [asdict(check) for check in judgement.checks]
        data["incomplete"] = judgement.incomplete
    return json.dumps(data, indent=2)


def as_text(judgement: Judgement, *, colour: bool) -> str:
    """The judgement for a person: results of commands, findings by file, why each flag matters,
    counts."""
    lines = [*_format_runs(judgement)]
    if not judgement.findings:
        return "\n".join([*lines, f"No red flags ({_describe_comparison(judgement)})."])
    for file in dict.fromkeys(finding.file for finding in judgement.findings):
        lines += (_format_finding(f, colour) for f in judgement.findings if f.file == file)
        lines.append("")
    names = dict.fromkeys(finding.name for finding in judgement.findings)
    width = max(map(len, names))
    lines += (f"  {name:<{width}}  {FLAGS[name].why}" for name in names)
    return "\n".join([*lines, "", _format_counts(judgement)])


def _format_runs(judgement: Judgement) -> Iterator[str]:
    for result in judgement.commands:
        again = ", in the second attempt" if result.flaky else ""
        how = result.error or f"exit {result.exit_status}"
        yield f"{result.command}: {how}, {result.duration_s:.1f} s{again}"
    for check in judgement.checks:
        yield f"{check.title}: {check.detail}"
    if judgement.incomplete:
        yield f"Nothing could be run: {judgement.incomplete}"
    if judgement.ran:
        yield ""


def _format_finding(finding: Finding, colour: bool) -> str:
    location = f"{finding.file}:{finding.line}" if finding.line else finding.file
    level = str(finding.level)
    if colour:
        level = f"\033[{_COLOURS[level]}m{level}\033[0m"
    return f"{location}  {level}  {finding.name}  {finding.detail}"


def _format_counts(judgement: Judgement) -> str:
    counts = Counter[str](finding.level for finding in judgement.findings)
    levels = ("fail", "warn", "note") if counts["note"] else ("fail", "warn")
    totals = ", ".join(f"{counts[level]} {level}" for level in levels)
    return f"{totals} ({_describe_comparison(judgement)})."


def _describe_comparison(judgement: Judgement) -> str:
    new = judgement.commit[:12] if judgement.commit else "the working tree"
    return f"{new} against {judgement.base[:12]}"


def as_codequality(judgement: Judgement) -> str:
    """GitLab's Code Quality report, which GitLab shows in a merge request's diff."""
    counts: Counter[tuple[str, str, str]] = Counter()
    issues = []
    for finding in judgement.findings:
        key = (finding.name, finding.file, finding.detail)
        counts[key] += 1
        # GitLab compares reports by fingerprint: without the line, an issue that moved is not new.
        # Equal findings in a file are numbered: equal fingerprints would count as one.
        text = json.dumps([*key, counts[key]])
        issues.append(
            {
                "description": finding.detail,
                "check_name": finding.name,
                "fingerprint": hashlib.sha256(text.encode()).hexdigest(),
                "severity": _SEVERITIES[finding.level],
                # Path and line are required, even for a finding about the whole change.
                "location": {"path": finding.file or ".", "lines": {"begin": finding.line or 1}},
            }
        )
    return json.dumps(issues, indent=2)


def as_sarif(judgement: Judgement) -> str:
    """The judgement as SARIF 2.1.0."""
    names = dict.fromkeys(finding.name for finding in judgement.findings)
    rules = [{"id": name, "shortDescription": {"text": FLAGS[name].why}} for name in names]
    driver = {"name": "nightshift", "version": __version__, "rules": rules}
    results = [_build_sarif_result(finding) for finding in judgement.findings]
    run = {"tool": {"driver": driver}, "results": results}
    return json.dumps({"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _build_sarif_result(finding: Finding) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.name,
        "level": _SARIF_LEVELS[finding.level],
        "message": {"text": finding.detail},
    }
    if finding.file:
        uri = quote(finding.file, errors="surrogateescape")
        location: dict[str, Any] = {"artifactLocation": {"uri": uri}}
        if finding.line:
            location["region"] = {"startLine": finding.line}
        result["locations"] = [{"physicalLocation": location}]
    return result


def parse_formats(values: Sequence[str]) -> dict[str, str]:
    """Format → file, "" for stdout, by the values of ``--format``. Raises ``E_CONFIG``."""
    files: dict[str, str] = {}
    for value in values:
        name, equals, file = value.partition("=")
        if name not in FORMATS or (equals and not file):
            names = ", ".join(FORMATS)
            raise build_config_error(f"--format {value}: expected one of {names}, or NAME=FILE")
        files[name] = file
    if list(files.values()).count("") > 1:
        raise build_config_error("--format: only one goes to stdout; name files: NAME=FILE")
    # A job that writes files shows the text in its log.
    return files if "" in files.values() else {**files, "text": ""}


def write_formats(judgement: Judgement, formats: dict[str, str], folder: Path, colour: bool) -> str:
    """Write the files, relative to ``folder``, and return the text for stdout.

    Raises ``E_CONFIG`` for a file that cannot be written.
    """
    for_stdout = ""
    for name, file in formats.items():
        text = _render_format(judgement, name, colour and not file)
        if not file:
            for_stdout = text
            continue
        try:
            (folder / file).write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise build_config_error(f"--format: {file}: {error.strerror}") from None
    return for_stdout


def _render_format(judgement: Judgement, name: str, colour: bool) -> str:
    if name == "text":
        return as_text(judgement, colour=colour)
    render = {"json": as_json, "codequality": as_codequality, "sarif": as_sarif}[name]
    return render(judgement)


_LEVEL_MEANINGS = {
    "fail": "fail: a reviewer would block this",
    "warn": "warn: a reviewer would ask about this",
    "note": "note: shown, without effect",
    "off": "off: not checked",
}


def explain(name: str) -> str:
    """The explanation of one flag, or for "all" the list of flags. Raises ``E_CONFIG`` for an
    unknown name."""
    if name == "all":
        width = max(map(len, FLAGS))
        return "\n".join(f"{flag:<{width}}  {entry.why}" for flag, entry in FLAGS.items())
    if name not in FLAGS:
        near = difflib.get_close_matches(name, FLAGS, 1)
        hint = f"did you mean {near[0]}?" if near else "--explain all lists them"
        raise build_config_error(f"--explain: no flag {name!r}; {hint}")
    return "\n".join(_format_flag(name, FLAGS[name]))


def _format_flag(name: str, flag: FlagEntry) -> Iterator[str]:
    yield f"{name}: {flag.what}"
    yield f"Why it matters: {flag.why}"
    yield ""
    yield f"A change of people: {_LEVEL_MEANINGS[flag.human_level]}."
    if flag.warn_if:
        yield f"  It is only a warning if {flag.warn_if}."
    yield f"A night's change: {_LEVEL_MEANINGS[flag.level]}."
    others = [category for category, level in flag.levels.items() if level != flag.level]
    if others:  # the same level in all of them
        yield f"In {', '.join(others)}: {_LEVEL_MEANINGS[flag.levels[others[0]]]}."
    if not flag.rule:
        yield "Only running the change shows it (--run)."
    yield ""
    yield f"If it is meant: write `nightshift: allow {name} because ...` into the merge request's"
    yield f"description or a commit. For the whole project: policy.flags.{name} in nightshift.yaml."
