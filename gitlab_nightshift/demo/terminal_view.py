"""The merge request of a demo as its reviewer would see it in GitLab, as text for a terminal."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from gitlab_nightshift.demo.demo_night import ABOUT_FILE, OUTPUT, Demo
from gitlab_nightshift.demo.standin_repository import find_merge_base, read_commits, read_diffs
from gitlab_nightshift.demo.standin_state import (
    StandinLabel,
    StandinMergeRequest,
    StandinProject,
    User,
)
from gitlab_nightshift.text.lazy_patterns import compile_lazily

if TYPE_CHECKING:
    from markdown_it.token import Token

WIDTH = 92
"""Columns; only code may be wider."""
# SGR parameters (ECMA-48, 8.3.117; 38;5 and 48;5 are xterm's 256 colors).
BOLD, DIM, REVERSE, RED, GREEN, CODE, WHITE = "1", "2", "7", "31", "32", "36", "38;5;231"
RESET, NO_BREAK = "\x1b[0m", "\xa0"
_STYLED_CODE = compile_lazily(r"\x1b\[36m(.*?)\x1b\[0m")
_STYLE = compile_lazily(r"\x1b\[[\d;]*m")
_BEFORE_EMPTY_LINE = {
    *("paragraph_close", "bullet_list_close", "ordered_list_close"),
    *("fence", "code_block", "hr", "blockquote_close"),
}
"""Tokens of markdown-it that are followed by an empty line."""


def render_demo(demo: Demo, colour: bool) -> str:
    """Title, people, labels, description, commit and changes, as GitLab and git have them."""
    text = "\n".join([*_render_project(demo.project), "", *_render_closing(demo)])
    text = text.replace(NO_BREAK, " ")
    return text if colour else _STYLE.sub("", _STYLED_CODE.sub(r"`\1`", text))


def _render_project(project: StandinProject) -> Iterator[str]:
    yield ""
    if not project.merge_requests:
        yield "No merge request was opened: the last line above says why."
        return
    for request in project.merge_requests:
        yield from _render_merge_request(project, request)


def _render_merge_request(project: StandinProject, request: StandinMergeRequest) -> Iterator[str]:
    yield _style_text("What the reviewer finds in GitLab in the morning".center(WIDTH), REVERSE)
    yield ""
    yield f"{_style_text(request.title, BOLD)} {_style_text(f'!{request.iid}', DIM)}"
    yield from _render_head(project, request)
    yield ""
    yield from _render_markdown(request.description or "")
    git, bare = project.git, project.bare_repository
    commits = read_commits(git, bare, f"{project.default_branch}..{request.sha}")
    yield _render_heading(f"Commits ({len(commits)})")
    for commit in commits:
        yield from _render_commit(commit)
    base = find_merge_base(git, bare, project.default_branch, request.sha)
    for change in read_diffs(git, bare, base, request.sha):
        yield ""
        yield from _render_change(change)


def _render_head(project: StandinProject, request: StandinMergeRequest) -> Iterator[str]:
    state = "Open" if request.state == "opened" else request.state.capitalize()
    source, target = request.source_branch, request.target_branch
    branches = f"{_style_text(source, CODE)} → {_style_text(target, CODE)}"
    labels = {label.name: label for label in project.labels}
    rows = {
        "state": f"{_style_text(state, GREEN, BOLD)} · {branches}",
        "author": _format_names([request.author]),
        "reviewer": _format_names(request.reviewers),
        "assignee": _format_names(request.assignees),
        "labels": " ".join(_render_label(labels[name]) for name in request.labels),
        "on merge": "delete the source branch" if request.remove_source_branch else "",
    }
    for name, value in rows.items():
        if value:
            yield f"  {_style_text(f'{name:<9}', DIM)} {value}"


def _format_names(users: list[User]) -> str:
    return ", ".join(f"{user.name} {_style_text(f'@{user.username}', DIM)}" for user in users)


def _render_label(label: StandinLabel) -> str:
    """The name on the label's color, in the 256-color palette."""
    # The cube of 6 by 6 by 6 colors that begins at 16 (xterm, 256 colors).
    red, green, blue = (round(channel / 51) for channel in bytes.fromhex(label.color[1:]))
    return _style_text(f" {label.name} ", f"48;5;{16 + 36 * red + 6 * green + blue}", WHITE)


