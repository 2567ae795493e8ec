"""Links and code examples in changed documentation."""

import ast
import json
import posixpath
import re
import textwrap
import tomllib
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import yaml

from gitlab_nightshift.verdict.change import Change, ChangedFile, Context, Found

if TYPE_CHECKING:
    from markdown_it.token import Token

_MARKDOWN = re.compile(r"\.(md|markdown)$", re.IGNORECASE)
_ANCHORS = re.compile(
    r"""<a\s[^>]*?(?:name|id)=["']([^"']+)|<\w+\s[^>]*?\bid=["']([^"']+)|\{#([\w-]+)\}"""
)
_SITE = re.compile(
    r"(^|/)(_config\.yml|mkdocs\.ya?ml|docusaurus\.config\.\w+|book\.toml|antora\.yml"
    r"|\.vitepress/.*)$"
)
LARGEST = 500_000


def broken_link(change: Change, _context: Context) -> Iterator[Found]:
    """Relative links and anchors that lead nowhere: new ones, and those that the change breaks."""
    gone = {file.old_path for file in change.files if file.status in "DR"}
    for file in _documents(change):
        added = {line.number for line in file.added}
        headings = set(_headings(file.old_lines)) - set(_headings(file.new_lines))
        for number, target in _links(file.new_lines):
            broken = target[1:] in headings or _place(file.path, target) in gone
            if (number in added or broken) and (why := _leads_nowhere(change, file.path, target)):
                yield Found(file.path, number, f"{target} {why}.")


def _documents(change: Change) -> Iterator[ChangedFile]:
    for file in change.files:
        new = file.difference.new
        if file.added and new is not None and len(new) <= LARGEST and _MARKDOWN.search(file.path):
            yield file


def _tokens(lines: list[str]) -> "list[Token]":
    from markdown_it import MarkdownIt

    text = "\n".join(lines)
    if text.startswith("---\n") and "\n---\n" in text:  # front matter; the lines keep their numbers
        head, _, body = text[4:].partition("\n---\n")
        text = "\n" * (head.count("\n") + 3) + body
    return MarkdownIt("commonmark").enable("table").parse(text)


