"""The merge request of a demo as its reviewer would find it in GitLab, as text for a terminal."""

import html
import re
from collections.abc import Iterator
from typing import Any

from gitlab_nightshift.demo.night import ABOUT, OUTPUT, Demo
from gitlab_nightshift.demo.standin_repository import commits, diffs, merge_base
from gitlab_nightshift.demo.standin_state import Label, MergeRequest, Project, User

WIDTH = 92
"""Columns; only code is wider."""
BOLD, DIM, REVERSE, RED, GREEN, CODE, WHITE = "1", "2", "7", "31", "32", "36", "38;5;231"
RESET, NO_BREAK = "\x1b[0m", "\xa0"
_CODE = re.compile(r"\x1b\[36m(.*?)\x1b\[0m")
_STYLE = re.compile(r"\x1b\[[\d;]*m")
_INLINE = re.compile(
    r"(?P<code>`+)(?P<in_code>.+?)(?P=code)|\*\*(?P<bold>.+?)\*\*|"
    r"\[(?P<text>[^\]]*)\]\((?P<url>[^)\s]*)\)|\\(?P<sign>[!-/:-@\[-`{-~])"
)
_ITEM = re.compile(r"(\s*)([-*+]|\d+\.)\s+(.*)")


def reader_view(demo: Demo, colour: bool) -> str:
    """Title, people, labels, description, commit and changes, as GitLab and git tell them."""
    text = "\n".join([*_view(demo.project), "", *_closing(demo)]).replace(NO_BREAK, " ")
    return text if colour else _STYLE.sub("", _CODE.sub(r"`\1`", text))


def _view(project: Project) -> Iterator[str]:
    yield ""
    if not project.merge_requests:
        yield "No merge request was opened: the last line above says why."
        return
    for request in project.merge_requests:
        yield from _merge_request(project, request)


def _merge_request(project: Project, request: MergeRequest) -> Iterator[str]:
    yield _styled("What the reviewer finds in GitLab in the morning".center(WIDTH), REVERSE)
    yield ""
    yield f"{_styled(request.title, BOLD)} {_styled(f'!{request.iid}', DIM)}"
    yield from _head(project, request)
    yield ""
    yield from _markdown(request.description or "")
    git, bare = project.git, project.bare_repository
    made = commits(git, bare, f"{project.default_branch}..{request.sha}")
    yield _heading(f"Commits ({len(made)})")
    for commit in made:
        yield from _commit(commit)
    base = merge_base(git, bare, project.default_branch, request.sha)
    for change in diffs(git, bare, base, request.sha):
        yield ""
        yield from _change(change)


def _head(project: Project, request: MergeRequest) -> Iterator[str]:
    state = {"opened": "Open"}.get(request.state, request.state.capitalize())
    branches = f"{_styled(request.source_branch, CODE)} → {_styled(request.target_branch, CODE)}"
    labels = {label.name: label for label in project.labels}
    then = "delete the source branch" if request.remove_source_branch else ""
    rows = {
        "state": f"{_styled(state, GREEN, BOLD)} · {branches}",
        "author": _names([request.author]),
        "reviewer": _names(request.reviewers),
        "assignee": _names(request.assignees),
        "labels": " ".join(_label(labels[name]) for name in request.labels),
        "on merge": then,
    }
    for name, value in rows.items():
        if value:
            yield f"  {_styled(f'{name:<9}', DIM)} {value}"


def _names(users: list[User]) -> str:
    return ", ".join(f"{user.name} {_styled(f'@{user.username}', DIM)}" for user in users)


def _label(label: Label) -> str:
    """The name on the label's colour, in the 256 colours that every terminal has."""
    red, green, blue = (round(int(label.color[at : at + 2], 16) / 51) for at in (1, 3, 5))
    return _styled(f" {label.name} ", f"48;5;{16 + 36 * red + 6 * green + blue}", WHITE)


def _commit(commit: dict[str, Any]) -> Iterator[str]:
    who = f"{commit['author_name']} <{commit['author_email']}>"
    yield f"{_styled(commit['short_id'], CODE)} {commit['title']} {_styled(who, DIM)}"
    for line in commit["message"].strip().split("\n")[2:]:
        yield f"         {line}".rstrip()


def _change(change: dict[str, Any]) -> Iterator[str]:
    lines = change["diff"].splitlines()
    counts = [sum(line.startswith(sign) for line in lines) for sign in "+-"]
    added, deleted = _styled(f"+{counts[0]}", GREEN), _styled(f"-{counts[1]}", RED)
    yield f"{_heading(change['new_path'])} {added} {deleted}"
    styles = {"+": GREEN, "-": RED, "@": DIM}
    for line in lines:
        yield _styled(line, styles[line[0]]) if line[:1] in styles else line


# --- Markdown, as far as descriptions use it -------------------------------------------------


def _markdown(text: str) -> Iterator[str]:
    """Headings, lists and paragraphs, wrapped; comments are hidden, as in GitLab."""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL).strip()
    for block in re.split(r"\n{2,}", text):
        yield from _block(block)
        if not block.startswith("#"):
            yield ""


def _block(block: str) -> Iterator[str]:
    if block.startswith("#"):
        yield _heading(_inline(block.lstrip("# ")))
    elif block == "---":
        yield _styled("─" * WIDTH, DIM)
    elif block.startswith("```"):
        yield from (f"    {line}" for line in block.split("\n")[1:-1])
    else:
        for indent, first, line in _items(block):
            yield from _wrapped(_inline(line), indent, first)


def _items(block: str) -> list[tuple[str, str, str]]:
    """The items of a list, or one paragraph: indent, what stands before the first word, text."""
    rows: list[tuple[str, str, str]] = []
    for line in block.split("\n"):
        if item := _ITEM.fullmatch(line):
            before = f"{item[1]}  {'•' if item[2] in '-*+' else item[2]} "
            rows.append((" " * len(before), before, item[3]))
        elif rows:
            indent, before, text = rows.pop()
            rows.append((indent, before, f"{text} {line.strip()}"))
        else:
            rows.append(("", "", line.strip()))
    return rows


def _inline(text: str) -> str:
    return html.unescape(_INLINE.sub(_inline_styled, text)).replace("\u200b", "")


def _inline_styled(match: re.Match[str]) -> str:
    if match["code"]:
        return _styled(match["in_code"].strip().replace(" ", NO_BREAK), CODE)
    if match["bold"]:
        return _styled(match["bold"], BOLD)
    if match["sign"]:
        return html.escape(match["sign"])
    return f"{match['text']} ({match['url']})"


def _wrapped(text: str, indent: str, first: str) -> Iterator[str]:
    line, used = first, len(first)
    for word in text.split(" "):
        width = len(_STYLE.sub("", word))
        if used > len(indent) and used + width > WIDTH:
            yield line.rstrip()
            line, used = indent, len(indent)
        line, used = f"{line}{word} ", used + width + 1
    yield line.rstrip()


def _heading(text: str) -> str:
    return _styled(text, BOLD)


def _styled(text: str, *styles: str) -> str:
    return f"\x1b[{';'.join(styles)}m{text}{RESET}"


def _closing(demo: Demo) -> Iterator[str]:
    output = demo.folder / OUTPUT
    yield _styled("─" * WIDTH, DIM)
    yield f"GitLab's stand-in is gone now, and its addresses with it. Left in {output}:"
    rows = {
        "report.html": "the night as a page",
        "bundle/": "the change as a patch, and all that is known about it",
        "logs/": "what the agents and the commands printed",
        ABOUT: "what the rest is",
    }
    yield from (f"  {name:<20} {what}" for name, what in rows.items())
