"""Text in a change that is addressed to a machine: to an AI that reviews, to GitLab, or hidden."""

import base64
import binascii
import re
from collections.abc import Iterator
from itertools import zip_longest

from gitlab_nightshift.verdict.change import Change, ChangedFile, Context, Found, Line
from gitlab_nightshift.verdict.flags.files import is_docs
from gitlab_nightshift.verdict.flags.machine_orders import order
from gitlab_nightshift.verdict.syntax.languages import is_product

_TEMPLATE = re.compile(
    r"<\|(?:im_start|im_end|im_sep|system|user|assistant|endoftext|begin_of_text|end_of_text|eot_id"
    r"|start_header_id|end_header_id|endofprompt)\|>|\[/?INST\]|<</?SYS>>|<(?:start|end)_of_turn>"
    r"|^\s*(?:#|//|\*|<!--|--)?\s*#{2,3} (?:Instruction|System|Response):\s*$|</?(?:system"
    r"|admin)[-_](?:prompt|reminder|message)>"
)
_SKIPS = re.compile(
    r"\[(?:skip[ -]ci|ci[ -]skip|no[ -]ci|skip[ -]actions|actions[ -]skip)\]", re.IGNORECASE
)
_QUICK = re.compile(
    r"^/(?:approve|unapprove|merge|ready|draft|assign|unassign|reassign|assign_reviewer"
    r"|unassign_reviewer"
    r"|request_review|submit_review|label|unlabel|relabel|close|reopen|lock|unlock|rebase"
    r"|target_branch|milestone"
    r"|remove_milestone|due|estimate|spend|confidential|duplicate|epic|iteration|move|promote"
    r"|weight|clone"
    r"|award|copy_metadata|create_merge_request|tag|wip|todo|done|shrug|subscribe|unsubscribe|cc"
    r"|severity"
    r"|page|publish|health_status|run_pipeline|add_email|blocks|blocked_by|relate)(?:\s|$)"
)
_JOINERS = "\u200c\u200d"
_MARKS = "\u200e\u200f\u061c"
_HIDDEN = re.compile(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u061c\u202a-\u202e\u2060-\u2064\u2066-\u206f"
    "\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_RTL = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")
_COMMENT = re.compile(r"#|//|/\*|^\s*\*|--|<!--|;|%|\"\"\"|'''")
_SIGN = re.compile(r"^\s*(?:#+|//+|\*+|--|;+|%+|\"\"\")?\s*")
_LONGEST = 5000
_RELEASES = re.compile(
    r"(^|/)(\.releaserc|\.github/|\.gitlab|release|lerna|package\.json)|\.(sh|ya?ml|toml)$"
)


def machine_text(change: Change, _context: Context) -> Iterator[Found]:
    """Text addressed to a machine in added lines."""
    for file in change.files:
        moved = {line.text.strip() for line in file.deleted}
        for line, following in zip_longest(file.added, file.added[1:]):
            if line.text.strip() not in moved and (text := _spoken(file, line, following)):
                yield Found(file.path, line.number, text)


def _spoken(file: ChangedFile, line: Line, following: Line | None) -> str:
    """What is wrong with a line, "" where nothing is; a sentence may go on in the next one."""
    text = line.text[:_LONGEST]
    if hidden := _hidden(line):
        return f"Invisible or bidirectional characters ({hidden}): nobody sees what they do."
    if (match := _TEMPLATE.search(text)) and not _is_data(file, text, match.start()):
        return f"A marker of a chat template ({match[0].strip()}) speaks to a model."
    match = order(_with_next(line, following))
    if match and match.start() < len(text) and not _is_data(file, text, match.start()):
        return "Text addressed to an AI or a bot: write for the people who read the code."
    if (match := _SKIPS.search(text)) and _is_prose(file, text, match.start()):
        return f"{match[0]} would keep CI from running."
    if _quick_action(file, text):
        return "A quick action at the start of a line: GitLab would carry it out."
    said = "Base64 that holds text addressed to an AI or a bot."
    return said if _says_so_in_base64(text) else ""


def _with_next(line: Line, following: Line | None) -> str:
    if following is None or following.number != line.number + 1:
        return line.text[:_LONGEST]
    return f"{line.text[:_LONGEST]} {_SIGN.sub('', following.text[:_LONGEST])}"


def _is_data(file: ChangedFile, text: str, at: int) -> bool:
    """In a test, a text in quotes is what the test is about; a comment is not."""
    return not is_product(file.path) and not is_docs(file.path) and not _COMMENT.search(text[:at])


def _is_prose(file: ChangedFile, text: str, at: int) -> bool:
    """In docs or in a comment; tools that make commits hold such marks in their settings."""
    comment = _COMMENT.search(text[:at]) and not re.search(r"[\"'`]", text[:at])
    return is_docs(file.path) or bool(comment and not _RELEASES.search(file.path))


def _hidden(line: Line) -> str:
    found: list[str] = []
    for match in _HIDDEN.finditer(line.text):
        at, char = match.start(), match[0]
        around = line.text[max(at - 1, 0) : at] + line.text[at + 1 : at + 2]
        joins = char in _JOINERS and any(ord(each) > 0x2FF for each in around)
        directs = char in _MARKS and _RTL.search(line.text)
        begins = char == "\ufeff" and line.number == 1 and at == 0
        if not (joins or directs or begins):
            found.append(f"U+{ord(char):04X}")
    return ", ".join(dict.fromkeys(found))


def _quick_action(file: ChangedFile, text: str) -> bool:
    bare = re.sub(r"^\s*(?:#+|//+|\*|--|<!--)?\s*", "", text) if not is_docs(file.path) else text
    plain = is_docs(file.path) or re.match(r"\s*(#|//|\*|--)", text)
    return bool(plain and _QUICK.match(bare))


def _says_so_in_base64(text: str) -> bool:
    for match in _BASE64.finditer(text):
        blob = match[0].replace("-", "+").replace("_", "/").rstrip("=")
        blob = blob[: len(blob) // 4 * 4]
        try:
            said = base64.b64decode(blob, validate=True).decode("utf-8", "ignore")
        except binascii.Error:
            continue
        if order(said) or _TEMPLATE.search(said):
            return True
    return False