def _render_commit(commit: dict[str, Any]) -> Iterator[str]:
    author = f"{commit['author_name']} <{commit['author_email']}>"
    yield f"{_style_text(commit['short_id'], CODE)} {commit['title']} {_style_text(author, DIM)}"
    for line in commit["message"].strip().split("\n")[2:]:  # the message's body
        yield f"         {line}".rstrip()


def _render_change(change: dict[str, Any]) -> Iterator[str]:
    lines = change["diff"].splitlines()
    counts = Counter(line[:1] for line in lines)
    added, deleted = _style_text(f"+{counts['+']}", GREEN), _style_text(f"-{counts['-']}", RED)
    yield f"{_render_heading(change['new_path'])} {added} {deleted}"
    styles = {"+": GREEN, "-": RED, "@": DIM}
    for line in lines:
        yield _style_text(line, styles[line[0]]) if line[:1] in styles else line


# --- Markdown ---------------------------------------------------------------------------------


def _render_markdown(text: str) -> Iterator[str]:
    """Blocks separated by empty lines; HTML comments are hidden, as in GitLab."""
    from markdown_it import MarkdownIt

    lists: list[str] = []
    indent, first_indent, is_heading = "", "", False
    for token in MarkdownIt("commonmark").parse(text):
        if token.type.endswith("_list_open"):
            lists.append("•" if token.markup in "-*+" else "")
        elif token.type.endswith("_list_close"):
            lists.pop()
        elif token.type == "list_item_open":
            first_indent = f"{'    ' * (len(lists) - 1)}  {lists[-1] or f'{token.info}.'} "
            indent = " " * len(first_indent)
        elif token.type == "inline":
            line = _render_inline(token.children or [])
            line = _render_heading(line) if is_heading else line
            yield from _wrap_text(line, indent, first_indent)
            first_indent = indent
        elif token.type == "hr":
            yield _style_text("─" * WIDTH, DIM)
        elif token.type in ("fence", "code_block"):
            yield from (f"    {line}" for line in token.content.splitlines())
        is_heading = token.type == "heading_open"
        # nesting: 1 for an opening token, 0 for a self-contained one, -1 for a closing one.
        if token.level == 0 and token.nesting <= 0 and token.type in _BEFORE_EMPTY_LINE:
            indent, first_indent = "", ""
            yield ""


def _render_inline(tokens: "Sequence[Token]") -> str:
    """The text of one block on one line, with styles."""
    rendered, link = "", ""
    for token in tokens:
        if token.type == "code_inline":
            rendered += _style_text(token.content.replace(" ", NO_BREAK), CODE)
        elif token.type == "strong_open":
            rendered += f"\x1b[{BOLD}m"
        elif token.type == "strong_close":
            rendered += RESET
        elif token.type == "link_open":
            link = str(token.attrs["href"])
        elif token.type == "link_close":
            rendered += f" ({link})"
        elif token.type == "softbreak":
            rendered += " "
        elif token.type != "html_inline":
            rendered += token.content
    # The zero-width spaces that escaping.py puts into references are invisible in GitLab.
    return rendered.replace("\u200b", "")


def _wrap_text(text: str, indent: str, first_indent: str) -> Iterator[str]:
    line, line_width = first_indent, len(first_indent)
    for word in text.split(" "):
        word_width = len(_STYLE.sub("", word))
        # A word that is longer than a line gets its own line.
        if line_width > len(indent) and line_width + word_width > WIDTH:
            yield line.rstrip()
            line, line_width = indent, len(indent)
        line, line_width = f"{line}{word} ", line_width + word_width + 1
    yield line.rstrip()


def _render_heading(text: str) -> str:
    return _style_text(text, BOLD)


def _style_text(text: str, *styles: str) -> str:
    return f"\x1b[{';'.join(styles)}m{text}{RESET}"


def _render_closing(demo: Demo) -> Iterator[str]:
    output = demo.folder / OUTPUT
    yield _style_text("─" * WIDTH, DIM)
    yield f"The stand-in for GitLab has stopped, so its links no longer work. Left in {output}:"
    rows = {
        "report.html": "the night as a page",
        "bundle/": "the change as a patch, with its proof",
        "logs/": "what the agents and the commands printed",
        ABOUT_FILE: "what the other files are",
    }
    yield from (f"  {name:<20} {text}" for name, text in rows.items())
