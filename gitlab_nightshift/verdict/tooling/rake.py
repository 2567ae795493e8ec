"""Rakefiles: their tasks, what each needs, and the command lines in them."""

import re

from gitlab_nightshift.lazy_patterns import compile_lazily
from gitlab_nightshift.verdict.tooling.ci_jobs import CiJob
from gitlab_nightshift.verdict.tooling.command_lines import CommandLine

_TASK = compile_lazily(
    r"""^\s*(?:multi)?task[ (]+:?['"]?(?P<name>[\w:]+)['"]?\s*(?:,\s*\[[^\]]*\]\s*)?"""
    r"""(?::|=>)\s*(?P<needs>\[[^\]]*\]|%[iw][\[({][^\])}]*[\])}]|:[\w:]+|['"][\w:]+['"])""",
    re.MULTILINE,
)
_CALL = compile_lazily(r"""\b(?:sh|system)\s*\(?\s*((?:['"][^'"\n]*['"]\s*,?\s*)+)""")
_MADE = compile_lazily(r"\b([A-Z]\w*(?:::\w+)*(?:Task|TestTask))\.(?:new|create)\b")


def read_rake_jobs(_path: str, data: bytes) -> dict[str, CiJob]:
    """Tasks with their prerequisites; command lines and tasks that libraries make are under ""."""
    text = re.sub(r"^\s*#.*$", "", data.decode("utf-8", "replace"), flags=re.MULTILINE)
    calls = [" ".join(re.findall(r"""['"]([^'"\n]*)['"]""", call)) for call in _CALL.findall(text)]
    jobs = {"": CiJob([CommandLine(call) for call in calls], _MADE.findall(text))}
    for task in _TASK.finditer(text):
        job = jobs.setdefault(task["name"], CiJob())
        job.uses += re.findall(
            r"(?<![%\w])[\w:]*\w", task["needs"].replace("%i", "").replace("%w", "")
        )
    return {
        name: CiJob(job.commands, [each.lstrip(":") for each in job.uses])
        for name, job in jobs.items()
    }
