"""Rakefiles: their tasks, what each needs, and the command lines in them."""

import re

from gitlab_nightshift.verdict.tooling.commands import Command
from gitlab_nightshift.verdict.tooling.jobs import Job

_TASK = re.compile(
    r"""^\s*(?:multi)?task[ (]+:?['"]?(?P<name>[\w:]+)['"]?\s*(?:,\s*\[[^\]]*\]\s*)?"""
    r"""(?::|=>)\s*(?P<needs>\[[^\]]*\]|%[iw][\[({][^\])}]*[\])}]|:[\w:]+|['"][\w:]+['"])""",
    re.MULTILINE,
)
_CALL = re.compile(r"""\b(?:sh|system)\s*\(?\s*((?:['"][^'"\n]*['"]\s*,?\s*)+)""")
_MADE = re.compile(r"\b([A-Z]\w*(?:::\w+)*(?:Task|TestTask))\.(?:new|create)\b")


def rake(_path: str, data: bytes) -> dict[str, Job]:
    """Tasks with their prerequisites; command lines and tasks that libraries make stand in ""."""
    text = re.sub(r"^\s*#.*$", "", data.decode("utf-8", "replace"), flags=re.MULTILINE)
    calls = [" ".join(re.findall(r"""['"]([^'"\n]*)['"]""", call)) for call in _CALL.findall(text)]
    jobs = {"": Job([Command(call) for call in calls], _MADE.findall(text))}
    for task in _TASK.finditer(text):
        job = jobs.setdefault(task["name"], Job())
        job.uses += re.findall(
            r"(?<![%\w])[\w:]*\w", task["needs"].replace("%i", "").replace("%w", "")
        )
    return {
        name: Job(job.commands, [each.lstrip(":") for each in job.uses])
        for name, job in jobs.items()
    }
