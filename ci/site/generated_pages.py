"""Pages of the site that no file of ``docs/`` holds: a hook of MkDocs (see ``mkdocs.yml``).

Reference pages are made from the code, the demo's page and the pictures from a demo that is run,
and the pages of the repository's root get links that hold on the site: none of them can be stale.
"""

import argparse
import dataclasses
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from ci.site.pictures import draw_pictures, run_demo
from gitlab_nightshift.cli import build_parser
from gitlab_nightshift.records import events
from gitlab_nightshift.registry.flag_registry import FLAGS, FlagEntry

ROOT = Path(__file__).parents[2]
FROM_ROOT = {
    "index.md": "README.md",
    "SECURITY.md": "SECURITY.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
}
_LINK = re.compile(r"(\]\()(?!\w+:)([^)#\s]+)")
_MODULE = re.compile(r"(?:\w+\.)+(?=\w)")
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_SECONDS = 600


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made here."""
    made = {name: _read_from_root(source) for name, source in FROM_ROOT.items()}
    made |= {"commands.md": render_commands(), "events.md": render_events()}
    made |= {"flags.md": render_flags(), "schemas.md": render_schemas(), **render_demo()}
    made["settings.schema.json"] = _run("config", "schema", "settings")
    for name, content in made.items():
        if old := files.get_file_from_path(name):  # a picture of docs/
            files.remove(old)
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links of ``docs/`` to pages of the root lead to their copies on the site."""
    return re.sub(r"\]\(\.\./((?:SECURITY|CONTRIBUTING|CHANGELOG)\.md)", r"](\1", markdown)


def _read_from_root(name: str) -> str:
    """A page of the repository's root, with links as the site has them."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return _LINK.sub(lambda found: found[1] + _move_link(found[2]), text)


def _move_link(target: str) -> str:
    return "index.md" if target == "README.md" else target.removeprefix("docs/")


def render_commands() -> str:
    """``--help`` of every command, as a terminal of 80 columns shows it."""
    parts = ["# Commands\n\nThe `--help` of each command.\n"]
    parts += [f"## {name}\n\n```text\n{text}```\n" for name, text in _list_help(build_parser())]
    return "\n".join(parts)


def _list_help(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    yield parser.prog, parser.format_help()
    for action in parser._actions:  # argparse has no public way to its commands
        if isinstance(action, argparse._SubParsersAction):
            for child in dict.fromkeys(action.choices.values()):
                yield from _list_help(child)


def render_events() -> str:
    """Every kind of event of ``events.jsonl`` with its fields."""
    kinds = [
        each
        for _, each in inspect.getmembers(events, dataclasses.is_dataclass)
        if each.__module__ == events.__name__
    ]
    parts = [
        "# Events\n\nEach line of `events.jsonl` is an object with `time`, `run_id`, `event` and"
        " the fields of its kind, in the types of Python.\n"
    ]
    lines = [
        (name, keys, kind)
        for kind in kinds
        for name, keys in events.list_line_formats(kind).items()
    ]
    return "\n".join(parts + [_render_event(*each) for each in lines])


def _render_event(name: str, keys: dict[str, str], kind: Any) -> str:
    fields = [
        (keys[each.name], _MODULE.sub("", inspect.formatannotation(each.type)))
        for each in dataclasses.fields(kind)
        if each.name in keys
    ]
    rows = "\n".join(f"| `{name}` | `{type_}` |" for name, type_ in fields)
    table = f"\n| field | type |\n|---|---|\n{rows}\n" if rows else ""
    return f"## {name}\n\n{inspect.cleandoc(kind.__doc__ or '')}\n{table}"


def render_flags() -> str:
    """Every red flag: what raises it, why it matters, its levels."""
    parts = [_render_flag(name, flag) for name, flag in FLAGS.items()]
    return "\n".join(["# Red flags\n\nWhat `nightshift check --explain FLAG` says.\n", *parts])


def _render_flag(name: str, flag: FlagEntry) -> str:
    levels = [f"`{flag.level}`", *(f"`{level}` in {name}" for name, level in flag.levels.items())]
    people = f"`{flag.human_level}`" + f", or `warn` if {flag.warn_if}" * bool(flag.warn_if)
    rows = ("level", ", ".join(levels)), ("in people's changes", people)
    table = "".join(f"| {what} | {value} |\n" for what, value in rows)
    return f"## {name}\n\n{flag.what} {flag.why}\n\n| | |\n|---|---|\n{table}"


def render_schemas() -> str:
    """How editors and programs get the JSON Schemas."""
    return """# JSON Schemas

| file | what it describes |
|---|---|
| [settings.schema.json](settings.schema.json) | `nightshift.yaml`, for editors and SchemaStore |
| [result.schema.json](result.schema.json) | `result.json` of a night |

`nightshift config schema settings` and `nightshift config schema result` print those of the version
that you have. For an editor, as the first line of `nightshift.yaml`:

```yaml
# yaml-language-server: $schema=nightshift.schema.json
```
"""


def render_demo() -> dict[str, str | bytes]:
    """The demo's job log, the page of its night and the pictures, from a demo that is run."""
    demo = run_demo()
    text = f"""# A night

What `nightshift demo` prints. The job of a night leaves [a page](night.html), too.

```text
{_COLOURS.sub("", demo.printed)}```
"""
    return {"demo.md": text, "night.html": demo.report, **draw_pictures(demo)}


def _run(*arguments: str) -> str:
    command = [sys.executable, "-P", "-m", "gitlab_nightshift", *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=_SECONDS)
    return done.stdout