def _links(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Line and target of each link and image; one whose target is defined elsewhere is there."""
    for token in _tokens(lines):
        for inner in token.children or ():
            target = inner.attrGet("href") or inner.attrGet("src")
            if isinstance(target, str) and token.map:
                block = range(token.map[0], min(token.map[1], len(lines)))
                plain = unquote(target)
                holds = (n for n in block if target in lines[n] or plain in lines[n])
                defined = (n for n, line in enumerate(lines) if _defines(line, plain))
                yield next(holds, next(defined, token.map[0])) + 1, target


def _defines(line: str, target: str) -> bool:
    return line.lstrip().startswith("[") and "]:" in line and target in line


def _place(path: str, target: str) -> str:
    """The file that a target names, by its path in the repository."""
    named = unquote(urlsplit(target).path)
    folder = "" if named.startswith("/") else posixpath.dirname(path)
    return posixpath.normpath(posixpath.join(folder, named.lstrip("/"))) if named else path


def _leads_nowhere(change: Change, path: str, target: str) -> str:
    parts = urlsplit(target)
    if parts.scheme or parts.netloc or target.startswith(("{", "<", "%7B")):
        return ""
    place = _place(path, target)
    if parts.path and not _exists(change, place):
        return "" if _is_route(change, place, unquote(parts.path)) else "leads nowhere"
    if (
        parts.fragment
        and _MARKDOWN.search(place)
        and not _has_anchor(change, place, parts.fragment)
    ):
        return "names a heading that is not there"
    return ""


def _exists(change: Change, place: str) -> bool:
    paths = change.paths()
    if place in (".", "") or place in paths:
        return True
    folder = place.rstrip("/") + "/"
    return place.startswith("../") or any(path.startswith(folder) for path in paths)


def _is_route(change: Change, place: str, named: str) -> bool:
    """Addresses of a generated site and of GitLab's own pages are no files."""
    if re.match(
        r"(\.\./)*(-|issues|merge_requests|pipelines|wikis|releases|tags|blob|tree|raw)(/|$)", place
    ):
        return True
    bare = place.removesuffix(".html").rstrip("/")
    site = any(_SITE.search(path) for path in change.paths())
    pages = (f"{bare}.md", f"{bare}/index.md", f"{bare}/README.md", f"{bare}.mdx", f"{bare}.rst")
    return site and (named.startswith("/") or any(page in change.paths() for page in pages))


def _has_anchor(change: Change, place: str, fragment: str) -> bool:
    data = change.read(place)
    if (
        data is None
        or len(data) > LARGEST
        or re.fullmatch(r"L\d+(-L?\d+)?|note-.*|fn:?.*", fragment)
    ):
        return True
    lines = data.decode("utf-8", "replace").split("\n")
    text = "\n".join(lines)
    known = {name for found in _ANCHORS.findall(text) for name in found if name}
    return unquote(fragment).lower() in {name.lower() for name in known | set(_headings(lines))}


def _headings(lines: list[str]) -> Iterator[str]:
    """Anchors as GitLab and GitHub make them of headings; the second of a kind gets a number."""
    seen: dict[str, int] = {}
    tokens = _tokens(lines)
    for token, inline in pairwise(tokens):
        if token.type == "heading_open":
            plain = "".join(
                t.content for t in inline.children or () if t.type in ("text", "code_inline")
            )
            slug = re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")
            yield f"{slug}-{seen[slug]}" if slug in seen else slug
            yield re.sub(r"-{2,}", "-", slug)
            seen[slug] = seen.get(slug, 0) + 1


# --- examples -------------------------------------------------------------------------------------


def broken_example(change: Change, _context: Context) -> Iterator[Found]:
    """Code blocks that changed and do not parse."""
    for file in _documents(change):
        added = {line.number for line in file.added}
        for token in _tokens(file.new_lines):
            if token.type != "fence" or not token.map:
                continue
            first, last = token.map[0] + 1, token.map[1]
            if added.isdisjoint(range(first, last + 1)):
                continue
            checker = _CHECKERS.get(_language(token.info))
            if checker and (why := _trouble(checker, token.content)):
                yield Found(file.path, first, f"The example does not parse: {why}.")


def _language(info: str) -> str:
    return re.split(r"[\s{,:]", info.strip().lstrip("{."))[0].lower().rstrip("}")


def _trouble(check: Callable[[str], None], text: str) -> str:
    if _PLACEHOLDERS.search(text):
        return ""
    try:
        check(textwrap.dedent(text))
    except SyntaxError as error:
        return f"{error.msg}, line {error.lineno}"
    except (ValueError, RecursionError, MemoryError, yaml.YAMLError) as error:
        return str(error).partition("\n")[0]
    return ""


_PLACEHOLDERS = re.compile(
    r"^\s*(\.\.\.|…)\s*,?$|<[A-Z_a-z][\w -]*>|\{\{|\{%|\[\.\.\.\]|\{\s*\.\.\.\s*\}|…"
    r"|\.\.\.\s*[}\])]",
    re.MULTILINE,
)


def _python(text: str) -> None:
    if re.search(r"^\s*(>>>|In \[\d+\]:)", text, re.MULTILINE):
        text = _typed(text)
    ast.parse(text if text.strip() else "pass")


def _typed(text: str) -> str:
    """What is typed at the prompts of a session, without what is answered."""
    found = re.findall(r"^[ \t]*(?:>>>|\.\.\.|In \[\d+\]:) ?(.*)$", text, re.MULTILINE)
    return "\n".join(found)


def _json(text: str) -> None:
    from gitlab_nightshift.verdict.tooling.parse import from_json

    from_json(text)


def _json_lines(text: str) -> None:
    for line in text.splitlines():
        if line.strip():
            json.loads(line)


def _yaml(text: str) -> None:
    for _ in yaml.parse(text, Loader=yaml.SafeLoader):
        pass


def _toml(text: str) -> None:
    tomllib.loads(text)


def _tree(language: str) -> Callable[[str], None]:
    def check(text: str) -> None:
        from gitlab_nightshift.verdict.syntax.languages import language_of, parser_of

        known = language_of(f"x.{language}")
        if known is not None:
            root = parser_of(known).parse(text.encode("utf-8", "replace")).root_node
            if root.has_error:
                raise ValueError("a mistake in the syntax")

    return check


_CHECKERS: dict[str, Callable[[str], None]] = {
    **dict.fromkeys(("python", "py", "python3", "pycon", "python-console"), _python),
    **dict.fromkeys(("json", "jsonc"), _json),
    **dict.fromkeys(("jsonl", "ndjson"), _json_lines),
    **dict.fromkeys(("yaml", "yml"), _yaml),
    "toml": _toml,
    **dict.fromkeys(("js", "javascript", "mjs", "node"), _tree("js")),
    **dict.fromkeys(("ts", "typescript"), _tree("ts")),
    "tsx": _tree("tsx"),
    "jsx": _tree("js"),
}
