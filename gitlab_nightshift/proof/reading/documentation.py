"""broken-link: finds relative links in changed Markdown that lead nowhere."""

import posixpath
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from gitlab_nightshift.proof.reviewed_change import Changeset, Context, RuleViolation
from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.text.lazy_patterns import compile_lazily

if TYPE_CHECKING:
    from markdown_it.token import Token

_TABLE = RuleTable(__file__)

_MARKDOWN = _TABLE.get_pattern("markdown", re.IGNORECASE)
_ANCHORS = _TABLE.get_pattern("anchors")
_SITE_SETTINGS = _TABLE.get_pattern("site")
_GITLAB_PAGE = compile_lazily(
    r"(\.\./)*(-|issues|merge_requests|pipelines|wikis|releases|tags|blob|tree|raw)(/|$)"
)
LARGEST = 500_000  # bytes of a document
# Anchors that GitLab generates: of lines of code, of comments and of footnotes.
_GENERATED_ANCHOR = compile_lazily(r"L\d+(-L?\d+)?|note-.*|fn:?.*")


def find_broken_links(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Relative links and anchors without a target, which the change adds or breaks."""
    removed_paths = {file.old_path for file in change.files if file.status in "DR"}
    for file in change.files:
        new = file.new
        if not file.added or new is None or len(new) > LARGEST or not _MARKDOWN.search(file.path):
            continue
        added = {line.number for line in file.added}
        old_anchors, new_anchors = map(_list_heading_anchors, (file.old_lines, file.new_lines))
        removed = {*old_anchors} - {*new_anchors}
        for number, target in _list_links(file.new_lines):
            breaks = target[1:] in removed or _resolve_target(file.path, target) in removed_paths
            affected = number in added or breaks
            if affected and (why := _describe_broken_link(change, file.path, target)):
                yield RuleViolation(file.path, number, f"{target} {why}.")


def _parse_markdown(lines: list[str]) -> "list[Token]":
    from markdown_it import MarkdownIt

    text = "\n".join(lines)
    # Front matter becomes empty lines, so that line numbers stay.
    if text.startswith("---\n") and "\n---\n" in text:
        head, _, body = text[3:].partition("\n---\n")  # from its line feed: it may be empty
        text = "\n" * (head.count("\n") + 2) + body
    return MarkdownIt("commonmark").enable("table").parse(text)


def _list_links(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Line and target of each link and image; for a reference link, its definition's line."""
    for token in _parse_markdown(lines):
        for inner in token.children or ():
            target = inner.attrGet("href") or inner.attrGet("src")
            if isinstance(target, str) and token.map:
                block = range(token.map[0], min(token.map[1], len(lines)))
                plain = unquote(target)
                direct = (n for n in block if target in lines[n] or plain in lines[n])
                definitions = (n for n, line in enumerate(lines) if re.match(r"\s*\[.*\]:", line))
                defined = (n for n in definitions if plain in lines[n])
                yield next(direct, next(defined, token.map[0])) + 1, target


def _resolve_target(path: str, target: str) -> str:
    """The path of a link's target in the repository."""
    link = unquote(urlsplit(target).path)
    folder = "" if link.startswith("/") else posixpath.dirname(path)
    return posixpath.normpath(posixpath.join(folder, link.lstrip("/"))) if link else path


def _describe_broken_link(change: Changeset, path: str, target: str) -> str:
    """What is wrong with a link; "" if it works, or leads out of the repository."""
    parts = urlsplit(target)
    if parts.scheme or parts.netloc or target.startswith(("{", "<", "%7B")):
        return ""
    target_path = _resolve_target(path, target)
    if parts.path and not _exists(change, target_path):
        return "" if _is_route(change, target_path, unquote(parts.path)) else "leads nowhere"
    has_fragment = parts.fragment and _MARKDOWN.search(target_path)
    missing = has_fragment and not _has_anchor(change, target_path, parts.fragment)
    return "names a heading that does not exist" if missing else ""


def _exists(change: Changeset, path: str) -> bool:
    paths = change.paths()
    if path in (".", "") or path in paths:
        return True
    folder = path.rstrip("/") + "/"
    return path.startswith("../") or any(each.startswith(folder) for each in paths)


def _is_route(change: Changeset, target_path: str, link_path: str) -> bool:
    """True for pages of a generated site, and for GitLab's own pages: neither are files."""
    if _GITLAB_PAGE.match(target_path):
        return True
    bare = target_path.removesuffix(".html").rstrip("/")
    site = any(_SITE_SETTINGS.search(path) for path in change.paths())
    pages = (f"{bare}.md", f"{bare}/index.md", f"{bare}/README.md", f"{bare}.mdx", f"{bare}.rst")
    return site and (link_path.startswith("/") or any(page in change.paths() for page in pages))


def _has_anchor(change: Changeset, path: str, fragment: str) -> bool:
    data = change.read(path)
    if data is None or len(data) > LARGEST or _GENERATED_ANCHOR.fullmatch(fragment):
        return True
    text = data.decode("utf-8", "replace")
    explicit = (name for groups in _ANCHORS.findall(text) for name in groups)
    anchors = {*explicit, *_list_heading_anchors(text.split("\n"))}
    return unquote(fragment).lower() in {anchor.lower() for anchor in anchors}


def _list_heading_anchors(lines: list[str]) -> Iterator[str]:
    """Anchors of headings as GitLab and GitHub generate them: a repeated one gets a number."""
    times: dict[str, int] = {}
    for token, inline in pairwise(_parse_markdown(lines)):
        if token.type == "heading_open":
            texts = (t for t in inline.children or () if t.type in ("text", "code_inline"))
            heading = "".join(text.content for text in texts)
            slug = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
            yield f"{slug}-{times[slug]}" if slug in times else slug
            yield re.sub(r"-{2,}", "-", slug)
            times[slug] = times.get(slug, 0) + 1
